// SPDX-License-Identifier: Apache-2.0
// Files read whole under a ceiling or mapped, and files committed atomically:
// temporary name, write, fsync, rename, fsync of the folder. Messages name the path and, for a full disk, a hint.
#ifndef FINETUNED_BASE_FILE_H
#define FINETUNED_BASE_FILE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Reads all of the regular file `path` into malloc'ed memory with a NUL behind it. Larger than `ceiling`: STATUS_DATA.
// A path that is missing, a link in a circle, a folder, pipe or device: STATUS_DATA; unreadable otherwise: STATUS_IO.
// `size` may be NULL.
enum status file_read(char **out, size_t *size, const char *path, size_t ceiling);
// The same of what a command line names, which may be a pipe.
enum status file_read_stream(char **out, size_t *size, const char *path, size_t ceiling);
// STATUS_DATA if something that is no regular file, nor a link to one, has that name.
enum status file_check_regular(const char *path);
// "verb path: what errno says (what to do)". Leaves errno as it was.
enum status file_error(enum status status, const char *verb, const char *path);
// What errno says of a file that can't be opened or found: there is no such thing (a name or link that leads nowhere or
// in a circle), which is the data's fault (STATUS_DATA), or the disk's (STATUS_IO).
enum status file_missing_status(int error);

struct file_map {
    const char *at; // NULL if the file is empty
    size_t size;
};
// Maps a regular file read-only. Missing: STATUS_DATA.
enum status file_map_open(struct file_map *out, const char *path);
void file_map_close(struct file_map *map);
// A Git LFS pointer is what a clone without LFS leaves in a file's place. All of the above refuse one (STATUS_DATA); so
// does this, for who opens `path` by other means; a path that can't be opened is passed over.
enum status file_check_pointer(const char *path);
bool file_is_pointer(const char *path);
// Its pages need not stay in memory: they are read again where they are used again.
void file_map_rest(const struct file_map *map);

bool file_exists(const char *path);
// Something of that name is there, a link that leads nowhere included: who then opens it gets the message.
bool file_named(const char *path);
bool file_is_folder(const char *path);

// One file on its way. Begin, write any number of times, then commit or roll back (both free it).
struct file_write;
enum status file_begin(struct file_write **out, const char *path);
enum status file_put(struct file_write *file, const void *bytes, size_t size);
enum status file_commit(struct file_write *file);
void file_rollback(struct file_write *file);

// Commits a finished temporary file made by others (fsync, rename, fsync of the folder).
enum status file_adopt(const char *path, const char *temporary);

// All of the above at once.
enum status file_replace(const char *path, const void *bytes, size_t size);
// Copies a file, committed atomically.
enum status file_copy(const char *to, const char *from);

// write(2) and pwrite(2) until all is written, EINTR included. `path` is for the message.
enum status file_write_all(int fd, const void *bytes, size_t size, const char *path);
enum status file_pwrite_all(int fd, const void *bytes, size_t size, uint64_t offset, const char *path);

// mkdir -p.
enum status file_make_folders(const char *path);
// Whether mkdir -p and a file inside could be made, with nothing changed. STATUS_USAGE: it is a file, or one is on the
// way, or a link in a circle; STATUS_IO: a link leads nowhere, or we may not write. `key` stands before the message:
// "out".
enum status file_place(const char *key, const char *path);
// The same, and makes them. *made (malloc'ed; `made` may be NULL): the first folder that was not there; NULL: all were.
enum status file_make_place(char **made, const char *key, const char *path);
// The first folder on the way to `path` that is not there, malloc'ed; NULL: all are (or no memory).
char *file_first_missing(const char *path);
// Takes `path` away again, and what is above it up to `made`, as far as they are empty.
void file_unmake(const char *path, const char *made);
// The nearest folder above `path` (or itself) that is there, malloc'ed; NULL if there is no memory.
char *file_nearest_folder(const char *path);
// Whether it begins with the ~ of a home that a shell would have filled in: "~", "~/x". Nobody means a folder of that
// name.
bool file_is_home(const char *path);
// Where `path` leads: absolute, without links, "." and "..", malloc'ed. What of it is not there yet keeps its names.
enum status file_real(char **out, const char *path);
// Whether a path is a folder's or lies below it; both as file_real gives them.
bool file_is_in(const char *path, const char *folder);
// fsync(2), in steps that tell a watcher that it goes on (base/pulse.h): the file's bytes a block after the other, then
// the rest. 0, or -1 with errno.
int file_sync(int fd);
// fsync of a folder.
enum status file_sync_folder(const char *path);
// rm -r; a missing path is no error. Symbolic links are removed, not followed.
enum status file_remove(const char *path);
// The names in a folder (without . and ..), sorted by bytes; `names` is malloc'ed, as is each name.
enum status file_list(char ***names, size_t *n, const char *path);
void file_list_free(char **names, size_t n);
// malloc'ed name for what is on its way to `path`, in its folder: ".<name>.tmp-finetuned-<pid>-<n>", another each time.
// What is on its way to such a name is on its way to what that one is for. NULL if there is no memory.
char *file_temporary(const char *path);
// How many bytes of a temporary name, from name + 1 on, are the name that it is for; 0: it is not one of ours.
size_t file_temporary_of(const char *name);
bool file_is_temporary(const char *name);
// Whether it is a temporary name for `base`.
bool file_is_temporary_for(const char *name, const char *base);
// Whether a folder holds what makes one a run's: .owner, events.jsonl or job.yaml.
bool file_is_run_folder(const char *path);
// Removes what a process that was ended left in `folder`: the names that `is_left` says, each told in the log; a run's
// folder stays, with a warning. A folder that is not there is no error. For the one who holds the folder.
enum status file_sweep(const char *folder, bool (*is_left)(const char *name));
// The same for one file or folder `path`: its temporary names, whose process is not on this host (any more), beside it.
enum status file_sweep_beside(const char *path);
// Renames `from` to the first of <name>.aside-1, -2, … that is free; *to: malloc'ed, its new path. STATUS_IO.
enum status file_set_aside(char **to, const char *from, const char *name);
// How much of a name stands before the ".aside-<digits>" that file_set_aside gave it; all of it where there is none.
size_t file_aside_of(const char *name);
// Makes or atomically replaces a relative symbolic link.
enum status file_link(const char *path, const char *target);

// malloc'ed "folder/name"; `name` alone if it is absolute or `folder` is empty. NULL if there is no memory.
char *path_join(const char *folder, const char *name);

// For files that are copied as they are into what we publish: STATUS_DATA if <folder>/<name> is a link to something
// outside the folder (a model of unknown origin would so take any file of this host along). A link of the Hugging Face
// hub's cache, from snapshots/<revision> into the blobs beside it, is none.
enum status file_stays(const char *folder, const char *name);

#endif
