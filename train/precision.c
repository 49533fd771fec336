// SPDX-License-Identifier: Apache-2.0
// What the products of linear layers are computed in: what the job says; where it says auto, what the run has done so
// far; in a fresh run bf16 if every rank's processor has instructions for it that are faster than fp32's. That is known
// of a processor, not measured: a job must not change its bits with how busy its host is.
#include "train/trainer.h"

#include <string.h>

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

// Rank 0's reasons.
static void precision_log(const struct trainer *t, bool faster, bool chosen) {
    char why[128];
    if (t->ops->isa != ISA_AVX512BF16)
        snprintf(why, sizeof why, "no bf16 instructions (%s kernels)", isa_name(t->ops->isa));
    else
        snprintf(why, sizeof why, "this processor's bf16 products are %s than fp32's", faster ? "faster" : "no faster");
    if (chosen)
        log_info("train.precision: auto is %s: %s%s", t->state.precision, why,
                 faster && !trainer_bf16(t) ? "; but not on every rank" : "");
    else if (trainer_bf16(t) && !faster)
        log_warn("train.precision: bf16 is slower than fp32 on this processor: %s%s", why,
                 t->ops->isa == ISA_AVX512BF16 ? "" : "; it is computed in software, with the same rounding");
}

enum status precision_settle(struct trainer *t) {
    const bool fp32 = t->job->train.precision == JOB_FP32; // every rank knows
    const bool faster = isa_bf16_is_faster(t->ops->isa);
    const bool said = *t->state.precision != '\0';
    uint32_t flags = faster ? 0 : NOT_FASTER;
    if (t->comm->rank == 0 && said)
        flags |= trainer_bf16(t) ? SAID_BF16 : SAID_FP32;
    TRY(comm_flags(t->comm, &flags));
    precision_set(t, (flags & SAID_BF16) || !(flags & (SAID_FP32 | NOT_FASTER)) ? names[JOB_BF16] : names[JOB_FP32]);
    if (t->comm->rank == 0 && !fp32)
        precision_log(t, faster, !said);
    return STATUS_OK;
}
