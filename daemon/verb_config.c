// SPDX-License-Identifier: Apache-2.0
// finetuned config: every option with its value, default, range and help, for people, as a file to edit, or as
// docs/options.md.
#include "daemon/verbs.h"

#include "base/job.h"
#include "base/text.h"
#include "daemon/flags.h"

static const char config_help[] = "usage: finetuned config [JOB.yaml] [--key value …] [--yaml | --markdown]\n\n"
                                  "Prints every option with its value, default, range and help. With a job file or "
                                  "options, their values, checked as run checks them.\n\n"
                                  "  --yaml       a job file that can be edited\n"
                                  "  --markdown   the table that docs/options.md holds\n";

struct config_arguments {
    const char *file;
    const char **options; // argc pointers of room
    size_t n_options;
    bool yaml, markdown, help;
};

// A slip of one of our own switches would else be taken for an unknown key.
static enum status config_slip(const char *word) {
    static const char *const switches[] = {"--yaml", "--markdown", "--help"};
    for (size_t i = 0; job_key(i); i++)
        if (strncmp(word + 2, job_key(i), strcspn(word + 2, "=")) == 0)
            return STATUS_OK;
    const char *near = text_nearest(word, switches, sizeof switches / sizeof *switches);
    return near ? status_set(STATUS_USAGE, "config: unknown flag %s: did you mean %s (see finetuned config --help)",
                             word, near)
                : STATUS_OK;
}

static enum status config_arguments(struct config_arguments *arguments, int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
            arguments->help = true;
        } else if (strcmp(word, "--yaml") == 0) {
            arguments->yaml = true;
        } else if (strcmp(word, "--markdown") == 0) {
            arguments->markdown = true;
        } else if (strncmp(word, "--", 2) == 0) {
            TRY(config_slip(word));
            arguments->options[arguments->n_options++] = word;
            if (!strchr(word, '=') && i + 1 < argc && strncmp(argv[i + 1], "--", 2) != 0)
                arguments->options[arguments->n_options++] = argv[++i];
        } else if (arguments->file) {
            return status_set(STATUS_USAGE, "config: one job file, not '%s' and '%s' (see finetuned config --help)",
                              arguments->file, word);
        } else {
            arguments->file = word;
        }
    }
    if (arguments->yaml && arguments->markdown)
        return status_set(STATUS_USAGE, "config: --yaml or --markdown, not both");
    return STATUS_OK;
}

static enum status config_print(const struct config_arguments *arguments) {
    struct job *job;
    char *text;
    TRY(job_read(&job, arguments->file, arguments->options, arguments->n_options, JOB_NEED_NOTHING));
    enum status status =
        arguments->yaml ? job_print_yaml(&text, job, true) : job_print_table(&text, job, arguments->markdown);
    job_free(job);
    if (status == STATUS_OK) {
        fputs(text, stdout);
        free(text);
    }
    return status;
}

int verb_config(int argc, char **argv) {
    struct config_arguments arguments = {.options = calloc((size_t)argc, sizeof *arguments.options)};
    enum status status =
        arguments.options ? config_arguments(&arguments, argc, argv) : status_set(STATUS_SYSTEM, "config: no memory");
    if (status == STATUS_OK && arguments.help)
        fputs(config_help, stdout);
    else if (status == STATUS_OK)
        status = config_print(&arguments);
    free(arguments.options);
    return verb_exit(status);
}
