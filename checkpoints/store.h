// SPDX-License-Identifier: Apache-2.0
// A file that HDF5 writes into memory, of which only what it writes takes room. HDF5 1.10 crashes at exit once a write
// of its own has failed, and can't say why it failed; so it never writes to the disk: we do, and know every byte that
// we write.
#ifndef FINETUNED_CHECKPOINTS_STORE_H
#define FINETUNED_CHECKPOINTS_STORE_H

#include "checkpoints/h5.h"

#include <stddef.h>
#include <stdint.h>

#define STORE_PAGE 16384 // bytes

struct store {
    char **pages; // NULL where nothing was written: zeros
    size_t n_pages;
    uint64_t size; // of the file
};

// A file access property list (H5Pclose it) under which H5Fcreate makes its file in `store` (zeroed before). The file
// must be closed before the store is released. Negative: no memory.
hid_t store_access(struct store *store);
void store_read(void *out, const struct store *store, uint64_t offset, uint64_t size);
void store_release(struct store *store);

#endif
