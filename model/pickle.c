// SPDX-License-Identifier: Apache-2.0
// What each opcode does to the machine: one table, those that are refused included.
#include "model/pickle.h"

#include "base/text.h"
#include "model/pickle_machine.h"

#include <stdlib.h>
#include <string.h>

// A new value on the stack.
static enum status push_new(struct pickle_value **out, struct machine *m, enum pickle_kind kind) {
    TRY(machine_value(out, m, kind));
    return machine_push(m, *out);
}

// Values above the innermost mark: only these may be taken.
static size_t stack_free(const struct machine *m) {
    return m->stack_n - (m->marks_n ? m->marks[m->marks_n - 1] : 0);
}

static enum status stack_need(const struct machine *m, size_t n) {
    return stack_free(m) >= n ? STATUS_OK : machine_bad(m, "it takes more from the stack than is there");
}

static struct pickle_value *top(const struct machine *m, size_t below) {
    return m->stack[m->stack_n - 1 - below];
}

static enum status bytes_take(const char **out, struct machine *m, uint64_t n) {
    *out = m->at;
    if (n > (uint64_t)(m->end - m->at))
        return machine_bad(m, "it ends in the middle of an opcode");
    m->at += n;
    return STATUS_OK;
}

// A little-endian number of 1, 2, 4 or 8 bytes.
static enum status count_take(uint64_t *out, struct machine *m, unsigned bytes) {
    const char *at;
    TRY(bytes_take(&at, m, bytes));
    *out = 0;
    memcpy(out, at, bytes);
    return STATUS_OK;
}

// A line of a name, without its newline.
static enum status line_take(struct pickle_string *out, struct machine *m) {
    const char *end = memchr(m->at, '\n', (size_t)(m->end - m->at));
    if (!end)
        return machine_bad(m, "it ends in the middle of a name");
    *out = (struct pickle_string){m->at, (size_t)(end - m->at)};
    m->at = end + 1;
    return STATUS_OK;
}

static enum status run_proto(struct machine *m) {
    uint64_t version;
    TRY(count_take(&version, m, 1));
    if (m->op != m->begin || version > 5)
        return machine_bad(m, "PROTO stands at the begin and says a protocol up to 5");
    return STATUS_OK;
}

// A frame only says how far one may read ahead.
static enum status run_frame(struct machine *m) {
    uint64_t size;
    TRY(count_take(&size, m, 8));
    return size <= (uint64_t)(m->end - m->at) ? STATUS_OK : machine_bad(m, "FRAME is longer than the pickle");
}

static enum status run_stop(struct machine *m) {
    TRY(stack_need(m, 1));
    if (m->stack_n != 1 || m->marks_n)
        return machine_bad(m, "STOP leaves values behind on the stack");
    if (m->at != m->end)
        return machine_bad(m, "there is something behind STOP");
    m->out->root = top(m, 0);
    m->stopped = true;
    return STATUS_OK;
}

static enum status run_mark(struct machine *m) {
    TRY(machine_grow(&m->marks, &m->marks_room, m->marks_n + 1, sizeof *m->marks, m));
    m->marks[m->marks_n++] = m->stack_n;
    return STATUS_OK;
}

static enum status run_none(struct machine *m) {
    struct pickle_value *value;
    return push_new(&value, m, PICKLE_NONE);
}

static enum status run_bool(struct machine *m) {
    struct pickle_value *value;
    TRY(push_new(&value, m, PICKLE_BOOL));
    value->integer = *m->op == '\x88';
    return STATUS_OK;
}

static enum status run_integer(struct machine *m) {
    struct pickle_value *value;
    uint64_t bits;
    TRY(count_take(&bits, m, *m->op == 'J' ? 4 : *m->op == 'M' ? 2 : 1));
    TRY(push_new(&value, m, PICKLE_INTEGER));
    value->integer = *m->op == 'J' ? (int32_t)(uint32_t)bits : (int64_t)bits;
    return STATUS_OK;
}

// Two's complement, little-endian, of as few bytes as it needs.
static enum status run_long(struct machine *m) {
    struct pickle_value *value;
    uint64_t size, bits;
    TRY(count_take(&size, m, 1));
    if (size > 8)
        return machine_bad(m, "a number of more than 64 bits");
    TRY(count_take(&bits, m, (unsigned)size));
    if (size > 0 && size < 8 && bits >> (8 * size - 1))
        bits |= UINT64_MAX << (8 * size);
    TRY(push_new(&value, m, PICKLE_INTEGER));
    value->integer = (int64_t)bits;
    return STATUS_OK;
}

static enum status run_number(struct machine *m) {
    struct pickle_value *value;
    uint64_t bits;
    TRY(count_take(&bits, m, 8));
    TRY(push_new(&value, m, PICKLE_NUMBER));
    bits = __builtin_bswap64(bits); // big-endian
    memcpy(&value->number, &bits, 8);
    return STATUS_OK;
}

static enum status run_string(struct machine *m) {
    struct pickle_value *value;
    uint64_t size;
    const char *at;
    TRY(count_take(&size, m, *m->op == 'X' ? 4 : *m->op == '\x8c' ? 1 : 8));
    TRY(bytes_take(&at, m, size));
    if (utf8_check(at, (size_t)size) != size)
        return machine_bad(m, "a string that is not UTF-8");
    TRY(push_new(&value, m, PICKLE_STRING));
    value->string = (struct pickle_string){at, (size_t)size};
    return STATUS_OK;
}

static enum status run_empty(struct machine *m) {
    struct pickle_value *value;
    return push_new(&value, m, *m->op == ')' ? PICKLE_TUPLE : *m->op == ']' ? PICKLE_LIST : PICKLE_DICT);
}

// The topmost `n` values become one tuple.
static enum status tuple_fold(struct machine *m, size_t n) {
    struct pickle_value *tuple;
    TRY(machine_value(&tuple, m, PICKLE_TUPLE));
    for (size_t i = n; i-- > 0;)
        TRY(items_add(m, &tuple->items, top(m, i)));
    m->stack_n -= n;
    return machine_push(m, tuple);
}

static enum status run_tuple_small(struct machine *m) {
    size_t n = (size_t)((unsigned char)*m->op - 0x84);
    TRY(stack_need(m, n));
    return tuple_fold(m, n);
}

// Takes the innermost mark away; `n`: the values above it, which stay.
static enum status mark_take(size_t *n, struct machine *m) {
    *n = stack_free(m);
    if (!m->marks_n)
        return machine_bad(m, "it needs a mark and there is none");
    m->marks_n--;
    return STATUS_OK;
}

static enum status run_tuple(struct machine *m) {
    size_t n;
    TRY(mark_take(&n, m));
    return tuple_fold(m, n);
}

// The topmost `n` values go into the list or dict below them.
static enum status items_append(struct machine *m, size_t n, bool pairs) {
    TRY(stack_need(m, n + 1));
    struct pickle_value *target = top(m, n);
    bool dict = target->kind == PICKLE_DICT || target->kind == PICKLE_ORDERED;
    if (pairs ? !dict || n % 2 != 0 : target->kind != PICKLE_LIST)
        return machine_bad(m, "it fills something that is no list or dict");
    for (size_t i = n; i-- > 0;)
        TRY(items_add(m, &target->items, top(m, i)));
    m->stack_n -= n;
    return STATUS_OK;
}

static enum status run_append(struct machine *m) {
    return items_append(m, *m->op == 's' ? 2 : 1, *m->op == 's');
}

static enum status run_append_all(struct machine *m) {
    size_t n;
    TRY(mark_take(&n, m));
    return items_append(m, n, *m->op == 'u');
}

static enum status memo_put(struct machine *m, uint64_t index) {
    TRY(stack_need(m, 1));
    if (index >= PICKLE_VALUES_MAX)
        return machine_bad(m, "a memo of more than 1048576 values");
    TRY(machine_grow(&m->memo, &m->memo_room, (size_t)index + 1, sizeof *m->memo, m));
    m->memo[index] = top(m, 0);
    return STATUS_OK;
}

static enum status run_put(struct machine *m) {
    uint64_t index;
    TRY(count_take(&index, m, *m->op == 'q' ? 1 : 4));
    m->memo_n = index + 1 > m->memo_n ? (size_t)index + 1 : m->memo_n;
    return memo_put(m, index);
}

// The next free place of the memo.
static enum status run_memoize(struct machine *m) {
    return memo_put(m, m->memo_n++);
}

static enum status run_get(struct machine *m) {
    uint64_t index;
    TRY(count_take(&index, m, *m->op == 'h' ? 1 : 4));
    if (index >= m->memo_room || !m->memo[index])
        return machine_bad(m, "it takes from the memo what was never put there");
    return machine_push(m, m->memo[index]);
}

static enum status import_push(struct machine *m, struct pickle_string module, struct pickle_string name) {
    struct pickle_value *value;
    TRY(machine_value(&value, m, PICKLE_IMPORT));
    TRY(import_find(value, m, module, name));
    return machine_push(m, value);
}

static enum status run_global(struct machine *m) {
    struct pickle_string module, name;
    TRY(line_take(&module, m));
    TRY(line_take(&name, m));
    return import_push(m, module, name);
}

static enum status run_stack_global(struct machine *m) {
    TRY(stack_need(m, 2));
    struct pickle_value *module = top(m, 1), *name = top(m, 0);
    if (module->kind != PICKLE_STRING || name->kind != PICKLE_STRING)
        return machine_bad(m, "STACK_GLOBAL imports something whose name is no string");
    m->stack_n -= 2;
    return import_push(m, module->string, name->string);
}

static enum status run_reduce(struct machine *m) {
    struct pickle_value *made;
    TRY(stack_need(m, 2));
    TRY(import_call(&made, m, top(m, 1), top(m, 0)));
    m->stack_n -= 2;
    return machine_push(m, made);
}

static enum status run_build(struct machine *m) {
    TRY(stack_need(m, 2));
    TRY(attributes_check(m, top(m, 1), top(m, 0)));
    m->stack_n--;
    return STATUS_OK;
}

static enum status run_persistent(struct machine *m) {
    struct pickle_value *storage;
    TRY(stack_need(m, 1));
    TRY(machine_value(&storage, m, PICKLE_STORAGE));
    TRY(storage_make(storage, m, top(m, 0)));
    m->stack_n--;
    return machine_push(m, storage);
}

// INST names a class and makes one at once: said by the class's name, as GLOBAL's are.
static enum status run_inst(struct machine *m) {
    struct pickle_value value;
    struct pickle_string module, name;
    TRY(line_take(&module, m));
    TRY(line_take(&name, m));
    TRY(import_find(&value, m, module, name));
    return machine_bad(m, "opcode INST has no business in a file of weights");
}

// All opcodes of protocols 0 to 5. Those without a function are in no file that torch.save writes of weights.
static const struct {
    const char *name;
    enum status (*run)(struct machine *);
} opcodes[256] = {
    [0x80] = {"PROTO", run_proto},
    [0x95] = {"FRAME", run_frame},
    ['.'] = {"STOP", run_stop},
    ['('] = {"MARK", run_mark},
    ['N'] = {"NONE", run_none},
    [0x88] = {"NEWTRUE", run_bool},
    [0x89] = {"NEWFALSE", run_bool},
    ['J'] = {"BININT", run_integer},
    ['K'] = {"BININT1", run_integer},
    ['M'] = {"BININT2", run_integer},
    [0x8a] = {"LONG1", run_long},
    ['G'] = {"BINFLOAT", run_number},
    ['X'] = {"BINUNICODE", run_string},
    [0x8c] = {"SHORT_BINUNICODE", run_string},
    [0x8d] = {"BINUNICODE8", run_string},
    [')'] = {"EMPTY_TUPLE", run_empty},
    [']'] = {"EMPTY_LIST", run_empty},
    ['}'] = {"EMPTY_DICT", run_empty},
    [0x85] = {"TUPLE1", run_tuple_small},
    [0x86] = {"TUPLE2", run_tuple_small},
    [0x87] = {"TUPLE3", run_tuple_small},
    ['t'] = {"TUPLE", run_tuple},
    ['a'] = {"APPEND", run_append},
    ['e'] = {"APPENDS", run_append_all},
    ['s'] = {"SETITEM", run_append},
    ['u'] = {"SETITEMS", run_append_all},
    ['q'] = {"BINPUT", run_put},
    ['r'] = {"LONG_BINPUT", run_put},
    [0x94] = {"MEMOIZE", run_memoize},
    ['h'] = {"BINGET", run_get},
    ['j'] = {"LONG_BINGET", run_get},
    ['c'] = {"GLOBAL", run_global},
    [0x93] = {"STACK_GLOBAL", run_stack_global},
    ['R'] = {"REDUCE", run_reduce},
    ['b'] = {"BUILD", run_build},
    ['Q'] = {"BINPERSID", run_persistent},
    ['i'] = {"INST", run_inst},
    ['o'] = {"OBJ", NULL},
    [0x81] = {"NEWOBJ", NULL},
    [0x92] = {"NEWOBJ_EX", NULL},
    [0x82] = {"EXT1", NULL},
    [0x83] = {"EXT2", NULL},
    [0x84] = {"EXT4", NULL},
    ['P'] = {"PERSID", NULL},
    ['0'] = {"POP", NULL},
    ['1'] = {"POP_MARK", NULL},
    ['2'] = {"DUP", NULL},
    ['I'] = {"INT", NULL},
    ['L'] = {"LONG", NULL},
    [0x8b] = {"LONG4", NULL},
    ['F'] = {"FLOAT", NULL},
    ['S'] = {"STRING", NULL},
    ['T'] = {"BINSTRING", NULL},
    ['U'] = {"SHORT_BINSTRING", NULL},
    ['V'] = {"UNICODE", NULL},
    ['B'] = {"BINBYTES", NULL},
    ['C'] = {"SHORT_BINBYTES", NULL},
    [0x8e] = {"BINBYTES8", NULL},
    [0x96] = {"BYTEARRAY8", NULL},
    [0x97] = {"NEXT_BUFFER", NULL},
    [0x98] = {"READONLY_BUFFER", NULL},
    ['d'] = {"DICT", NULL},
    ['l'] = {"LIST", NULL},
    ['g'] = {"GET", NULL},
    ['p'] = {"PUT", NULL},
    [0x8f] = {"EMPTY_SET", NULL},
    [0x90] = {"ADDITEMS", NULL},
    [0x91] = {"FROZENSET", NULL},
};

static enum status opcode_run(struct machine *m) {
    m->op = m->at++;
    unsigned char op = (unsigned char)*m->op;
    if (opcodes[op].run)
        return opcodes[op].run(m);
    if (!opcodes[op].name)
        return status_set(STATUS_DATA, "%s: pickle, byte %zu: 0x%02x is no opcode", m->name, (size_t)(m->op - m->begin),
                          op);
    return status_set(STATUS_DATA, "%s: pickle, byte %zu: opcode %s has no business in a file of weights", m->name,
                      (size_t)(m->op - m->begin), opcodes[op].name);
}

static enum status machine_run(struct machine *m) {
    if ((size_t)(m->end - m->begin) > PICKLE_MAX)
        return status_set(STATUS_DATA, "%s: a pickle of %zu bytes; at most %zu are read", m->name,
                          (size_t)(m->end - m->begin), PICKLE_MAX);
    if (m->begin == m->end || *m->begin != '\x80')
        return status_set(STATUS_DATA, "%s: pickle: it does not begin with PROTO (protocol 2 or newer)", m->name);
    while (!m->stopped) {
        m->op = m->at;
        if (m->at == m->end)
            return machine_bad(m, "it ends without STOP");
        TRY(opcode_run(m));
    }
    return STATUS_OK;
}

enum status pickle_parse(struct pickle *out, const char *bytes, size_t size, const char *name) {
    *out = (struct pickle){0};
    struct machine m = {
        .out = out, .begin = bytes, .at = bytes, .op = bytes, .end = size ? bytes + size : bytes, .name = name};
    enum status status = machine_run(&m);
    free(m.stack);
    free(m.memo);
    free(m.marks);
    if (status != STATUS_OK)
        pickle_release(out);
    return status;
}
