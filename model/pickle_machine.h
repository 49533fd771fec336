// SPDX-License-Identifier: Apache-2.0
// What the files of the unpickler share: the machine's state, and the few things that can be made by a call.
#ifndef FINETUNED_MODEL_PICKLE_MACHINE_H
#define FINETUNED_MODEL_PICKLE_MACHINE_H

#include "model/pickle.h"

struct machine {
    struct pickle *out;
    const char *begin, *at, *end; // `at`: the next byte to read
    const char *op;               // the opcode that is being run
    const char *name;
    struct pickle_value **stack, **memo;
    size_t stack_n, stack_room, memo_n, memo_room; // memo_n: one above the highest index that was put
    size_t *marks;                                 // heights of the stack at the open marks
    size_t marks_n, marks_room;
    bool stopped;
};

// "<file>: pickle, byte 17: what"; STATUS_DATA.
enum status machine_bad(const struct machine *m, const char *what);
// Room for `need` elements of `size` bytes in `array` (a pointer's address), doubled as it grows, new ones zeroed.
enum status machine_grow(void *array, size_t *room, size_t need, size_t size, const struct machine *m);
enum status machine_value(struct pickle_value **out, struct machine *m, enum pickle_kind kind);
enum status machine_push(struct machine *m, struct pickle_value *value);
enum status items_add(struct machine *m, struct pickle_items *items, struct pickle_value *value);

// An allowed name, or a refusal that says which name was wanted.
enum status import_find(struct pickle_value *out, const struct machine *m, struct pickle_string module,
                        struct pickle_string name);
// What calling `callable` with the tuple `arguments` makes.
enum status import_call(struct pickle_value **out, struct machine *m, const struct pickle_value *callable,
                        const struct pickle_value *arguments);
// A dict's attributes set by BUILD: an OrderedDict's _metadata, which means nothing to us, and no other.
enum status attributes_check(const struct machine *m, const struct pickle_value *target,
                             const struct pickle_value *state);
enum status storage_make(struct pickle_value *out, const struct machine *m, const struct pickle_value *id);

#endif
