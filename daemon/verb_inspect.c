// SPDX-License-Identifier: Apache-2.0
// finetuned inspect: what a checkpoint, shard or model directory holds; --verify: whether it is intact.
#include "daemon/verbs.h"

#include "base/file.h"
#include "base/text.h"
#include "checkpoints/checkpoint.h"
#include "daemon/flags.h"
#include "daemon/subject.h"
#include "data/shard.h"
#include "model/weight_files.h"
#include "train/events.h"

struct inspect_flags {
    bool verify, json;
};

static enum status inspect_checkpoint(const char *path, bool verify, bool json) {
    char *text = NULL, *real = realpath(path, NULL); // `latest` may move on while we read
    if (!real)
        return status_errno(STATUS_DATA, "inspect: %s", path);
    enum status status = verify ? checkpoint_verify(real) : STATUS_OK;
    if (status == STATUS_OK)
        status = checkpoint_describe(&text, real, json);
    if (status == STATUS_OK)
        fputs(text, stdout);
    free(text);
    free(real);
    return status;
}

static void inspect_tensors(const struct weight_files *files, bool json) {
    struct text text = {0};
    for (size_t i = 0; i < files->n; i++) {
        const struct tensor *t = &files->at[i];
        text_puts(&text, json ? (i ? ", {\"name\": " : "{\"name\": ") : "");
        if (json)
            json_string_add(&text, t->name);
        text_printf(&text, json ? ", \"dtype\": \"%s\", \"shape\": [" : "%-5s [", tensor_dtype_name(t->dtype));
        for (unsigned d = 0; d < t->rank; d++)
            text_printf(&text, d ? ", %llu" : "%llu", (unsigned long long)t->shape[d]);
        if (json)
            text_puts(&text, "]}");
        else
            text_printf(&text, "] %s\n", t->name);
    }
    fputs(text_string(&text), stdout);
    text_release(&text);
}

static enum status inspect_weights(const struct weight_files *files, bool json) {
    const char *kind = files->torch ? "pytorch" : "safetensors";
    uint64_t elements = 0;
    for (size_t i = 0; i < files->n; i++)
        if (__builtin_add_overflow(elements, files->at[i].elements, &elements))
            return status_set(STATUS_DATA, "%s: its tensors have more than 2^64 elements", files->path);
    if (json)
        printf("{\"kind\": \"%s\", \"files\": %zu, \"tensors_n\": %zu, \"parameters\": %llu, \"tensors\": [", kind,
               files->n_parts, files->n, (unsigned long long)elements);
    else
        printf("%s: %zu file%s, %zu tensors, %llu elements\n", kind, files->n_parts, files->n_parts == 1 ? "" : "s",
               files->n, (unsigned long long)elements);
    inspect_tensors(files, json);
    if (json)
        puts("]}");
    return STATUS_OK;
}

static enum status inspect_file(const char *path, bool json) {
    struct weight_files files;
    TRY(weight_files_open_path(&files, path));
    enum status status = inspect_weights(&files, json);
    weight_files_close(&files);
    return status;
}

static enum status inspect_model(const char *path, bool json) {
    struct model model = {0};
    struct model_config config = {0};
    struct weight_files files = {0};
    enum status status = model_config_read(&config, path);
    if (status == STATUS_OK && config.has_head_architecture)
        status = model_open(&model, path); // a fine-tuned model is only whole with tokenizer and head
    if (status == STATUS_OK && !json) {
        printf("model: %s, %u layers, %u wide, %u heads, %u feed-forward, vocabulary %u, %u positions, ",
               config.kind == MODEL_ROBERTA ? "roberta" : "bert", config.layers, config.hidden, config.heads,
               config.ffn, config.vocab, config.max_positions);
        if (config.head == HEAD_QUESTION_ANSWERING)
            printf("question answering");
        else
            printf("%u labels", config.labels);
        for (uint32_t i = 0; i < config.label_names.n; i++)
            printf("%s%s", i ? ", " : ": ", config.label_names.names[i]);
        puts("");
    }
    if (status == STATUS_OK)
        status = weight_files_open(&files, path);
    if (status == STATUS_OK)
        status = inspect_weights(&files, json);
    weight_files_close(&files);
    model_close(&model);
    model_config_release(&config);
    return status;
}

static void inspect_texts(const struct shard *shard, bool json) {
    struct shard_report r = shard_report(shard);
    printf(json ? "{\"kind\": \"shard\", \"texts\": %u, \"tokens\": %llu, \"labels\": %u, \"mean\": %.9g, \"p50\": %u, "
                  "\"p99\": %u, \"longest\": %u, \"cut\": %u}\n"
                : "shard: %u texts, %llu tokens, %u labels, mean %.1f, p50 %u, p99 %u, longest %u, cut %u\n",
           r.n, (unsigned long long)r.tokens, shard->n_labels, r.mean, r.p50, r.p99, r.longest, r.cut);
}

static void inspect_windows(const struct shard *shard, bool json) {
    struct shard_report r = shard_report(shard);
    printf(json ? "{\"kind\": \"shard\", \"questions\": %u, \"windows\": %u, \"answered\": %u, \"tokens\": %llu, "
                  "\"doc_stride\": %u, \"mean\": %.9g, \"p50\": %u, \"p99\": %u, \"longest\": %u}\n"
                : "shard: %u questions in %u windows, %u with their answer, %llu tokens, doc_stride %u, mean %.1f, p50 "
                  "%u, p99 %u, longest %u\n",
           r.questions, r.n, r.answered, (unsigned long long)r.tokens, shard->doc_stride, r.mean, r.p50, r.p99,
           r.longest);
}

static enum status inspect_shard(const char *path, bool json) {
    struct shard shard;
    TRY(shard_open(&shard, path));
    if (shard.spans)
        inspect_windows(&shard, json);
    else
        inspect_texts(&shard, json);
    shard_close(&shard);
    return STATUS_OK;
}

static bool ends_with(const char *string, const char *end) {
    size_t n = strlen(string), m = strlen(end);
    return n >= m && strcmp(string + n - m, end) == 0;
}

// Models and shards are read in full anyway; --verify adds the checkpoint's hashes.
static enum status inspect_run(const char *path, const struct inspect_flags *f) {
    const bool verify = f->verify, json = f->json;
    if (!*path)
        return status_set(STATUS_USAGE, "inspect: the path is empty");
    if (!file_exists(path) && !file_is_folder(path))
        return status_set(STATUS_DATA, "inspect: %s is not there", path);
    bool weights = !file_is_folder(path) && weight_files_is(path), hashed = !model_is(path) && !weights;
    if (model_is(path))
        TRY(inspect_model(path, json));
    else if (!file_is_folder(path) && ends_with(path, ".shard"))
        TRY(inspect_shard(path, json));
    else if (weights)
        TRY(inspect_file(path, json));
    else if (checkpoint_is(path))
        TRY(inspect_checkpoint(path, verify, json));
    else
        return status_set(STATUS_DATA,
                          "inspect: %s is none of: a checkpoint (step-N folder or checkpoint.h5), a model directory, a "
                          "file of weights (.safetensors, .bin, .pt, .pth, or an .index.json of shards), a .shard file",
                          path);
    if (verify && !json)
        puts(hashed
                 ? "intact: every hash agrees"
                 : "well-formed: shapes, offsets and sizes agree, and the checksums of a .bin; no hashes are recorded "
                   "for it");
    return STATUS_OK;
}

static struct inspect_flags given;
static const struct flag flags[] = {
    {"--verify", FLAG_SWITCH, &given.verify, NULL,
     "check every hash of a checkpoint or shard (a model has none); what is wrong, where (65)", NULL, false},
    {"--json", FLAG_SWITCH, &given.json, NULL, "one JSON object", NULL, false},
    FLAGS_END,
};

const struct verb_flags verb_inspect_flags = {
    .verb = "inspect",
    .usage = "[--verify] [--json] PATH",
    .about = "PATH: a checkpoint (step-N folder or checkpoint.h5), a model directory, a file of weights (.safetensors, "
             ".bin, .pt, .pth, or an .index.json of shards) or a .shard file.",
    .flags = flags,
    .min_words = 1,
    .max_words = 1,
    .words = "PATH",
    .examples = "finetuned inspect --verify runs/emotion/checkpoints/latest",
};

int verb_inspect(int argc, char **argv) {
    size_t words;
    bool helped;
    enum status status = flags_parse(&verb_inspect_flags, argc, argv, argv, &words, &helped);
    return helped ? 0 : verb_exit(status == STATUS_OK ? inspect_run(argv[0], &given) : status);
}
