// SPDX-License-Identifier: Apache-2.0
// The op table: one entry an op, compiled once for each instruction set (model/ops/*.c are the definitions). Ops are
// serial functions over rows; who calls them cuts the rows into tasks. Every output row depends on its own input row
// (or segment) only, and every sum runs in one fixed order that does not depend on the vector width, so the same text
// gives the same bits whatever shares its batch.
#ifndef FINETUNED_MODEL_OPS_H
#define FINETUNED_MODEL_OPS_H

#include "base/isa.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Dropout: element c of row r of an example is kept if its 16-bit lane of Philox(counter = {c/8, row, site, example},
// key) is >= threshold; a kept value is multiplied by 65536/(65536-threshold). Word w of a block holds lanes 2w (low
// half) and 2w+1 (high half); c%8 is the lane.
struct dropout {
    uint64_t key;       // rng_mix(seed, cursor)
    uint32_t site;      // which dropout of the model: (layer * 4 + kind), see model/forward.c
    uint32_t threshold; // round(p * 65536); 0 = off
};

static inline float dropout_factor(const struct dropout *d) {
    return 65536.0f / (float)(65536 - d->threshold);
}

// 16-bit words a row of C columns of mask bits: whole 64-bit ones.
static inline size_t dropout_stride(size_t c) {
    return (c + 63) / 64 * 4;
}

// One attention segment: one example, one head. Rows of q, k, v, … lie `stride` floats apart.
struct attention {
    const float *q, *k, *v; // (rows_q, D), (length, D), (length, D)
    size_t stride;          // floats between their rows (and those of dq, dk, dv)
    size_t stride_out;      // of out, dout
    uint32_t rows_q;        // length, or 1 (the first row only)
    uint32_t length;
    bool more;          // the next head, D columns further, is asked for next: a hint
    uint32_t head;      // for dropout: row = head * 65536 + query row
    uint32_t example;   // for dropout
    uint32_t head_size; // D
    float scale;        // 1/sqrt(D)
    struct dropout dropout;
};

// Rows of a LayerNorm with what stands before it: a residual sum and dropout, whose mask M is bits (dropout_bits).
struct layernorm {
    size_t rows, c;
    float eps, factor;         // factor: of what M keeps
    const float *gamma, *beta; // (C)
    float *x;                  // (rows, C) what is normalised
    float *mean, *rstd;        // (rows)
    const uint16_t *kept;      // (rows, dropout_stride(C)), NULL: no dropout
};

// What a label asks of n probabilities, as torch.nn.CrossEntropyLoss's weight and label_smoothing:
//   q_i = w_i ((1 - smoothing) [i = label] + smoothing / n)
struct targets {
    double smoothing;
    const double *weights; // (n), NULL: all 1
};

// A block (K, 32) of tiles to be needed next, which gemm_tile asks into cache while it computes: GEMM_STRETCH rows from
// `block` on, the next GEMM_STRETCH `jump` floats behind these, and so on. A call asks for share `part` of `parts`.
struct gemm_ahead {
    const float *block;
    size_t jump;
    size_t part, parts;
};
#define GEMM_STRETCH 32 // rows of a block

struct ops {
    enum isa isa;
    // The FLOPs that `rounds` of a register-only loop of fused multiply-adds did: timed, this thread's peak.
    double (*fma_peak)(uint64_t rounds);
    // out(C) = word + position + type rows: one token.
    void (*embed_row)(float *out, const float *word, const float *position, const float *type, size_t c);
    // norm->x = residual + M * norm->x (residual NULL: M * norm->x); y = (x - mean)/sqrt(var + eps) * gamma + beta; the
    // statistics are kept: mean, rstd. y may be norm->x.
    void (*layernorm_forward)(float *y, const struct layernorm *norm, const float *residual);
    // dx from dy, both (rows, C), with x, mean, rstd of the forward pass; masked = M * dx, written if there are bits
    // and it is not NULL. dx may be dy.
    void (*layernorm_backward)(float *dx, float *masked, const float *dy, const struct layernorm *norm);
    // Column range [c0, c1) of dgamma and dbeta, each summed over `parts` runs of rows (part p: rows
    // offsets[p]..offsets[p+1], in order) in the fixed binary tree over parts; written, not added. parts is a power of
    // two <= 4096. dy: (rows, C).
    void (*layernorm_parameters)(float *dgamma, float *dbeta, const float *dy, const struct layernorm *norm,
                                 const uint32_t *offsets, uint32_t parts, size_t c0, size_t c1);
    // Bias gradient: columns [c0, c1) of dbias = sum of dy over rows, part after part in the tree; written.
    void (*column_sums)(float *dbias, const float *dy, const uint32_t *offsets, uint32_t parts, size_t c, size_t c0,
                        size_t c1);
    // M's bits: of rows of C of one example, first_row = the row's number within it; dropout_stride(C) words a row, bit
    // i of word w: column 16w + i is kept. d->threshold > 0.
    void (*dropout_bits)(uint16_t *kept, size_t rows, size_t c, uint32_t first_row, uint32_t example,
                         const struct dropout *d);
    // y = M * x (rows of C of one example, first_row = the row's number within it); y may be x.
    void (*dropout)(float *y, const float *x, size_t rows, size_t c, uint32_t first_row, uint32_t example,
                    const struct dropout *d);
    // y += x
    void (*add)(float *y, const float *x, size_t n);
    // The sum of squares in double: 16 running sums (element i into i % 16), then a fixed tree over them.
    double (*squares)(const float *x, size_t n);
    // y = x/2 (1 + erf(x/sqrt 2)), slope = its derivative (NULL: not wanted); (rows, columns), rows ld apart. Both may
    // be x.
    void (*gelu_forward)(float *y, float *slope, const float *x, size_t rows, size_t columns, size_t ld);
    // dx = dy * slope; dx may be dy.
    void (*gelu_backward)(float *dx, const float *dy, const float *slope, size_t rows, size_t columns, size_t ld);
    void (*tanh_forward)(float *y, const float *x, size_t n);
    void (*tanh_backward)(float *dx, const float *dy, const float *y, size_t n); // y: the forward result
    // out (rows_q, D) = dropout(softmax(scale * q kT)) v. scratch: attention_scratch(length, D) floats.
    void (*attention_forward)(float *out, const struct attention *a, float *scratch);
    // dq (rows_q, D), dk, dv (length, D) written (not added) from dout (rows_q, D); probabilities are computed again.
    void (*attention_backward)(float *dq, float *dk, float *dv, const float *dout, const struct attention *a,
                               float *scratch);
    // Cross entropy of rows of n logits: losses(rows) (double), dlogits(rows, n) = scale * (softmax - onehot); dlogits
    // may be NULL. With `targets` (NULL: none) onehot is q, and the softmax is multiplied by the sum of
    // q; a loss is then sum of q_i (log sum e^x - x_i).
    void (*cross_entropy)(double *losses, float *dlogits, const float *logits, const int32_t *labels, size_t rows,
                          size_t n, float scale, const struct targets *targets);
    // Question answering, one example; logits (length, 2), a row a token: start, end. Returns the mean of the two
    // columns' cross entropies over the example's own tokens, against tokens `start` and `end`; dlogits (length, 2) =
    // scale/2 * (softmax of the column - onehot), may be NULL.
    double (*span_loss)(float *dlogits, const float *logits, int32_t start, int32_t end, size_t length, float scale);
    void (*softmax)(float *y, const float *x, size_t rows, size_t n);
    // n normally distributed numbers of mean 0 and the given standard deviation: a function of (key, i).
    void (*normals)(float *y, size_t n, uint64_t key, float deviation);
    // The micro-kernels behind model/gemm.h. Tiles: one block (K, 32) of [ceil(N/32)][K][32].
    // y(rows, 32) [ldy] = (accumulate ? y : bias or 0) … see model/gemm.h for order; columns < 32 store only `columns`.
    // ahead: NULL for nothing.
    void (*gemm_tile)(float *y, size_t ldy, const float *x, size_t ldx, const float *block, const float *bias,
                      size_t rows, size_t k, size_t columns, bool accumulate, const struct gemm_ahead *ahead);
    // Rows [k0, k1) of one block of the weight gradient: dblock[k][32] = tree over parts of the sums over rows t of
    // x[t][k] * dy[t][0..columns). ahead: another 32 columns of as many rows, `ld_ahead` apart, to be asked into cache;
    // NULL for none.
    void (*gemm_weight_tile)(float *dblock, const float *dy, size_t ldy, const float *x, size_t ldx,
                             const uint32_t *offsets, uint32_t parts, size_t k0, size_t k1, size_t columns,
                             const float *ahead, size_t ld_ahead);
    // panel [N rounded up to 4][32] = columns [k0, k0+32) of W (N,K), from tiles; columns behind K are 0.
    void (*gemm_transpose)(float *panel, const float *tiles, size_t n, size_t k, size_t k0);

    // bf16: operands are pairs (model/gemm/pairs.h). The FLOPs of `rounds` of a register-only loop of their products:
    double (*bf16_peak)(uint64_t rounds);
    // The three kernels above. k of gemm_tile, rows t and offsets of gemm_weight_tile, n of gemm_transpose (the tiles
    // are [ceil(n/16)][ceil(k/2)][32], the panel [n rounded up to 4][32]) count pairs.
    void (*gemm_tile_pairs)(float *y, size_t ldy, const float *x, size_t ldx, const float *block, const float *bias,
                            size_t rows, size_t k, size_t columns, bool accumulate, const struct gemm_ahead *ahead);
    void (*gemm_weight_tile_pairs)(float *dblock, const float *dy, size_t ldy, const float *x, size_t ldx,
                                   const uint32_t *offsets, uint32_t parts, size_t k0, size_t k1, size_t columns,
                                   const float *ahead, size_t ld_ahead);
    void (*gemm_transpose_pairs)(float *panel, const float *tiles, size_t n, size_t k, size_t k0);
    // to(ceil(n/2)) = neighbours of a row of n.
    void (*pairs_row)(float *to, const float *from, size_t n);
    // to(n) = elements of two rows; odd NULL: zeros.
    void (*pairs_rows)(float *to, const float *even, const float *odd, size_t n);
    // The same of rows that are in bf16 already: ceil(n/2) pairs each, as pairs_row writes them.
    void (*pairs_rows_kept)(float *to, const float *even, const float *odd, size_t n);
    // to(ceil(k/2), 32) = neighbours along k of a block (k, 32) of float tiles.
    void (*pairs_tile)(float *to, const float *from, size_t k);
};

// Floats of scratch that one attention call of that shape needs.
size_t attention_scratch(size_t length, size_t head_size);

// The table of an instruction set; NULL if this build or processor lacks it.
const struct ops *ops_table(enum isa isa);

#endif
