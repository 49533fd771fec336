// SPDX-License-Identifier: Apache-2.0
// finetuned VERB …
#include "daemon/verbs.h"

#include "base/log.h"
#include "base/text.h"

#include <signal.h>

struct verb {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *about;
};

static const struct verb verbs[] = {
    {"run", verb_run, "train one job to its end, evaluate, checkpoint, export; what mpirun and sbatch start"},
    {"prepare", verb_prepare, "text to token shards (also done by run)"},
    {"eval", verb_eval, "score a model directory or checkpoint on a split"},
    {"score", verb_score, "the official TweetEval numbers of prediction files"},
    {"predict", verb_predict, "a JSON line with label and scores for each text"},
    {"tokenize", verb_tokenize, "a JSON line with ids, tokens and byte offsets for each text"},
    {"export", verb_export, "a model directory or checkpoint to an artifact (hf)"},
    {"inspect", verb_inspect, "what a checkpoint, shard or model holds, and whether it is intact"},
    {"config", verb_config, "every option with value, default, range and help"},
};
#define VERBS (sizeof verbs / sizeof *verbs)

static void main_help(void) {
    puts("finetuned: fine-tunes RoBERTa and BERT classifiers\n\nusage: finetuned VERB [arguments]\n       finetuned "
         "--version | --help\n");
    for (size_t i = 0; i < VERBS; i++)
        printf("  %-9s %s\n", verbs[i].name, verbs[i].about);
    puts("\nfinetuned VERB --help says more. Results go to standard output, logs to standard error.\n"
         "Exit codes: 0 done, 64 usage, 65 data or model unusable, 69 device not available, 70 internal, 74 I/O, 75 "
         "try again.");
}

// Named by the design, made by later versions.
static const char *const verbs_later[] = {"daemon", "sweep", "report", "doctor", "bench"};

static int main_unknown(const char *name) {
    for (size_t i = 0; i < sizeof verbs_later / sizeof *verbs_later; i++)
        if (strcmp(name, verbs_later[i]) == 0) {
            log_error("the verb %s is not in this version yet (see finetuned --help)", name);
            return 64;
        }
    const char *names[VERBS];
    for (size_t i = 0; i < VERBS; i++)
        names[i] = verbs[i].name;
    const char *near = text_nearest(name, names, VERBS);
    log_error("unknown verb '%s'%s%s (see finetuned --help)", name, near ? ": did you mean " : "", near ? near : "");
    return 64;
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
    for (size_t i = 0; i < VERBS; i++)
        if (strcmp(argv[1], verbs[i].name) == 0)
            return verbs[i].run(argc - 1, argv + 1);
    return main_unknown(argv[1]);
}
