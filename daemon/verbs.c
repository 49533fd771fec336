// SPDX-License-Identifier: Apache-2.0
#include "daemon/verbs.h"

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"

#define VERB(name) #name, verb_##name, &verb_##name##_flags

const struct verb verbs[] = {
    {VERB(run), "train one job to its end, evaluate, checkpoint, export; what mpirun and sbatch start"},
    {VERB(sweep), "a run for each task, rate and seed in one start; a table with mean, spread and paired differences"},
    {VERB(prepare), "text to token shards (also done by run)"},
    {VERB(eval), "score a model directory or checkpoint on a split"},
    {VERB(score), "the official TweetEval numbers of prediction files"},
    {VERB(predict), "a JSON line with label and scores for each text"},
    {VERB(tokenize), "a JSON line with ids, tokens and byte offsets for each text"},
    {VERB(export), "a model directory or checkpoint to an artifact (hf, sagemaker)"},
    {VERB(report), "a run's report, or two runs side by side with what differs in their jobs"},
    {VERB(inspect), "what a checkpoint, shard or model holds, and whether it is intact"},
    {VERB(doctor), "what of this host, or of a world of hosts, would hinder a job, and what to change"},
    {VERB(bench), "measures this host: gemm, step, optimizer, tokenize, io"},
    {VERB(config), "every option with value, default, range and help"},
    {VERB(help), "explains a verb or a key of the job"},
    {VERB(man), "man pages, printed or written"},
    {VERB(completion), "completion for bash and zsh"},
};
const size_t verbs_count = sizeof verbs / sizeof *verbs;

const struct verb *verb_find(const char *name) {
    for (size_t i = 0; i < verbs_count; i++)
        if (strcmp(verbs[i].name, name) == 0)
            return &verbs[i];
    return NULL;
}

// Named by the design, made by later versions.
static const char *const verbs_later[] = {"daemon"};

// A word that is no verb but a job: its verb was forgotten.
static bool unknown_is_job(const char *name) {
    size_t size = strlen(name);
    bool yaml =
        (size > 5 && strcmp(name + size - 5, ".yaml") == 0) || (size > 4 && strcmp(name + size - 4, ".yml") == 0);
    return yaml && file_exists(name);
}

int verb_unknown(const char *name) {
    const char *names[sizeof verbs / sizeof *verbs];
    for (size_t i = 0; i < sizeof verbs_later / sizeof *verbs_later; i++)
        if (strcmp(name, verbs_later[i]) == 0) {
            log_error("the verb %s is not in this version yet (see finetuned --help)", name);
            return 64;
        }
    for (size_t i = 0; i < verbs_count; i++)
        names[i] = verbs[i].name;
    const char *near = text_nearest(name, names, verbs_count);
    if (unknown_is_job(name))
        log_error("'%s' is no verb: did you mean: finetuned run %s", name, name);
    else if (name[0] == '-')
        log_error("a verb comes before flags such as %s (see finetuned --help)", name);
    else
        log_error("unknown verb '%s'%s%s (see finetuned --help)", name, near ? ": did you mean " : "",
                  near ? near : "");
    return 64;
}

int verb_missing(void) {
    struct text names = {0};
    for (size_t i = 0; i < verbs_count; i++)
        text_printf(&names, "%s%s", i ? ", " : "", verbs[i].name);
    log_error("which verb? One of %s (finetuned --help says what they do)",
              text_string(&names) ? text_string(&names) : "");
    text_release(&names);
    return 64;
}
