// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/writer.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/pulse.h"
#include "checkpoints/aside.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WRITER_SLICE ((uint64_t)32 << 20) // bytes between two fdatasyncs: none of them takes long
#define WRITER_MESSAGE 1024

// Where a piece's values are. The arena must keep them while a piece waits or is read or copied.
enum write_at { WRITE_WAITS, WRITE_READ, WRITE_COPIED, WRITE_ASIDE, WRITE_FREE };

struct write { // one piece of this rank's
    struct piece *piece;
    enum write_at at; // under the lock
    float *aside;     // WRITE_ASIDE: the piece as the file will hold it
};

struct writer {
    struct writer_options options;
    char *path;
    int fd;
    struct write *writes; // (n) by bucket, in the order of the coming updates
    size_t n;
    size_t *first, *count; // (n_buckets) writes of a bucket: neighbours
    struct write **wanted; // (n) those of a release
    float *buffer;         // one piece
    pthread_t thread;
    bool running; // not joined
    atomic_bool cancelled;

    pthread_mutex_t lock;
    pthread_cond_t changed; // a piece's place, room, or the end
    size_t next;            // writes before it do not wait
    struct aside aside;
    struct write **asides; // (n) pieces copied aside, in that order, which is that of their room
    size_t oldest, n_asides;
    bool ended;
    enum status status;
    char message[WRITER_MESSAGE];
    double seconds;
};

// With the lock: until the writer has got on with a piece, or is at its end. The wait itself is no sign of life, but
// that is.
static void writer_await(struct writer *w) {
    pulse_long();
    pthread_cond_wait(&w->changed, &w->lock);
    pulse_beat();
}

// ---- the thread

static void write_becomes(struct writer *w, struct write *write, enum write_at at) {
    pthread_mutex_lock(&w->lock);
    write->at = at;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

// The next piece to write: the oldest that was copied aside, so that its room is free again, else the next that waits.
// NULL: all are written.
static struct write *writer_next(struct writer *w) {
    struct write *write = NULL;
    pthread_mutex_lock(&w->lock);
    while (w->next < w->n && w->writes[w->next].at != WRITE_WAITS)
        w->next++;
    if (w->oldest < w->n_asides)
        write = w->asides[w->oldest++];
    else if (w->next < w->n)
        write = &w->writes[w->next];
    while (write && write->at == WRITE_COPIED)
        pthread_cond_wait(&w->changed, &w->lock);
    if (write && write->at == WRITE_WAITS)
        write->at = WRITE_READ;
    pthread_mutex_unlock(&w->lock);
    return write;
}

// The piece's values as the file holds them; from here on the arena may change.
static const float *write_take(struct writer *w, struct write *write) {
    if (write->aside)
        return write->aside;
    piece_read(w->buffer, write->piece, w->options.table, &w->options.arenas);
    write_becomes(w, write, WRITE_FREE);
    return w->buffer;
}

static void write_done(struct writer *w, struct write *write) {
    if (!write->aside)
        return;
    pthread_mutex_lock(&w->lock);
    aside_give(&w->aside, write->piece->size);
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

static enum status write_piece(struct writer *w, struct write *write) {
    struct piece *piece = write->piece;
    const float *values = write_take(w, write);
    TRY(piece_finite(values, piece, w->options.table));
    piece->hash = hash64(values, piece->size);
    TRY(file_pwrite_all(w->fd, values, piece->size, piece->offset, w->path));
    write_done(w, write);
    return STATUS_OK;
}

static enum status writer_pieces(struct writer *w) {
    uint64_t unsynced = 0;
    for (struct write *write; !atomic_load(&w->cancelled) && (write = writer_next(w));) {
        TRY(write_piece(w, write));
        unsynced += write->piece->size;
        if (unsynced < WRITER_SLICE)
            continue;
        pulse_long();
        if (fdatasync(w->fd) != 0)
            return status_errno(STATUS_IO, "fdatasync %s", w->path);
        pulse_beat();
        unsynced = 0;
    }
    return STATUS_OK;
}

static enum status writer_file(struct writer *w) {
    enum status status = writer_pieces(w);
    bool cancelled = atomic_load(&w->cancelled);
    pulse_long();
    if (status == STATUS_OK && !cancelled && fsync(w->fd) != 0)
        status = status_errno(STATUS_IO, "fsync %s", w->path);
    if (close(w->fd) != 0 && status == STATUS_OK && !cancelled)
        status = status_errno(STATUS_IO, "close %s", w->path);
    w->fd = -1;
    return status;
}

static void *writer_main(void *argument) {
    struct writer *w = argument;
    double begun = clock_seconds();
    pulse_enter(PULSE_WRITE);
    enum status status = writer_file(w);
    pulse_leave();
    pthread_mutex_lock(&w->lock);
    w->status = status;
    snprintf(w->message, sizeof w->message, "%s", status_message());
    w->seconds = clock_seconds() - begun;
    w->ended = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

// ---- what an update would overwrite

// Takes room for as many of the wanted from `from` on as wait and fit; returns how many.
static size_t release_room(struct writer *w, size_t from, size_t end) {
    size_t i = from;
    for (; i < end && w->wanted[i]->at == WRITE_WAITS; i++) {
        struct write *write = w->wanted[i];
        write->aside = aside_take(&w->aside, write->piece->size);
        if (!write->aside)
            break;
        write->at = WRITE_COPIED;
        w->asides[w->n_asides++] = write;
    }
    return i - from;
}

struct release {
    const struct writer *writer;
    struct write *const *writes;
};

static void release_task(void *context, size_t task, unsigned thread) {
    (void)thread;
    const struct release *release = context;
    const struct write *write = release->writes[task];
    const struct writer_options *options = &release->writer->options;
    piece_read(write->aside, write->piece, options->table, &options->arenas);
}

// Without the lock, so that the writer goes on meanwhile.
static void release_copy(struct writer *w, size_t from, size_t n) {
    struct release release = {w, w->wanted + from};
    pthread_mutex_unlock(&w->lock);
    if (w->options.pool)
        pool_run(w->options.pool, release_task, &release, n);
    for (size_t i = 0; i < n && !w->options.pool; i++)
        release_task(&release, i, 0);
    pthread_mutex_lock(&w->lock);
    for (size_t i = from; i < from + n; i++)
        w->wanted[i]->at = WRITE_ASIDE;
    pthread_cond_broadcast(&w->changed);
}

static bool write_is_free(const struct write *write) {
    return write->at == WRITE_ASIDE || write->at == WRITE_FREE;
}

// Whether an update of these rows (NULL: all) changes the piece.
static bool piece_changes(const struct piece *piece, const struct param_table *table, const struct row_set *rows) {
    size_t param = piece->dataset % table->n;
    if (!rows || param >= table->embeddings)
        return true;
    uint64_t row = table->at[param].row + piece->row;
    return row_set_next(rows, row) < row + piece->rows;
}

static size_t release_wanted(struct writer *w, unsigned bucket, const struct row_set *rows) {
    size_t n = 0;
    for (size_t i = w->first[bucket]; i < w->first[bucket] + w->count[bucket]; i++)
        if (piece_changes(w->writes[i].piece, w->options.table, rows))
            w->wanted[n++] = &w->writes[i];
    return n;
}

void writer_release(struct writer *w, unsigned bucket, const struct row_set *rows) {
    size_t i = 0, end = release_wanted(w, bucket, rows);
    pthread_mutex_lock(&w->lock);
    while (i < end && !w->ended) {
        size_t n = write_is_free(w->wanted[i]) ? 1 : release_room(w, i, end);
        if (n > 0 && w->wanted[i]->at == WRITE_COPIED)
            release_copy(w, i, n);
        else if (n == 0)
            writer_await(w);
        i += n;
    }
    pthread_mutex_unlock(&w->lock);
}

// ---- its end

enum writer_progress writer_progress(struct writer *w) {
    pthread_mutex_lock(&w->lock);
    enum writer_progress progress = !w->ended ? WRITER_BUSY : w->status == STATUS_OK ? WRITER_WRITTEN : WRITER_FAILED;
    pthread_mutex_unlock(&w->lock);
    return progress;
}

void writer_cancel(struct writer *w) {
    atomic_store(&w->cancelled, true);
}

static void writer_wait(struct writer *w) {
    if (!w->running)
        return;
    pthread_mutex_lock(&w->lock);
    while (!w->ended)
        writer_await(w);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    w->running = false;
}

enum status writer_join(struct writer *w, double *seconds) {
    writer_wait(w);
    *seconds = w->seconds;
    return w->status == STATUS_OK ? STATUS_OK : status_set(w->status, "%s", w->message);
}

void writer_close(struct writer *w) {
    if (!w)
        return;
    writer_cancel(w);
    writer_wait(w);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    aside_release(&w->aside);
    if (w->fd >= 0)
        close(w->fd);
    free(w->buffer);
    free(w->count);
    free(w->first);
    free(w->asides);
    free(w->wanted);
    free(w->writes);
    free(w->path);
    free(w);
}

// ---- its beginning

// The pieces of a bucket, in the file's order, behind those that are there.
static void plan_bucket(struct writer *w, struct pieces *pieces, unsigned bucket) {
    const struct param_table *table = w->options.table;
    w->first[bucket] = w->n;
    for (size_t i = 0; i < pieces->n; i++) {
        struct piece *piece = &pieces->at[i];
        if (piece->rank == w->options.rank && table->at[piece->dataset % table->n].bucket == bucket)
            w->writes[w->n++] = (struct write){.piece = piece};
    }
    w->count[bucket] = w->n - w->first[bucket];
}

static void writer_plan(struct writer *w, struct pieces *pieces) {
    const struct param_table *table = w->options.table;
    size_t first = table->frozen > 0 ? table->frozen : 1;
    for (size_t l = 0; l < table->n_buckets; l++)
        plan_bucket(w, pieces, (unsigned)((first + l) % table->n_buckets));
}

static enum status writer_allocate(struct writer *w, struct pieces *pieces, const char *path) {
    uint64_t largest = 1, all = 0;
    for (size_t i = 0; i < pieces->n; i++) {
        uint64_t size = pieces->at[i].rank == w->options.rank ? pieces->at[i].size : 0;
        largest = size > largest ? size : largest;
        all += arena_piece(size);
    }
    aside_init(&w->aside, w->options.buffer < all ? w->options.buffer : all);
    w->path = strdup(path);
    w->writes = calloc(pieces->n + 1, sizeof *w->writes);
    w->wanted = calloc(pieces->n + 1, sizeof *w->wanted);
    w->asides = calloc(pieces->n + 1, sizeof *w->asides);
    w->first = calloc(w->options.table->n_buckets + 1, sizeof *w->first);
    w->count = calloc(w->options.table->n_buckets + 1, sizeof *w->count);
    w->buffer = malloc(largest);
    if (!w->path || !w->writes || !w->wanted || !w->asides || !w->first || !w->count || !w->buffer)
        return status_set(STATUS_SYSTEM, "checkpoint: no memory for %zu pieces", pieces->n);
    return STATUS_OK;
}

static enum status writer_file_open(struct writer *w) {
    w->fd = open(w->path, O_WRONLY | O_CLOEXEC);
    if (w->fd >= 0)
        return STATUS_OK;
    return status_errno(STATUS_IO, "open %s%s", w->path,
                        errno == ENOENT ? " (checkpoints.dir must be a folder that all hosts share)" : "");
}

static enum status writer_start(struct writer *w) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); // signals go to the threads that handle them
    errno = pthread_create(&w->thread, NULL, writer_main, w);
    w->running = errno == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!w->running)
        return status_errno(STATUS_SYSTEM, "checkpoint: the thread that writes");
    pthread_setname_np(w->thread, "writer");
    return STATUS_OK;
}

enum status writer_open(struct writer **out, struct pieces *pieces, const char *path,
                        const struct writer_options *options) {
    struct writer *w = *out = calloc(1, sizeof *w);
    if (!w)
        return status_set(STATUS_SYSTEM, "checkpoint: no memory");
    w->options = *options;
    w->fd = -1;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    enum status status;
    TRY_GOTO(writer_allocate(w, pieces, path), fail);
    writer_plan(w, pieces);
    TRY_GOTO(writer_file_open(w), fail);
    TRY_GOTO(writer_start(w), fail);
    return STATUS_OK;
fail:
    writer_close(w);
    *out = NULL;
    return status;
}
