// SPDX-License-Identifier: Apache-2.0
// What the products of linear layers are computed in: what the job says; where it says auto, what the run has done so
// far; in a fresh run bf16 if every rank's processor has instructions for it that are faster than fp32's.
#include "train/trainer.h"

#include "model/peak.h"

#include <string.h>

#define RATE_GAIN 1.25 // that bf16 must have: what its products save is partly spent on rounding

#define SAID_BF16 1u // by rank 0
#define SAID_FP32 2u
#define NOT_FASTER 4u

static const char *const names[] = {[JOB_PRECISION_AUTO] = "", [JOB_BF16] = "bf16", [JOB_FP32] = "fp32"};

static void precision_set(struct trainer *t, const char *name) {
    snprintf(t->state.precision, sizeof t->state.precision, "%s", name);
}

bool trainer_bf16(const struct trainer *t) {
    return strcmp(t->state.precision, names[JOB_BF16]) == 0;
}

void precision_begin(struct trainer *t) {
    precision_set(t, names[t->job->train.precision]);
}

void precision_adopt(struct trainer *t, const char *saved) {
    if (!*t->state.precision)
        precision_set(t, strcmp(saved, names[JOB_BF16]) == 0 ? saved : names[JOB_FP32]);
}

// This processor's two rates, FLOPs a second of a thread.
struct rates {
    bool there; // it has instructions for bf16
    double bf16, fp32;
};

static struct rates rates_measure(const struct ops *ops) {
    struct rates rates = {.there = ops->isa == ISA_AVX512BF16};
    if (rates.there) {
        rates.bf16 = peak_of_thread(ops, true);
        rates.fp32 = peak_of_thread(ops, false);
    }
    return rates;
}

static bool rates_gain(const struct rates *rates) {
    return rates->there && rates->bf16 >= RATE_GAIN * rates->fp32;
}

// Rank 0's reasons.
static void precision_log(const struct trainer *t, const struct rates *rates, bool chosen) {
    char why[128];
    if (!rates->there)
        snprintf(why, sizeof why, "no bf16 instructions (%s kernels)", isa_name(t->ops->isa));
    else
        snprintf(why, sizeof why, "bf16 products at %.0f GFLOP/s a thread, fp32's at %.0f", 1e-9 * rates->bf16,
                 1e-9 * rates->fp32);
    if (chosen)
        log_info("train.precision: auto is %s: %s%s", t->state.precision, why,
                 rates_gain(rates) && !trainer_bf16(t) ? "; but not on every rank" : "");
    else if (trainer_bf16(t) && !rates_gain(rates))
        log_warn("train.precision: bf16 is slower than fp32 on this processor: %s%s", why,
                 rates->there ? "" : "; it is computed in software, with the same rounding");
}

enum status precision_settle(struct trainer *t) {
    const bool fp32 = t->job->train.precision == JOB_FP32; // every rank knows
    const struct rates rates = fp32 ? (struct rates){0} : rates_measure(t->ops);
    const bool said = *t->state.precision != '\0';
    uint32_t flags = rates_gain(&rates) ? 0 : NOT_FASTER;
    if (t->comm->rank == 0 && said)
        flags |= trainer_bf16(t) ? SAID_BF16 : SAID_FP32;
    TRY(comm_flags(t->comm, &flags));
    precision_set(t, (flags & SAID_BF16) || !(flags & (SAID_FP32 | NOT_FASTER)) ? names[JOB_BF16] : names[JOB_FP32]);
    if (t->comm->rank == 0 && !fp32)
        precision_log(t, &rates, !said);
    return STATUS_OK;
}
