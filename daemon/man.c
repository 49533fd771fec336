// SPDX-License-Identifier: Apache-2.0
#include "daemon/man.h"

#include "base/options.h"
#include "daemon/help.h"

#include <ctype.h>

// Text as it is: no request at a line's start, no escape, hyphens that can be searched for and copied.
static void roff_add(struct text *out, const char *string, size_t size) {
    if (size && (*string == '.' || *string == '\''))
        text_puts(out, "\\&");
    for (size_t i = 0; i < size; i++)
        switch (string[i]) {
        case '\\':
            text_puts(out, "\\e");
            break;
        case '-':
            text_puts(out, "\\-");
            break;
        case '\n':
            text_puts(out, "\n.br\n");
            if (i + 1 < size && (string[i + 1] == '.' || string[i + 1] == '\''))
                text_puts(out, "\\&");
            break;
        default:
            text_add(out, string + i, 1);
        }
}

static void roff_puts(struct text *out, const char *string) {
    roff_add(out, string, strlen(string));
}

// One line of text, with its end.
static void roff_line(struct text *out, const char *string) {
    roff_puts(out, string);
    text_puts(out, "\n");
}

static void roff_section(struct text *out, const char *name) {
    text_printf(out, ".SH %s\n", name);
}

// ".TP", a bold name with an italic value, and what it is.
static void roff_entry(struct text *out, const char *name, const char *value, const char *about) {
    text_puts(out, ".TP\n\\fB");
    roff_puts(out, name);
    text_puts(out, "\\fR");
    if (value) {
        text_puts(out, " \\fI");
        roff_puts(out, value);
        text_puts(out, "\\fR");
    }
    text_puts(out, "\n");
    roff_line(out, about);
}

static void roff_see(struct text *out, const char *name, int section, bool last) {
    text_puts(out, ".BR ");
    roff_puts(out, name);
    text_printf(out, " (%d)%s\n", section, last ? "" : ",");
}

static void page_begin(struct text *out, const char *name, int section, const char *about) {
    text_puts(out, ".TH \"");
    for (const char *at = name; *at; at++)
        text_printf(out, *at == '-' ? "\\-" : "%c", toupper((unsigned char)*at));
    text_printf(out, "\" \"%d\" \"\" \"finetuned " FINETUNED_VERSION "\" \"finetuned\"\n", section);
    text_puts(out, ".nh\n.ad l\n"); // names are not to be cut, nor lines stretched
    roff_section(out, "NAME");
    roff_puts(out, name);
    text_puts(out, " \\- ");
    roff_line(out, about);
}

static void page_exits(struct text *out) {
    roff_section(out, "EXIT STATUS");
    for (const struct help_exit *e = help_exits; e->meaning; e++) {
        char code[8];
        snprintf(code, sizeof code, "%d", e->code);
        roff_entry(out, code, NULL, e->meaning);
    }
}

// ---- finetuned(1)

static void program_variables(struct text *out) {
    roff_section(out, "ENVIRONMENT");
    roff_entry(out, "FINETUNED_ISA", NULL,
               "plain, avx2, avx512 or avx512bf16: these kernels instead of the processor's best");
    roff_entry(out, "TMPDIR", NULL, "where temporary files go; /tmp if it is not set");
}

void man_program(struct text *out) {
    page_begin(out, "finetuned", 1, "fine-tunes RoBERTa and BERT classifiers");
    roff_section(out, "SYNOPSIS");
    text_puts(out, ".B finetuned\n.I VERB\n[arguments]\n.br\n.B finetuned\n\\-\\-version | \\-\\-help\n");
    roff_section(out, "DESCRIPTION");
    roff_line(
        out,
        "Trains a classifier of short texts on CPUs, in one process or under mpirun, saves checkpoints from which a "
        "stopped run goes on, and writes the best model as a Hugging Face directory.");
    roff_line(out, "Results go to standard output, logs to standard error.");
    roff_section(out, "VERBS");
    for (size_t i = 0; i < verbs_count; i++)
        roff_entry(out, verbs[i].name, NULL, verbs[i].about);
    page_exits(out);
    program_variables(out);
    roff_section(out, "SEE ALSO");
    for (size_t i = 0; i < verbs_count; i++) {
        char name[64];
        snprintf(name, sizeof name, "finetuned-%s", verbs[i].name);
        roff_see(out, name, 1, false);
    }
    roff_see(out, "finetuned-job", 5, true);
}

// ---- finetuned-VERB(1)

static void verb_synopsis(struct text *out, const struct verb_flags *spec) {
    for (const char *at = spec->usage; *at; at += strcspn(at, "\n"), at += *at == '\n') {
        text_puts(out, at == spec->usage ? ".B finetuned " : ".br\n.B finetuned ");
        roff_line(out, spec->verb);
        roff_add(out, at, strcspn(at, "\n"));
        text_puts(out, "\n");
    }
}

static void verb_options(struct text *out, const struct verb_flags *spec) {
    for (const struct flag *f = spec->flags; f->name; f++) {
        char *about = text_format("%s%s", f->help, f->required ? " (required)" : "");
        roff_entry(out, f->name, f->value, about ? about : f->help);
        free(about);
    }
    roff_entry(out, "--help", NULL, "prints all of this in short");
}

static void verb_parts(struct text *out, const struct verb_flags *spec) {
    for (const struct verb_flags *const *part = spec->parts; part && *part; part++) {
        text_puts(out, ".SH \"finetuned ");
        roff_puts(out, (*part)->verb);
        text_puts(out, "\"\n");
        verb_synopsis(out, *part);
        text_puts(out, ".PP\n");
        roff_line(out, (*part)->about);
        if ((*part)->keys)
            text_puts(out, ".PP\nKeys of the job are options too:\n.BR finetuned\\-job (5).\n");
        verb_options(out, *part);
    }
}

static void verb_keys(struct text *out) {
    roff_section(out, "KEYS OF THE JOB");
    text_puts(out, "Each key of a job file is also an option, which is stronger than the file;\n.BR finetuned\\-job "
                   "(5)\nexplains them:\n");
    for (size_t i = 0; job_key(i); i++) {
        text_puts(out, ".B \\-\\-");
        roff_line(out, job_key(i));
    }
}

static void verb_examples(struct text *out, const char *examples) {
    roff_section(out, "EXAMPLES");
    text_puts(out, ".nf\n");
    for (const char *at = examples; *at;) {
        size_t size = strcspn(at, "\n");
        roff_add(out, at, size);
        text_puts(out, "\n");
        at += size + (at[size] != '\0');
    }
    text_puts(out, ".fi\n");
}

void man_verb(struct text *out, const struct verb *verb) {
    const struct verb_flags *spec = verb->flags;
    char name[64];
    snprintf(name, sizeof name, "finetuned-%s", verb->name);
    page_begin(out, name, 1, verb->about);
    roff_section(out, "SYNOPSIS");
    verb_synopsis(out, spec);
    roff_section(out, "DESCRIPTION");
    roff_line(out, spec->about);
    roff_section(out, "OPTIONS");
    verb_options(out, spec);
    verb_parts(out, spec);
    if (spec->keys)
        verb_keys(out);
    if (spec->examples)
        verb_examples(out, spec->examples);
    page_exits(out);
    roff_section(out, "SEE ALSO");
    roff_see(out, "finetuned", 1, !spec->keys);
    if (spec->keys)
        roff_see(out, "finetuned-job", 5, true);
}

// ---- finetuned-job(5)

static void job_option(struct text *out, const struct option *option) {
    struct text about = {0};
    text_printf(&about, "%s.\nDefault: %s. Allowed: ", option->help, option->fallback ? option->fallback : "none");
    option_range(&about, option);
    if (option->later)
        text_printf(&about, ". Not in this version yet: %s",
                    strcmp(option->later, "*") == 0 ? "all but the default" : option->later);
    text_puts(&about, ".");
    roff_entry(out, option->key, NULL, text_string(&about) ? text_string(&about) : option->help);
    text_release(&about);
}

void man_job(struct text *out) {
    page_begin(out, "finetuned-job", 5, "the job file of finetuned");
    roff_section(out, "DESCRIPTION");
    roff_line(
        out,
        "A job file is YAML: train.lr is the key lr in the section train. Each key is also a flag of finetuned run "
        "(--train.lr 3e-5; lists with commas), which is stronger than the file.");
    text_puts(out, ".PP\n");
    roff_line(
        out,
        "A key that is not known, of the wrong type or out of range ends with exit code 64 before anything is done. "
        "finetuned config JOB.yaml shows what a job comes to, finetuned config --yaml prints a file to edit.");
    roff_section(out, "KEYS");
    for (size_t i = 0; i < options_count; i++)
        job_option(out, &options[i]);
    roff_section(out, "SEE ALSO");
    roff_see(out, "finetuned-run", 1, false);
    roff_see(out, "finetuned-config", 1, true);
}
