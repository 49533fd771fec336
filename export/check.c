// SPDX-License-Identifier: Apache-2.0
// An export is good when the artifact, opened as a user opens it, gives the trainer's answers.
#include "base/isa.h"
#include "data/batch.h"
#include "export/export.h"
#include "model/model.h"
#include "model/pass.h"

#include <math.h>

#define CHECK_FP32 0.0  // the same weights give the same bits
#define CHECK_BF16 0.06 // of logits up to 1, golden/README.md's bound for bf16; larger ones are rounded in proportion

static const char *const check_texts[] = {
    "hello world",
    "@user what a day \xf0\x9f\x98\x82 #happy http",
    "I can't believe it... it's not fair!",
    "",
};
#define CHECK_TEXTS (sizeof check_texts / sizeof *check_texts)
#define CHECK_LENGTH 32u

static enum status check_batch(struct batch *batch, const struct tokenizer *tokenizer,
                               const struct model_config *config) {
    struct encoding encoding = {0};
    uint32_t usable = model_usable_length(config);
    struct tokenizer_options options = {.special = TOKENIZER_LITERAL,
                                        .max_length = usable < CHECK_LENGTH ? usable : CHECK_LENGTH};
    enum status status = STATUS_OK;
    batch_clear(batch);
    for (size_t i = 0; i < CHECK_TEXTS && status == STATUS_OK; i++) {
        status = tokenizer_encode(tokenizer, &encoding, check_texts[i], strlen(check_texts[i]), NULL, 0, &options);
        if (status == STATUS_OK)
            batch_add(batch, encoding.ids, encoding.types, encoding.n, -1, (uint32_t)i);
    }
    encoding_release(&encoding);
    return status;
}

static enum status check_logits(float *out, const struct model_config *config, const struct param_table *table,
                                const float *weights, const struct tokenizer *tokenizer, struct pool *pool) {
    struct batch batch = {0};
    struct pass *pass = NULL;
    enum isa isa;
    struct pass_options options = {.max_tokens = CHECK_TEXTS * CHECK_LENGTH,
                                   .max_examples = CHECK_TEXTS,
                                   .max_length = CHECK_LENGTH,
                                   .rows = pass_rows_of(config)};
    enum status status;
    TRY(isa_choose(&isa));
    TRY_GOTO(batch_open(&batch, options.max_tokens, options.max_examples, 1), done);
    TRY_GOTO(check_batch(&batch, tokenizer, config), done);
    TRY_GOTO(pass_open(&pass, config, table, pool, ops_table(isa), &options), done);
    TRY_GOTO(pass_begin(pass, &batch, 0), done);
    for (unsigned l = 0; l <= config->layers + 1; l++)
        layer_forward(pass, weights, l);
    size_t rows = config->head == HEAD_QUESTION_ANSWERING ? batch.tokens : batch.size;
    memcpy(out, pass_logits(pass), rows * config->labels * sizeof *out);
done:
    pass_close(pass);
    batch_close(&batch);
    return status;
}

static double check_distance(const float *a, const float *b, size_t n) {
    double most = 0;
    for (size_t i = 0; i < n; i++) {
        double off = fabs((double)a[i] - (double)b[i]);
        most = off > most || isnan(off) ? off : most;
    }
    return most;
}

// How far the written model's logits may be from ours.
static double check_bound(bool bf16, const float *ours, size_t n) {
    double largest = 1;
    for (size_t i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)ours[i]));
    return bf16 ? CHECK_BF16 * largest : CHECK_FP32;
}

enum status export_check(char *note, size_t size, const struct export_model *model, const char *folder,
                         struct pool *pool) {
    struct model written;
    TRY(model_open(&written, folder, pool));
    size_t n = (size_t)CHECK_TEXTS * CHECK_LENGTH * model->config->labels; // a row a text, or a token: the rest is 0
    float *ours = calloc(n, sizeof *ours), *theirs = calloc(n, sizeof *theirs);
    double bound = 0, off = NAN;
    enum status status = ours && theirs ? STATUS_OK : status_set(STATUS_SYSTEM, "export: no memory");
    if (status == STATUS_OK && written.config.labels != model->config->labels)
        status = status_set(STATUS_SYSTEM, "export: %s has %u labels, the trainer %u", folder, written.config.labels,
                            model->config->labels);
    if (status == STATUS_OK)
        status = check_logits(ours, model->config, model->table, model->weights, model->tokenizer, pool);
    if (status == STATUS_OK)
        status = check_logits(theirs, &written.config, &written.table, written.weights, written.tokenizer, pool);
    if (status == STATUS_OK)
        off = check_distance(ours, theirs, n), bound = check_bound(model->bf16, ours, n);
    if (status == STATUS_OK && isnan(off))
        status =
            status_set(STATUS_DATA, "export: %s: the model's logits are not finite: its training has diverged", folder);
    if (status == STATUS_OK && !(off <= bound))
        status = status_set(STATUS_SYSTEM, "export: %s gives logits that differ by %g (at most %g allowed)", folder,
                            off, bound);
    snprintf(note, size, "logits of %zu texts differ by at most %g", CHECK_TEXTS, off);
    free(theirs);
    free(ours);
    model_close(&written);
    return status;
}
