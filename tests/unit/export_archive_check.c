// SPDX-License-Identifier: Apache-2.0
// Archives read back: every bit that is flipped is found, wherever the file is cut, and what no archive of ours holds
// is refused.
#include "support.h"

#include "base/file.h"
#include "base/hash.h"
#include "export/export.h"
#include "export/sums.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct fixture {
    char *root, *folder, *path; // `path`: the archive
    char *bytes;
    size_t size;
};

static void put(const char *folder, const char *name, const void *bytes, size_t size) {
    char *path = path_join(folder, name);
    assert_ok(file_replace(path, bytes, size));
    free(path);
}

static void load(struct fixture *f) {
    free(f->bytes);
    assert_ok(file_read(&f->bytes, &f->size, f->path, 1 << 24));
}

static int setup(void **context) {
    static const char header[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
    struct fixture *f = calloc(1, sizeof *f);
    char weights[8 + sizeof header - 1 + 8] = {(char)(sizeof header - 1)};
    memcpy(weights + 8, header, sizeof header - 1);
    f->root = support_folder();
    f->folder = path_join(f->root, "m");
    f->path = path_join(f->root, "a.tar.gz");
    char *code = path_join(f->folder, "code");
    assert_ok(file_make_folders(code));
    put(code, "inference.py", "pass\n", 5);
    put(f->folder, "config.json", "{}\n", 3);
    put(f->folder, "model.safetensors", weights, sizeof weights);
    assert_ok(sums_write(f->folder));
    assert_ok(archive_write(f->path, f->folder));
    load(f);
    free(code);
    *context = f;
    return 0;
}

static int teardown(void **context) {
    struct fixture *f = *context;
    assert_ok(file_remove(f->root));
    free(f->root);
    free(f->folder);
    free(f->path);
    free(f->bytes);
    free(f);
    return 0;
}

static void intact(void **context) {
    struct fixture *f = *context;
    struct archive_facts facts;
    assert_ok(archive_check(&facts, f->path));
    assert_int_equal(facts.files, 4);
    assert_true(facts.listed);
    assert_true(facts.bytes >= 4 * 1024);
}

static void write_bytes(const char *path, const char *bytes, size_t size) {
    int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), size);
    close(fd);
}

// What gzip unpacks it to, as a hash; 0 if it can't.
static uint64_t unpacked(const char *path) {
    static char bytes[1 << 16];
    struct archive *a = archive_read_new();
    struct archive_entry *e;
    la_ssize_t n = -1;
    archive_read_support_filter_gzip(a);
    archive_read_support_format_raw(a);
    if (archive_read_open_filename(a, path, 4096) == ARCHIVE_OK && archive_read_next_header(a, &e) == ARCHIVE_OK)
        n = archive_read_data(a, bytes, sizeof bytes);
    archive_read_free(a);
    return n < 0 ? 0 : hash64(bytes, (size_t)n);
}

// A few flips change how the same bytes are packed (which of two equal matches is named): those are no damage.
static void every_flip(void **context) {
    struct fixture *f = *context;
    struct archive_facts facts;
    uint64_t whole = unpacked(f->path);
    size_t same = 0;
    for (size_t i = 0; i < f->size * 8; i++) {
        f->bytes[i / 8] ^= (char)(1 << i % 8);
        write_bytes(f->path, f->bytes, f->size);
        f->bytes[i / 8] ^= (char)(1 << i % 8);
        enum status status = archive_check(&facts, f->path);
        if (status == STATUS_OK && whole && unpacked(f->path) == whole && i >= 8 * 10)
            same++;
        else if (status != STATUS_DATA || strncmp(status_message(), f->path, strlen(f->path)) != 0)
            fail_msg("bit %zu of byte %zu of %zu: status %d, %s", i % 8, i / 8, f->size, status, status_message());
    }
    assert_true(same < f->size * 8 / 100);
}

static void every_cut(void **context) {
    struct fixture *f = *context;
    struct archive_facts facts;
    for (size_t size = 0; size < f->size; size++) {
        write_bytes(f->path, f->bytes, size);
        if (archive_check(&facts, f->path) != STATUS_DATA)
            fail_msg("cut to %zu of %zu bytes", size, f->size);
    }
    char *longer = calloc(1, f->size + 100);
    memcpy(longer, f->bytes, f->size);
    for (size_t more = 1; more < 100; more++) {
        write_bytes(f->path, longer, f->size + more);
        assert_status(archive_check(&facts, f->path), STATUS_DATA);
    }
    free(longer);
}

// ---- whole archives that are not as they should be

static void remade(struct fixture *f, const char *why) {
    struct archive_facts facts;
    assert_ok(archive_write(f->path, f->folder));
    enum status status = archive_check(&facts, f->path);
    if (!why)
        assert_int_equal(status, STATUS_OK);
    else if (status != STATUS_DATA || !strstr(status_message(), why))
        fail_msg("wanted %s: status %d, %s", why, status, status_message());
}

static void other_content(void **context) {
    struct fixture *f = *context;
    char *list = path_join(f->folder, SUMS_NAME);
    put(f->folder, "config.json", "{ }\n", 4);
    remade(f, "config.json: its SHA-256 is not");
    put(f->folder, "config.json", "{}\n", 3);
    put(f->folder, "more.txt", "", 0);
    remade(f, "more.txt is not in its " SUMS_NAME);
    char *more = path_join(f->folder, "more.txt");
    assert_ok(file_remove(more));
    remade(f, NULL);
    char *config = path_join(f->folder, "config.json");
    assert_ok(file_remove(config));
    remade(f, "config.json is missing");
    put(f->folder, SUMS_NAME, "garbage\n", 8);
    remade(f, SUMS_NAME ":1: not 64");
    assert_ok(file_remove(list));
    remade(f, NULL); // no list: gzip's sum and the structure
    put(f->folder, "model.safetensors", "\x90\1\0\0\0\0\0\0{}", 10);
    remade(f, "model.safetensors: its header says");
    put(f->folder, "model.safetensors", "abc", 3);
    remade(f, "model.safetensors: 3 bytes");
    free(config);
    free(more);
    free(list);
}

// A tar.gz of one entry, made by hand.
static void one_entry(const char *path, const char *name, unsigned type, const char *link) {
    struct archive *a = archive_write_new();
    struct archive_entry *e = archive_entry_new();
    archive_write_set_format_pax_restricted(a);
    archive_write_add_filter_gzip(a);
    assert_int_equal(archive_write_open_filename(a, path), ARCHIVE_OK);
    archive_entry_set_pathname(e, name);
    archive_entry_set_filetype(e, type);
    archive_entry_set_perm(e, 0644);
    archive_entry_set_size(e, 0);
    if (link)
        archive_entry_set_symlink(e, link);
    assert_int_equal(archive_write_header(a, e), ARCHIVE_OK);
    archive_entry_free(e);
    archive_write_close(a);
    archive_write_free(a);
}

static void names_that_leave(void **context) {
    struct fixture *f = *context;
    struct archive_facts facts;
    static const char *const names[] = {"../x", "/etc/x", "a/../../x", "./x", "a\nb"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        one_entry(f->path, names[i], AE_IFREG, NULL);
        if (archive_check(&facts, f->path) != STATUS_DATA || !strstr(status_message(), "leads out of it"))
            fail_msg("%s: %s", names[i], status_message());
    }
    one_entry(f->path, "x", AE_IFLNK, "/etc/passwd");
    assert_status(archive_check(&facts, f->path), STATUS_DATA);
    assert_non_null(strstr(status_message(), "no regular file"));
    one_entry(f->path, "x", AE_IFIFO, NULL);
    assert_status(archive_check(&facts, f->path), STATUS_DATA);
    one_entry(f->path, "x", AE_IFREG, NULL);
    assert_ok(archive_check(&facts, f->path));
    assert_false(facts.listed);
}

static void no_archives(void **context) {
    struct fixture *f = *context;
    struct archive_facts facts;
    static const char plain[2048] = "plain text, as long as you like";
    write_bytes(f->path, "", 0);
    assert_status(archive_check(&facts, f->path), STATUS_DATA);
    write_bytes(f->path, plain, sizeof plain);
    assert_status(archive_check(&facts, f->path), STATUS_DATA);
    assert_status(archive_check(&facts, f->folder), STATUS_DATA);
    assert_status(archive_check(&facts, "/nowhere.tar.gz"), STATUS_DATA);
    assert_ok(file_remove(f->path));
    assert_int_equal(mkfifo(f->path, 0600), 0);
    assert_status(archive_check(&facts, f->path), STATUS_DATA);
}

// A tar's own size field ends at 8 GiB: what is larger has its size in a header of its own (pax).
static void above_8_gib(void **context) {
    struct fixture *f = *context;
    struct archive_facts facts;
    uint64_t elements = (UINT64_C(9) << 30) / 4, length;
    char header[128], *path = path_join(f->folder, "model.safetensors");
    length = (uint64_t)snprintf(header, sizeof header,
                                "{\"a\":{\"dtype\":\"F32\",\"shape\":[%llu],\"data_offsets\":[0,%llu]}}",
                                (unsigned long long)elements, (unsigned long long)elements * 4);
    int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_ok(file_write_all(fd, &length, 8, path));
    assert_ok(file_write_all(fd, header, length, path));
    assert_int_equal(ftruncate(fd, (off_t)(8 + length + elements * 4)), 0);
    close(fd);
    assert_ok(sums_write(f->folder));
    assert_ok(archive_write(f->path, f->folder));
    assert_ok(archive_check(&facts, f->path));
    assert_true(facts.listed && facts.bytes > elements * 4);
    put(f->folder, "model.safetensors", header, length);
    remade(f, "model.safetensors: its header says");
    free(path);
}

int main(void) {
    const struct CMUnitTest large[] = {cmocka_unit_test_setup_teardown(above_8_gib, setup, teardown)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(intact, setup, teardown),
        cmocka_unit_test_setup_teardown(every_flip, setup, teardown),
        cmocka_unit_test_setup_teardown(every_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(other_content, setup, teardown),
        cmocka_unit_test_setup_teardown(names_that_leave, setup, teardown),
        cmocka_unit_test_setup_teardown(no_archives, setup, teardown),
    };
    return getenv("FINETUNED_LARGE") ? cmocka_run_group_tests(large, NULL, NULL)
                                     : cmocka_run_group_tests(tests, NULL, NULL);
}
