// SPDX-License-Identifier: Apache-2.0
// Token shard: one split's tokens on disk, mapped and read in place, keyed by the hash of source + tokenizer + options.
//
// An example is a text (or pair) with its label, or, with spans, a window of a question and its context
// (data/window.h).
//
// Byte layout, version 2; all numbers little-endian; n examples, T tokens:
//
//     offset  size      what
//          0  8         magic "FTSHARD\n"
//          8  4         format version, 2
//         12  4         bytes of this header, 128
//         16  8         n
//         24  8         T
//         32  4         tokens of the longest example, 0 if n = 0
//         36  4         classes of the mapping; spans: 0
//         40  4         vocabulary: every id is below it
//         44  4         max_length, 0 = none: no example has more tokens
//         48  32        key, lower-case hex digits (XXH3-128 of format, options, tokenizer, mapping and source)
//         80  8         bytes of the payload
//         88  8         XXH3-64 of the payload
//         96  4         flags: 1 = spans
//        100  4         doc_stride: context tokens that neighbouring windows share; 0 without spans
//        104  4         rows of the source: questions with spans, else n
//        108  4         0
//        112  8         XXH3-64 of the 112 bytes above
//        120  8         zeros
//        128  8 (n+1)   offsets of the examples into ids and types; the first is 0, the last T
//             4 T       ids
//             4 n       labels, -1 = unlabelled; spans: first token of the answer, from the window's own first
//             4 n       tokens before truncation; spans: of the window
//             4 n       spans: last token of the answer; as labels 0 = not in this window, -1 = unlabelled
//             4 n       spans: row of the question; windows of a question are neighbours
//             4 n       spans: first context token of the window; the last one stands before its last token
//             4 T       spans: first byte of each token in the question or, from there on, in the context
//             4 T       spans: the byte behind it; both 0 for special tokens
//             T         token_type_ids, 0 or 1
//             0..7      zeros up to a multiple of 8; here the file ends
//
// Version 1 had no spans and one source row an example; shards of it have other keys and are simply not found.
//
// File name: <cache>/<task, / as ->-<split>-<first 16 digits of the key>.shard
#ifndef FINETUNED_DATA_SHARD_H
#define FINETUNED_DATA_SHARD_H

#include "base/file.h"
#include "base/pool.h"
#include "base/status.h"
#include "data/source.h"
#include "data/tokenizer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHARD_VERSION 2
#define SHARD_HEADER 128 // bytes

struct shard {
    struct file_map map;
    uint32_t n;              // examples
    const uint64_t *offsets; // [n+1] into ids and types
    const int32_t *ids;      // [tokens]
    const uint8_t *types;    // [tokens] token_type_ids
    const int32_t *labels;   // [n], -1 unlabelled; spans: first token of the answer
    const uint32_t *full;    // [n] tokens before truncation; spans: of the window
    bool spans;              // windows of questions and contexts; else the five below are NULL
    const int32_t *ends;     // [n] last token of the answer, >= labels; 0 and 0: not in this window; -1: unlabelled
    const uint32_t *rows;    // [n] row of the source, ascending, each at least once
    const uint32_t *context; // [n] first context token: context tokens are [context, length - 1), there may be none
    const uint32_t *begin;   // [tokens] byte offsets into the question or context; 0 and 0 for special tokens
    const uint32_t *end;     // [tokens]
    uint32_t questions;      // rows of the source: n without spans
    uint32_t doc_stride;     // 0 without spans
    uint64_t tokens;
    uint32_t longest;    // tokens of the longest example, 0 if empty
    uint32_t n_labels;   // classes of the mapping that made it
    uint32_t vocab_size; // every id is below it
    uint32_t max_length; // 0 = none
    char key[33];        // what it was made from; the same key, the same content
};

struct shard_options {
    enum tokenizer_special special;
    uint32_t max_length;
    bool truncation;     // false: a longer example is STATUS_DATA, naming file:line (or id) and its length
    bool spans;          // squad: windows with answer spans; `labels` has no names then
    uint32_t doc_stride; // spans: context tokens that neighbouring windows share
    enum tokenizer_normalize normalize;
    const char *spare; // where a shard is made that the cache lacks, which is then left as it is; NULL: in the cache
};

// Opens and checks a shard in full (magic, version, sizes, offsets in order, hash of the payload). STATUS_DATA if it is
// not one.
enum status shard_open(struct shard *out, const char *path);
void shard_close(struct shard *shard);

// The same check of bytes that stay the caller's; they start at a multiple of 8. `name` is for messages. Nothing to
// close.
enum status shard_parse(struct shard *out, const char *name, const void *bytes, size_t size);

// The shard of one split in `cache`: reused when nothing changed, else tokenised in parallel and committed. Safe when
// several processes do it at once: whoever is second waits for a lock or finds the finished file; a broken one is made
// anew. `made` (may be NULL) says whether it was tokenised now. Old shards of the same task and split with another key
// are left alone. A folder that can't be written is fine while it holds the shard. `pool` NULL: by the calling thread
// alone.
enum status shard_prepare(struct shard *out, bool *made, const char *cache, enum source_split split,
                          const struct source *source, const struct labels *labels, const struct tokenizer *tokenizer,
                          const struct shard_options *options, struct pool *pool);

// Whether the rows and byte offsets of spans lie inside this source, the one that the key is of: STATUS_DATA if not.
// shard_prepare has checked that.
enum status shard_check_source(const struct shard *shard, const char *name, const struct source *source);

// Lengths before truncation and what truncation cuts. Percentiles by nearest rank: the smallest length that at least
// that share of the examples does not exceed.
struct shard_report {
    uint32_t n, longest, p50, p99, cut; // tokens; `cut`: examples that lost tokens
    uint32_t questions;                 // spans: of which n are the windows; else n
    uint32_t answered;                  // spans: windows that hold their question's answer
    double mean;
    uint64_t tokens, tokens_cut; // tokens: those kept
};
// `n` is 0 if there is no memory.
struct shard_report shard_report(const struct shard *shard);

#endif
