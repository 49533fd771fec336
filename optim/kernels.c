// SPDX-License-Identifier: Apache-2.0
#include "optim/kernels.h"

#define KERNELS_DECLARE(set)                                                                                           \
    void optim_adamw_##set(float *w, float *m, float *v, const float *g, size_t n, const struct adamw_rates *rates);   \
    void optim_adamw_still_##set(float *w, float *m, float *v, size_t n, const struct adamw_rates *rates);             \
    void optim_decay_##set(float *w, size_t n, float keep);                                                            \
    void optim_stream_##set(float *w, float *m, float *v, const float *g, size_t n);

#define KERNELS_TABLE(set)                                                                                             \
    { optim_adamw_##set, optim_adamw_still_##set, optim_decay_##set, optim_stream_##set }

KERNELS_DECLARE(plain)
#if defined(__x86_64__)
KERNELS_DECLARE(avx2)
KERNELS_DECLARE(avx512)
KERNELS_DECLARE(avx512bf16)
#endif

static const struct optim_kernels tables[ISA_COUNT] = {
    [ISA_PLAIN] = KERNELS_TABLE(plain),
#if defined(__x86_64__)
    [ISA_AVX2] = KERNELS_TABLE(avx2),
    [ISA_AVX512] = KERNELS_TABLE(avx512),
    [ISA_AVX512BF16] = KERNELS_TABLE(avx512bf16),
#endif
};

const struct optim_kernels *optim_kernels(enum isa isa) {
    return (unsigned)isa < ISA_COUNT && tables[isa].adamw ? &tables[isa] : NULL;
}
