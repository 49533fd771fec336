// SPDX-License-Identifier: Apache-2.0
// finetuned bench step: real training steps of a job, in memory and forgotten. First some that are not counted, then
// those whose speed is printed, then some under a trace (base/trace.h), which say where the time goes.
#include "daemon/bench/bench.h"

#include "base/clock.h"
#include "base/log.h"
#include "daemon/bench/data.h"
#include "daemon/paths/output.h"
#include "model/ops_trace.h"
#include "model/peak.h"
#include "train/stage.h"
#include "train/stop.h"
#include "train/trainer.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>

#define STEPS_WARM 3
#define STEPS_TRACED 5 // at most as many as are measured
#define STEPS_MOST 1000000
#define SPANS ((size_t)1 << 20) // of a thread, for a trace's file: some MiB for each of its steps

static struct {
    int64_t steps;
    const char *trace;
    bool json;
} given = {.steps = 20};

struct step_bench {
    struct trainer *t;
    struct trace *trace;
    double peak;     // FLOPs a second of all threads
    double *seconds; // (given.steps) of each step
    double tweets, tokens, flops, measured_s;
    double loss;     // mean of the measured steps
    double traced_s; // of one traced step
    uint32_t traced;
};

static uint32_t traced_steps(void) {
    return given.steps < STEPS_TRACED ? (uint32_t)given.steps : STEPS_TRACED;
}

static enum status one_step(struct step_bench *b, struct step_result *result, double *seconds) {
    const double begin = clock_seconds();
    TRY(train_step(b->t, result));
    *seconds = clock_seconds() - begin;
    if (b->t->stop_signal)
        return status_set(STATUS_AGAIN, "bench step: stopped by %s", stop_name(b->t->stop_signal));
    return STATUS_OK;
}

static enum status steps_measure(struct step_bench *b) {
    struct step_result result;
    for (int64_t i = -STEPS_WARM; i < given.steps; i++) {
        double seconds;
        TRY(one_step(b, &result, &seconds));
        if (i < 0)
            continue;
        b->seconds[i] = seconds;
        b->measured_s += seconds;
        b->tweets += result.examples;
        b->tokens += (double)result.tokens;
        b->flops += result.flops;
        b->loss += result.loss / (double)given.steps;
    }
    return STATUS_OK;
}

static enum status steps_trace(struct step_bench *b) {
    struct step_result result;
    TRY(trace_open(&b->trace, pool_threads(b->t->pool), given.trace ? SPANS : 0));
    b->t->trace = b->trace;
    b->t->ops = ops_traced(b->t->ops, b->trace);
    pass_use(b->t->pass, b->t->ops);
    for (; b->traced < traced_steps(); b->traced++) {
        double seconds;
        TRY(one_step(b, &result, &seconds));
        b->traced_s += seconds / traced_steps();
    }
    if (!given.trace)
        return STATUS_OK;
    if (trace_lost(b->trace))
        log_warn("%s: %zu events too many are left out", given.trace, trace_lost(b->trace));
    return trace_write(b->trace, given.trace, stage_names, ops_kind_names);
}

// Seconds of a traced step, all threads' divided by their number; `stage` 0: of all stages.
static double op_seconds(const struct step_bench *b, unsigned stage, unsigned op) {
    double sum = 0;
    for (unsigned s = 1; s < STAGES; s++)
        sum += stage == 0 || stage == s ? trace_op_seconds(b->trace, s, op) : 0;
    return sum / b->traced / pool_threads(b->t->pool);
}

static double stage_seconds(const struct step_bench *b, unsigned stage) {
    return trace_stage_seconds(b->trace, stage) / b->traced;
}

// ---- what is printed

struct figures {
    double tweets_per_s, tokens_per_s, flops_share, gemm_gflops, step_s, rss;
};

static struct figures step_figures(struct step_bench *b) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (struct figures){.tweets_per_s = b->tweets / b->measured_s,
                            .tokens_per_s = b->tokens / b->measured_s,
                            .flops_share = b->flops / b->measured_s / b->peak,
                            .gemm_gflops = 1e-9 * trace_flops(b->trace) / b->traced / op_seconds(b, 0, OPS_GEMM),
                            .step_s = bench_median(b->seconds, (size_t)given.steps),
                            .rss = 1024.0 * (double)usage.ru_maxrss};
}

static void json_time(const struct step_bench *b, struct text *json, const char *name, double seconds) {
    text_printf(json, "%s\"%s\": {", json->at[json->size - 1] == '{' ? "" : ", ", name);
    bench_number(json, "s", seconds);
    bench_number(json, "share", seconds / b->traced_s);
}

static void json_ops(const struct step_bench *b, struct text *json, unsigned stage) {
    text_puts(json, ", \"ops\": {");
    for (unsigned op = 0; op < OPS_KINDS; op++)
        if (op_seconds(b, stage, op) > 0) {
            json_time(b, json, ops_kind_names[op], op_seconds(b, stage, op));
            text_puts(json, "}");
        }
    text_puts(json, "}");
}

static void step_json(struct step_bench *b, struct text *json) {
    const struct figures f = step_figures(b);
    text_puts(json, "{");
    bench_string(json, "base", b->t->job->model.base);
    bench_string(json, "isa", isa_name(b->t->ops->isa));
    bench_string(json, "precision", b->t->state.precision);
    bench_number(json, "threads", pool_threads(b->t->pool));
    bench_number(json, "batch", b->t->plan.batch);
    bench_number(json, "parts", b->t->plan.parts);
    bench_number(json, "steps", (double)given.steps);
    bench_number(json, "tweets", b->tweets);
    bench_number(json, "tokens", b->tokens);
    bench_number(json, "loss", b->loss);
    bench_number(json, "tweets_per_s", f.tweets_per_s);
    bench_number(json, "tokens_per_s", f.tokens_per_s);
    bench_number(json, "flops_share", f.flops_share);
    bench_number(json, "peak_gflops", 1e-9 * b->peak);
    bench_number(json, "gemm_gflops", f.gemm_gflops);
    bench_number(json, "step_s", f.step_s);
    bench_number(json, "traced_step_s", b->traced_s);
    bench_number(json, "rss_bytes", f.rss);
    text_puts(json, ", \"stages\": {");
    for (unsigned s = 1; s < STAGES; s++) {
        json_time(b, json, stage_names[s], stage_seconds(b, s));
        json_ops(b, json, s);
        text_puts(json, "}");
    }
    text_puts(json, "}");
    json_ops(b, json, 0);
    text_puts(json, "}");
}

static void print_time(const struct step_bench *b, const char *indent, const char *name, double seconds) {
    char label[64];
    snprintf(label, sizeof label, "%s%s", indent, name);
    printf("%-16s %10.5f %6.1f %%\n", label, seconds, 100 * seconds / b->traced_s);
}

static void step_print(struct step_bench *b) {
    const struct figures f = step_figures(b);
    printf("%s, %s, %s, %u thread%s: %lld steps of %u texts, %.1f tokens each on average\n", b->t->job->model.base,
           b->t->state.precision, isa_name(b->t->ops->isa), pool_threads(b->t->pool),
           pool_threads(b->t->pool) == 1 ? "" : "s", (long long)given.steps, b->t->plan.batch, b->tokens / b->tweets);
    printf("%.1f tweets/s, %.0f tokens/s; the middle step %.4f s; %.2f of the FMA peak of %.0f GFLOP/s; products %.0f "
           "GFLOP/s; at most %.0f MiB resident\n\n",
           f.tweets_per_s, f.tokens_per_s, f.step_s, f.flops_share, 1e-9 * b->peak, f.gemm_gflops, f.rss / 1048576);
    printf("%-16s %10s %8s\n", "stage, ops in it", "s a step", "share");
    for (unsigned s = 1; s < STAGES; s++) {
        double rest = stage_seconds(b, s);
        print_time(b, "", stage_names[s], rest);
        for (unsigned op = 0; op < OPS_KINDS; op++) {
            double seconds = op_seconds(b, s, op);
            if (seconds >= 1e-3 * b->traced_s)
                print_time(b, "  ", ops_kind_names[op], seconds);
            rest -= seconds;
        }
        if (s == STAGE_FORWARD || s == STAGE_BACKWARD)
            print_time(b, "  ", "rest", rest); // copies, hand-overs, threads without work
    }
    printf("\nBy %u traced steps of %.4f s; an op's time is that of all threads by their number.\n", b->traced,
           b->traced_s);
}

// ---- opening

static enum status trainer_bench(struct step_bench *b, const struct job *job, struct base *base, struct comm *comm) {
    TRY(trainer_look(b->t, job, base, comm));
    TRY(peak_measure(&b->peak, b->t->ops, b->t->pool, trainer_bf16(b->t)));
    TRY(steps_measure(b));
    return steps_trace(b);
}

static enum status step_world(const struct job *job, struct text *json) {
    struct step_bench b = {.t = calloc(1, sizeof *b.t), .seconds = calloc((size_t)given.steps, sizeof *b.seconds)};
    struct comm *comm = NULL;
    struct base base = {0};
    enum status status =
        b.t && b.seconds ? comm_open(&comm, JOB_BACKEND_SELF) : status_set(STATUS_SYSTEM, "bench step: no memory");
    if (status == STATUS_OK)
        status = base_open(&base, job, comm);
    if (status == STATUS_OK) {
        status = trainer_bench(&b, job, &base, comm);
        if (status == STATUS_OK && given.json)
            step_json(&b, json);
        else if (status == STATUS_OK)
            step_print(&b);
        trainer_close(b.t);
    }
    trace_close(b.trace);
    base_close(&base);
    comm_close(comm);
    free(b.seconds);
    free(b.t);
    return status;
}

static enum status trace_check(const struct job *job, const char *file) {
    const struct output_other other[] = {{"the job", file}, {"model.vocab", job->model.vocab}};
    return !given.trace ? STATUS_OK
                        : output_check(&(struct output_ask){.flag = "bench step: --trace",
                                                            .path = given.trace,
                                                            .data = job->data.dir,
                                                            .other = other,
                                                            .n = sizeof other / sizeof *other});
}

static enum status step_run(const struct job_words *words, struct text *json) {
    struct bench_data data = {0};
    struct job *job = NULL;
    log_setup(LOG_WARN, 0, 1);
    enum status status = stop_install(); // from here on a signal is waited for: what is made is removed
    if (status == STATUS_OK)
        status = stop_add(SIGQUIT);
    if (status == STATUS_OK)
        status = bench_data_open(&data, words);
    if (status == STATUS_OK)
        status = bench_data_job(&job, &data, words, STEPS_WARM + (uint64_t)given.steps + traced_steps());
    if (status == STATUS_OK)
        status = trace_check(job, words->file);
    if (status == STATUS_OK)
        status = step_world(job, json);
    job_free(job);
    bench_data_close(&data);
    return status;
}

static const struct flag flags[] = {
    {"--steps", FLAG_COUNT, &given.steps, "N", "steps to measure (default 20)", NULL, false},
    {"--trace", FLAG_STRING, &given.trace, "FILE",
     "the traced steps as a Chrome trace, for chrome://tracing or Perfetto", NULL, false},
    {"--json", FLAG_SWITCH, &given.json, NULL, "one JSON object", NULL, false},
    FLAGS_END,
};

const struct verb_flags bench_step_flags = {
    .verb = "bench step",
    .usage = "[JOB.yaml] [--json] [--steps N] [--trace FILE] [--key value …]",
    .about =
        "Training steps of a job on one rank: tweets and tokens a second, the share of the processor's peak, and where "
        "the time goes, by stage and op. Nothing of the job's is written. Without model.base: random:mini; without "
        "data.dir: made texts, as long as tweets. Every key of the job file is also a flag, e.g. --train.batch 32.",
    .flags = flags,
    .words = "FILE",
    .keys = true,
};

enum status bench_step(int argc, char **argv, struct text *json) {
    struct job_words words;
    bool helped;
    enum status status = flags_parse_job(&words, &bench_step_flags, argc, argv, &helped);
    if (status == STATUS_OK && given.steps > STEPS_MOST)
        status =
            status_set(STATUS_USAGE, "bench step: --steps is %lld, at most %d", (long long)given.steps, STEPS_MOST);
    if (status == STATUS_OK && !helped)
        status = step_run(&words, json);
    job_words_release(&words);
    return status;
}
