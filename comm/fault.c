// SPDX-License-Identifier: Apache-2.0
// Faults that tests inject through FINETUNED_FAULT: "kind:key=value,…", several separated by ';'. The one kind is
// `nan`, with the keys rank and cursor (both required) and count (1). Read strictly: a fault that is misspelt must not
// look like a run that survived it.
#include "comm/comm.h"

#include "base/text.h"

#include <limits.h>
#include <string.h>

#define FAULT_MAX 255 // bytes of one fault

enum { KEY_RANK = 1, KEY_CURSOR = 2, KEY_COUNT = 4 };

static enum status fault_bad(const char *fault, const char *why) {
    return status_set(STATUS_USAGE, "FINETUNED_FAULT: \"%s\": %s (wanted: nan:rank=R,cursor=C[,count=N])", fault, why);
}

// One key=value; *seen collects the keys.
static enum status fault_key(struct comm_fault *out, unsigned *seen, const char *pair, const char *fault) {
    const char *equals = strchr(pair, '=');
    size_t length = equals ? (size_t)(equals - pair) : 0;
    uint64_t value;
    if (!equals || !text_to_u64(equals + 1, &value))
        return fault_bad(fault, "a key needs a number");
    unsigned key = 0;
    if (length == 4 && memcmp(pair, "rank", 4) == 0)
        key = KEY_RANK;
    else if (length == 6 && memcmp(pair, "cursor", 6) == 0)
        key = KEY_CURSOR;
    else if (length == 5 && memcmp(pair, "count", 5) == 0)
        key = KEY_COUNT;
    if (key == 0 || *seen & key)
        return fault_bad(fault, key ? "a key is there twice" : "unknown key");
    if (key == KEY_RANK && value > INT_MAX)
        return fault_bad(fault, "rank is out of range");
    *seen |= key;
    if (key == KEY_RANK)
        out->rank = (int)value;
    else if (key == KEY_CURSOR)
        out->cursor = value;
    else
        out->count = value;
    return STATUS_OK;
}

static enum status fault_parse(struct comm_fault *out, const char *fault) {
    char keys[FAULT_MAX + 1];
    unsigned seen = 0;
    *out = (struct comm_fault){.count = 1};
    if (strncmp(fault, "nan:", 4) != 0)
        return fault_bad(fault, "unknown kind");
    snprintf(keys, sizeof keys, "%s", fault + 4);
    for (char *pair = keys, *next; pair; pair = next) {
        next = strchr(pair, ',');
        if (next)
            *next++ = 0;
        TRY(fault_key(out, &seen, pair, fault));
    }
    if ((seen & (KEY_RANK | KEY_CURSOR)) != (KEY_RANK | KEY_CURSOR))
        return fault_bad(fault, "rank and cursor are needed");
    return STATUS_OK;
}

enum status comm_faults_parse(struct comm_fault out[COMM_FAULTS], unsigned *n, const char *string) {
    *n = 0;
    for (const char *at = string && *string ? string : NULL; at;) {
        const char *end = strchr(at, ';');
        size_t length = end ? (size_t)(end - at) : strlen(at);
        char fault[FAULT_MAX + 1];
        if (length > FAULT_MAX || *n == COMM_FAULTS)
            return status_set(STATUS_USAGE, "FINETUNED_FAULT: at most %d faults of at most %d bytes", COMM_FAULTS,
                              FAULT_MAX);
        memcpy(fault, at, length);
        fault[length] = 0;
        TRY(fault_parse(&out[*n], fault));
        ++*n;
        at = end ? end + 1 : NULL;
    }
    return STATUS_OK;
}

bool comm_fault_nan(const struct comm *comm, uint64_t cursor) {
    for (unsigned i = 0; i < comm->n_faults; i++) {
        const struct comm_fault *fault = &comm->faults[i];
        if (fault->rank == comm->rank && cursor >= fault->cursor && cursor - fault->cursor < fault->count)
            return true;
    }
    return false;
}
