// SPDX-License-Identifier: Apache-2.0
// A run: everything it holds, opened in the order of the files in this folder, each filling its own part.
#ifndef FINETUNED_TRAIN_TRAINER_H
#define FINETUNED_TRAIN_TRAINER_H

#include "base/arena.h"
#include "base/job.h"
#include "base/pool.h"
#include "base/row_set.h"
#include "checkpoints/checkpoint.h"
#include "checkpoints/owner.h"
#include "comm/bucket.h"
#include "comm/comm.h"
#include "data/batch.h"
#include "data/labels.h"
#include "data/plan.h"
#include "data/shard.h"
#include "data/tokenizer.h"
#include "model/config.h"
#include "model/metrics.h"
#include "model/pass.h"
#include "model/squad_metrics.h"
#include "optim/optimizer.h"
#include "train/events.h"
#include "train/inputs.h"
#include "train/lost.h"
#include "train/tensorboard.h"

// How far the run is; what a checkpoint keeps is in `state`.
enum trainer_end { TRAINER_RUNNING, TRAINER_FINISHED, TRAINER_STOPPED };

// Sums over steps.
struct meter {
    double since; // seconds, of the monotonic clock
    uint64_t tweets, tokens;
    double flops;
};

// What a model scores on a split.
struct evaluation {
    bool there;           // false: not evaluated, or the split is empty
    uint64_t step, epoch; // of its weights
    double loss;
    struct metrics metrics;    // classification
    struct squad_totals squad; // question answering
    enum squad_version version;
};

// Seconds of this start.
struct trainer_times {
    double tokenise, steps, evaluate, save, export;
};

// A checkpoint on its way (save.c).
struct saving {
    struct checkpoint *checkpoint; // NULL: none
    bool ended;                    // every rank's writer is at its end, by what they told in the last step
    bool failed;                   // one of them could not write
    bool waits;                    // a periodic save came meanwhile: the next free step boundary's
    double checks_s;               // what looking at the values held training, before it began
    struct checkpoint_saved last;  // the one before: what it replaced may be on its way out
};

// What a run writes into: out, checkpoints.dir, data.cache.
#define FOLDERS 3

struct trainer {
    const struct job *job;
    struct base *base; // borrowed, as are the two beside it
    struct comm *comm;
    bool look;               // nothing is written: what a run would do is asked (trainer_look)
    struct owner *owners[2]; // rank 0: of out; of checkpoints.dir, where that lies elsewhere
    bool folder_lost;        // one of them is lost, as all ranks know
    char *made[FOLDERS];     // rank 0: the first folder that this start made on the way to each; NULL: none
    struct events events;
    struct lost lost; // where a lost rank is told of
    struct tensorboard board;
    struct events_previous previous;
    struct inputs inputs;

    struct pool *pool;
    const struct ops *ops;
    struct trace *trace; // of the steps' stages (stage.h); NULL: none
    struct plan plan;
    struct batch batch;
    struct param_table table;
    struct row_set rows;             // of the embeddings that the global batch reads
    struct row_set changes;          // those that the update before its forward pass may change
    struct arena arena;              // weights; the moments are the optimizer's
    struct checkpoint_arenas arenas; // (table.floats) each
    struct arena copy_arena;         // of `copy`
    float *copy;                     // (table.pairs) the weights in bf16, kept by the optimizer; NULL in fp32
    struct pass *pass;
    struct buckets *buckets; // NULL, as is the optimizer, once trainer_finish has closed them
    uint64_t gradients_bytes;
    struct optimizer *optimizer;
    uint32_t batch_tokens, batch_examples; // room in `batch` and `pass`
    uint32_t evaluation_tokens;            // of one evaluation batch, at most
    uint32_t parts_own;                    // of the global batch, on each rank
    uint32_t max_micro;                    // micro-batches of a step, at most
    double *part_losses;                   // (parts_own) their sums of losses
    struct targets targets;                // of the loss: label smoothing, class weights
    double *class_weights;                 // (labels), NULL: none

    struct trainer_state state;
    uint64_t weights_step, weights_epoch; // which weights are in the arena: the run's own, in the end the best's
    struct checkpoint_dir checkpoints;
    char base_note[256];                          // what import said
    struct evaluation best[SPLITS], last[SPLITS]; // val and test, of the best and the last step's model, from
                                                  // trainer_finish on
    struct trainer_times times;
    double started, begun, trained_s; // seconds, monotonic: all is ready, the first step begins, training took
    double spent;                     // seconds that train.max_time counts beside this run's own
    struct meter meter, total;        // since the last step event; of this start
    uint64_t steps_done;              // of this start
    double peak_flops;                // a second, all ranks' threads, of the register-only loop
    enum trainer_end end;
    struct checkpoint_choice choice;   // rank 0: what it goes on from, what that passes over and sets aside
    char *from;                        // its path, on every rank; NULL: a fresh start
    bool best_lost;                    // the best checkpoint could not be used at the start
    bool diverged;                     // too many batches in a row were not finite
    bool complete;                     // it had ended before this start, with its last event written
    bool idle;                         // training had ended before this start, and its last evaluation
    int stop_signal;                   // agreed by all ranks, as is the time
    bool stop_time;                    // train.max_time is over
    uint64_t saved_step, saved_cursor; // of the newest checkpoint, one on its way included; UINT64_MAX = none
    struct saving saving;
};

// Opens all of it up to "everything is ready": inputs, plan, model, resume. All ranks return the same status.
// STATUS_USAGE, STATUS_DATA …: nothing has been trained. `complete` is set if the run had ended before.
enum status trainer_open(struct trainer *trainer, const struct job *job, struct base *base, struct comm *comm);
// The same phases with nothing written: the folder is not taken, checkpoints are not tidied, missing token shards go to
// a temporary folder. What run would refuse is refused in the same words.
enum status trainer_look(struct trainer *trainer, const struct job *job, struct base *base, struct comm *comm);
void trainer_close(struct trainer *trainer);

// Trains to the end or to a stop; evaluates and saves on the way. STATUS_AGAIN: stopped with a checkpoint; STATUS_DATA:
// diverged.
enum status trainer_run(struct trainer *trainer);
// After a step that failed on one rank: the others wait for it and can't be told otherwise, so that in a world of
// several it does not return.
enum status trainer_failed(struct trainer *trainer, enum status status);

// When training has ended: brings the best model's weights into trainer->arenas.weights and fills trainer->best. With
// `report` (it will be written): trainer->last too, and the eval event of the best model on test.
enum status trainer_finish(struct trainer *trainer, bool report);
// A run that failed: its stop event, unless it has one. Leaves the thread's message as it is if the event is written.
void trainer_fail(struct trainer *trainer, enum status status);
// The last event.
enum status trainer_end_event(struct trainer *trainer);

// Whether the run is at its end, by what the state says.
bool trainer_ended(const struct trainer *trainer);

// The stages, each in the file of its name.

// step.c: one global batch. Sets *skipped if it was not finite (no update was made).
struct step_result {
    uint64_t step, cursor, epoch; // epoch from 1
    uint32_t examples;
    uint64_t tokens;
    double loss, norm, lr, flops;
    bool skipped;
    int differs;             // the rank whose loss or norm is not rank 0's; -1: none
    const uint32_t *samples; // (examples)
};
enum status train_step(struct trainer *trainer, struct step_result *out);

// boundary.c: what happens between two steps; and an evaluation on val, whose better score is the new best (ties: the
// earlier).
enum status trainer_boundary(struct trainer *trainer, const struct step_result *result);
// The ranks have not computed the same: rank `other` has another `what` than rank 0. The run ends, the same on every
// rank.
enum status boundary_differs(const struct trainer *trainer, int other, const char *what);
// For comm_flags_check. All values that are not finite are one: which NaN comes out of two may differ.
uint64_t boundary_hash(double a, double b);
// A signal ends it early (STATUS_OK): state.evaluation_due then stays set, for the next start.
enum status boundary_evaluate(struct trainer *trainer, bool *better);
// What is still due from before a stop.
enum status boundary_due(struct trainer *trainer);
// Where there is nothing to save: STATUS_AGAIN if a rank has got a signal, with its stop event where the run has begun.
// `when`: "before the first step of this start". Collective.
enum status boundary_asked(struct trainer *trainer, const char *when);
// The same where all know of it.
enum status boundary_given_up(struct trainer *trainer, const char *when);

// evaluation.c: a split with the weights as they are now (brought up to date). Every rank gets the same answer.
enum status evaluate_split(struct trainer *trainer, enum source_split split, struct evaluation *out);
enum status evaluate_event(struct trainer *trainer, enum source_split split, const struct evaluation *evaluation);
// By the job's best_metric; higher is better.
double evaluate_score(const struct trainer *trainer, const struct evaluation *evaluation);
// The name of the task's official metric, and its value; NaN if the split has none.
const char *evaluation_official(const struct trainer *trainer, const struct evaluation *evaluation, double *value);
// An `eval` event's keys from "loss" on, as the inside of a JSON object.
void evaluation_print(struct text *out, const struct trainer *trainer, const struct evaluation *evaluation);
void evaluation_release(struct evaluation *evaluation);

// precision.c, in this order: what the job says; what a checkpoint has, if the job says auto (rank 0); what all ranks
// compute in from now on (collective), in state.precision.
void precision_begin(struct trainer *trainer);
void precision_adopt(struct trainer *trainer, const char *saved);
enum status precision_settle(struct trainer *trainer);
bool trainer_bf16(const struct trainer *trainer);

// resume.c, in this order. Which checkpoint it is, once the inputs are known; a job that differs is refused here. Then
// its weights and state, or a fresh run's id: up to here nothing of the run in the folder has changed. Last what it
// means that the run goes on: is it complete, where is its best, the event.
enum status resume_choose(struct trainer *trainer);
enum status resume_load(struct trainer *trainer);
enum status resume_open(struct trainer *trainer);

// STATUS_DATA if the checkpoint `path` is readable, but was written by another run.
enum status resume_is_ours(const struct trainer *trainer, const char *path);

// save.c: checkpoints of the state at a step boundary, written while training goes on. Collective but for the first
// four and save_drop.
//
// Bytes that a rank copies aside, at most (checkpoints.buffer, or all that it writes).
uint64_t save_aside(const struct trainer *trainer);
// Before bucket_current(l, reads): what a save has still to read of what that changes is copied aside or waited for.
void save_release(struct trainer *trainer, unsigned l, const struct row_set *reads);
// What ranks tell one another in each step: how far this one's writer is; what they all said.
uint32_t save_flags(const struct trainer *trainer);
void save_told(struct trainer *trainer, uint32_t flags);
// params_current under a save.
void save_current(struct trainer *trainer);
// At a step boundary: commits the save that all ranks have written.
enum status save_written(struct trainer *trainer);
// A save of the state now, which is always made: waits for the one on its way first. Does not wait for its own end.
enum status save_now(struct trainer *trainer);
// A periodic save, due or not: one that comes while another is being written is made at the next free step boundary,
// or, if the file is small, waits.
enum status save_periodic(struct trainer *trainer, bool due);
// Waits for the save on its way and commits it.
enum status save_wait(struct trainer *trainer);
// Ends it unfinished, without a trace.
void save_drop(struct trainer *trainer);
// setup.c: the plan, memory, weights.
// STATUS_USAGE: more ranks than any data could give work to. Before anything is made; setup_plan knows the rest.
enum status setup_world(const struct trainer *trainer);
enum status setup_plan(struct trainer *trainer);
enum status setup_model(struct trainer *trainer);

#endif
