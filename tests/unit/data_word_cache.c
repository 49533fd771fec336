// SPDX-License-Identifier: Apache-2.0
// The word cache: keys tell words apart, nothing is read behind the text, the older word of a pair goes.
#include "support.h"

#include "data/word_cache.h"

// The key of a word that fills a block of memory to its last byte (a sanitizer sees what is read behind it).
static struct word_key key_of(const char *word, size_t size) {
    char *exact = malloc(size + 1);
    memcpy(exact + 1, word, size);
    struct word_key key = word_key(exact + 1, size, size);
    free(exact);
    return key;
}

static bool keys_equal(const struct word_key *a, const struct word_key *b) {
    return a->first == b->first && a->second == b->second && a->third == b->third && a->size == b->size;
}

static void key_test(void **state) {
    (void)state;
    const char text[] = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz";
    for (size_t size = 1; size <= WORD_CACHE_BYTES; size++) {
        // What stands behind the word makes no difference, nor does how much of it may be read.
        struct word_key at_end = key_of(text, size), inside = word_key(text, size, sizeof text - 1);
        assert_true(keys_equal(&at_end, &inside));
        for (size_t i = 0; i < size; i++) { // every byte counts
            char other[WORD_CACHE_BYTES];
            memcpy(other, text, size);
            other[i] ^= 1;
            struct word_key differs = key_of(other, size);
            assert_false(keys_equal(&at_end, &differs));
        }
    }
    struct word_key one = key_of("a", 1), two = key_of("a\0", 2); // NUL may stand in a text
    assert_false(keys_equal(&one, &two));
}

static void pair_test(void **state) {
    (void)state;
    struct word_cache *cache = calloc(1, sizeof *cache);
    struct word_key keys[3];
    struct word_cached *place = NULL;
    unsigned n = 0;
    assert_non_null(cache);
    for (unsigned i = 0; n < 3; i++) { // three words of one place
        char word[16];
        int size = snprintf(word, sizeof word, "w%u", i);
        struct word_key key = key_of(word, (size_t)size);
        assert_null(word_find(cache, &key)); // an empty cache holds nothing
        place = place ? place : word_pair_of(cache, &key);
        if (word_pair_of(cache, &key) == place)
            keys[n++] = key;
    }
    for (unsigned i = 0; i < 3; i++) {
        struct word_cached *word = word_put(cache, &keys[i]);
        assert_int_equal(word->n, 0);
        word->n = 1;
        word->ids[0] = (int32_t)i;
        assert_int_equal(word_find(cache, &keys[i])->ids[0], i);
    }
    assert_null(word_find(cache, &keys[0]));
    assert_int_equal(word_find(cache, &keys[1])->ids[0], 1);
    assert_int_equal(word_find(cache, &keys[2])->ids[0], 2);
    free(cache);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(key_test),
        cmocka_unit_test(pair_test),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
