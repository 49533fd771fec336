// SPDX-License-Identifier: Apache-2.0
// Which checkpoint a run goes on from, and what a crash left.
#include "support.h"

#include "base/file.h"
#include "base/hash.h"
#include "checkpoints_support.h"

#include <inttypes.h>

#include <sys/stat.h>
#include <unistd.h>

struct fixture {
    struct sample sample;
    struct comm *comm;
    struct checkpoint_dir dir;
    char *folder;
};

static int setup(void **context) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_ok(sample_table(&fixture->sample.table));
    sample_arenas(&fixture->sample.arenas, &fixture->sample.table);
    assert_ok(comm_open(&fixture->comm, JOB_BACKEND_SELF));
    fixture->folder = support_folder();
    fixture->dir = (struct checkpoint_dir){.path = path_join(fixture->folder, "checkpoints"), .keep = 9};
    *context = fixture;
    return 0;
}

static int teardown(void **context) {
    struct fixture *fixture = *context;
    assert_ok(file_remove(fixture->folder));
    comm_close(fixture->comm);
    sample_arenas_free(&fixture->sample.arenas);
    param_table_release(&fixture->sample.table);
    free(fixture->dir.path);
    free(fixture->folder);
    free(fixture);
    return 0;
}

static void save_in(struct fixture *fixture, const char *path, uint64_t step, uint64_t best) {
    struct checkpoint_dir dir = {.path = (char *)(uintptr_t)path, .keep = 9};
    struct checkpoint_saved saved;
    struct trainer_state state = sample_state(step);
    state.best_step = best;
    assert_ok(checkpoint_save(&saved, fixture->comm, &dir, &fixture->sample.table, &fixture->sample.arenas, &state));
    free(saved.path);
}

static void save_steps(struct fixture *fixture) {
    for (uint64_t step = 100; step <= 400; step += 100)
        save_in(fixture, fixture->dir.path, step, step == 300 ? 300 : 0);
}

static char *in_dir(const struct fixture *fixture, const char *name) {
    static char buffers[4][PATH_MAX];
    static unsigned turn;
    char *path = buffers[turn++ % 4];
    snprintf(path, PATH_MAX, "%s/%s", fixture->dir.path, name);
    return path;
}

static void chosen(struct fixture *fixture, struct checkpoint_choice *choice, const char *resume, const char *wanted) {
    assert_ok(checkpoint_choose(choice, fixture->dir.path, resume));
    if (wanted) {
        assert_non_null(choice->path);
        assert_string_equal(choice->path, in_dir(fixture, wanted));
    } else {
        assert_null(choice->path);
    }
}

static void link_is(const struct fixture *fixture, const char *name, const char *wanted) {
    char target[PATH_MAX] = "";
    ssize_t size = readlink(in_dir(fixture, name), target, sizeof target - 1);
    if (wanted)
        assert_string_equal(target, wanted);
    else
        assert_int_equal(size, -1);
}

static void message_holds(const char *part) {
    if (!strstr(status_message(), part))
        fail_msg("message \"%s\" does not hold \"%s\"", status_message(), part);
}

static void damage(const struct fixture *fixture, const char *step) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s/checkpoint.h5", fixture->dir.path, step);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, 100000, SEEK_SET);
    fputc(0x55, file);
    fclose(file);
}

static void fresh(void **context) {
    struct fixture *fixture = *context;
    struct checkpoint_choice choice;
    chosen(fixture, &choice, "auto", NULL); // no folder
    chosen(fixture, &choice, "never", NULL);
    assert_ok(file_make_folders(fixture->dir.path));
    chosen(fixture, &choice, "auto", NULL);
    // other names are none of ours
    assert_ok(file_make_folders(in_dir(fixture, "step-7")));
    assert_ok(file_make_folders(in_dir(fixture, "step-00000007.aside-1")));
    assert_ok(file_make_folders(in_dir(fixture, ".tmp-step-00000007-0")));
    chosen(fixture, &choice, "auto", NULL);
    assert_int_equal(choice.n_skipped + choice.n_aside, 0);
}

static void newest(void **context) {
    struct fixture *fixture = *context;
    struct checkpoint_choice choice;
    save_steps(fixture);
    save_in(fixture, fixture->dir.path, 123456789, 0); // nine digits: newer than those of eight
    chosen(fixture, &choice, "auto", "step-123456789");
    assert_int_equal(choice.n_skipped, 0);
    checkpoint_choice_release(&choice);
    assert_ok(file_remove(in_dir(fixture, "step-123456789")));
    assert_ok(file_remove(in_dir(fixture, "latest"))); // only a convenience
    chosen(fixture, &choice, "auto", "step-00000400");
    checkpoint_choice_release(&choice);
}

static void unusable_ones_are_passed_over(void **context) {
    struct fixture *fixture = *context;
    struct checkpoint_choice choice;
    save_steps(fixture);
    damage(fixture, "step-00000400");
    assert_int_equal(unlink(in_dir(fixture, "step-00000300/MANIFEST.json")), 0);
    chosen(fixture, &choice, "auto", "step-00000200");
    assert_int_equal(choice.n_skipped, 2);
    assert_string_equal(choice.skipped[0].path, in_dir(fixture, "step-00000400"));
    assert_non_null(strstr(choice.skipped[0].why, "damaged"));
    assert_non_null(strstr(choice.skipped[1].why, "MANIFEST.json"));
    link_is(fixture, "latest", "step-00000200");
    checkpoint_choice_release(&choice);

    // a whole one under another name is not of that step
    assert_ok(file_remove(in_dir(fixture, "step-00000400")));
    assert_int_equal(rename(in_dir(fixture, "step-00000100"), in_dir(fixture, "step-00000400")), 0);
    chosen(fixture, &choice, "auto", "step-00000200");
    assert_non_null(strstr(choice.skipped[0].why, "holds step 100"));
    checkpoint_choice_release(&choice);

    damage(fixture, "step-00000200");
    assert_status(checkpoint_choose(&choice, fixture->dir.path, "auto"), STATUS_DATA);
    message_holds("none of 3 can be used");
    assert_null(choice.path);
    assert_int_equal(choice.n_skipped, 3);
    checkpoint_choice_release(&choice);
}

static void never(void **context) {
    struct fixture *fixture = *context;
    struct checkpoint_choice choice;
    save_steps(fixture);
    chosen(fixture, &choice, "never", NULL);
    assert_int_equal(choice.n_aside, 4);
    assert_ok(checkpoint_verify(choice.aside[0]));
    checkpoint_choice_release(&choice);
    link_is(fixture, "latest", NULL);
    link_is(fixture, "best", NULL);
    chosen(fixture, &choice, "auto", NULL); // and nothing comes back later
    save_steps(fixture);
    chosen(fixture, &choice, "never", NULL);
    assert_true(file_exists(in_dir(fixture, "step-00000100.aside-2")));
    checkpoint_choice_release(&choice);
}

static void an_older_path(void **context) {
    struct fixture *fixture = *context;
    struct checkpoint_choice choice;
    save_steps(fixture);
    chosen(fixture, &choice, in_dir(fixture, "step-00000200"), "step-00000200");
    assert_int_equal(choice.n_aside, 2);
    assert_string_equal(choice.aside[0], in_dir(fixture, "step-00000300.aside-1"));
    checkpoint_choice_release(&choice);
    link_is(fixture, "latest", "step-00000200");
    link_is(fixture, "best", NULL); // it led to 300
    chosen(fixture, &choice, "auto", "step-00000200");
    checkpoint_choice_release(&choice);
    // through a link, and as the file
    chosen(fixture, &choice, in_dir(fixture, "latest"), "step-00000200");
    assert_int_equal(choice.n_aside, 0);
    checkpoint_choice_release(&choice);
    chosen(fixture, &choice, in_dir(fixture, "step-00000100/checkpoint.h5"), "step-00000100");
    checkpoint_choice_release(&choice);
}

static void a_path_elsewhere(void **context) {
    struct fixture *fixture = *context;
    struct checkpoint_choice choice;
    char *other = path_join(fixture->folder, "other");
    char *path = path_join(other, "step-00000250");
    save_in(fixture, other, 250, 0);
    save_steps(fixture);
    assert_ok(checkpoint_choose(&choice, fixture->dir.path, path));
    assert_string_equal(choice.path, path);
    assert_int_equal(choice.n_aside, 4);
    checkpoint_choice_release(&choice);
    free(path);
    free(other);
}

// Gives a manifest another format, with its check made anew: as a newer program would write it.
static void make_newer(const struct fixture *fixture, const char *step, bool checked) {
    char path[PATH_MAX], *bytes;
    size_t size;
    snprintf(path, sizeof path, "%s/%s/MANIFEST.json", fixture->dir.path, step);
    assert_ok(file_read(&bytes, &size, path, 1 << 24));
    char *format = strstr(bytes, "\"format\": "), *check = strstr(bytes, "\"check\": \"");
    assert_non_null(format);
    assert_non_null(check);
    format[10] = '9';
    char digits[17];
    snprintf(digits, sizeof digits, "%016" PRIx64, hash64(bytes, (size_t)(check - bytes)));
    if (checked)
        memcpy(check + 10, digits, 16);
    assert_ok(file_replace(path, bytes, size));
    free(bytes);
}

// A newer program's checkpoint is not stepped over; a damaged one that looks like it is.
static void a_newer_format(void **context) {
    struct fixture *fixture = *context;
    struct checkpoint_choice choice;
    save_steps(fixture);
    make_newer(fixture, "step-00000400", false);
    chosen(fixture, &choice, "auto", "step-00000300");
    checkpoint_choice_release(&choice);
    make_newer(fixture, "step-00000400", true);
    assert_status(checkpoint_look(&choice, fixture->dir.path, "auto"), STATUS_DATA);
    message_holds("step-00000400: format 9 is newer than this program's");
    checkpoint_choice_release(&choice);
    assert_status(checkpoint_look(&choice, fixture->dir.path, in_dir(fixture, "step-00000400")), STATUS_DATA);
    message_holds("newer");
    checkpoint_choice_release(&choice);
    // an older one by its name
    chosen(fixture, &choice, in_dir(fixture, "step-00000300"), "step-00000300");
    assert_int_equal(choice.n_aside, 1);
    checkpoint_choice_release(&choice);
}

// The same choice, and the folder as it was.
static void only_looked(void **context) {
    struct fixture *fixture = *context;
    struct checkpoint_choice choice;
    save_steps(fixture);
    damage(fixture, "step-00000400");
    assert_ok(checkpoint_look(&choice, fixture->dir.path, "auto"));
    assert_string_equal(choice.path, in_dir(fixture, "step-00000300"));
    assert_int_equal(choice.n_skipped, 1);
    checkpoint_choice_release(&choice);
    assert_ok(checkpoint_look(&choice, fixture->dir.path, in_dir(fixture, "step-00000200")));
    assert_string_equal(choice.path, in_dir(fixture, "step-00000200"));
    assert_int_equal(choice.n_aside, 2);
    assert_string_equal(choice.aside[1], in_dir(fixture, "step-00000400"));
    checkpoint_choice_release(&choice);
    assert_ok(checkpoint_look(&choice, fixture->dir.path, "never"));
    assert_null(choice.path);
    assert_int_equal(choice.n_aside, 4);
    checkpoint_choice_release(&choice);
    for (uint64_t step = 100; step <= 400; step += 100) {
        char name[32];
        snprintf(name, sizeof name, "step-%08d", (int)step);
        assert_true(file_is_folder(in_dir(fixture, name)));
    }
    link_is(fixture, "latest", "step-00000400");
    link_is(fixture, "best", "step-00000300");
    assert_ok(file_link(in_dir(fixture, "best"), "step-00000999")); // leads nowhere: a start would remove it
    assert_ok(checkpoint_look(&choice, fixture->dir.path, "never"));
    checkpoint_choice_release(&choice);
    link_is(fixture, "best", "step-00000999");
}

static void size(void **context) {
    struct fixture *fixture = *context;
    struct trainer_state state = sample_state(100);
    struct checkpoint_saved saved;
    uint64_t bytes;
    assert_ok(checkpoint_size(&bytes, &fixture->sample.table, &state));
    assert_ok(
        checkpoint_save(&saved, fixture->comm, &fixture->dir, &fixture->sample.table, &fixture->sample.arenas, &state));
    assert_int_equal(bytes, saved.bytes);
    free(saved.path);
}

static void a_bad_path(void **context) {
    struct fixture *fixture = *context;
    struct checkpoint_choice choice;
    save_steps(fixture);
    assert_status(checkpoint_choose(&choice, fixture->dir.path, in_dir(fixture, "step-00000999")), STATUS_DATA);
    message_holds("step-00000999");
    damage(fixture, "step-00000200");
    assert_status(checkpoint_choose(&choice, fixture->dir.path, in_dir(fixture, "step-00000200")), STATUS_DATA);
    message_holds("damaged");
    assert_true(file_exists(in_dir(fixture, "step-00000400"))); // nothing was moved
    assert_status(checkpoint_choose(&choice, fixture->dir.path, fixture->folder), STATUS_DATA);
    checkpoint_choice_release(&choice);
}

static void sweep(void **context) {
    static const char *const others[] = {
        ".best.tmp-foo",      ".m.tmp-finetuned-1-0", ".snapshot",
        ".tmp-step-00000200", ".tmp-step-00000200-b", ".tmp-step-200-0123456789abcdef"};
    struct fixture *fixture = *context;
    assert_ok(checkpoint_sweep(fixture->dir.path)); // no folder
    save_in(fixture, fixture->dir.path, 100, 0);
    assert_ok(file_make_folders(in_dir(fixture, ".tmp-step-00000200-0123456789abcdef")));
    assert_ok(file_replace(in_dir(fixture, ".tmp-step-00000200-0123456789abcdef/checkpoint.h5"), "x", 1));
    assert_int_equal(symlink("step-00000100", in_dir(fixture, ".latest.tmp-finetuned-1-0")), 0);
    assert_ok(file_replace(in_dir(fixture, "..tmp-step-seen-0123456789abcdef.tmp-finetuned-1-0"), "", 0));
    assert_ok(file_replace(in_dir(fixture, ".tmp-step-seen-0123456789abcdef"), "", 0));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_ok(file_make_folders(in_dir(fixture, others[i])));
    assert_ok(checkpoint_sweep(fixture->dir.path));
    char **names;
    size_t n;
    assert_ok(file_list(&names, &n, fixture->dir.path));
    assert_int_equal(n, 8);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_string_equal(names[i], others[i]);
    assert_string_equal(names[6], "latest");
    assert_string_equal(names[7], "step-00000100");
    file_list_free(names, n);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(fresh, setup, teardown),
        cmocka_unit_test_setup_teardown(newest, setup, teardown),
        cmocka_unit_test_setup_teardown(unusable_ones_are_passed_over, setup, teardown),
        cmocka_unit_test_setup_teardown(never, setup, teardown),
        cmocka_unit_test_setup_teardown(an_older_path, setup, teardown),
        cmocka_unit_test_setup_teardown(a_path_elsewhere, setup, teardown),
        cmocka_unit_test_setup_teardown(a_bad_path, setup, teardown),
        cmocka_unit_test_setup_teardown(a_newer_format, setup, teardown),
        cmocka_unit_test_setup_teardown(only_looked, setup, teardown),
        cmocka_unit_test_setup_teardown(size, setup, teardown),
        cmocka_unit_test_setup_teardown(sweep, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
