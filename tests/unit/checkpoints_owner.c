// SPDX-License-Identifier: Apache-2.0
// One run a folder: of many starters at once exactly one wins, also over a stale file; the dead and the silent are
// followed.
#include "support.h"

#include "base/file.h"
#include "base/text.h"
#include "checkpoints/owner_parts.h"

#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STARTERS 8

static char *folder, *path;

static int setup(void **context) {
    (void)context;
    folder = support_folder();
    path = path_join(folder, ".owner");
    return 0;
}

static int teardown(void **context) {
    (void)context;
    assert_ok(file_remove(folder));
    free(path);
    free(folder);
    return 0;
}

static void message_holds(const char *part) {
    if (!strstr(status_message(), part))
        fail_msg("message \"%s\" does not hold \"%s\"", status_message(), part);
}

// Nothing but what is wanted lies in the folder.
static void names_are(size_t wanted) {
    char **names;
    size_t n;
    assert_ok(file_list(&names, &n, folder));
    if (n != wanted)
        fail_msg("%zu names in the folder, wanted %zu; the last: %s", n, wanted, n ? names[n - 1] : "");
    file_list_free(names, n);
}

static void put(const char *text) {
    assert_ok(file_replace(path, text, strlen(text)));
}

static void read_record(struct owner_record *record) {
    char *bytes;
    size_t size;
    assert_ok(file_read(&bytes, &size, path, 65536));
    assert_ok(owner_parse(record, bytes, size));
    free(bytes);
}

// The file as another would write it.
static void put_record(const struct owner_record *record, const char *heartbeat) {
    char *text = text_format("{\"host\": \"%s\", \"boot_id\": \"%s\", \"pid_namespace\": \"%s\", \"pid\": %ld, "
                             "\"start_time\": %llu, \"started\": \"%s\", \"token\": \"%s\", \"heartbeat\": \"%s\"}",
                             record->host, record->boot_id, record->pid_namespace, record->pid, record->start_time,
                             record->started, record->token, heartbeat);
    put(text);
    free(text);
}

// What this process would write.
static void own_record(struct owner_record *record) {
    struct owner *owner;
    assert_ok(owner_take(&owner, folder, "out"));
    read_record(record);
    owner_release(owner);
}

static void take_and_release(void **context) {
    (void)context;
    struct owner *owner, *second;
    struct owner_record record;
    char *inner = path_join(folder, "runs/emotion"), part[64];
    assert_ok(owner_take(&owner, inner, "out")); // makes the folder
    owner_release(owner);
    assert_ok(file_remove(inner));
    free(inner);
    assert_ok(owner_take(&owner, folder, "out"));
    read_record(&record);
    assert_int_equal(record.pid, getpid());
    assert_status(owner_take(&second, folder, "out"), STATUS_AGAIN);
    assert_null(second);
    snprintf(part, sizeof part, "is in use by pid %ld on host ", (long)getpid());
    message_holds(folder);
    message_holds(part);
    message_holds("wait for it or choose another out");
    assert_ok(owner_check(owner));
    names_are(2); // .owner and runs
    owner_release(owner);
    names_are(1);
    owner_release(NULL);
    assert_ok(owner_take(&owner, folder, "out"));
    owner_release(owner);
}

// Asking takes nothing: it says what taking would say.
static void asked(void **context) {
    (void)context;
    struct owner *owner;
    char *missing = path_join(folder, "not/there");
    assert_ok(owner_ask(missing, "out"));
    assert_ok(owner_ask(folder, "out"));
    names_are(0);
    assert_ok(owner_take(&owner, folder, "out"));
    assert_status(owner_ask(folder, "out"), STATUS_AGAIN);
    message_holds("is in use by pid ");
    names_are(1);
    owner_release(owner);
    put("half a li");
    assert_ok(owner_ask(folder, "out")); // the rest of a crash
    names_are(1);
    free(missing);
}

static void no_folder(void **context) {
    (void)context;
    struct owner *owner;
    char *below = path_join(path, "x");
    put("a file");
    assert_status(owner_take(&owner, below, "out"), STATUS_IO);
    free(below);
}

// Children take the folder at once, wait for each other and then end, killed or in order. Returns how many won; the
// others must have been told to wait.
static unsigned contest(void) {
    int results[2], go[2];
    unsigned won = 0, refused = 0;
    assert_int_equal(pipe(results), 0);
    assert_int_equal(pipe(go), 0);
    pid_t pids[STARTERS];
    for (int i = 0; i < STARTERS; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            struct owner *owner;
            char byte;
            close(go[1]);
            enum status status = owner_take(&owner, folder, "out");
            byte = status == STATUS_OK ? 'w' : status == STATUS_AGAIN ? 'r' : 'e';
            if (write(results[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 0)
                _exit(1);
            owner_release(owner);
            _exit(0);
        }
    }
    close(go[0]);
    for (int i = 0; i < STARTERS; i++) {
        char byte = 0;
        assert_int_equal(read(results[0], &byte, 1), 1);
        won += byte == 'w';
        refused += byte == 'r';
    }
    assert_int_equal(won + refused, STARTERS);
    close(go[1]);
    for (int i = 0; i < STARTERS; i++) {
        int state;
        assert_int_equal(waitpid(pids[i], &state, 0), pids[i]);
        assert_int_equal(state, 0);
    }
    close(results[0]);
    close(results[1]);
    return won;
}

static void one_of_many(void **context) {
    (void)context;
    for (int round = 0; round < 25; round++) {
        assert_int_equal(contest(), 1);
        names_are(0);
    }
}

// A child that is gone without a word: its pid and start time.
static void die(struct owner_record *record) {
    pid_t pid = fork();
    if (pid == 0) {
        struct owner *owner;
        raise(owner_take(&owner, folder, "out") == STATUS_OK ? SIGKILL : SIGTERM);
    }
    int state;
    assert_int_equal(waitpid(pid, &state, 0), pid);
    assert_int_equal(WTERMSIG(state), SIGKILL);
    read_record(record);
    assert_int_equal(record->pid, pid);
}

static void one_of_many_over_the_dead(void **context) {
    (void)context;
    struct owner_record record;
    for (int round = 0; round < 25; round++) {
        die(&record);
        assert_int_equal(contest(), 1);
        names_are(0);
    }
    for (int round = 0; round < 5; round++) {
        put("{garbage");
        assert_int_equal(contest(), 1);
        names_are(0);
    }
}

static void the_dead_is_followed(void **context) {
    (void)context;
    struct owner *owner;
    struct owner_record record;
    die(&record);
    assert_ok(owner_take(&owner, folder, "out"));
    owner_release(owner);
    // a pid that is in use again, by a process that started later
    own_record(&record);
    record.start_time -= 1;
    put_record(&record, "0000000000000001");
    assert_ok(owner_take(&owner, folder, "out"));
    owner_release(owner);
    // the host was restarted
    own_record(&record);
    memcpy(record.boot_id, "00000000", 8);
    put_record(&record, "0000000000000001");
    assert_ok(owner_take(&owner, folder, "out"));
    owner_release(owner);
    names_are(0);
}

static void zombie_is_dead(void **context) {
    (void)context;
    struct owner *owner;
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(ready[0]);
        _exit(owner_take(&owner, folder, "out") == STATUS_OK ? 0 : 1); // the pipe closes with it
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 0);
    close(ready[0]);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_ok(owner_take(&owner, folder, "out"));
    owner_release(owner);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void garbage_is_stale(void **context) {
    (void)context;
    struct owner *owner;
    const char *const texts[] = {"", "\n", "{", "[]", "{\"host\": 5}", "{\"pid\": -1}"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        put(texts[i]);
        assert_ok(owner_take(&owner, folder, "out"));
        struct owner_record record;
        read_record(&record);
        owner_release(owner);
        names_are(0);
    }
}

// ---- another host

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void put_other_host(const char *heartbeat) {
    struct owner_record record;
    own_record(&record);
    snprintf(record.host, sizeof record.host, "another");
    memcpy(record.boot_id, "00000000", 8);
    memcpy(record.token, "0123456789abcdef0123456789abcdef", 33);
    put_record(&record, heartbeat);
}

static void silent_host_is_followed(void **context) {
    (void)context;
    struct owner *owner;
    put_other_host("0000000000000007");
    double start = seconds();
    assert_ok(owner_take_within(&owner, folder, "out", 1.5));
    assert_true(seconds() - start >= 1.5);
    owner_release(owner);
    names_are(0);
}

static void *beat(void *context) {
    struct timespec nap = {.tv_nsec = 600000000};
    (void)context;
    nanosleep(&nap, NULL);
    FILE *file = fopen(path, "r+b");
    fseek(file, -3, SEEK_END);
    fputc('9', file);
    fclose(file);
    return NULL;
}

static void beating_host_is_left_alone(void **context) {
    (void)context;
    struct owner *owner;
    pthread_t thread;
    put_other_host("0000000000000007");
    assert_int_equal(pthread_create(&thread, NULL, beat, NULL), 0);
    double start = seconds();
    assert_status(owner_take_within(&owner, folder, "out", 20), STATUS_AGAIN);
    assert_true(seconds() - start < 10);
    message_holds("on host another");
    assert_int_equal(pthread_join(thread, NULL), 0);
    names_are(1);
}

// A starter that died between its claim and the rename: its claim is followed like an owner.
static void claim_is_followed(void **context) {
    (void)context;
    struct owner *owner, *second;
    struct owner_record record, claim;
    char *other = text_format("%s.other", path);
    die(&record);
    char *name = text_format("%s.next-%s", path, record.token);
    assert_int_equal(rename(path, other), 0);
    die(&claim);
    assert_int_equal(rename(path, name), 0);
    assert_int_equal(rename(other, path), 0);
    assert_ok(owner_take(&owner, folder, "out"));
    names_are(1);
    owner_release(owner);
    free(name);
    // a claim whose starter lives
    die(&record);
    name = text_format("%s.next-%s", path, record.token);
    assert_int_equal(rename(path, other), 0);
    assert_ok(owner_take(&owner, folder, "out"));
    assert_int_equal(rename(path, name), 0);
    assert_int_equal(rename(other, path), 0);
    assert_status(owner_take(&second, folder, "out"), STATUS_AGAIN);
    owner_release(owner);
    free(other);
    free(name);
}

static void heartbeat_and_loss(void **context) {
    (void)context;
    struct owner *owner;
    struct timespec nap = {.tv_nsec = 200000000};
    char *before, *after;
    assert_ok(owner_take(&owner, folder, "out"));
    assert_ok(file_read(&before, NULL, path, 65536));
    bool changed = false;
    for (double start = seconds(); !changed && seconds() - start < 20;) {
        nanosleep(&nap, NULL);
        assert_ok(file_read(&after, NULL, path, 65536));
        changed = strcmp(before, after) != 0;
        free(after);
    }
    assert_true(changed);
    struct owner_record record;
    read_record(&record);
    put("{}"); // another's file now
    for (double start = seconds(); owner_check(owner) == STATUS_OK && seconds() - start < 20;)
        nanosleep(&nap, NULL);
    assert_status(owner_check(owner), STATUS_AGAIN);
    owner_release(owner);
    names_are(1); // and it stays
    free(before);
}

// A look is fresh, whatever the heartbeat's thread saw last; lost once is lost for good.
static void looks_are_fresh(void **context) {
    (void)context;
    struct owner *owner, *second;
    char *bytes, *aside = text_format("%s/aside", folder);
    size_t size;
    assert_false(owner_lost(NULL));
    assert_ok(owner_check(NULL));
    assert_ok(owner_take(&owner, folder, "out"));
    assert_false(owner_lost(owner));
    assert_int_equal(rename(path, aside), 0);
    assert_true(owner_lost(owner));
    assert_int_equal(rename(aside, path), 0);
    assert_true(owner_lost(owner));
    assert_status(owner_check(owner), STATUS_AGAIN);
    owner_release(owner);
    // gone
    assert_ok(owner_take(&owner, folder, "out"));
    assert_int_equal(unlink(path), 0);
    assert_status(owner_check(owner), STATUS_AGAIN);
    message_holds(folder);
    message_holds("its .owner is gone");
    // taken
    assert_ok(owner_take(&second, folder, "out"));
    assert_status(owner_check(owner), STATUS_AGAIN);
    message_holds("another run took it");
    owner_release(owner);
    assert_ok(owner_check(second));
    // the same file with another's token, as a cache of names may show it
    assert_ok(file_read(&bytes, &size, path, 65536));
    char *token = strstr(bytes, "\"token\": \"");
    token[10] = token[10] == '0' ? '1' : '0';
    FILE *file = fopen(path, "r+b");
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
    assert_status(owner_check(second), STATUS_AGAIN);
    owner_release(second);
    free(bytes);
    free(aside);
}

// A folder above that is held holds all below it, but not for the process that holds it.
static void asked_above(void **context) {
    (void)context;
    char *below = path_join(folder, "a/b");
    struct owner *owner;
    assert_ok(owner_ask_above(below, "checkpoints.dir"));
    assert_ok(owner_take(&owner, folder, "out"));
    assert_ok(owner_ask_above(below, "checkpoints.dir"));
    pid_t pid = fork();
    if (pid == 0)
        _exit(owner_ask_above(below, "checkpoints.dir") == STATUS_AGAIN &&
                      strstr(status_message(), "choose another checkpoints.dir")
                  ? 0
                  : 1);
    int state;
    assert_int_equal(waitpid(pid, &state, 0), pid);
    assert_int_equal(state, 0);
    owner_release(owner);
    free(below);
}

// A file with nothing in it, under the name that this process gives its own.
static void put_unwritten(const char *token) {
    struct owner_record record;
    assert_ok(owner_record_self(&record));
    snprintf(record.token, sizeof record.token, "%s", token);
    char *name = owner_temporary(path, &record);
    assert_ok(file_replace(name, "", 0));
    free(name);
}

// A starter that died before it wrote a byte: its file's name tells. One that lives is left alone.
static void unwritten_is_removed(void **context) {
    (void)context;
    struct owner *owner;
    const pid_t pid = fork();
    assert_int_not_equal(pid, -1);
    if (pid == 0) {
        put_unwritten("0123456789abcdef0123456789abcdef");
        _exit(0);
    }
    int state;
    assert_int_equal(waitpid(pid, &state, 0), pid);
    assert_int_equal(state, 0);
    put_unwritten("fedcba9876543210fedcba9876543210");
    names_are(2);
    assert_ok(owner_take(&owner, folder, "out"));
    names_are(2); // .owner, and the other's of this process
    owner_release(owner);
    names_are(1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(take_and_release, setup, teardown),
        cmocka_unit_test_setup_teardown(asked, setup, teardown),
        cmocka_unit_test_setup_teardown(no_folder, setup, teardown),
        cmocka_unit_test_setup_teardown(one_of_many, setup, teardown),
        cmocka_unit_test_setup_teardown(one_of_many_over_the_dead, setup, teardown),
        cmocka_unit_test_setup_teardown(the_dead_is_followed, setup, teardown),
        cmocka_unit_test_setup_teardown(zombie_is_dead, setup, teardown),
        cmocka_unit_test_setup_teardown(garbage_is_stale, setup, teardown),
        cmocka_unit_test_setup_teardown(silent_host_is_followed, setup, teardown),
        cmocka_unit_test_setup_teardown(beating_host_is_left_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(claim_is_followed, setup, teardown),
        cmocka_unit_test_setup_teardown(unwritten_is_removed, setup, teardown),
        cmocka_unit_test_setup_teardown(heartbeat_and_loss, setup, teardown),
        cmocka_unit_test_setup_teardown(looks_are_fresh, setup, teardown),
        cmocka_unit_test_setup_teardown(asked_above, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
