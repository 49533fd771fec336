// SPDX-License-Identifier: Apache-2.0
#include "train/inputs.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"
#include "model/model.h"
#include "model/squad_metrics.h"
#include "model/weights.h"

static void inputs_differ(const char *key, const char *job, const char *base) {
    if (strcmp(job, base) != 0)
        log_warn("%s: %s, but the base was trained with %s: its weights know texts written that way", key, job, base);
}

// A base that we trained records how its texts were read; the job's own values are used all the same.
static enum status inputs_base_settings(const struct job *job) {
    static const char *const special[] = {[TOKENIZER_LITERAL] = "literal", [TOKENIZER_PARSE] = "parse"};
    static const char *const normalize[] = {[NORMALIZE_NONE] = "none", [NORMALIZE_TWEET] = "tweet"};
    struct model_settings settings;
    char *path = path_join(job->model.base, "finetuned.json");
    bool recorded = path && file_named(path);
    free(path);
    if (base_random(job->model.base) || !recorded)
        return STATUS_OK;
    TRY(model_settings_read(&settings, job->model.base));
    inputs_differ("data.special_tokens", special[job->data.special_tokens], special[settings.special]);
    inputs_differ("data.normalize", normalize[job->data.normalize], normalize[settings.normalize]);
    return STATUS_OK;
}

// The base's encoder weights, before any data is read and memory taken.
static enum status inputs_base_weights(const struct inputs *inputs) {
    struct param_table table = {0};
    TRY(base_weights(inputs->base));
    if (inputs->base->random)
        return STATUS_OK;
    enum status status = weights_table(&table, &inputs->config);
    if (status == STATUS_OK)
        status = weights_check(&table, &inputs->config, &inputs->base->files);
    param_table_release(&table);
    return status;
}

static void inputs_dropout(struct model_config *config, double dropout) {
    if (dropout < 0)
        return;
    config->dropout_hidden = dropout;
    config->dropout_attention = dropout;
    config->dropout_classifier = dropout;
}

static bool inputs_spans(const struct job *job) {
    return job->model.head == JOB_HEAD_QUESTION_ANSWERING;
}

// The metric that the best is chosen by must be one that the head has.
static enum status inputs_metric(const struct job *job) {
    int metric = job->train.best_metric;
    bool spans = metric == JOB_EM || metric == JOB_F1, both = metric == JOB_OFFICIAL || metric == JOB_LOSS;
    if (both || spans == inputs_spans(job))
        return STATUS_OK;
    return status_set(STATUS_USAGE, "train.best_metric: %s is of model.head: %s: choose official, loss, %s",
                      job_metric_names[metric], spans ? "question_answering" : "classification",
                      spans ? "accuracy, macro_f1 or macro_recall" : "em or f1");
}

// The head, the data and the metric must be of one kind.
static enum status inputs_kind(const struct job *job) {
    if (inputs_spans(job) == (job->data.format == JOB_SQUAD))
        return inputs_metric(job);
    return inputs_spans(job)
               ? status_set(STATUS_USAGE,
                            "model.head: question_answering needs data.format: squad (questions, contexts and answers)")
               : status_set(STATUS_USAGE, "data.format: squad needs model.head: question_answering");
}

static enum status inputs_config(struct inputs *inputs, const struct job *job) {
    enum status status = STATUS_OK;
    uint32_t usable = model_usable_length(&inputs->base->config);
    if ((uint64_t)job->data.max_length > usable)
        return status_set(STATUS_USAGE, "data.max_length: %lld, but %s takes at most %u tokens: set it to %u or less",
                          (long long)job->data.max_length, job->model.base, usable, usable);
    TRY(model_config_copy(&inputs->config, &inputs->base->config));
    inputs->config.head = HEAD_CLASSIFICATION;
    inputs_dropout(&inputs->config, job->model.dropout);
    if (inputs_spans(job))
        model_config_set_spans(&inputs->config);
    else
        model_config_set_labels(&inputs->config, &inputs->labels, &status);
    return status;
}

static struct source_spec inputs_spec(const struct job *job) {
    return (struct source_spec){
        .format = (enum source_format)job->data.format,
        .dir = job->data.dir,
        .task = job->data.task,
        .columns = {job->data.column_text, job->data.column_pair, job->data.column_label, true},
    };
}

struct model_settings inputs_settings(const struct job *job) {
    return (struct model_settings){
        .max_length = (uint32_t)job->data.max_length,
        .special = (enum tokenizer_special)job->data.special_tokens,
        .normalize = (enum tokenizer_normalize)job->data.normalize,
        .pairs = job->data.column_pair && job->data.format != JOB_TWEET_EVAL && !inputs_spans(job),
        .doc_stride = inputs_spans(job) ? (uint32_t)job->data.doc_stride : 0,
    };
}

static enum status inputs_squad_there(const struct source_spec *spec) {
    for (int split = SPLIT_TRAIN; split <= SPLIT_VAL && spec->format == SOURCE_SQUAD; split++)
        if (!source_has(spec, (enum source_split)split))
            return status_set(STATUS_DATA,
                              "data.dir: %s holds no %s.json (SQuAD's train-v2.0.json is train.json here, its "
                              "dev-v2.0.json val.json)",
                              spec->dir, split_names[split]);
    return STATUS_OK;
}

enum status inputs_look(const struct job *job) {
    struct source_spec spec = inputs_spec(job);
    struct labels labels = {0};
    TRY(inputs_kind(job));
    TRY(base_there(job->model.base));
    TRY(inputs_squad_there(&spec));
    enum status status = source_labels(&labels, &spec);
    labels_release(&labels);
    return status;
}

static void inputs_report(enum source_split split, const struct shard *shard, bool made) {
    struct shard_report r = shard_report(shard);
    if (shard->spans) {
        log_info("data: %s: %u questions in %u windows, %u with their answer; %.1f tokens on average, p50 %u, p99 %u, "
                 "longest %u%s",
                 split_names[split], r.questions, r.n, r.answered, r.mean, r.p50, r.p99, r.longest,
                 made ? "" : " (cached)");
        return;
    }
    log_info("data: %s: %u texts, %.1f tokens on average, p50 %u, p99 %u, longest %u; truncation cuts %u texts (%llu "
             "tokens)%s",
             split_names[split], r.n, r.mean, r.p50, r.p99, r.longest, r.cut, (unsigned long long)r.tokens_cut,
             made ? "" : " (cached)");
}

static enum status inputs_shard(struct inputs *inputs, const struct job *job, enum source_split split,
                                const struct source *source, struct pool *pool) {
    struct shard_options options = {.special = (enum tokenizer_special)job->data.special_tokens,
                                    .max_length = (uint32_t)job->data.max_length,
                                    .truncation = job->data.truncation,
                                    .spans = inputs_spans(job),
                                    .doc_stride = (uint32_t)job->data.doc_stride,
                                    .normalize = (enum tokenizer_normalize)job->data.normalize,
                                    .spare = inputs->spare};
    if (source->n == 0)
        return STATUS_OK; // no test split
    TRY(shard_prepare(&inputs->shards[split], &inputs->made[split], job->data.cache, split, source, &inputs->labels,
                      inputs->base->tokenizer, &options, pool));
    inputs_report(split, &inputs->shards[split], inputs->made[split]);
    return STATUS_OK;
}

static int inputs_compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static enum status inputs_text_hashes(uint64_t **out, const struct source *source) {
    *out = calloc(source->n + 1, sizeof **out);
    if (!*out)
        return status_set(STATUS_SYSTEM, "inputs: no memory for %zu hashes", source->n);
    for (size_t i = 0; i < source->n; i++)
        (*out)[i] = hash64(source->rows[i].text, source->rows[i].text_size) +
                    (source->rows[i].pair ? 3 * hash64(source->rows[i].pair, source->rows[i].pair_size) : 0);
    qsort(*out, source->n, sizeof **out, inputs_compare);
    return STATUS_OK;
}

// Test texts that stand in train too.
static enum status inputs_overlap(uint32_t *shared, const struct source *train, const struct source *test) {
    uint64_t *a = NULL, *b = NULL;
    enum status status;
    *shared = 0;
    TRY_GOTO(inputs_text_hashes(&a, train), done);
    TRY_GOTO(inputs_text_hashes(&b, test), done);
    for (size_t i = 0, j = 0; j < test->n; j++) {
        while (i < train->n && a[i] < b[j])
            i++;
        *shared += i < train->n && a[i] == b[j];
    }
done:
    free(a);
    free(b);
    return status;
}

static void inputs_uneven(const struct labels *labels, const struct source *train) {
    uint64_t *counts = calloc(labels->n, sizeof *counts);
    if (!counts)
        return;
    for (size_t i = 0; i < train->n; i++)
        counts[train->rows[i].label]++;
    uint32_t least = 0, most = 0;
    for (uint32_t i = 1; i < labels->n; i++) {
        least = counts[i] < counts[least] ? i : least;
        most = counts[i] > counts[most] ? i : most;
    }
    if (counts[most] > 10 * counts[least])
        log_warn("data: labels are very uneven: %s %llu, %s %llu of %zu", labels->names[most],
                 (unsigned long long)counts[most], labels->names[least], (unsigned long long)counts[least], train->n);
    free(counts);
}

// Train and val must be labelled; a test split may lack, or have no labels at all (SOURCE_TWEET_EVAL: neither).
static enum status inputs_labelled(const struct source *source) {
    for (size_t i = 0; i < source->n; i++)
        if (source->rows[i].label < 0 && source->rows[i].id)
            return status_set(STATUS_DATA,
                              "%s: question %s: no answer; each question of train and val needs one, or "
                              "\"is_impossible\": true",
                              source->rows[i].file, source->rows[i].id);
        else if (source->rows[i].label < 0)
            return status_set(STATUS_DATA, "%s:%u: no label; each text of train and val needs one",
                              source->rows[i].file, source->rows[i].line);
    return STATUS_OK;
}

static enum status inputs_test(struct source *test, const struct source_spec *spec, const struct labels *labels) {
    struct source_spec any = *spec;
    any.columns.label_must = false;
    if (spec->format != SOURCE_TWEET_EVAL && !source_has(spec, SPLIT_TEST)) {
        log_info("data: %s has no test split: val alone is scored", spec->dir);
        return STATUS_OK;
    }
    TRY(source_read(test, &any, SPLIT_TEST, labels));
    size_t labelled = 0;
    for (size_t i = 0; i < test->n; i++)
        labelled += test->rows[i].label >= 0;
    if (labelled == 0) {
        log_info("data: %s has no %s: val alone is scored", test->paths[0],
                 spec->format == SOURCE_SQUAD ? "answers" : "labels");
        source_close(test);
    } else if (labelled < test->n) {
        log_warn("data: %s: %zu of %zu texts have no label and are not scored", test->paths[0], test->n - labelled,
                 test->n);
    }
    return STATUS_OK;
}

static enum status inputs_sources(struct source sources[SPLITS], const struct source_spec *spec,
                                  const struct labels *labels) {
    for (int split = SPLIT_TRAIN; split <= SPLIT_VAL; split++) {
        TRY(source_read(&sources[split], spec, (enum source_split)split, labels));
        TRY(inputs_labelled(&sources[split]));
    }
    TRY(inputs_test(&sources[SPLIT_TEST], spec, labels));
    if (sources[SPLIT_TRAIN].n == 0 || sources[SPLIT_VAL].n == 0)
        return status_set(STATUS_DATA, "%s/%s: the %s split is empty", spec->dir, spec->task,
                          split_names[sources[SPLIT_TRAIN].n ? SPLIT_VAL : SPLIT_TRAIN]);
    return STATUS_OK;
}

static enum status inputs_data_hash(char out[33], const struct source sources[SPLITS], const struct labels *labels) {
    struct hash_stream *hash;
    TRY(hash_begin(&hash));
    for (uint32_t i = 0; i < labels->n; i++)
        hash_add_string(hash, labels->names[i]);
    for (int split = 0; split < SPLITS; split++)
        source_hash(&sources[split], hash);
    hash_end(hash, out);
    return STATUS_OK;
}

enum status inputs_survey(struct inputs_facts *out, const struct job *job) {
    struct source_spec spec = inputs_spec(job);
    struct source sources[SPLITS] = {0};
    struct labels labels = {0};
    enum status status;
    *out = (struct inputs_facts){0};
    TRY(inputs_kind(job));
    TRY(inputs_squad_there(&spec));
    TRY_GOTO(source_labels(&labels, &spec), done);
    TRY_GOTO(inputs_sources(sources, &spec, &labels), done);
    TRY_GOTO(inputs_data_hash(out->hash, sources, &labels), done);
    out->train = sources[SPLIT_TRAIN].n;
done:
    for (int split = 0; split < SPLITS; split++)
        source_close(&sources[split]);
    labels_release(&labels);
    return status;
}

// The labels in the order of their ids; TweetEval's are known.
static void inputs_labels_tell(const struct labels *labels) {
    struct text names = {0};
    for (uint32_t i = 0; i < labels->n && i < 20; i++)
        text_printf(&names, strpbrk(labels->names[i], " \t") ? " \"%.40s\"" : " %.40s", labels->names[i]);
    log_info("data: %u labels:%s%s", labels->n, names.failed ? "" : text_string(&names), labels->n > 20 ? " …" : "");
    text_release(&names);
}

// Equal but for case and for blanks around them.
static bool label_alike(const char *a, const char *b) {
    a += strspn(a, " \t");
    b += strspn(b, " \t");
    size_t n = strlen(a), m = strlen(b);
    while (n && strchr(" \t", a[n - 1]))
        n--;
    while (m && strchr(" \t", b[m - 1]))
        m--;
    return n == m && strncasecmp(a, b, n) == 0;
}

#define LABELS_ALIKE_MAX 200 // more are not compared with each other

static void inputs_labels_alike(const struct labels *labels) {
    for (uint32_t i = 0; i < labels->n && labels->n <= LABELS_ALIKE_MAX; i++)
        for (uint32_t k = 0; k < i; k++)
            if (label_alike(labels->names[k], labels->names[i]))
                log_warn("data: the labels \"%.40s\" and \"%.40s\" differ in blanks or case only, and are two classes",
                         labels->names[k], labels->names[i]);
}

// What train's labels and texts are like.
static enum status inputs_warn(struct inputs *inputs, bool spans) {
    const struct source *train = &inputs->sources[SPLIT_TRAIN], *test = &inputs->sources[SPLIT_TEST];
    TRY(inputs_overlap(&inputs->shared_texts, train, test));
    if (!spans) {
        inputs_labels_alike(&inputs->labels);
        inputs_uneven(&inputs->labels, train);
    }
    if (inputs->shared_texts)
        log_warn("data: %u of %zu test %s in train too", inputs->shared_texts, test->n,
                 spans ? "questions stand with their contexts" : "texts stand");
    return STATUS_OK;
}

// A job whose contexts all fit may have a doc_stride that no window has room for; its model can't be asked about longer
// ones then.
static void inputs_stride(const struct job *job, const struct tokenizer *tokenizer) {
    uint32_t special = tokenizer_info(tokenizer).kind == TOKENIZER_BPE ? 4 : 3;
    if (job->data.max_length <= special + job->data.doc_stride)
        log_warn("data: data.doc_stride %lld leaves no room in windows of data.max_length %lld: longer contexts will "
                 "be refused by the model; raise data.max_length or lower data.doc_stride (384 and 128 are usual)",
                 (long long)job->data.doc_stride, (long long)job->data.max_length);
}

// Whether "no answer" is one of the answers: as some question of train or val has none.
static bool inputs_no_answer(const struct inputs *inputs, const struct job *job) {
    return inputs_spans(job) && (squad_version_of(&inputs->sources[SPLIT_TRAIN]) == SQUAD_V2 ||
                                 squad_version_of(&inputs->sources[SPLIT_VAL]) == SQUAD_V2);
}

static enum status inputs_data(struct inputs *inputs, const struct job *job, const struct source_spec *spec) {
    TRY(inputs_sources(inputs->sources, spec, &inputs->labels));
    TRY(inputs_data_hash(inputs->data_hash, inputs->sources, &inputs->labels));
    inputs->no_answer = inputs_no_answer(inputs, job);
    TRY(base_hash(inputs->base));
    memcpy(inputs->base_hash, inputs->base->hash, sizeof inputs->base_hash);
    if (!inputs_spans(job) && spec->format != SOURCE_TWEET_EVAL)
        inputs_labels_tell(&inputs->labels);
    return inputs_warn(inputs, inputs_spans(job));
}

// What one rank reads, alone.
static enum status inputs_read(struct inputs *inputs, const struct job *job) {
    struct source_spec spec = inputs_spec(job);
    TRY(inputs_kind(job));
    TRY(inputs_squad_there(&spec));
    TRY(source_labels(&inputs->labels, &spec));
    TRY(inputs_config(inputs, job));
    TRY(inputs_base_weights(inputs));
    TRY(inputs_base_settings(job));
    return inputs_data(inputs, job, &spec);
}

// Its token shards; of the sources only what windows name their rows by stays open.
static enum status inputs_shards(struct inputs *inputs, const struct job *job, struct pool *pool) {
    for (int split = 0; split < SPLITS; split++)
        TRY(inputs_shard(inputs, job, (enum source_split)split, &inputs->sources[split], pool));
    if (inputs_spans(job))
        inputs_stride(job, inputs->tokenizer);
    for (int split = 0; split < SPLITS; split++)
        if (split == SPLIT_TRAIN || !inputs_spans(job))
            source_close(&inputs->sources[split]);
    return STATUS_OK;
}

enum status inputs_begin(struct inputs *inputs, const struct job *job, struct base *base, struct comm *comm) {
    *inputs = (struct inputs){.base = base, .tokenizer = base->tokenizer, .spare = inputs->spare};
    if (!comm)
        return inputs_read(inputs, job);
    TRY(comm_agree(comm, inputs_read(inputs, job)));
    TRY(comm_same(comm, inputs->data_hash, sizeof inputs->data_hash, "data"));
    return comm_same(comm, inputs->base_hash, sizeof inputs->base_hash, "model.base");
}

enum status inputs_tokenise(struct inputs *inputs, const struct job *job, struct comm *comm, struct pool *pool) {
    if (!comm)
        return inputs_shards(inputs, job, pool);
    TRY(comm_agree(comm, comm->rank == 0 ? inputs_shards(inputs, job, pool) : STATUS_OK));
    return comm_agree(comm, comm->rank == 0 ? STATUS_OK : inputs_shards(inputs, job, pool));
}

enum status inputs_open(struct inputs *inputs, const struct job *job, struct base *base, struct pool *pool) {
    TRY(inputs_begin(inputs, job, base, NULL));
    return inputs_tokenise(inputs, job, NULL, pool);
}

void inputs_close(struct inputs *inputs) {
    for (int split = 0; split < SPLITS; split++) {
        shard_close(&inputs->shards[split]);
        source_close(&inputs->sources[split]);
    }
    labels_release(&inputs->labels);
    model_config_release(&inputs->config);
    *inputs = (struct inputs){0};
}
