// SPDX-License-Identifier: Apache-2.0
#include "model/squad_metrics.h"

#include "base/text.h"
#include "model/squad_text.h"

#include <stdlib.h>
#include <string.h>

enum squad_version squad_version_of(const struct source *source) {
    for (size_t i = 0; i < source->n; i++)
        if (source->rows[i].label >= 0 && source->rows[i].n_answers == 0)
            return SQUAD_V2;
    return SQUAD_V1;
}

struct word {
    const char *at;
    size_t size;
};

// A normalised answer and its words, sorted.
struct bag {
    struct text text;
    struct word *words;
    size_t n;
};

static void bag_release(struct bag *bag) {
    text_release(&bag->text);
    free(bag->words);
    *bag = (struct bag){0};
}

static int word_order(const void *left, const void *right) {
    const struct word *a = left, *b = right;
    int order = memcmp(a->at, b->at, a->size < b->size ? a->size : b->size);
    return order ? order : (a->size > b->size) - (a->size < b->size);
}

// Words are one blank apart.
static size_t words_count(const struct text *text) {
    size_t n = text->size > 0;
    for (size_t i = 0; i < text->size; i++)
        n += text->at[i] == ' ';
    return n;
}

static void words_cut(struct bag *bag) {
    const char *at = bag->text.at, *end = at + bag->text.size;
    for (size_t i = 0; i < bag->n; i++) {
        const char *blank = memchr(at, ' ', (size_t)(end - at));
        size_t size = (size_t)((blank ? blank : end) - at);
        bag->words[i] = (struct word){at, size};
        at += size + 1;
    }
}

// `bag` is empty before, and after a failure.
static enum status bag_make(struct bag *bag, const char *answer, size_t size) {
    enum status status = squad_normalize(&bag->text, answer, size);
    bag->n = status == STATUS_OK ? words_count(&bag->text) : 0;
    if (bag->n) {
        bag->words = calloc(bag->n, sizeof *bag->words);
        if (bag->words) {
            words_cut(bag);
            qsort(bag->words, bag->n, sizeof *bag->words, word_order);
        } else {
            status = status_set(STATUS_SYSTEM, "answer: no memory for %zu words", bag->n);
        }
    }
    if (status != STATUS_OK)
        bag_release(bag);
    return status;
}

// Words of both, each as often as in the one that has it less often.
static size_t bags_common(const struct bag *a, const struct bag *b) {
    size_t common = 0;
    for (size_t i = 0, j = 0; i < a->n && j < b->n;) {
        int order = word_order(&a->words[i], &b->words[j]);
        common += order == 0;
        i += order <= 0;
        j += order >= 0;
    }
    return common;
}

static double bags_f1(const struct bag *answer, const struct bag *gold) {
    size_t common = bags_common(answer, gold);
    if (common == 0)
        return 0;
    double precision = (double)common / (double)answer->n, recall = (double)common / (double)gold->n;
    return 2 * precision * recall / (precision + recall);
}

static bool bags_equal(const struct bag *a, const struct bag *b) {
    return a->text.size == b->text.size && (a->n == 0 || memcmp(a->text.at, b->text.at, a->text.size) == 0);
}

// Takes the better of `out` and the score against one gold.
static void score_raise(struct squad_score *out, const struct bag *answer, const struct bag *gold, bool agree) {
    bool equal = bags_equal(answer, gold);
    double f1 = agree && gold->n == 0 ? equal : bags_f1(answer, gold);
    out->exact = equal ? 1 : out->exact;
    out->f1 = f1 > out->f1 ? f1 : out->f1;
}

// Against the golds that count, which `*counted` says how many they are.
static enum status golds_score(struct squad_score *out, uint32_t *counted, enum squad_version version,
                               const struct bag *answer, const struct source_answer *golds, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        struct bag gold = {0};
        TRY(bag_make(&gold, golds[i].text, golds[i].size));
        if (version == SQUAD_V1 || gold.n > 0) {
            score_raise(out, answer, &gold, false);
            ++*counted;
        }
        bag_release(&gold);
    }
    return STATUS_OK;
}

enum status squad_score(struct squad_score *out, enum squad_version version, const char *text, size_t size,
                        const struct source_answer *golds, uint32_t n) {
    struct bag answer = {0};
    uint32_t counted = 0;
    *out = (struct squad_score){0};
    TRY(bag_make(&answer, text, size));
    enum status status = golds_score(out, &counted, version, &answer, golds, n);
    if (status == STATUS_OK && counted == 0)
        score_raise(out, &answer, &(struct bag){0}, true);
    bag_release(&answer);
    return status;
}

static void sum_add(struct squad_sum *sum, const struct squad_score *score) {
    sum->n++;
    sum->exact += score->exact;
    sum->f1 += score->f1;
}

void squad_totals_add(struct squad_totals *totals, const struct squad_score *score, bool has_answer) {
    sum_add(&totals->all, score);
    sum_add(has_answer ? &totals->answered : &totals->unanswered, score);
}
