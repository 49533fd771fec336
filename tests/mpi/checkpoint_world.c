// SPDX-License-Identifier: Apache-2.0
// Checkpoints of a world of ranks. `save DIR STEP`: every rank saves the same values together and loads what it saved;
// `load DIR STEP`: loads what another world saved; `fail DIR`: one rank can't write, all get the same status and
// nothing stays; `background DIR BUFFER`: the values change while a slow disk takes a save, which is that of an
// undisturbed one byte for byte, and one rank's writer fails while others are at work.
#include "base/status.h"
#include "base/text.h"
#include "checkpoints_support.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static int rank;
static unsigned slow_us;     // each pwrite takes so long
static int writes_left = -1; // then they fail; negative: they don't

// The writer's calls come here instead of to the C library.
ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset) {
    usleep(slow_us);
    if (writes_left == 0)
        errno = ENOSPC;
    if (writes_left == 0)
        return -1;
    writes_left -= writes_left > 0;
    return syscall(SYS_pwrite64, fd, bytes, size, offset);
}

static void need(bool right, const char *what) {
    if (right)
        return;
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, status_message());
    _exit(1);
}

static enum status world_save(struct comm *comm, const char *dir, uint64_t step, const struct sample *sample) {
    struct checkpoint_dir where = {.path = (char *)(uintptr_t)dir, .keep = 50};
    struct checkpoint_saved saved;
    struct trainer_state state = sample_state(step);
    state.world = (uint32_t)comm->world;
    enum status status = checkpoint_save(&saved, comm, &where, &sample->table, &sample->arenas, &state);
    need(status != STATUS_OK || (saved.path && saved.bytes > 1000000), "what save tells");
    free(saved.path);
    return status;
}

static void world_load(const char *dir, uint64_t step, const struct sample *sample) {
    struct checkpoint_arenas loaded;
    struct trainer_state state;
    char *path = text_format("%s/step-%08" PRIu64, dir, step);
    sample_arenas(&loaded, &sample->table);
    need(checkpoint_load(&loaded, &state, &sample->table, path) == STATUS_OK, "load");
    need(sample_same(&loaded, &sample->arenas, &sample->table), "other values than were saved");
    need(state.step == step, "another step");
    trainer_state_release(&state);
    sample_arenas_free(&loaded);
    free(path);
}

// The last rank's limit on the size of files lies inside the file: its writes fail, the others' don't.
static void world_fail(struct comm *comm, const char *dir, const struct sample *sample) {
    struct rlimit limit = {600000, RLIM_INFINITY};
    struct checkpoint_choice choice;
    signal(SIGXFSZ, SIG_IGN);
    need(world_save(comm, dir, 1, sample) == STATUS_OK, "save before");
    if (rank == comm->world - 1)
        need(setrlimit(RLIMIT_FSIZE, &limit) == 0, "setrlimit");
    need(world_save(comm, dir, 2, sample) == STATUS_IO, "a rank that can't write");
    need(strstr(status_message(), "File too large") != NULL, "the reason on every rank");
    if (rank == 0) {
        char **names;
        size_t n;
        need(file_list(&names, &n, dir) == STATUS_OK && n == 2, "something stayed");
        file_list_free(names, n);
        need(checkpoint_choose(&choice, dir, "auto") == STATUS_OK && strstr(choice.path, "step-00000001"), "choose");
        checkpoint_choice_release(&choice);
    }
}

// ---- in the background

// Three steps' updates.
static void background_updates(struct checkpoint *checkpoint, const struct sample *sample) {
    float *arenas[] = {sample->arenas.weights, sample->arenas.exp_avg, sample->arenas.exp_avg_sq};
    const struct param_table *table = &sample->table;
    for (unsigned l = 0; l < 3 * table->n_buckets; l++) {
        const struct param_bucket *bucket = &table->buckets[l % table->n_buckets];
        checkpoint_release(checkpoint, l % (unsigned)table->n_buckets, NULL);
        for (int a = 0; a < 3; a++)
            for (uint64_t i = 0; i < bucket->size; i++)
                arenas[a][bucket->offset + i] += 1.0f;
    }
}

static struct checkpoint *background_begin(struct comm *comm, const struct checkpoint_dir *dir, uint64_t step,
                                           const struct sample *sample) {
    struct trainer_state state = sample_state(step);
    struct checkpoint *checkpoint;
    state.world = (uint32_t)comm->world;
    need(checkpoint_begin(&checkpoint, comm, dir, &sample->table, &sample->arenas, &state) == STATUS_OK, "begin");
    return checkpoint;
}

// The slowest disk is the last rank's; another one each time.
static void background_save(struct comm *comm, const struct checkpoint_dir *dir, const struct sample *sample) {
    struct checkpoint_saved saved;
    for (uint64_t step = 2; step < 5; step++) {
        need(world_save(comm, dir->path, step + 100, sample) == STATUS_OK, "save undisturbed");
        slow_us = (unsigned)(rank + (int)step) % (unsigned)comm->world == 0 ? 300 : 30;
        struct checkpoint *checkpoint = background_begin(comm, dir, step, sample);
        background_updates(checkpoint, sample);
        need(checkpoint_commit(&saved, checkpoint, false) == STATUS_OK, "commit");
        need(saved.held_s > 0 && saved.write_s > 0 && saved.step == step, "what commit tells");
        slow_us = 0;
        checkpoint_saved_settle(&saved);
        free(saved.path);
    }
}

static void background_fail(struct comm *comm, const struct checkpoint_dir *dir, const struct sample *sample) {
    for (int known = 0; known < 2; known++) {
        struct checkpoint_saved saved;
        slow_us = 300;
        struct checkpoint *checkpoint = background_begin(comm, dir, 900, sample);
        if (rank == comm->world - 1)
            writes_left = 3;
        background_updates(checkpoint, sample);
        while (known && rank == comm->world - 1 && checkpoint_progress(checkpoint) != CHECKPOINT_FAILED)
            usleep(1000);
        need(!known || comm_barrier(comm) == STATUS_OK, "barrier");
        need(checkpoint_commit(&saved, checkpoint, known) == STATUS_IO, "a writer that failed");
        need(strstr(status_message(), strerror(ENOSPC)) && strstr(status_message(), "checkpoint of step 900"),
             "the reason on every rank");
        writes_left = -1;
        slow_us = 0;
    }
}

static void world_background(struct comm *comm, const char *path, uint64_t buffer, const struct sample *sample) {
    struct checkpoint_dir dir = {.path = (char *)(uintptr_t)path, .keep = 50, .buffer = buffer};
    background_save(comm, &dir, sample);
    background_fail(comm, &dir, sample);
}

int main(int count, char **arguments) {
    struct comm *comm;
    struct sample sample;
    uint64_t step = 0;
    need(count >= 3 && comm_open(&comm, JOB_BACKEND_AUTO) == STATUS_OK, "open");
    rank = comm->rank;
    need(count < 4 || text_to_u64(arguments[3], &step), "step or buffer");
    need(sample_table(&sample.table) == STATUS_OK, "table");
    sample_arenas(&sample.arenas, &sample.table);
    sample_fill(&sample, 1);
    if (strcmp(arguments[1], "save") == 0)
        need(world_save(comm, arguments[2], step, &sample) == STATUS_OK, "save");
    if (strcmp(arguments[1], "fail") == 0)
        world_fail(comm, arguments[2], &sample);
    else if (strcmp(arguments[1], "background") == 0)
        world_background(comm, arguments[2], step, &sample);
    else
        world_load(arguments[2], step, &sample);
    need(comm_barrier(comm) == STATUS_OK, "barrier");
    sample_arenas_free(&sample.arenas);
    param_table_release(&sample.table);
    comm_close(comm);
    return 0;
}
