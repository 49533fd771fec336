// SPDX-License-Identifier: Apache-2.0
// A checkpoint open for reading: nothing is believed before its hash was compared.
#ifndef FINETUNED_CHECKPOINTS_READER_H
#define FINETUNED_CHECKPOINTS_READER_H

#include "base/status.h"
#include "checkpoints/manifest.h"

struct reader {
    char *folder, *file; // paths
    struct manifest manifest;
    int fd;
    void *buffer; // a piece
};

// `path`: a step folder, a link to one, or its checkpoint.h5. The manifest is checked in full, then the file's size,
// the hashes of HDF5's own bytes and what they say (skeleton.h), so that HDF5 may be let at the file. STATUS_DATA: what
// is missing or wrong, where.
enum status reader_open(struct reader *out, const char *path);
void reader_close(struct reader *reader);

// Reads one piece into reader->buffer and compares its hash.
enum status reader_piece(struct reader *reader, const struct manifest_piece *piece);

// malloc'ed folder of the checkpoint that `path` names.
enum status reader_folder(char **out, const char *path);

// Manifest and file size only: good enough to count it among those that are kept.
enum status reader_glance(const char *folder);

#endif
