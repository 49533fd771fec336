// SPDX-License-Identifier: Apache-2.0
// A shim between a program and the C library, for tests only: it counts the calls that change or read files, take locks
// and memory, and makes the n-th one fail, fall short, come late, hang, or end the process.
//
// As a preloaded object (LD_PRELOAD=libfinetuned_shim.so) it is driven by environment variables; anything in them that
// is not understood ends the process with 99 at its start:
//
//     SHIM_UNDER=/folder    file calls count below this folder only (after resolving it); calls that take memory, and
//                           maps without a file, count from main's start on. Needed with SHIM_CALLS.
//     SHIM_CALLS=a,b,…      which calls are counted together: kinds of the table in shim.c, or one of its groups:
//                           changes (all that alter a file system), reads, locks, memory
//     SHIM_AT=n             the n-th of them (from 1) is hit; without it they are only counted
//     SHIM_FOR=m | all      so many from there on; default 1
//     SHIM_DO=WHAT          fail:ERRNO (EIO, ENOSPC, … or a number) | short (half of a read or write) | delay:MS | hang
//     |
//                           kill-before | kill-after
//     SHIM_RANK=r           only in this rank of an MPI world
//     SHIM_PROGRAM=name     only in a program of this name (others that inherit the environment are left alone)
//     SHIM_LOG=file         appended to: "hit N KIND PATH" as it happens, "count KIND N" of every kind at the end
//
// Calls that the C library makes inside itself (stdio's write, nftw's opendir) do not pass here; those of any other
// library do. Under a sanitizer its library must come first in LD_PRELOAD, and then memory is its own: no memory calls.
//
// Linked into a test it is driven by shim_begin and shim_end.
#ifndef FINETUNED_TESTS_SHIM_SHIM_H
#define FINETUNED_TESTS_SHIM_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum shim_kind {
    SHIM_WRITE,    // write, writev
    SHIM_PWRITE,   // pwrite
    SHIM_FSYNC,    // fsync, fdatasync, sync_file_range
    SHIM_RENAME,   // rename, renameat, renameat2
    SHIM_TRUNCATE, // truncate, ftruncate, fallocate, posix_fallocate
    SHIM_MKDIR,
    SHIM_UNLINK, // unlink, unlinkat, rmdir, remove
    SHIM_LINK,   // link, symlink and their -at
    SHIM_CREATE, // open with O_CREAT or O_TMPFILE
    SHIM_CLOSE,
    SHIM_OPEN, // open without them, opendir
    SHIM_READ, // read
    SHIM_PREAD,
    SHIM_MMAP,   // of a file
    SHIM_LOCK,   // flock, lockf, fcntl with F_SETLK, F_SETLKW and their OFD forms
    SHIM_MALLOC, // malloc, calloc, realloc, reallocarray, memalign, aligned_alloc, posix_memalign, maps without a file
    SHIM_KINDS
};

enum shim_action { SHIM_NOTHING, SHIM_FAIL, SHIM_SHORT, SHIM_DELAY, SHIM_HANG, SHIM_KILL_BEFORE, SHIM_KILL_AFTER };

struct shim_plan {
    uint32_t kinds;    // bit of each that is counted
    uint64_t at;       // from 1; 0: only count
    uint64_t n;        // how many; UINT64_MAX: all that follow
    int error;         // of SHIM_FAIL
    unsigned delay_ms; // of SHIM_DELAY
    enum shim_action action;
};

// false: a word that is not known, told on standard error.
bool shim_kinds_parse(uint32_t *kinds, const char *words);
bool shim_action_parse(struct shim_plan *plan, const char *word);

// `under`: an absolute, resolved folder.
void shim_begin(const struct shim_plan *plan, const char *under);
// How many calls of the plan's kinds came.
uint64_t shim_end(void);

// ---- for the wrappers

// What is to be done at this call; SHIM_NOTHING also leaves errno alone. SHIM_FAIL sets errno; SHIM_DELAY, SHIM_HANG
// and SHIM_KILL_BEFORE have been done. A caller that gets SHIM_KILL_AFTER calls shim_kill behind the call.
enum shim_action shim_call_fd(enum shim_kind kind, int fd);
enum shim_action shim_call_path(enum shim_kind kind, int folder, const char *path);
enum shim_action shim_call(enum shim_kind kind); // of no file
_Noreturn void shim_kill(void);

#endif
