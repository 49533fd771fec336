// SPDX-License-Identifier: Apache-2.0
// Embeddings: a token's word, position and type rows added, LayerNorm, dropout. Backward, a row's gradient is the sum
// over the tokens that read it: by part in token order from +0, then the binary tree over parts. A part that does not
// read the row would add +0, which changes no bit of a sum that itself started from +0, so the tree is walked over the
// other parts only.
#include "model/pass_state.h"

#include <string.h>

#define TYPE_COLUMNS 32 // a type's row has very many tokens: cut by columns

struct forward {
    const struct pass *pass;
    const float *weights;
};

static void forward_block(void *context, size_t begin, size_t end, unsigned thread) {
    const struct forward *f = context;
    const struct pass *pass = f->pass;
    const struct batch *batch = pass->batch;
    size_t c = pass->config->hidden, first = model_first_position(pass->config);
    const float *words = f->weights + pass_param(pass, 0, EMBEDDING_WORDS)->offset;
    const float *positions = f->weights + pass_param(pass, 0, EMBEDDING_POSITIONS)->offset;
    const float *types = f->weights + pass_param(pass, 0, EMBEDDING_TYPES)->offset;
    struct rows rows = rows_tokens(pass);
    struct dropout site = dropout_site(pass, 0, SITE_EMBEDDINGS, pass->config->dropout_hidden);
    float *x = pass->act.norm0.x, *y = pass->act.hidden[0];
    (void)thread;
    for (size_t t = begin; t < end; t++)
        pass->ops->embed_row(x + t * c, words + (size_t)batch->ids[t] * c,
                             positions + (first + (size_t)batch->positions[t]) * c, types + (size_t)batch->types[t] * c,
                             c);
    struct norm_place norm = norm_at(pass, 0, EMBEDDING_NORM, &pass->act.norm0, &rows);
    norm_forward(pass, f->weights, &norm, y, NULL, begin, end);
    rows_dropout(pass, y, y, &rows, begin, end, c, &site);
}

// Ids that the model has no row for are left out: who reads the text refuses it.
void embeddings_read(struct row_set *rows, const struct param_table *table, const struct model_config *config,
                     const int32_t *ids, const uint8_t *types, uint32_t n) {
    const struct param *words = weights_param(table, 0, EMBEDDING_WORDS),
                       *positions = weights_param(table, 0, EMBEDDING_POSITIONS),
                       *kinds = weights_param(table, 0, EMBEDDING_TYPES);
    const uint64_t first = model_first_position(config);
    for (uint32_t i = 0; i < n; i++) {
        if ((uint32_t)ids[i] < words->shape[0])
            row_set_add(rows, words->row + (uint32_t)ids[i]);
        if (first + i < positions->shape[0])
            row_set_add(rows, positions->row + first + i);
        if (types[i] < kinds->shape[0])
            row_set_add(rows, kinds->row + types[i]);
    }
}

void embeddings_forward(struct pass *pass, const float *weights) {
    struct forward f = {pass, weights};
    blocks_run(pass, forward_block, &f, pass->batch->tokens, ROWS_BLOCK);
}

// One digit (8 bits) of a stable radix sort of `order` by keys[order[i]].
static void digit_sort(uint32_t *to, const uint32_t *from, const uint32_t *keys, uint32_t n, unsigned shift) {
    uint32_t begins[257] = {0};
    for (uint32_t i = 0; i < n; i++)
        begins[((keys[from[i]] >> shift) & 255) + 1]++;
    for (unsigned d = 0; d < 256; d++)
        begins[d + 1] += begins[d];
    for (uint32_t i = 0; i < n; i++)
        to[begins[(keys[from[i]] >> shift) & 255]++] = from[i];
}

// Fills order, and starts with the runs of equal keys[order[i]]; within a run tokens ascend. `rows`: keys are below it.
// Returns the number of runs.
static uint32_t keys_sort(struct activations *act, uint32_t n, uint32_t rows) {
    uint32_t runs = 0;
    for (uint32_t i = 0; i < n; i++)
        act->order[i] = i;
    for (unsigned shift = 0; shift < 32 && (rows - 1) >> shift; shift += 8) {
        digit_sort(act->spare, act->order, act->keys, n, shift);
        memcpy(act->order, act->spare, n * sizeof *act->order);
    }
    for (uint32_t i = 0; i < n; i++)
        if (i == 0 || act->keys[act->order[i]] != act->keys[act->order[i - 1]])
            act->starts[runs++] = i;
    act->starts[runs] = n;
    return runs;
}

struct table_job {
    const struct pass *pass;
    float *rows;   // the table's gradient (N, c)
    size_t chunks; // tasks of one row
    size_t width;  // columns of a task
    int64_t skip;  // a row whose gradient stays 0, -1: none
};

// What one task sums: columns [column, column + width) of the gradients of tokens order[…].
struct sum {
    const struct pass *pass;
    const uint32_t *order;
    size_t column, width;
};

static void tokens_sum(const struct sum *s, float *out, uint32_t begin, uint32_t end) {
    const struct pass *pass = s->pass;
    memset(out, 0, s->width * sizeof *out);
    for (uint32_t i = begin; i < end; i++)
        pass->ops->add(out, pass->act.dhidden + (size_t)s->order[i] * pass->config->hidden + s->column, s->width);
}

// The first of order[begin..end) whose token is not before `token`.
static uint32_t order_find(const struct sum *s, uint32_t begin, uint32_t end, uint32_t token) {
    while (begin < end) {
        uint32_t middle = begin + (end - begin) / 2;
        if (s->order[middle] < token)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin;
}

// out = the tree over parts [part, part + parts) of the tokens order[begin..end), at least one. `spare`: a row a level.
static void parts_sum(const struct sum *s, float *out, uint32_t begin, uint32_t end, uint32_t part, uint32_t parts,
                      float *spare) {
    uint32_t split = begin;
    while (parts > 1) {
        parts /= 2;
        split = order_find(s, begin, end, s->pass->batch->part_tokens[part + parts]);
        if (split != begin && split != end)
            break;
        part += split == begin ? parts : 0;
        split = begin;
    }
    if (split == begin) {
        tokens_sum(s, out, begin, end);
        return;
    }
    parts_sum(s, out, begin, split, part, parts, spare + s->width);
    parts_sum(s, spare, split, end, part + parts, parts, spare + s->width);
    s->pass->ops->add(out, spare, s->width);
}

static void row_task(void *context, size_t task, unsigned thread) {
    const struct table_job *job = context;
    const struct activations *act = &job->pass->act;
    size_t run = task / job->chunks, column = task % job->chunks * job->width, c = job->pass->config->hidden;
    uint32_t begin = act->starts[run], end = act->starts[run + 1], row = act->keys[act->order[begin]];
    if ((int64_t)row == job->skip)
        return;
    struct sum s = {job->pass, act->order, column, c - column < job->width ? c - column : job->width};
    parts_sum(&s, job->rows + (size_t)row * c + column, begin, end, 0, job->pass->batch->parts,
              pass_scratch(job->pass, thread));
}

// Writes the rows of one table's gradient that are read; act.keys say which row each token read.
static void table_backward(struct pass *pass, float *gradients, unsigned table, size_t width, int64_t skip) {
    const struct param *param = pass_param(pass, 0, table);
    size_t c = pass->config->hidden;
    struct table_job job = {pass, gradients + param->offset, (c + width - 1) / width, width, skip};
    uint32_t runs = keys_sort(&pass->act, pass->batch->tokens, (uint32_t)param->shape[0]);
    if (runs > 0)
        pool_run(pass->pool, row_task, &job, runs * job.chunks);
}

static void keys_fill(struct pass *pass, unsigned table) {
    const struct batch *batch = pass->batch;
    uint32_t first = model_first_position(pass->config);
    for (uint32_t t = 0; t < batch->tokens; t++)
        pass->act.keys[t] = table == EMBEDDING_WORDS       ? (uint32_t)batch->ids[t]
                            : table == EMBEDDING_POSITIONS ? first + (uint32_t)batch->positions[t]
                                                           : batch->types[t];
}

// The pad token's row gets no gradient (nn.Embedding's padding_idx).
void embeddings_backward(struct pass *pass, const float *weights, float *gradients) {
    struct rows rows = rows_tokens(pass);
    size_t c = pass->config->hidden;
    struct dropout site = dropout_site(pass, 0, SITE_EMBEDDINGS, pass->config->dropout_hidden);
    rows_dropout_all(pass, pass->act.dhidden, pass->act.dhidden, &rows, c, &site);
    struct norm_place norm = norm_at(pass, 0, EMBEDDING_NORM, &pass->act.norm0, &rows);
    norm_backward(pass, weights, gradients, &norm);
    keys_fill(pass, EMBEDDING_WORDS);
    table_backward(pass, gradients, EMBEDDING_WORDS, c, pass->config->pad_id);
    keys_fill(pass, EMBEDDING_POSITIONS);
    table_backward(pass, gradients, EMBEDDING_POSITIONS, c, -1);
    keys_fill(pass, EMBEDDING_TYPES);
    table_backward(pass, gradients, EMBEDDING_TYPES, TYPE_COLUMNS, -1);
}
