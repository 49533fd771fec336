// SPDX-License-Identifier: Apache-2.0
// Traced ops compute what they computed, bit for bit; the products' FLOPs are counted as the shapes say; every kind is
// met in a step. And the peak is a rate.
#include "model_support.h"

#include "model/ops_trace.h"
#include "model/peak.h"

#define TOKENS 400
#define TEXTS 40
#define LENGTH 20
#define PARTS 4

static const struct pass_options all = {TOKENS, TEXTS, LENGTH, PASS_ALL, true, false, 0};
static const struct pass_options all_bf16 = {TOKENS, TEXTS, LENGTH, PASS_ALL, true, true, 0};

// FLOPs of forward, input and weight gradients of every linear layer.
static double products_flops(const struct rig *rig, const struct batch *batch) {
    double sum = 0;
    for (size_t i = 0; i < rig->table.n; i++) {
        const struct param *p = &rig->table.at[i];
        bool head = p->bucket == rig->config.layers + 1;
        if (p->layout == PARAM_TILES)
            sum += 6.0 * (double)param_elements(p) * (head ? batch->size : batch->tokens);
    }
    return sum;
}

// In bf16 a pair counts as two products also where its second half is missing.
static void flops_check(const struct trace *trace, double wanted, bool bf16) {
    assert_true(trace_flops(trace) >= wanted * (1 - 1e-12));
    assert_true(trace_flops(trace) <= wanted * (bf16 ? 1.5 : 1 + 1e-12));
}

static void traced_check(enum isa isa, unsigned threads, const struct pass_options *options) {
    struct rig rig;
    struct batch batch;
    struct trace *trace;
    struct model_config config = config_small(MODEL_ROBERTA, 27);
    double losses[PARTS], losses_traced[PARTS];
    struct rng rng = rng_stream(1, 2);
    rig_init(&rig, &config);
    rig_random(&rig, 3);
    rig_pass_open(&rig, isa, threads, options);
    assert_ok(batch_open(&batch, TOKENS, TEXTS, PARTS));
    batch_random(&batch, &rig.config, &rng, PARTS, 4, LENGTH);
    assert_true(batch.size > 0);
    rig_step(&rig, &batch, 77, losses, 0.5f);
    float *gradients = malloc(rig.table.floats * sizeof *gradients);
    memcpy(gradients, rig.gradients, rig.table.floats * sizeof *gradients);
    assert_ok(trace_open(&trace, threads, 0));
    const struct ops *traced = ops_traced(ops_table(isa), trace);
    assert_int_equal(traced->isa, isa);
    pass_use(rig.pass, traced);
    assert_ptr_equal(pass_ops(rig.pass), traced);
    trace_stage(trace, 1);
    rig_step(&rig, &batch, 77, losses_traced, 0.5f);
    trace_stage(trace, 0);
    assert_memory_equal(losses, losses_traced, sizeof losses);
    assert_memory_equal(gradients, rig.gradients, rig.table.floats * sizeof *gradients);
    flops_check(trace, products_flops(&rig, &batch), options->bf16);
    for (unsigned kind = 0; kind < OPS_KINDS; kind++) {
        assert_non_null(ops_kind_names[kind]);
        if ((trace_op_seconds(trace, 1, kind) > 0) != (options->bf16 || kind != OPS_ROUND))
            fail_msg("time, or none, for %s", ops_kind_names[kind]);
    }
    free(gradients);
    trace_close(trace);
    batch_close(&batch);
    rig_close(&rig);
}

static void traced_test(void **state) {
    (void)state;
    traced_check(ISA_PLAIN, 1, &all);
    traced_check(isa_best(), 1, &all);
    traced_check(isa_best(), 2, &all);
    traced_check(isa_best(), 2, &all_bf16);
}

static void peak_test(void **state) {
    (void)state;
    struct pool *pool;
    double rate;
    assert_ok(pool_open(&pool, 0));
    assert_ok(peak_measure(&rate, ops_table(ISA_PLAIN), pool, false));
    assert_true(isfinite(rate) && rate > 0);
    pool_close(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(traced_test), cmocka_unit_test(peak_test)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
