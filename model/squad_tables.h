// SPDX-License-Identifier: Apache-2.0
// How Python's strings class and lower code points: sorted runs (squad_generate.py).
#ifndef FINETUNED_MODEL_SQUAD_TABLES_H
#define FINETUNED_MODEL_SQUAD_TABLES_H

#include <stddef.h>
#include <stdint.h>

struct squad_range {
    uint32_t first, last; // both included
};
// Code points first, first + step, … last become lower case by adding `distance`.
struct squad_lower {
    uint32_t first, last;
    uint32_t step;
    int32_t distance;
};

extern const size_t squad_word_n, squad_space_n, squad_cased_n, squad_ignorable_n, squad_lower_n;
extern const struct squad_range squad_word[];      // \w of re
extern const struct squad_range squad_space[];     // what str.split() splits at
extern const struct squad_range squad_cased[];     // makes a sigma behind it final; not in squad_ignorable
extern const struct squad_range squad_ignorable[]; // passed over in looking for a cased one
extern const struct squad_lower squad_lower[];     // all but U+0130, whose lower case is two code points

#endif
