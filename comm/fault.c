// SPDX-License-Identifier: Apache-2.0
// FINETUNED_FAULT, read: "kind:key=value,…", several separated by ';'. Strictly: a fault that is misspelt must not look
// like a run that survived it.
#include "comm/fault.h"

#include "base/text.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define FAULT_MAX 255 // bytes of one fault

enum fault_key {
    KEY_RANK = 1,
    KEY_CURSOR = 2,
    KEY_COUNT = 4,
    KEY_CALL = 8,
    KEY_OF = 16,
    KEY_AT = 32,
    KEY_STEP = 64,
    KEY_MS = 128,
    KEY_BIT = 256,
};

static const struct {
    const char *name;
    enum fault_key key;
} keys[] = {{"rank", KEY_RANK}, {"cursor", KEY_CURSOR}, {"count", KEY_COUNT}, {"call", KEY_CALL}, {"of", KEY_OF},
            {"at", KEY_AT},     {"step", KEY_STEP},     {"ms", KEY_MS},       {"bit", KEY_BIT}};

#define PLACE (KEY_CALL | KEY_OF | KEY_AT | KEY_STEP | KEY_COUNT) // where it strikes

static const struct {
    const char *name;
    unsigned needed, allowed; // keys
} kinds[] = {
    [FAULT_NAN] = {"nan", KEY_RANK | KEY_CURSOR, KEY_COUNT},
    [FAULT_DELAY] = {"delay", KEY_RANK | KEY_MS, PLACE},
    [FAULT_CORRUPT] = {"corrupt", KEY_RANK | KEY_CALL, KEY_OF | KEY_COUNT | KEY_BIT},
    [FAULT_FAIL] = {"fail", KEY_RANK | KEY_CALL, KEY_OF | KEY_COUNT},
    [FAULT_KILL] = {"kill", KEY_RANK, PLACE},
    [FAULT_STOP] = {"stop", KEY_RANK, PLACE},
    [FAULT_HANG] = {"hang", KEY_RANK, PLACE},
};

static const char *const calls[] = {
    [CALL_ANY] = "any",           [CALL_BARRIER] = "barrier",       [CALL_BROADCAST] = "broadcast",
    [CALL_EXCHANGE] = "exchange", [CALL_ALL_GATHER] = "all_gather", [CALL_SEND] = "send",
    [CALL_RECEIVE] = "receive"};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static enum status fault_bad(const char *fault, const char *why) {
    return status_set(STATUS_USAGE,
                      "FINETUNED_FAULT: \"%s\": %s (wanted: nan:rank=R,cursor=C[,count=N], or "
                      "delay|corrupt|fail|kill|stop|hang:rank=R with call=N[,of=CALL] or at=OPERATION[,step=S])",
                      fault, why);
}

static bool call_named(enum comm_call *out, const char *name) {
    for (size_t i = 0; i < COUNT(calls); i++) {
        if (strcmp(calls[i], name) == 0) {
            *out = (enum comm_call)i;
            return true;
        }
    }
    return false;
}

static bool fault_set(struct comm_fault *out, enum fault_key key, const char *text) {
    uint64_t value = 0;
    if (key == KEY_OF)
        return call_named(&out->of, text);
    if (key == KEY_AT)
        return out->staged = pulse_named(&out->at, text);
    if (!text_to_u64(text, &value) || (key == KEY_RANK && value > INT_MAX) || (key == KEY_CALL && value == 0) ||
        (key == KEY_MS && value > UINT32_MAX))
        return false;
    if (key == KEY_RANK)
        out->rank = (int)value;
    *(key == KEY_CURSOR  ? &out->cursor
      : key == KEY_COUNT ? &out->count
      : key == KEY_CALL  ? &out->call
      : key == KEY_STEP  ? &out->step
      : key == KEY_MS    ? &out->ms
      : key == KEY_BIT   ? &out->bit
                         : &value) = value;
    return true;
}

// One key=value; *seen collects the keys.
static enum status fault_key(struct comm_fault *out, unsigned *seen, const char *pair, const char *fault) {
    const char *equals = strchr(pair, '=');
    size_t length = equals ? (size_t)(equals - pair) : 0, i = 0;
    if (!equals)
        return fault_bad(fault, "a key needs a value");
    while (i < COUNT(keys) && (strlen(keys[i].name) != length || memcmp(keys[i].name, pair, length) != 0))
        i++;
    if (i == COUNT(keys) || *seen & keys[i].key)
        return fault_bad(fault, i == COUNT(keys) ? "unknown key" : "a key is there twice");
    *seen |= keys[i].key;
    return fault_set(out, keys[i].key, equals + 1) ? STATUS_OK : fault_bad(fault, "a value that its key can't have");
}

static enum status fault_check(struct comm_fault *out, unsigned seen, const char *fault) {
    unsigned needed = kinds[out->kind].needed, allowed = kinds[out->kind].allowed;
    if ((seen & needed) != needed)
        return fault_bad(fault, out->kind == FAULT_NAN     ? "rank and cursor are needed"
                                : out->kind == FAULT_DELAY ? "rank and ms are needed"
                                : needed & KEY_CALL        ? "rank and call are needed"
                                                           : "rank is needed");
    if (seen & ~(needed | allowed))
        return fault_bad(fault, "a key that this kind has not");
    if (out->kind != FAULT_NAN && !(seen & (KEY_CALL | KEY_AT)))
        return fault_bad(fault, "call or at is needed");
    if (seen & KEY_AT ? seen & KEY_OF : seen & KEY_STEP)
        return fault_bad(fault, "of goes with call, step with at");
    return STATUS_OK;
}

static enum status fault_parse(struct comm_fault *out, const char *fault) {
    char pairs[FAULT_MAX + 1];
    const char *colon = strchr(fault, ':');
    size_t length = colon ? (size_t)(colon - fault) : 0, kind = 0;
    unsigned seen = 0;
    while (kind < COUNT(kinds) && (strlen(kinds[kind].name) != length || memcmp(kinds[kind].name, fault, length) != 0))
        kind++;
    if (kind == COUNT(kinds))
        return fault_bad(fault, "unknown kind");
    *out = (struct comm_fault){.kind = (enum comm_fault_kind)kind, .count = 1, .call = 1, .step = UINT64_MAX};
    snprintf(pairs, sizeof pairs, "%s", colon + 1);
    for (char *pair = pairs, *next; pair; pair = next) {
        next = strchr(pair, ',');
        if (next)
            *next++ = 0;
        TRY(fault_key(out, &seen, pair, fault));
    }
    return fault_check(out, seen, fault);
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
