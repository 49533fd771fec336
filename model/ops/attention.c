// SPDX-License-Identifier: Apache-2.0
// Attention of one head over one segment, in L1 for a text of usual length: q, k, v are copied out of their packed rows
// (which lie kilobytes apart), what is multiplied by its rows is transposed, and then ATTENTION_ROWS queries at a time
// go through all of it, so scores of a long text stay in cache too and the cost has no cliff. A row's sums are chains
// over columns, or keys, or queries in their order: they don't depend on how many rows are asked for or cut together.
//   S = scale q kᵀ    P = softmax(S)    out = (M*P) v                            M: dropout's mask with its factor
//   dv = (M*P)ᵀ dout  dP = M * (dout vᵀ)  dS = scale P (dP - rowsum(P dP))  dq = dS k  dk = dSᵀ q
#include "model/ops/attention.h"
#include "model/ops/declare.h"
#include "model/ops/philox.h"
#include "model/ops/product.h"
#include "model/ops/softmax.h"

#define AHEAD 3 // of __builtin_prefetch: into the first cache

struct pieces {
    const struct attention *a;
    struct attention_sizes sizes;
    struct philox philox;
    float factor;    // of what dropout keeps
    float *keys;     // k transposed, in panels
    float *values;   // v transposed, in panels (backward)
    float *rows;     // (length, wide): v, or in backward k
    float *queries;  // (ATTENTION_ROWS, wide) of q (backward)
    float *dout;     // (ATTENTION_ROWS, wide) (backward)
    float *scores;   // (ATTENTION_ROWS, stride): S, P, M*P
    float *gradient; // (ATTENTION_ROWS, stride): dP, dS (backward)
    uint16_t *kept;  // (ATTENTION_ROWS, kept) M's bits
};

static void pieces_cut(struct pieces *p, float *scratch, const struct attention *a) {
    const struct attention_sizes s = attention_sizes(a->length, a->head_size);
    p->a = a;
    p->sizes = s;
    if (a->dropout.threshold != 0)
        philox_init(&p->philox, &a->dropout, a->example);
    p->factor = dropout_factor(&a->dropout);
    p->keys = scratch;
    p->values = p->keys + s.panels;
    p->rows = p->values + s.panels;
    p->queries = p->rows + s.rows;
    p->dout = p->queries + ATTENTION_ROWS * s.wide;
    p->scores = p->dout + ATTENTION_ROWS * s.wide;
    p->gradient = p->scores + ATTENTION_ROWS * s.stride;
    p->kept = (uint16_t *)(p->gradient + ATTENTION_ROWS * s.stride);
}

// n rows of D floats, packed; `all` - n rows of zeros behind them.
static void rows_pack(float *to, const float *from, size_t stride, size_t n, size_t all, size_t d) {
    const size_t whole = d / LANES * LANES;
    for (size_t r = 0; r < n; r++, from += stride) {
        for (size_t i = 0; i < whole; i += LANES, to += LANES)
            lanes_store(to, lanes_load(from + i));
        if (whole < d) {
            lanes_store(to, lanes_load_part(from + whole, d - whole, 0));
            to += LANES;
        }
    }
    memset(to, 0, (all - n) * attention_round(d, LANES) * sizeof(float));
}

// panel [wide][32] = 32 rows (32, wide) transposed. In registers four columns of sixteen (eight) rows at a time, as one
// four by four transposition in every quarter.
#if defined(__AVX2__)

#if defined(__AVX512F__)
#define ROWS 16
#define VECTOR __m512
#define UNPACK(half, type, a, b) _mm512_unpack##half##_##type(a, b)
#define CAST_PS(a) _mm512_castpd_ps(a)
#define CAST_PD(a) _mm512_castps_pd(a)
#define STORE(p, a) _mm512_storeu_ps(p, a)
// Four columns of rows 0, 4, 8, 12 from p.
LANES_INLINE VECTOR rows_quarters(const float *p, size_t wide) {
    VECTOR a = _mm512_castps128_ps512(_mm_loadu_ps(p));
    a = _mm512_insertf32x4(a, _mm_loadu_ps(p + 4 * wide), 1);
    a = _mm512_insertf32x4(a, _mm_loadu_ps(p + 8 * wide), 2);
    return _mm512_insertf32x4(a, _mm_loadu_ps(p + 12 * wide), 3);
}
#else
#define ROWS 8
#define VECTOR __m256
#define UNPACK(half, type, a, b) _mm256_unpack##half##_##type(a, b)
#define CAST_PS(a) _mm256_castpd_ps(a)
#define CAST_PD(a) _mm256_castps_pd(a)
#define STORE(p, a) _mm256_storeu_ps(p, a)
LANES_INLINE VECTOR rows_quarters(const float *p, size_t wide) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), _mm_loadu_ps(p + 4 * wide), 1);
}
#endif

static void panel_transpose(float *panel, const float *rows, size_t wide) {
    for (size_t j = 0; j < ATTENTION_PANEL; j += ROWS)
        for (size_t i = 0; i < wide; i += 4) {
            const float *p = rows + j * wide + i;
            const VECTOR a0 = rows_quarters(p, wide), a1 = rows_quarters(p + wide, wide);
            const VECTOR a2 = rows_quarters(p + 2 * wide, wide), a3 = rows_quarters(p + 3 * wide, wide);
            const VECTOR b0 = UNPACK(lo, ps, a0, a1), b1 = UNPACK(lo, ps, a2, a3);
            const VECTOR b2 = UNPACK(hi, ps, a0, a1), b3 = UNPACK(hi, ps, a2, a3);
            float *to = panel + i * ATTENTION_PANEL + j;
            STORE(to, CAST_PS(UNPACK(lo, pd, CAST_PD(b0), CAST_PD(b1))));
            STORE(to + ATTENTION_PANEL, CAST_PS(UNPACK(hi, pd, CAST_PD(b0), CAST_PD(b1))));
            STORE(to + 2 * ATTENTION_PANEL, CAST_PS(UNPACK(lo, pd, CAST_PD(b2), CAST_PD(b3))));
            STORE(to + 3 * ATTENTION_PANEL, CAST_PS(UNPACK(hi, pd, CAST_PD(b2), CAST_PD(b3))));
        }
}

#else

static void panel_transpose(float *panel, const float *rows, size_t wide) {
    for (size_t i = 0; i < wide; i++)
        for (size_t j = 0; j < ATTENTION_PANEL; j++)
            panel[i * ATTENTION_PANEL + j] = rows[j * wide + i];
}

#endif

// k or v into p->rows.
static void keys_pack(const struct pieces *p, const float *from) {
    const struct attention *a = p->a;
    rows_pack(p->rows, from, a->stride, a->length, attention_round(a->length, ATTENTION_PANEL), a->head_size);
}

static void keys_transpose(const struct pieces *p, float *panels) {
    const size_t step = ATTENTION_PANEL * p->sizes.wide;
    for (size_t at = 0; at < p->sizes.panels; at += step)
        panel_transpose(panels + at, p->rows + at, p->sizes.wide);
}

// y (n, across) = x (n, D) times transposed rows.
static void scores_product(const struct pieces *p, float *y, const float *x, size_t ldx, const float *panels,
                           size_t n) {
    const struct attention_sizes *s = &p->sizes;
    ISA_NAME(product)
    (&(struct product){y, s->stride, x, ldx, panels, ATTENTION_PANEL, ATTENTION_PANEL * s->wide, n, s->across,
                       p->a->head_size});
}

// y (n, D) = x (n, length) times p->rows.
static void rows_product(const struct pieces *p, float *y, size_t ldy, const float *x, size_t n) {
    const struct attention_sizes *s = &p->sizes;
    ISA_NAME(product)
    (&(struct product){y, ldy, x, s->stride, p->rows, s->wide, ATTENTION_PANEL, n, p->a->head_size, p->a->length});
}

// y (length, D) = or += the transpose of x (n, length) times rows (n, wide).
static void keys_product(const struct pieces *p, float *y, const float *x, const float *rows, size_t n, bool more) {
    const struct attention_sizes *s = &p->sizes;
    ISA_NAME(product_transposed)
    (&(struct product){y, p->a->stride, x, s->stride, rows, s->wide, ATTENTION_PANEL, p->a->length, p->a->head_size, n},
     more);
}

// Asks for row r of the next head, which lies beside this one's: rows are kilobytes apart, and no processor guesses
// that.
static void row_ahead(const struct pieces *p, const float *dout, size_t r) {
    const struct attention *a = p->a;
    if (!a->more)
        return;
    for (size_t i = a->head_size; i < 2 * a->head_size; i += LANES) {
        __builtin_prefetch(a->q + r * a->stride + i, 0, AHEAD);
        __builtin_prefetch(a->k + r * a->stride + i, 0, AHEAD);
        __builtin_prefetch(a->v + r * a->stride + i, 0, AHEAD);
        if (dout)
            __builtin_prefetch(dout + r * a->stride_out + i, 0, AHEAD);
    }
}

static void block_mask(const struct pieces *p, size_t first, size_t n) {
    const struct attention_sizes *s = &p->sizes;
    const uint32_t row = p->a->head * 65536 + (uint32_t)first;
    const bool two = s->kept == ATTENTION_PANEL / 16;
    uint16_t *kept = p->kept;
    for (size_t r = 0; r < n; r += two ? 2 : 1)
        for (size_t i = 0; i < s->across; i += 64, kept += 4) {
            const uint64_t bits = philox_kept(&p->philox, row + (uint32_t)r, (uint32_t)(i / 8), two);
            for (size_t l = 0; l < 4; l++)
                kept[l] = (uint16_t)(bits >> 16 * l);
        }
}

static void block_forward(const struct pieces *p, size_t first, size_t n, const bool dropped) {
    const struct attention_sizes *s = &p->sizes;
    for (size_t r = 0; r < n; r++) {
        row_ahead(p, NULL, first + r);
        float *row = p->scores + r * s->stride;
        const struct lanes inverse = lanes_all(softmax_row(row, row, p->a->length, p->a->scale, true));
        for (size_t j = 0; j < s->across; j += LANES) {
            struct lanes v = lanes_mul(lanes_load(row + j), inverse);
            if (dropped)
                v = lanes_mul(v, lanes_pick(p->kept[r * s->kept + j / LANES], p->factor));
            lanes_store(row + j, v);
        }
    }
}

// Queries [first, return value) of a block; blocks are of nearly equal size.
static size_t block_end(const struct attention *a, size_t block, size_t blocks) {
    return a->rows_q * (block + 1) / blocks;
}

static size_t blocks_of(const struct attention *a) {
    return (a->rows_q + ATTENTION_ROWS - 1) / ATTENTION_ROWS;
}

void ISA_NAME(attention_forward)(float *out, const struct attention *a, float *scratch) {
    struct pieces p;
    pieces_cut(&p, scratch, a);
    const size_t blocks = blocks_of(a);
    keys_pack(&p, a->k);
    keys_transpose(&p, p.keys);
    keys_pack(&p, a->v);
    for (size_t block = 0, first = 0; block < blocks; block++) {
        const size_t end = block_end(a, block, blocks), n = end - first;
        scores_product(&p, p.scores, a->q + first * a->stride, a->stride, p.keys, n);
        if (a->dropout.threshold != 0) {
            block_mask(&p, first, n);
            block_forward(&p, first, n, true);
        } else {
            block_forward(&p, first, n, false);
        }
        rows_product(&p, out + first * a->stride_out, a->stride_out, p.scores, n);
        first = end;
    }
}

// scores: S -> M*P, gradient: dout vᵀ -> dS.
LANES_INLINE void row_backward(const struct pieces *p, float *row, float *gradient, const uint16_t *kept,
                               const bool dropped) {
    const size_t across = p->sizes.across;
    const struct lanes inverse = lanes_all(softmax_row(row, row, p->a->length, p->a->scale, true));
    struct lanes sum = lanes_all(0);
    for (size_t j = 0; j < across; j += LANES) {
        const struct lanes v = lanes_mul(lanes_load(row + j), inverse);
        struct lanes g = lanes_load(gradient + j);
        if (dropped) {
            g = lanes_mul(g, lanes_pick(kept[j / LANES], p->factor));
            lanes_store(gradient + j, g);
        }
        lanes_store(row + j, v);
        sum = lanes_fma(v, g, sum);
    }
    const struct lanes dot = lanes_all(lanes_total(sum)), scale = lanes_all(p->a->scale);
    for (size_t j = 0; j < across; j += LANES) {
        const struct lanes v = lanes_load(row + j), g = lanes_load(gradient + j);
        lanes_store(gradient + j, lanes_mul(scale, lanes_mul(v, lanes_sub(g, dot))));
        if (dropped)
            lanes_store(row + j, lanes_mul(v, lanes_pick(kept[j / LANES], p->factor)));
    }
}

static void block_backward(const struct pieces *p, const float *dout, size_t first, size_t n, const bool dropped) {
    const struct attention_sizes *s = &p->sizes;
    for (size_t r = 0; r < n; r++) {
        row_ahead(p, dout, first + r);
        row_backward(p, p->scores + r * s->stride, p->gradient + r * s->stride, p->kept + r * s->kept, dropped);
    }
}

void ISA_NAME(attention_backward)(float *dq, float *dk, float *dv, const float *dout, const struct attention *a,
                                  float *scratch) {
    struct pieces p;
    pieces_cut(&p, scratch, a);
    const size_t blocks = blocks_of(a);
    keys_pack(&p, a->v);
    keys_transpose(&p, p.values);
    keys_pack(&p, a->k);
    keys_transpose(&p, p.keys);
    for (size_t block = 0, first = 0; block < blocks; block++) {
        const size_t end = block_end(a, block, blocks), n = end - first;
        rows_pack(p.queries, a->q + first * a->stride, a->stride, n, n, a->head_size);
        rows_pack(p.dout, dout + first * a->stride_out, a->stride_out, n, n, a->head_size);
        scores_product(&p, p.scores, p.queries, p.sizes.wide, p.keys, n);
        scores_product(&p, p.gradient, p.dout, p.sizes.wide, p.values, n);
        if (a->dropout.threshold != 0) {
            block_mask(&p, first, n);
            block_backward(&p, dout, first, n, true);
        } else {
            block_backward(&p, dout, first, n, false);
        }
        keys_product(&p, dv, p.scores, p.dout, n, block > 0);
        keys_product(&p, dk, p.gradient, p.queries, n, block > 0);
        rows_product(&p, dq + first * a->stride, a->stride, p.gradient, n);
        first = end;
    }
}
