// SPDX-License-Identifier: Apache-2.0
// The one function of oneDNN's C interface that is wanted (dnnl_sgemm, oneDNN 2.6 developer guide: row-major, sizes of
// 64 bits, 0 for success), by its name.
#include "daemon/bench/peer.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define LIBRARY "libdnnl.so.2"

typedef int sgemm_function(char transa, char transb, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                           int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

struct peer {
    sgemm_function *sgemm;
};

enum status peer_open(struct peer **out, unsigned threads) {
    char number[16];
    *out = NULL;
    struct peer *peer = calloc(1, sizeof *peer);
    if (!peer)
        return status_set(STATUS_SYSTEM, "bench gemm: no memory");
    snprintf(number, sizeof number, "%u", threads);
    setenv("OMP_NUM_THREADS", number, 1); // read when OpenMP is loaded
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library)
        *(void **)&peer->sgemm = dlsym(library, "dnnl_sgemm");
    if (!peer->sgemm) {
        const char *why = dlerror();
        enum status status = status_set(STATUS_DEVICE, "bench gemm: --peer: %s (Debian's package is libdnnl2)",
                                        why ? why : LIBRARY " has no dnnl_sgemm");
        peer_close(peer);
        return status;
    }
    *out = peer;
    return STATUS_OK;
}

void peer_close(struct peer *peer) {
    free(peer); // the library stays: its OpenMP threads run on
}

enum status peer_product(const struct peer *peer, float *c, const float *a, bool a_transposed, const float *b,
                         bool b_transposed, size_t m, size_t n, size_t k) {
    const int64_t lda = (int64_t)(a_transposed ? m : k), ldb = (int64_t)(b_transposed ? k : n);
    int error = peer->sgemm(a_transposed ? 'T' : 'N', b_transposed ? 'T' : 'N', (int64_t)m, (int64_t)n, (int64_t)k,
                            1.0f, a, lda, b, ldb, 0.0f, c, (int64_t)n);
    if (error)
        return status_set(STATUS_DEVICE, "bench gemm: dnnl_sgemm of %zux%zux%zu failed: %d", m, n, k, error);
    return STATUS_OK;
}
