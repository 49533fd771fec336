// SPDX-License-Identifier: Apache-2.0
// The C library's functions that the shim stands before, a line each where that does.
#include "shim.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

void *shim_next(const char *name);
void *shim_next(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (found)
        return found;
    fprintf(stderr, "shim: the C library has no %s\n", name);
    _exit(99);
}

// The function behind ours, looked up once.
#define NEXT(name)                                                                                                     \
    static __typeof__(&name) next;                                                                                     \
    if (!next)                                                                                                         \
    next = (__typeof__(&name))(uintptr_t)shim_next(#name)

// An action that needs the call itself.
#define FINISH(action, call)                                                                                           \
    do {                                                                                                               \
        __typeof__(call) result_ = (call);                                                                             \
        if ((action) == SHIM_KILL_AFTER)                                                                               \
            shim_kill();                                                                                               \
        return result_;                                                                                                \
    } while (0)

// A call whose failure is -1.
#define CALL(name, asked, ...)                                                                                         \
    NEXT(name);                                                                                                        \
    enum shim_action action = asked;                                                                                   \
    if (action == SHIM_FAIL)                                                                                           \
        return -1;                                                                                                     \
    FINISH(action, next(__VA_ARGS__))

static size_t half(enum shim_action action, size_t size) {
    return action == SHIM_SHORT && size > 1 ? size / 2 : size;
}

// ---- bytes

ssize_t write(int fd, const void *bytes, size_t size) {
    CALL(write, shim_call_fd(SHIM_WRITE, fd), fd, bytes, half(action, size));
}

ssize_t writev(int fd, const struct iovec *parts, int n) {
    CALL(writev, shim_call_fd(SHIM_WRITE, fd), fd, parts, n);
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t at) {
    CALL(pwrite, shim_call_fd(SHIM_PWRITE, fd), fd, bytes, half(action, size), at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t at) {
    CALL(pwrite64, shim_call_fd(SHIM_PWRITE, fd), fd, bytes, half(action, size), at);
}

ssize_t read(int fd, void *bytes, size_t size) {
    CALL(read, shim_call_fd(SHIM_READ, fd), fd, bytes, half(action, size));
}

ssize_t pread(int fd, void *bytes, size_t size, off_t at) {
    CALL(pread, shim_call_fd(SHIM_PREAD, fd), fd, bytes, half(action, size), at);
}

ssize_t pread64(int fd, void *bytes, size_t size, off64_t at) {
    CALL(pread64, shim_call_fd(SHIM_PREAD, fd), fd, bytes, half(action, size), at);
}

int fsync(int fd) {
    CALL(fsync, shim_call_fd(SHIM_FSYNC, fd), fd);
}

int fdatasync(int fd) {
    CALL(fdatasync, shim_call_fd(SHIM_FSYNC, fd), fd);
}

int sync_file_range(int fd, off64_t at, off64_t size, unsigned flags) {
    CALL(sync_file_range, shim_call_fd(SHIM_FSYNC, fd), fd, at, size, flags);
}

int ftruncate(int fd, off_t size) {
    CALL(ftruncate, shim_call_fd(SHIM_TRUNCATE, fd), fd, size);
}

int ftruncate64(int fd, off64_t size) {
    CALL(ftruncate64, shim_call_fd(SHIM_TRUNCATE, fd), fd, size);
}

int truncate(const char *path, off_t size) {
    CALL(truncate, shim_call_path(SHIM_TRUNCATE, AT_FDCWD, path), path, size);
}

int fallocate(int fd, int mode, off_t at, off_t size) {
    CALL(fallocate, shim_call_fd(SHIM_TRUNCATE, fd), fd, mode, at, size);
}

int fallocate64(int fd, int mode, off64_t at, off64_t size) {
    CALL(fallocate64, shim_call_fd(SHIM_TRUNCATE, fd), fd, mode, at, size);
}

int posix_fallocate(int fd, off_t at, off_t size) {
    NEXT(posix_fallocate);
    enum shim_action action = shim_call_fd(SHIM_TRUNCATE, fd);
    if (action == SHIM_FAIL)
        return errno;
    FINISH(action, next(fd, at, size));
}

// A file that is closed badly is closed.
int close(int fd) {
    NEXT(close);
    enum shim_action action = shim_call_fd(SHIM_CLOSE, fd);
    int error = errno, result = next(fd);
    if (action == SHIM_KILL_AFTER)
        shim_kill();
    if (action == SHIM_FAIL) {
        errno = error;
        return -1;
    }
    return result;
}

// ---- names

int rename(const char *from, const char *to) {
    CALL(rename, shim_call_path(SHIM_RENAME, AT_FDCWD, to), from, to);
}

int renameat(int a, const char *from, int b, const char *to) {
    CALL(renameat, shim_call_path(SHIM_RENAME, b, to), a, from, b, to);
}

int renameat2(int a, const char *from, int b, const char *to, unsigned flags) {
    CALL(renameat2, shim_call_path(SHIM_RENAME, b, to), a, from, b, to, flags);
}

int mkdir(const char *path, mode_t mode) {
    CALL(mkdir, shim_call_path(SHIM_MKDIR, AT_FDCWD, path), path, mode);
}

int mkdirat(int folder, const char *path, mode_t mode) {
    CALL(mkdirat, shim_call_path(SHIM_MKDIR, folder, path), folder, path, mode);
}

int unlink(const char *path) {
    CALL(unlink, shim_call_path(SHIM_UNLINK, AT_FDCWD, path), path);
}

int unlinkat(int folder, const char *path, int flags) {
    CALL(unlinkat, shim_call_path(SHIM_UNLINK, folder, path), folder, path, flags);
}

int rmdir(const char *path) {
    CALL(rmdir, shim_call_path(SHIM_UNLINK, AT_FDCWD, path), path);
}

int remove(const char *path) {
    CALL(remove, shim_call_path(SHIM_UNLINK, AT_FDCWD, path), path);
}

int link(const char *from, const char *to) {
    CALL(link, shim_call_path(SHIM_LINK, AT_FDCWD, to), from, to);
}

int linkat(int a, const char *from, int b, const char *to, int flags) {
    CALL(linkat, shim_call_path(SHIM_LINK, b, to), a, from, b, to, flags);
}

int symlink(const char *target, const char *path) {
    CALL(symlink, shim_call_path(SHIM_LINK, AT_FDCWD, path), target, path);
}

int symlinkat(const char *target, int folder, const char *path) {
    CALL(symlinkat, shim_call_path(SHIM_LINK, folder, path), target, folder, path);
}

// ---- open

static bool open_makes(int flags) {
    return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE;
}

static enum shim_action open_ask(int folder, const char *path, int flags) {
    return shim_call_path(open_makes(flags) ? SHIM_CREATE : SHIM_OPEN, folder, path);
}

// The mode that stands behind the flags when something is made.
#define OPEN_MODE(flags)                                                                                               \
    mode_t mode = 0;                                                                                                   \
    if (open_makes(flags)) {                                                                                           \
        va_list args;                                                                                                  \
        va_start(args, flags);                                                                                         \
        mode = va_arg(args, mode_t);                                                                                   \
        va_end(args);                                                                                                  \
    }

int open(const char *path, int flags, ...) {
    OPEN_MODE(flags);
    CALL(open, open_ask(AT_FDCWD, path, flags), path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    OPEN_MODE(flags);
    CALL(open64, open_ask(AT_FDCWD, path, flags), path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...) {
    OPEN_MODE(flags);
    CALL(openat, open_ask(folder, path, flags), folder, path, flags, mode);
}

int openat64(int folder, const char *path, int flags, ...) {
    OPEN_MODE(flags);
    CALL(openat64, open_ask(folder, path, flags), folder, path, flags, mode);
}

DIR *opendir(const char *path) {
    NEXT(opendir);
    enum shim_action action = shim_call_path(SHIM_OPEN, AT_FDCWD, path);
    if (action == SHIM_FAIL)
        return NULL;
    FINISH(action, next(path));
}

// ---- maps and locks

static enum shim_action map_ask(int fd, int flags) {
    return flags & MAP_ANONYMOUS ? shim_call(SHIM_MALLOC) : shim_call_fd(SHIM_MMAP, fd);
}

void *mmap(void *where, size_t size, int protection, int flags, int fd, off_t at) {
    NEXT(mmap);
    enum shim_action action = map_ask(fd, flags);
    if (action == SHIM_FAIL)
        return MAP_FAILED;
    FINISH(action, next(where, size, protection, flags, fd, at));
}

void *mmap64(void *where, size_t size, int protection, int flags, int fd, off64_t at) {
    NEXT(mmap64);
    enum shim_action action = map_ask(fd, flags);
    if (action == SHIM_FAIL)
        return MAP_FAILED;
    FINISH(action, next(where, size, protection, flags, fd, at));
}

int flock(int fd, int how) {
    CALL(flock, shim_call_fd(SHIM_LOCK, fd), fd, how);
}

int lockf(int fd, int how, off_t size) {
    CALL(lockf, shim_call_fd(SHIM_LOCK, fd), fd, how, size);
}

static enum shim_action fcntl_ask(int fd, int command) {
    bool locks = command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK || command == F_OFD_SETLKW;
    return locks ? shim_call_fd(SHIM_LOCK, fd) : SHIM_NOTHING;
}

// All commands' third arguments pass as a pointer does.
#define FCNTL_ARGUMENT(command)                                                                                        \
    va_list args;                                                                                                      \
    va_start(args, command);                                                                                           \
    void *argument = va_arg(args, void *);                                                                             \
    va_end(args)

int fcntl(int fd, int command, ...) {
    FCNTL_ARGUMENT(command);
    CALL(fcntl, fcntl_ask(fd, command), fd, command, argument);
}

int fcntl64(int fd, int command, ...) {
    FCNTL_ARGUMENT(command);
    CALL(fcntl64, fcntl_ask(fd, command), fd, command, argument);
}

// ---- memory: the C library's own names behind malloc, so that dlsym, which takes memory itself, is not needed. A
// sanitizer has these to itself.

#ifndef SHIM_NO_MEMORY

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

static bool memory_fails(void) {
    enum shim_action action = shim_call(SHIM_MALLOC);
    if (action == SHIM_KILL_AFTER)
        shim_kill();
    return action == SHIM_FAIL;
}

void *malloc(size_t size) {
    return memory_fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size) {
    return memory_fails() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *memory, size_t size) {
    return memory_fails() ? NULL : __libc_realloc(memory, size);
}

void *reallocarray(void *memory, size_t n, size_t size) {
    if (size && n > SIZE_MAX / size) {
        errno = ENOMEM;
        return NULL;
    }
    return memory_fails() ? NULL : __libc_realloc(memory, n * size);
}

void *memalign(size_t alignment, size_t size) {
    return memory_fails() ? NULL : __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    return memory_fails() ? NULL : __libc_memalign(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size) {
    void *made = memory_fails() ? NULL : __libc_memalign(alignment, size);
    if (!made)
        return ENOMEM;
    *out = made;
    return 0;
}

#endif
