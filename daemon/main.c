// SPDX-License-Identifier: Apache-2.0
// finetuned VERB …
#include "daemon/verbs.h"

#include "daemon/help.h"

#include <signal.h>

int main(int argc, char **argv) {
    signal(SIGXFSZ, SIG_IGN); // a file-size limit is an error of that write (74), not the end of the process
    if (argc < 2)
        return verb_missing();
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return help_program(), verb_exit(STATUS_OK);
    if (strcmp(argv[1], "--version") == 0)
        return printf("finetuned " FINETUNED_VERSION "\n"), 0;
    const struct verb *verb = verb_find(argv[1]);
    return verb ? verb->run(argc - 1, argv + 1) : verb_unknown(argv[1]);
}
