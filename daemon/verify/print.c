// SPDX-License-Identifier: Apache-2.0
#include "base/markup.h"
#include "daemon/verify/verify.h"

#include <stdlib.h>

enum status verify_status(const struct verify *v) {
    enum status status = STATUS_OK;
    const struct verify_item *first = NULL;
    for (size_t i = 0; i < v->n; i++) {
        if (v->items[i].status == STATUS_OK)
            continue;
        first = first ? first : &v->items[i];
        status = status == STATUS_DATA ? status : v->items[i].status;
    }
    if (!first)
        return STATUS_OK;
    return status_set(status, "%s: %zu of %zu things are not intact; the first: %s: %s", v->path, v->wrong, v->n,
                      first->path, first->why);
}

static const char *verify_word(const struct verify_item *item) {
    return item->status != STATUS_OK ? "WRONG" : item->depth == VERIFY_HASHES ? "intact" : "well-formed";
}

static void verify_print_text(struct text *out, const struct verify *v) {
    for (size_t i = 0; i < v->n; i++)
        text_printf(out, "%-11s  %-10s  %s%s%s\n", verify_word(&v->items[i]), v->items[i].kind, v->items[i].path,
                    v->items[i].why ? ": " : "", v->items[i].why ? v->items[i].why : "");
    for (size_t i = 0; i < v->n_notes; i++)
        text_printf(out, "%-11s  %-10s  %s: %s\n", "note", "", v->notes[i].path, v->notes[i].text);
    if (!v->wrong)
        text_printf(out, "intact: %zu things; every hash that is recorded agrees\n", v->n);
}

static void verify_print_pair(struct text *out, const char *before, const char *key, const char *value) {
    text_printf(out, "%s\"%s\": ", before, key);
    json_string_add(out, value);
}

static void verify_print_json(struct text *out, const struct verify *v, enum inspect_kind kind) {
    verify_print_pair(out, "{", "kind", inspect_kind_name(kind));
    verify_print_pair(out, ", ", "path", v->path);
    text_printf(out, ", \"intact\": %s, \"items\": [", v->wrong ? "false" : "true");
    for (size_t i = 0; i < v->n; i++) {
        verify_print_pair(out, i ? ", {" : "{", "path", v->items[i].path);
        verify_print_pair(out, ", ", "kind", v->items[i].kind);
        text_printf(out, ", \"intact\": %s", v->items[i].status == STATUS_OK ? "true" : "false");
        verify_print_pair(out, ", ", "checked", v->items[i].depth == VERIFY_HASHES ? "hashes" : "structure");
        if (v->items[i].why)
            verify_print_pair(out, ", ", "why", v->items[i].why);
        text_puts(out, "}");
    }
    text_puts(out, "], \"notes\": [");
    for (size_t i = 0; i < v->n_notes; i++) {
        verify_print_pair(out, i ? ", {" : "{", "path", v->notes[i].path);
        verify_print_pair(out, ", ", "note", v->notes[i].text);
        text_puts(out, "}");
    }
    text_puts(out, "]}\n");
}

void verify_print(struct text *out, const struct verify *v, enum inspect_kind kind, bool json) {
    if (json)
        verify_print_json(out, v, kind);
    else
        verify_print_text(out, v);
}
