// SPDX-License-Identifier: Apache-2.0
// The options for people and as a file: YAML that job_read takes again, the list of `finetuned config`, and
// docs/options.md.
#include "base/markup.h"
#include "base/job_draft.h"
#include "base/options.h"

static enum status text_hand_over(char **out, struct text *text) {
    *out = NULL;
    if (text->failed || !text->at) {
        text_release(text);
        return status_set(STATUS_SYSTEM, "config: no memory");
    }
    *out = text->at;
    return STATUS_OK;
}

// ---- YAML

static size_t key_section_size(const char *key) {
    const char *dot = strrchr(key, '.');
    return dot ? (size_t)(dot - key) : 0;
}

static int key_depth(const char *key, size_t size) {
    int depth = 0;
    for (size_t i = 0; i < size; i++)
        depth += key[i] == '.';
    return depth;
}

// The headers of `key`'s sections that the key before it (NULL: none) was not in.
static void yaml_sections(struct text *out, const char *before, const char *key) {
    size_t begin = 0, size = key_section_size(key);
    for (size_t end = 1; end <= size; end++) {
        if (key[end] != '.')
            continue;
        if (!before || strncmp(before, key, end + 1) != 0) {
            int depth = key_depth(key, end);
            text_printf(out, "%s%*s%.*s:\n",
                        depth    ? ""
                        : before ? "\n"
                                 : "",
                        2 * depth, "", (int)(end - begin), key + begin);
        }
        begin = end + 1;
    }
}

static const char *option_later_text(const struct option *option) {
    if (!option->later)
        return NULL;
    return strcmp(option->later, "*") == 0 ? "all but the default" : option->later;
}

static void option_explain(struct text *out, const struct option *option) {
    const char *later = option_later_text(option);
    text_printf(out, "%s [", option->help);
    option_range(out, option);
    text_puts(out, "]");
    if (later)
        text_printf(out, " (not in this version yet: %s)", later);
}

// A path that follows from `job` or `out` is left to follow: "<out>/shards". So a job read back with another `out`
// keeps nothing in the folder of the first.
static bool yaml_follows(const struct option *option, const struct job *job) {
    const char *end = option->fallback ? strchr(option->fallback, '>') : NULL;
    if (!end)
        return false;
    size_t before = strcspn(option->fallback, "<");
    const char *name = strncmp(option->fallback + before, "<job>", 5) == 0 ? job->job : job->out;
    const char *value = *(char *const *)((const char *)job + option->offset);
    char *follows = text_format("%.*s%s%s", (int)before, option->fallback, name, end + 1);
    bool same = value && follows && strcmp(value, follows) == 0;
    free(follows);
    return same;
}

bool job_key_is_default(const struct job *job, size_t i) {
    const struct option *option = &options[i];
    struct text value = {0};
    if (!option->fallback || option_is_unset(option, job))
        return option_is_unset(option, job);
    option_print(&value, option, job);
    bool same = value.at && strcmp(value.at, option->fallback) == 0;
    text_release(&value);
    return same || yaml_follows(option, job);
}

// In a file to edit the job's name goes on following the file's, if nobody gave one.
static bool yaml_name_follows(const struct option *option, const struct job *job) {
    return (option->flags & OPTION_NAME) && ((const struct job_draft *)job)->from[option - options] == 0;
}

// `comments`: the job is one that job_read gave.
static void yaml_option(struct text *out, const struct option *option, const struct job *job, bool comments) {
    const char *name = strrchr(option->key, '.');
    bool unset = option_is_unset(option, job) || (comments && yaml_name_follows(option, job));
    struct text line = {0};
    text_printf(&line, "%*s", 2 * key_depth(option->key, strlen(option->key)), "");
    text_printf(&line, "%s%s: ", unset ? "# " : "", name ? name + 1 : option->key);
    if (yaml_follows(option, job))
        text_puts(&line, option->fallback);
    else
        option_print(&line, option, job);
    if (comments) {
        text_printf(&line, "%*s# ", line.size < 36 ? (int)(36 - line.size) : 1, "");
        option_explain(&line, option);
    }
    out->failed = out->failed || line.failed;
    text_add(out, line.at, line.size);
    text_puts(out, "\n");
    text_release(&line);
}

enum status job_print_yaml(char **out, const struct job *job, bool comments) {
    struct text text = {0};
    for (size_t i = 0; i < options_count; i++) {
        yaml_sections(&text, i ? options[i - 1].key : NULL, options[i].key);
        yaml_option(&text, &options[i], job, comments);
    }
    return text_hand_over(out, &text);
}

// ---- for people

static void list_option(struct text *out, const struct option *option, const struct job *job) {
    const char *later = option_later_text(option);
    text_printf(out, "%s: ", option->key);
    option_print(out, option, job);
    text_printf(out, "\n    %s\n    default: %s; allowed: ", option->help,
                option->fallback ? option->fallback : "none given");
    option_range(out, option);
    text_puts(out, "\n");
    if (later)
        text_printf(out, "    not in this version yet: %s\n", later);
}

static void markdown_option(struct text *out, const struct option *option) {
    const char *later = option_later_text(option);
    struct text range = {0};
    option_range(&range, option);
    text_printf(out, "| `%s` | ", option->key);
    if (option->fallback)
        text_printf(out, "`%s`", option->fallback);
    text_puts(out, " | ");
    markdown_cell_add(out, range.at ? range.at : "");
    text_puts(out, " | ");
    markdown_cell_add(out, option->help);
    if (later) {
        text_puts(out, " (not in this version yet: ");
        markdown_cell_add(out, later);
        text_puts(out, ")");
    }
    text_puts(out, " |\n");
    out->failed = out->failed || range.failed;
    text_release(&range);
}

static void markdown_print(struct text *out) {
    size_t section = SIZE_MAX;
    text_puts(out, "# Options\n\n"
                   "Made by `finetuned config --markdown` from the table in `base/options.c`; change it there.\n\n"
                   "A job file is YAML: `train.lr` is the key `lr` in the section `train`. Each key is also a flag of\n"
                   "`finetuned run` (`--train.lr 3e-5`; lists with commas), which is stronger than the file.\n"
                   "A key that is not known, of the wrong type or out of range ends with exit code 64 before anything\n"
                   "is done. `finetuned config JOB.yaml` shows what a job comes to, `finetuned config --yaml` prints a "
                   "file to edit.\n");
    for (size_t i = 0; i < options_count; i++) {
        const char *key = options[i].key;
        size_t size = strcspn(key, ".");
        size = key[size] ? size : 0;
        if (section != size || (size && strncmp(options[i - 1].key, key, size + 1) != 0)) {
            text_printf(out, "\n## %.*s\n\n", size ? (int)size : 7, size ? key : "The job");
            text_puts(out, "| key | default | allowed | what it is |\n| --- | --- | --- | --- |\n");
        }
        section = size;
        markdown_option(out, &options[i]);
    }
}

enum status job_print_table(char **out, const struct job *job, bool markdown) {
    struct text text = {0};
    if (markdown)
        markdown_print(&text);
    else
        for (size_t i = 0; i < options_count; i++)
            list_option(&text, &options[i], job);
    return text_hand_over(out, &text);
}
