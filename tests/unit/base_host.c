// SPDX-License-Identifier: Apache-2.0
// Memory and CPU limits as the kernel's files say them, in trees of both versions of control groups.
#include "tree_support.h"

#include "base/file.h"
#include "base/host.h"
#include "base/text.h"

#define MEMINFO "MemTotal:       8000000 kB\nMemFree:         100000 kB\nMemAvailable:    5000000 kB\n"

static void no_groups(void **context) {
    (void)context;
    struct host_memory memory;
    assert_false(host_memory(&memory, tree_root));
    tree_put("proc/meminfo", MEMINFO);
    assert_true(host_memory(&memory, tree_root));
    assert_int_equal(memory.total, 8000000ull * 1024);
    assert_int_equal(memory.available, 5000000ull * 1024);
    assert_int_equal(memory.limit, HOST_NONE);
    assert_near(host_cpu_quota(tree_root), 0, 0, 0);
}

// The group that leaves the least counts, wherever on the way up it is; its inactive page cache is not in use.
static void version_2(void **context) {
    (void)context;
    struct host_memory memory;
    tree_put("proc/meminfo", MEMINFO);
    tree_put("proc/self/cgroup", "0::/jobs/one\n");
    tree_put("sys/fs/cgroup/jobs/one/memory.max", "max\n");
    tree_put("sys/fs/cgroup/jobs/memory.max", "3000000000\n");
    tree_put("sys/fs/cgroup/jobs/memory.current", "1500000000\n");
    tree_put("sys/fs/cgroup/jobs/memory.stat", "anon 5\ninactive_file 500000000\nactive_file 7\n");
    tree_put("sys/fs/cgroup/jobs/one/cpu.max", "150000 100000\n");
    tree_put("sys/fs/cgroup/jobs/cpu.max", "400000 100000\n");
    tree_put("sys/fs/cgroup/cpu.max", "max 100000\n");
    assert_true(host_memory(&memory, tree_root));
    assert_int_equal(memory.limit, 3000000000);
    assert_int_equal(memory.used, 1000000000);
    assert_int_equal(memory.available, 2000000000);
    assert_near(host_cpu_quota(tree_root), 1.5, 1e-9, 0);
    tree_put("sys/fs/cgroup/jobs/one/memory.max", "400000000\n"); // nothing used yet
    assert_true(host_memory(&memory, tree_root));
    assert_int_equal(memory.available, 400000000);
    tree_put("sys/fs/cgroup/jobs/one/memory.current", "500000000\n");
    assert_true(host_memory(&memory, tree_root));
    assert_int_equal(memory.available, 0);
}

// Inside a container the path that /proc names may not be there: the mount is the group.
static void version_2_in_a_container(void **context) {
    (void)context;
    struct host_memory memory;
    tree_put("proc/meminfo", MEMINFO);
    tree_put("proc/self/cgroup", "0::/../elsewhere\n");
    tree_put("sys/fs/cgroup/memory.max", "1073741824\n");
    tree_put("sys/fs/cgroup/memory.current", "73741824\n");
    assert_true(host_memory(&memory, tree_root));
    assert_int_equal(memory.available, 1000000000);
}

static void version_1(void **context) {
    (void)context;
    struct host_memory memory;
    tree_put("proc/meminfo", MEMINFO);
    tree_put("proc/self/cgroup", "9:name=systemd:/\n5:cpu,cpuacct:/docker/abc\n4:hugetlb,memory:/docker/abc\n0::/\n");
    tree_put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    tree_put("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "2000000000\n");
    tree_put("sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes", "900000000\n");
    tree_put("sys/fs/cgroup/memory/docker/abc/memory.stat", "cache 1\ntotal_inactive_file 400000000\n");
    tree_put("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "-1\n");
    tree_put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "250000\n");
    tree_put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    assert_true(host_memory(&memory, tree_root));
    assert_int_equal(memory.limit, 2000000000);
    assert_int_equal(memory.available, 1500000000);
    assert_near(host_cpu_quota(tree_root), 2.5, 1e-9, 0);
}

// A limit above the host's memory is none.
static void large_limit(void **context) {
    (void)context;
    struct host_memory memory;
    tree_put("proc/meminfo", MEMINFO);
    tree_put("proc/self/cgroup", "0::/\n");
    tree_put("sys/fs/cgroup/memory.max", "99999999999999\n");
    assert_true(host_memory(&memory, tree_root));
    assert_int_equal(memory.limit, HOST_NONE);
    assert_int_equal(memory.available, 5000000ull * 1024);
}

static void this_host(void **context) {
    (void)context;
    struct host_memory memory;
    assert_true(host_memory(&memory, ""));
    assert_true(memory.available > 0 && memory.available <= memory.total);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_groups, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(version_2, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(version_2_in_a_container, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(version_1, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(large_limit, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(this_host, tree_setup, tree_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
