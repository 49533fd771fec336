// SPDX-License-Identifier: Apache-2.0
// What the files behind base/file.h share: file.c (reading), file_write.c (one file on its way), temporary.c (its name,
// and what is left of one), folder.c (folders, links).
#ifndef FINETUNED_BASE_FILE_PARTS_H
#define FINETUNED_BASE_FILE_PARTS_H

#include "base/file.h"

#include <sys/types.h>

// Opens a regular file for reading. Missing, and all else that has that name: STATUS_DATA, and a pipe without a writer
// does not block; a Git LFS pointer likewise. `streams`: a pipe or device will do.
struct stat;
enum status file_open_read(int *fd, struct stat *info, const char *path, bool streams);
// Why `path` could not be opened, by errno: what is missing is the user's mistake (STATUS_DATA), the rest the disk's.
enum status file_open_error(const char *path);
// read(2) until it is not interrupted.
ssize_t file_read_some(int fd, void *bytes, size_t size);
// Bytes of `path` up to and with its last slash; 0 if it has none.
size_t path_folder_size(const char *path);
// fsync of the folder that holds `path`.
enum status path_sync_parent(const char *path);

#endif
