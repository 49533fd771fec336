// SPDX-License-Identifier: Apache-2.0
// The parameter table: everything that walks over a model's parameters walks this (forward, optimizer, checkpoint,
// import, exporters). What is in it is filled by model/; comm, optim and checkpoints know only this type.
//
// Layouts of a parameter in a flat arena of floats (weights, gradients and both moments alike):
//   PARAM_TILES   a GEMM weight [N][K] (Hugging Face: [out, in]) as [ceil(N/32)][K][32]: element (n, k) is at
//                 ((n/32)*K + k)*32 + n%32. The last block's missing rows are zeros and stay zeros.
//   PARAM_ROWS    an embedding [N][K], row by row, as in Hugging Face's layout.
//   PARAM_VECTOR  a bias or LayerNorm weight [N].
// Buckets: 0 = embeddings, 1..layers = the encoder's layers, layers+1 = the head. A bucket's parameters are neighbours.
#ifndef FINETUNED_BASE_PARAM_H
#define FINETUNED_BASE_PARAM_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum param_layout { PARAM_VECTOR, PARAM_ROWS, PARAM_TILES };

#define PARAM_TILE 32  // rows in a block of PARAM_TILES
#define PARAM_SLICE 32 // columns of such a block that are summed as one: 4 KiB, still in the first cache when written
#define PARAM_NAME 112

struct param {
    char name[PARAM_NAME]; // Hugging Face's
    unsigned rank;         // 1 or 2
    uint64_t shape[2];     // as in Hugging Face's file; shape[1] is 1 for vectors
    enum param_layout layout;
    bool decay;      // weight decay applies
    unsigned bucket; //
    uint64_t offset; // floats from the start of the arena; a multiple of 16
    uint64_t size;   // floats in the arena, padding of the last block included
    uint64_t sums;   // number of its first piece (param_sum) in the table
    uint64_t row;    // of the table's embeddings: number of its first row (base/row_set.h)
    uint64_t pairs;  // PARAM_TILES: pairs from the start of the table's bf16 copy
};

struct param_bucket {
    uint64_t offset; // floats
    uint64_t size;   // floats, gaps for alignment included (they hold zeros)
    size_t first;    // index of its first parameter
    size_t n;        // number of parameters
};

struct param_table {
    struct param *at;
    size_t n;
    struct param_bucket *buckets;
    size_t n_buckets;
    const struct param **names; // [n] in the order of their names, once it is finished
    size_t frozen;     // buckets 0 .. frozen-1 stay as they are: no gradient, no update, in no norm; 0: all are trained
    uint64_t floats;   // size of an arena
    uint64_t count;    // parameters in the usual sense: without padding
    uint64_t sums;     // pieces of all parameters
    size_t embeddings; // so many of the first parameters are PARAM_ROWS of bucket 0
    uint64_t rows;     // of these
    uint64_t pairs;    // size of a bf16 copy (param_pairs)
};

// Builds a table: add in bucket order, then finish. A name that is there twice is refused by the latter.
enum status param_add(struct param_table *table, const char *name, enum param_layout layout, uint64_t rows,
                      uint64_t columns, bool decay, unsigned bucket);
enum status param_finish(struct param_table *table);
void param_table_release(struct param_table *table);

// Elements of the tensor itself, without padding.
uint64_t param_elements(const struct param *param);
// Of a finished table. NULL if there is none of that name.
const struct param *param_find(const struct param_table *table, const char *name);

// A sum over all elements (the gradient's norm) is one over pieces, added in the table's order; so who has just written
// a piece may sum it. Pieces are PARAM_SLICE columns of a 32-row block of PARAM_TILES (a block's last piece may have
// fewer), block after block; a row of PARAM_ROWS; a PARAM_VECTOR.
struct param_piece {
    uint64_t offset, n; // floats, from the arena's start
};
uint64_t param_sums(const struct param *param); // number of its pieces
struct param_piece param_sum(const struct param *param, uint64_t i);

// A bf16 copy holds the PARAM_TILES alone, one after another, each as [ceil(N/32)][ceil(K/2)][32] pairs of neighbours
// along K (model/gemm/pairs.h). Pairs in a block of 32 rows of it:
static inline uint64_t param_pairs(const struct param *param) {
    return (param->shape[1] / 2 + param->shape[1] % 2) * PARAM_TILE;
}

// A piece of a tensor: rows [row, row + rows) of Hugging Face's layout. Vectors count as one column.
// Pieces for files: 32 rows for tiles (the last may have fewer); see checkpoints.
// Arena -> rows: `out` gets rows*shape[1] floats. `arena` is the whole arena's start.
void param_read_rows(float *out, const float *arena, const struct param *param, uint64_t row, uint64_t rows);
// Rows -> arena; for tiles `row` must be a multiple of 32. Padding is set to zero.
void param_write_rows(float *arena, const struct param *param, const float *in, uint64_t row, uint64_t rows);

// Whether all bits are 0: not -0.
bool floats_are_zero(const float *x, uint64_t n);

#endif
