// SPDX-License-Identifier: Apache-2.0
#include "data/label_index.h"

#include "base/hash.h"
#include "data/row.h"

#include <stdlib.h>
#include <string.h>

// A whole number in its one canonical spelling: no plus, no leading zero, no "-0".
static bool number(const char *at, size_t size, int64_t *out) {
    bool minus = size > 1 && at[0] == '-';
    uint32_t value;
    if (!row_decimal(at + minus, size - minus, UINT32_MAX, &value) || (minus && value == 0))
        return false;
    *out = minus ? -(int64_t)value : value;
    return true;
}

// The slot that holds the name, or the free one where it would go. The table is never full.
static uint32_t *slot_find(const struct label_index *index, const char *name, size_t size) {
    for (uint32_t at = (uint32_t)hash64(name, size) & index->mask;; at = (at + 1) & index->mask) {
        uint32_t *slot = &index->slots[at];
        const char *there = *slot ? index->labels.names[*slot - 1] : NULL;
        if (!there || (strncmp(there, name, size) == 0 && there[size] == '\0'))
            return slot;
    }
}

// Twice the slots, and room for names in half of them.
static enum status slots_grow(struct label_index *index) {
    uint32_t room = index->slots ? 2 * (index->mask + 1) : 64;
    uint32_t *slots = calloc(room, sizeof *slots);
    char **names = realloc(index->labels.names, room / 2 * sizeof *names);
    index->labels.names = names ? names : index->labels.names;
    if (!slots || !names) {
        free(slots);
        return status_set(STATUS_SYSTEM, "labels: no memory");
    }
    free(index->slots);
    index->slots = slots;
    index->mask = room - 1;
    for (uint32_t id = 0; id < index->labels.n; id++)
        *slot_find(index, index->labels.names[id], strlen(index->labels.names[id])) = id + 1;
    return STATUS_OK;
}

// Tables, logs and terminals show names as they are.
static bool holds_control(const char *name, size_t size) {
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f)
            return true;
    return false;
}

enum status label_index_add(struct label_index *index, const char *name, size_t size) {
    int64_t value;
    if (size == 0 || size > LABELS_NAME_MAX || holds_control(name, size))
        return status_set(STATUS_DATA,
                          "no label's name: it is empty, longer than %d bytes or holds a control character",
                          LABELS_NAME_MAX);
    if (index->labels.n >= index->mask / 2 || !index->slots)
        TRY(slots_grow(index));
    uint32_t *slot = slot_find(index, name, size);
    if (*slot)
        return STATUS_OK;
    if (index->labels.n >= LABELS_MAX)
        return status_set(STATUS_DATA, "more than %d different labels", LABELS_MAX);
    if (!(index->labels.names[index->labels.n] = strndup(name, size)))
        return status_set(STATUS_SYSTEM, "labels: no memory");
    *slot = ++index->labels.n;
    index->names_only = index->names_only || number(name, size, &value);
    return STATUS_OK;
}

enum status label_index_open(struct label_index *out, const struct labels *labels) {
    *out = (struct label_index){0};
    enum status status = slots_grow(out);
    for (uint32_t i = 0; labels && i < labels->n && status == STATUS_OK; i++)
        status = label_index_add(out, labels->names[i], strlen(labels->names[i]));
    if (status != STATUS_OK)
        label_index_close(out);
    return status;
}

void label_index_close(struct label_index *index) {
    labels_release(&index->labels);
    free(index->slots);
    *index = (struct label_index){0};
}

int32_t label_index_find(const struct label_index *index, const char *value, size_t size) {
    uint32_t id;
    if (index->labels.n == 0 || size == 0 || memchr(value, '\0', size))
        return -1;
    uint32_t slot = *slot_find(index, value, size);
    if (slot)
        return (int32_t)slot - 1;
    return !index->names_only && row_decimal(value, size, index->labels.n - 1, &id) ? (int32_t)id : -1;
}

static int by_number(const void *a, const void *b) {
    int64_t x = 0, y = 0;
    number(*(char *const *)a, strlen(*(char *const *)a), &x);
    number(*(char *const *)b, strlen(*(char *const *)b), &y);
    return (x > y) - (x < y);
}

static int by_bytes(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void label_index_sorted(struct label_index *index, struct labels *out) {
    int64_t value;
    bool numbers = true;
    *out = index->labels;
    index->labels = (struct labels){0};
    for (uint32_t i = 0; i < out->n; i++)
        numbers = numbers && number(out->names[i], strlen(out->names[i]), &value);
    if (out->n)
        qsort(out->names, out->n, sizeof *out->names, numbers ? by_number : by_bytes);
}
