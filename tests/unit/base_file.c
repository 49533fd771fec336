// SPDX-License-Identifier: Apache-2.0
// This program has its own write, fsync and rename, which the library's code then calls: they keep a list of what was
// done, and fail where a test asks for it.
#include "support.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static struct {
    char calls[256]; // w: write, s: fsync of a file, r: rename, S: fsync of a folder
    int fail_at;     // index of the call that fails; -1: none
    int error;
    size_t most; // bytes that one write takes; 0: all
} fault = {.fail_at = -1};

static bool fault_next(char call) {
    size_t n = strlen(fault.calls);
    if (n + 1 < sizeof fault.calls) {
        fault.calls[n] = call;
        fault.calls[n + 1] = '\0';
    }
    if ((int)n != fault.fail_at)
        return false;
    errno = fault.error;
    return true;
}

static void fault_set(int fail_at, int error) {
    memset(&fault, 0, sizeof fault);
    fault.fail_at = fail_at;
    fault.error = error;
}

ssize_t write(int fd, const void *bytes, size_t size) {
    if (fault_next('w'))
        return -1;
    return syscall(SYS_write, fd, bytes, fault.most && size > fault.most ? fault.most : size);
}

int fsync(int fd) {
    struct stat info;
    bool folder = fstat(fd, &info) == 0 && S_ISDIR(info.st_mode);
    return fault_next(folder ? 'S' : 's') ? -1 : (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to) {
    return fault_next('r') ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

// ---- each test has a folder of its own

static char *folder, *target;

static int setup(void **state) {
    (void)state;
    folder = support_folder();
    target = path_join(folder, "target.json");
    fault_set(-1, 0);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    fault_set(-1, 0);
    assert_ok(file_remove(folder));
    assert_false(file_exists(folder));
    free(folder);
    free(target);
    return 0;
}

static void assert_content(const char *path, const char *wanted) {
    char *bytes;
    size_t size;
    assert_ok(file_read(&bytes, &size, path, 1 << 20));
    assert_int_equal(size, strlen(wanted));
    assert_string_equal(bytes, wanted);
    free(bytes);
}

// The folder's names, joined by commas.
static void assert_names(const char *path, const char *wanted) {
    char **names;
    size_t n;
    struct text text = {0};
    assert_ok(file_list(&names, &n, path));
    for (size_t i = 0; i < n; i++)
        text_printf(&text, "%s%s", i ? "," : "", names[i]);
    assert_string_equal(text_string(&text), wanted);
    text_release(&text);
    file_list_free(names, n);
}

static void test_read(void **state) {
    (void)state;
    char *bytes;
    size_t size;
    assert_ok(file_replace(target, "a\0b\n", 4));
    assert_ok(file_read(&bytes, &size, target, 4));
    assert_int_equal(size, 4);
    assert_memory_equal(bytes, "a\0b\n", 5);
    free(bytes);
    assert_ok(file_read(&bytes, NULL, target, SIZE_MAX));
    free(bytes);
    assert_status(file_read(&bytes, &size, target, 3), STATUS_DATA);
    assert_null(bytes);
    assert_non_null(strstr(status_message(), target));
    assert_ok(file_replace(target, "", 0));
    assert_ok(file_read(&bytes, &size, target, 0));
    assert_int_equal(size, 0);
    assert_string_equal(bytes, "");
    free(bytes);
    assert_ok(file_read(&bytes, &size, "/proc/self/status", 1 << 20)); // stat tells no size
    assert_true(size > 100 && strlen(bytes) == size);
    free(bytes);
    assert_status(file_read(&bytes, &size, "/proc/self/status", 100), STATUS_DATA);
    assert_status(file_read(&bytes, &size, "/dev/zero", 100000), STATUS_DATA); // no end at all
    assert_status(file_read(&bytes, &size, folder, 100), STATUS_DATA);
    char *missing = path_join(folder, "missing/file");
    assert_status(file_read(&bytes, &size, missing, 100), STATUS_DATA);
    assert_non_null(strstr(status_message(), missing));
    free(missing);
}

// By whichever way it is opened.
static void test_pointer(void **state) {
    (void)state;
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n";
    char *bytes, sha256[65], more[2000];
    struct file_map map;
    assert_ok(file_replace(target, pointer, sizeof pointer - 1));
    assert_true(file_is_pointer(target));
    assert_status(file_check_pointer(target), STATUS_DATA);
    assert_status(file_read(&bytes, NULL, target, 100), STATUS_DATA);
    assert_non_null(strstr(status_message(), "Git LFS pointer"));
    assert_status(file_map_open(&map, target), STATUS_DATA);
    assert_status(hash_sha256_file(sha256, target), STATUS_DATA);
    assert_ok(file_replace(target, pointer, 20)); // a text that begins like one
    assert_false(file_is_pointer(target));
    memset(more, ' ', sizeof more); // longer than any
    memcpy(more, pointer, sizeof pointer - 1);
    assert_ok(file_replace(target, more, sizeof more));
    assert_ok(file_read(&bytes, NULL, target, sizeof more));
    free(bytes);
    assert_ok(file_remove(target));
    assert_false(file_is_pointer(target));
}

static void test_map(void **state) {
    (void)state;
    struct file_map map;
    assert_status(file_map_open(&map, target), STATUS_DATA);
    assert_status(file_map_open(&map, folder), STATUS_DATA);
    assert_status(file_map_open(&map, "/dev/null"), STATUS_DATA);
    assert_ok(file_replace(target, "mapped", 6));
    assert_ok(file_map_open(&map, target));
    assert_int_equal(map.size, 6);
    assert_memory_equal(map.at, "mapped", 6);
    assert_ok(file_replace(target, "", 0)); // a map stays what it was when the file is replaced
    assert_memory_equal(map.at, "mapped", 6);
    file_map_close(&map);
    assert_ok(file_map_open(&map, target));
    assert_null(map.at);
    assert_int_equal(map.size, 0);
    file_map_close(&map);
}

static void test_commit_order(void **state) {
    (void)state;
    struct file_write *file;
    assert_ok(file_begin(&file, target));
    assert_ok(file_put(file, "one ", 4));
    assert_ok(file_put(file, "two", 3));
    assert_false(file_exists(target));
    fault_set(-1, 0);
    assert_ok(file_commit(file));
    assert_string_equal(fault.calls, "wsrS");
    assert_content(target, "one two");
    assert_names(folder, "target.json");
    assert_ok(file_begin(&file, target));
    assert_ok(file_put(file, "never", 5));
    char **names;
    size_t n;
    assert_ok(file_list(&names, &n, folder)); // where the temporary file lies, and what it is called
    assert_int_equal(n, 2);
    assert_memory_equal(names[0], ".target.json.tmp-finetuned-", 27);
    file_list_free(names, n);
    file_rollback(file);
    file_rollback(NULL);
    assert_content(target, "one two");
    assert_names(folder, "target.json");
}

// Whatever step fails: the error names the path, the old content stays (unless it was the last step, after the rename)
// and no temporary file is left.
static void test_every_step_fails(void **state) {
    (void)state;
    static const char steps[] = "wsrS";
    for (int step = 0; step < 4; step++) {
        assert_ok(file_replace(target, "old", 3));
        fault_set(step, ENOSPC);
        assert_status(file_replace(target, "new", 3), STATUS_IO);
        assert_int_equal(fault.calls[step], steps[step]);
        assert_non_null(strstr(status_message(), folder));
        assert_non_null(strstr(status_message(), "No space left on device (free some space"));
        fault_set(-1, 0);
        assert_content(target, step < 3 ? "old" : "new");
        assert_names(folder, "target.json");
    }
    fault_set(0, EIO);
    assert_status(file_copy(target, "/proc/self/status"), STATUS_IO);
    fault_set(-1, 0);
    assert_content(target, "new");
    assert_names(folder, "target.json");
}

// After a failed write no later one and no commit succeeds.
static void test_failed_stays_failed(void **state) {
    (void)state;
    struct file_write *file;
    char *large = calloc(1, 100000);
    assert_ok(file_begin(&file, target));
    fault_set(0, EIO);
    assert_status(file_put(file, large, 100000), STATUS_IO);
    fault_set(-1, 0);
    assert_status(file_put(file, large, 100000), STATUS_IO);
    assert_status(file_commit(file), STATUS_IO);
    assert_names(folder, "");
    free(large);
}

// A file that a library made under a temporary name.
static void test_adopt(void **state) {
    (void)state;
    char *temporary = path_join(folder, "made");
    assert_status(file_adopt(target, temporary), STATUS_IO); // missing
    assert_ok(file_replace(temporary, "made", 4));
    for (int step = 0; step < 2; step++) {
        fault_set(step, EIO);
        assert_status(file_adopt(target, temporary), STATUS_IO);
        assert_names(folder, "made");
    }
    fault_set(-1, 0);
    assert_ok(file_adopt(target, temporary));
    assert_string_equal(fault.calls, "srS");
    assert_names(folder, "target.json");
    assert_content(target, "made");
    free(temporary);
}

// All sizes around the buffer's, with writes that take only a part.
static void test_sizes(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 65535, 65536, 65537, 200000, 3};
    char *bytes = malloc(200000);
    for (size_t i = 0; i < 200000; i++)
        bytes[i] = (char)(i * 7 + i / 256);
    struct file_write *file;
    fault.most = 10007;
    assert_ok(file_begin(&file, target));
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        assert_ok(file_put(file, bytes, sizes[i]));
    assert_ok(file_commit(file));
    char *back;
    size_t size, at = 0;
    assert_ok(file_read(&back, &size, target, 1 << 20));
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        assert_true(at + sizes[i] <= size);
        assert_memory_equal(back + at, bytes, sizes[i]);
        at += sizes[i];
    }
    assert_int_equal(at, size);
    free(back);
    char *copy = path_join(folder, "copy");
    assert_ok(file_copy(copy, target));
    assert_ok(file_read(&back, &size, copy, 1 << 20));
    assert_int_equal(at, size);
    assert_memory_equal(back + 1, bytes, 65535);
    free(back);
    free(copy);
    free(bytes);
}

static void test_begin_fails(void **state) {
    (void)state;
    struct file_write *file;
    char *inside = path_join(folder, "none/file");
    assert_status(file_begin(&file, inside), STATUS_IO);
    assert_null(file);
    assert_non_null(strstr(status_message(), inside));
    free(inside);
    assert_ok(file_make_folders(target)); // a folder is in the way
    assert_status(file_replace(target, "x", 1), STATUS_IO);
    assert_names(folder, "target.json");
    assert_status(file_copy(target, "/missing"), STATUS_DATA);
}

static void test_write_all(void **state) {
    (void)state;
    int full = open("/dev/full", O_WRONLY);
    if (full >= 0) {
        assert_status(file_write_all(full, "x", 1, "disk"), STATUS_IO);
        assert_non_null(strstr(status_message(), "write disk: No space left on device (free"));
        assert_status(file_pwrite_all(full, "x", 1, 0, "disk"), STATUS_IO);
        close(full);
    }
    int fd = open(target, O_RDWR | O_CREAT, 0600);
    fault_set(0, EINTR); // a signal's handler ran: not an error
    fault.most = 2;
    assert_ok(file_write_all(fd, "abcdefg", 7, target));
    assert_ok(file_pwrite_all(fd, "XY", 2, 3, target));
    assert_ok(file_pwrite_all(fd, "", 0, 100, target));
    close(fd);
    assert_content(target, "abcXYfg");
}

// A link's target is replaced, the link stays; a pipe is not replaced by a file.
static void test_targets(void **state) {
    (void)state;
    char *inside = support_folder(), *real = path_join(inside, "real"), *link = path_join(inside, "link"),
         *pipe = path_join(inside, "pipe");
    char *bytes;
    assert_ok(file_replace(real, "old", 3));
    assert_int_equal(symlink("real", link), 0);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_ok(file_replace(link, "new", 3));
    assert_ok(file_read(&bytes, NULL, real, 100));
    assert_string_equal(bytes, "new");
    struct stat info;
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_status(file_replace(pipe, "x", 1), STATUS_IO);
    assert_int_equal(lstat(pipe, &info), 0);
    assert_true(S_ISFIFO(info.st_mode));
    struct file_map map;
    assert_status(file_map_open(&map, pipe), STATUS_DATA); // and does not wait for a writer
    free(bytes);
    assert_ok(file_remove(inside));
    free(pipe);
    free(link);
    free(real);
    free(inside);
}

// Only whole names as we give them; and a run is no left-over, whatever its folder is called.
static void test_sweep(void **state) {
    (void)state;
    static const char *const names[] = {".a.tar.gz.tmp-finetuned-12-0", ".model.tmp-finetuned-7-31",
                                        ".run.tmp-finetuned-1-1"};
    static const char *const others[] = {".bashrc.tmp-1",
                                         ".env.old-2024",
                                         ".m.tmp-20240101.bak",
                                         ".owner.tmp-3",
                                         ".run.tmp-finetuned-1-1",
                                         ".tmp-finetuned-1-1",
                                         ".x.tmp-finetuned-1",
                                         ".x.tmp-finetuned-1-",
                                         ".x.tmp-finetuned-1-2-hf.tar.gz",
                                         ".x.tmp-finetuned-1-2.bak",
                                         "keep.tmp-finetuned-1-1",
                                         "model"};
    char *inside = support_folder(), *run = path_join(inside, names[2]), *job = path_join(run, "job.yaml"), **left;
    size_t n;
    assert_ok(file_make_folders(run));
    assert_ok(file_replace(job, "", 0));
    for (size_t i = 0; i < sizeof names / sizeof *names + sizeof others / sizeof *others; i++) {
        const char *name = i < 3 ? names[i] : others[i - 3];
        char *path = path_join(inside, name);
        assert_true(strcmp(path, run) == 0 || file_is_temporary(name) == (i < 3));
        assert_ok(i % 2 ? file_make_folders(path) : strcmp(path, run) == 0 ? STATUS_OK : file_replace(path, "x", 1));
        free(path);
    }
    assert_ok(file_sweep(inside, file_is_temporary));
    assert_ok(file_list(&left, &n, inside));
    assert_int_equal(n, sizeof others / sizeof *others);
    for (size_t i = 0; i < n; i++)
        assert_string_equal(left[i], others[i]);
    file_list_free(left, n);
    assert_ok(file_remove(inside));
    assert_ok(file_sweep(inside, file_is_temporary)); // nothing there
    free(job);
    free(run);
    free(inside);
}

// A name of its own each time; on the way to a temporary name is on the way to what that is for.
static void test_temporary(void **state) {
    (void)state;
    char *one = file_temporary("a/b"), *two = file_temporary("a/b"), *again = file_temporary(one);
    assert_memory_equal(one, "a/.b.tmp-finetuned-", 19);
    assert_string_not_equal(one, two);
    assert_memory_equal(again, "a/.b.tmp-finetuned-", 19);
    assert_true(file_is_temporary_for(again + 2, "b"));
    assert_false(file_is_temporary_for(again + 2, "bc"));
    assert_int_equal(file_temporary_of(again + 2), 1);
    free(one);
    free(two);
    free(again);
}

static void test_folders(void **state) {
    (void)state;
    char *deep = path_join(folder, "a//b/c/");
    assert_ok(file_make_folders(deep));
    assert_ok(file_make_folders(deep));
    assert_true(file_is_folder(deep));
    assert_int_equal(strspn(fault.calls, "S"), 3); // each new folder's parent is synced
    free(deep);
    assert_ok(file_make_folders("/"));
    assert_ok(file_make_folders("."));
    assert_status(file_make_folders(""), STATUS_IO);
    assert_ok(file_replace(target, "x", 1));
    char *under = path_join(target, "sub");
    assert_status(file_make_folders(under), STATUS_IO);
    assert_status(file_make_folders(target), STATUS_IO);
    free(under);
    assert_ok(file_sync_folder(folder));
    assert_status(file_sync_folder(target), STATUS_IO);
    assert_false(file_is_folder(target));
}

// What is in the way, without a folder more.
static void test_place(void **state) {
    (void)state;
    char *deep = path_join(folder, "a//b/c/"), *nearest = file_nearest_folder(deep), *link = path_join(folder, "link");
    char *past = path_join(link, "sub");
    assert_string_equal(nearest, folder);
    assert_ok(file_place("out", deep));
    assert_ok(file_place("out", "here/and/there"));
    assert_ok(file_place("out", folder));
    assert_names(folder, "");
    assert_status(file_place("out", ""), STATUS_USAGE);
    assert_ok(file_replace(target, "x", 1));
    char *under = path_join(target, "sub");
    assert_status(file_place("out", under), STATUS_USAGE);
    assert_non_null(strstr(status_message(), "/sub: "));
    assert_non_null(strstr(status_message(), " is a file: name another folder"));
    assert_status(file_place("out", target), STATUS_USAGE);
    assert_null(strstr(status_message() + 5, ": /")); // it is named once
    assert_int_equal(symlink("nowhere", link), 0);    // mkdir does not make what it would lead to
    assert_status(file_place("out", link), STATUS_IO);
    assert_non_null(strstr(status_message(), "link is a link that leads to nowhere, which is not there"));
    assert_status(file_place("out", past), STATUS_IO);
    assert_non_null(strstr(status_message(), "sub: "));
    if (geteuid() != 0) {
        assert_int_equal(chmod(folder, 0555), 0);
        assert_status(file_place("out", deep), STATUS_IO);
        assert_non_null(strstr(status_message(), "is not writable: "));
        assert_status(file_place("out", folder), STATUS_IO);
        assert_non_null(strstr(status_message(), "is not writable: "));
        assert_int_equal(chmod(folder, 0755), 0);
    }
    free(under), free(past), free(link), free(nearest), free(deep);
}

// What a start made goes again, as far as it is empty; what was there stays.
static void test_unmake(void **state) {
    (void)state;
    char *deep = path_join(folder, "a//b/c/"), *above = path_join(folder, "a"), *made;
    assert_ok(file_make_place(&made, "out", deep));
    assert_string_equal(made, above);
    file_unmake(deep, made);
    assert_names(folder, "");
    free(made);
    assert_ok(file_make_folders(above));
    assert_ok(file_make_place(&made, "out", deep));
    char *file = path_join(made, "x"), *again;
    assert_ok(file_replace(file, "", 0));
    file_unmake(deep, made);
    assert_names(above, "b");
    assert_names(made, "x");
    assert_ok(file_make_place(&again, "out", above));
    assert_null(again);
    free(file), free(made), free(above), free(deep);
}

// A link is removed, what it points to stays.
static void test_remove(void **state) {
    (void)state;
    char *kept = path_join(folder, "kept"), *gone = path_join(folder, "gone/deep"), *link = path_join(gone, "link");
    char *inside = path_join(kept, "file");
    assert_ok(file_make_folders(kept));
    assert_ok(file_make_folders(gone));
    assert_ok(file_replace(inside, "x", 1));
    assert_ok(file_link(link, "../../kept"));
    assert_true(file_is_folder(link));
    assert_ok(file_remove(link));
    assert_false(file_exists(link));
    assert_ok(file_link(link, "../../kept"));
    char *top = path_join(folder, "gone");
    assert_ok(file_remove(top));
    assert_ok(file_remove(top)); // missing: no error
    assert_names(folder, "kept");
    assert_content(inside, "x");
    free(top), free(kept), free(gone), free(link), free(inside);
}

static void test_link(void **state) {
    (void)state;
    char to[32] = {0};
    char *link = path_join(folder, "latest");
    assert_ok(file_link(link, "step-00000001"));
    assert_ok(file_link(link, "step-00000002"));
    assert_int_equal(readlink(link, to, sizeof to - 1), 13);
    assert_string_equal(to, "step-00000002");
    assert_false(file_exists(link)); // it points nowhere
    assert_true(file_named(link));
    fault_set(0, EIO);
    assert_status(file_link(link, "step-00000003"), STATUS_IO);
    fault_set(-1, 0);
    assert_names(folder, "latest");
    free(link);
}

static void test_list(void **state) {
    (void)state;
    static const char *const made[] = {"b", "a", "\xc3\xa9", "B", ".hidden", "a0"};
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) {
        char *path = path_join(folder, made[i]);
        assert_ok(file_replace(path, "", 0));
        free(path);
    }
    assert_names(folder, ".hidden,B,a,a0,b,\xc3\xa9");
    char **names;
    size_t n;
    assert_status(file_list(&names, &n, target), STATUS_DATA);
    assert_null(names);
}

// What is half written when a process leaves by exit() is swept; a forked child's exit sweeps nothing of its parent's.
static void test_exit(void **state) {
    (void)state;
    struct file_write *file, *childs;
    assert_ok(file_begin(&file, target));
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        char *other = path_join(folder, "other");
        if (file_begin(&childs, other) != STATUS_OK || file_put(childs, "x", 1) != STATUS_OK)
            _exit(1);
        free(other);
        fclose(stdout); // cmocka's output is the parent's
        exit(0);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    char **names;
    size_t n;
    assert_ok(file_list(&names, &n, folder));
    assert_int_equal(n, 1);
    assert_memory_equal(names[0], ".target.json.tmp-finetuned-", 27);
    file_list_free(names, n);
    assert_ok(file_commit(file));
    assert_names(folder, "target.json");
}

static void test_join(void **state) {
    (void)state;
    static const char *const rows[][3] = {
        {"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"", "b", "b"}, {"a", "/b", "/b"}, {"/", "b", "/b"}, {"a", "", "a/"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *joined = path_join(rows[i][0], rows[i][1]);
        assert_string_equal(joined, rows[i][2]);
        free(joined);
    }
}

#define FILE_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

// Only temporary names of that path, and only of processes that are gone.
static void test_sweep_beside(void **state) {
    (void)state;
    char *at = support_folder(), **names, gone[64], living[64];
    size_t n;
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    snprintf(gone, sizeof gone, ".model.tmp-finetuned-%d-0", (int)child);
    snprintf(living, sizeof living, ".model.tmp-finetuned-%d-1", (int)getppid());
    const char *const made[] = {"model",
                                gone,
                                living,
                                ".models.tmp-finetuned-999999999-0",
                                "model.bin",
                                ".model.old-2024",
                                ".model.tmp-20240101.bak"};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        char *path = path_join(at, made[i]);
        assert_ok(i == 1 ? file_make_folders(path) : file_replace(path, "x", 1));
        free(path);
    }
    char *path = path_join(at, "model");
    assert_ok(file_sweep_beside(path));
    assert_ok(file_list(&names, &n, at));
    assert_int_equal(n, 6);
    for (size_t i = 0; i < n; i++)
        assert_string_not_equal(names[i], gone);
    file_list_free(names, n);
    assert_ok(file_remove(at));
    assert_ok(file_sweep_beside(path)); // a folder that is not there is no error
    free(path);
    free(at);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FILE_TEST(test_read),
        FILE_TEST(test_pointer),
        FILE_TEST(test_map),
        FILE_TEST(test_commit_order),
        FILE_TEST(test_every_step_fails),
        FILE_TEST(test_failed_stays_failed),
        FILE_TEST(test_adopt),
        FILE_TEST(test_sizes),
        FILE_TEST(test_begin_fails),
        FILE_TEST(test_write_all),
        FILE_TEST(test_targets),
        FILE_TEST(test_sweep),
        FILE_TEST(test_temporary),
        cmocka_unit_test(test_sweep_beside),
        FILE_TEST(test_folders),
        FILE_TEST(test_place),
        FILE_TEST(test_unmake),
        FILE_TEST(test_remove),
        FILE_TEST(test_link),
        FILE_TEST(test_list),
        FILE_TEST(test_exit),
        cmocka_unit_test(test_join),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
