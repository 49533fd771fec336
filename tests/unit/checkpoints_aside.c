// SPDX-License-Identifier: Apache-2.0
// The ring of copies: pieces never overlap, whatever sizes come and go, and all of the room is had.
#include "support.h"

#include "base/rng.h"
#include "checkpoints/aside.h"

#include <string.h>

#define PIECES 4096

struct taken {
    char *at;
    uint64_t size;
};

static void check_apart(const struct aside *aside, const struct taken *taken, size_t from, size_t to) {
    for (size_t i = from; i < to; i++) {
        assert_true(taken[i].at >= aside->arena.base && taken[i].at + taken[i].size <= aside->arena.base + aside->size);
        assert_int_equal((uintptr_t)taken[i].at % ARENA_ALIGN, 0);
        for (size_t j = i + 1; j < to; j++)
            assert_true(taken[i].at + taken[i].size <= taken[j].at || taken[j].at + taken[j].size <= taken[i].at);
    }
}

static void walk(uint64_t size, uint64_t largest, uint64_t seed) {
    static struct taken taken[PIECES];
    struct rng rng = rng_stream(seed, size);
    struct aside aside;
    size_t from = 0, to = 0, full = 0;
    aside_init(&aside, size);
    while (to < PIECES) {
        uint64_t bytes = 1 + rng_below(&rng, largest);
        char *at = rng_below(&rng, 3) ? aside_take(&aside, bytes) : NULL;
        if (at) {
            memset(at, (int)(to % 251), bytes);
            taken[to++] = (struct taken){at, bytes};
            check_apart(&aside, taken, from, to);
        } else if (from < to) {
            for (uint64_t i = 0; i < taken[from].size; i++)
                assert_int_equal((unsigned char)taken[from].at[i], from % 251);
            aside_give(&aside, taken[from++].size);
            full++;
        }
    }
    assert_true(full > 100);
    while (from < to)
        aside_give(&aside, taken[from++].size);
    assert_non_null(aside_take(&aside, aside.size)); // empty: all of it at once
    assert_null(aside_take(&aside, 1));
    aside_release(&aside);
}

static void pieces_come_and_go(void **context) {
    (void)context;
    walk(4096, 1000, 1);
    walk(4096, 4096, 2);
    walk(1000, 100, 3);
    walk(100000, 30000, 4);
}

static void no_room(void **context) {
    struct aside aside;
    (void)context;
    for (uint64_t size = 0; size < ARENA_ALIGN; size += 7) {
        aside_init(&aside, size);
        assert_null(aside_take(&aside, 1));
        aside_release(&aside);
    }
    aside_init(&aside, 1000); // 960: whole lines
    assert_null(aside_take(&aside, 961));
    assert_null(aside.arena.base); // nothing is mapped before it is needed
    assert_non_null(aside_take(&aside, 960));
    assert_non_null(aside.arena.base);
    aside_release(&aside);
    aside_init(&aside, UINT64_MAX / 2); // more than there can be: as if there were no buffer
    assert_null(aside_take(&aside, 64));
    assert_null(aside_take(&aside, 64));
    aside_release(&aside);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(pieces_come_and_go), cmocka_unit_test(no_room)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
