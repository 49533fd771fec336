// SPDX-License-Identifier: Apache-2.0
// report.json and report.md: what came of the run, for machines and for people.
#include "train/report.h"

#include "base/file.h"
#include "train/folder.h"
#include "train/history.h"
#include "train/provenance.h"
#include "train/report_text.h"

#include <inttypes.h>
#include <math.h>

// ---- values

static void key_add(struct text *json, const char *key) {
    text_printf(json, ",\n  \"%s\": ", key);
}

static void string_add(struct text *json, const char *key, const char *value) {
    key_add(json, key);
    json_string_add(json, value);
}

static void count_add(struct text *json, const char *key, uint64_t value) {
    key_add(json, key);
    text_printf(json, "%" PRIu64, value);
}

// Of an object on one line. Times have three decimals.
static void inner_number(struct text *json, const char *key, double value) {
    text_printf(json, ", \"%s\": ", key);
    if (isfinite(value))
        text_printf(json, "%.3f", value);
    else
        text_puts(json, "null");
}

static void inner_count(struct text *json, const char *key, uint64_t value) {
    text_printf(json, ", \"%s\": %" PRIu64, key, value);
}

static void inner_string(struct text *json, const char *key, const char *value) {
    text_printf(json, ", \"%s\": ", key);
    json_string_add(json, value);
}

// ---- scores

void report_split(struct text *json, const struct trainer *t, enum source_split split, const struct evaluation *e) {
    if (!e->there) {
        text_puts(json, "null");
        return;
    }
    text_printf(json, "{\"examples\": %u, ", t->inputs.shards[split].n);
    evaluation_print(json, t, e);
    text_puts(json, "}");
}

// The last step's model; it may be the best one.
static void json_last(struct text *json, const struct trainer *t) {
    const struct evaluation *last = t->last[SPLIT_VAL].there ? t->last : t->best;
    key_add(json, "last");
    text_printf(json, "{\"step\": %" PRIu64 ", \"epoch\": %" PRIu64 ",\n    \"val\": ", t->state.step, t->state.epoch);
    report_split(json, t, SPLIT_VAL, &last[SPLIT_VAL]);
    text_puts(json, ",\n    \"test\": ");
    report_split(json, t, SPLIT_TEST, &last[SPLIT_TEST]);
    text_puts(json, "}");
}

// ---- what ran

static void json_run(struct text *json, const struct trainer *t) {
    const struct shard *shards = t->inputs.shards;
    text_puts(json, "{\n  \"job\": ");
    json_string_add(json, t->job->job);
    string_add(json, "task", t->job->data.task);
    string_add(json, "base", t->job->model.base);
    string_add(json, "version", FINETUNED_VERSION);
    string_add(json, "run_id", t->state.run_id);
    string_add(json, "config_hash", t->state.config_hash);
    string_add(json, "data_hash", t->state.data_hash);
    string_add(json, "base_hash", t->state.base_hash);
    count_add(json, "seed", t->state.seed);
    count_add(json, "world", (uint64_t)t->comm->world);
    count_add(json, "threads", pool_threads(t->pool));
    string_add(json, "precision", t->state.precision);
    string_add(json, "isa", isa_name(t->ops->isa));
    count_add(json, "parts", t->plan.parts);
    count_add(json, "steps", t->state.step);
    count_add(json, "epochs", t->state.epoch);
    count_add(json, "best_step", t->state.best_step);
    count_add(json, "best_epoch", t->best[SPLIT_VAL].epoch);
    text_printf(json, ",\n  \"train_seconds\": %.3f", t->trained_s);
    count_add(json, "shared_texts", t->inputs.shared_texts);
    key_add(json, "examples");
    text_printf(json, "{\"train\": %u, \"val\": %u, \"test\": %u}", shards[SPLIT_TRAIN].n, shards[SPLIT_VAL].n,
                shards[SPLIT_TEST].n);
}

static void json_timings(struct text *json, const struct trainer *t, const struct history *history) {
    const struct trainer_times *s = &t->times;
    double trained = t->steps_done ? s->steps : (double)NAN;
    key_add(json, "timings");
    text_printf(json, "{\"steps\": %" PRIu64, t->steps_done);
    inner_number(json, "train_s", s->steps);
    inner_number(json, "evaluate_s", s->evaluate);
    inner_number(json, "save_s", s->save);
    inner_number(json, "export_s", s->export);
    inner_number(json, "tokenise_s", s->tokenise);
    inner_number(json, "tweets_per_s", (double)t->total.tweets / trained);
    inner_number(json, "tokens_per_s", (double)t->total.tokens / trained);
    inner_count(json, "starts", history->starts);
    inner_number(json, "all_starts_s", history->active);
    text_puts(json, "}");
}

static void json_memory(struct text *json, const struct trainer *t, const struct provenance *from) {
    key_add(json, "memory");
    text_printf(json, "{\"rss_max_bytes\": %" PRIu64, from->rss_max);
    inner_count(json, "rss_sum_bytes", from->rss_sum);
    inner_count(json, "weights_and_moments_bytes", 3 * t->arena.size + t->copy_arena.size);
    inner_count(json, "gradients_bytes", t->gradients_bytes);
    inner_count(json, "activations_bytes", pass_bytes(t->pass));
    text_puts(json, "}");
}

// Seconds since 1970 in UTC, as ISO 8601; "" if there are none.
static const char *time_text(char out[32], double seconds) {
    time_t whole = (time_t)seconds;
    struct tm parts;
    *out = '\0';
    if (seconds > 0 && gmtime_r(&whole, &parts))
        strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return out;
}

static void json_provenance(struct text *json, const struct trainer *t, const struct provenance *from,
                            const struct history *history) {
    char time[32];
    key_add(json, "provenance");
    text_puts(json, "{\"started\": ");
    json_string_add(json, time_text(time, history->began));
    inner_string(json, "ended", time_text(time, events_now()));
    inner_string(json, "compiler", from->compiler);
    inner_string(json, "cpu", from->cpu);
    inner_count(json, "hosts", (uint64_t)from->hosts);
    inner_string(json, "backend", t->comm->ops->name);
    inner_string(json, "mpi", from->mpi);
    inner_string(json, "hdf5", from->hdf5);
    inner_string(json, "import", t->base_note);
    text_puts(json, "}");
}

static void json_settings(struct text *json, const struct job *job) {
    const char *comma = "";
    key_add(json, "settings");
    text_puts(json, "{");
    for (size_t i = 0; job_key(i); i++) {
        // "auto" has become what it stands for; the report has it as `precision`
        bool resolved = strcmp(job_key(i), "train.precision") == 0;
        char *value = resolved || job_key_is_default(job, i) ? NULL : job_value(job, job_key(i));
        if (value) {
            text_printf(json, "%s\n    \"%s\": ", comma, job_key(i));
            json_string_add(json, value);
            comma = ",";
        }
        free(value);
    }
    text_puts(json, "}");
}

static void json_history(struct text *json, const struct history *history) {
    const char *comma = "";
    key_add(json, "history");
    text_puts(json, "[");
    for (size_t i = 0; i < history->n; i++) {
        const struct history_evaluation *e = &history->evaluations[i];
        if (strcmp(e->split, split_names[SPLIT_VAL]) != 0)
            continue;
        text_printf(json, "%s\n    {\"epoch\": %" PRIu64 ", \"step\": %" PRIu64 ", \"loss\": ", comma, e->epoch,
                    e->step);
        json_number_add(json, e->loss);
        text_puts(json, ", \"official\": {\"name\": ");
        json_string_add(json, e->official);
        text_puts(json, ", \"value\": ");
        json_number_add(json, e->value);
        text_puts(json, "}}");
        comma = ",";
    }
    text_puts(json, "]");
}

static void report_json(struct text *json, const struct trainer *t, const struct provenance *from,
                        const struct history *history) {
    json_run(json, t);
    key_add(json, "val");
    report_split(json, t, SPLIT_VAL, &t->best[SPLIT_VAL]);
    key_add(json, "test");
    report_split(json, t, SPLIT_TEST, &t->best[SPLIT_TEST]);
    json_last(json, t);
    json_timings(json, t, history);
    json_memory(json, t, from);
    json_provenance(json, t, from, history);
    json_settings(json, t->job);
    json_history(json, history);
    text_puts(json, "\n}\n");
}

// ---- the files

static enum status report_put(const struct trainer *t, const char *name, const struct text *text) {
    char *path = path_join(t->job->out, name);
    enum status status = path && text_string(text) ? file_replace(path, text_string(text), text->size)
                                                   : status_set(STATUS_SYSTEM, "report: no memory");
    free(path);
    return status;
}

static enum status report_files(const struct trainer *t, const struct provenance *from) {
    struct history history = {0};
    struct text json = {0}, markdown = {0};
    json_t *read = NULL;
    enum status status;
    TRY_GOTO(history_read(&history, t->job->out), done);
    report_json(&json, t, from, &history);
    TRY_GOTO(folder_held(t), done);
    TRY_GOTO(report_put(t, "report.json", &json), done);
    read = json_loadb(json.at, json.size, 0, NULL);
    report_markdown(&markdown, read);
    TRY_GOTO(report_put(t, "report.md", &markdown), done);
done:
    json_decref(read);
    text_release(&markdown);
    text_release(&json);
    history_release(&history);
    return status;
}

enum status report_write(const struct trainer *t) {
    struct provenance from;
    TRY(provenance_gather(&from, t->comm));
    return comm_agree(t->comm, t->comm->rank == 0 ? report_files(t, &from) : STATUS_OK);
}
