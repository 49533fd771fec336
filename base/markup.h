// SPDX-License-Identifier: Apache-2.0
// Values as they stand in JSON and in a Markdown table.
#ifndef FINETUNED_BASE_MARKUP_H
#define FINETUNED_BASE_MARKUP_H

#include <stddef.h>
#include "base/text.h"

// "string" in JSON, quotes included, onto `text`. Invalid UTF-8 is replaced by U+FFFD. Valid as a YAML string too.
void json_string_bytes(struct text *text, const char *string, size_t size);
void json_string_add(struct text *text, const char *string);
// A number with nine digits; null if it is not finite.
void json_number_add(struct text *text, double value);

// A cell of a Markdown table: what would be taken for markup is escaped, a line's end becomes a blank.
void markdown_cell_add(struct text *text, const char *string);

// What json_dumps gives for a value without inexact numbers, read back and compared: without memory jansson's (2.14)
// may leave a piece out. malloc'ed; NULL: no memory.
struct json_t;
char *json_dumps_whole(const struct json_t *value, size_t flags);

#endif
