// SPDX-License-Identifier: Apache-2.0
// finetuned.sha256: the SHA-256 of every other file of a model directory, a line each, as `sha256sum -c` reads it:
//
//   <64 lower-case hex digits>  <name, folders with />
//
// Read as that reads it, too: upper-case digits and lines that end in CR LF will do. Names are sorted by bytes. Whoever
// loads the model does not need it and need not hash; `inspect --verify` compares.
#ifndef FINETUNED_EXPORT_SUMS_H
#define FINETUNED_EXPORT_SUMS_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

#define SUMS_NAME "finetuned.sha256"
#define SUMS_CARD "README.md"
#define SUMS_MAX ((size_t)1 << 20) // bytes of the list
#define SUMS_FILES 4096            // lines

struct sum {
    char *name;
    char sha256[65];
    bool seen; // for the one who compares
};

struct sums {
    struct sum *at; // in the list's order
    size_t n;
};

// A pure function of bytes. STATUS_DATA with the line: what is no sum, a name that leads out of the folder, is there
// twice, or is the list's own.
enum status sums_parse(struct sums *out, const char *bytes, size_t size, const char *name);
// Of `folder`; none (n = 0) if it has no list.
enum status sums_read(struct sums *out, const char *folder);
void sums_release(struct sums *sums);
struct sum *sums_find(const struct sums *sums, const char *name);

// Whether a name is one that a list may hold: it stays in the folder.
bool sums_name_is_right(const char *name, size_t size);

// Writes the list of all that is in `folder` and its folders now.
enum status sums_write(const char *folder);

// Compares every file of the list: STATUS_DATA names those that differ or are missing. `others` (may be NULL): files of
// the folder that are not in the list.
enum status sums_check(size_t *others, const struct sums *sums, const char *folder);
// One of them.
enum status sums_check_file(const struct sum *sum, const char *folder);
// Whether the card is as the list says; false too where the list is gone or can't be read.
bool sums_card_is_own(const char *folder);
// Whether a name is one that we write into a model directory.
bool sums_name_is_known(const char *name);
// A list of a directory of ours (one with a finetuned.json) that lacks what is always written with it, or that ends
// before a file of ours that is there, was cut: the first such name, or NULL. A file that somebody added may have one
// of our names, and not be in it.
const char *sums_cut(const struct sums *sums, const char *folder);
// The whole: a folder that has a list (`listed`) is as that says; STATUS_DATA: what is not, or a list that can't be
// read.
enum status sums_verify(bool *listed, const char *folder);
// Likewise for who makes something of it, or would make it again: the card is text for people, who may have edited it.
enum status sums_usable(bool *listed, const char *folder);

#endif
