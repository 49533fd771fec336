// SPDX-License-Identifier: Apache-2.0
// finetuned run JOB.yaml: the whole of a job, from text to artifacts.
#include "daemon/verbs.h"

#include <signal.h>
#include <string.h>

#include "comm/watch.h"
#include "daemon/run/dry_run.h"
#include "daemon/flags.h"
#include "daemon/verify/intact.h"
#include "daemon/paths/places.h"
#include "daemon/run/folder.h"
#include "daemon/run/job.h"
#include "train/report_text.h"
#include "train/stop.h"

// The best model's score, as the report has it: it may be of an earlier start.
static void run_score(const char *out) {
    json_t *report = NULL;
    if (report_read(&report, out) != STATUS_OK)
        return;
    const char *name = json_is_object(json_object_get(report, "test")) ? "test" : "val";
    struct text scores = {0};
    report_scores(&scores, json_object_get(report, name));
    printf("%-11s %s (best model, step %lld)\n", name, text_string(&scores),
           (long long)json_integer_value(json_object_get(report, "best_step")));
    text_release(&scores);
    json_decref(report);
}

static void run_results(const struct job *job) {
    run_score(job->out);
    printf("model       %s/model\nreport      %s/report.md\nevents      %s/events.jsonl\ncheckpoints %s\n", job->out,
           job->out, job->out, job->checkpoints.dir);
}

struct run_flags {
    bool dry, json;
    const char *file; // of the job; NULL: none, or `out` was given beside it
};

// A job file that lies in a run's folder and is of another run: of where that folder was moved or copied from.
// STATUS_USAGE if there is none any more.
static enum status run_look_moved(const struct job *job, const struct run_flags *f) {
    enum status status = STATUS_OK;
    char *folder = f->file ? run_folder_moved(f->file, job) : NULL;
    struct text flags = {0};
    if (!folder)
        return STATUS_OK;
    run_folder_moved_flags(&flags, job, folder, NULL, NULL);
    if (!run_folder_is_there(job->out))
        status = status_set(STATUS_USAGE,
                            "%s is of the run in %s, but its out is %s, where no run is any more: it would be trained "
                            "again from step 0; to go on in %s add%s",
                            f->file, folder, job->out, folder, text_string(&flags));
    else
        log_warn("%s is of the run in %s, but its out is %s: this start is of the run there; for the one in %s add%s",
                 f->file, folder, job->out, folder, text_string(&flags));
    text_release(&flags);
    free(folder);
    return status;
}

static enum status run_world(const struct job *job, struct comm *comm, const struct run_flags *f) {
    struct base base = {0};
    struct run_result result;
    enum status status = comm_agree(comm, comm->rank == 0 ? run_look_moved(job, f) : STATUS_OK);
    if (status == STATUS_OK)
        status = places_agree(job, comm);
    if (status == STATUS_OK)
        status = intact_base(job, comm);
    if (status == STATUS_OK)
        status = base_open(&base, job, comm);
    if (status != STATUS_OK && comm_speaks(comm))
        log_error("%s", status_message());
    if (status == STATUS_OK)
        status = f->dry ? dry_run(job, &base, comm, f->json) : run_job(&result, job, &base, comm, 0);
    if (status == STATUS_OK && !f->dry && comm->rank == 0)
        run_results(job);
    base_close(&base);
    return status;
}

static enum status run_start(const struct job *job, const struct run_flags *f) {
    struct comm *comm = NULL;
    enum status status = comm_open(&comm, job->comm.backend);
    if (status != STATUS_OK)
        return verb_exit(status), status;
    log_setup((enum log_level)job->log.level, comm->rank, comm->world);
    if (job->sweep.tasks.n || job->sweep.seeds.n || job->sweep.rates.n)
        log_info("sweep.*: for finetuned sweep; run takes data.task, train.seed and train.lr");
    status = comm_watch(comm, job->comm.timeout);
    if (status == STATUS_OK)
        status = run_world(job, comm, f);
    else if (comm_speaks(comm))
        log_error("%s", status_message());
    comm_close(comm);
    return status;
}

static struct run_flags given;
static const struct flag flags[] = {
    {"--dry-run", FLAG_SWITCH, &given.dry, NULL,
     "says what the run would do, its steps, memory, disk and time, and refuses what it would refuse; writes nothing",
     NULL, false},
    {"--json", FLAG_SWITCH, &given.json, NULL, "with --dry-run: one JSON object", NULL, false},
    FLAGS_END,
};

const struct verb_flags verb_run_flags = {
    .verb = "run",
    .usage = "[JOB.yaml] [--dry-run [--json]] [--key value …]",
    .about =
        "Trains the job to its end, evaluates on val each epoch, saves checkpoints, scores the best model on test and "
        "exports it.\n"
        "Start it alone, or under mpirun or srun. The same command again goes on from the newest checkpoint.\n"
        "Every key of the job file is also a flag, e.g. --train.lr 3e-5; finetuned config lists them.\n"
        "Exit codes: 0 done, 64 usage, 65 data, model or checkpoint unusable or diverged, 69 device, kernel or memory "
        "not there, 70 internal error, 74 I/O or too little room, 75 stopped, or a rank lost: start it again.",
    .flags = flags,
    .words = "FILE",
    .keys = true,
    .examples = "finetuned run --model.base path/to/model --data.dir path/to/tweet_eval --data.task emotion --out "
                "runs/emotion\n"
                "mpirun -np 4 finetuned run job.yaml\n"
                "finetuned run job.yaml --train.lr 3e-5 --dry-run",
};

int verb_run(int argc, char **argv) {
    enum status status = stop_install(); // first of all: a launcher may pass a signal on while we start
    signal(SIGPIPE, SIG_IGN);            // a closed standard output must not end a run
    struct job *job = NULL;
    struct job_words words = {0};
    bool helped = false;
    if (status == STATUS_OK)
        status = flags_parse_job(&words, &verb_run_flags, argc, argv, &helped);
    if (status == STATUS_OK && !helped && given.json && !given.dry)
        status = status_set(STATUS_USAGE, "run: --json goes with --dry-run (a run's own JSON is <out>/events.jsonl)");
    if (status == STATUS_OK && !helped && !words.file && !words.n_options)
        status =
            status_set(STATUS_USAGE, "run: which job? Give a job file (finetuned config --yaml prints one to edit), or "
                                     "--model.base, --data.dir and --data.task");
    if (status == STATUS_OK && !helped)
        status = job_read(&job, words.file, words.options, words.n_options, JOB_NEED_RUN);
    if (status == STATUS_OK && !helped)
        status = run_folder_check_moved(job, &words);
    given.file = job_words_give(&words, "--out") ? NULL : words.file;
    job_words_release(&words);
    if (status != STATUS_OK || helped) {
        job_free(job);
        return helped ? 0 : verb_refused(status);
    }
    status = run_start(job, &given);
    job_free(job);
    return status == STATUS_OK ? verb_exit(status) : status_exit_code(status);
}
