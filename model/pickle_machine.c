// SPDX-License-Identifier: Apache-2.0
// The machine's memory: values in chunks, a stack, items of lists and dicts, each under a ceiling.
#include "model/pickle_machine.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK 256 // values

struct pickle_chunk {
    struct pickle_chunk *next;
    size_t n, total; // values in this chunk; in it and all older ones
    struct pickle_value at[CHUNK];
};

const char *pickle_kind_name(enum pickle_kind kind) {
    static const char *const names[] = {"None", "bool", "int",         "float",         "string",  "tuple",
                                        "list", "dict", "OrderedDict", "imported name", "storage", "tensor"};
    return names[kind];
}

enum status machine_bad(const struct machine *m, const char *what) {
    return status_set(STATUS_DATA, "%s: pickle, byte %zu: %s", m->name, (size_t)(m->op - m->begin), what);
}

static enum status no_memory(const struct machine *m) {
    return status_set(STATUS_SYSTEM, "%s: no memory for its pickle", m->name);
}

enum status machine_grow(void *array, size_t *room, size_t need, size_t size, const struct machine *m) {
    void *old, *grown;
    if (need <= *room)
        return STATUS_OK;
    if (need > PICKLE_VALUES_MAX)
        return machine_bad(m, "it holds more than 1048576 values");
    size_t more = *room ? *room * 2 : 4;
    more = more < need ? need : more;
    memcpy(&old, array, sizeof old);
    grown = realloc(old, more * size);
    if (!grown)
        return no_memory(m);
    memset((char *)grown + *room * size, 0, (more - *room) * size);
    memcpy(array, &grown, sizeof grown);
    *room = more;
    return STATUS_OK;
}

enum status machine_value(struct pickle_value **out, struct machine *m, enum pickle_kind kind) {
    struct pickle_chunk *chunk = m->out->chunks;
    if (!chunk || chunk->n == CHUNK) {
        if (chunk && chunk->total >= PICKLE_VALUES_MAX)
            return machine_bad(m, "it holds more than 1048576 values");
        chunk = malloc(sizeof *chunk);
        if (!chunk)
            return no_memory(m);
        chunk->next = m->out->chunks;
        chunk->n = 0;
        chunk->total = chunk->next ? chunk->next->total : 0;
        m->out->chunks = chunk;
    }
    *out = &chunk->at[chunk->n++];
    chunk->total++;
    **out = (struct pickle_value){.kind = kind};
    return STATUS_OK;
}

static bool has_items(const struct pickle_value *value) {
    return value->kind >= PICKLE_TUPLE && value->kind <= PICKLE_ORDERED;
}

void pickle_release(struct pickle *pickle) {
    for (struct pickle_chunk *chunk = pickle->chunks, *next; chunk; chunk = next) {
        for (size_t i = 0; i < chunk->n; i++)
            if (has_items(&chunk->at[i]))
                free(chunk->at[i].items.at);
        next = chunk->next;
        free(chunk);
    }
    *pickle = (struct pickle){0};
}

enum status machine_push(struct machine *m, struct pickle_value *value) {
    TRY(machine_grow(&m->stack, &m->stack_room, m->stack_n + 1, sizeof(struct pickle_value *), m));
    m->stack[m->stack_n++] = value;
    return STATUS_OK;
}

enum status items_add(struct machine *m, struct pickle_items *items, struct pickle_value *value) {
    TRY(machine_grow(&items->at, &items->room, items->n + 1, sizeof(struct pickle_value *), m));
    items->at[items->n++] = value;
    return STATUS_OK;
}
