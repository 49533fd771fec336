// SPDX-License-Identifier: Apache-2.0
// The cache: the key of a shard, its lock while it is made, and its commit.
#include "base/hash.h"
#include "base/log.h"
#include "base/pulse.h"
#include "base/text.h"
#include "data/shard.h"
#include "data/shard_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOCK_PATIENCE_S 600 // then we work without it: a commit is atomic, so the worst is work done twice

static enum status key_make(char out[33], const struct source *source, const struct labels *labels,
                            const struct tokenizer *tokenizer, const struct shard_options *options) {
    struct hash_stream *hash;
    uint32_t how[] = {(uint32_t)options->special,
                      options->max_length,
                      options->truncation,
                      labels->n,
                      options->spans,
                      options->spans ? options->doc_stride : 0,
                      (uint32_t)options->normalize};
    TRY(hash_begin(&hash));
    hash_add_string(hash, "finetuned token shard 2");
    hash_add(hash, how, sizeof how);
    for (uint32_t i = 0; i < labels->n; i++)
        hash_add_string(hash, labels->names[i]);
    tokenizer_hash(tokenizer, hash);
    source_hash(source, hash);
    hash_end(hash, out);
    return STATUS_OK;
}

// The finished shard, if it is there and right. With `say`, why a file that is there is not right goes to the log.
static bool cache_hit(struct shard *out, const char *path, const char *key, const struct source *source, bool say) {
    if (!file_exists(path))
        return false;
    enum status status = shard_open(out, path);
    if (status == STATUS_OK && strcmp(out->key, key) != 0)
        status = status_set(STATUS_DATA, "%s was made from something else (key %s, wanted %s)", path, out->key, key);
    if (status == STATUS_OK)
        status = shard_check_source(out, path, source);
    if (status == STATUS_OK)
        return true;
    if (say)
        log_warn("data: %s; it is made anew", status_message());
    shard_close(out);
    return false;
}

// What file systems without locks say; 524 is the kernel's own ENOTSUPP, which some let through to us.
static bool lock_is_unknown(int error) {
    return error == ENOLCK || error == EOPNOTSUPP || error == ENOSYS || error == 524;
}

// One try for the lock: 1 got it, 0 another has it, -1 with errno. The file may have been removed by the one who had it
// while we waited for it; then the lock is on nothing.
static int lock_try(int *out, const char *path) {
    struct stat ours, there;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return -1;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        int error = errno;
        close(fd);
        errno = error;
        return error == EWOULDBLOCK || error == EINTR ? 0 : -1;
    }
    if (fstat(fd, &ours) != 0 || stat(path, &there) != 0 || ours.st_ino != there.st_ino ||
        ours.st_dev != there.st_dev) {
        close(fd);
        return 0;
    }
    *out = fd;
    return 1;
}

// Takes the lock, or gives up waiting for it (*out = -1 then).
static enum status lock_take(int *out, const char *path, const char *shard) {
    struct timespec nap = {.tv_nsec = 20 * 1000 * 1000};
    *out = -1;
    for (unsigned naps = 0; naps < LOCK_PATIENCE_S * 50; naps++) {
        int got = lock_try(out, path);
        if (got > 0)
            return STATUS_OK;
        if (got < 0 && lock_is_unknown(errno)) {
            log_warn("data: %s: this file system has no locks; processes that start together may all tokenise", path);
            return STATUS_OK;
        }
        if (got < 0)
            return file_error(STATUS_IO, "data: open", path);
        if (naps == 50)
            log_info("data: waiting for another process that makes %s", shard);
        nanosleep(&nap, NULL);
        pulse_beat();
    }
    log_warn("data: %s was held for %d s by another process; going on without it", path, LOCK_PATIENCE_S);
    return STATUS_OK;
}

static void lock_drop(int fd, const char *path) {
    if (fd < 0)
        return;
    unlink(path);
    close(fd);
}

// What a process that was killed while it made the shard left beside it. Under the shard's lock: no other one makes it
// now.
static void leftovers_remove(const char *shard) {
    const char *name = strrchr(shard, '/');
    char *folder = name ? strndup(shard, (size_t)(name - shard) + 1) : strdup(".");
    char **names = NULL;
    size_t n = 0;
    if (folder)
        file_list(&names, &n, folder);
    for (size_t i = 0; i < n; i++) {
        bool left = file_is_temporary_for(names[i], name ? name + 1 : shard);
        char *path = left ? path_join(folder, names[i]) : NULL;
        if (path && unlink(path) == 0)
            log_info("removed %s, left by a process that was ended", path);
        free(path);
    }
    file_list_free(names, n);
    free(folder);
}

// Killed between its commit and here: the shard is good, but the lock's file is still there.
static void lock_clear(const char *path, const char *shard) {
    int fd = -1;
    if (!file_exists(path) || access(path, W_OK) != 0 || lock_try(&fd, path) <= 0)
        return;
    leftovers_remove(shard);
    lock_drop(fd, path);
    log_info("removed %s, left by a process that was ended", path);
}

struct wanted {
    char key[33];
    char *path, *lock;
};

static enum status wanted_make(struct wanted *out, const char *cache, enum source_split split,
                               const struct source *source, const struct labels *labels,
                               const struct tokenizer *tokenizer, const struct shard_options *options) {
    *out = (struct wanted){0};
    TRY(key_make(out->key, source, labels, tokenizer, options));
    out->path =
        text_format("%s/%s-%s-%.16s.shard", cache, source->name ? source->name : "task", split_names[split], out->key);
    out->lock = out->path ? text_format("%s.lock", out->path) : NULL;
    return out->lock ? STATUS_OK : status_set(STATUS_SYSTEM, "data: no memory");
}

static enum status shard_commit(struct shard *out, const struct wanted *wanted, const char *image, size_t size) {
    TRY(file_replace(wanted->path, image, size));
    TRY(shard_open(out, wanted->path));
    if (strcmp(out->key, wanted->key) == 0)
        return STATUS_OK;
    shard_close(out);
    return status_set(STATUS_IO, "%s: another process replaced it with a shard of another key", wanted->path);
}

// What is no file can't be replaced by one; a damaged file can. Asked before anything is read for it, by --dry-run too.
static enum status wanted_fits(const struct wanted *wanted) {
    struct stat info;
    bool bad = stat(wanted->path, &info) == 0 && !S_ISREG(info.st_mode);
    return bad ? status_set(STATUS_USAGE,
                            "data.cache: %s is %s, and has a shard's name: remove it, or choose another data.cache",
                            wanted->path, S_ISDIR(info.st_mode) ? "a folder" : "no regular file")
               : STATUS_OK;
}

enum status shard_prepare(struct shard *out, bool *made, const char *cache, enum source_split split,
                          const struct source *source, const struct labels *labels, const struct tokenizer *tokenizer,
                          const struct shard_options *options, struct pool *pool) {
    struct wanted wanted;
    char *image = NULL;
    size_t size = 0;
    int lock = -1;
    bool hit = false;
    *out = (struct shard){0};
    enum status status = wanted_make(&wanted, cache, split, source, labels, tokenizer, options);
    if (status == STATUS_OK)
        status = wanted_fits(&wanted);
    if (status != STATUS_OK)
        goto done;
    hit = cache_hit(out, wanted.path, wanted.key, source, false);
    if (hit && !options->spare)
        lock_clear(wanted.lock, wanted.path);
    if (hit)
        goto done;
    if (options->spare) {
        struct shard_options own = *options;
        own.spare = NULL;
        status = shard_prepare(out, NULL, options->spare, split, source, labels, tokenizer, &own, pool);
        goto done;
    }
    TRY_GOTO(file_make_place(NULL, "data.cache", cache), done);
    TRY_GOTO(lock_take(&lock, wanted.lock, wanted.path), done);
    if (lock >= 0)
        leftovers_remove(wanted.path);
    hit = cache_hit(out, wanted.path, wanted.key, source, true); // by whoever had the lock
    if (hit)
        goto done;
    TRY_GOTO(shard_build(&image, &size, wanted.key, source, labels->n, tokenizer, options, pool), done);
    status = shard_commit(out, &wanted, image, size);
done:
    if (made)
        *made = status == STATUS_OK && !hit;
    free(image);
    lock_drop(lock, wanted.lock);
    free(wanted.path);
    free(wanted.lock);
    return status;
}
