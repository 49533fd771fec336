// SPDX-License-Identifier: Apache-2.0
// Sources that are compiled once for each instruction set (the folders named ISA_SOURCES in CMakeLists.txt) give their
// public symbols a suffix: `void ISA_NAME(gelu_forward)(…)`. A table per set is chosen at run time.
#ifndef FINETUNED_BASE_ISA_H
#define FINETUNED_BASE_ISA_H

#include "base/status.h"

#include <stdbool.h>

enum isa { ISA_PLAIN, ISA_AVX2, ISA_AVX512, ISA_AVX512BF16, ISA_COUNT };

#define ISA_JOIN_(name, isa) name##_##isa
#define ISA_JOIN(name, isa) ISA_JOIN_(name, isa)
#ifdef ISA
#define ISA_NAME(name) ISA_JOIN(name, ISA)
#endif

const char *isa_name(enum isa isa); // "plain", "avx2", "avx512", "avx512bf16"
enum isa isa_best(void);            // what this processor has
// Whether this processor's products of bf16 pairs do more FLOPs a second than its fp32 ones. AMD's do twice as many
// (VDPBF16PS at the rate of a fused multiply-add of the same width); Intel's half (measured on Emerald Rapids: 84
// against 173 GFLOP/s a thread): theirs are fast in AMX, which we have no kernels for.
bool isa_bf16_is_faster(enum isa isa);
// The set to use: isa_best, or the one that FINETUNED_ISA names (STATUS_USAGE if unknown, STATUS_DEVICE if not there).
enum status isa_choose(enum isa *out);

#endif
