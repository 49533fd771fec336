// SPDX-License-Identifier: Apache-2.0
// The skeleton of checkpoint.h5: HDF5's own structures between the datasets, walked in full before the library sees the
// file. Its parser believes lengths and addresses that it finds; some wrong ones crash it. A hash keeps accidents away
// from it, this keeps away what somebody wrote together with a matching manifest. Allowed is only what HDF5's earliest
// format (superblock 0, the one that H5Fcreate writes by default) has for our groups, datasets and attributes.
// HDF5 File Format Specification, version 1.1; all numbers little-endian, addresses and lengths of 8 bytes.
#ifndef FINETUNED_CHECKPOINTS_SKELETON_H
#define FINETUNED_CHECKPOINTS_SKELETON_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SKELETON_MAX ((uint64_t)256 << 20) // bytes of all parts

// A stretch of HDF5's own bytes.
struct skeleton_part {
    uint64_t offset, size;
    unsigned char *bytes;
};

struct skeleton {
    const char *path; // for messages
    struct skeleton_part *parts;
    size_t n; // by offset, no two overlap
    uint64_t file_size;
    uint64_t left; // structures that may still be looked at: a circle ends here
};

// A pure function of the parts. STATUS_DATA: which structure, at which byte.
enum status skeleton_check(struct skeleton *skeleton);
void skeleton_release(struct skeleton *skeleton); // the parts and their bytes

// ---- between the files of skeleton

#define SKELETON_NONE UINT64_MAX // HDF5's "undefined address"

// The bytes at an address, NULL unless all of them are in one part.
const unsigned char *skeleton_at(const struct skeleton *skeleton, uint64_t at, uint64_t size);
uint64_t skeleton_number(const unsigned char *at, unsigned bytes);
enum status skeleton_bad(const struct skeleton *skeleton, uint64_t at, const char *what);
// STATUS_DATA if too much was looked at.
enum status skeleton_visit(struct skeleton *skeleton, uint64_t at);

// skeleton_object.c: an object header, of a group or a dataset.
struct skeleton_object {
    bool group;
    uint64_t tree, heap; // of a group's symbol table message
};
enum status skeleton_object(struct skeleton_object *out, struct skeleton *skeleton, uint64_t at);
// skeleton_attribute.c: an attribute message.
enum status skeleton_attribute(struct skeleton *skeleton, uint64_t at, const unsigned char *bytes, size_t size);

#endif
