// SPDX-License-Identifier: Apache-2.0
// How this folder uses HDF5: quiet, without file locks, every id closed, its reason in our one-line messages.
#ifndef FINETUNED_CHECKPOINTS_H5_H
#define FINETUNED_CHECKPOINTS_H5_H

#include "base/status.h"

#include <hdf5.h>
#include <stdbool.h>

// Before any other call of HDF5 in a function that others call. Sets HDF5_USE_FILE_LOCKING=FALSE before the library's
// first call (so that it works on NFS and Lustre) and silences this thread's error printing.
void h5_start(void);

// What was taken for bad data (STATUS_DATA) since h5_start may be a disk that could not be read: then STATUS_IO.
enum status h5_blame(enum status status, const char *path);

// "format: what HDF5 says, innermost". Call it before any other call of HDF5, which would clear what it says.
enum status h5_error(enum status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Whether `name` in `at` is an ordinary object of the same file: no soft or external link that leads elsewhere.
bool h5_is_hard(hid_t at, const char *name);

// A group or dataset of the file; negative if it is missing, a link elsewhere, or of another kind.
hid_t h5_group(hid_t at, const char *name);
hid_t h5_dataset(hid_t at, const char *name);

#endif
