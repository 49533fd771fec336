// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/pieces.h"

#include "checkpoints/layout.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool piece_is_small(const struct param *param) {
    return param->layout == PARAM_VECTOR || param_elements(param) * sizeof(float) < PIECE_SMALL;
}

static uint64_t piece_rows(const struct param *param) {
    return piece_is_small(param) ? param->shape[0] : PIECE_ROWS;
}

uint64_t piece_bytes(const struct param *param) {
    uint64_t rows = piece_rows(param) < param->shape[0] ? piece_rows(param) : param->shape[0];
    return rows * param->shape[1] * sizeof(float);
}

static size_t pieces_count(const struct param_table *table) {
    size_t n = 0;
    for (size_t i = 0; i < table->n; i++)
        n += (size_t)((table->at[i].shape[0] - 1) / piece_rows(&table->at[i]) + 1);
    return n * LAYOUT_GROUPS;
}

static void pieces_add(struct pieces *pieces, const struct param *param, size_t d, uint64_t offset) {
    uint64_t row_bytes = param->shape[1] * sizeof(float);
    for (uint64_t row = 0; row < param->shape[0]; row += piece_rows(param)) {
        uint64_t left = param->shape[0] - row;
        uint64_t rows = left < piece_rows(param) ? left : piece_rows(param);
        pieces->at[pieces->n++] = (struct piece){.dataset = (uint32_t)d,
                                                 .rank = piece_is_small(param) ? 0 : -1,
                                                 .row = row,
                                                 .rows = rows,
                                                 .offset = offset + row * row_bytes,
                                                 .size = rows * row_bytes};
    }
}

// Gives the large pieces to the ranks in order, by where a piece begins in the sum of their bytes.
static void pieces_assign(struct pieces *pieces, int world) {
    uint64_t total = 0, at = 0;
    for (size_t i = 0; i < pieces->n; i++)
        total += pieces->at[i].rank < 0 ? pieces->at[i].size : 0;
    uint64_t share = total / (uint64_t)world + 1;
    for (size_t i = 0; i < pieces->n; i++) {
        struct piece *piece = &pieces->at[i];
        if (piece->rank >= 0)
            continue;
        piece->rank = (int)(at / share);
        at += piece->size;
    }
}

enum status pieces_plan(struct pieces *out, const struct param_table *table, const uint64_t *offsets, int world) {
    size_t n = pieces_count(table);
    *out = (struct pieces){.at = calloc(n + 1, sizeof *out->at)};
    if (!out->at)
        return status_set(STATUS_SYSTEM, "checkpoint: no memory for %zu pieces", n);
    for (size_t d = 0; d < LAYOUT_GROUPS * table->n; d++)
        pieces_add(out, &table->at[d % table->n], d, offsets[d]);
    pieces_assign(out, world);
    return STATUS_OK;
}

void pieces_release(struct pieces *pieces) {
    free(pieces->at);
    *pieces = (struct pieces){0};
}

// ---- a piece's values

static const float *piece_arena(const struct checkpoint_arenas *arenas, size_t group) {
    const float *of[LAYOUT_GROUPS] = {arenas->weights, arenas->exp_avg, arenas->exp_avg_sq};
    return of[group];
}

void piece_read(float *out, const struct piece *piece, const struct param_table *table,
                const struct checkpoint_arenas *arenas) {
    const struct param *param = &table->at[piece->dataset % table->n];
    param_read_rows(out, piece_arena(arenas, piece->dataset / table->n), param, piece->row, piece->rows);
}

#define FINITE_LANES 16 // at a time: what compilers make vectors of

static uint32_t value_is_bad(const float *value) {
    uint32_t bits;
    memcpy(&bits, value, sizeof bits);
    return (bits & 0x7f800000u) == 0x7f800000u;
}

bool piece_values_finite(const float *values, uint64_t n) {
    uint32_t lanes[FINITE_LANES] = {0}, bad = 0;
    uint64_t i = 0;
    for (; i + FINITE_LANES <= n; i += FINITE_LANES)
        for (unsigned lane = 0; lane < FINITE_LANES; lane++)
            lanes[lane] |= value_is_bad(&values[i + lane]);
    for (; i < n; i++)
        bad |= value_is_bad(&values[i]);
    for (unsigned lane = 0; lane < FINITE_LANES; lane++)
        bad |= lanes[lane];
    return !bad;
}

enum status piece_finite(const float *values, const struct piece *piece, const struct param_table *table) {
    if (piece_values_finite(values, piece->size / sizeof(float)))
        return STATUS_OK;
    return status_set(STATUS_DATA,
                      "checkpoint: %s/%s holds a value that is not finite (rows %" PRIu64 " to %" PRIu64 "): not saved",
                      layout_groups[piece->dataset / table->n], table->at[piece->dataset % table->n].name, piece->row,
                      piece->row + piece->rows - 1);
}

// ---- hashes: each rank sends as many as the busiest one has, in piece order

static size_t pieces_busiest(const struct pieces *pieces, size_t *counts) {
    size_t most = 0;
    for (size_t i = 0; i < pieces->n; i++) {
        size_t count = ++counts[pieces->at[i].rank];
        most = count > most ? count : most;
    }
    return most;
}

enum status pieces_gather(struct pieces *pieces, struct comm *comm) {
    size_t world = (size_t)comm->world;
    size_t *next = calloc(world, sizeof *next);
    size_t most = next ? pieces_busiest(pieces, next) : 0;
    uint64_t *mine = calloc(most + 1, sizeof *mine);
    uint64_t *all = calloc(most * world + 1, sizeof *all);
    enum status status = STATUS_OK;
    if (!next || !mine || !all)
        status = status_set(STATUS_SYSTEM, "checkpoint: no memory for %zu hashes", most * world);
    TRY_GOTO(comm_agree(comm, status), out);
    for (size_t i = 0, n = 0; i < pieces->n; i++)
        if (pieces->at[i].rank == comm->rank)
            mine[n++] = pieces->at[i].hash;
    TRY_GOTO(comm_all_gather(comm, mine, all, most * sizeof *mine), out);
    memset(next, 0, world * sizeof *next);
    for (size_t i = 0; i < pieces->n; i++) {
        size_t rank = (size_t)pieces->at[i].rank;
        pieces->at[i].hash = all[rank * most + next[rank]++];
    }
out:
    free(all);
    free(mine);
    free(next);
    return status;
}
