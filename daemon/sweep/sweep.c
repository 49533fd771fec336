// SPDX-License-Identifier: Apache-2.0
// The cells of a sweep: a job each, made of the sweep's own file and flags with more flags behind them.
#include "daemon/sweep/sweep.h"

#include "base/file.h"

const char *const sweep_score_names[SWEEP_SCORES] = {"val", "test", "last val", "last test"};
const char *const sweep_state_names[] = {"waiting", "done", "diverged"};

struct sweep_cell *sweep_cell(const struct sweep *s, size_t task, size_t rate, size_t seed) {
    return &s->cells[(task * s->rates.n + rate) * s->seeds.n + seed];
}

size_t sweep_count(const struct sweep *s, enum sweep_state state) {
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        n += s->cells[i].state == state;
    return n;
}

// ---- lists

static enum status no_memory(void) {
    return status_set(STATUS_SYSTEM, "sweep: no memory");
}

static enum status list_copy(struct job_list *out, const struct job_list *in) {
    out->at = calloc(in->n + 1, sizeof *out->at);
    if (!out->at)
        return no_memory();
    for (; out->n < in->n; out->n++)
        if (!(out->at[out->n] = strdup(in->at[out->n])))
            return no_memory();
    return STATUS_OK;
}

// The list, or where it is empty the one value of its key.
static enum status list_fill(struct job_list *out, const struct job_list *given, const char *value) {
    char *one = value ? strdup(value) : NULL;
    enum status status = STATUS_OK;
    if (given->n)
        status = list_copy(out, given);
    else
        status = one ? list_copy(out, &(struct job_list){.at = &one, .n = 1}) : no_memory();
    free(one);
    return status;
}

static void list_free(struct job_list *list) {
    for (size_t i = 0; i < list->n; i++)
        free(list->at[i]);
    free(list->at);
}

static enum status lists_open(struct sweep *s) {
    const struct job *job = s->job;
    char *rate = job_value(job, "train.lr"), *seed = job_value(job, "train.seed");
    enum status status = list_fill(&s->tasks, &job->sweep.tasks, job->data.task);
    if (status == STATUS_OK)
        status = list_fill(&s->rates, &job->sweep.rates, rate);
    if (status == STATUS_OK)
        status = list_fill(&s->seeds, &job->sweep.seeds, seed);
    free(rate);
    free(seed);
    s->n = s->tasks.n * s->rates.n * s->seeds.n;
    if (status == STATUS_OK && s->n > SWEEP_CELLS_MAX)
        return status_set(
            STATUS_USAGE,
            "sweep: %zu tasks, %zu rates and %zu seeds are %zu runs; at most %d are allowed: make several "
            "sweeps of it",
            s->tasks.n, s->rates.n, s->seeds.n, s->n, SWEEP_CELLS_MAX);
    return status;
}

// ---- cells

// "stance/abortion" as "stance-abortion", as in the names of token shards.
static enum status cell_name(struct sweep_cell *cell, const struct sweep *s) {
    const char *task = s->tasks.at[cell->task];
    cell->name = text_format("%s/lr-%s-seed-%s", task, s->rates.at[cell->rate], s->seeds.at[cell->seed]);
    if (!cell->name)
        return no_memory();
    for (size_t i = 0; i < strlen(task); i++)
        if (cell->name[i] == '/')
            cell->name[i] = '-';
    if (*task == '.')
        return status_set(STATUS_USAGE, "sweep.tasks: %s can't name a folder of runs: it begins with a dot", task);
    return STATUS_OK;
}

// "<job>-<folder>", so that archives and model cards of two cells have names of their own. Where that is no job's name,
// the sweep's stands.
static char *cell_job_name(const struct sweep_cell *cell, const struct sweep *s) {
    char *name = text_format("%s-%s", s->job->job, cell->name);
    for (char *at = name; at && *at; at++)
        *at = *at == '/' ? '-' : *at;
    if (name && (strlen(name) > 100 || strchr(name, '<'))) {
        free(name);
        return strdup(s->job->job);
    }
    return name;
}

static enum status cell_job(struct sweep_cell *cell, const struct sweep *s, const struct job_words *words,
                            const char *bytes, size_t size) {
    char *name = cell_job_name(cell, s);
    char *made[] = {text_format("--job=%s", name ? name : ""),
                    text_format("--out=%s/%s", s->job->out, cell->name),
                    text_format("--data.cache=%s", s->job->data.cache),
                    text_format("--train.lr=%s", s->rates.at[cell->rate]),
                    text_format("--train.seed=%s", s->seeds.at[cell->seed]),
                    strdup("--sweep.tasks="),
                    strdup("--sweep.rates="),
                    strdup("--sweep.seeds="),
                    text_format("--data.task=%s", s->tasks.at[cell->task])};
    size_t n = sizeof made / sizeof *made;
    const char **flags = calloc(words->n_options + n, sizeof *flags);
    enum status status = name && flags ? STATUS_OK : no_memory();
    for (size_t i = 0; i < n && status == STATUS_OK; i++)
        status = made[i] ? STATUS_OK : no_memory();
    for (size_t i = 0; i < words->n_options + n && status == STATUS_OK; i++)
        flags[i] = i < words->n_options ? words->options[i] : made[i - words->n_options];
    if (status == STATUS_OK)
        status = job_parse(&cell->job, bytes, size, words->file, flags, words->n_options + n, JOB_NEED_RUN);
    for (size_t i = 0; i < n; i++)
        free(made[i]);
    free(flags);
    free(name);
    return status;
}

static enum status cells_open(struct sweep *s, const struct job_words *words, const char *bytes, size_t size) {
    s->cells = calloc(s->n, sizeof *s->cells);
    s->facts = calloc(s->tasks.n, sizeof *s->facts);
    if (!s->cells || !s->facts)
        return no_memory();
    for (size_t i = 0; i < s->n; i++) {
        struct sweep_cell *cell = &s->cells[i];
        cell->seed = i % s->seeds.n;
        cell->rate = i / s->seeds.n % s->rates.n;
        cell->task = i / s->seeds.n / s->rates.n;
        TRY(cell_name(cell, s));
        TRY(cell_job(cell, s, words, bytes, size));
    }
    return STATUS_OK;
}

// ---- what a sweep can't do

static enum status sweep_check_job(const struct sweep *s) {
    const struct job *job = s->job;
    if (!job->sweep.tasks.n && !job->data.task)
        return status_set(STATUS_USAGE,
                          "sweep: of which task? Give sweep.tasks, a list, or data.task (in the job file, or "
                          "as --sweep.tasks a,b)");
    if (job->sweep.tasks.n && job->data.task)
        log_info("sweep: the tasks are sweep.tasks; data.task, %s, is not asked", job->data.task);
    if (job->sweep.tasks.n && job->data.format != JOB_TWEET_EVAL)
        return status_set(
            STATUS_USAGE,
            "sweep.tasks: only with data.format: tweet_eval, where a task is a folder of data.dir: of other "
            "formats make one sweep for each data.dir");
    if (strcmp(job->checkpoints.resume, "auto") != 0)
        return status_set(
            STATUS_USAGE,
            "checkpoints.resume: %s: a sweep goes on where it was (auto); to begin anew, give another out",
            job->checkpoints.resume);
    return STATUS_OK;
}

static enum status sweep_check_cells(const struct sweep *s) {
    const struct sweep_cell *first = s->cells;
    if (strcmp(first->job->checkpoints.dir, s->job->checkpoints.dir) == 0)
        return status_set(STATUS_USAGE,
                          "checkpoints.dir: %s would be that of every run: a sweep needs <out> in it, as "
                          "<out>/checkpoints, the default",
                          s->job->checkpoints.dir);
    for (size_t i = 1; i < s->tasks.n; i++)
        for (size_t j = 0; j < i; j++)
            if (strcmp(sweep_cell(s, i, 0, 0)->name, sweep_cell(s, j, 0, 0)->name) == 0)
                return status_set(STATUS_USAGE, "sweep.tasks: %s and %s would have their runs in the same folders: %s",
                                  s->tasks.at[j], s->tasks.at[i], sweep_cell(s, i, 0, 0)->name);
    return STATUS_OK;
}

static enum status sweep_fill(struct sweep *s, const struct job_words *words) {
    char *bytes = NULL;
    size_t size = 0;
    TRY(job_read(&s->job, words->file, words->options, words->n_options, JOB_NEED_NOTHING));
    TRY(sweep_check_job(s));
    TRY(lists_open(s));
    if (words->file)
        TRY(file_read(&bytes, &size, words->file, JOB_FILE_MAX));
    enum status status = cells_open(s, words, bytes, size);
    free(bytes);
    return status == STATUS_OK ? sweep_check_cells(s) : status;
}

enum status sweep_open(struct sweep *out, const struct job_words *words) {
    *out = (struct sweep){0};
    enum status status = sweep_fill(out, words);
    if (status != STATUS_OK)
        sweep_close(out);
    return status;
}

void sweep_close(struct sweep *s) {
    for (size_t i = 0; s->cells && i < s->n; i++) {
        job_free(s->cells[i].job);
        free(s->cells[i].name);
        free(s->cells[i].trouble);
    }
    free(s->cells);
    free(s->facts);
    list_free(&s->tasks);
    list_free(&s->rates);
    list_free(&s->seeds);
    list_free(&s->others);
    job_free(s->job);
    *s = (struct sweep){0};
}
