// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include "base/arena.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

static void test_pieces(void **state) {
    (void)state;
    assert_int_equal(arena_piece(0), 0);
    assert_int_equal(arena_piece(1), ARENA_ALIGN);
    assert_int_equal(arena_piece(64), 64);
    assert_int_equal(arena_piece(65), 128);
    assert_true(arena_piece(SIZE_MAX) >= SIZE_MAX - ARENA_ALIGN); // no wrap to a small number
}

static void test_take(void **state) {
    (void)state;
    struct arena arena;
    size_t size = arena_piece(100) + arena_piece(1) + 10; // the last piece need not be rounded up
    assert_ok(arena_init(&arena, size, false));
    char *a = arena_take(&arena, 100);
    char *b = arena_take(&arena, 1);
    char *c = arena_take(&arena, 10);
    assert_int_equal((uintptr_t)a % ARENA_ALIGN, 0);
    assert_int_equal(b - a, 128);
    assert_int_equal(c - b, 64);
    assert_int_equal(arena.used, size);
    for (size_t i = 0; i < size; i++)
        assert_int_equal(a[i], 0);
    memset(a, 1, size);
    arena_release(&arena);
    assert_null(arena.base);
    arena_release(&arena);
}

static void test_huge(void **state) {
    (void)state;
    struct arena arena;
    size_t size = ((size_t)5 << 20) + 12345;
    assert_ok(arena_init(&arena, size, true));
    assert_int_equal((uintptr_t)arena.base % ((size_t)2 << 20), 0);
    char *at = arena_take(&arena, size);
    at[0] = 1;
    at[size - 1] = 1;
    arena_release(&arena);
    assert_ok(arena_init(&arena, 100, true)); // smaller than a huge page
    memset(arena_take(&arena, 100), 1, 100);
    arena_release(&arena);
}

static void test_empty(void **state) {
    (void)state;
    struct arena arena;
    assert_ok(arena_init(&arena, 0, true));
    arena_take(&arena, 0);
    assert_int_equal(arena.used, 0);
    arena_release(&arena);
}

static void test_too_large(void **state) {
    (void)state;
    struct arena arena;
    assert_status(arena_init(&arena, SIZE_MAX, false), STATUS_SYSTEM);
    assert_status(arena_init(&arena, (size_t)1 << 60, false), STATUS_DEVICE);
    assert_non_null(strstr(status_message(), "memory"));
    assert_null(arena.base);
    arena_release(&arena);
}

// More than was planned is a bug of ours and ends the process; a child tries it.
static void test_overdrawn(void **state) {
    (void)state;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGABRT, SIG_DFL);
        fclose(stderr);
        struct arena arena;
        if (arena_init(&arena, 100, false) == STATUS_OK)
            arena_take(&arena, 101);
        _exit(0);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
#ifdef NDEBUG
    (void)how;
#else
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGABRT);
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces), cmocka_unit_test(test_take),      cmocka_unit_test(test_huge),
        cmocka_unit_test(test_empty),  cmocka_unit_test(test_too_large), cmocka_unit_test(test_overdrawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
