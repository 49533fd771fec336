// SPDX-License-Identifier: Apache-2.0
#include "base/markup.h"

#include <jansson.h>
#include <stdlib.h>

#include <math.h>
#include <string.h>

static bool json_plain(uint32_t code) {
    return code >= 0x20 && code != '"' && code != '\\' && code != 0x7f && code != 0x85 && code != 0x2028 &&
           code != 0x2029;
}

static void json_escape(struct text *text, uint32_t code) {
    if (code == '"' || code == '\\')
        text_printf(text, "\\%c", (char)code);
    else
        text_printf(text, "\\u%04x", code);
}

void json_string_bytes(struct text *text, const char *string, size_t size) {
    const char *at = string, *run = string, *end = string + size; // from `run` on nothing is added yet
    text_add(text, "\"", 1);
    while (at < end) {
        uint32_t code = 0;
        unsigned length = utf8_decode(at, end, &code);
        if (length && json_plain(code)) {
            at += length;
            continue;
        }
        text_add(text, run, (size_t)(at - run));
        if (length)
            json_escape(text, code);
        else
            text_add(text, "\xef\xbf\xbd", 3);
        run = at += length ? length : 1;
    }
    text_add(text, run, (size_t)(at - run));
    text_add(text, "\"", 1);
}

void json_string_add(struct text *text, const char *string) {
    json_string_bytes(text, string, strlen(string));
}

void json_number_add(struct text *text, double value) {
    if (isfinite(value))
        text_printf(text, "%.9g", value);
    else
        text_puts(text, "null");
}

void markdown_cell_add(struct text *text, const char *string) {
    for (; *string; string++) {
        if (strchr("\\|*<>[]`", *string))
            text_puts(text, "\\");
        text_add(text, (unsigned char)*string < 0x20 ? " " : string, 1);
    }
}

char *json_dumps_whole(const struct json_t *value, size_t flags) {
    char *text = value ? json_dumps(value, flags) : NULL;
    json_t *back = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
    if (!json_equal(value, back)) {
        free(text);
        text = NULL;
    }
    json_decref(back);
    return text;
}
