// SPDX-License-Identifier: Apache-2.0
#include "base/param.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define PARAM_ALIGN 16                       // floats: a cache line
#define PARAM_FLOATS_MAX ((uint64_t)1 << 56) // far above any memory, and no sum or product of it overflows
#define PARAM_BUCKETS_MAX 100000u

static uint64_t param_round_up(uint64_t value, uint64_t to) {
    return (value + to - 1) / to * to;
}

// Makes room for one more: capacities are powers of two, so it is full when the count is one.
static enum status param_grow(struct param_table *table) {
    if (table->n & (table->n - 1))
        return STATUS_OK;
    size_t room = table->n ? table->n * 2 : 1;
    struct param *at = realloc(table->at, room * sizeof *at);
    if (!at)
        return status_set(STATUS_SYSTEM, "parameters: no memory for %zu entries", room);
    table->at = at;
    return STATUS_OK;
}

static enum status param_check(const struct param_table *table, const char *name, enum param_layout layout,
                               uint64_t rows, uint64_t columns, unsigned bucket) {
    if (strlen(name) >= PARAM_NAME)
        return status_set(STATUS_DATA, "parameters: name %s is longer than %d bytes", name, PARAM_NAME - 1);
    if (rows == 0 || columns == 0 || rows > PARAM_FLOATS_MAX || columns > PARAM_FLOATS_MAX / rows)
        return status_set(STATUS_DATA, "parameters: %s: shape [%llu, %llu] is not possible", name,
                          (unsigned long long)rows, (unsigned long long)columns);
    if (layout == PARAM_VECTOR && columns != 1)
        return status_set(STATUS_ARGUMENT, "parameters: vector %s has %llu columns", name, (unsigned long long)columns);
    if (table->buckets || bucket > PARAM_BUCKETS_MAX || (table->n && bucket < table->at[table->n - 1].bucket))
        return status_set(STATUS_ARGUMENT, "parameters: %s in bucket %u is out of order", name, bucket);
    return STATUS_OK;
}

enum status param_add(struct param_table *table, const char *name, enum param_layout layout, uint64_t rows,
                      uint64_t columns, bool decay, unsigned bucket) {
    TRY(param_check(table, name, layout, rows, columns, bucket));
    uint64_t held = layout == PARAM_TILES ? param_round_up(rows, PARAM_TILE) : rows;
    if (held * columns > PARAM_FLOATS_MAX - PARAM_ALIGN - table->floats) // at most 32 * 2^56: no overflow
        return status_set(STATUS_DATA, "parameters: %s: the model is too large", name);
    TRY(param_grow(table));
    struct param *param = &table->at[table->n++];
    *param = (struct param){.rank = layout == PARAM_VECTOR ? 1 : 2,
                            .shape = {rows, columns},
                            .layout = layout,
                            .decay = decay,
                            .bucket = bucket,
                            .offset = table->floats,
                            .size = held * columns};
    memcpy(param->name, name, strlen(name) + 1);
    if (layout == PARAM_ROWS && bucket == 0 && table->embeddings + 1 == table->n) {
        param->row = table->rows;
        table->rows += rows;
        table->embeddings++;
    }
    param->sums = table->sums;
    table->sums += param_sums(param);
    param->pairs = table->pairs;
    table->pairs += layout == PARAM_TILES ? held / PARAM_TILE * param_pairs(param) : 0;
    table->floats += param_round_up(param->size, PARAM_ALIGN);
    table->count += rows * columns;
    return STATUS_OK;
}

static int param_by_name(const void *a, const void *b) {
    return strcmp((*(const struct param *const *)a)->name, (*(const struct param *const *)b)->name);
}

static enum status param_names(struct param_table *table) {
    free(table->names);
    table->names = calloc(table->n, sizeof *table->names);
    if (!table->names)
        return status_set(STATUS_SYSTEM, "parameters: no memory for %zu names", table->n);
    for (size_t i = 0; i < table->n; i++)
        table->names[i] = &table->at[i];
    qsort(table->names, table->n, sizeof *table->names, param_by_name);
    for (size_t i = 1; i < table->n; i++)
        if (strcmp(table->names[i - 1]->name, table->names[i]->name) == 0)
            return status_set(STATUS_ARGUMENT, "parameters: %s is there twice", table->names[i]->name);
    return STATUS_OK;
}

enum status param_finish(struct param_table *table) {
    if (table->buckets)
        return status_set(STATUS_ARGUMENT, "parameters: finished twice");
    if (table->n == 0)
        return STATUS_OK;
    TRY(param_names(table));
    size_t n = (size_t)table->at[table->n - 1].bucket + 1;
    table->buckets = calloc(n, sizeof *table->buckets);
    if (!table->buckets)
        return status_set(STATUS_SYSTEM, "parameters: no memory for %zu buckets", n);
    table->n_buckets = n;
    size_t next = 0;
    for (size_t b = 0; b < n; b++) {
        struct param_bucket *bucket = &table->buckets[b];
        bucket->first = next;
        bucket->offset = table->at[next].offset; // the last parameter is in the last bucket, so `next` is one of them
        while (next < table->n && table->at[next].bucket == b)
            next++;
        bucket->n = next - bucket->first;
        bucket->size = (next < table->n ? table->at[next].offset : table->floats) - bucket->offset;
    }
    return STATUS_OK;
}

void param_table_release(struct param_table *table) {
    free(table->at);
    free(table->buckets);
    free(table->names);
    *table = (struct param_table){0};
}

// Pieces of one 32-row block.
static uint64_t param_slices(const struct param *param) {
    return (param->shape[1] + PARAM_SLICE - 1) / PARAM_SLICE;
}

uint64_t param_sums(const struct param *param) {
    switch (param->layout) {
    case PARAM_TILES:
        return (param->shape[0] + PARAM_TILE - 1) / PARAM_TILE * param_slices(param);
    case PARAM_ROWS:
        return param->shape[0];
    case PARAM_VECTOR:
        break;
    }
    return 1;
}

struct param_piece param_sum(const struct param *param, uint64_t i) {
    assert(i < param_sums(param));
    if (param->layout != PARAM_TILES) {
        uint64_t n = param->size / param_sums(param);
        return (struct param_piece){param->offset + i * n, n};
    }
    uint64_t column = i % param_slices(param) * PARAM_SLICE, left = param->shape[1] - column;
    uint64_t start = i / param_slices(param) * param->shape[1] + column;
    return (struct param_piece){param->offset + start * PARAM_TILE,
                                (left < PARAM_SLICE ? left : PARAM_SLICE) * PARAM_TILE};
}

uint64_t param_elements(const struct param *param) {
    return param->shape[0] * param->shape[1];
}

const struct param *param_find(const struct param_table *table, const char *name) {
    size_t low = 0, high = table->buckets ? table->n : 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name, table->names[middle]->name);
        if (order == 0)
            return table->names[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

static void param_check_rows(const struct param *param, uint64_t row, uint64_t rows) {
    assert(row <= param->shape[0] && rows <= param->shape[0] - row);
    (void)param, (void)row, (void)rows;
}

#define PARAM_RUN 16 // floats of a row that are moved at a time: a cache line, so that 32 rows don't evict one another

// A tile block is [K][32]; `in` and `out` are rows of K floats.
static void param_read_tiles(float *out, const float *tiles, uint64_t k_count, uint64_t row, uint64_t rows) {
    for (uint64_t end = row + rows; row < end;) {
        uint64_t first = row % PARAM_TILE;
        uint64_t last = end - row < PARAM_TILE - first ? first + end - row : PARAM_TILE;
        const float *block = tiles + row / PARAM_TILE * k_count * PARAM_TILE;
        for (uint64_t k = 0; k < k_count; k += PARAM_RUN) {
            uint64_t n = k_count - k < PARAM_RUN ? k_count - k : PARAM_RUN;
            for (uint64_t r = first; r < last; r++)
                for (uint64_t i = 0; i < n; i++)
                    out[(r - first) * k_count + k + i] = block[(k + i) * PARAM_TILE + r];
        }
        out += (last - first) * k_count;
        row += last - first;
    }
}

typedef float quad __attribute__((vector_size(16)));

static inline quad param_load(const float *at) {
    quad four;
    memcpy(&four, at, sizeof four);
    return four;
}

// Four rows' floats [k, k + 4) to where they belong in the block: a 4x4 transpose.
static inline void param_write_four(float *block, const float *in, uint64_t k_count) {
    const quad a = param_load(in), b = param_load(in + k_count), c = param_load(in + 2 * k_count),
               d = param_load(in + 3 * k_count);
    const quad ab0 = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab1 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const quad cd0 = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd1 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    const quad out[4] = {__builtin_shufflevector(ab0, cd0, 0, 1, 4, 5), __builtin_shufflevector(ab0, cd0, 2, 3, 6, 7),
                         __builtin_shufflevector(ab1, cd1, 0, 1, 4, 5), __builtin_shufflevector(ab1, cd1, 2, 3, 6, 7)};
    for (int i = 0; i < 4; i++)
        memcpy(block + i * PARAM_TILE, &out[i], sizeof out[i]);
}

// A whole block, a cache line of every row at a time.
static void param_write_whole(float *block, const float *in, uint64_t k_count) {
    for (uint64_t first = 0; first < k_count; first += PARAM_RUN)
        for (uint64_t r = 0; r < PARAM_TILE; r += 4)
            for (uint64_t k = first; k < first + PARAM_RUN; k += 4)
                param_write_four(block + k * PARAM_TILE + r, in + r * k_count + k, k_count);
}

static void param_write_block(float *block, const float *in, uint64_t k_count, uint64_t rows, bool pad) {
    if (rows == PARAM_TILE && k_count % PARAM_RUN == 0) {
        param_write_whole(block, in, k_count);
        return;
    }
    for (uint64_t k = 0; k < k_count; k++) {
        for (uint64_t r = 0; r < rows; r++)
            block[k * PARAM_TILE + r] = in[r * k_count + k];
        for (uint64_t r = rows; pad && r < PARAM_TILE; r++)
            block[k * PARAM_TILE + r] = 0.0f;
    }
}

void param_read_rows(float *out, const float *arena, const struct param *param, uint64_t row, uint64_t rows) {
    param_check_rows(param, row, rows);
    const float *at = arena + param->offset;
    uint64_t columns = param->shape[1];
    if (param->layout == PARAM_TILES)
        param_read_tiles(out, at, columns, row, rows);
    else if (rows > 0)
        memcpy(out, at + row * columns, rows * columns * sizeof *out);
}

void param_write_rows(float *arena, const struct param *param, const float *in, uint64_t row, uint64_t rows) {
    param_check_rows(param, row, rows);
    float *at = arena + param->offset;
    uint64_t columns = param->shape[1];
    if (param->layout != PARAM_TILES) {
        if (rows > 0)
            memcpy(at + row * columns, in, rows * columns * sizeof *in);
        return;
    }
    assert(row % PARAM_TILE == 0);
    uint64_t end = row + rows;
    for (; row < end; row += PARAM_TILE, in += PARAM_TILE * columns) {
        uint64_t here = end - row < PARAM_TILE ? end - row : PARAM_TILE;
        // Only the tensor's end has padding: a piece that stops inside a block leaves that block's other rows alone.
        param_write_block(at + row * columns, in, columns, here, row + here == param->shape[0]);
        if (here < PARAM_TILE)
            return;
    }
}

bool floats_are_zero(const float *x, uint64_t n) {
    uint32_t any = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        any |= bits;
    }
    return !any;
}
