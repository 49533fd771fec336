// SPDX-License-Identifier: Apache-2.0
// The doctor's subjects on made trees of /proc, /sys and /dev, and what comes from other hosts over a made world.
#include "tree_support.h"

#include "base/file.h"
#include "base/text.h"
#include "daemon/doctor/doctor.h"

// The worst that one subject says; `part` must be in it.
static enum doctor_level look(doctor_look *subject, const char *part) {
    struct doctor d = {.root = tree_root, .subject = "it"};
    enum doctor_level level = DOCTOR_OK;
    bool there = false;
    subject(&d);
    assert_true(d.n > 0);
    for (size_t i = 0; i < d.n; i++) {
        level = d.findings[i].level > level ? d.findings[i].level : level;
        there = there || strstr(d.findings[i].found, part);
        assert_true(d.findings[i].level == DOCTOR_OK || d.findings[i].fix); // a fix for each
    }
    if (!there)
        fail_msg("\"%s\" is not in what was found: %s", part, d.findings[0].found);
    doctor_close(&d);
    return level;
}

static void memory(void **context) {
    (void)context;
    assert_int_equal(look(doctor_memory, "/proc/meminfo"), DOCTOR_WARN);
    tree_put("proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable: 6291456 kB\n");
    assert_int_equal(look(doctor_memory, "6.0 GiB available of 8.0 GiB"), DOCTOR_OK);
    tree_put("proc/self/cgroup", "0::/\n");
    tree_put("sys/fs/cgroup/memory.max", "2147483648\n");
    tree_put("sys/fs/cgroup/memory.current", "1073741824\n");
    assert_int_equal(look(doctor_memory, "the control group allows 2.0 GiB, 1.0 GiB of it in use"), DOCTOR_WARN);
    tree_put("sys/fs/cgroup/memory.max", "max\n");
    tree_put("proc/sys/vm/overcommit_memory", "2\n");
    assert_int_equal(look(doctor_memory, "overcommit"), DOCTOR_WARN);
}

static void threads(void **context) {
    (void)context;
    tree_put("proc/loadavg", "0.01 0.02 0.03 1/2 3\n");
    tree_put("proc/self/cgroup", "0::/a\n");
    tree_put("sys/fs/cgroup/a/cpu.max", "50000 100000\n");
    assert_int_equal(look(doctor_threads, "the time of 0.5 CPUs"), DOCTOR_WARN);
    tree_put("sys/fs/cgroup/a/cpu.max", "max 100000\n");
    look(doctor_threads, "CPUs"); // of the test's own mask
    tree_put("proc/loadavg", "9999.5 0.02 0.03 1/2 3\n");
    assert_int_equal(look(doctor_threads, "9999.5"), DOCTOR_WARN);
}

static void cpu(void **context) {
    (void)context;
    tree_put("proc/cpuinfo",
             "processor\t: 0\nmodel name\t: Made Up 3000\nflags\t\t: fpu avx2 avx512fake amx_bf16\nflags\t\t: x\n");
    tree_put("sys/devices/system/cpu/smt/active", "1\n");
    assert_int_equal(look(doctor_cpu, "Made Up 3000"), DOCTOR_OK);
    assert_int_equal(look(doctor_cpu, "; avx2 amx_bf16"), DOCTOR_OK); // not avx512f
    look(doctor_cpu, "hyper-threads");
    tree_put("proc/cpuinfo", "processor : 0\nFeatures : fp asimd asimddp bf16\n");
    look(doctor_cpu, "asimd asimddp bf16");
}

static void pages_and_frequency(void **context) {
    (void)context;
    assert_int_equal(look(doctor_huge_pages, "does not say"), DOCTOR_OK);
    tree_put("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
    assert_int_equal(look(doctor_huge_pages, "off"), DOCTOR_WARN);
    tree_put("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    assert_int_equal(look(doctor_huge_pages, "asked"), DOCTOR_OK);
    assert_int_equal(look(doctor_frequency, "virtual"), DOCTOR_OK);
    tree_put("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
    tree_put("sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", "acpi-cpufreq\n");
    assert_int_equal(look(doctor_frequency, "powersave"), DOCTOR_WARN);
    tree_put("sys/devices/system/cpu/cpu0/cpufreq/scaling_driver",
             "intel_pstate\n"); // its powersave goes up with the load
    assert_int_equal(look(doctor_frequency, "powersave"), DOCTOR_OK);
}

static void devices(void **context) {
    (void)context;
    assert_int_equal(look(doctor_devices, "CPUs alone"), DOCTOR_OK);
    tree_put("dev/nvidia0", "");
    tree_put("dev/nvidia1", "");
    tree_put("dev/nvidiactl", "");
    assert_int_equal(look(doctor_devices, "2 NVIDIA GPUs; this version"), DOCTOR_OK);
    look(doctor_locked_memory, "only RDMA");
    tree_put("sys/class/infiniband/efa_0", "");
    look(doctor_devices, "1 RDMA or EFA device");
}

static void shared_memory(void **context) {
    (void)context;
    assert_int_equal(look(doctor_shared_memory, "not there"), DOCTOR_WARN);
    tree_put("dev/shm/x", "");
    look(doctor_shared_memory, "free in /dev/shm");
}

static void time_of_day(void **context) {
    (void)context;
    tree_put("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n");
    assert_int_equal(look(doctor_clock, "hpet"), DOCTOR_WARN);
    tree_put("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
    assert_int_equal(look(doctor_clock, "tsc"), DOCTOR_OK);
}

// ---- from other hosts: what rank 1 sends is kept here and handed to rank 0

static struct {
    char *pieces[8];
    size_t sizes[8], n, next;
} wire;

static enum status wire_send(struct comm *comm, int peer, const void *bytes, size_t size) {
    assert_int_equal(comm->rank, 1);
    assert_int_equal(peer, 0);
    wire.pieces[wire.n] = malloc(size);
    memcpy(wire.pieces[wire.n], bytes, size);
    wire.sizes[wire.n++] = size;
    return STATUS_OK;
}

static enum status wire_receive(struct comm *comm, int peer, void *bytes, size_t size) {
    assert_int_equal(comm->rank, 0);
    assert_int_equal(peer, 1);
    assert_int_equal(size, wire.sizes[wire.next]);
    memcpy(bytes, wire.pieces[wire.next], size);
    free(wire.pieces[wire.next++]);
    return STATUS_OK;
}

static enum status wire_gather(struct comm *comm, const void *in, void *out, size_t size) {
    uint32_t speaks[2] = {0, 1};
    assert_int_equal(*(const uint32_t *)in, speaks[comm->rank]);
    memcpy(out, speaks, 2 * size);
    return STATUS_OK;
}

static void other_hosts(void **context) {
    (void)context;
    static const struct comm_ops ops = {.send = wire_send, .receive = wire_receive, .all_gather = wire_gather};
    struct comm far = {.ops = &ops, .rank = 1, .world = 2, .local_rank = 0, .local_world = 1, .host = "far"};
    struct comm near = {.ops = &ops, .rank = 0, .world = 2, .local_rank = 0, .local_world = 1, .host = "near"};
    struct doctor theirs = {.root = "", .comm = &far, .subject = "memory"},
                  ours = {.root = "", .comm = &near, .subject = "cpu"};
    doctor_ok(&theirs, "fine");
    doctor_warn(&theirs, "buy \"more\"", "%d GiB", 1);
    theirs.subject = doctor_subject("disk");
    doctor_fail(&theirs, STATUS_IO, NULL, "full");
    assert_ok(doctor_gather(&theirs));
    doctor_ok(&ours, "fine");
    assert_int_equal(doctor_status(&ours), STATUS_OK);
    assert_ok(doctor_gather(&ours));
    assert_int_equal(ours.n, 3);
    assert_string_equal(ours.findings[1].host, "far");
    assert_string_equal(ours.findings[1].subject, "memory");
    assert_string_equal(ours.findings[1].found, "1 GiB");
    assert_string_equal(ours.findings[1].fix, "buy \"more\"");
    assert_int_equal(ours.findings[1].level, DOCTOR_WARN);
    assert_string_equal(ours.findings[2].found, "full");
    assert_null(ours.findings[2].fix);
    assert_int_equal(doctor_status(&ours), STATUS_IO);
    doctor_close(&theirs);
    doctor_close(&ours);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(memory, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(threads, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(cpu, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(pages_and_frequency, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(devices, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(shared_memory, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(time_of_day, tree_setup, tree_teardown),
        cmocka_unit_test(other_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
