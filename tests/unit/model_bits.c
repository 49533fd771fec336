// SPDX-License-Identifier: Apache-2.0
// The promise of docs/numerics.md on texts of every length: a text has the same logits, bit for bit, alone and in any
// batch, in any order, at any number of threads, on every instruction set, with dropout too; and a batch the same
// gradients at any number of threads on every instruction set.
#include "model_support.h"

#include <sched.h>

#define TEXTS 44
#define LONGEST 512
#define TOKENS (8 * 1024)
#define LABELS 3
#define THREADS_MOST 4
#define ROUNDS 12

// The pool starts no more threads than there are CPUs in the process's mask: here four, whatever the host has.
int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *mask) {
    (void)pid;
    memset(mask, 0, size);
    for (size_t cpu = 0; cpu < THREADS_MOST; cpu++)
        CPU_SET_S(cpu, size, mask);
    return 0;
}

// Around every size that a kernel knows: registers, tiles, blocks of rows, and the longest of all.
static const uint32_t lengths[TEXTS] = {1,  2,  3,   4,   5,   6,   7,   8,   12,  13,  14,  15,  16,  17,     24,
                                        27, 28, 29,  31,  32,  33,  42,  47,  48,  49,  56,  63,  64,  65,     84,
                                        96, 97, 100, 127, 128, 129, 191, 192, 223, 224, 225, 255, 257, LONGEST};

struct texts {
    int32_t ids[TEXTS][LONGEST];
    uint8_t types[TEXTS][LONGEST];
    float logits[TEXTS][LABELS]; // of each alone, by the plain definition on one thread
};

static const struct pass_options options = {TOKENS, TEXTS, LONGEST, PASS_FIRST, true, false, 0};
static const struct pass_options options_bf16 = {TOKENS, TEXTS, LONGEST, PASS_FIRST, true, true, 0};

static void rig_long(struct rig *rig, enum model_kind kind) {
    struct model_config config = config_small(kind, 32);
    config.max_positions = LONGEST + 2;
    rig_init(rig, &config);
    rig_random(rig, 11);
}

static struct texts *texts_make(const struct model_config *config, struct rng *rng) {
    struct texts *texts = calloc(1, sizeof *texts);
    assert_non_null(texts);
    for (uint32_t t = 0; t < TEXTS; t++)
        for (uint32_t i = 0; i < lengths[t]; i++) {
            texts->ids[t][i] = (int32_t)rng_below(rng, config->vocab);
            texts->types[t][i] = (uint8_t)rng_below(rng, config->types);
        }
    return texts;
}

// Dropout is keyed by the example: the text's own number, wherever it stands.
static void batch_text(struct batch *batch, const struct texts *texts, uint32_t t) {
    batch_add(batch, texts->ids[t], texts->types[t], lengths[t], (int32_t)(t % LABELS), t);
}

static void texts_alone(struct rig *rig, struct texts *texts, struct batch *batch, uint64_t key,
                        const struct pass_options *how) {
    rig_pass_open(rig, ISA_PLAIN, 1, how);
    for (uint32_t t = 0; t < TEXTS; t++) {
        batch_clear(batch);
        batch_text(batch, texts, t);
        rig_forward(rig, batch, key);
        memcpy(texts->logits[t], pass_logits(rig->pass), sizeof texts->logits[t]);
    }
}

// Some of the texts in a random order, one of them perhaps twice. `order`: which text each is.
static void batch_draw(struct batch *batch, uint32_t *order, const struct texts *texts, struct rng *rng) {
    uint32_t n = 1 + (uint32_t)rng_below(rng, TEXTS);
    batch_clear(batch);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t t = (uint32_t)rng_below(rng, TEXTS);
        if (batch->tokens + lengths[t] > TOKENS)
            continue;
        order[batch->size] = t;
        batch_text(batch, texts, t);
    }
}

static enum isa isa_of(uint32_t round) {
    enum isa isa = (enum isa)(round % ISA_COUNT);
    return ops_table(isa) ? isa : isa_best();
}

static void company_check(enum model_kind kind, uint64_t key, const struct pass_options *how) {
    struct rig rig;
    struct batch batch;
    struct rng rng = rng_stream(21, key);
    rig_long(&rig, kind);
    struct texts *texts = texts_make(&rig.config, &rng);
    assert_ok(batch_open(&batch, TOKENS, TEXTS, 1));
    texts_alone(&rig, texts, &batch, key, how);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t order[TEXTS];
        unsigned threads = 1 + (unsigned)rng_below(&rng, THREADS_MOST);
        rig_pass_open(&rig, isa_of(round), threads, how);
        assert_int_equal(pool_threads(rig.pool), threads);
        batch_draw(&batch, order, texts, &rng);
        rig_forward(&rig, &batch, key);
        const float *logits = pass_logits(rig.pass);
        for (uint32_t b = 0; b < batch.size; b++)
            if (memcmp(logits + (size_t)b * LABELS, texts->logits[order[b]], sizeof texts->logits[0]) != 0)
                fail_msg("%s, %u threads: text %u of %u, %u tokens, has other logits than alone",
                         isa_name(isa_of(round)), threads, b, batch.size, lengths[order[b]]);
    }
    free(texts);
    batch_close(&batch);
    rig_close(&rig);
}

static void test_company(void **state) {
    (void)state;
    company_check(MODEL_ROBERTA, 0, &options);
    company_check(MODEL_BERT, 1, &options);
    company_check(MODEL_ROBERTA, 1, &options_bf16);
}

// All texts in one batch of four parts, which are cut where a quarter of the texts is.
static void batch_all(struct batch *batch, const struct texts *texts) {
    batch_clear(batch);
    for (uint32_t t = 0; t < TEXTS; t++)
        batch_text(batch, texts, t * 19 % TEXTS); // long and short ones mixed: 19 and 44 have no common factor
    batch->parts = 4;
    for (uint32_t p = 0; p <= 4; p++) {
        batch->part_examples[p] = p * TEXTS / 4;
        batch->part_tokens[p] = batch->cu_seqlens[p * TEXTS / 4];
    }
}

static void gradients_check(const struct rig *rig, const float *want, enum isa isa, unsigned threads) {
    for (size_t i = 0; i < rig->table.n; i++) {
        const struct param *param = &rig->table.at[i];
        if (memcmp(rig->gradients + param->offset, want + param->offset, param->size * sizeof *want) != 0)
            fail_msg("%s, %u threads: the gradient of %s has other bits than the plain definition's", isa_name(isa),
                     threads, param->name);
    }
}

static void test_gradients(void **state) {
    (void)state;
    struct rig rig;
    struct batch batch;
    struct rng rng = rng_stream(22, 1);
    double losses[4], again[4];
    rig_long(&rig, MODEL_ROBERTA);
    struct texts *texts = texts_make(&rig.config, &rng);
    float *want = calloc(rig.table.floats, sizeof *want);
    assert_non_null(want);
    assert_ok(batch_open(&batch, TOKENS, TEXTS, 4));
    batch_all(&batch, texts);
    rig_pass_open(&rig, ISA_PLAIN, 1, &options);
    rig_step(&rig, &batch, 7, losses, 0.125f);
    memcpy(want, rig.gradients, rig.table.floats * sizeof *want);
    for (enum isa isa = ISA_PLAIN; isa < ISA_COUNT; isa++)
        for (unsigned threads = 1; threads <= THREADS_MOST && ops_table(isa); threads++) {
            rig_pass_open(&rig, isa, threads, &options);
            rig_step(&rig, &batch, 7, again, 0.125f);
            gradients_check(&rig, want, isa, threads);
            assert_memory_equal(losses, again, sizeof losses);
        }
    free(want);
    free(texts);
    batch_close(&batch);
    rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_company), cmocka_unit_test(test_gradients)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
