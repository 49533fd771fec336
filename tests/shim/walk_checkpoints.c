// SPDX-License-Identifier: Apache-2.0
// Saves: of a new step, of a step that is there already, and one whose retention deletes what is old.
#include "walk.h"

#include "base/file.h"
#include "checkpoints/steps.h"
#include "checkpoints_support.h"

#include <stdio.h>
#include <stdlib.h>

#define STEPS 8

struct saves {
    struct param_table table;
    struct checkpoint_arenas values[STEPS][2]; // of each step, the first time and again; made when they are wanted
    struct checkpoint_arenas loaded;
    struct comm *comm;
    uint64_t step; // that the action saves
    uint64_t best; // 0: none
    uint32_t keep;
    uint64_t first, newest; // before it
    bool same;              // the step is the newest one
};

// Values of a checkpoint are a function of its step; a step saved again has others.
static const struct checkpoint_arenas *save_values(struct saves *s, uint64_t step, bool again) {
    bool other = again && s->same && step == s->step;
    struct sample sample = {s->table, s->values[step][other]};
    if (!sample.arenas.weights) {
        sample_arenas(&sample.arenas, &s->table);
        sample_fill(&sample, step + 100 * other);
        s->values[step][other] = sample.arenas;
    }
    return &s->values[step][other];
}

static enum status save_step(struct walk *walk, uint64_t step, uint32_t keep, bool again) {
    struct saves *s = walk->own;
    struct checkpoint_dir dir = {.path = walk->folder, .keep = keep};
    struct checkpoint_saved saved = {0};
    struct trainer_state state = sample_state(step);
    state.best_step = s->best && s->best <= step ? s->best : 0;
    enum status status = checkpoint_save(&saved, s->comm, &dir, &s->table, save_values(s, step, again), &state);
    free(saved.path);
    return status;
}

// A smaller table than the unit tests': one tensor of many pieces, a matrix, a vector.
static enum status save_table(struct param_table *table) {
    *table = (struct param_table){0};
    TRY(param_add(table, "bert.embeddings.word_embeddings.weight", PARAM_ROWS, 350, 96, true, 0));
    TRY(param_add(table, "bert.encoder.layer.0.output.dense.weight", PARAM_TILES, 48, 43, true, 1));
    TRY(param_add(table, "classifier.bias", PARAM_VECTOR, 3, 1, false, 2));
    return param_finish(table);
}

static void save_open(struct walk *walk, struct saves *s) {
    walk->own = s;
    bool right = save_table(&s->table) == STATUS_OK && comm_open(&s->comm, JOB_BACKEND_SELF) == STATUS_OK;
    walk_need(walk, right, "open", status_message());
    sample_arenas(&s->loaded, &s->table);
    for (uint64_t step = s->first; step <= s->newest; step++) {
        walk_need(walk, save_step(walk, step, 100, false) == STATUS_OK, "the saves before", status_message());
        (void)save_values(s, s->step, true); // in this process, for all attempts
    }
}

// Loads, and equals what was saved as that step, the first time or again.
static bool save_is(struct walk *walk, uint64_t step, bool again) {
    struct saves *s = walk->own;
    struct trainer_state state = {0};
    char *path = step_path(walk->folder, step);
    bool is = checkpoint_load(&s->loaded, &state, &s->table, path) == STATUS_OK && state.step == step &&
              sample_same(&s->loaded, save_values(s, step, again), &s->table);
    trainer_state_release(&state);
    free(path);
    return is;
}

static uint64_t save_newest(const struct walk *walk) {
    struct checkpoint_choice choice;
    uint64_t step = 0;
    walk_need(walk, checkpoint_look(&choice, walk->folder, "auto") == STATUS_OK, "choose", status_message());
    walk_need(walk, choice.path, "no checkpoint is left", NULL);
    walk_need(walk, !choice.n_skipped, "a checkpoint is there that is none",
              choice.n_skipped ? choice.skipped[0].why : "");
    walk_need(walk, step_parse(&step, strrchr(choice.path, '/') + 1), "its name", choice.path);
    checkpoint_choice_release(&choice);
    return step;
}

static enum status save_act(struct walk *walk) {
    struct saves *s = walk->own;
    return save_step(walk, s->step, s->keep, true);
}

static void save_check(struct walk *walk, const struct outcome *outcome, const struct fault *fault) {
    struct saves *s = walk->own;
    uint64_t newest = save_newest(walk);
    bool ended = !outcome->killed, made = save_is(walk, s->step, true);
    walk_need(walk, made || !ended || outcome->status != STATUS_OK, "it said done and it is not", status_message());
    walk_need(walk, newest == s->step || newest == s->newest, "another newest checkpoint", NULL);
    walk_need(walk, made || save_is(walk, s->newest, false), "the newest does not equal its step", status_message());
    if (s->best)
        walk_need(walk, save_is(walk, s->best, false), "the best is lost", NULL);
    char *left = tree_left(walk->folder);
    walk_need(walk, !left || !ended || outcome->status == STATUS_OK || fault->persistent || fault->memory || made,
              "a failure left", left);
    free(left);
}

// As a run does that starts again: what is left over goes, and the step is saved where it is missing.
static enum status save_again(struct walk *walk) {
    struct saves *s = walk->own;
    struct checkpoint_choice choice;
    TRY(checkpoint_sweep(walk->folder));
    TRY(checkpoint_choose(&choice, walk->folder, "auto"));
    checkpoint_choice_release(&choice);
    return save_step(walk, s->step, s->keep, true);
}

static void save_done(struct walk *walk) {
    struct saves *s = walk->own;
    struct steps steps;
    size_t n = 0;
    walk_need(walk, save_newest(walk) == s->step && save_is(walk, s->step, true), "the step is not there", NULL);
    walk_need(walk, steps_list(&steps, walk->folder) == STATUS_OK, "list", status_message());
    for (uint64_t step = s->first; step <= s->step; step++) {
        bool kept = step + s->keep > s->step || step == s->best;
        n += kept;
        walk_need(walk, !kept || save_is(walk, step, true), "a checkpoint to be kept is lost", NULL);
    }
    walk_need(walk, steps.n == n, "checkpoints stayed that should have gone", NULL);
    steps_release(&steps);
}

// ---- the three

static void new_open(struct walk *walk) {
    static struct saves s = {.first = 1, .newest = 2, .step = 3, .keep = 3};
    save_open(walk, &s);
}

static void same_open(struct walk *walk) {
    static struct saves s = {.first = 1, .newest = 2, .step = 2, .keep = 3, .same = true};
    save_open(walk, &s);
}

// keep 1 with the best elsewhere: two go, and the one before only when the new one is there.
static void retain_open(struct walk *walk) {
    static struct saves s = {.first = 1, .newest = 4, .step = 5, .keep = 1, .best = 2};
    save_open(walk, &s);
}

const struct subject walk_save = {"save", new_open, save_act, save_check, save_again, save_done};
const struct subject walk_replace = {"replace", same_open, save_act, save_check, save_again, save_done};
const struct subject walk_retain = {"retain", retain_open, save_act, save_check, save_again, save_done};
