// SPDX-License-Identifier: Apache-2.0
#include "daemon/flags.h"

#include "base/file.h"
#include "base/job.h"
#include "base/log.h"
#include "base/text.h"
#include "daemon/help.h"

static const struct flag *flags_find(const struct verb_flags *spec, const char *word, size_t size) {
    for (const struct flag *f = spec->flags; f->name; f++)
        if (strlen(f->name) == size && memcmp(f->name, word, size) == 0)
            return f;
    return NULL;
}

static enum status flags_unknown(const struct verb_flags *spec, const char *word) {
    for (const char *const *later = spec->later; later && *later; later++)
        if (strncmp(word, *later, strlen(*later)) == 0)
            return status_set(STATUS_USAGE, "%s: %s is not in this version yet", spec->verb, *later);
    const char *names[64] = {"--help"};
    size_t n = 1;
    for (const struct flag *f = spec->flags; f->name && n < 64; f++)
        names[n++] = f->name;
    const char *near = text_nearest(word, names, n);
    return status_set(STATUS_USAGE, "%s: unknown flag %s%s%s (see finetuned %s --help)", spec->verb, word,
                      near ? ": did you mean " : "", near ? near : "", spec->verb);
}

static enum status flags_choice(const struct verb_flags *spec, const struct flag *flag, const char *value) {
    struct text allowed = {0};
    for (int i = 0; flag->choices[i]; i++) {
        if (strcmp(flag->choices[i], value) == 0) {
            *(int *)flag->out = i;
            text_release(&allowed);
            return STATUS_OK;
        }
        text_printf(&allowed, "%s%s", i ? ", " : "", flag->choices[i]);
    }
    enum status status = status_set(STATUS_USAGE, "%s: %s is '%s', must be one of: %s", spec->verb, flag->name, value,
                                    text_string(&allowed));
    text_release(&allowed);
    return status;
}

static enum status flags_value(const struct verb_flags *spec, const struct flag *flag, const char *value) {
    switch (flag->kind) {
    case FLAG_STRING:
        if (!*value && strcmp(flag->value, "TEXT") != 0)
            return status_set(STATUS_USAGE, "%s: %s is empty, must be a %s", spec->verb, flag->name, flag->value);
        if (strcmp(flag->value, "TEXT") != 0 && file_is_home(value))
            return status_set(STATUS_USAGE, "%s: %s %s begins with ~, which no shell filled in: write the path in full",
                              spec->verb, flag->name, value);
        *(const char **)flag->out = value;
        return STATUS_OK;
    case FLAG_CHOICE:
        return flags_choice(spec, flag, value);
    default:
        if (text_to_i64(value, flag->out) && *(int64_t *)flag->out >= 1)
            return STATUS_OK;
        return status_set(STATUS_USAGE, "%s: %s is '%s', must be a whole number from 1 on", spec->verb, flag->name,
                          value);
    }
}

// One flag at argv[*i]; moves *i over its value.
static enum status flags_one(const struct verb_flags *spec, int argc, char **argv, int *i) {
    const char *word = argv[*i], *equals = strchr(word, '=');
    const struct flag *flag = flags_find(spec, word, equals ? (size_t)(equals - word) : strlen(word));
    if (!flag)
        return flags_unknown(spec, word);
    if (flag->kind == FLAG_SWITCH) {
        if (equals)
            return status_set(STATUS_USAGE, "%s: %s takes no value", spec->verb, flag->name);
        *(bool *)flag->out = true;
        return STATUS_OK;
    }
    if (!equals && *i + 1 >= argc)
        return status_set(STATUS_USAGE, "%s: %s needs a value (%s)", spec->verb, flag->name, flag->value);
    return flags_value(spec, flag, equals ? equals + 1 : argv[++*i]);
}

static enum status flags_required(const struct verb_flags *spec, size_t words) {
    for (const struct flag *f = spec->flags; f->name; f++)
        if (f->required && f->kind == FLAG_STRING && !*(const char **)f->out)
            return status_set(STATUS_USAGE, "%s: %s %s is required (see finetuned %s --help)", spec->verb, f->name,
                              f->value, spec->verb);
    if (words < spec->min_words && words == 0)
        return status_set(STATUS_USAGE, "%s: which %s? usage: finetuned %s %s", spec->verb,
                          spec->words ? spec->words : "argument", spec->verb, spec->usage);
    if (words < spec->min_words || words > spec->max_words)
        return status_set(STATUS_USAGE, "%s: %zu argument%s given: usage: finetuned %s %s", spec->verb, words,
                          words == 1 ? "" : "s", spec->verb, spec->usage);
    return STATUS_OK;
}

enum status flags_parse(const struct verb_flags *spec, int argc, char **argv, char **words, size_t *n_words,
                        bool *helped) {
    bool flags = true;
    *n_words = 0;
    *helped = false;
    for (int i = 1; i < argc; i++) {
        if (flags && (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)) {
            *helped = true;
            help_verb(spec);
            return STATUS_OK;
        }
        if (flags && strcmp(argv[i], "--") == 0)
            flags = false;
        else if (flags && argv[i][0] == '-' && argv[i][1])
            TRY(flags_one(spec, argc, argv, &i));
        else
            words[(*n_words)++] = argv[i];
    }
    return flags_required(spec, *n_words);
}

// ---- with a job

// What is neither a flag of the verb nor a key: the nearest of both is named, of the keys by job_read.
static enum status flags_slip(const struct verb_flags *spec, const char *word) {
    const char *names[JOB_KEYS_MAX + 16] = {"help"};
    char name[64];
    size_t n = 1, size = strcspn(word, "=");
    for (const struct flag *f = spec->flags; f->name && n < 16; f++)
        names[n++] = f->name + 2;
    size_t own = n;
    snprintf(name, sizeof name, "%.*s", (int)(size > 2 ? size - 2 : 0), word + 2);
    for (size_t i = 0; job_key(i); i++)
        if (strcmp(names[n++] = job_key(i), name) == 0)
            return STATUS_OK;
    const char *near = text_nearest(name, names, n);
    for (size_t i = 0; near && i < own; i++)
        if (names[i] == near)
            return flags_unknown(spec, word);
    return STATUS_OK;
}

// "train.lr=3e-5": a key that lacks its dashes.
static bool flags_is_key(const char *word) {
    size_t size = strcspn(word, "=");
    for (size_t i = 0; job_key(i); i++)
        if (strchr(job_key(i), '.') && strlen(job_key(i)) == size && strncmp(word, job_key(i), size) == 0)
            return true;
    return false;
}

static enum status flags_job_missing(const struct verb_flags *spec, const char *file) {
    const char *slash = strrchr(file, '/');
    char *folder = slash ? strndup(file, (size_t)(slash - file) + 1) : strdup(""), **names = NULL;
    size_t n = 0;
    if (folder && file_list(&names, &n, *folder ? folder : ".") != STATUS_OK)
        n = 0;
    const char *near = text_nearest(slash ? slash + 1 : file, (const char *const *)names, n);
    enum status status = status_set(STATUS_USAGE, "%s: %s is not there%s%s%s%s", spec->verb, file,
                                    near ? ": did you mean " : "", near && folder ? folder : "", near ? near : "",
                                    near ? "?" : " (finetuned config --yaml prints a job file to edit)");
    file_list_free(names, n);
    free(folder);
    return status;
}

// A folder or a name that is not there: what may have been meant.
static enum status flags_job_file(const struct verb_flags *spec, const char *file) {
    char *inside = path_join(file, "job.yaml");
    enum status status = STATUS_OK;
    if (inside && file_is_folder(file))
        status = status_set(STATUS_USAGE, "%s: %s is a folder%s%s", spec->verb, file,
                            file_exists(inside) ? ": its job file is " : ", a job file is needed",
                            file_exists(inside) ? inside : "");
    else if (!file_named(file))
        status = flags_job_missing(spec, file);
    free(inside);
    return status;
}

static enum status flags_job_word(struct job_words *out, const struct verb_flags *spec, const char *word) {
    if (word[0] == '-' && word[1])
        return flags_unknown(spec, word);
    if (flags_is_key(word))
        return status_set(STATUS_USAGE, "%s: did you mean --%s? (keys of the job are flags)", spec->verb, word);
    if (out->file)
        return status_set(STATUS_USAGE, "%s: one job file, not '%s' and '%s' (see finetuned %s --help)", spec->verb,
                          out->file, word, spec->verb);
    out->file = word;
    return STATUS_OK;
}

static enum status flags_job_key(struct job_words *out, const struct verb_flags *spec, int argc, char **argv, int *i) {
    TRY(flags_slip(spec, argv[*i]));
    out->options[out->n_options++] = argv[*i];
    if (!strchr(argv[*i], '=') && *i + 1 < argc && strncmp(argv[*i + 1], "--", 2) != 0)
        out->options[out->n_options++] = argv[++*i];
    return STATUS_OK;
}

static bool flags_later(const struct verb_flags *spec, const char *word) {
    for (const char *const *later = spec->later; later && *later; later++)
        if (strcmp(word, *later) == 0)
            return true;
    return false;
}

static enum status flags_job_one(struct job_words *out, const struct verb_flags *spec, int argc, char **argv, int *i) {
    const char *word = argv[*i];
    if (strncmp(word, "--", 2) != 0)
        return flags_job_word(out, spec, word);
    if (flags_find(spec, word, strcspn(word, "=")) || flags_later(spec, word))
        return flags_one(spec, argc, argv, i);
    return flags_job_key(out, spec, argc, argv, i);
}

enum status flags_parse_job(struct job_words *out, const struct verb_flags *spec, int argc, char **argv, bool *helped) {
    *out = (struct job_words){.options = calloc((size_t)argc + 1, sizeof *out->options)};
    *helped = false;
    if (!out->options)
        return status_set(STATUS_SYSTEM, "%s: no memory", spec->verb);
    for (int i = 1; i < argc && !*helped; i++)
        *helped = strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0;
    if (*helped)
        return help_verb(spec), STATUS_OK;
    for (int i = 1; i < argc; i++)
        TRY(flags_job_one(out, spec, argc, argv, &i));
    return out->file ? flags_job_file(spec, out->file) : STATUS_OK;
}

bool job_words_give(const struct job_words *words, const char *flag) {
    size_t size = strlen(flag);
    for (size_t i = 0; i < words->n_options; i++)
        if (strncmp(words->options[i], flag, size) == 0 && (!words->options[i][size] || words->options[i][size] == '='))
            return true;
    return false;
}

void job_words_release(struct job_words *words) {
    free(words->options);
    *words = (struct job_words){0};
}

int verb_exit(enum status status) {
    if (status != STATUS_OK)
        log_error("%s", status_message());
    if ((fflush(stdout) != 0 || ferror(stdout)) && status == STATUS_OK) {
        log_error("writing standard output failed");
        return 74;
    }
    return status_exit_code(status);
}

int verb_refused(enum status status) {
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    return rank && strcmp(rank, "0") != 0 ? status_exit_code(status) : verb_exit(status);
}
