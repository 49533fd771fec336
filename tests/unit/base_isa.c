// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include "base/file.h"
#include "base/isa.h"

static void test_names(void **state) {
    (void)state;
    assert_string_equal(isa_name(ISA_PLAIN), "plain");
    assert_string_equal(isa_name(ISA_AVX2), "avx2");
    assert_string_equal(isa_name(ISA_AVX512), "avx512");
    assert_string_equal(isa_name(ISA_AVX512BF16), "avx512bf16");
}

// True if the kernel lists all of `flags` (with blanks around each) for the first processor.
static bool cpu_has(const char *cpuinfo, const char *const *flags) {
    const char *line = strstr(cpuinfo, "\nflags");
    if (!line)
        return false;
    size_t size = strcspn(line + 1, "\n") + 1;
    for (; *flags; flags++) {
        const char *at = strstr(line, *flags);
        size_t length = strlen(*flags);
        while (at && at < line + size && !(at[-1] == ' ' && (at[length] == ' ' || at[length] == '\n')))
            at = strstr(at + 1, *flags);
        if (!at || at >= line + size)
            return false;
    }
    return true;
}

// The kernel's own view of the processor agrees.
static void test_best(void **state) {
    (void)state;
    static const char *const v3[] = {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave", NULL};
    static const char *const v4[] = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", NULL};
    static const char *const bf16[] = {"avx512_bf16", NULL};
    char *cpuinfo;
    assert_ok(file_read(&cpuinfo, NULL, "/proc/cpuinfo", (size_t)64 << 20));
    enum isa wanted = ISA_PLAIN;
    if (cpu_has(cpuinfo, v3))
        wanted = !cpu_has(cpuinfo, v4) ? ISA_AVX2 : cpu_has(cpuinfo, bf16) ? ISA_AVX512BF16 : ISA_AVX512;
    free(cpuinfo);
    assert_int_equal(isa_best(), wanted);
}

static void test_choose(void **state) {
    (void)state;
    enum isa isa;
    unsetenv("FINETUNED_ISA");
    assert_ok(isa_choose(&isa));
    assert_int_equal(isa, isa_best());
    setenv("FINETUNED_ISA", "", 1);
    assert_ok(isa_choose(&isa));
    assert_int_equal(isa, isa_best());
    for (int wanted = 0; wanted < ISA_COUNT; wanted++) {
        setenv("FINETUNED_ISA", isa_name((enum isa)wanted), 1);
        if (wanted <= (int)isa_best()) {
            assert_ok(isa_choose(&isa));
            assert_int_equal(isa, wanted);
        } else {
            assert_status(isa_choose(&isa), STATUS_DEVICE);
        }
    }
    setenv("FINETUNED_ISA", "avx1024", 1);
    assert_status(isa_choose(&isa), STATUS_USAGE);
    assert_non_null(strstr(status_message(), "avx1024"));
    unsetenv("FINETUNED_ISA");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_best),
        cmocka_unit_test(test_choose),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
