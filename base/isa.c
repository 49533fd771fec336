// SPDX-License-Identifier: Apache-2.0
// Which instruction sets this processor (and its kernel) has. "avx2" is x86-64-v3 and "avx512" x86-64-v4 of the x86-64
// psABI, as cmake/finetuned.cmake compiles them: all features of a level must be there. "avx512bf16" is the latter with
// AVX512_BF16: products of bf16 pairs in one instruction.
#include "base/isa.h"

#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

static const char *const isa_names[ISA_COUNT] = {
    [ISA_PLAIN] = "plain", [ISA_AVX2] = "avx2", [ISA_AVX512] = "avx512", [ISA_AVX512BF16] = "avx512bf16"};

const char *isa_name(enum isa isa) {
    return (unsigned)isa < ISA_COUNT ? isa_names[isa] : "unknown";
}

#if defined(__x86_64__)
// What __builtin_cpu_supports can't be asked in every compiler: F16C, MOVBE, OSXSAVE and LZCNT.
static bool isa_has_rest_of_v3(void) {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d))
        return false;
    unsigned wanted = 1u << 29 | 1u << 27 | 1u << 22; // F16C, OSXSAVE, MOVBE
    if ((c & wanted) != wanted)
        return false;
    return __get_cpuid(0x80000001u, &a, &b, &c, &d) && (c & 1u << 5); // LZCNT
}

static bool isa_has_v3(void) {
    return __builtin_cpu_supports("avx") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma") && isa_has_rest_of_v3();
}

static bool isa_has_v4(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

enum isa isa_best(void) {
    __builtin_cpu_init();
    if (!isa_has_v3())
        return ISA_PLAIN;
    if (!isa_has_v4())
        return ISA_AVX2;
    return __builtin_cpu_supports("avx512bf16") ? ISA_AVX512BF16 : ISA_AVX512;
}

bool isa_bf16_is_faster(enum isa isa) {
    __builtin_cpu_init();
    return isa == ISA_AVX512BF16 && __builtin_cpu_is("amd");
}
#else
enum isa isa_best(void) {
    return ISA_PLAIN;
}

bool isa_bf16_is_faster(enum isa isa) {
    (void)isa;
    return false;
}
#endif

enum status isa_choose(enum isa *out) {
    const char *wanted = getenv("FINETUNED_ISA");
    enum isa best = isa_best();
    *out = best;
    if (!wanted || !*wanted)
        return STATUS_OK;
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        if (strcmp(wanted, isa_names[isa]) != 0)
            continue;
        // Each set contains the ones before it.
        if (isa > (int)best)
            return status_set(STATUS_DEVICE, "FINETUNED_ISA=%s: this processor has no more than %s", wanted,
                              isa_name(best));
        *out = (enum isa)isa;
        return STATUS_OK;
    }
    return status_set(STATUS_USAGE, "FINETUNED_ISA=%s: unknown; one of plain, avx2, avx512, avx512bf16", wanted);
}
