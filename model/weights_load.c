// SPDX-License-Identifier: Apache-2.0
// Weights from a Hugging Face folder: body, then pooler, then the classification head, whose rows
// follow the run's labels by name. What goes where is found and checked first, by one thread; then all threads copy.
#include "base/text.h"
#include "model/weight_files.h"
#include "model/weights.h"
#include "model/weights_fill.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

// The tensor that is to be copied into a parameter.
struct copy {
    const struct tensor *tensor; // NULL: the parameter is new
    const uint32_t *source;      // the tensor's row of each of the parameter's; NULL: the same
};

struct load {
    float *arena;
    struct weights_report *report;
    const struct param_table *table;
    const struct model_config *config, *base;
    const struct weight_files *files;
    uint64_t seed;
    struct pool *pool;
    struct copy *copies; // (table's n)
    struct weights_tasks tasks;
    float *rows; // (threads, row_floats)
    size_t row_floats;
    atomic_size_t infinite; // the first task whose rows are not all finite
    bool *used;             // [files.n]
    uint32_t *source;       // [labels] the base's row of each of the run's labels
    struct text note;
};

// `name` with LayerNorm's weight and bias as BERT's first files called them, gamma and beta. False if it is no
// LayerNorm.
static bool old_name(char out[PARAM_NAME], const char *name) {
    const char *norm = strstr(name, "LayerNorm.");
    if (!norm)
        return false;
    const char *last = norm + strlen("LayerNorm.");
    snprintf(out, PARAM_NAME, "%.*s%s", (int)(last - name), name, strcmp(last, "weight") == 0 ? "gamma" : "beta");
    return true;
}

#define TENSOR_NAMES 4u

// The file's tensors for a parameter: of its own name, of the same without the prefix, then of both by their old names.
static unsigned tensors_of(const struct tensor *out[TENSOR_NAMES], const struct load *load, const struct param *param) {
    const char *prefix = weights_prefix(load->config);
    bool prefixed = strncmp(param->name, prefix, strlen(prefix)) == 0;
    char old[PARAM_NAME];
    const char *names[2] = {param->name, old_name(old, param->name) ? old : NULL};
    unsigned n = 0;
    for (size_t i = 0; i < 2 && names[i]; i++) {
        const struct tensor *tensor = weight_files_find(load->files, names[i]);
        if (tensor)
            out[n++] = tensor;
        tensor = prefixed ? weight_files_find(load->files, names[i] + strlen(prefix)) : NULL;
        if (tensor)
            out[n++] = tensor;
    }
    return n;
}

static const struct tensor *tensor_of(const struct load *load, const struct param *param) {
    const struct tensor *found[TENSOR_NAMES];
    return tensors_of(found, load, param) ? found[0] : NULL;
}

// Two tensors for one parameter: nobody can tell which of them was trained.
static enum status tensor_single(const struct load *load, const struct param *param) {
    const struct tensor *found[TENSOR_NAMES];
    if (tensors_of(found, load, param) < 2)
        return STATUS_OK;
    return status_set(STATUS_DATA, "%s: tensors %.200s and %.200s are both there, for one and the same weight",
                      load->files->path, found[0]->name, found[1]->name);
}

static bool shape_fits(const struct tensor *tensor, const struct param *param) {
    return tensor->rank == param->rank && tensor->shape[0] == param->shape[0] &&
           (param->rank == 1 || tensor->shape[1] == param->shape[1]);
}

static enum status shape_check(const struct load *load, const struct tensor *tensor, const struct param *param) {
    char got[96], wanted[96];
    if (tensor->dtype == TENSOR_I64)
        return status_set(STATUS_DATA, "%s: tensor %s: I64, floating point is needed", load->files->path, tensor->name);
    if (shape_fits(tensor, param))
        return STATUS_OK;
    return status_set(STATUS_DATA, "%s: tensor %s has shape %s, config.json makes it %s", load->files->path,
                      tensor->name, tensor_shape_text(got, tensor->shape, tensor->rank),
                      tensor_shape_text(wanted, param->shape, param->rank));
}

// Notes that a tensor is to be copied into the arena, row i from the tensor's row source[i] (i itself if NULL).
static enum status tensor_copy(struct load *load, const struct tensor *tensor, const struct param *param,
                               const uint32_t *source) {
    TRY(shape_check(load, tensor, param));
    load->used[tensor - load->files->at] = true;
    load->copies[param - load->table->at] = (struct copy){tensor, source};
    return STATUS_OK;
}

typedef uint32_t quad __attribute__((vector_size(16)));

static bool all_finite(const float *x, uint64_t n) {
    quad odd = {0};
    for (; n >= 4; n -= 4, x += 4) { // the exponent's bits all set, without a branch
        quad bits;
        memcpy(&bits, x, sizeof bits);
        odd |= (bits & 0x7f800000u) + 0x00800000u;
    }
    for (; n > 0; n--, x++)
        odd[0] |= __builtin_isfinite(*x) ? 0 : 0x80000000u;
    return (odd[0] | odd[1] | odd[2] | odd[3]) < 0x80000000u;
}

// Rows of a tensor: where they lie in the file if they are floats there, else in `room`.
static const float *copy_rows(const struct copy *copy, const struct weights_rows *at, float *room) {
    const struct tensor *tensor = copy->tensor;
    uint64_t k = at->param->shape[1];
    if (copy->source)
        for (uint64_t i = 0; i < at->rows; i++)
            tensor_floats(room + i * k, tensor, copy->source[at->row + i] * k, k);
    else if (tensor->dtype == TENSOR_F32 && !tensor->strided && (uintptr_t)tensor->data % sizeof(float) == 0)
        return (const float *)(const void *)tensor->data + at->row * k;
    else
        tensor_floats(room, tensor, at->row * k, at->rows * k);
    return room;
}

static void copy_run(void *context, size_t task, unsigned thread) {
    struct load *load = context;
    struct weights_rows at = weights_task(&load->tasks, task);
    const struct copy *copy = &load->copies[at.param - load->table->at];
    if (!copy->tensor)
        return;
    const float *rows = copy_rows(copy, &at, load->rows + thread * load->row_floats);
    if (all_finite(rows, at.rows * at.param->shape[1])) {
        param_write_rows(load->arena, at.param, rows, at.row, at.rows);
        return;
    }
    size_t first = atomic_load(&load->infinite);
    while (task < first && !atomic_compare_exchange_weak(&load->infinite, &first, task))
        ;
}

static enum status copies_run(struct load *load) {
    atomic_store(&load->infinite, SIZE_MAX);
    pool_run(load->pool, copy_run, load, load->tasks.n);
    size_t infinite = atomic_load(&load->infinite);
    if (infinite == SIZE_MAX)
        return STATUS_OK;
    const struct param *param = weights_task(&load->tasks, infinite).param;
    return status_set(STATUS_DATA, "%s: tensor %s holds a value that is not finite", load->files->path,
                      load->copies[param - load->table->at].tensor->name);
}

// An encoder weight's tensor: it must be there and have its shape.
static enum status body_tensor(const struct tensor **out, const struct load *load, const struct param *param) {
    *out = tensor_of(load, param);
    if (!*out)
        return status_set(STATUS_DATA, "%s: weight %s is missing (with and without the prefix %s)", load->files->path,
                          param->name, weights_prefix(load->config));
    TRY(tensor_single(load, param));
    return shape_check(load, *out, param);
}

static enum status body_load(struct load *load) {
    unsigned head = load->config->layers + 1;
    for (size_t i = 0; i < load->table->n && load->table->at[i].bucket != head; i++) {
        const struct tensor *tensor;
        TRY(body_tensor(&tensor, load, &load->table->at[i]));
        TRY(tensor_copy(load, tensor, &load->table->at[i], NULL));
    }
    return STATUS_OK;
}

// The head's parameters; of classification four: dense (BERT: the pooler) weight and bias, output weight and bias.
static const struct param *head_param(const struct load *load, unsigned i) {
    return weights_param(load->table, load->config->layers + 1, i);
}

static void head_draw(struct load *load, unsigned first, unsigned end) {
    for (unsigned i = first; i < end; i++)
        weights_draw(load->arena, head_param(load, i), load->config, load->seed, load->rows);
}

static void note(struct load *load, const char *line) {
    if (load->note.size)
        text_puts(&load->note, "; ");
    text_puts(&load->note, line);
}

// BERT's pooler belongs to the pretrained model: taken if it is there whole, else new.
static enum status pooler_load(struct load *load) {
    const struct tensor *weight = tensor_of(load, head_param(load, HEAD_DENSE)),
                        *bias = tensor_of(load, head_param(load, HEAD_DENSE_BIAS));
    if (weight && bias) {
        TRY(tensor_single(load, head_param(load, HEAD_DENSE)));
        TRY(tensor_single(load, head_param(load, HEAD_DENSE_BIAS)));
        TRY(tensor_copy(load, weight, head_param(load, HEAD_DENSE), NULL));
        return tensor_copy(load, bias, head_param(load, HEAD_DENSE_BIAS), NULL);
    }
    load->report->pooler_new = true;
    note(load, "the pooler is not in the base: a new one");
    head_draw(load, HEAD_DENSE, HEAD_OUTPUT);
    return STATUS_OK;
}

static bool head_fits(const struct load *load, unsigned i) {
    const struct tensor *tensor = tensor_of(load, head_param(load, i));
    return tensor && tensor->dtype != TENSOR_I64 && shape_fits(tensor, head_param(load, i));
}

// Any tensor of a classification head, whatever its shape.
static bool head_is_there(const struct load *load) {
    for (size_t i = 0; i < load->files->n; i++)
        if (strncmp(load->files->at[i].name, "classifier.", 11) == 0)
            return true;
    return false;
}

// Fills `source`: for each of the run's labels the base's id of the same name. False if a name is not there.
static bool labels_align(struct load *load, bool *permuted) {
    const struct model_config *config = load->config, *base = load->base;
    char one[24], two[24];
    for (uint32_t i = 0; i < config->labels; i++) {
        const char *name = model_label_name(config, i, one);
        uint32_t j = strcmp(name, model_label_name(base, i < base->labels ? i : 0, two)) == 0 ? i : 0;
        while (j < base->labels && strcmp(name, model_label_name(base, j, two)) != 0)
            j++;
        if (j == base->labels)
            return false;
        *permuted = *permuted || j != i;
        load->source[i] = j;
    }
    return true;
}

static enum status head_new(struct load *load, unsigned first, const char *why) {
    load->report->head_new = true;
    note(load, why);
    head_draw(load, first, HEAD_PARAMS);
    return STATUS_OK;
}

static enum status head_take(struct load *load, unsigned first) {
    for (unsigned i = first; i < HEAD_PARAMS; i++)
        TRY(tensor_copy(load, tensor_of(load, head_param(load, i)), head_param(load, i),
                        i < HEAD_OUTPUT ? NULL : load->source));
    return STATUS_OK;
}

// `first`: HEAD_DENSE for RoBERTa, whose dense layer is part of the classification head, BERT's pooler is not.
static enum status head_load(struct load *load, unsigned first) {
    bool permuted = false;
    if (!head_is_there(load))
        return head_new(load, first, "the head is not in the base: a new one");
    for (unsigned i = first; i < HEAD_PARAMS; i++)
        if (!head_fits(load, i))
            return head_new(load, first, "the base's head has another shape or label count: a new one");
    if (load->base->labels != load->config->labels || !labels_align(load, &permuted))
        return head_new(load, first, "the base's head has labels of other names: a new one");
    if (permuted)
        note(load, "the base's head has the same labels in another order: its rows were aligned by name");
    return head_take(load, first);
}

// Question answering's head has no labels to align: qa_outputs, or new.
static enum status spans_load(struct load *load) {
    for (unsigned i = QA_OUTPUT; i < QA_PARAMS; i++)
        if (!head_fits(load, i)) {
            load->report->head_new = true;
            note(load, "the base has no head for question answering: a new one");
            head_draw(load, QA_OUTPUT, QA_PARAMS);
            return STATUS_OK;
        }
    for (unsigned i = QA_OUTPUT; i < QA_PARAMS; i++)
        TRY(tensor_copy(load, tensor_of(load, head_param(load, i)), head_param(load, i), NULL));
    return STATUS_OK;
}

// Tensors of pretraining and of other heads, and buffers that are no weights: no word is lost about them.
static bool is_usual(const char *name) {
    static const char *const parts[] = {"lm_head.", "cls.",        "position_ids", "token_type_ids",
                                        "pooler.",  "classifier.", "qa_outputs."};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(name, parts[i]))
            return true;
    return false;
}

static void ignored_count(struct load *load) {
    const char *odd = NULL;
    for (size_t i = 0; i < load->files->n; i++) {
        if (load->used[i])
            continue;
        load->report->ignored++;
        if (!odd && !is_usual(load->files->at[i].name))
            odd = load->files->at[i].name;
    }
    if (!odd)
        return;
    char line[160];
    snprintf(line, sizeof line, "tensor %.80s of the base has no use here", odd);
    note(load, line);
}

static enum status load_all(struct load *load) {
    load->used = calloc(load->files->n + 1, sizeof *load->used);
    load->source = calloc(load->config->labels + 1, sizeof *load->source);
    load->copies = calloc(load->table->n + 1, sizeof *load->copies);
    if (!load->used || !load->source || !load->copies)
        return status_set(STATUS_SYSTEM, "%s: no memory", load->files->path);
    TRY(weights_tasks_init(&load->tasks, load->table));
    TRY(weights_buffer(&load->rows, &load->row_floats, load->table, pool_threads(load->pool)));
    TRY(body_load(load));
    if (load->config->head == HEAD_CLASSIFICATION && load->config->kind == MODEL_BERT)
        TRY(pooler_load(load));
    if (load->config->head == HEAD_CLASSIFICATION)
        TRY(head_load(load, load->config->kind == MODEL_BERT ? HEAD_OUTPUT : HEAD_DENSE));
    else
        TRY(spans_load(load));
    TRY(copies_run(load));
    ignored_count(load);
    const char *line = text_string(&load->note);
    snprintf(load->report->note, sizeof load->report->note, "%s", line ? line : "");
    return STATUS_OK;
}

enum status weights_load(float *arena, struct weights_report *report, const struct param_table *table,
                         const struct model_config *config, const struct model_config *base,
                         const struct weight_files *files, uint64_t seed, struct pool *pool) {
    *report = (struct weights_report){0};
    struct load load = {.arena = arena,
                        .report = report,
                        .table = table,
                        .config = config,
                        .base = base,
                        .files = files,
                        .seed = seed,
                        .pool = pool};
    enum status status = load_all(&load);
    text_release(&load.note);
    weights_tasks_release(&load.tasks);
    free(load.rows);
    free(load.copies);
    free(load.used);
    free(load.source);
    return status;
}

// A weight file's element takes two bytes at least. Only views that repeat elements (strides of 0) can make more of a
// file than it holds: little of that is a bias that is one number, much of it would be memory that a small file claims.
static enum status bytes_check(const struct param_table *table, const struct model_config *config,
                               const struct weight_files *files) {
    const uint64_t spare = 1 << 20;
    uint64_t wanted = 0, held = weight_files_bytes(files);
    for (size_t i = 0; i < table->n && table->at[i].bucket <= config->layers; i++)
        wanted += param_elements(&table->at[i]);
    if (wanted <= held / 2 + spare)
        return STATUS_OK;
    return status_set(STATUS_DATA,
                      "%s: config.json makes it a model of %llu weights, which %llu bytes can't hold unless they are "
                      "repeated",
                      files->path, (unsigned long long)wanted, (unsigned long long)held);
}

enum status weights_check(const struct param_table *table, const struct model_config *config,
                          const struct weight_files *files) {
    struct load load = {.table = table, .config = config, .files = files};
    enum status status = STATUS_OK;
    const struct tensor *tensor;
    for (size_t i = 0; i < table->n && table->at[i].bucket <= config->layers && status == STATUS_OK; i++)
        if (config->kind != MODEL_BERT || !strstr(table->at[i].name, "pooler"))
            status = body_tensor(&tensor, &load, &table->at[i]);
    return status == STATUS_OK ? bytes_check(table, config, files) : status;
}
