// SPDX-License-Identifier: Apache-2.0
// What was found in a folder, a line each.
#include "daemon/verify/parts.h"

#include "base/file.h"

#include <stdlib.h>
#include <string.h>

void verify_release(struct verify *v) {
    for (size_t i = 0; i < v->n; i++) {
        free(v->items[i].path);
        free(v->items[i].kind);
        free(v->items[i].why);
    }
    for (size_t i = 0; i < v->n_notes; i++) {
        free(v->notes[i].path);
        free(v->notes[i].text);
    }
    free(v->items);
    free(v->notes);
    *v = (struct verify){0};
}

enum status verify_no_memory(const struct verify *v) {
    return status_set(STATUS_SYSTEM, "inspect %s: no memory", v->path);
}

enum status verify_note(struct verify *v, const char *name, const char *text) {
    struct verify_note next = {strdup(name), strdup(text)};
    struct verify_note *grown = realloc(v->notes, (v->n_notes + 1) * sizeof *grown);
    if (grown)
        v->notes = grown;
    if (!grown || !next.path || !next.text) {
        free(next.path);
        free(next.text);
        return verify_no_memory(v);
    }
    v->notes[v->n_notes++] = next;
    return STATUS_OK;
}

bool verify_there(const struct verify *v, const char *name) {
    char *path = path_join(v->path, name);
    bool is = path && file_named(path);
    free(path);
    return is;
}

enum status verify_add(struct verify *v, const char *name, const char *kind, enum status status,
                       enum verify_depth depth) {
    struct verify_item next = {.path = strdup(name), .kind = strdup(kind), .status = status, .depth = depth};
    next.why = status != STATUS_OK ? strdup(status_message()) : NULL;
    struct verify_item *grown = realloc(v->items, (v->n + 1) * sizeof *grown);
    if (grown)
        v->items = grown;
    if (!grown || !next.path || !next.kind || (status != STATUS_OK && !next.why)) {
        free(next.path);
        free(next.kind);
        free(next.why);
        return verify_no_memory(v);
    }
    v->items[v->n++] = next;
    v->wrong += status != STATUS_OK;
    return STATUS_OK;
}

// What was found of one thing. Only damage and what can't be read are findings; other failures end the whole.
enum status verify_found(struct verify *v, const char *name, const char *kind, enum status status,
                         enum verify_depth depth) {
    if (status != STATUS_OK && status != STATUS_DATA && status != STATUS_IO)
        return status;
    if (status != STATUS_OK && !verify_there(v, name))
        return verify_note(v, name, "went while it was being read");
    return verify_add(v, name, kind, status, depth);
}

enum status verify_found_one(struct verify *v, const char *name, enum inspect_kind kind) {
    enum verify_depth depth = VERIFY_HASHES;
    char *path = path_join(v->path, name);
    if (!path)
        return verify_no_memory(v);
    enum status status = verify_one(&depth, kind, path);
    free(path);
    return verify_found(v, name, inspect_kind_name(kind), status, depth);
}

// What should be there and is not. `why`: what tells of it.
enum status verify_lacks(struct verify *v, const char *name, const char *kind, const char *why) {
    return verify_there(v, name)
               ? STATUS_OK
               : verify_add(v, name, kind, status_set(STATUS_DATA, "%s: is missing: %s", name, why), VERIFY_STRUCTURE);
}
