// SPDX-License-Identifier: Apache-2.0
#include "daemon/help.h"

#include "base/options.h"
#include "daemon/verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define FLAG_COLUMN 29 // where the help of a flag begins
#define VERB_COLUMN 14

const struct help_exit help_exits[] = {
    {0, "done"},
    {64, "usage or configuration"},
    {65, "data, model or checkpoint unusable, or a run that diverged; the message has file:line, tensor or dataset"},
    {69, "a device, kernel or memory that was asked for is not there"},
    {70, "internal error"},
    {74, "I/O error, or too little room for the run, told before it trains; earlier checkpoints are intact"},
    {75, "try again: stopped by a signal or train.max_time (with a checkpoint, once a step is done), a rank was lost "
         "or stuck, or the folder is in use"},
    {0, NULL},
};

// ---- lines

static unsigned help_width(void) {
    struct winsize size;
    unsigned width = 100;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        width = size.ws_col - 1u;
    return width < 50 ? 50 : width > 100 ? 100 : width;
}

// Code points: near enough to columns for what stands in help.
static unsigned text_columns(const char *at, size_t size) {
    unsigned n = 0;
    for (size_t i = 0; i < size; i++)
        n += ((unsigned char)at[i] & 0xc0) != 0x80;
    return n;
}

void help_wrap(struct text *out, const char *string, unsigned column, unsigned indent, unsigned width) {
    unsigned at = column;
    bool first = true;
    while (*string) {
        size_t size = strcspn(string, " \n");
        unsigned columns = text_columns(string, size);
        if (!first && at + 1 + columns > width) {
            text_printf(out, "\n%*s", (int)indent, "");
            at = indent;
            first = true;
        }
        text_printf(out, "%s%.*s", first ? "" : " ", (int)size, string);
        at += columns + !first;
        first = false;
        string += size;
        if (*string == '\n') {
            text_printf(out, "\n%*s", string[1] ? (int)indent : 0, "");
            at = indent;
            first = true;
        }
        string += *string != '\0';
    }
}

// "  --name VALUE      help", the help in a column of its own.
static void help_entry(struct text *out, const char *name, unsigned column, const char *about, unsigned width) {
    unsigned size = 2 + text_columns(name, strlen(name));
    if (size + 1 < column)
        text_printf(out, "  %s%*s", name, (int)(column - size), "");
    else
        text_printf(out, "  %s\n%*s", name, (int)column, "");
    help_wrap(out, about, column, column, width);
    text_puts(out, "\n");
}

static void help_put(struct text *text) {
    if (text_string(text))
        fputs(text_string(text), stdout);
    text_release(text);
}

// ---- the program

void help_program(void) {
    unsigned width = help_width();
    struct text text = {0};
    text_puts(&text, "finetuned: fine-tunes RoBERTa and BERT classifiers\n\n"
                     "usage: finetuned VERB [arguments]\n       finetuned --version | --help\n\n");
    for (size_t i = 0; i < verbs_count; i++)
        help_entry(&text, verbs[i].name, VERB_COLUMN, verbs[i].about, width);
    text_puts(&text,
              "\nfinetuned help VERB says more, as does finetuned VERB --help; finetuned help train.lr explains a key "
              "of the job.\nResults go to standard output, logs to standard error. Exit codes:\n");
    for (const struct help_exit *e = help_exits; e->meaning; e++) {
        char code[8];
        snprintf(code, sizeof code, "%d", e->code);
        help_entry(&text, code, 6, e->meaning, width);
    }
    help_put(&text);
}

// ---- a verb

static void help_flags(struct text *out, const struct verb_flags *spec, unsigned width) {
    text_puts(out, "\n");
    for (const struct flag *f = spec->flags; f->name; f++) {
        char *name = text_format("%s%s%s", f->name, f->value ? " " : "", f->value ? f->value : "");
        char *about = text_format("%s%s", f->help, f->required ? " (required)" : "");
        if (name && about)
            help_entry(out, name, FLAG_COLUMN, about, width);
        free(name);
        free(about);
    }
    help_entry(out, "--help", FLAG_COLUMN, "this", width);
}

static void help_keys(struct text *out, unsigned width) {
    struct text keys = {0};
    text_puts(out, "\nKeys of a job file, as flags (finetuned help KEY explains one, finetuned config all):\n  ");
    for (size_t i = 0; job_key(i); i++)
        text_printf(&keys, "%s--%s", i ? " " : "", job_key(i));
    help_wrap(out, text_string(&keys) ? text_string(&keys) : "", 2, 2, width);
    text_puts(out, "\n");
    text_release(&keys);
}

static void help_examples(struct text *out, const char *examples) {
    text_puts(out, "\n");
    for (const char *at = examples; *at;) {
        size_t size = strcspn(at, "\n");
        text_printf(out, "    %.*s\n", (int)size, at);
        at += size + (at[size] != '\0');
    }
}

static void help_usage(struct text *out, const struct verb_flags *spec, unsigned width) {
    unsigned indent = 18 + (unsigned)strlen(spec->verb);
    for (const char *at = spec->usage; *at; at += strcspn(at, "\n"), at += *at == '\n') {
        char *way = strndup(at, strcspn(at, "\n"));
        text_printf(out, "%s finetuned %s ", at == spec->usage ? "usage:" : "      ", spec->verb);
        help_wrap(out, way ? way : "", indent, indent < 30 ? indent : 20, width);
        text_puts(out, "\n");
        free(way);
    }
    text_puts(out, "\n");
}

void help_verb(const struct verb_flags *spec) {
    unsigned width = help_width();
    struct text text = {0};
    help_usage(&text, spec, width);
    help_wrap(&text, spec->about, 0, 0, width);
    text_puts(&text, "\n");
    help_flags(&text, spec, width);
    for (const struct verb_flags *const *part = spec->parts; part && *part; part++) {
        text_printf(&text, "\nfinetuned %s ", (*part)->verb);
        help_wrap(&text, (*part)->usage, 11 + (unsigned)strlen((*part)->verb), 4, width);
        text_puts(&text, "\n");
    }
    if (spec->keys)
        help_keys(&text, width);
    if (spec->examples)
        help_examples(&text, spec->examples);
    help_put(&text);
}

// ---- a key

static void help_option(struct text *out, const struct option *option, unsigned width) {
    struct text range = {0}, about = {0};
    option_range(&range, option);
    text_printf(&about, "%s\ndefault: %s; allowed: %s", option->help,
                option->fallback ? option->fallback : "none given", text_string(&range) ? text_string(&range) : "");
    if (option->later)
        text_printf(&about, "\nnot in this version yet: %s",
                    strcmp(option->later, "*") == 0 ? "all but the default" : option->later);
    text_printf(out, "%s\n    ", option->key);
    help_wrap(out, text_string(&about) ? text_string(&about) : "", 4, 4, width);
    text_puts(out, "\n");
    text_release(&about);
    text_release(&range);
}

bool help_key(const char *name) {
    struct text text = {0};
    size_t size = strlen(name);
    unsigned width = help_width();
    for (size_t i = 0; i < options_count; i++) {
        const char *key = options[i].key;
        if (strcmp(key, name) == 0 || (size && strncmp(key, name, size) == 0 && key[size] == '.'))
            help_option(&text, &options[i], width);
    }
    bool found = text.size > 0;
    help_put(&text);
    return found;
}
