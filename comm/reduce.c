// SPDX-License-Identifier: Apache-2.0
// Sums over ranks in one fixed order.
//
// World a power of two: recursive halving with distance 1, 2, 4 …. Before distance d every rank of a group of d
// neighbours holds the group's partial sum of another part of the values; the two groups r and r^d then halve that
// part, each sends the half it drops, and adds what it gets. So every element is added along the binary tree over
// ranks, by one rank only, and is then handed back to all: bits are equal on all ranks, and equal to the tree that one
// rank makes over the same leaves. (a + b and b + a have the same bits, zeros of either sign included; only which NaN
// comes out of two may differ.)
//
//   distance 1          distance 2             back
//   rank 0  [0+1 ····]  [0+1+2+3 · · ·]        distance 2, then 1: everyone's piece to everyone
//   rank 1  [···· 0+1]  [· · 0+1+2+3 ·]
//
// Any other world: a chain, rank r adding its values behind those of 0..r-1, a slice after the other so that all ranks
// work at once.
#include "comm/comm.h"

#include <assert.h>
#include <string.h>

#define CHAIN_SLICE ((size_t)1 << 16) // elements
#define LEVELS 31                     // of a world counted in int

void comm_add(float *restrict a, const float *restrict b, size_t n) {
    for (size_t i = 0; i < n; i++)
        a[i] += b[i];
}

static void add_doubles(double *restrict a, const double *restrict b, size_t n) {
    for (size_t i = 0; i < n; i++)
        a[i] += b[i];
}

// What is summed: floats or doubles.
struct reduce {
    struct comm *comm;
    char *values, *scratch;
    size_t width; // bytes of an element
};

struct range {
    size_t begin, end; // elements
};

static void reduce_add(const struct reduce *r, char *to, const char *from, size_t n) {
    if (r->width == sizeof(float))
        comm_add((float *)to, (const float *)from, n);
    else
        add_doubles((double *)to, (const double *)from, n);
}

static char *reduce_at(const struct reduce *r, size_t element) {
    return r->values + element * r->width;
}

// Sends range `drop`, receives the peer's sum of range `keep` and adds it.
static enum status reduce_halve(const struct reduce *r, int peer, struct range keep, struct range drop) {
    size_t n = keep.end - keep.begin;
    TRY(comm_exchange(r->comm, peer, reduce_at(r, drop.begin), (drop.end - drop.begin) * r->width, r->scratch,
                      n * r->width));
    reduce_add(r, reduce_at(r, keep.begin), r->scratch, n);
    return STATUS_OK;
}

static enum status reduce_return(const struct reduce *r, int peer, struct range mine, struct range theirs) {
    return comm_exchange(r->comm, peer, reduce_at(r, mine.begin), (mine.end - mine.begin) * r->width,
                         reduce_at(r, theirs.begin), (theirs.end - theirs.begin) * r->width);
}

static enum status reduce_tree(const struct reduce *r, size_t n) {
    struct range kept[LEVELS], dropped[LEVELS], range = {0, n};
    int levels = 0, rank = r->comm->rank;
    for (int distance = 1; distance < r->comm->world; distance *= 2, levels++) {
        size_t middle = range.begin + (range.end - range.begin) / 2;
        struct range low = {range.begin, middle}, high = {middle, range.end};
        kept[levels] = range = rank & distance ? high : low;
        dropped[levels] = rank & distance ? low : high;
        TRY(reduce_halve(r, rank ^ distance, kept[levels], dropped[levels]));
    }
    while (levels-- > 0)
        TRY(reduce_return(r, rank ^ (1 << levels), kept[levels], dropped[levels]));
    return STATUS_OK;
}

static enum status chain_slice(const struct reduce *r, size_t begin, size_t n) {
    int rank = r->comm->rank, last = r->comm->world - 1;
    char *values = reduce_at(r, begin);
    if (rank > 0) {
        TRY(comm_receive(r->comm, rank - 1, r->scratch, n * r->width));
        reduce_add(r, r->scratch, values, n);
        memcpy(values, r->scratch, n * r->width);
    }
    return rank < last ? comm_send(r->comm, rank + 1, values, n * r->width) : STATUS_OK;
}

static enum status reduce_chain(const struct reduce *r, size_t n) {
    for (size_t begin = 0; begin < n; begin += CHAIN_SLICE)
        TRY(chain_slice(r, begin, n - begin < CHAIN_SLICE ? n - begin : CHAIN_SLICE));
    return comm_broadcast(r->comm, r->values, n * r->width, r->comm->world - 1);
}

static enum status reduce_run(const struct reduce *r, size_t n) {
    int world = r->comm->world;
    assert(n <= SIZE_MAX / r->width && (n == 0 || world == 1 || (r->values && r->scratch)));
    if (world == 1 || n == 0)
        return STATUS_OK;
    return world & (world - 1) ? reduce_chain(r, n) : reduce_tree(r, n);
}

enum status comm_tree_sum(struct comm *comm, float *values, size_t n, float *scratch) {
    struct reduce r = {comm, (char *)values, (char *)scratch, sizeof *values};
    return reduce_run(&r, n);
}

enum status comm_tree_sum_double(struct comm *comm, double *values, size_t n, double *scratch) {
    struct reduce r = {comm, (char *)values, (char *)scratch, sizeof *values};
    return reduce_run(&r, n);
}
