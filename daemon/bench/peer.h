// SPDX-License-Identifier: Apache-2.0
// oneDNN beside our products, for `bench gemm --peer` alone: libdnnl.so.2 (Debian: libdnnl2) is opened where it is
// there; nothing links it.
#ifndef FINETUNED_DAEMON_BENCH_PEER_H
#define FINETUNED_DAEMON_BENCH_PEER_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

struct peer;

// `threads`: of its own (OpenMP), which must not have started before. STATUS_DEVICE where the library lacks.
enum status peer_open(struct peer **out, unsigned threads);
void peer_close(struct peer *peer);

// C (m, n) = A B, all row-major; a: (m, k), or (k, m) with `a_transposed`; b: (k, n), or (n, k) with `b_transposed`.
enum status peer_product(const struct peer *peer, float *c, const float *a, bool a_transposed, const float *b,
                         bool b_transposed, size_t m, size_t n, size_t k);

#endif
