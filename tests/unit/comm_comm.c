// SPDX-License-Identifier: Apache-2.0
// Opening a world in all the environments that launchers leave behind. Each case runs in a child: MPI can be
// initialised once a process.
#include "support.h"

#include "base/job.h"
#include "comm/comm.h"

#include <sys/wait.h>

static const char *const launcher_names[] = {
    "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "PMI_SIZE",
    "SLURM_NTASKS",         "SLURM_PROCID"};

// What a child found, as its exit code: the status, or 100 + world if it opened; 90 if the message lacks `wanted`.
static int open_in_child(int backend, const char *const *environment, const char *wanted) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        for (size_t i = 0; i < sizeof launcher_names / sizeof *launcher_names; i++)
            unsetenv(launcher_names[i]);
        for (; environment && environment[0]; environment += 2)
            setenv(environment[0], environment[1], 1);
        struct comm *comm;
        enum status status = comm_open(&comm, backend);
        if (status != STATUS_OK)
            _exit(comm ? 91 : wanted && !strstr(status_message(), wanted) ? 90 : (int)status);
        int world = comm->world, same = wanted ? strcmp(comm->ops->name, wanted) == 0 : 1;
        comm_close(comm);
        _exit(same ? 100 + world : 92);
    }
    int status;
    assert_true(waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

#define ENVIRONMENT(...)                                                                                               \
    (const char *const[]) {                                                                                            \
        __VA_ARGS__, NULL                                                                                              \
    }

static void test_alone(void **state) {
    (void)state;
    assert_int_equal(open_in_child(JOB_BACKEND_AUTO, NULL, "self"), 101);
    assert_int_equal(open_in_child(JOB_BACKEND_SELF, NULL, "self"), 101);
    assert_int_equal(open_in_child(JOB_BACKEND_MPI, NULL, "mpi"), 101); // as a singleton, without a daemon
    assert_int_equal(open_in_child(JOB_BACKEND_AUTO, ENVIRONMENT("SLURM_NTASKS", "1"), "self"), 101);
    assert_int_equal(open_in_child(JOB_BACKEND_AUTO, ENVIRONMENT("SLURM_NTASKS", "two"), "self"), 101);
}

static void test_guard(void **state) {
    (void)state;
    static const char *const variables[] = {"SLURM_NTASKS", "PMI_SIZE"};
    for (size_t i = 0; i < 2; i++) {
        const char *const *environment = ENVIRONMENT(variables[i], "2", "PMI_RANK", "0");
        assert_int_equal(open_in_child(JOB_BACKEND_AUTO, environment, "srun --mpi=pmix"), STATUS_USAGE);
        assert_int_equal(open_in_child(JOB_BACKEND_AUTO, environment, "started 2 tasks"), STATUS_USAGE);
        assert_int_equal(open_in_child(JOB_BACKEND_SELF, environment, "self"), 101);
    }
    assert_int_equal(open_in_child(JOB_BACKEND_MPI, ENVIRONMENT("SLURM_NTASKS", "2"), "comm.backend: self"),
                     STATUS_USAGE);
    // A launcher of another MPI: Open MPI sees one rank.
    assert_int_equal(open_in_child(JOB_BACKEND_SELF, ENVIRONMENT("OMPI_COMM_WORLD_SIZE", "4"), "self"), 101);
}

static void test_not_yet(void **state) {
    (void)state;
    assert_int_equal(open_in_child(JOB_BACKEND_OFI, NULL, "ofi: not in this version yet"), STATUS_USAGE);
    assert_int_equal(open_in_child(JOB_BACKEND_NCCL, NULL, "nccl: not in this version yet"), STATUS_USAGE);
}

static void test_fault_in_environment(void **state) {
    (void)state;
    assert_int_equal(open_in_child(JOB_BACKEND_AUTO, ENVIRONMENT("FINETUNED_FAULT", "nan:rank=0,cursor=5"), "self"),
                     101);
    assert_int_equal(
        open_in_child(JOB_BACKEND_AUTO, ENVIRONMENT("FINETUNED_FAULT", "nam:rank=0,cursor=5"), "unknown kind"),
        STATUS_USAGE);
    assert_int_equal(
        open_in_child(JOB_BACKEND_AUTO, ENVIRONMENT("FINETUNED_FAULT", "nan:rank=1,cursor=5"), "world of 1"),
        STATUS_USAGE);
}

// A world of one: every operation is there, nothing changes.
static void test_self(void **state) {
    (void)state;
    struct comm *comm;
    assert_ok(comm_open(&comm, JOB_BACKEND_SELF));
    assert_true(comm->rank == 0 && comm->world == 1 && comm->local_rank == 0 && comm->local_world == 1 &&
                comm->host[0]);
    float values[3] = {1, -0.0f, 3}, other[3] = {0}, scratch[3];
    assert_ok(comm_barrier(comm));
    assert_ok(comm_broadcast(comm, values, sizeof values, 0));
    assert_ok(comm_all_gather(comm, values, other, sizeof values));
    assert_memory_equal(values, other, sizeof values);
    assert_ok(comm_tree_sum(comm, values, 3, scratch));
    assert_memory_equal(values, other, sizeof values);
    uint32_t flags = 5;
    assert_ok(comm_flags(comm, &flags));
    assert_int_equal(flags, 5);
    assert_ok(comm_same(comm, values, sizeof values, "values"));
    assert_ok(comm_agree(comm, STATUS_OK));
    status_set(STATUS_DATA, "as it was");
    assert_status(comm_agree(comm, STATUS_DATA), STATUS_DATA);
    assert_string_equal(status_message(), "as it was");
    comm_close(comm);
    comm_close(NULL);
}

static void test_self_abort(void **state) {
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        struct comm *comm;
        if (comm_open(&comm, JOB_BACKEND_SELF) == STATUS_OK)
            comm_abort(comm, 75);
        _exit(1);
    }
    int status;
    assert_true(waitpid(child, &status, 0) == child && WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 75);
}

int main(void) {
    unsetenv("FINETUNED_FAULT");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone),   cmocka_unit_test(test_guard),
        cmocka_unit_test(test_not_yet), cmocka_unit_test(test_fault_in_environment),
        cmocka_unit_test(test_self),    cmocka_unit_test(test_self_abort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
