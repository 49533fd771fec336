// SPDX-License-Identifier: Apache-2.0
// finetuned doctor: what of this host, and of a world of hosts, would hinder a job. One function a subject, in the
// table of doctor.c; each says one line or more.
#ifndef FINETUNED_DAEMON_DOCTOR_DOCTOR_H
#define FINETUNED_DAEMON_DOCTOR_DOCTOR_H

#include "base/job.h"
#include "base/text.h"
#include "comm/comm.h"
#include "daemon/run/dry_run.h"

enum doctor_level { DOCTOR_OK, DOCTOR_WARN, DOCTOR_FAIL };

struct finding {
    const char *subject;
    char *host; // "" for this one
    enum doctor_level level;
    enum status status; // of a failure: says the exit code
    char *found, *fix;  // fix NULL: nothing to do
};

struct doctor {
    const char *root;      // before /proc, /sys and /dev: "", or a test's folder
    const struct job *job; // NULL: none was given, or it was refused
    struct comm *comm;     // NULL without --mpi, or if it did not open
    enum status comm_status;
    char *comm_message; // why it did not
    // What trainer_look said of the job (doctor_job_open).
    enum status job_status;
    char *job_message;
    struct base base;         // the job's
    struct trainer *trainer;  // NULL: it did not open
    struct comm *own;         // its world, where that is not `comm`
    struct dry_report report; // sizes alone, if it did
    // What was found.
    const char *subject; // whose turn it is
    struct finding *findings;
    size_t n;
    bool lost; // some finding, for want of memory
};

// All subjects in turn; collective with d->comm. Rank 0 then also has what the other hosts found wrong.
enum status doctor_run(struct doctor *d);
void doctor_close(struct doctor *d);
// The status of the first failure.
enum status doctor_status(const struct doctor *d);
void doctor_print(const struct doctor *d);
void doctor_print_json(const struct doctor *d);

// Takes what the finding holds.
void doctor_add(struct doctor *d, struct finding finding);
// The subject of that name, NULL if there is none.
const char *doctor_subject(const char *name);
// doctor_gather.c; collective with d->comm.
enum status doctor_gather(struct doctor *d);

// One line of the subject whose turn it is.
void doctor_say(struct doctor *d, enum doctor_level level, enum status status, const char *fix, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
#define doctor_ok(d, ...) doctor_say(d, DOCTOR_OK, STATUS_OK, NULL, __VA_ARGS__)
#define doctor_warn(d, fix, ...) doctor_say(d, DOCTOR_WARN, STATUS_OK, fix, __VA_ARGS__)
#define doctor_fail(d, status, fix, ...) doctor_say(d, DOCTOR_FAIL, status, fix, __VA_ARGS__)

// Ranks that this host carries.
unsigned doctor_ranks(const struct doctor *d);
// Opens the job as run does, with nothing written; collective with d->comm. `refused`: job_read's status, with its
// message.
void doctor_job_open(struct doctor *d, enum status refused);

typedef void doctor_look(struct doctor *d);
// doctor_host.c
doctor_look doctor_program, doctor_cpu, doctor_kernels, doctor_threads, doctor_memory, doctor_huge_pages,
    doctor_frequency, doctor_devices, doctor_clock;
// doctor_limits.c
doctor_look doctor_locked_memory, doctor_open_files, doctor_file_size, doctor_shared_memory, doctor_environment,
    doctor_libraries;
// doctor_disk.c
doctor_look doctor_disk, doctor_temporary;
// doctor_job.c
doctor_look doctor_job;
// doctor_world.c
doctor_look doctor_world;

#endif
