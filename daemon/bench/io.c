// SPDX-License-Identifier: Apache-2.0
// finetuned bench io: what a checkpoint will meet on a file system: large blocks written, fsynced and read, and small
// files committed one after the other.
#include "daemon/bench/bench.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/rng.h"
#include "train/stop.h"
#include "train/trainer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define BLOCK ((size_t)1 << 20) // bytes of one pwrite; a multiple of ALIGNMENT
#define ALIGNMENT 4096u
#define COMMIT_BYTES 4096u         // a manifest's size
#define SPARE ((uint64_t)16 << 20) // bytes that stay free

static struct {
    const char *dir, *size;
    int64_t commits;
    bool json;
} given = {.dir = ".", .size = "256MiB", .commits = 100};

struct io_bench {
    uint64_t size; // bytes of the large file, whole blocks
    char *block;   // (BLOCK)
    char *folder;  // ours: in --dir, removed in the end
    int fd;        // the large file, which has no name any more
    double write_s, fsync_s, read_s;
    double *commits; // (given.commits) seconds of each
};

static enum status io_stopped(void) {
    return stop_signal()
               ? status_set(STATUS_AGAIN, "bench io: stopped by %s; its files are removed", stop_name(stop_signal()))
               : STATUS_OK;
}

static enum status io_size(struct io_bench *b) {
    int64_t size;
    if (!text_to_size(given.size, &size) || size < (int64_t)BLOCK)
        return status_set(STATUS_USAGE, "bench io: --size is '%s', must be 1MiB or more (bytes, KiB, MiB, GiB, TiB)",
                          given.size);
    b->size = (uint64_t)size / BLOCK * BLOCK;
    return STATUS_OK;
}

// Refused before anything is written: a full disk would be in the way of others.
static enum status io_room(const struct io_bench *b) {
    struct statvfs fs;
    if (statvfs(given.dir, &fs) != 0)
        return status_errno(STATUS_IO, "bench io: %s", given.dir);
    uint64_t room = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (room >= SPARE && room - SPARE >= b->size)
        return STATUS_OK;
    return status_set(
        STATUS_IO,
        "bench io: %s: No space left on device (%.1f MiB needed, %.1f MiB free; give --size or another --dir)",
        given.dir, (double)(b->size + SPARE) / 1048576, (double)room / 1048576);
}

// The large file loses its name at once: whatever ends us, nothing stays.
static enum status io_open(struct io_bench *b) {
    b->folder = text_format("%s/finetuned-bench-XXXXXX", given.dir);
    b->commits = calloc((size_t)given.commits, sizeof *b->commits);
    b->block = aligned_alloc(ALIGNMENT, BLOCK);
    if (!b->folder || !b->commits || !b->block)
        return status_set(STATUS_SYSTEM, "bench io: no memory");
    struct rng rng = rng_stream(1, 1); // what can't be compressed
    for (size_t i = 0; i < BLOCK; i += sizeof(uint64_t))
        memcpy(b->block + i, &(uint64_t){rng_u64(&rng)}, sizeof(uint64_t));
    if (!mkdtemp(b->folder)) {
        enum status status = status_errno(STATUS_IO, "bench io: making a folder in %s", given.dir);
        free(b->folder);
        b->folder = NULL;
        return status;
    }
    char *path = path_join(b->folder, "large");
    b->fd = path ? open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
    enum status status = b->fd >= 0 && unlink(path) == 0
                             ? STATUS_OK
                             : status_errno(STATUS_IO, "bench io: making %s", path ? path : "a file");
    free(path);
    return status;
}

static enum status io_write(struct io_bench *b) {
    double begin = clock_seconds();
    for (uint64_t at = 0; at < b->size; at += BLOCK) {
        TRY(io_stopped());
        memcpy(b->block, &at, sizeof at); // no two blocks alike
        TRY(file_pwrite_all(b->fd, b->block, BLOCK, at, given.dir));
    }
    b->write_s = clock_seconds() - begin;
    begin = clock_seconds();
    if (fsync(b->fd) != 0)
        return status_errno(STATUS_IO, "bench io: fsync in %s", given.dir);
    b->fsync_s = clock_seconds() - begin;
    return io_stopped();
}

// After the kernel was asked to forget the pages (what it may ignore, as on tmpfs).
static enum status io_read(struct io_bench *b) {
    posix_fadvise(b->fd, 0, 0, POSIX_FADV_DONTNEED);
    const double begin = clock_seconds();
    for (uint64_t at = 0; at < b->size;) {
        TRY(io_stopped());
        ssize_t n = pread(b->fd, b->block, BLOCK, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n ? status_errno(STATUS_IO, "bench io: reading in %s", given.dir)
                     : status_set(STATUS_IO, "bench io: %s: the file that was written ends at byte %llu", given.dir,
                                  (unsigned long long)at);
        at += (uint64_t)n;
    }
    b->read_s = clock_seconds() - begin;
    return STATUS_OK;
}

// Temporary name, write, fsync, rename, fsync of the folder.
static enum status io_commits(struct io_bench *b) {
    char *path = path_join(b->folder, "small");
    enum status status = path ? STATUS_OK : status_set(STATUS_SYSTEM, "bench io: no memory");
    for (int64_t i = 0; status == STATUS_OK && i < given.commits; i++) {
        const double begin = clock_seconds();
        status = file_replace(path, b->block, COMMIT_BYTES);
        b->commits[i] = clock_seconds() - begin;
        if (status == STATUS_OK)
            status = io_stopped();
    }
    free(path);
    return status;
}

static void io_close(struct io_bench *b) {
    if (b->fd >= 0)
        close(b->fd);
    if (b->folder && file_remove(b->folder) != STATUS_OK)
        log_warn("bench io: %s could not be removed", b->folder);
    free(b->folder);
    free(b->commits);
    free(b->block);
}

static void io_json(const struct io_bench *b, double median, double worst, struct text *json) {
    const double mb = 1e-6 * (double)b->size;
    text_puts(json, "{");
    bench_string(json, "dir", given.dir);
    bench_number(json, "bytes", (double)b->size);
    bench_number(json, "block_bytes", BLOCK);
    bench_number(json, "write_mb_per_s", mb / b->write_s);
    bench_number(json, "fsync_s", b->fsync_s);
    bench_number(json, "write_fsync_mb_per_s", mb / (b->write_s + b->fsync_s));
    bench_number(json, "read_mb_per_s", mb / b->read_s);
    bench_number(json, "commits", (double)given.commits);
    bench_number(json, "commit_ms", 1e3 * median);
    bench_number(json, "commit_worst_ms", 1e3 * worst);
    text_puts(json, "}");
}

static void io_print(const struct io_bench *b, double median, double worst) {
    const double mb = 1e-6 * (double)b->size;
    printf("%s: a file of %.0f MB in blocks of 1 MiB, then %lld commits of 4 KiB\n", given.dir, mb,
           (long long)given.commits);
    printf("%-16s %9.1f MB/s\n%-16s %9.3f s\n%-16s %9.1f MB/s\n%-16s %9.1f MB/s\n", "write", mb / b->write_s, "fsync",
           b->fsync_s, "write and fsync", mb / (b->write_s + b->fsync_s), "read", mb / b->read_s);
    printf("%-16s %9.2f ms, the slowest %.2f ms\n", "commit", 1e3 * median, 1e3 * worst);
}

static enum status io_run(struct text *json) {
    struct io_bench b = {.fd = -1};
    enum status status;
    TRY(io_size(&b));
    TRY(stop_install());
    TRY(stop_add(SIGQUIT));
    TRY(io_room(&b));
    TRY_GOTO(io_open(&b), done);
    TRY_GOTO(io_write(&b), done);
    TRY_GOTO(io_read(&b), done);
    TRY_GOTO(io_commits(&b), done);
    const double median = bench_median(b.commits, (size_t)given.commits), worst = b.commits[given.commits - 1];
    if (given.json)
        io_json(&b, median, worst, json);
    else
        io_print(&b, median, worst);
done:
    io_close(&b);
    return status;
}

static const struct flag flags[] = {
    {"--dir", FLAG_STRING, &given.dir, "DIR", "where to write (default: the working directory)", NULL, false},
    {"--size", FLAG_STRING, &given.size, "SIZE", "of the large file, as 2GiB (default 256MiB)", NULL, false},
    {"--commits", FLAG_COUNT, &given.commits, "N", "small files, one after the other (default 100)", NULL, false},
    {"--json", FLAG_SWITCH, &given.json, NULL, "one JSON object", NULL, false},
    FLAGS_END,
};

const struct verb_flags bench_io_flags = {
    .verb = "bench io",
    .usage = "[--json] [--dir DIR] [--size SIZE] [--commits N]",
    .about = "What a checkpoint will meet in a folder: writing, fsync, reading (the kernel is asked to forget the file "
             "before), and how long a small file takes to be committed: write, fsync, rename, fsync of the folder. "
             "Removes what it made.",
    .flags = flags,
};

enum status bench_io(int argc, char **argv, struct text *json) {
    size_t words;
    bool helped;
    TRY(flags_parse(&bench_io_flags, argc, argv, argv, &words, &helped));
    if (!helped && given.commits > 1000000)
        return status_set(STATUS_USAGE, "bench io: --commits is %lld, at most 1000000", (long long)given.commits);
    return helped ? STATUS_OK : io_run(json);
}
