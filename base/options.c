// SPDX-License-Identifier: Apache-2.0
// Every option of the job file, once: a new option is a member of struct job and a row here. `.later` holds what this
// version can't do yet; taking a word out of it is all that an option needs once its code is there.
#include "base/options.h"

#include <string.h>

#define AT(member) .offset = offsetof(struct job, member)

#define TEXT(key_, member, fallback_, ...)                                                                             \
    { .key = key_, .type = OPTION_TEXT, AT(member), .fallback = fallback_, __VA_ARGS__ }
#define INTEGER(key_, member, fallback_, least_, most_, ...)                                                           \
    {                                                                                                                  \
        .key = key_, .type = OPTION_INTEGER, AT(member), .fallback = fallback_, .least = least_, .most = most_,        \
        __VA_ARGS__                                                                                                    \
    }
#define REAL(key_, member, fallback_, least_, most_, ...)                                                              \
    { .key = key_, .type = OPTION_REAL, AT(member), .fallback = fallback_, .least = least_, .most = most_, __VA_ARGS__ }
#define BOOLEAN(key_, member, fallback_, ...)                                                                          \
    { .key = key_, .type = OPTION_BOOL, AT(member), .fallback = fallback_, __VA_ARGS__ }
#define LIST(key_, member, each_, ...)                                                                                 \
    { .key = key_, .type = OPTION_LIST, AT(member), .fallback = "[]", .each = each_, __VA_ARGS__ }
#define CHOICE(key_, member, fallback_, names_, ...)                                                                   \
    { .key = key_, .type = OPTION_CHOICE, AT(member), .fallback = fallback_, .names = names_, __VA_ARGS__ }

// In the order of the enums of job.h.
static const char *const heads[] = {"classification", "question_answering", NULL};
static const char *const formats[] = {"tweet_eval", "csv", "tsv", "jsonl", "squad", NULL};
static const char *const normalizers[] = {"none", "tweet", NULL};
static const char *const specials[] = {"literal", "parse", NULL};
static const char *const schedules[] = {"linear", "cosine", "constant", "polynomial", NULL};
static const char *const precisions[] = {"auto", "bf16", "fp32", NULL};
const char *const job_metric_names[] = {"official", "accuracy", "macro_f1", "macro_recall", "loss", "em", "f1", NULL};
static const char *const backends[] = {"auto", "self", "mpi", "ofi", "nccl", NULL};
static const char *const fabrics[] = {"auto", "efa", "tcp", "shm", NULL};
static const char *const reductions[] = {"fp32", "bf16", NULL};
static const char *const exporters[] = {"hf", "sagemaker", "onnx", "neuron", "graviton", NULL};
static const char *const levels[] = {"error", "warn", "info", "debug", NULL};
static const char *const weightings[] = {"none", "balanced", NULL};
// clang-format off
const struct option options[] = {
    TEXT("job", job, NULL, .flags = OPTION_NAME, .range = "a name of at most 100 bytes without / and <",
         .help = "name of the job; by default the job file's name without its ending, without a file job"),
    TEXT("out", out, "runs/<job>", .range = "a path",
         .help = "everything the job writes"),
    INTEGER("threads", threads, "auto", 1, 4096, .words = {{"auto", 0}},
            .help = "threads of each rank; auto: the CPUs of the process's mask"),

    TEXT("model.base", model.base, NULL, .range = "a path, or random:tiny, random:mini, random:base",
         .help = "Hugging Face directory (config.json, model.safetensors or pytorch_model.bin, tokenizer files), or a model made at random"),
    TEXT("model.vocab", model.vocab, "none", .flags = OPTION_NONE, .range = "none, or a path",
         .help = "folder with tokenizer files for random: models; none: a built-in vocabulary of bytes"),
    CHOICE("model.head", model.head, "classification", heads, .flags = OPTION_DEFINES_RUN,
           .help = "what the model answers"),
    REAL("model.dropout", model.dropout, "config", 0, 1, .words = {{"config", -1}}, .flags = OPTION_DEFINES_RUN | OPTION_BELOW_MOST,
         .help = "config: the model's own three values, or one number for hidden, attention and classifier"),

    CHOICE("data.format", data.format, "tweet_eval", formats,
           .help = "how the text files are laid out: TweetEval's pairs of files, or a file a split with columns"),
    TEXT("data.dir", data.dir, NULL, .range = "a path",
         .help = "tweet_eval: holds <task>/{train,val,test}_{text,labels}.txt and <task>/mapping.txt; "
                 "csv, tsv, jsonl: holds {train,val,test}.csv (.tsv, .jsonl; test may lack), and mapping.txt if there is one; "
                 "squad: holds {train,val,test}.json (test may lack)"),
    TEXT("data.task", data.task, NULL, .range = "a folder in data.dir, such as emotion; other formats: a name",
         .flags = OPTION_DEFINES_RUN,
         .help = "TweetEval's task, or a folder of your own in its layout (its official metric is then macro F1); "
                 "stance: all five targets, stance/abortion: one of them; "
                 "other formats: need not be set (then the format's name); TweetEval's name chooses its official metric"),
    INTEGER("data.max_length", data.max_length, "128", 3, 1048576, .flags = OPTION_DEFINES_RUN,
            .help = "tokens of an example, special ones included; squad: of a window of question and context, 384 if it is not given"),
    BOOLEAN("data.truncation", data.truncation, "true", .flags = OPTION_DEFINES_RUN,
            .help = "cut longer texts (squad: into windows); false: refuse them"),
    INTEGER("data.doc_stride", data.doc_stride, "128", 1, 1048576, .flags = OPTION_DEFINES_RUN,
            .help = "squad: tokens of the context that neighbouring windows share; less than a question leaves of "
                    "data.max_length"),
    CHOICE("data.normalize", data.normalize, "none", normalizers, .flags = OPTION_DEFINES_RUN,
           .help = "tweet: words that start with @ become @user, with http become http"),
    TEXT("data.columns.text", data.column_text, "text", .range = "a column's name",
         .help = "csv, tsv, jsonl: the text"),
    TEXT("data.columns.pair", data.column_pair, "none", .flags = OPTION_NONE, .range = "none, or a column's name",
         .help = "csv, tsv, jsonl: the second text of a pair"),
    TEXT("data.columns.label", data.column_label, "label", .range = "a column's name",
         .help = "csv, tsv, jsonl: the label, by name, or by id where <dir>/mapping.txt is"),
    CHOICE("data.special_tokens", data.special_tokens, "literal", specials, .flags = OPTION_DEFINES_RUN,
           .help = "literal: user text can't inject <s>, </s>, ...; parse: as Hugging Face does by default"),
    TEXT("data.cache", data.cache, "<out>/shards", .range = "a path",
         .help = "where token shards are kept"),

    INTEGER("train.epochs", train.epochs, "3", 1, 1000000,
            .help = "passes over the train split"),
    INTEGER("train.max_steps", train.max_steps, "0", 0, 1e12,
            .help = "stop after so many steps; 0: by epochs"),
    REAL("train.max_time", train.max_time, "0.0", 0, 1e9,
         .help = "seconds of training in this start; then a checkpoint and exit code 75; 0: none"),
    INTEGER("train.batch", train.batch, "16", 1, 1048576, .flags = OPTION_DEFINES_RUN,
            .help = "examples of an optimizer step, over all ranks"),
    INTEGER("train.max_tokens", train.max_tokens, "16384", 1, 134217728,
            .help = "tokens of a rank's micro-batch; larger batches accumulate"),
    REAL("train.lr", train.lr, "5.0e-05", 0, 1e6, .flags = OPTION_DEFINES_RUN,
         .help = "highest learning rate"),
    CHOICE("train.schedule", train.schedule, "linear", schedules, .flags = OPTION_DEFINES_RUN,
           .help = "how the learning rate falls"),
    REAL("train.warmup", train.warmup, "0.0", 0, 1e9, .flags = OPTION_DEFINES_RUN,
         .range = "a number from 0, below 1 a share of all steps, from 1 on a whole number of steps",
         .help = "how long the learning rate rises"),
    REAL("train.weight_decay", train.weight_decay, "0.0", 0, 1000, .flags = OPTION_DEFINES_RUN,
         .help = "decoupled; off for biases and LayerNorm"),
    {.key = "train.betas", .type = OPTION_PAIR, AT(train.betas), .fallback = "[0.9, 0.999]", .least = 0, .most = 1,
     .flags = OPTION_DEFINES_RUN | OPTION_BELOW_MOST, .help = "AdamW's decay of its two moments"},
    REAL("train.eps", train.eps, "1.0e-08", 0, 1, .flags = OPTION_DEFINES_RUN | OPTION_ABOVE_LEAST,
         .help = "AdamW's epsilon"),
    REAL("train.clip", train.clip, "1.0", 0, 1e30, .flags = OPTION_DEFINES_RUN,
         .help = "largest global norm of a gradient; 0: no clipping"),
    REAL("train.label_smoothing", train.label_smoothing, "0.0", 0, 1, .flags = OPTION_DEFINES_RUN | OPTION_BELOW_MOST,
         .help = "share of a label's weight that is spread over all"),
    {.key = "train.class_weights", .type = OPTION_WEIGHTS, AT(train.class_weights), .fallback = "none", .names = weightings,
     .flags = OPTION_DEFINES_RUN, .least = 1e-6, .most = 1e6,
     .range = "none, balanced, or a list of numbers from 1e-06 to 1e+06, one a class",
     .help = "weights of the classes in the loss, in the order of their ids; balanced: n / (classes * n of the class) by the train split"},
    {.key = "train.seed", .type = OPTION_SEED, AT(train.seed), .fallback = "42", .flags = OPTION_DEFINES_RUN,
     .range = "an integer from 0 to 18446744073709551615", .help = "of sample order, dropout and new weights"},
    CHOICE("train.precision", train.precision, "auto", precisions, .flags = OPTION_DEFINES_RUN,
           .help = "of the linear layers' products; bf16 keeps weights, moments and sums in fp32; auto: bf16 where the processor has "
                   "instructions for it that are faster than fp32's, and on resume what the run has"),
    INTEGER("train.parts", train.parts, "auto", 1, 1048576, .words = {{"auto", 0}}, .flags = OPTION_DEFINES_RUN | OPTION_POWER_OF_TWO,
            .range = "auto, or a power of two not above train.batch",
            .help = "pieces that a batch is cut into: every power-of-two world up to it gives the same bits"),
    INTEGER("train.eval_every", train.eval_every, "epoch", 1, 1e12, .words = {{"epoch", 0}},
            .help = "evaluate at each epoch's end, or each so many steps (then not at an epoch's end); and at the end of training"),
    CHOICE("train.best_metric", train.best_metric, "official", job_metric_names, .flags = OPTION_DEFINES_RUN,
           .help = "what the best model is chosen by; official: TweetEval's for the task"),
    INTEGER("train.early_stopping", train.early_stopping, "0", 0, 1000000, .flags = OPTION_DEFINES_RUN,
            .help = "stop after so many evaluations without improvement; 0: off"),
    REAL("train.layer_decay", train.layer_decay, "1.0", 0, 1, .flags = OPTION_DEFINES_RUN | OPTION_ABOVE_LEAST,
         .help = "learning rate of layer l times layer_decay^(layers - l); embeddings are layer 0, the head has the whole rate"),
    INTEGER("train.freeze", train.freeze, "none", 1, 1000, .words = {{"none", 0}, {"embeddings", -1}}, .flags = OPTION_DEFINES_RUN,
            .help = "embeddings, or n: embeddings and the first n layers stay as they are"),

    CHOICE("comm.backend", comm.backend, "auto", backends, .later = "ofi nccl",
           .help = "what moves bytes between ranks"),
    CHOICE("comm.fabric", comm.fabric, "auto", fabrics, .later = "*",
           .help = "with a name given, anything else is a failure"),
    REAL("comm.timeout", comm.timeout, "30.0", 1, 86400,
         .help = "seconds without any progress of a rank before the job ends with 75; one that is only slow is waited for"),
    CHOICE("comm.reduce", comm.reduce, "fp32", reductions, .later = "bf16",
           .help = "gradients on the wire; with bf16 the bits are this world's own"),

    TEXT("checkpoints.dir", checkpoints.dir, "<out>/checkpoints", .range = "a path",
         .help = "holds step-N/, latest and best"),
    INTEGER("checkpoints.every", checkpoints.every, "200", 0, 1e12,
            .help = "steps; and at each epoch's end, each new best, and a stop signal; 0: only those"),
    INTEGER("checkpoints.keep", checkpoints.keep, "3", 1, 1000000,
            .help = "newest ones that stay, and the best beside them"),
    {.key = "checkpoints.buffer", .type = OPTION_SIZE, AT(checkpoints.buffer), .fallback = "512MiB", .least = 0, .most = 1099511627776.0,
     .help = "of each rank, for what an update would overwrite before it is written; what does not fit waits (0: all of it)"},
    TEXT("checkpoints.resume", checkpoints.resume, "auto", .range = "auto, never, or a checkpoint's path",
         .help = "auto: go on from the newest good checkpoint; never: begin afresh; a path: begin from that one at each "
                 "start. What is newer there is set aside, so automatic restarts want auto"),

    {.key = "export.to", .type = OPTION_SET, AT(export.to), .fallback = "[hf]", .names = exporters,
     .later = "onnx neuron graviton", .help = "what is made from the best model when training ends"},
    {.key = "export.dtype", .type = OPTION_CHOICE, AT(export.dtype), .fallback = "fp32", .names = precisions, .least = JOB_BF16,
     .help = "of safetensors"},
    TEXT("export.s3", export.s3, "none", .flags = OPTION_NONE | OPTION_S3, .later = "*", .range = "none, or s3://bucket/prefix",
         .help = "where the artifacts are also put"),

    CHOICE("log.level", log.level, "info", levels,
           .help = "how much goes to standard error"),
    INTEGER("log.every", log.every, "10", 1, 1e12,
            .help = "steps between step events; 1: all"),
    BOOLEAN("log.samples", log.samples, "false",
            .help = "step events also hold the batch's example indices"),
    BOOLEAN("log.tensorboard", log.tensorboard, "true",
            .help = "TensorBoard event files in <out>/tensorboard"),

    LIST("sweep.tasks", sweep.tasks, "data.task",
         .help = "finetuned sweep: one run each, by seed and rate; of tweet_eval; empty: data.task alone"),
    LIST("sweep.seeds", sweep.seeds, "train.seed",
         .help = "finetuned sweep: one run each, by task and rate; empty: train.seed alone"),
    LIST("sweep.rates", sweep.rates, "train.lr",
         .help = "finetuned sweep: one run each, by task and seed; empty: train.lr alone"),
};
// clang-format on

const size_t options_count = sizeof options / sizeof options[0];
_Static_assert(sizeof options / sizeof options[0] <= OPTIONS_MAX, "OPTIONS_MAX is too small");
_Static_assert(sizeof exporters / sizeof exporters[0] == JOB_EXPORTS + 1, "an exporter lacks its name");

const struct option *option_find(const char *key) {
    for (size_t i = 0; i < options_count; i++)
        if (strcmp(options[i].key, key) == 0)
            return &options[i];
    return NULL;
}

bool option_is_section(const char *name) {
    size_t size = strlen(name);
    for (size_t i = 0; i < options_count; i++)
        if (strncmp(options[i].key, name, size) == 0 && options[i].key[size] == '.')
            return true;
    return false;
}

bool option_is_list(const struct option *option) {
    return option->type == OPTION_PAIR || option->type == OPTION_SET || option->type == OPTION_WEIGHTS ||
           option->type == OPTION_LIST;
}
