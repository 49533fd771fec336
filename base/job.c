// SPDX-License-Identifier: Apache-2.0
// A job is filled in three turns: defaults, the file's keys (job_yaml.c), the flags; then names inside paths are
// resolved and what concerns more than one key is checked.
#include "base/job_draft.h"

#include "base/file.h"
#include "base/secret.h"

#include <math.h>

// "emotion.yaml:12: train.lr" or "--train.lr".
static char *job_where(const struct job_draft *draft, size_t i, int64_t from) {
    const char *key = options[i].key;
    if (from > 0)
        return text_format("%s:%lld: %s", draft->file, (long long)from, key);
    return text_format(from == JOB_FROM_FLAG ? "--%s" : "%s", key);
}

enum status job_draft_set(struct job_draft *draft, size_t i, const char *text, bool quoted, int64_t from) {
    if (from > 0 && draft->from[i] > 0)
        return status_set(STATUS_USAGE, "%s:%lld: %s is given twice, first in line %lld", draft->file, (long long)from,
                          options[i].key, (long long)draft->from[i]);
    char *where = job_where(draft, i, from);
    if (!where)
        return status_set(STATUS_SYSTEM, "job: no memory");
    enum status status = option_set(&options[i], &draft->job, text, quoted, where);
    draft->from[i] = from;
    free(where);
    return status;
}

// Every key, and in a file also the sections: what stands before a key's last dot.
static const char *job_nearest(const char *key, bool sections, char *section, size_t room) {
    const char *names[OPTIONS_MAX] = {0};
    for (size_t i = 0; i < options_count; i++)
        names[i] = options[i].key;
    const char *near = text_nearest(key, names, options_count);
    for (size_t i = 0; sections && !near && i < options_count; i++) {
        const char *dot = strrchr(options[i].key, '.');
        snprintf(section, room, "%.*s", dot ? (int)(dot - options[i].key) : 0, options[i].key);
        near = text_nearest(key, (const char *const[]){section}, 1);
    }
    return near;
}

enum status job_draft_unknown(const char *file, const char *line, const char *key) {
    char section[64];
    const char *near = job_nearest(key, *line, section, sizeof section);
    return status_set(STATUS_USAGE, "%s%s%.80s is no known key%s%s%s; all keys: finetuned config", file, line, key,
                      near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
}

static enum status job_defaults(struct job_draft *draft) {
    for (size_t i = 0; i < options_count; i++)
        if (options[i].fallback)
            TRY(job_draft_set(draft, i, options[i].fallback, false, 0));
    return STATUS_OK;
}

// ---- flags

static enum status job_flag(struct job_draft *draft, const char *name, size_t size, const char *value) {
    char key[64];
    if (size < sizeof key) {
        memcpy(key, name, size);
        key[size] = '\0';
    }
    const struct option *option = size < sizeof key ? option_find(key) : NULL;
    if (!option)
        return job_draft_unknown("--", "", size < sizeof key ? key : name);
    if (!value)
        return status_set(STATUS_USAGE, "--%s needs a value, as --%s %s", key, key,
                          option->fallback ? option->fallback : "VALUE");
    return job_draft_set(draft, (size_t)(option - options), value, false, JOB_FROM_FLAG);
}

// Given twice, the last one holds, as with most programs: scripts put a user's flags behind their own.
static enum status job_flags(struct job_draft *draft, const char *const *flags, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const char *flag = flags[i];
        if (strncmp(flag, "--", 2) != 0 || !flag[2])
            return status_set(STATUS_USAGE, "'%.80s' is not understood here; options are given as --key value", flag);
        const char *equals = strchr(flag, '=');
        if (equals) {
            TRY(job_flag(draft, flag + 2, (size_t)(equals - flag) - 2, equals + 1));
            continue;
        }
        bool follows = i + 1 < n && strncmp(flags[i + 1], "--", 2) != 0;
        TRY(job_flag(draft, flag + 2, strlen(flag) - 2, follows ? flags[i + 1] : NULL));
        i++;
    }
    return STATUS_OK;
}

// ---- resolving

// "runs/emotion.yaml" -> "emotion"; "job" where that is no name.
static enum status job_name_default(struct job_draft *draft) {
    if (draft->job.job)
        return STATUS_OK;
    const char *file = draft->file ? draft->file : "";
    const char *slash = strrchr(file, '/'), *first = slash ? slash + 1 : file;
    const char *dot = strrchr(first, '.');
    char *name = strndup(first, dot ? (size_t)(dot - first) : strlen(first));
    if (!name)
        return status_set(STATUS_SYSTEM, "job: no memory");
    const struct option *option = option_find("job");
    if (option_set(option, &draft->job, name, false, "job") != STATUS_OK)
        TRY(option_set(option, &draft->job, "job", false, "job"));
    free(name);
    return STATUS_OK;
}

// Other formats need no task's name; it stands in messages, reports and the names of shards.
static enum status job_task_default(struct job *job) {
    const struct option *task = option_find("data.task");
    struct text format = {0};
    if (job->data.task || job->data.format == JOB_TWEET_EVAL)
        return STATUS_OK;
    option_print(&format, option_find("data.format"), job);
    enum status status = format.failed ? status_set(STATUS_SYSTEM, "job: no memory")
                                       : option_set(task, job, text_string(&format), false, "data.task");
    text_release(&format);
    return status;
}

// Puts `value` wherever `name` stands in `*text`. What can't be read again from job.yaml as it is is refused: longer
// than a value may be, with the name in it still, out of a piece of the value and what was around it, or a credential.
static enum status job_resolve_name(char **text, const char *key, const char *name, const char *value) {
    struct text out = {0};
    const char *rest = *text;
    for (const char *at; (at = strstr(rest, name)) && out.size <= OPTION_VALUE_MAX; rest = at + strlen(name)) {
        text_add(&out, rest, (size_t)(at - rest));
        text_puts(&out, value);
    }
    text_puts(&out, rest);
    if (!text_string(&out)) {
        text_release(&out);
        return status_set(STATUS_SYSTEM, "job: no memory");
    }
    free(*text);
    *text = out.at;
    if (out.size > OPTION_VALUE_MAX)
        return status_set(STATUS_USAGE, "%s: with %s filled in it has more than %d bytes", key, name, OPTION_VALUE_MAX);
    if (strstr(*text, name))
        return status_set(STATUS_USAGE, "%s: with %s filled in there is another %s in it", key, name, name);
    if (secret_is_in(*text)) // which no piece of it was
        return status_set(STATUS_USAGE, "%s: with %s filled in it looks like a URL with a password or a token", key,
                          name);
    return STATUS_OK;
}

static enum status job_refuse(const struct job_draft *draft, const char *key, const char *what) {
    size_t i = (size_t)(option_find(key) - options);
    struct text value = {0};
    char *where = job_where(draft, i, draft->from[i]);
    option_print(&value, &options[i], &draft->job);
    enum status status = status_set(STATUS_USAGE, "%s: %s %s", where ? where : key, text_string(&value), what);
    free(where);
    text_release(&value);
    return status;
}

// A shell fills in ~ only where a word begins with it, and a file's values are seen by none.
static enum status job_check_home(const struct job_draft *draft) {
    static const char *const paths[] = {"out",        "model.base",      "model.vocab",       "data.dir",
                                        "data.cache", "checkpoints.dir", "checkpoints.resume"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        const char *value = *(char *const *)((const char *)&draft->job + option_find(paths[i])->offset);
        if (value && file_is_home(value))
            return job_refuse(draft, paths[i], "begins with ~, which no shell filled in: write the folder in full");
    }
    return STATUS_OK;
}

// <word>: a name to be filled in that there is not, and no folder that anybody wants.
static enum status job_check_names(const struct job_draft *draft, const char *key, const char *value,
                                   const char *known) {
    char what[160];
    for (const char *at = strchr(value, '<'); at; at = strchr(at + 1, '<')) {
        size_t size = strspn(at + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");
        if (size == 0 || at[1 + size] != '>')
            continue;
        snprintf(what, sizeof what, "is not allowed: nothing is filled in for <%.*s> (only for %s)",
                 size < 64 ? (int)size : 64, at + 1, known);
        return job_refuse(draft, key, what);
    }
    return STATUS_OK;
}

// A question, its context and the tokens that windows share: as Transformers' run_qa.
#define JOB_QUESTION_LENGTH 384

static enum status job_resolve(struct job_draft *draft) {
    struct job *job = &draft->job;
    if (job->model.head == JOB_HEAD_QUESTION_ANSWERING && draft->from[option_find("data.max_length") - options] == 0)
        job->data.max_length = JOB_QUESTION_LENGTH;
    TRY(job_name_default(draft));
    TRY(job_task_default(job));
    TRY(job_resolve_name(&job->out, "out", "<job>", job->job));
    if (strstr(job->out, "<out>"))
        return job_refuse(draft, "out", "is not allowed: it can't lie in itself");
    TRY(job_check_names(draft, "out", job->out, "<job>"));
    TRY(job_resolve_name(&job->data.cache, "data.cache", "<out>", job->out));
    TRY(job_resolve_name(&job->checkpoints.dir, "checkpoints.dir", "<out>", job->out));
    TRY(job_check_names(draft, "data.cache", job->data.cache, "<out>"));
    TRY(job_check_names(draft, "checkpoints.dir", job->checkpoints.dir, "<out>"));
    return job_check_home(draft);
}

// ---- rules over several keys

static enum status job_check_later(const struct job_draft *draft) {
    for (size_t i = 0; i < options_count; i++) {
        struct text value = {0};
        bool later = option_later(&value, &options[i], &draft->job);
        char *where = later ? job_where(draft, i, draft->from[i]) : NULL;
        if (later)
            status_set(STATUS_USAGE, "%s: %s: not in this version yet", where ? where : options[i].key,
                       text_string(&value));
        free(where);
        text_release(&value);
        if (later)
            return STATUS_USAGE;
    }
    return STATUS_OK;
}

static enum status job_check_rules(const struct job_draft *draft) {
    const struct job *job = &draft->job;
    if (job->train.warmup >= 1 && job->train.warmup != floor(job->train.warmup))
        return job_refuse(draft, "train.warmup",
                          "is not allowed; allowed: below 1 a share of all steps, from 1 on a whole number of steps");
    if (job->train.parts > job->train.batch)
        return job_refuse(draft, "train.parts", "is above train.batch; allowed: auto, or a power of two not above it");
    bool classes = job->model.head == JOB_HEAD_CLASSIFICATION;
    if (!classes && job->train.label_smoothing > 0)
        return job_refuse(draft, "train.label_smoothing", "is for classification; model.head is question_answering");
    if (!classes && strcmp(job->train.class_weights, "none") != 0)
        return job_refuse(draft, "train.class_weights", "is for classification; model.head is question_answering");
    return STATUS_OK;
}

// A folder of other files that lacks nothing but the format's name.
static void job_format_hint(struct text *out, const char *dir) {
    static const char *const endings[] = {"csv", "tsv", "jsonl", "json"};
    static const char *const formats[] = {"csv", "tsv", "jsonl", "squad and model.head: question_answering"};
    for (size_t i = 0; dir && i < sizeof endings / sizeof *endings; i++) {
        char *path = text_format("%s/train.%s", dir, endings[i]);
        if (path && file_exists(path))
            text_printf(out, "; or, as %s is there, give data.format: %s", path, formats[i]);
        free(path);
    }
}

static enum status job_check_need(const struct job_draft *draft, enum job_need need) {
    static const char *const needed[] = {"model.base", "data.dir", "data.task"};
    if (need == JOB_NEED_NOTHING)
        return STATUS_OK;
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        const struct option *option = option_find(needed[i]);
        if (strcmp(needed[i], "data.task") == 0 && draft->job.data.format != JOB_TWEET_EVAL)
            continue;
        struct text range = {0};
        bool unset = option_is_unset(option, &draft->job);
        option_range(&range, option);
        if (unset && strcmp(needed[i], "data.task") == 0)
            job_format_hint(&range, draft->job.data.dir);
        if (unset)
            status_set(STATUS_USAGE, "%s%s%s must be given (in the job file, or as --%s); allowed: %s",
                       draft->file ? draft->file : "", draft->file ? ": " : "", needed[i], needed[i],
                       text_string(&range));
        text_release(&range);
        if (unset)
            return STATUS_USAGE;
    }
    return STATUS_OK;
}

// ---- all of it

static enum status job_fill(struct job_draft *draft, const char *bytes, size_t size, const char *const *flags,
                            size_t n_flags, enum job_need need) {
    TRY(job_defaults(draft));
    if (bytes)
        TRY(job_draft_yaml(draft, bytes, size));
    TRY(job_flags(draft, flags, n_flags));
    TRY(job_resolve(draft));
    TRY(job_check_rules(draft));
    TRY(job_check_later(draft));
    return job_check_need(draft, need);
}

enum status job_parse(struct job **out, const char *bytes, size_t size, const char *name, const char *const *flags,
                      size_t n_flags, enum job_need need) {
    *out = NULL;
    struct job_draft *draft = calloc(1, sizeof *draft);
    if (!draft)
        return status_set(STATUS_SYSTEM, "job: no memory");
    draft->file = name;
    enum status status = job_fill(draft, bytes, size, flags, n_flags, need);
    draft->file = NULL;
    if (status != STATUS_OK)
        job_free(&draft->job);
    else
        *out = &draft->job;
    return status;
}

enum status job_read(struct job **out, const char *file, const char *const *flags, size_t n_flags, enum job_need need) {
    char *bytes = NULL;
    size_t size = 0;
    *out = NULL;
    if (file) {
        enum status status = file_read_stream(&bytes, &size, file, JOB_FILE_MAX);
        if (status == STATUS_DATA) // not there, or larger than any job file: the command line's mistake
            status = STATUS_USAGE;
        TRY(status);
    }
    enum status status = job_parse(out, bytes, size, file, flags, n_flags, need);
    free(bytes);
    return status;
}

void job_free(struct job *job) {
    if (!job)
        return;
    for (size_t i = 0; i < options_count; i++)
        option_clear(&options[i], job);
    free(job); // the draft begins with it
}

const char *job_key(size_t i) {
    return i < options_count ? options[i].key : NULL;
}

bool job_key_defines_run(size_t i) {
    return i < options_count && (options[i].flags & OPTION_DEFINES_RUN);
}

char *job_value(const struct job *job, const char *key) {
    const struct option *option = option_find(key);
    struct text value = {0};
    if (!option)
        return NULL;
    text_puts(&value, "");
    option_print(&value, option, job);
    if (value.failed)
        text_release(&value);
    return value.at;
}
