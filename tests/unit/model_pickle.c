// SPDX-License-Identifier: Apache-2.0
// The unpickler: what torch.save writes is read as it is meant, everything else is refused by its name.
#include "torch_support.h"

#include "model/pickle.h"

static const struct view weight = {"a.weight", "FloatStorage", "0", 12, 2, 2, {3, 2}, {4, 1}};

// In memory of exactly its size, so that the address sanitizer sees a byte read too far.
static enum status parse(struct pickle *out, const char *bytes, size_t size) {
    static char *exact;
    free(exact);
    exact = malloc(size ? size : 1);
    assert_non_null(exact);
    memcpy(exact, bytes, size);
    enum status status = pickle_parse(out, exact, size, "w.bin");
    if (status != STATUS_OK) {
        free(exact);
        exact = NULL;
    }
    return status;
}

static void refused_bytes(const char *bytes, size_t size, const char *said) {
    struct pickle pickle;
    assert_status(parse(&pickle, bytes, size), STATUS_DATA);
    assert_null(pickle.root);
    assert_null(pickle.chunks);
    if (strncmp(status_message(), "w.bin: ", 7) != 0 || !strstr(status_message(), said))
        fail_msg("\"%s\" does not say \"%s\"", status_message(), said);
}

#define REFUSED(literal, said) refused_bytes(literal, sizeof(literal) - 1, said)

static bool is_text(struct pickle_string string, const char *text) {
    return string.size == strlen(text) && memcmp(string.at, text, string.size) == 0;
}

static void test_state_dict(void **state) {
    (void)state;
    const struct view views[] = {weight, {"a.ids", "LongStorage", "17", 6, 0, 1, {6}, {1}}};
    struct bytes bytes = {0};
    struct pickle pickle;
    put_state_dict(&bytes, views, 2);
    assert_ok(parse(&pickle, bytes.at, bytes.size));
    const struct pickle_value *root = pickle.root;
    assert_int_equal(root->kind, PICKLE_ORDERED);
    assert_int_equal(root->items.n, 4);
    assert_true(is_text(root->items.at[0]->string, "a.weight") && is_text(root->items.at[2]->string, "a.ids"));
    assert_int_equal(root->items.at[1]->kind, PICKLE_TENSOR);
    const struct pickle_tensor *a = &root->items.at[1]->tensor, *ids = &root->items.at[3]->tensor;
    assert_true(a->rank == 2 && a->offset == 2 && a->shape[0] == 3 && a->shape[1] == 2 && a->stride[0] == 4 &&
                a->stride[1] == 1);
    assert_int_equal(a->storage->dtype, TENSOR_F32);
    assert_int_equal(a->storage->elements, 12);
    assert_true(is_text(a->storage->key, "0") && is_text(ids->storage->key, "17"));
    assert_int_equal(ids->storage->dtype, TENSOR_I64);
    pickle_release(&pickle);
    for (size_t size = 0; size < bytes.size; size++)
        refused_bytes(bytes.at, size, "pickle");
    bytes_put(&bytes, "x", 1);
    refused_bytes(bytes.at, bytes.size, "behind STOP");
    bytes_release(&bytes);
}

// One value, alone in its pickle.
static const struct pickle_value *value(struct pickle *pickle, const char *bytes, size_t size) {
    assert_ok(parse(pickle, bytes, size));
    return pickle->root;
}

#define VALUE(literal) value(&pickle, literal, sizeof(literal) - 1)

static void integer_check(const char *bytes, size_t size, int64_t wanted) {
    struct pickle pickle;
    const struct pickle_value *got = value(&pickle, bytes, size);
    assert_int_equal(got->kind, PICKLE_INTEGER);
    assert_int_equal(got->integer, wanted);
    pickle_release(&pickle);
}

#define INTEGER(literal, wanted) integer_check(literal, sizeof(literal) - 1, wanted)

static void test_integers(void **state) {
    (void)state;
    INTEGER("\x80\x02K\xff.", 255);
    INTEGER("\x80\x02M\xff\xff.", 65535);
    INTEGER("\x80\x02J\xff\xff\xff\xff.", -1);
    INTEGER("\x80\x02J\0\0\0\x80.", INT32_MIN);
    INTEGER("\x80\x02\x8a\x00.", 0);
    INTEGER("\x80\x02\x8a\x01\xff.", -1);
    INTEGER("\x80\x02\x8a\x02\xff\x00.", 255);
    INTEGER("\x80\x02\x8a\x05\0\0\0\0\x01.", INT64_C(1) << 32);
    INTEGER("\x80\x02\x8a\x08\0\0\0\0\0\0\0\x80.", INT64_MIN);
    REFUSED("\x80\x02\x8a\x09\0\0\0\0\0\0\0\0\x01.", "64 bits");
}

static void test_values(void **state) {
    (void)state;
    struct pickle pickle;
    const struct pickle_value *got = VALUE("\x80\x02(N\x88\x89G\x3f\xf8\0\0\0\0\0\0X\x02\0\0\0\xc3\xa9t.");
    assert_true(got->kind == PICKLE_TUPLE && got->items.n == 5);
    assert_int_equal(got->items.at[0]->kind, PICKLE_NONE);
    assert_true(got->items.at[1]->kind == PICKLE_BOOL && got->items.at[1]->integer == 1);
    assert_true(got->items.at[2]->kind == PICKLE_BOOL && got->items.at[2]->integer == 0);
    assert_true(got->items.at[3]->kind == PICKLE_NUMBER && got->items.at[3]->number == 1.5);
    assert_true(got->items.at[4]->kind == PICKLE_STRING && is_text(got->items.at[4]->string, "\xc3\xa9"));
    pickle_release(&pickle);
    got = VALUE("\x80\x04](K\x01K\x02"
                "eK\x03K\x04\x86K\x05\x85N)}\x87\x87"
                "a.");
    assert_true(got->kind == PICKLE_LIST && got->items.n == 3);
    const struct pickle_value *tuple = got->items.at[2];
    assert_true(tuple->kind == PICKLE_TUPLE && tuple->items.n == 3 && tuple->items.at[0]->items.n == 2);
    assert_int_equal(tuple->items.at[0]->items.at[1]->integer, 4);
    assert_int_equal(tuple->items.at[1]->items.at[0]->integer, 5);
    assert_true(tuple->items.at[2]->items.at[1]->kind == PICKLE_TUPLE && tuple->items.at[2]->items.at[1]->items.n == 0);
    assert_true(tuple->items.at[2]->items.at[2]->kind == PICKLE_DICT && tuple->items.at[2]->items.at[2]->items.n == 0);
    pickle_release(&pickle);
}

// The memo by its four opcodes; protocols 4 and 5 with frames and STACK_GLOBAL.
static void test_memo(void **state) {
    (void)state;
    struct pickle pickle;
    const struct pickle_value *got = VALUE("\x80\x02(K\x07q\x05K\x08r\x00\x01\0\0h\x05j\x00\x01\0\0t.");
    assert_int_equal(got->items.n, 4);
    assert_ptr_equal(got->items.at[0], got->items.at[2]);
    assert_ptr_equal(got->items.at[1], got->items.at[3]);
    pickle_release(&pickle);
    got = VALUE("\x80\x05\x95\x20\0\0\0\0\0\0\0(\x8c\x0b"
                "collections\x94\x8c\x0bOrderedDict\x94\x93\x94)R\x94h\x02)R\x94"
                "h\x03h\x04h\x02t.");
    assert_true(got->items.n == 5 && got->items.at[0] == got->items.at[2] && got->items.at[1] == got->items.at[3]);
    assert_true(got->items.at[0]->kind == PICKLE_ORDERED && got->items.at[1]->kind == PICKLE_ORDERED);
    assert_ptr_not_equal(got->items.at[0], got->items.at[1]);
    assert_true(got->items.at[4]->kind == PICKLE_IMPORT && got->items.at[4]->import == IMPORT_ORDERED_DICT);
    pickle_release(&pickle);
    REFUSED("\x80\x02h\x00.", "memo");
    REFUSED("\x80\x02Nq\x01h\x00\x86.", "memo");
    REFUSED("\x80\x02Nr\xff\xff\xff\xff.", "memo");
    REFUSED("\x80\x02q\x00N.", "stack");
    REFUSED("\x80\x02j\xff\xff\xff\xff.", "memo");
}

// Names are refused as they are read, before anything could be done with them.
static void test_imports(void **state) {
    (void)state;
    REFUSED("\x80\x02"
            "cposix\nsystem\nX\x04\0\0\0true\x85R.",
            "pickle imports posix.system: only collections.OrderedDict");
    REFUSED("\x80\x02"
            "c__builtin__\neval\n.",
            "pickle imports __builtin__.eval:");
    REFUSED("\x80\x02"
            "ctorch._utils\n_rebuild_parameter\n.",
            "pickle imports torch._utils._rebuild_parameter:");
    REFUSED("\x80\x02"
            "ctorch\nDoubleStorage\n.",
            "pickle imports torch.DoubleStorage:");
    REFUSED("\x80\x02"
            "ctorch\n_rebuild_tensor_v2\n.",
            "pickle imports torch._rebuild_tensor_v2:");
    REFUSED("\x80\x02"
            "ccollections\nOrderedDict.__reduce__\n.",
            "OrderedDict.__reduce__");
    REFUSED("\x80\x02"
            "c\n\n.",
            "pickle imports .:");
    REFUSED("\x80\x02"
            "cos\x1b[2J\nsystem\n.",
            "pickle imports os?[2J.system:");
    REFUSED("\x80\x04\x8c\x05posix\x8c\x06system\x93.", "pickle imports posix.system:");
    REFUSED("\x80\x04K\x01\x8c\x06system\x93.", "STACK_GLOBAL");
    REFUSED("\x80\x04N\x93.", "stack");
    REFUSED("\x80\x02(iposix\nsystem\n.", "pickle imports posix.system:");
    REFUSED("\x80\x02(icollections\nOrderedDict\n.", "opcode INST");
    REFUSED("\x80\x02"
            "ccollections",
            "in the middle of a name");
}

// Opcodes that make or call anything else.
static void test_opcodes(void **state) {
    (void)state;
    static const struct {
        char op;
        const char *name;
    } refused[] = {
        {'o', "OBJ"},
        {'\x81', "NEWOBJ"},
        {'\x92', "NEWOBJ_EX"},
        {'\x82', "EXT1"},
        {'\x83', "EXT2"},
        {'\x84', "EXT4"},
        {'P', "PERSID"},
        {'0', "POP"},
        {'1', "POP_MARK"},
        {'2', "DUP"},
        {'I', "INT"},
        {'L', "LONG"},
        {'\x8b', "LONG4"},
        {'F', "FLOAT"},
        {'S', "STRING"},
        {'T', "BINSTRING"},
        {'U', "SHORT_BINSTRING"},
        {'V', "UNICODE"},
        {'B', "BINBYTES"},
        {'C', "SHORT_BINBYTES"},
        {'\x8e', "BINBYTES8"},
        {'\x96', "BYTEARRAY8"},
        {'\x97', "NEXT_BUFFER"},
        {'\x98', "READONLY_BUFFER"},
        {'d', "DICT"},
        {'l', "LIST"},
        {'g', "GET"},
        {'p', "PUT"},
        {'\x8f', "EMPTY_SET"},
        {'\x90', "ADDITEMS"},
        {'\x91', "FROZENSET"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char bytes[] = "\x80\x02(ccollections\nOrderedDict\n)?0000000000.", said[64];
        *strchr(bytes, '?') = refused[i].op;
        snprintf(said, sizeof said, "opcode %s has no business", refused[i].name);
        refused_bytes(bytes, sizeof bytes - 1, said);
    }
    REFUSED("\x80\x02?.", "byte 2: 0x3f is no opcode");
    REFUSED("\x80\x02\xff.", "0xff is no opcode");
    REFUSED("\x80\x06N.", "PROTO");
    REFUSED("\x80\x02N\x80\x02.", "PROTO");
    REFUSED("N.", "does not begin with PROTO");
    REFUSED("", "does not begin with PROTO");
    REFUSED("\x80\x04\x95\xff\0\0\0\0\0\0\0N.", "FRAME");
}

static void test_calls(void **state) {
    (void)state;
    REFUSED("\x80\x02K\x01)R.", "REDUCE");
    REFUSED("\x80\x02"
            "ccollections\nOrderedDict\n]R.",
            "REDUCE");
    REFUSED("\x80\x02"
            "ccollections\nOrderedDict\n]\x85R.",
            "only made empty");
    REFUSED("\x80\x02"
            "ctorch\nFloatStorage\n)R.",
            "persistent id");
    REFUSED("\x80\x02"
            "ctorch._utils\n_rebuild_tensor_v2\n)R.",
            "6 or 7");
    REFUSED("\x80\x02"
            "ctorch._utils\n_rebuild_tensor_v2\n(NNNNNNtR.",
            "needs a storage");
    REFUSED("\x80\x02)R.", "stack");
    // BUILD: attributes of an OrderedDict, only _metadata
    REFUSED("\x80\x02}}b.", "no OrderedDict (dict)");
    REFUSED("\x80\x02"
            "ctorch\nFloatStorage\n}b.",
            "no OrderedDict (imported name)");
    REFUSED("\x80\x02"
            "ccollections\nOrderedDict\n)R)b.",
            "no dict");
    REFUSED("\x80\x02"
            "ccollections\nOrderedDict\n)RN}\x86"
            "b.",
            "no dict");
    REFUSED("\x80\x02"
            "ccollections\nOrderedDict\n)R}NNsb.",
            "no string");
    REFUSED("\x80\x02"
            "ccollections\nOrderedDict\n)R}X\x09\0\0\0__class__Nsb.",
            "attribute __class__");
    // storages
    REFUSED("\x80\x02NQ.", "persistent id");
    REFUSED("\x80\x02(X\x07\0\0\0storageNNNNtQ.", "type is none");
    REFUSED("\x80\x02(X\x07\0\0\0storageccollections\nOrderedDict\nNNNtQ.", "type is none");
    REFUSED("\x80\x02(X\x06\0\0\0moduleNNNNtQ.", "persistent id");
    REFUSED("\x80\x02(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0"
            "0X\x03\0\0\0"
            "cpuJ\xff\xff\xff\xfftQ.",
            "number of elements");
    REFUSED("\x80\x02(X\x07\0\0\0storagectorch\nFloatStorage\nK\x01X\x03\0\0\0"
            "cpuK\x01tQ.",
            "key");
}

// A tensor's own arguments.
static void tensor_refused(const struct view *view, const char *tail, size_t tail_size, const char *said) {
    struct bytes bytes = {0};
    put_text(&bytes, "\x80\x02"
                     "ctorch._utils\n_rebuild_tensor_v2\n(");
    put_storage(&bytes, view);
    put_number(&bytes, view->offset);
    put_numbers(&bytes, view->size, view->rank);
    put_numbers(&bytes, view->stride, view->rank);
    bytes_put(&bytes, tail, tail_size);
    refused_bytes(bytes.at, bytes.size, said);
    bytes_release(&bytes);
}

#define TENSOR_REFUSED(view, tail, said) tensor_refused(view, tail, sizeof(tail) - 1, said)

static void test_tensors(void **state) {
    (void)state;
    struct view view = weight;
    TENSOR_REFUSED(&view, "N}tR.", "requires_grad");
    TENSOR_REFUSED(&view, "\x89K\x01tR.", "hooks");
    TENSOR_REFUSED(&view, "\x89}NNstR.", "hooks");
    TENSOR_REFUSED(&view, "\x89}}X\x03\0\0\0neg\x88stR.", "negated");
    TENSOR_REFUSED(&view, "\x89}NNtR.", "6 or 7");
    view.offset = -1;
    TENSOR_REFUSED(&view, "\x89}tR.", "offset");
    view = weight;
    view.size[1] = -2;
    TENSOR_REFUSED(&view, "\x89}tR.", "none below 0");
    view = weight;
    view.stride[0] = -1;
    TENSOR_REFUSED(&view, "\x89}tR.", "none below 0");
    view = weight;
    view.rank = 5;
    TENSOR_REFUSED(&view, "\x89}tR.", "at most 4");
    struct pickle pickle;
    struct bytes bytes = {0};
    put_text(&bytes, "\x80\x02"
                     "ctorch._utils\n_rebuild_tensor_v2\n(");
    put_storage(&bytes, &weight);
    put_text(&bytes, "K\x03))\x88NNtR."); // 0 dimensions, requires_grad, no hooks, no metadata
    assert_ok(parse(&pickle, bytes.at, bytes.size));
    assert_true(pickle.root->kind == PICKLE_TENSOR && pickle.root->tensor.rank == 0 && pickle.root->tensor.offset == 3);
    pickle_release(&pickle);
    bytes_release(&bytes);
}

static void test_stack(void **state) {
    (void)state;
    REFUSED("\x80\x02.", "stack");
    REFUSED("\x80\x02NN.", "leaves values behind");
    REFUSED("\x80\x02(N.", "leaves values behind");
    REFUSED("\x80\x02t.", "mark");
    REFUSED("\x80\x02]a.", "stack");
    REFUSED("\x80\x02]N(a.", "stack"); // what lies below a mark is out of reach
    REFUSED("\x80\x02}N(Nu.", "no list or dict");
    REFUSED("\x80\x02}(Nu.", "no list or dict");
    REFUSED("\x80\x02](NNu.", "no list or dict");
    REFUSED("\x80\x02}(Ne.", "no list or dict");
    REFUSED("\x80\x02(Ne.", "stack");
    REFUSED("\x80\x02N\x86.", "stack");
    REFUSED("\x80\x02(\x85.", "stack");
    REFUSED("\x80\x02X\xff\xff\xff\xff"
            "abc.",
            "middle of an opcode");
    REFUSED("\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff"
            "abc.",
            "middle of an opcode");
    REFUSED("\x80\x02X\x01\0\0\0\xff.", "UTF-8");
    REFUSED("\x80\x02N", "without STOP");
}

// Depth is a count, not a recursion; and there is a ceiling.
static void many(const char *prefix, const char *unit, size_t n, const char *said) {
    struct bytes bytes = {0};
    put_text(&bytes, prefix);
    size_t size = strlen(unit);
    bytes_put(&bytes, "", 0);
    bytes.at = realloc(bytes.at, bytes.size + n * size + 1);
    assert_non_null(bytes.at);
    for (size_t i = 0; i < n; i++, bytes.size += size)
        memcpy(bytes.at + bytes.size, unit, size);
    bytes.at[bytes.size++] = '.';
    struct pickle pickle;
    if (said) {
        refused_bytes(bytes.at, bytes.size, said);
    } else {
        assert_ok(parse(&pickle, bytes.at, bytes.size));
        pickle_release(&pickle);
    }
    bytes_release(&bytes);
}

static void test_ceilings(void **state) {
    (void)state;
    struct pickle pickle;
    many("\x80\x02N", "\x85", 200000, NULL); // a tuple in a tuple in …
    many("\x80\x02", "(", PICKLE_VALUES_MAX + 1, "more than 1048576");
    many("\x80\x02", "N", PICKLE_VALUES_MAX + 1, "more than 1048576");
    many("\x80\x02N", "\x85", PICKLE_VALUES_MAX + 1, "more than 1048576");
    many("\x80\x02", "N", PICKLE_MAX, "at most");
    // a list that holds itself
    const struct pickle_value *got = VALUE("\x80\x02]q\x00h\x00"
                                           "a.");
    assert_ptr_equal(got->items.at[0], got);
    pickle_release(&pickle);
    // each level holds the one below three times: 10^19 values for who walks them, a few hundred bytes here
    struct bytes bytes = {0};
    put_text(&bytes, "\x80\x02N");
    for (int level = 0; level < 40; level++)
        put_text(&bytes, "q\x01h\x01h\x01\x87");
    put_text(&bytes, ".");
    assert_ok(parse(&pickle, bytes.at, bytes.size));
    assert_ptr_equal(pickle.root->items.at[0], pickle.root->items.at[2]);
    pickle_release(&pickle);
    bytes_release(&bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_state_dict), cmocka_unit_test(test_integers), cmocka_unit_test(test_values),
        cmocka_unit_test(test_memo),       cmocka_unit_test(test_imports),  cmocka_unit_test(test_opcodes),
        cmocka_unit_test(test_calls),      cmocka_unit_test(test_tensors),  cmocka_unit_test(test_stack),
        cmocka_unit_test(test_ceilings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
