// SPDX-License-Identifier: Apache-2.0
// How the datasets are cut among the ranks: 32 rows a piece; vectors and tensors under 128 KiB whole, by rank 0.
#ifndef FINETUNED_CHECKPOINTS_PIECES_H
#define FINETUNED_CHECKPOINTS_PIECES_H

#include "base/param.h"
#include "checkpoints/checkpoint.h"

#define PIECE_ROWS PARAM_TILE
#define PIECE_SMALL ((uint64_t)128 << 10) // bytes; a tensor below is one piece

struct piece {
    uint32_t dataset; // group * table->n + parameter
    int rank;         // who writes it
    uint64_t row, rows;
    uint64_t offset, size; // bytes in the file
    uint64_t hash;         // XXH3-64, known to its rank when written, to all after pieces_gather
};

struct pieces {
    struct piece *at; // in dataset order
    size_t n;
};

// Bytes of one piece of the parameter (the last may be smaller).
uint64_t piece_bytes(const struct param *param);

// The same on every rank. Rank r's large pieces are neighbours, of about an equal share of bytes.
enum status pieces_plan(struct pieces *out, const struct param_table *table, const uint64_t *offsets, int world);
void pieces_release(struct pieces *pieces);

// The piece as the file holds it: piece->size bytes into `out`.
void piece_read(float *out, const struct piece *piece, const struct param_table *table,
                const struct checkpoint_arenas *arenas);
bool piece_values_finite(const float *values, uint64_t n);
// STATUS_DATA if one of its values, as piece_read gives them, is not finite.
enum status piece_finite(const float *values, const struct piece *piece, const struct param_table *table);

// Collective: every rank learns every hash.
enum status pieces_gather(struct pieces *pieces, struct comm *comm);

#endif
