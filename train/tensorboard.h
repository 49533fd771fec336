// SPDX-License-Identifier: Apache-2.0
// <out>/tensorboard: event files, one a start, appended to by rank 0. An event is one record (train/tfrecord.h),
// written with one write at once: a crash loses at most the last one.
#ifndef FINETUNED_TRAIN_TENSORBOARD_H
#define FINETUNED_TRAIN_TENSORBOARD_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

struct tensorboard {
    int fd; // -1: nothing is written
    char *path;
    struct text record;
};

struct tensorboard_scalar {
    const char *tag;
    double value; // kept in 32 bits
};

// `first`: the first step that this start will do. What earlier files say of it and of later steps no longer counts.
enum status tensorboard_open(struct tensorboard *board, const char *out, uint64_t first);
void tensorboard_close(struct tensorboard *board);

// One event: values of a step. STATUS_IO if it can't be written.
enum status tensorboard_write(struct tensorboard *board, uint64_t step, const struct tensorboard_scalar *scalars,
                              size_t n);
#define TENSORBOARD_SCALARS_MAX 32 // of one event

#endif
