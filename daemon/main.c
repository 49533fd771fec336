// SPDX-License-Identifier: Apache-2.0
// finetuned VERB …
#include "daemon/verbs.h"

#include "base/log.h"

#include <signal.h>

static void main_help(void) {
    puts("finetuned: fine-tunes RoBERTa and BERT classifiers\n\nusage: finetuned VERB [arguments]\n       finetuned "
         "--version | --help\n");
    for (size_t i = 0; i < verbs_count; i++)
        printf("  %-9s %s\n", verbs[i].name, verbs[i].about);
    puts("\nfinetuned VERB --help says more. Results go to standard output, logs to standard error.\n"
         "Exit codes: 0 done, 64 usage, 65 data or model unusable, 69 device not available, 70 internal, 74 I/O, 75 "
         "try again.");
}

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); // a file-size limit is an error of that write (74), not the end of the process
    if (argc < 2) {
        log_error("which verb? (see finetuned --help)");
        return 64;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0)
        return main_help(), 0;
    if (strcmp(argv[1], "--version") == 0)
        return printf("finetuned " FINETUNED_VERSION "\n"), 0;
    const struct verb *verb = verb_find(argv[1]);
    return verb ? verb->run(argc - 1, argv + 1) : verb_unknown(argv[1]);
}
