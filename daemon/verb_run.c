// SPDX-License-Identifier: Apache-2.0
// finetuned run JOB.yaml: the whole of a job, from text to artifacts.
#include "daemon/verbs.h"

#include "base/file.h"
#include "base/text.h"
#include "daemon/flags.h"
#include "export/export.h"
#include "train/trainer.h"

static struct export_model run_export_model(const struct trainer *t) {
    return (struct export_model){.config = &t->inputs.config,
                                 .table = &t->table,
                                 .weights = t->arenas.weights,
                                 .tokenizer = t->inputs.tokenizer,
                                 .settings = inputs_settings(t->job),
                                 .bf16 = t->job->export.dtype == JOB_BF16,
                                 .name = t->job->job};
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
static enum status run_export_model_directory(struct trainer *t, const struct export_model *model, const char *folder) {
    struct export_result result = {0};
    enum status status = export_hf_directory(&result, model, folder, t->pool);
    if (status == STATUS_OK)
        status = run_export_event(t, "model", &result);
    export_result_release(&result);
    return status;
}

// One kind of export.to into <out>/artifacts.
static enum status run_export_kind(struct trainer *t, const struct export_model *model, const char *kind) {
    struct export_result result = {0};
    char *folder = path_join(t->job->out, "artifacts");
    const struct exporter *exporter = export_find(kind);
    enum status status = exporter && folder ? exporter->run(&result, model, folder, t->pool)
                                            : status_set(STATUS_SYSTEM, "export: no exporter for %s", kind);
    if (status == STATUS_OK)
        status = run_export_event(t, kind, &result);
    export_result_release(&result);
    free(folder);
    return status;
}

static bool run_has(const struct trainer *t, const char *format) {
    char *name = text_format(format, t->job->job), *path = name ? path_join(t->job->out, name) : NULL;
    bool has = path && file_exists(path);
    free(path);
    free(name);
    return has;
}

// Whether <out>/model is whole: it opens.
static bool run_has_model(const char *folder) {
    struct model model;
    bool whole = model_is(folder) && model_open(&model, folder) == STATUS_OK;
    if (whole)
        model_close(&model);
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

// What a run makes after training.
enum { MAKE_REPORT = 1, MAKE_MODEL = 2, MAKE_HF = 4 };

// Everything after training; of a run that was complete before, only what is missing.
static uint32_t run_look(const struct trainer *t) {
    char *folder = path_join(t->job->out, "model");
    bool all = !t->complete || !folder, other = !all && run_other_dtype(t, folder);
    uint32_t make = 0;
    make |= all || !run_has(t, "report.json") || !run_has(t, "report.md") ? MAKE_REPORT : 0;
    make |= all || other || !run_has_model(folder) ? MAKE_MODEL : 0;
    make |= t->job->export.to[JOB_EXPORT_HF] && (all || other || !run_has(t, "artifacts/%s-hf.tar.gz")) ? MAKE_HF : 0;
    free(folder);
    return make;
}

// Rank 0 looks; all ranks take the same way.
static enum status run_missing(struct trainer *t, uint32_t *make) {
    *make = t->comm->rank == 0 ? run_look(t) : 0;
    return comm_flags(t->comm, make);
}

static enum status run_export(struct trainer *t, uint32_t make) {
    struct export_model model = run_export_model(t);
    enum status status = STATUS_OK;
    if (t->comm->rank != 0)
        return STATUS_OK;
    if (make & MAKE_MODEL) {
        char *folder = path_join(t->job->out, "model");
        status =
            folder ? run_export_model_directory(t, &model, folder) : status_set(STATUS_SYSTEM, "export: no memory");
        free(folder);
    }
    return status == STATUS_OK && (make & MAKE_HF) ? run_export_kind(t, &model, "hf") : status;
}

static enum status run_phases(struct trainer *t, const struct job *job, struct comm *comm) {
    uint32_t make;
    TRY(trainer_open(t, job, comm));
    TRY(trainer_run(t));
    TRY(run_missing(t, &make));
    if (!make)
        return STATUS_OK;
    TRY(trainer_best(t));
    if (make & MAKE_REPORT)
        TRY(trainer_finish(t));
    TRY(comm_agree(comm, run_export(t, make)));
    return comm_agree(comm, trainer_end_event(t));
}

static void run_results(const struct trainer *t) {
    if (t->comm->rank != 0)
        return;
    printf("model       %s/model\nreport      %s/report.md\nevents      %s/events.jsonl\ncheckpoints %s\n", t->job->out,
           t->job->out, t->job->out, t->job->checkpoints.dir);
}

static enum status run_world(const struct job *job, struct comm *comm) {
    struct trainer *trainer = calloc(1, sizeof *trainer);
    if (!trainer)
        return status_set(STATUS_SYSTEM, "run: no memory");
    enum status status = run_phases(trainer, job, comm);
    // Said once, by one rank, and before the launcher ends the others.
    if (status == STATUS_OK)
        run_results(trainer);
    else if (comm->rank == 0)
        log_error("%s", status_message());
    if (status != STATUS_OK)
        trainer_fail(trainer, status);
    trainer_close(trainer);
    free(trainer);
    return status;
}

static enum status run_job(const struct job *job) {
    struct comm *comm = NULL;
    enum status status = comm_open(&comm, job->comm.backend);
    if (status != STATUS_OK)
        return verb_exit(status), status;
    log_setup((enum log_level)job->log.level, comm->rank, comm->world);
    status = run_world(job, comm);
    comm_close(comm);
    return status;
}

// The job file is read before there is a world; one rank's complaint is enough.
static int run_refused(enum status status) {
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    return rank && strcmp(rank, "0") != 0 ? status_exit_code(status) : verb_exit(status);
}

static const struct flag flags[] = {FLAGS_END};
static const char *const later[] = {"--dry-run", NULL};

const struct verb_flags verb_run_flags = {
    .verb = "run",
    .usage = "[JOB.yaml] [--key value …]",
    .about =
        "Trains the job to its end, evaluates on val each epoch, saves checkpoints, scores the best model on test and "
        "exports it.\n"
        "Start it alone, or under mpirun or srun. The same command again goes on from the newest checkpoint.\n"
        "Every key of the job file is also a flag, e.g. --train.lr 3e-5; finetuned config lists them.\n"
        "Exit codes: 0 done, 64 usage, 65 data, model or checkpoint unusable or diverged, 74 I/O, 75 stopped with a "
        "checkpoint: start it again.",
    .flags = flags,
    .later = later,
    .words = "FILE",
    .keys = true,
};

int verb_run(int argc, char **argv) {
    struct job *job = NULL;
    struct job_words words;
    bool helped;
    enum status status = flags_parse_job(&words, &verb_run_flags, argc, argv, &helped);
    if (status == STATUS_OK && !helped)
        status = job_read(&job, words.file, words.options, words.n_options, JOB_NEED_RUN);
    job_words_release(&words);
    if (status != STATUS_OK || helped)
        return helped ? 0 : run_refused(status);
    status = run_job(job);
    job_free(job);
    return status == STATUS_OK ? verb_exit(status) : status_exit_code(status);
}
