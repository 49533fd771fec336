// SPDX-License-Identifier: Apache-2.0
// Sources that are compiled once for each instruction set (the folders named ISA_SOURCES in CMakeLists.txt) give their
// public symbols a suffix: `void ISA_NAME(gelu_forward)(…)`. A table per set is chosen at run time.
#ifndef FINETUNED_BASE_ISA_H
#define FINETUNED_BASE_ISA_H

#include "base/status.h"

enum isa { ISA_PLAIN, ISA_AVX2, ISA_AVX512, ISA_AVX512BF16, ISA_COUNT };

#define ISA_JOIN_(name, isa) name##_##isa
#define ISA_JOIN(name, isa) ISA_JOIN_(name, isa)
#ifdef ISA
#define ISA_NAME(name) ISA_JOIN(name, ISA)
#endif

const char *isa_name(enum isa isa); // "plain", "avx2", "avx512", "avx512bf16"
enum isa isa_best(void);            // what this processor has
// The set to use: isa_best, or the one that FINETUNED_ISA names (STATUS_USAGE if unknown, STATUS_DEVICE if not there).
enum status isa_choose(enum isa *out);

#endif
