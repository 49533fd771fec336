// SPDX-License-Identifier: Apache-2.0
// A walk of faults: an action is done again and again, each time in a child process on a fresh copy of its folder, with
// the n-th call hit, n = 1, 2, … until it passes untouched; after each, what must hold is checked, and a new start in
// another child must mend everything.
#ifndef FINETUNED_TESTS_SHIM_WALK_H
#define FINETUNED_TESTS_SHIM_WALK_H

#include "base/status.h"
#include "shim.h"

struct walk {
    char *folder; // what the action works on; resolved
    char *before; // how it is at the start of each attempt
    char *log;    // standard error of the last attempt
    char at[256]; // which attempt this is, for messages
    void *own;    // the subject's
};

struct outcome {
    enum status status; // of the action
    bool killed;        // it did not come to its end: as planned, or a library (HDF5, libarchive) ended it for want of
                        // memory
    uint64_t seen;      // calls that were counted
    char message[1024]; // status_message()
};

struct fault {
    const char *name, *calls, *action;
    uint64_t n;      // calls from the n-th on
    bool harmless;   // the action must not notice
    bool persistent; // what cleans up may be hit too
    bool memory;
};

struct subject {
    const char *name;
    void (*open)(struct walk *walk); // makes walk->folder as it is before
    enum status (*act)(struct walk *walk);
    // What must hold after an attempt, before the new start.
    void (*check)(struct walk *walk, const struct outcome *outcome, const struct fault *fault);
    enum status (*again)(struct walk *walk); // a new start
    void (*done)(struct walk *walk);         // everything is as if nothing had happened
};

extern const struct subject walk_save, walk_replace, walk_retain, walk_export, walk_archive, walk_sagemaker, walk_shard,
    walk_file;

// Ends the test unless `right`, telling the attempt, what, and what was logged.
void walk_need(const struct walk *walk, bool right, const char *what, const char *detail);

// ---- folders

// Everything below `path` but temporary names, as one line a thing: name, kind, XXH3-64 of its bytes. malloc'ed.
char *tree_print(const char *path);
// The first temporary name below `path`, at any depth; NULL: none. malloc'ed.
char *tree_left(const char *path);
void tree_copy(const char *to, const char *from);

#endif
