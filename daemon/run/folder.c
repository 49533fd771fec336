// SPDX-License-Identifier: Apache-2.0
#include "daemon/run/folder.h"

#include "base/file.h"
#include "base/log.h"
#include "base/markup.h"
#include "checkpoints/checkpoint.h"
#include "model/model.h"
#include "train/history.h"
#include "train/report_sums.h"
#include "train/report_text.h"

#include <math.h>
#include <string.h>

static json_t *real_or_null(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *history_json(const struct history *h) {
    json_t *list = json_array();
    for (size_t i = 0; i < h->n; i++) {
        const struct history_evaluation *e = &h->evaluations[i];
        if (strcmp(e->split, "val") == 0)
            json_array_append_new(list, json_pack("{s:I, s:I, s:o, s:{s:s, s:o}}", "epoch", (json_int_t)e->epoch,
                                                  "step", (json_int_t)e->step, "loss", real_or_null(e->loss),
                                                  "official", "name", e->official, "value", real_or_null(e->value)));
    }
    return list;
}

static json_t *progress_json(const struct history *h, bool finished) {
    json_t *epoch = h->epoch ? json_integer((json_int_t)h->epoch) : json_null(); // they count from 1
    return json_pack("{s:b, s:I, s:o, s:I, s:s, s:o, s:o, s:I, s:f, s:o}", "finished", finished, "step",
                     (json_int_t)h->step, "epoch", epoch, "steps_total", (json_int_t)h->steps_total, "ended", h->ended,
                     "loss", real_or_null(h->loss), "tweets_per_s", real_or_null(h->tweets_per_s), "starts",
                     (json_int_t)h->starts, "seconds", h->active, "history", history_json(h));
}

// ---- opening

static char *folder_file(const char *folder, const char *name) {
    char *path = path_join(folder, name);
    if (path && !file_named(path)) {
        free(path);
        path = NULL;
    }
    return path;
}

static enum status folder_report(struct run_folder *run) {
    char *path = folder_file(run->path, "report.json");
    enum status status = path ? report_read(&run->report, run->path) : STATUS_OK;
    free(path);
    return status;
}

static enum status folder_job(struct run_folder *run) {
    char *path = folder_file(run->path, "job.yaml");
    enum status status = path ? job_read(&run->job, path, NULL, 0, JOB_NEED_NOTHING) : STATUS_OK;
    free(path);
    if (status == STATUS_USAGE) // the run wrote it: what is wrong with it is no mistake of the command line
        status = STATUS_DATA;
    return status;
}

// Whether the report is of the end that the events tell of; a run that was extended since is under way again.
static bool folder_finished(const struct run_folder *run, const struct history *h) {
    return run->report && strcmp(h->ended, "end") == 0 &&
           (uint64_t)json_integer_value(json_object_get(run->report, "steps")) == h->step;
}

static enum status folder_unknown(const char *path) {
    if (!file_is_folder(path))
        return status_set(STATUS_DATA, "report: %s is no folder", path);
    char *sweep = folder_file(path, "sweep.md");
    bool is_sweep = sweep != NULL;
    free(sweep);
    return status_set(STATUS_DATA, "report: %s is no run's folder (it has no events.jsonl)%s", path,
                      is_sweep ? ": it is a sweep's: see its sweep.md, or name one of its runs"
                      : model_is(path) || checkpoint_is(path) ? ": name the run's out, above it"
                                                              : "");
}

enum status run_folder_open(struct run_folder *out, const char *path) {
    struct history history = {0};
    enum status status;
    *out = (struct run_folder){.path = path};
    char *events = folder_file(path, "events.jsonl");
    free(events);
    if (!events)
        return folder_unknown(path);
    TRY_GOTO(history_read(&history, path), done);
    TRY_GOTO(folder_report(out), done);
    TRY_GOTO(folder_job(out), done);
    out->finished = folder_finished(out, &history);
    if (out->finished && report_sums_check(&history.report, path) != STATUS_OK)
        log_warn("%s: the same run, started again, makes it anew", status_message());
    out->progress = progress_json(&history, out->finished);
    out->world = history.world;
    status = out->progress ? STATUS_OK : status_set(STATUS_SYSTEM, "report: no memory");
done:
    history_release(&history);
    if (status != STATUS_OK)
        run_folder_close(out);
    return status;
}

void run_folder_close(struct run_folder *run) {
    json_decref(run->progress);
    json_decref(run->report);
    job_free(run->job);
    *run = (struct run_folder){0};
}

// ---- a run that was moved or copied

bool run_folder_is_there(const char *folder) {
    char *events = folder_file(folder, "events.jsonl");
    free(events);
    return events != NULL;
}

bool run_folder_is_out(const char *folder, const struct job *job) {
    char *real = NULL, *out = NULL;
    bool is = file_real(&real, folder) == STATUS_OK && file_real(&out, job->out) == STATUS_OK && strcmp(real, out) == 0;
    free(real);
    free(out);
    return is;
}

static char *file_folder(const char *file) {
    const char *slash = strrchr(file, '/');
    return slash ? strndup(file, slash == file ? 1 : (size_t)(slash - file)) : strdup(".");
}

char *run_folder_moved(const char *file, const struct job *job) {
    const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
    char *folder = file_folder(file);
    char *events = folder && strcmp(name, "job.yaml") == 0 ? folder_file(folder, "events.jsonl") : NULL;
    if (events && !run_folder_is_out(folder, job)) {
        free(events);
        return folder;
    }
    free(events);
    free(folder);
    return NULL;
}

// Where a folder that was kept below the old out, and not where it is by itself, is to be found below `folder`:
// malloc'ed; NULL: it lies elsewhere.
static char *moved_place(const char *value, const char *by_itself, const char *old_out, const char *folder) {
    char *real = NULL, *old = NULL, *now = NULL;
    if (file_real(&real, value) == STATUS_OK && file_real(&old, old_out) == STATUS_OK && file_is_in(real, old)) {
        const char *below = real + strlen(old);
        below += strspn(below, "/");
        now = strcmp(below, by_itself) == 0 ? NULL : path_join(folder, below);
    }
    free(real);
    free(old);
    return now;
}

// A cache that lay elsewhere and is not there any more is made anew below the folder, not where it was.
static char *moved_cache(const struct job *then, const char *folder) {
    char *real = NULL, *old = NULL;
    bool elsewhere = then->data.cache && !file_exists(then->data.cache) &&
                     file_real(&real, then->data.cache) == STATUS_OK && file_real(&old, then->out) == STATUS_OK &&
                     !file_is_in(real, old);
    free(real);
    free(old);
    return elsewhere ? path_join(folder, "shards") : NULL;
}

static void flag_add(struct text *out, const char *flag, const char *value) {
    text_printf(out, " %s ", flag);
    text_word(out, value);
}

bool run_folder_moved_flags(struct text *out, const struct job *then, const char *folder, const struct job_words *given,
                            const struct job *job) {
    const struct {
        const char *flag, *value, *by_itself, *now;
    } kept[] = {{"--checkpoints.dir", then->checkpoints.dir, "checkpoints", job ? job->checkpoints.dir : NULL},
                {"--data.cache", then->data.cache, "shards", job ? job->data.cache : NULL}};
    bool lacks = false, cached = false;
    flag_add(out, "--out", folder);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        const bool asked = given && job_words_give(given, kept[i].flag);
        char *now = moved_place(kept[i].value, kept[i].by_itself, then->out, folder);
        if (asked || now)
            flag_add(out, kept[i].flag, asked ? kept[i].now : now);
        lacks = lacks || (now && !asked);
        cached = asked || now; // the last is the cache
        free(now);
    }
    char *cache = cached ? NULL : moved_cache(then, folder);
    if (cache)
        flag_add(out, "--data.cache", cache);
    free(cache);
    return lacks;
}

// Whether a run wrote that job file. Those of older versions have no such line, but lie beside their events.
static bool job_is_runs(const char *file) {
    const char *slash = strrchr(file, '/');
    char *bytes = NULL, *folder = NULL, *events = NULL;
    if (file_check_regular(file) != STATUS_OK) // a pipe is read once
        return false;
    bool is = file_read(&bytes, NULL, file, JOB_FILE_MAX) == STATUS_OK &&
              strncmp(bytes, JOB_FILE_WRITTEN, strlen(JOB_FILE_WRITTEN)) == 0;
    if (!is && strcmp(slash ? slash + 1 : file, "job.yaml") == 0 && (folder = file_folder(file)))
        is = (events = folder_file(folder, "events.jsonl")) != NULL;
    free(events);
    free(folder);
    free(bytes);
    return is;
}

// Of the job file that is given.
static enum status check_moved_file(const struct job *job, const struct job_words *words) {
    struct job *then = NULL;
    struct text flags = {0};
    enum status status = STATUS_OK;
    if (!words->file || !job_is_runs(words->file))
        return STATUS_OK;
    TRY(job_read(&then, words->file, NULL, 0, JOB_NEED_NOTHING));
    if (then->out && !run_folder_is_out(then->out, job) && run_folder_moved_flags(&flags, then, job->out, words, job)) {
        struct text file = {0};
        text_word(&file, words->file);
        status = status_set(STATUS_USAGE,
                            "%s was written by the run in %s, and a run in %s would use what that keeps there: with "
                            "your launcher and other flags, start `finetuned run %s%s`",
                            words->file, then->out, job->out, text_string(&file), text_string(&flags));
        text_release(&file);
    }
    text_release(&flags);
    job_free(then);
    return status;
}

// Of the run that lies in the job's out: its checkpoints came along, and are not where the job, whoever wrote it, has
// them: they would be trained again from step 0.
static enum status check_moved_out(const struct job *job) {
    struct job *then = NULL;
    char *path = folder_file(job->out, "job.yaml"), *now = NULL;
    enum status status = STATUS_OK;
    if (path && job_is_runs(path) && job_read(&then, path, NULL, 0, JOB_NEED_NOTHING) == STATUS_OK && then->out &&
        !run_folder_is_out(job->out, then) && !file_exists(job->checkpoints.dir))
        now = moved_place(then->checkpoints.dir, "checkpoints", then->out, job->out);
    if (now && file_is_folder(now)) {
        struct text word = {0};
        text_word(&word, now);
        status = status_set(STATUS_USAGE,
                            "checkpoints.dir: there is no %s, but the run in %s was moved or copied there with %s: add "
                            "--checkpoints.dir %s",
                            job->checkpoints.dir, job->out, now, text_string(&word));
        text_release(&word);
    }
    free(now);
    free(path);
    job_free(then);
    return status;
}

enum status run_folder_check_moved(const struct job *job, const struct job_words *words) {
    TRY(check_moved_file(job, words));
    return check_moved_out(job);
}

void run_folder_command(struct text *out, const char *folder, const struct job *then) {
    char *file = path_join(folder, "job.yaml");
    text_puts(out, "finetuned run ");
    text_word(out, file ? file : folder);
    free(file);
    if (then && !run_folder_is_out(folder, then))
        run_folder_moved_flags(out, then, folder, NULL, NULL);
}

static void onwards_line(struct text *out, const struct run_folder *run) {
    text_puts(out, "To go on: `");
    if (run->world > 1)
        text_printf(out, "mpirun -n %llu ", (unsigned long long)run->world);
    run_folder_command(out, run->path, run->job);
    text_puts(out, "`");
    if (run->world > 1)
        text_printf(out, " (it was started with %llu ranks)", (unsigned long long)run->world);
    text_puts(out, "\n");
}

// ---- what is shown

static long long count(const json_t *object, const char *key) {
    return (long long)json_integer_value(json_object_get(object, key));
}

// "Not finished: at step 40 of 120 (epoch 2) after 2 starts and 63 s; stop: signal."
static void progress_line(struct text *out, const struct run_folder *run) {
    const json_t *p = run->progress, *loss = json_object_get(p, "loss"), *rate = json_object_get(p, "tweets_per_s");
    const char *ended = json_string_value(json_object_get(p, "ended"));
    text_printf(out, "Not finished: at step %lld of %lld ", count(p, "step"), count(p, "steps_total"));
    if (count(p, "epoch"))
        text_printf(out, "(epoch %lld) ", count(p, "epoch"));
    text_printf(out, "after %lld start%s and %.0f s; ", count(p, "starts"), count(p, "starts") == 1 ? "" : "s",
                json_number_value(json_object_get(p, "seconds")));
    text_puts(out, strcmp(ended, "no stop event") == 0 ? "no stop event: it runs, or was killed" : ended);
    if (json_is_number(loss) && json_is_number(rate))
        text_printf(out, "; loss %.4f, %.1f tweets/s", json_number_value(loss), json_number_value(rate));
    text_puts(out, ".\n");
    onwards_line(out, run);
}

void run_folder_markdown(struct text *out, const struct run_folder *run) {
    if (!run->finished) {
        text_puts(out, "# ");
        markdown_cell_add(out, run->job ? run->job->job : run->path);
        text_puts(out, "\n\n");
        progress_line(out, run);
        report_history_markdown(out, json_object_get(run->progress, "history"));
        if (run->report)
            text_puts(out, "\nThe report of an earlier end:\n\n");
    }
    if (run->report)
        report_markdown(out, run->report);
}

json_t *run_folder_json(const struct run_folder *run) {
    return json_pack("{s:s, s:b, s:O, s:O?}", "folder", run->path, "finished", run->finished, "progress", run->progress,
                     "report", run->report);
}

// Numbers only, the official one under its own name.
static json_t *scores_flat(const json_t *split) {
    json_t *flat = json_object(), *value;
    const json_t *official = json_object_get(split, "official");
    const char *key, *name = json_string_value(json_object_get(official, "name"));
    if (name && json_is_number(json_object_get(official, "value")))
        json_object_set(flat, name, json_object_get(official, "value"));
    json_object_foreach((json_t *)(uintptr_t)split, key, value) {
        if (json_is_number(value) && strcmp(key, "examples") != 0 && strcmp(key, "step") != 0 &&
            strcmp(key, "epoch") != 0)
            json_object_set(flat, key, value);
    }
    return flat;
}

json_t *run_folder_scores(const struct run_folder *run, const char *split) {
    const json_t *of = json_object_get(run->report, split), *history = json_object_get(run->progress, "history");
    size_t n = json_array_size(history);
    if (!run->finished)
        of = strcmp(split, "val") == 0 && n ? json_array_get(history, n - 1) : NULL;
    return json_is_object(of) ? scores_flat(of) : NULL;
}
