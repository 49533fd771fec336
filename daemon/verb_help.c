// SPDX-License-Identifier: Apache-2.0
// finetuned help, man and completion: what the tables say, for people, for man and for shells.
#include "daemon/verbs.h"

#include "base/file.h"
#include "base/job.h"
#include "base/text.h"
#include "daemon/completion.h"
#include "daemon/flags.h"
#include "daemon/help.h"
#include "daemon/man.h"
#include "daemon/paths/taken.h"

#include <stdio.h>
#include <stdlib.h>

static const struct flag no_flags[] = {FLAGS_END};

static enum status help_print(const struct text *text) {
    if (!text_string(text))
        return status_set(STATUS_SYSTEM, "no memory for the text");
    return fputs(text_string(text), stdout) < 0 ? status_errno(STATUS_IO, "writing standard output") : STATUS_OK;
}

// ---- help

const struct verb_flags verb_help_flags = {
    .verb = "help",
    .usage = "[VERB | KEY | SECTION]",
    .about = "Explains a verb, a key of the job file (train.lr), or all keys of a section (train). Without a word: all "
             "verbs.",
    .flags = no_flags,
    .max_words = 2,
    .words = "TOPIC",
    .examples = "finetuned help run\nfinetuned help bench gemm\nfinetuned help train.lr",
};

static const struct verb_flags *help_part(const struct verb_flags *spec, const char *name) {
    for (const struct verb_flags *const *part = spec->parts; part && *part; part++)
        if (strcmp((*part)->verb + strlen(spec->verb) + 1, name) == 0)
            return *part;
    return NULL;
}

static enum status help_unknown(const char *name) {
    const char *names[JOB_KEYS_MAX + 64];
    size_t n = 0;
    for (size_t i = 0; i < verbs_count && n < 64; i++)
        names[n++] = verbs[i].name;
    for (size_t i = 0; job_key(i); i++)
        names[n++] = job_key(i);
    const char *near = text_nearest(name, names, n);
    return status_set(STATUS_USAGE, "help: there is no verb and no key '%s'%s%s (see finetuned --help)", name,
                      near ? ": did you mean " : "", near ? near : "");
}

static enum status help_say(char **words, size_t n) {
    if (n == 0)
        return help_program(), STATUS_OK;
    const struct verb *verb = verb_find(words[0]);
    const struct verb_flags *part = verb && n == 2 ? help_part(verb->flags, words[1]) : NULL;
    if (n == 2 && !part)
        return help_unknown(words[1]);
    if (verb)
        return help_verb(part ? part : verb->flags), STATUS_OK;
    const char *key = strncmp(words[0], "--", 2) == 0 ? words[0] + 2 : words[0];
    return help_key(key) ? STATUS_OK : help_unknown(words[0]);
}

int verb_help(int argc, char **argv) {
    size_t words;
    bool helped;
    enum status status = flags_parse(&verb_help_flags, argc, argv, argv, &words, &helped);
    return helped ? 0 : verb_exit(status == STATUS_OK ? help_say(argv, words) : status);
}

// ---- man

static const char *man_out;
static const struct flag man_flags[] = {
    {"--out", FLAG_STRING, &man_out, "DIR", "writes all pages there, as finetuned-run.1 and finetuned-job.5", NULL,
     false},
    FLAGS_END,
};

const struct verb_flags verb_man_flags = {
    .verb = "man",
    .usage = "[VERB | job] | --out DIR",
    .about = "Prints a man page: finetuned(1), finetuned-VERB(1), or finetuned-job(5), the job file.",
    .flags = man_flags,
    .max_words = 1,
    .words = "VERB",
    .examples = "finetuned man run | man -l -\nfinetuned man --out ~/.local/share/man/man1",
};

static enum status man_write(const char *folder, const char *name, const struct text *text) {
    char *path = path_join(folder, name);
    enum status status = path && text_string(text) ? file_replace(path, text_string(text), text->size)
                                                   : status_set(STATUS_SYSTEM, "man: no memory");
    free(path);
    return status;
}

static enum status man_write_all(const char *folder) {
    struct text text = {0};
    const char *key = "man: --out";
    TRY(taken_check(&(struct taken_ask){key, folder, .as = TAKEN_KEPT}));
    enum status status = file_make_place(NULL, key, folder);
    man_program(&text);
    if (status == STATUS_OK)
        status = man_write(folder, "finetuned.1", &text);
    for (size_t i = 0; i < verbs_count && status == STATUS_OK; i++) {
        char name[64];
        snprintf(name, sizeof name, "finetuned-%s.1", verbs[i].name);
        text_clear(&text);
        man_verb(&text, &verbs[i]);
        status = man_write(folder, name, &text);
    }
    text_clear(&text);
    man_job(&text);
    if (status == STATUS_OK)
        status = man_write(folder, "finetuned-job.5", &text);
    text_release(&text);
    return status;
}

static enum status man_say(char **words, size_t n) {
    struct text text = {0};
    const struct verb *verb = n ? verb_find(words[0]) : NULL;
    if (man_out)
        return n ? status_set(STATUS_USAGE, "man: --out writes all pages: leave out '%s'", words[0])
                 : man_write_all(man_out);
    if (n && !verb && strcmp(words[0], "job") != 0)
        return help_unknown(words[0]);
    if (verb)
        man_verb(&text, verb);
    else
        (n ? man_job : man_program)(&text);
    enum status status = help_print(&text);
    text_release(&text);
    return status;
}

int verb_man(int argc, char **argv) {
    size_t words;
    bool helped;
    enum status status = flags_parse(&verb_man_flags, argc, argv, argv, &words, &helped);
    return helped ? 0 : verb_exit(status == STATUS_OK ? man_say(argv, words) : status);
}

// ---- completion

static const char *const shells[] = {"bash", "zsh", NULL};

const struct verb_flags verb_completion_flags = {
    .verb = "completion",
    .usage = "bash | zsh",
    .about = "Prints a script that completes verbs, flags, keys of the job and their values.",
    .flags = no_flags,
    .min_words = 1,
    .max_words = 1,
    .words = "SHELL",
    .word_choices = shells,
    .examples = "source <(finetuned completion bash)",
};

static enum status completion_say(const char *shell) {
    struct text text = {0};
    bool zsh = strcmp(shell, "zsh") == 0;
    if (!zsh && strcmp(shell, "bash") != 0)
        return status_set(STATUS_USAGE, "completion: the shell is '%s', must be one of: bash, zsh", shell);
    completion_bash(&text, zsh);
    enum status status = help_print(&text);
    text_release(&text);
    return status;
}

int verb_completion(int argc, char **argv) {
    size_t words;
    bool helped;
    enum status status = flags_parse(&verb_completion_flags, argc, argv, argv, &words, &helped);
    return helped ? 0 : verb_exit(status == STATUS_OK ? completion_say(argv[0]) : status);
}
