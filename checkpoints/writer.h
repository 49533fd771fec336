// SPDX-License-Identifier: Apache-2.0
// A thread that writes this rank's pieces of a checkpoint straight from the arenas while training goes on. It knows
// nothing of other ranks and touches only its file.
//
// The order is that of the coming updates: bucket 1, … head, then bucket 0 (embeddings, of which a step changes few
// rows), then the frozen ones; within a bucket the file's. Who is about to change a bucket calls writer_release for it:
// what of it is still to be read is copied aside then, or waited for; what is aside is written next.
#ifndef FINETUNED_CHECKPOINTS_WRITER_H
#define FINETUNED_CHECKPOINTS_WRITER_H

#include "base/row_set.h"
#include "checkpoints/pieces.h"

struct writer;

struct writer_options {
    const struct param_table *table;
    struct checkpoint_arenas arenas;
    int rank;          // whose pieces
    struct pool *pool; // copies aside; NULL: the calling thread does
    uint64_t buffer;   // bytes that may be copied aside, at most
};

// Opens the file, which is there with its space, and begins. `pieces` is borrowed to the close; the hashes of this
// rank's are known after writer_join. STATUS_IO, STATUS_SYSTEM.
enum status writer_open(struct writer **out, struct pieces *pieces, const char *path,
                        const struct writer_options *options);
// After it the bucket may be changed; of its embeddings only these rows (NULL: all). To be called by the pool's thread.
// At once if the writer is at its end.
void writer_release(struct writer *writer, unsigned bucket, const struct row_set *rows);

// Where it is, without waiting.
enum writer_progress { WRITER_BUSY, WRITER_WRITTEN, WRITER_FAILED };
enum writer_progress writer_progress(struct writer *writer);
// It ends after the piece that it is at; what it has not written will be missing.
void writer_cancel(struct writer *writer);
// Waits for its end. What went wrong, and how long it took. A value that is not finite is never written (STATUS_DATA).
// STATUS_OK if it was cancelled before anything went wrong.
enum status writer_join(struct writer *writer, double *seconds);
void writer_close(struct writer *writer); // cancels and waits, if nobody has; NULL is fine

#endif
