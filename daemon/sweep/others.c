// SPDX-License-Identifier: Apache-2.0
// Runs that a sweep's folder holds beside those of now: other lists made them. They stay, and the table names them.
#include "daemon/sweep/sweep.h"

#include "base/file.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

#define OTHERS_SHOWN 5 // names in the warning

static enum status no_memory(void) {
    return status_set(STATUS_SYSTEM, "sweep: no memory");
}

static bool is_cell(const struct sweep *s, const char *name) {
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->cells[i].name, name) == 0)
            return true;
    return false;
}

static enum status others_add(struct job_list *list, const char *name) {
    char **grown = realloc(list->at, (list->n + 1) * sizeof *grown);
    if (!grown)
        return no_memory();
    list->at = grown;
    if (!(list->at[list->n] = strdup(name)))
        return no_memory();
    list->n++;
    return STATUS_OK;
}

static enum status others_one(struct sweep *s, const char *task, const char *cell) {
    char *name = path_join(task, cell), *folder = name ? path_join(s->job->out, name) : NULL;
    char *events = folder ? path_join(folder, "events.jsonl") : NULL;
    enum status status = events ? STATUS_OK : no_memory();
    if (events && strncmp(cell, "lr-", 3) == 0 && file_exists(events) && !is_cell(s, name))
        status = others_add(&s->others, name);
    free(events);
    free(folder);
    free(name);
    return status;
}

static enum status others_task(struct sweep *s, const char *task) {
    char **names = NULL, *folder = path_join(s->job->out, task);
    size_t n = 0;
    enum status status = folder ? STATUS_OK : no_memory();
    if (folder && *task != '.' && file_is_folder(folder))
        status = file_list(&names, &n, folder);
    free(folder);
    TRY(status);
    for (size_t i = 0; i < n && status == STATUS_OK; i++)
        status = others_one(s, task, names[i]);
    if (names)
        file_list_free(names, n);
    return status;
}

static void others_say(const struct sweep *s) {
    struct text names = {0};
    for (size_t i = 0; i < s->others.n && i < OTHERS_SHOWN; i++)
        text_printf(&names, "%s%s", i ? ", " : "", s->others.at[i]);
    log_warn("sweep: %s holds %zu run%s of other lists (%s%s): they stay and are named in the table, whose numbers are "
             "those of the lists of now; a table of all needs all lists",
             s->job->out, s->others.n, s->others.n == 1 ? "" : "s", text_string(&names) ? text_string(&names) : "",
             s->others.n > OTHERS_SHOWN ? ", ..." : "");
    text_release(&names);
}

enum status sweep_others(struct sweep *s) {
    char **names;
    size_t n;
    enum status status = STATUS_OK;
    if (!file_is_folder(s->job->out))
        return STATUS_OK;
    TRY(file_list(&names, &n, s->job->out));
    for (size_t i = 0; i < n && status == STATUS_OK; i++)
        status = others_task(s, names[i]);
    file_list_free(names, n);
    if (status == STATUS_OK && s->others.n)
        others_say(s);
    return status;
}
