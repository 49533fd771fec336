// SPDX-License-Identifier: Apache-2.0
// Checkpoints: one HDF5 file a checkpoint, written by all ranks, committed by a manifest and a rename (design, section
// 7).
#ifndef FINETUNED_CHECKPOINTS_CHECKPOINT_H
#define FINETUNED_CHECKPOINTS_CHECKPOINT_H

#include "base/param.h"
#include "base/pool.h"
#include "base/row_set.h"
#include "base/status.h"
#include "checkpoints/owner.h"
#include "comm/comm.h"

#include <stdbool.h>
#include <stdint.h>

// 2: evaluation_due. (1 has none: read as 0.)
#define CHECKPOINT_FORMAT 2

// The attributes of /trainer.
struct trainer_state {
    uint64_t step, cursor, epoch; // updates done; global batches consumed; epochs completed or begun (from 1)
    uint64_t seed;
    uint32_t world, batch, parts;
    char precision[8]; // "fp32"
    uint64_t steps_total;
    uint32_t skips_in_a_row;
    uint64_t best_step; // 0 = none yet
    double best_metric;
    uint32_t evaluations_without_gain;
    uint32_t evaluation_due; // 1: these weights' evaluation was given up for a stop; it comes first
    char config_hash[33], data_hash[33], base_hash[33];
    uint32_t format;
    char run_id[33];
    // the keys that define the run and their values, a JSON object: lets a mismatch name the key and both values
    // (malloc'ed)
    char *config;
    // label names in id order, a JSON array (malloc'ed): what the head's rows mean
    char *labels;
};
void trainer_state_release(struct trainer_state *state);

// The three arenas; any may be NULL on load (model only: eval, export).
struct checkpoint_arenas {
    float *weights, *exp_avg, *exp_avg_sq;
};

struct checkpoint_dir {
    char *path; // checkpoints.dir
    uint32_t keep;
    uint64_t buffer;   // bytes: what a rank may copy aside of a checkpoint that is being written
    struct pool *pool; // copies it; NULL: the calling thread does
    // Rank 0: of the folders that must still be ours where something is made, renamed or deleted; NULL: not asked. A
    // save that finds one lost ends with STATUS_AGAIN.
    struct owner *owners[2];
};

struct checkpoint_saved {
    uint64_t step;
    char *path; // <dir>/step-00000200, malloc'ed
    uint64_t bytes;
    // Seconds, of the slowest rank: what its main thread spent on this checkpoint, waits included; what the writing
    // took.
    double held_s, write_s;
    struct removal *removal; // rank 0: what is being deleted since then; NULL: nothing
};
// Waits until what the commit found too old is deleted. The path is the caller's.
void checkpoint_saved_settle(struct checkpoint_saved *saved);

// A checkpoint on its way: each rank's writer thread writes its pieces straight from the arenas while training goes on.
struct checkpoint;

// Collective, at a step boundary, all weights up to date. Lays out the file of state->step and starts the writers. All
// ranks return the same status; on failure earlier checkpoints are intact and the temporary folder is removed.
// Borrowed to the end: comm, dir, table, what the arenas and `state` point to.
enum status checkpoint_begin(struct checkpoint **out, struct comm *comm, const struct checkpoint_dir *dir,
                             const struct param_table *table, const struct checkpoint_arenas *arenas,
                             const struct trainer_state *state);
// Before a bucket's weights or moments are changed, of its embeddings only these rows (NULL: all): copies aside what of
// it is not yet read, or waits for it. So the file holds the state at the beginning, however slow the disk is. By the
// pool's thread.
void checkpoint_release(struct checkpoint *checkpoint, unsigned bucket, const struct row_set *rows);
// How far this rank is, without waiting.
enum checkpoint_progress { CHECKPOINT_BUSY, CHECKPOINT_WRITTEN, CHECKPOINT_FAILED };
enum checkpoint_progress checkpoint_progress(const struct checkpoint *checkpoint);
// Collective: waits for this rank's writer, then gathers the hashes and commits: updates `latest` and, if
// state->best_step == state->step, `best`, then old ones beyond `keep` go (best is kept): by a thread that
// checkpoint_saved_settle waits for. `failed`: some rank's writer is known to have failed; the others' are not waited
// for. Statuses as checkpoint_begin. Ends the checkpoint.
enum status checkpoint_commit(struct checkpoint_saved *out, struct checkpoint *checkpoint, bool failed);
// Not collective: ends this rank's writer; rank 0 removes the temporary folder. Keeps the thread's message. NULL is
// fine.
void checkpoint_rollback(struct checkpoint *checkpoint);

// Begin, commit and settle at once.
enum status checkpoint_save(struct checkpoint_saved *out, struct comm *comm, const struct checkpoint_dir *dir,
                            const struct param_table *table, const struct checkpoint_arenas *arenas,
                            const struct trainer_state *state);

// Checks manifest, size and every hash. STATUS_DATA: what is wrong, where. `path`: a step-N folder (or its
// checkpoint.h5).
enum status checkpoint_verify(const char *path);
// The same, and that it is of the step that its name says.
enum status checkpoint_verify_step(const char *path, uint64_t step);

// Reads attributes only (manifest checked, hashes not).
enum status checkpoint_state(struct trainer_state *out, const char *path);

// Verifies and loads into the arenas: every tensor of the table must be there with its shape (STATUS_DATA naming the
// first that differs), nothing else may be.
enum status checkpoint_load(const struct checkpoint_arenas *arenas, struct trainer_state *state,
                            const struct param_table *table, const char *path);

// Finds the checkpoint to go on from. resume: "auto", "never" or a path. Only rank 0 calls it. *path is NULL for a
// fresh start. auto: newest valid one; unusable newer ones are listed in `skipped`; present but all unusable, or
// one of a newer format before any that can be used: STATUS_DATA. A path that is missing or unusable: STATUS_DATA. A
// path to an older one: newer ones are set aside (renamed to step-N.aside-…), listed in `aside`.
struct checkpoint_skip {
    char *path;
    char *why;
};
struct checkpoint_choice {
    char *path;
    struct checkpoint_skip *skipped;
    size_t n_skipped;
    char **aside; // the paths they have, after checkpoint_settle their new ones
    size_t n_aside;
    uint64_t step; // of `path`, where it lies in the folder
    bool clears;   // settling removes links that lead to nothing
    bool relinks;  // settling makes `latest` lead to `step`
};
enum status checkpoint_choose(struct checkpoint_choice *out, const char *dir, const char *resume);
// The same in two: the choice, with nothing of the folder changed; then what it means for the folder, once the run is
// known to go on.
enum status checkpoint_look(struct checkpoint_choice *out, const char *dir, const char *resume);
enum status checkpoint_settle(struct checkpoint_choice *choice, const char *dir);
// Afterwards: makes `best` lead to that step, which is there, and says so if it did not.
enum status checkpoint_mend_best(const struct checkpoint_choice *choice, const char *dir, uint64_t step);
void checkpoint_choice_release(struct checkpoint_choice *choice);
// What a save does last, should the start before have ended in between: good ones beyond `keep` up to the step of
// `state`, which was loaded from this folder, go. Rank 0.
enum status checkpoint_retain(const struct checkpoint_dir *dir, const struct trainer_state *state);

// Bytes of the checkpoint.h5 that checkpoint_save would write.
enum status checkpoint_size(uint64_t *bytes, const struct param_table *table, const struct trainer_state *state);

// Removes temporary folders that a crash left; names each in the log. Rank 0, at start, under the owner's lock.
enum status checkpoint_sweep(const char *dir);

// Name and version of the library: "HDF5 1.10.8".
void checkpoint_library(char *out, size_t size);

// For people: what a checkpoint holds, on standard output's behalf: malloc'ed text (JSON with `json`).
enum status checkpoint_describe(char **out, const char *path, bool json);
// Whether the path is a checkpoint folder or a checkpoint.h5.
bool checkpoint_is(const char *path);
// Where a path is a folder of checkpoints, or of a run that has one: ": did you mean x/latest (or x/best)?"; "" if it
// is neither. Good until this thread's next call.
const char *checkpoint_hint(const char *path);

#endif
