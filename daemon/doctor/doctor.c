// SPDX-License-Identifier: Apache-2.0
#include "daemon/doctor/doctor.h"

#include "base/markup.h"
#include "base/secret.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const struct {
    const char *name;
    doctor_look *look;
} subjects[] = {
    {"program", doctor_program},
    {"cpu", doctor_cpu},
    {"kernels", doctor_kernels},
    {"threads", doctor_threads},
    {"memory", doctor_memory},
    {"huge pages", doctor_huge_pages},
    {"frequency", doctor_frequency},
    {"devices", doctor_devices},
    {"locked memory", doctor_locked_memory},
    {"open files", doctor_open_files},
    {"file size", doctor_file_size},
    {"shared memory", doctor_shared_memory},
    {"clock", doctor_clock},
    {"environment", doctor_environment},
    {"libraries", doctor_libraries},
    {"job", doctor_job},
    {"disk", doctor_disk},
    {"temporary files", doctor_temporary},
    {"world", doctor_world},
};
#define SUBJECTS (sizeof subjects / sizeof *subjects)

static const char *const levels[] = {[DOCTOR_OK] = "ok", [DOCTOR_WARN] = "warn", [DOCTOR_FAIL] = "fail"};

// ---- findings

static void finding_release(struct finding *finding) {
    free(finding->host);
    free(finding->found);
    free(finding->fix);
}

// Takes what the finding holds.
void doctor_add(struct doctor *d, struct finding finding) {
    struct finding *grown = realloc(d->findings, (d->n + 1) * sizeof *grown);
    d->findings = grown ? grown : d->findings;
    if (grown && finding.host && finding.found) {
        d->findings[d->n++] = finding;
        return;
    }
    finding_release(&finding);
    d->lost = true;
}

void doctor_say(struct doctor *d, enum doctor_level level, enum status status, const char *fix, const char *format,
                ...) {
    char *found = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&found, format, args) < 0)
        found = NULL;
    va_end(args);
    if (found)
        secret_mask(found);
    doctor_add(d, (struct finding){.subject = d->subject,
                                   .host = strdup(""),
                                   .level = level,
                                   .status = status,
                                   .found = found,
                                   .fix = fix ? strdup(fix) : NULL});
}

unsigned doctor_ranks(const struct doctor *d) {
    return d->comm ? (unsigned)d->comm->local_world : 1;
}

const char *doctor_subject(const char *name) {
    for (size_t i = 0; i < SUBJECTS; i++)
        if (strcmp(subjects[i].name, name) == 0)
            return subjects[i].name;
    return NULL;
}

// ---- all of it

enum status doctor_run(struct doctor *d) {
    for (size_t i = 0; i < SUBJECTS; i++) {
        d->subject = subjects[i].name;
        subjects[i].look(d);
    }
    if (d->comm)
        TRY(doctor_gather(d));
    return d->lost ? status_set(STATUS_SYSTEM, "doctor: no memory") : STATUS_OK;
}

void doctor_close(struct doctor *d) {
    for (size_t i = 0; i < d->n; i++)
        finding_release(&d->findings[i]);
    free(d->findings);
    free(d->job_message);
    free(d->comm_message);
    dry_report_close(&d->report);
    if (d->trainer)
        trainer_close(d->trainer);
    free(d->trainer);
    base_close(&d->base);
    comm_close(d->own);
}

enum status doctor_status(const struct doctor *d) {
    for (size_t i = 0; i < d->n; i++)
        if (d->findings[i].level == DOCTOR_FAIL)
            return d->findings[i].status;
    return STATUS_OK;
}

void doctor_print(const struct doctor *d) {
    size_t counts[3] = {0};
    for (size_t i = 0; i < d->n; i++) {
        const struct finding *f = &d->findings[i];
        counts[f->level]++;
        printf("%-5s %-16s %s%s%s\n", levels[f->level], f->subject, f->host, *f->host ? ": " : "", f->found);
        if (f->fix)
            printf("%-5s %-16s fix: %s\n", "", "", f->fix);
    }
    printf("%zu ok, %zu warning%s, %zu failure%s\n", counts[DOCTOR_OK], counts[DOCTOR_WARN],
           counts[DOCTOR_WARN] == 1 ? "" : "s", counts[DOCTOR_FAIL], counts[DOCTOR_FAIL] == 1 ? "" : "s");
}

static void json_text(struct text *json, const char *key, const char *value) {
    text_printf(json, ", \"%s\": ", key);
    if (value)
        json_string_add(json, value);
    else
        text_puts(json, "null");
}

void doctor_print_json(const struct doctor *d) {
    struct text json = {0};
    text_puts(&json, "[");
    for (size_t i = 0; i < d->n; i++) {
        const struct finding *f = &d->findings[i];
        text_printf(&json, "%s{\"subject\": \"%s\", \"level\": \"%s\", \"exit\": %d", i ? ",\n " : "", f->subject,
                    levels[f->level], status_exit_code(f->status));
        json_text(&json, "host", *f->host ? f->host : NULL);
        json_text(&json, "found", f->found);
        json_text(&json, "fix", f->fix);
        text_puts(&json, "}");
    }
    text_puts(&json, "]");
    if (text_string(&json))
        puts(text_string(&json));
    text_release(&json);
}
