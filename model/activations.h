// SPDX-License-Identifier: Apache-2.0
// The activation plan: every buffer of a pass in one flat arena. T = max_tokens, B = max_examples, H = hidden, F = ffn,
// C = labels, L = layers. Nothing is cleared: rows are written before they are read, and memory that no batch needs is
// never touched.
#ifndef FINETUNED_MODEL_ACTIVATIONS_H
#define FINETUNED_MODEL_ACTIVATIONS_H

#include "base/arena.h"
#include "model/config.h"
#include "model/pass.h"

// What a LayerNorm keeps: its input and statistics; rows as its layer's.
struct norm_activations {
    float *x;       // (rows, H)
    float *mean;    // (rows)
    float *rstd;    // (rows)
    uint16_t *kept; // (rows, dropout_stride(H)) bits of the dropout before it (training)
};

// rows: T, or B in the last layer with PASS_FIRST.
struct layer_activations {
    float *heads;   // (T, 3H) queries, keys, values side by side, so that one product makes them; B rows of queries
    float *context; // (rows, H) what attention gives
    struct norm_activations norm1;
    float *middle; // (rows, H) after the first LayerNorm
    float *slope;  // (rows, F), ffn_stride apart: GELU's derivative (training); before GELU its input
    float *gelu;   // (rows, F), ffn_stride apart
    struct norm_activations norm2;
    // Training in bf16 (else NULL): the inputs of linear layers as pairs (rows, half the columns; model/gemm/pairs.h),
    // which is all that backward wants of them; context, middle and gelu are then the same memory in all layers.
    float *context16, *middle16, *gelu16;
};

struct activations {
    size_t ffn_stride;                // floats between rows of slope, gelu and dffn
    float **hidden;                   // [L+1] (T, H); with PASS_FIRST the last one is (B, H)
    float **hidden16;                 // [L+1] the same as pairs, but the last one; training in bf16 (else NULL each),
                                      // where hidden[l] is the same memory as hidden[l - 2]
    struct norm_activations norm0;    // the embeddings'
    struct layer_activations *layers; // [L+1], 1..L used; without training all are one and the same
    float *first;                     // (B, H) with PASS_FIRST: the first rows of hidden[L-1]

    // The head. Question answering has logits (T, 2) alone.
    float *pooled;  // (B, H) dense's input: first rows of hidden[L], RoBERTa's dropout done
    float *tanh;    // (B, H)
    float *dropped; // (B, H) tanh with dropout: the last linear layer's input
    float *logits;  // (B, C)

    // Backward only (training).
    float *dlogits;   // as logits
    float *dpooled;   // (B, H)
    float *dhidden;   // (T, H) gradient of hidden[l], then of hidden[l-1]
    float *drows;     // (T, H) a gradient with dropout's mask; dhidden and it change places with PASS_FIRST
    float *dspare;    // (T, H) what is no longer dhidden: they change places at a LayerNorm; attention's gradient
    float *dheads;    // (T, 3H) of queries, keys, values
    float *dffn;      // (T, F), ffn_stride apart
    uint32_t *order;  // (T) tokens sorted by the embedding row they read
    uint32_t *keys;   // (T) those rows
    uint32_t *spare;  // (T) of the sort
    uint32_t *starts; // (T+1) where each distinct row's tokens begin in `order`

    double *losses; // (B)
    float *scratch; // threads * scratch_floats
    size_t scratch_floats;
    struct arena arena;
};

enum status activations_open(struct activations *out, const struct model_config *config,
                             const struct pass_options *options, unsigned threads);
void activations_close(struct activations *activations);

#endif
