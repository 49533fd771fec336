// SPDX-License-Identifier: Apache-2.0
// finetuned config: every option with its value, default, range and help, for people, as a file to edit, or as
// docs/options.md.
#include "daemon/verbs.h"

#include "base/job.h"
#include "base/text.h"
#include "daemon/flags.h"

struct config_flags {
    bool yaml, markdown;
};

static enum status config_print(const struct config_flags *f, const struct job_words *words) {
    struct job *job;
    char *text;
    if (f->yaml && f->markdown)
        return status_set(STATUS_USAGE, "config: --yaml or --markdown, not both");
    TRY(job_read(&job, words->file, words->options, words->n_options, JOB_NEED_NOTHING));
    enum status status = f->yaml ? job_print_yaml(&text, job, true) : job_print_table(&text, job, f->markdown);
    job_free(job);
    if (status == STATUS_OK) {
        fputs(text, stdout);
        free(text);
    }
    return status;
}

static struct config_flags given;
static const struct flag flags[] = {
    {"--yaml", FLAG_SWITCH, &given.yaml, NULL, "a job file that can be edited", NULL, false},
    {"--markdown", FLAG_SWITCH, &given.markdown, NULL, "the table that docs/options.md holds", NULL, false},
    FLAGS_END,
};

const struct verb_flags verb_config_flags = {
    .verb = "config",
    .usage = "[JOB.yaml] [--key value …] [--yaml | --markdown]",
    .about = "Prints every option with its value, default, range and help. With a job file or options, their values, "
             "checked as run checks them.",
    .flags = flags,
    .words = "FILE",
    .keys = true,
    .examples = "finetuned config --yaml > job.yaml\n"
                "finetuned config job.yaml --train.lr 3e-5",
};

int verb_config(int argc, char **argv) {
    struct job_words words;
    bool helped;
    enum status status = flags_parse_job(&words, &verb_config_flags, argc, argv, &helped);
    if (status == STATUS_OK && !helped)
        status = config_print(&given, &words);
    job_words_release(&words);
    return helped ? 0 : verb_exit(status);
}
