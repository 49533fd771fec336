// SPDX-License-Identifier: Apache-2.0
// Checkpoints of a world of ranks. `save DIR STEP`: every rank saves the same values together and loads what it saved;
// `load DIR STEP`: loads what another world saved; `fail DIR`: one rank can't write, all get the same status and
// nothing stays.
#include "base/status.h"
#include "base/text.h"
#include "checkpoints_support.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

static int rank;

static void need(bool right, const char *what) {
    if (right)
        return;
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, status_message());
    _exit(1);
}

static enum status world_save(struct comm *comm, const char *dir, uint64_t step, const struct sample *sample) {
    struct checkpoint_dir where = {.path = (char *)(uintptr_t)dir, .keep = 5};
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

int main(int count, char **arguments) {
    struct comm *comm;
    struct sample sample;
    uint64_t step = 0;
    need(count >= 3 && comm_open(&comm, JOB_BACKEND_AUTO) == STATUS_OK, "open");
    rank = comm->rank;
    need(count < 4 || text_to_u64(arguments[3], &step), "step");
    need(sample_table(&sample.table) == STATUS_OK, "table");
    sample_arenas(&sample.arenas, &sample.table);
    sample_fill(&sample, 1);
    if (strcmp(arguments[1], "save") == 0)
        need(world_save(comm, arguments[2], step, &sample) == STATUS_OK, "save");
    if (strcmp(arguments[1], "fail") == 0)
        world_fail(comm, arguments[2], &sample);
    else
        world_load(arguments[2], step, &sample);
    need(comm_barrier(comm) == STATUS_OK, "barrier");
    sample_arenas_free(&sample.arenas);
    param_table_release(&sample.table);
    comm_close(comm);
    return 0;
}
