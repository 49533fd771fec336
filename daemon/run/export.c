// SPDX-License-Identifier: Apache-2.0
#include "daemon/run/export.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "daemon/verify/published.h"
#include "export/export.h"
#include "export/sums.h"
#include "model/weight_files.h"
#include "train/card.h"
#include "train/folder.h"
#include "train/report_sums.h"
#include "train/report_text.h"
#include "train/told_sum.h"

static enum status run_may(const void *context) {
    return folder_held(context);
}

static struct export_model run_export_model(const struct trainer *t) {
    struct model_settings settings = inputs_settings(t->job);
    settings.no_answer = t->inputs.no_answer;
    return (struct export_model){.config = &t->inputs.config,
                                 .table = &t->table,
                                 .weights = t->arenas.weights,
                                 .tokenizer = t->inputs.tokenizer,
                                 .settings = settings,
                                 .bf16 = t->job->export.dtype == JOB_BF16,
                                 .name = t->job->job,
                                 .may = run_may,
                                 .context = t};
}

static enum status run_export_event(struct trainer *t, const char *kind, const struct export_result *r) {
    log_info("export: %s: %s (%.1f MiB; %s)", kind, r->path, (double)r->bytes / 1048576, r->check);
    event_begin(&t->events, "export");
    event_string(&t->events, "kind", kind);
    event_string(&t->events, "path", r->path);
    event_integer(&t->events, "bytes", (int64_t)r->bytes);
    event_string(&t->events, "sha256", r->sha256);
    event_string(&t->events, "check", r->check);
    return event_end(&t->events);
}

// <out>/model, always.
static enum status run_export_directory(struct trainer *t, const struct export_model *model) {
    struct export_result result = {0};
    char *folder = path_join(t->job->out, "model");
    log_info("export: the best model, of step %llu, to %s/model", (unsigned long long)t->weights_step, t->job->out);
    enum status status =
        folder ? export_hf_directory(&result, model, folder, t->pool) : status_set(STATUS_SYSTEM, "export: no memory");
    if (status == STATUS_OK)
        status = run_export_event(t, "model", &result);
    export_result_release(&result);
    free(folder);
    return status;
}

// An archive is of the run, whatever card stands in <out>/model meanwhile.
static void run_tell_card(const struct trainer *t) {
    char *folder = path_join(t->job->out, "model"), *card = folder ? path_join(folder, SUMS_CARD) : NULL;
    if (card && file_exists(card) && !sums_card_is_own(folder))
        log_warn("export: the card %s was edited: the archive holds the run's own", card);
    free(card);
    free(folder);
}

// One kind of export.to into <out>/artifacts.
static enum status run_export_kind(struct trainer *t, const struct export_model *model,
                                   const struct exporter *exporter) {
    struct export_result result = {0};
    char *folder = path_join(t->job->out, "artifacts");
    log_info("export: %s to %s/artifacts", exporter->kind, t->job->out);
    run_tell_card(t);
    enum status status =
        folder ? export_run(&result, exporter, model, folder, t->pool) : status_set(STATUS_SYSTEM, "export: no memory");
    if (status == STATUS_OK)
        status = run_export_event(t, exporter->kind, &result);
    export_result_release(&result);
    free(folder);
    return status;
}

// Rank 0 works; the others wait at its end.
static enum status run_export_one(struct trainer *t, const struct export_model *model,
                                  const struct exporter *exporter) {
    if (t->comm->rank != 0)
        return STATUS_OK;
    return exporter ? run_export_kind(t, model, exporter) : run_export_directory(t, model);
}

// The directory, then each kind; a signal is acted upon before each.
static enum status run_export_all(struct trainer *t, const struct export_model *model, uint32_t make) {
    static const char *const when = "before all was exported";
    if (make & RUN_MAKES_MODEL) {
        TRY(boundary_asked(t, when));
        TRY(comm_agree(t->comm, run_export_one(t, model, NULL)));
    }
    for (unsigned i = 0; exporters[i].kind; i++)
        if (make & (RUN_MAKES_KIND << i)) {
            TRY(boundary_asked(t, when));
            TRY(comm_agree(t->comm, run_export_one(t, model, &exporters[i])));
        }
    return STATUS_OK;
}

enum status run_export(struct trainer *t, uint32_t make) {
    struct export_model model = run_export_model(t);
    struct text facts = {0};
    double begun = clock_seconds();
    bool works = t->comm->rank == 0;
    char *base = works ? card_base(t->job) : NULL;
    if (works)
        card_of_run(&facts, t);
    model.card = (struct export_card){.base = base, .facts = text_string(&facts)};
    bool lacks = works && !model.card.facts;
    enum status status = comm_agree(t->comm, lacks ? status_set(STATUS_SYSTEM, "export: no memory") : STATUS_OK);
    if (status == STATUS_OK)
        status = run_export_all(t, &model, make);
    text_release(&facts);
    free(base);
    t->times.export += clock_seconds() - begun;
    return status;
}

static bool run_has(const struct job *job, const char *name) {
    char *path = path_join(job->out, name);
    bool has = path && file_exists(path);
    free(path);
    return has;
}

// Whether report.json is one, and of this very run.
static bool run_is_report(const struct trainer *t) {
    json_t *report = NULL;
    bool is = report_read(&report, t->job->out) == STATUS_OK && json_is_object(json_object_get(report, "val"));
    const char *run_id = json_string_value(json_object_get(report, "run_id"));
    is = is && run_id && strcmp(run_id, t->state.run_id) == 0;
    json_decref(report);
    return is;
}

// Whether both forms of the report are there, and as the run wrote them.
static bool run_has_report(const struct trainer *t) {
    const struct job *job = t->job;
    bool there = run_has(job, REPORT_JSON), whole = there && run_is_report(t);
    if (there && !whole)
        log_warn("%s/" REPORT_JSON ": damaged, or no report of this run: made again", job->out);
    else if (whole && report_sums_check(&t->previous.report, job->out) != STATUS_OK) {
        log_warn("%s: made again", status_message());
        return false;
    }
    return whole && run_has(job, REPORT_MARKDOWN);
}

static char *run_artifact(const struct job *job, const struct exporter *exporter) {
    char *folder = path_join(job->out, "artifacts");
    char *path = folder ? export_path(exporter, folder, job->job) : NULL;
    free(folder);
    return path;
}

static bool run_has_artifact(const struct job *job, const struct exporter *exporter) {
    char *path = run_artifact(job, exporter);
    bool has = path && file_exists(path);
    free(path);
    return has;
}

static enum status run_check_listed(const char *path) {
    struct archive_facts facts;
    TRY(archive_check(&facts, path));
    return facts.listed ? STATUS_OK : status_set(STATUS_DATA, "%s: it has no " SUMS_NAME ": damaged", path);
}

// Whether an artifact that is there is as this run wrote it, in every byte: by its event or, where none tells of it,
// by its own list.
static bool run_same_artifact(const struct trainer *t, const struct exporter *exporter) {
    char *path = run_artifact(t->job, exporter);
    const struct history_export *told = history_exported(&t->previous.exports, exporter->kind);
    bool tells = path && told && *told->sha256 && strcmp(told->name, strrchr(path, '/') + 1) == 0;
    bool same = path && (tells ? told_sum_check(path, told->sha256, "export") : run_check_listed(path)) == STATUS_OK;
    if (path && !same)
        log_warn("%s: made again", status_message());
    free(path);
    return same;
}

// Whether <out>/model is whole: its list is there and nothing of it has changed, and its weights are those that the
// events tell of.
static enum status run_check_model(const struct history_exports *exports, const char *folder) {
    const struct history_export *told = history_exported(exports, "model");
    bool listed;
    TRY(sums_usable(&listed, folder));
    if (!listed)
        return status_set(STATUS_DATA, "%s/" SUMS_NAME ": is missing", folder);
    return published_model_check(folder, told ? told->sha256 : "");
}

static enum status run_open_model(const char *folder, struct pool *pool) {
    struct model model;
    TRY(model_open(&model, folder, pool));
    model_close(&model);
    return STATUS_OK;
}

static bool run_has_model(const struct trainer *t, const char *folder) {
    if (!file_is_folder(folder))
        return false;
    bool whole =
        run_check_model(&t->previous.exports, folder) == STATUS_OK && run_open_model(folder, t->pool) == STATUS_OK;
    if (!whole)
        log_warn("%s: %s is made again", status_message(), folder);
    return whole;
}

// Whether <out>/model was written in another dtype than the job wants now.
static bool run_other_dtype(const struct trainer *t, const char *folder) {
    struct model_config config = {0};
    bool other = model_is(folder) && model_config_read(&config, folder) == STATUS_OK &&
                 config.stored_bf16 != (t->job->export.dtype == JOB_BF16);
    model_config_release(&config);
    return other;
}

// Whether an earlier start made it of the model that is the best now: of a complete run it did, of one that was ended
// while it exported its events say.
static bool run_made(const struct trainer *t, const char *kind) {
    return t->complete || (t->idle && history_exported(&t->previous.exports, kind));
}

// An archive that was made once, that the job does not ask for now, and that is another: no start makes it again.
static void run_warn_other(const struct trainer *t, const struct exporter *exporter) {
    const struct history_export *told = history_exported(&t->previous.exports, exporter->kind);
    char *folder = told ? path_join(t->job->out, "artifacts") : NULL,
         *path = folder ? path_join(folder, told->name) : NULL;
    if (path && file_exists(path) && told_sum_check(path, told->sha256, "export") != STATUS_OK)
        log_warn("%s: export.to does not ask for it now: remove it, or ask for it", status_message());
    free(path);
    free(folder);
}

static uint32_t run_look(const struct trainer *t) {
    char *folder = path_join(t->job->out, "model");
    bool other = !folder || ((t->complete || t->idle) && run_other_dtype(t, folder));
    uint32_t make = 0;
    make |= !t->complete || !run_has_report(t) ? RUN_MAKES_REPORT : 0;
    make |= other || !run_made(t, "model") || !run_has_model(t, folder) ? RUN_MAKES_MODEL : 0;
    for (unsigned i = 0; exporters[i].kind; i++)
        if (t->job->export.to[exporters[i].job] &&
            (other || !run_made(t, exporters[i].kind) || !run_has_artifact(t->job, &exporters[i]) ||
             !run_same_artifact(t, &exporters[i])))
            make |= RUN_MAKES_KIND << i;
    for (unsigned i = 0; exporters[i].kind && t->complete; i++)
        if (!t->job->export.to[exporters[i].job])
            run_warn_other(t, &exporters[i]);
    free(folder);
    return make;
}

enum status run_check_outputs(const struct job *job) {
    static const char *const names[] = {REPORT_JSON, REPORT_MARKDOWN, "model/config.json", "model/" WEIGHTS_NAME};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!run_has(job, names[i]))
            return status_set(STATUS_DATA, "%s/%s is missing", job->out, names[i]);
    for (unsigned i = 0; exporters[i].kind; i++)
        if (job->export.to[exporters[i].job] && !run_has_artifact(job, &exporters[i]))
            return status_set(STATUS_DATA, "%s/artifacts has no archive of export.to %s", job->out, exporters[i].kind);
    return STATUS_OK;
}

// Whether the job that the run ended with asks for the same end.
static enum status run_check_end(const struct job *job) {
    static const char *const keys[] = {"train.epochs", "train.max_steps", "export.dtype"};
    struct job *then = NULL;
    char *path = path_join(job->out, "job.yaml");
    enum status status =
        path ? job_read(&then, path, NULL, 0, JOB_NEED_NOTHING) : status_set(STATUS_SYSTEM, "export: no memory");
    for (size_t i = 0; status == STATUS_OK && i < sizeof keys / sizeof *keys; i++) {
        char *a = job_value(then, keys[i]), *b = job_value(job, keys[i]);
        if (!a || !b || strcmp(a, b) != 0)
            status = status_set(STATUS_DATA, "%s was %s, is %s now", keys[i], a ? a : "", b ? b : "");
        free(a);
        free(b);
    }
    job_free(then);
    free(path);
    return status;
}

enum status run_check_kept(const struct job *job) {
    struct history history = {0};
    enum status status = history_read(&history, job->out);
    if (status == STATUS_OK && (strcmp(job->checkpoints.resume, "auto") != 0 || strcmp(history.ended, "end") != 0))
        status = status_set(STATUS_DATA, "%s: the run has not ended, or begins anew", job->out);
    if (status == STATUS_OK)
        status = run_check_end(job);
    char *folder = status == STATUS_OK ? path_join(job->out, "model") : NULL;
    if (status == STATUS_OK)
        status = folder ? run_check_model(&history.exports, folder) : status_set(STATUS_SYSTEM, "export: no memory");
    history_release(&history);
    free(folder);
    return status;
}

enum status run_missing(uint32_t *make, struct trainer *t) {
    *make = t->comm->rank == 0 ? run_look(t) : 0;
    return comm_flags(t->comm, make);
}
