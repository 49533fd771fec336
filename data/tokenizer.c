// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer_parts.h"

#include "base/text.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES_MAX ((size_t)1 << 30)

const char *const tokenizer_role_keys[ROLES] = {"cls_token", "sep_token", "pad_token", "unk_token", "mask_token"};

const char *tokenizer_role_default(enum tokenizer_kind kind, enum tokenizer_role role) {
    static const char *const names[2][ROLES] = {
        [TOKENIZER_BPE] = {"<s>", "</s>", "<pad>", "<unk>", "<mask>"},
        [TOKENIZER_WORDPIECE] = {"[CLS]", "[SEP]", "[PAD]", "[UNK]", "[MASK]"},
    };
    return names[kind][role];
}

enum status tokenizer_init(struct tokenizer **out) {
    static _Atomic uint64_t serials;
    struct tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
    if (!tokenizer)
        return status_set(STATUS_SYSTEM, "tokenizer: no memory");
    tokenizer->serial = ++serials;
    tokenizer->wordpiece = (struct wordpiece){.lower = true, .cjk = true, .characters = 100, .unknown = -1};
    enum status status = vocabulary_init(&tokenizer->vocabulary);
    if (status != STATUS_OK) {
        tokenizer_close(tokenizer);
        return status;
    }
    *out = tokenizer;
    return STATUS_OK;
}

void tokenizer_close(struct tokenizer *tokenizer) {
    if (!tokenizer)
        return;
    for (int i = 0; i < TOKENIZER_FILES; i++)
        free(tokenizer->files[i].bytes);
    for (int i = 0; i < ROLES; i++)
        free(tokenizer->names[i]);
    specials_release(&tokenizer->specials);
    bpe_release(&tokenizer->bpe);
    vocabulary_release(&tokenizer->vocabulary);
    free(tokenizer);
}

enum status tokenizer_name(struct tokenizer *tokenizer, enum tokenizer_role role, const char *text) {
    char *name = strdup(text);
    if (!name)
        return status_set(STATUS_SYSTEM, "tokenizer: no memory");
    free(tokenizer->names[role]);
    tokenizer->names[role] = name;
    return STATUS_OK;
}

int32_t tokenizer_find(const struct tokenizer *tokenizer, const char *text, size_t size) {
    int32_t id = vocabulary_find(&tokenizer->vocabulary, text, size);
    for (uint32_t i = 0; id < 0 && i < tokenizer->specials.n; i++) {
        const struct special *special = &tokenizer->specials.list[i];
        if (special->size == size && !memcmp(special->text, text, size))
            id = special->id;
    }
    return id;
}

// A role's token is a special token even if no file lists it; RoBERTa's <mask> takes in the white space to its left.
static enum status role_find(struct tokenizer *tokenizer, enum tokenizer_role role) {
    const char *name = tokenizer->names[role];
    if (!name)
        name = tokenizer_role_default(tokenizer->kind, role);
    int32_t id = tokenizer_find(tokenizer, name, strlen(name));
    bool optional = role == ROLE_MASK || (role == ROLE_UNK && tokenizer->kind == TOKENIZER_BPE);
    tokenizer->roles[role] = id;
    if (id < 0)
        return optional ? STATUS_OK
                        : status_set(STATUS_DATA, "the %s \"%s\" is not in the vocabulary", tokenizer_role_keys[role],
                                     vocabulary_quote(name, strlen(name)));
    if (specials_find(&tokenizer->specials, id))
        return STATUS_OK;
    struct special special = {.id = id, .text = name, .size = (uint32_t)strlen(name), .special = true};
    special.lstrip = role == ROLE_MASK && tokenizer->kind == TOKENIZER_BPE;
    return specials_set(&tokenizer->specials, &special);
}

enum status tokenizer_finish(struct tokenizer *tokenizer) {
    for (enum tokenizer_role role = 0; role < ROLES; role++)
        TRY(role_find(tokenizer, role));
    if (tokenizer->kind != TOKENIZER_WORDPIECE)
        return STATUS_OK;
    tokenizer->wordpiece.unknown = tokenizer->roles[ROLE_UNK];
    for (const char *at = WORDPIECE_PREFIX; *at; at++) {
        tokenizer->wordpiece.inner =
            trie_step(&tokenizer->vocabulary.trie, tokenizer->wordpiece.inner, (unsigned char)*at);
        if (!tokenizer->wordpiece.inner)
            break;
    }
    if (tokenizer->specials.passes[1])
        return status_set(STATUS_DATA, "added tokens that are normalized are not supported with a BertNormalizer");
    return STATUS_OK;
}

struct tokenizer_info tokenizer_info(const struct tokenizer *tokenizer) {
    bool wordpiece = tokenizer->kind == TOKENIZER_WORDPIECE;
    return (struct tokenizer_info){
        .kind = tokenizer->kind,
        .vocab_size = tokenizer->vocabulary.size,
        .bos = tokenizer->roles[ROLE_CLS],
        .eos = tokenizer->roles[ROLE_SEP],
        .pad = tokenizer->roles[ROLE_PAD],
        .unk = tokenizer->roles[ROLE_UNK],
        .mask = tokenizer->roles[ROLE_MASK],
        .lower_case = wordpiece && tokenizer->wordpiece.lower,
        .add_prefix_space = !wordpiece && tokenizer->bpe.add_prefix_space,
    };
}

void tokenizer_set_prefix_space(struct tokenizer *tokenizer, bool on) {
    tokenizer->bpe.add_prefix_space = on;
}

const char *tokenizer_token(const struct tokenizer *tokenizer, int32_t id) {
    return vocabulary_text(&tokenizer->vocabulary, id);
}

void tokenizer_hash(const struct tokenizer *tokenizer, struct hash_stream *hash) {
    const struct wordpiece *wordpiece = &tokenizer->wordpiece;
    const struct bpe *bpe = &tokenizer->bpe;
    int32_t settings[] = {1, // what this hash covers
                          tokenizer->kind,
                          wordpiece->lower,
                          wordpiece->cjk,
                          (int32_t)wordpiece->characters,
                          bpe->add_prefix_space,
                          (int32_t)bpe->n,
                          (int32_t)tokenizer->vocabulary.size};
    hash_add(hash, settings, sizeof settings);
    hash_add(hash, tokenizer->roles, sizeof tokenizer->roles);
    for (uint32_t id = 0; id < tokenizer->vocabulary.size; id++) {
        const char *text = vocabulary_text(&tokenizer->vocabulary, id);
        hash_add_string(hash, text ? text : "");
    }
    if (bpe->merges)
        hash_add(hash, bpe->merges, ((size_t)bpe->mask + 1) * sizeof *bpe->merges);
    for (uint32_t i = 0; i < tokenizer->specials.n; i++) {
        const struct special *special = &tokenizer->specials.list[i];
        int32_t flags[] = {special->id, special->special, special->lstrip, special->rstrip, special->normalized};
        hash_add(hash, flags, sizeof flags);
    }
}

static enum status piece_encode(const struct tokenizer *tokenizer, struct encoding *out, const char *text, size_t begin,
                                size_t end) {
    if (tokenizer->kind == TOKENIZER_BPE)
        return bpe_encode(&tokenizer->bpe, out, out->scratch, text, begin, end);
    return wordpiece_encode(&tokenizer->wordpiece, &tokenizer->vocabulary.trie, out, out->scratch, text, begin, end);
}

// Cuts text[begin, end) at the added tokens of `pass` (0: as they stand, 1: normalized), and what is between by the
// next pass.
static enum status pieces_encode(const struct tokenizer *tokenizer, struct encoding *out, const char *text,
                                 size_t begin, size_t end, bool literal, int pass) {
    const struct specials *specials = &tokenizer->specials;
    while (pass < 2 && (!specials->passes[pass] || (literal && !specials->plain)))
        pass++;
    if (pass == 2)
        return piece_encode(tokenizer, out, text, begin, end);
    struct special_match match;
    size_t done = begin, scan = begin;
    while (specials_next(specials, pass, literal, text, begin, end, &scan, &match)) {
        if (done < match.taken)
            TRY(pieces_encode(tokenizer, out, text, done, match.taken, literal, pass + 1));
        TRY(encoding_push(out, match.id, (uint32_t)match.begin, (uint32_t)match.end));
        done = match.after;
    }
    return done < end ? pieces_encode(tokenizer, out, text, done, end, literal, pass + 1) : STATUS_OK;
}

// As pieces_encode, of the normalised text; offsets are the original's.
static enum status normalized_encode(const struct tokenizer *tokenizer, struct encoding *out, const char *text,
                                     size_t size, bool literal) {
    struct normalized *normalized = &((struct encoding_scratch *)out->scratch)->normalized;
    uint32_t first = out->n;
    TRY(normalize_tweet(normalized, text, size));
    TRY(pieces_encode(tokenizer, out, normalized->text, 0, normalized->size, literal, 0));
    if (normalized->n)
        normalized_map(normalized, out->begin + first, out->end + first, out->n - first);
    return STATUS_OK;
}

static enum status text_encode(const struct tokenizer *tokenizer, struct encoding *out, const char *text, size_t size,
                               const struct tokenizer_options *options) {
    bool literal = options->special == TOKENIZER_LITERAL;
    if (size > TEXT_BYTES_MAX)
        return status_set(STATUS_DATA, "a text of %zu bytes is above the ceiling of %zu", size, TEXT_BYTES_MAX);
    size_t valid = utf8_check(text, size);
    if (valid != size)
        return status_set(STATUS_DATA, "not UTF-8 at byte %zu (0x%02x)", valid, (unsigned char)text[valid]);
    if (options->normalize == NORMALIZE_TWEET)
        return normalized_encode(tokenizer, out, text, size, literal);
    return pieces_encode(tokenizer, out, text, 0, size, literal, 0);
}

// The library's "longest_first" rule (golden/README.md): the lengths that are left when both may have `room` tokens in
// all.
static void lengths_cut(uint32_t *first, uint32_t *second, uint32_t room) {
    uint32_t n1 = *first, n2 = *second;
    bool swapped = n1 > n2;
    if ((uint64_t)n1 + n2 <= room)
        return;
    if (swapped) {
        n1 = *second;
        n2 = *first;
    }
    if (n1 > room)
        n2 = n1;
    else
        n2 = n1 > room - n1 ? n1 : room - n1;
    if ((uint64_t)n1 + n2 > room) {
        n1 = room / 2;
        n2 = n1 + room % 2;
    }
    *first = swapped ? n2 : n1;
    *second = swapped ? n1 : n2;
}

static void tokens_move(struct encoding *out, uint32_t to, uint32_t from, uint32_t n) {
    memmove(out->ids + to, out->ids + from, n * sizeof *out->ids);
    memmove(out->begin + to, out->begin + from, n * sizeof *out->begin);
    memmove(out->end + to, out->end + from, n * sizeof *out->end);
}

static void outer_put(struct encoding *out, uint32_t at, int32_t id) {
    out->ids[at] = id;
    out->begin[at] = out->end[at] = 0;
    out->sequence[at] = -1;
}

// Lays out <s> A </s> </s> B </s>, or [CLS] A [SEP] B [SEP], where A's n1 tokens and then B's lie from index 0; of each
// the first cut1 and cut2 are kept. B goes first: its place is behind all of A that is kept.
static enum status tokens_frame(const struct tokenizer *tokenizer, struct encoding *out, uint32_t n1, uint32_t cut1,
                                uint32_t cut2, bool pair) {
    int32_t cls = tokenizer->roles[ROLE_CLS], sep = tokenizer->roles[ROLE_SEP];
    uint32_t between = !pair ? 0 : tokenizer->kind == TOKENIZER_BPE ? 2 : 1;
    uint32_t begin2 = 1 + cut1 + between, n = begin2 + cut2 + 1;
    if (out->room < n)
        TRY(encoding_grow(out, n));
    tokens_move(out, begin2, n1, cut2);
    tokens_move(out, 1, 0, cut1);
    memset(out->sequence, 0, n);
    memset(out->sequence + begin2, pair, cut2);
    memset(out->types, 0, n);
    if (pair && tokenizer->kind == TOKENIZER_WORDPIECE)
        memset(out->types + begin2, 1, cut2 + 1);
    outer_put(out, 0, cls);
    for (uint32_t i = 0; i < between; i++)
        outer_put(out, 1 + cut1 + i, sep);
    outer_put(out, n - 1, sep);
    out->n = n;
    return STATUS_OK;
}

enum status tokenizer_encode(const struct tokenizer *tokenizer, struct encoding *out, const char *text,
                             size_t text_size, const char *pair, size_t pair_size,
                             const struct tokenizer_options *options) {
    struct encoding_scratch *scratch;
    uint32_t outer = !pair ? 2 : tokenizer->kind == TOKENIZER_BPE ? 4 : 3;
    out->n = out->full = 0;
    if (options->max_length && options->max_length < outer)
        return status_set(STATUS_USAGE, "max_length %u has no room for the %u special tokens", options->max_length,
                          outer);
    TRY(encoding_scratch(&scratch, out, tokenizer->serial));
    TRY(text_encode(tokenizer, out, text, text_size, options));
    uint32_t n1 = out->n, n2 = 0;
    if (pair) {
        enum status status = text_encode(tokenizer, out, pair, pair_size, options);
        if (status != STATUS_OK)
            return status == STATUS_DATA ? status_add(status, "second text") : status;
        n2 = out->n - n1;
    }
    uint32_t cut1 = n1, cut2 = n2;
    if (options->max_length)
        lengths_cut(&cut1, &cut2, options->max_length - outer);
    out->full = n1 + n2 + outer;
    return tokens_frame(tokenizer, out, n1, cut1, cut2, pair != NULL);
}
