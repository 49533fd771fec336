// SPDX-License-Identifier: Apache-2.0
// finetuned doctor: what would hinder a job on this host, or in this world of hosts, and what to change.
#include "daemon/verbs.h"

#include "base/log.h"
#include "daemon/doctor/doctor.h"
#include "daemon/flags.h"
#include "daemon/run/folder.h"

#include <stdlib.h>

struct doctor_flags {
    bool mpi, json;
};

// Every rank ends with rank 0's status.
static enum status doctor_share(struct comm *comm, enum status status) {
    int32_t shared = (int32_t)status;
    enum status sent = comm ? comm_broadcast(comm, &shared, sizeof shared, 0) : STATUS_OK;
    return sent == STATUS_OK ? (enum status)shared : sent;
}

static enum status doctor_look_all(struct doctor *d, enum status refused, bool json) {
    bool speaks = !d->comm || d->comm->rank == 0;
    doctor_job_open(d, refused);
    TRY(doctor_run(d));
    if (speaks)
        (json ? doctor_print_json : doctor_print)(d);
    return STATUS_OK;
}

// What was found has been said: the exit code alone is left. `*failed`: the doctor itself failed, with a message.
static enum status doctor_work(bool *failed, const struct job *job, enum status refused, const struct doctor_flags *f) {
    struct doctor d = {.root = "", .job = job};
    struct comm *comm = NULL;
    char *message = refused == STATUS_OK ? NULL : strdup(status_message());
    d.comm_status = f->mpi ? comm_open(&comm, JOB_BACKEND_MPI) : STATUS_OK;
    d.comm_message = d.comm_status == STATUS_OK ? NULL : strdup(status_message());
    d.comm = comm;
    log_setup(LOG_WARN, comm ? comm->rank : 0, comm ? comm->world : 1);
    if (message)
        status_set(refused, "%s", message); // MPI may have said something since
    free(message);
    enum status status = doctor_look_all(&d, refused, f->json);
    *failed = status != STATUS_OK;
    if (!*failed)
        status = doctor_share(comm, doctor_status(&d));
    doctor_close(&d);
    comm_close(comm);
    return status;
}

static struct doctor_flags given;
static const struct flag flags[] = {
    {"--mpi", FLAG_SWITCH, &given.mpi, NULL,
     "start MPI and look at all ranks: program, kernels, CPUs, clocks, and every host's findings", NULL, false},
    {"--json", FLAG_SWITCH, &given.json, NULL, "an array of {subject, level, exit, host, found, fix}", NULL, false},
    FLAGS_END,
};

const struct verb_flags verb_doctor_flags = {
    .verb = "doctor",
    .usage = "[JOB.yaml] [--mpi] [--json] [--key value …]",
    .about = "Looks for what would hinder a job on this host: processor, threads, memory, disk, limits, clock, "
             "environment, libraries. With a job (a file, or keys as flags) also opens it as run would, with nothing "
             "written, and compares memory and disk with what it needs. Under mpirun or srun: --mpi. Each line is ok, "
             "warn or fail, with a fix.\n"
             "Exit code: 0, or that of the first failure: 64 and 65 the job, 69 memory, kernels, clock or libraries, "
             "74 disk, 75 the folder is in use.",
    .flags = flags,
    .words = "FILE",
    .keys = true,
    .examples = "finetuned doctor\n"
                "finetuned doctor job.yaml\n"
                "mpirun -np 4 finetuned doctor --mpi job.yaml",
};

// Without --mpi under a launcher: one of its tasks speaks.
static bool doctor_silent(void) {
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    return !given.mpi && rank && strcmp(rank, "0") != 0;
}

int verb_doctor(int argc, char **argv) {
    struct job *job = NULL;
    struct job_words words;
    bool helped, failed = true;
    enum status refused = STATUS_OK, status = flags_parse_job(&words, &verb_doctor_flags, argc, argv, &helped);
    if (status == STATUS_OK && !helped && !doctor_silent()) {
        if (words.file || words.n_options)
            refused = job_read(&job, words.file, words.options, words.n_options, JOB_NEED_RUN);
        if (job && refused == STATUS_OK)
            refused = run_folder_check_moved(job, &words);
        status = doctor_work(&failed, job, refused, &given);
    }
    job_words_release(&words);
    job_free(job);
    if (helped || doctor_silent())
        return 0;
    return failed || status == STATUS_OK ? verb_exit(status) : status_exit_code(status);
}
