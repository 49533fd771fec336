// SPDX-License-Identifier: Apache-2.0
// Damage of every kind to the newest of three checkpoints: it is never used and never crashes or holds us, the one
// before is taken instead, and what is wrong is said with its path. FINETUNED_DAMAGES: how many flips are sampled
// (default 3000); `long` gives more.
#include "support.h"

#include "checkpoints_support.h"

#include "base/hash.h"
#include "checkpoints/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define OLDER "step-00000200"
#define NEWEST "step-00000300"
#define MOMENT 60     // s for one read that must not wait
#define PATIENCE 3600 // s; a read that waits for ever ends the test (`long` has many)

struct fixture {
    struct sample sample;
    struct comm *comm;
    char *dir, *older, *newest; // folders
    char *file, *manifest;      // of the newest
    char *bytes, *text;         // what is in them when they are whole
    size_t size, text_size;
    struct manifest parsed;
};

static struct fixture *shared; // made once: every test puts back what it damages

static void save_one(const struct fixture *f, uint64_t step) {
    struct checkpoint_dir dir = {.path = f->dir, .keep = 9};
    struct trainer_state state = sample_state(step);
    struct checkpoint_saved saved;
    assert_ok(checkpoint_save(&saved, f->comm, &dir, &f->sample.table, &f->sample.arenas, &state));
    free(saved.path);
}

static int setup(void **context) {
    struct fixture *f = shared = calloc(1, sizeof *f);
    assert_ok(sample_table(&f->sample.table));
    sample_arenas(&f->sample.arenas, &f->sample.table);
    assert_ok(comm_open(&f->comm, JOB_BACKEND_SELF));
    f->dir = support_folder();
    for (uint64_t step = 100; step <= 300; step += 100) {
        sample_fill(&f->sample, step);
        save_one(f, step);
    }
    f->older = path_join(f->dir, OLDER);
    f->newest = path_join(f->dir, NEWEST);
    f->file = path_join(f->newest, MANIFEST_FILE);
    f->manifest = path_join(f->newest, MANIFEST_NAME);
    assert_ok(file_read(&f->bytes, &f->size, f->file, 1 << 28));
    assert_ok(file_read(&f->text, &f->text_size, f->manifest, 1 << 28));
    assert_ok(manifest_parse(&f->parsed, f->text, f->text_size, "manifest"));
    *context = f;
    return 0;
}

static int teardown(void **context) {
    struct fixture *f = *context;
    assert_ok(file_remove(f->dir));
    comm_close(f->comm);
    sample_arenas_free(&f->sample.arenas);
    param_table_release(&f->sample.table);
    manifest_release(&f->parsed);
    free(f->dir);
    free(f->older);
    free(f->newest);
    free(f->file);
    free(f->manifest);
    free(f->bytes);
    free(f->text);
    free(f);
    return 0;
}

static int start(void **context) {
    *context = shared;
    alarm(PATIENCE);
    return 0;
}

static void put(const char *path, const void *bytes, size_t size) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    assert_true(fd >= 0);
    assert_ok(file_write_all(fd, bytes, size, path));
    close(fd);
}

// Whole again, whatever stands there.
static int mend(void **context) {
    struct fixture *f = *context;
    alarm(0);
    assert_ok(file_remove(f->newest));
    assert_int_equal(mkdir(f->newest, 0777), 0);
    put(f->file, f->bytes, f->size);
    put(f->manifest, f->text, f->text_size);
    assert_ok(checkpoint_verify(f->newest));
    assert_ok(checkpoint_verify(f->older));
    return 0;
}

static void poke(const char *path, off_t at, const void *bytes, size_t size) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_ok(file_pwrite_all(fd, bytes, size, (uint64_t)at, path));
    close(fd);
}

static size_t count_of(const char *variable, size_t otherwise) {
    const char *value = getenv(variable);
    return value ? (size_t)strtoull(value, NULL, 10) : otherwise;
}

// ---- what must hold of a damaged one

static void fail_with(const char *what, const char *which, enum status status) {
    fail_msg("%s: %s: status %d, %s", what, which, status, status_message());
}

// Neither verified nor loaded, with the path said; asking for its state or its contents does not crash.
static void refused(const struct fixture *f, const char *what) {
    struct checkpoint_arenas none = {0};
    struct trainer_state state = {0};
    char *text = NULL;
    enum status status = checkpoint_verify(f->newest);
    if ((status != STATUS_DATA && status != STATUS_IO) || !strstr(status_message(), f->newest))
        fail_with(what, "verify", status);
    status = checkpoint_load(&none, &state, &f->sample.table, f->newest);
    if (status != STATUS_DATA && status != STATUS_IO)
        fail_with(what, "load", status);
    if (checkpoint_state(&state, f->newest) == STATUS_OK)
        trainer_state_release(&state);
    if (checkpoint_describe(&text, f->newest, true) == STATUS_OK)
        free(text);
}

static void refused_at(const struct fixture *f, const char *what, size_t at) {
    char name[64];
    snprintf(name, sizeof name, "%s %zu", what, at);
    refused(f, name);
}

// Of every damage the hash that it must be found by; of each eighth all ways in.
static void refused_of_many(const struct fixture *f, const char *what, size_t at) {
    static size_t turn;
    enum status status;
    if (turn++ % 8 == 0)
        refused_at(f, what, at);
    else if ((status = checkpoint_verify(f->newest)) != STATUS_DATA || !strstr(status_message(), f->newest))
        fail_msg("%s %zu: verify: status %d, %s", what, at, status, status_message());
}

// A run goes on from the one before, and knows why.
static void passed_over(const struct fixture *f, const char *what) {
    struct checkpoint_choice choice;
    enum status status = checkpoint_look(&choice, f->dir, "auto");
    if (status != STATUS_OK || !choice.path || strcmp(choice.path, f->older) != 0 || choice.n_skipped != 1 ||
        strcmp(choice.skipped[0].path, f->newest) != 0 || !strstr(choice.skipped[0].why, f->newest))
        fail_msg("%s: status %d, chosen %s, skipped %zu: %s", what, status, choice.path ? choice.path : "none",
                 choice.n_skipped, choice.n_skipped ? choice.skipped[0].why : status_message());
    checkpoint_choice_release(&choice);
    status = checkpoint_look(&choice, f->dir, f->newest); // by its own name: unusable is 65
    if (status != STATUS_DATA || choice.path)
        fail_with(what, "checkpoints.resume by path", status);
    checkpoint_choice_release(&choice);
}

static void broken(const struct fixture *f, const char *what) {
    refused(f, what);
    passed_over(f, what);
}

static void broken_at(const struct fixture *f, const char *what, size_t at) {
    char name[64];
    snprintf(name, sizeof name, "%s %zu", what, at);
    broken(f, name);
}

// ---- lengths

static void cut_to(const struct fixture *f, size_t size) {
    assert_int_equal(truncate(f->file, (off_t)size), 0);
    broken_at(f, "cut to", size);
}

// Downwards, so that nothing has to be written again.
static void truncated(void **context) {
    struct fixture *f = *context;
    size_t n = f->parsed.n_pieces;
    while (n-- > 0) {
        const struct manifest_piece *piece = &f->parsed.pieces[n];
        cut_to(f, piece->offset + piece->size - 1);
        if (piece->size > 2)
            cut_to(f, piece->offset + piece->size / 2);
        cut_to(f, piece->offset + 1);
        if (piece->offset)
            cut_to(f, piece->offset);
    }
    for (size_t size = 2048; size > 0;) // the superblock and the first object headers
        cut_to(f, size -= size > 128 ? 16 : 1);
}

static void truncated_manifest(void **context) {
    struct fixture *f = *context;
    for (size_t size = f->text_size; size-- > 0;) {
        assert_int_equal(truncate(f->manifest, (off_t)size), 0);
        refused_of_many(f, "manifest cut to", size);
    }
    passed_over(f, "empty manifest");
}

static void longer(void **context) {
    struct fixture *f = *context;
    static const size_t more[] = {1, 2, 4096, 1 << 20, (size_t)1 << 33};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        assert_int_equal(truncate(f->file, (off_t)(f->size + more[i])), 0);
        broken_at(f, "longer by", more[i]);
    }
    assert_int_equal(truncate(f->file, (off_t)f->size), 0);
    put(f->manifest, f->text, f->text_size);
    poke(f->manifest, (off_t)f->text_size, "\n", 1);
    broken(f, "manifest longer by a newline");
    poke(f->manifest, (off_t)f->text_size, f->text, f->text_size);
    broken(f, "manifest twice in its file");
}

// ---- flips

static void flip_one(const struct fixture *f, const char *path, const char *whole, size_t at, unsigned bit) {
    char byte = (char)(whole[at] ^ 1 << bit);
    poke(path, (off_t)at, &byte, 1);
    refused_of_many(f, path == f->file ? "flip in the file at" : "flip in the manifest at", at);
    poke(path, (off_t)at, &whole[at], 1);
}

// Whether any of the 16 bytes around is not zero: there HDF5's structures are, between them only room.
static bool is_busy(const struct fixture *f, size_t at) {
    size_t from = at < 8 ? 0 : at - 8, to = at + 8 < f->size ? at + 8 : f->size;
    for (size_t i = from; i < to; i++)
        if (f->bytes[i])
            return true;
    return false;
}

// Every busy byte of the first 4 KiB, then samples: half of them in HDF5's own bytes, half anywhere.
static void flipped(void **context) {
    struct fixture *f = *context;
    struct rng rng = rng_stream(11, 0);
    size_t count = count_of("FINETUNED_DAMAGES", 3000), rest = 0;
    for (size_t at = 0; at < 4096; at++)
        if (is_busy(f, at))
            flip_one(f, f->file, f->bytes, at, (unsigned)rng_below(&rng, 8));
    while (rest < f->parsed.n_pieces && f->parsed.pieces[rest].dataset != MANIFEST_REST)
        rest++;
    for (size_t i = 0; i < count; i++) {
        const struct manifest_piece *own = &f->parsed.pieces[rest];
        size_t at = i % 2 ? rng_below(&rng, f->size) : own->offset + rng_below(&rng, own->size);
        if (i % 2 || is_busy(f, at))
            flip_one(f, f->file, f->bytes, at, (unsigned)rng_below(&rng, 8));
    }
    char byte = (char)~f->bytes[f->size / 2];
    poke(f->file, (off_t)(f->size / 2), &byte, 1);
    broken(f, "a flip in the middle");
}

static void flipped_manifest(void **context) {
    struct fixture *f = *context;
    struct rng rng = rng_stream(12, 0);
    for (size_t at = 0; at < f->text_size; at++)
        flip_one(f, f->manifest, f->text, at, (unsigned)rng_below(&rng, 8));
    poke(f->manifest, (off_t)strlen("{\"format\": "), "9", 1); // looks like a newer one, which is not passed over
    broken(f, "a damaged manifest that says format 9");
}

// ---- pieces of other steps

static void pieces_of_another_step(void **context) {
    struct fixture *f = *context;
    char *path = path_join(f->older, MANIFEST_FILE), *other;
    size_t size, same = 0;
    assert_ok(file_read(&other, &size, path, 1 << 28));
    assert_int_equal(size, f->size);
    for (size_t i = 0; i < f->parsed.n_pieces; i++) {
        const struct manifest_piece *piece = &f->parsed.pieces[i];
        if (memcmp(other + piece->offset, f->bytes + piece->offset, piece->size) == 0) {
            same++; // room between datasets
            continue;
        }
        poke(f->file, (off_t)piece->offset, other + piece->offset, piece->size);
        if (i % 16)
            refused_at(f, "another step's piece", i);
        else
            broken_at(f, "another step's piece", i);
        poke(f->file, (off_t)piece->offset, f->bytes + piece->offset, piece->size);
    }
    assert_true(same * 4 < f->parsed.n_pieces);
    put(f->file, other, size);
    broken(f, "another step's whole file");
    free(other);
    free(path);
}

// Two pieces of the same size that changed places: each byte is one of ours, none is where it belongs.
static void pieces_exchanged(void **context) {
    struct fixture *f = *context;
    size_t done = 0;
    for (size_t i = 0; i + 1 < f->parsed.n_pieces; i++) {
        const struct manifest_piece *a = &f->parsed.pieces[i], *b = a + 1;
        if (a->size != b->size || a->dataset == MANIFEST_REST)
            continue;
        poke(f->file, (off_t)a->offset, f->bytes + b->offset, b->size);
        poke(f->file, (off_t)b->offset, f->bytes + a->offset, a->size);
        refused_of_many(f, "exchanged", i);
        poke(f->file, (off_t)a->offset, f->bytes + a->offset, a->size);
        poke(f->file, (off_t)b->offset, f->bytes + b->offset, b->size);
        done++;
    }
    assert_true(done > 20);
}

static void manifest_of_another_step(void **context) {
    struct fixture *f = *context;
    char *path = path_join(f->older, MANIFEST_NAME), *file = path_join(f->older, MANIFEST_FILE), *text, *bytes;
    size_t text_size, size;
    assert_ok(file_read(&text, &text_size, path, 1 << 28));
    assert_ok(file_read(&bytes, &size, file, 1 << 28));
    put(f->manifest, text, text_size);
    broken(f, "the manifest of an older step");
    put(f->file, bytes, size); // whole and good, but not what the folder's name says
    struct checkpoint_choice choice;
    assert_ok(checkpoint_verify(f->newest));
    assert_ok(checkpoint_look(&choice, f->dir, "auto"));
    assert_string_equal(choice.path, f->older);
    assert_non_null(strstr(choice.skipped[0].why, "holds step 200"));
    checkpoint_choice_release(&choice);
    free(bytes);
    free(text);
    free(file);
    free(path);
}

// ---- manifests that were written wrong: with a right check at their end

static void put_checked(const struct fixture *f, const char *head, size_t size) {
    char end[64];
    int n = snprintf(end, sizeof end, "\"check\": \"%016" PRIx64 "\"}\n", hash64(head, size));
    char *text = malloc(size + (size_t)n);
    memcpy(text, head, size);
    memcpy(text + size, end, (size_t)n);
    put(f->manifest, text, size + (size_t)n);
    free(text);
}

static void malformed_manifests(void **context) {
    struct fixture *f = *context;
    static const char *const heads[] = {
        "{",
        "[",
        "",
        "{\"format\": 1,",
        "{\"format\": 0,",
        "{\"format\": -1,",
        "{\"format\": \"1\",",
        "{\"format\": 1e400,",
        "{\"format\": 1.0,",
        "{\"format\": 99999999999999999999999999,",
        "{\"format\": 1, \"format\": 1,",
        "{\"format\": 1, \"step\": 300, \"step\": 300,",
        "{\"format\": 1, \"step\": \"300\",",
        "{\"format\": 1, \"step\": -300,",
        "{\"format\": 1, \"step\": 3e2,",
        "{\"format\": 1, \"step\": 18446744073709551616,",
        "{\"format\": 1, \"step\": 300, \"run_id\": 7, \"parent\": null, \"file\": \"checkpoint.h5\", \"size\": 1,",
        "{\"format\": 1, \"step\": 300, \"run_id\": \"\xff\xfe\",",
        "{\"format\": 1, \"step\": 300, \"run_id\": \"\xc0\x80\",",
        "{\"format\": 1, \"step\": 300, \"run_id\": \"\\u0000\",",
        "{\"format\": 1, \"step\": 300, \"run_id\": \"1\", \"parent\": null, \"file\": \"/etc/passwd\", \"size\": 1,",
        "{\"format\": 1, \"step\": 300, \"run_id\": \"1\", \"parent\": null, \"file\": \"../" OLDER
        "/checkpoint.h5\", \"size\": 1,",
        "{\"format\": 1, \"step\": 300, \"run_id\": \"1\", \"parent\": null, \"file\": \"checkpoint.h5\", \"size\": 0, "
        "\"datasets\": [], \"rest\": [],",
        "{\"format\": 1, \"step\": 300, \"run_id\": \"1\", \"parent\": null, \"file\": \"checkpoint.h5\", \"size\": "
        "9223372036854775807, \"datasets\": [], \"rest\": [[0, 9223372036854775807, \"0000000000000000\"]],",
        "{\"format\": 1, \"step\": 300, \"run_id\": \"1\", \"parent\": null, \"file\": \"checkpoint.h5\", \"size\": "
        "4096, \"datasets\": [{\"name\": \"/model/x\", \"offset\": 0, \"size\": 4096, \"piece\": 1, \"hashes\": []}], "
        "\"rest\": [],",
        "{\"format\": 1, \"step\": 300, \"run_id\": \"1\", \"parent\": null, \"file\": \"checkpoint.h5\", \"size\": "
        "4096, \"datasets\": 7, \"rest\": {},",
    };
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        put_checked(f, heads[i], strlen(heads[i]));
        broken_at(f, "malformed manifest", i);
    }
    char *deep = malloc(100000);
    memset(deep, '[', 100000);
    put_checked(f, deep, 100000);
    broken(f, "100,000 brackets");
    free(deep);
    put(f->manifest, "\0\0\0\0", 4);
    broken(f, "zeros");
    assert_int_equal(truncate(f->manifest, (off_t)((size_t)65 << 20)), 0);
    broken(f, "65 MiB of zeros");
    assert_int_equal(unlink(f->manifest), 0);
    broken(f, "no manifest");
}

// ---- other things under the names

static void nothing(const char *path) {
    (void)path;
}

static void dangling(const char *path) {
    assert_int_equal(symlink("nowhere", path), 0);
}

static void looping(const char *path) {
    assert_int_equal(symlink(strrchr(path, '/') + 1, path), 0);
}

static void folder(const char *path) {
    assert_int_equal(mkdir(path, 0777), 0);
}

static void empty_file(const char *path) {
    put(path, "", 0);
}

static void pipe_alone(const char *path) {
    assert_int_equal(mkfifo(path, 0666), 0);
}

static int held = -1; // a pipe's other end: whoever reads it would wait

static void pipe_held(const char *path) {
    assert_int_equal(mkfifo(path, 0666), 0);
    held = open(path, O_RDWR | O_CLOEXEC);
    assert_true(held >= 0);
}

static void a_socket(const char *path) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    assert_true(strlen(path) < sizeof at.sun_path);
    memcpy(at.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    close(fd);
}

static void to_zero(const char *path) {
    assert_int_equal(symlink("/dev/zero", path), 0);
}

static void to_null(const char *path) {
    assert_int_equal(symlink("/dev/null", path), 0);
}

static void other_kinds(void **context) {
    struct fixture *f = *context;
    static const struct {
        const char *name;
        void (*make)(const char *path);
    } kinds[] = {
        {"nothing", nothing},       {"a dangling link", dangling}, {"a looping link", looping},
        {"a folder", folder},       {"an empty file", empty_file}, {"a pipe", pipe_alone},
        {"a held pipe", pipe_held}, {"a socket", a_socket},        {"/dev/zero", to_zero},
        {"/dev/null", to_null},
    };
    const char *const paths[] = {f->file, f->manifest, f->newest};
    for (size_t p = 0; p < 3; p++)
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
            if (p == 2 && kinds[i].make == nothing)
                continue; // then there is no such step
            char what[64];
            snprintf(what, sizeof what, "%s as %.20s", kinds[i].name, strrchr(paths[p], '/') + 1);
            alarm(MOMENT);
            assert_ok(file_remove(paths[p]));
            kinds[i].make(paths[p]);
            broken(f, what);
            if (held >= 0)
                close(held);
            held = -1;
            mend(context);
        }
}

// Links that lead somewhere are followed: another disk may hold a checkpoint.
static void links_that_lead(void **context) {
    struct fixture *f = *context;
    struct checkpoint_choice choice;
    char *elsewhere = path_join(f->dir, "elsewhere");
    assert_int_equal(rename(f->newest, elsewhere), 0);
    assert_int_equal(symlink("elsewhere", f->newest), 0);
    assert_ok(checkpoint_look(&choice, f->dir, "auto"));
    assert_string_equal(choice.path, f->newest);
    assert_int_equal(choice.n_skipped, 0);
    checkpoint_choice_release(&choice);
    assert_ok(file_remove(f->newest));
    assert_int_equal(symlink(OLDER, f->newest), 0); // to another step of the folder: not the step of its name
    assert_ok(checkpoint_look(&choice, f->dir, "auto"));
    assert_string_equal(choice.path, f->older);
    assert_non_null(strstr(choice.skipped[0].why, "holds step 200"));
    checkpoint_choice_release(&choice);
    assert_ok(file_remove(f->newest));
    assert_int_equal(rename(elsewhere, f->newest), 0);
    free(elsewhere);
}

// ---- permissions, as somebody who is not root

static int unprivileged(void (*check)(struct fixture *f), struct fixture *f) {
    int rc;
    pid_t child = fork();
    if (child == 0) {
        alarm(PATIENCE);
        if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
            _exit(99);
        check(f);
        _exit(0);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &rc, 0), child);
    return WIFEXITED(rc) ? WEXITSTATUS(rc) : 128 + WTERMSIG(rc);
}

// In the child, where cmocka's assertions would go astray.
static void passed_over_here(struct fixture *f) {
    struct checkpoint_choice choice;
    if (checkpoint_verify(f->newest) == STATUS_OK)
        _exit(1);
    if (checkpoint_look(&choice, f->dir, "auto") != STATUS_OK || !choice.path || strcmp(choice.path, f->older) != 0)
        _exit(2);
    if (choice.n_skipped != 1 || !strstr(choice.skipped[0].why, "Permission denied"))
        _exit(3);
    checkpoint_choice_release(&choice);
    if (checkpoint_look(&choice, f->dir, f->newest) != STATUS_DATA)
        _exit(4);
}

// The folder itself can't be read: no fresh start.
static void refused_here(struct fixture *f) {
    struct checkpoint_choice choice;
    enum status status = checkpoint_look(&choice, f->dir, "auto");
    if (status != STATUS_IO && status != STATUS_DATA)
        _exit(1);
    if (choice.path || !strstr(status_message(), "Permission denied"))
        _exit(2);
}

static void permissions(void **context) {
    struct fixture *f = *context;
    assert_int_equal(chmod(f->dir, 0755), 0);
    const char *const paths[] = {f->file, f->manifest, f->newest};
    for (size_t i = 0; i < 3; i++) {
        struct stat before;
        assert_int_equal(stat(paths[i], &before), 0);
        assert_int_equal(chmod(paths[i], 0), 0);
        int rc = unprivileged(passed_over_here, f);
        assert_int_equal(chmod(paths[i], before.st_mode & 07777), 0);
        if (rc == 99) {
            fprintf(stderr, "SKIPPED: permissions: this user can't become another\n");
            skip();
        }
        assert_int_equal(rc, 0);
    }
    assert_int_equal(chmod(f->dir, 0), 0);
    int rc = unprivileged(refused_here, f);
    assert_int_equal(chmod(f->dir, 0755), 0);
    assert_int_equal(rc, 0);
}

// ---- names, and folders without anything usable

static void names(void **context) {
    struct fixture *f = *context;
    struct checkpoint_choice choice;
    static const char *const ignored[] = {"step-0000400",
                                          "step-000000400",
                                          "step-00000400.aside-1",
                                          "step-",
                                          "step-0000040x",
                                          ".tmp-step-00000400-12",
                                          "Step-00000400",
                                          "step--0000400",
                                          "step-+0000400",
                                          "step-00000400~",
                                          "step-99999999999999999999"};
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) {
        char *path = path_join(f->dir, ignored[i]);
        assert_int_equal(mkdir(path, 0777), 0);
        free(path);
    }
    assert_ok(checkpoint_look(&choice, f->dir, "auto"));
    assert_string_equal(choice.path, f->newest);
    assert_int_equal(choice.n_skipped, 0);
    checkpoint_choice_release(&choice);
    char *far = path_join(f->dir, "step-99999999999"); // a name of ours, of a step far ahead
    assert_int_equal(mkdir(far, 0777), 0);
    assert_ok(checkpoint_look(&choice, f->dir, "auto"));
    assert_string_equal(choice.path, f->newest);
    assert_int_equal(choice.n_skipped, 1);
    assert_string_equal(choice.skipped[0].path, far);
    checkpoint_choice_release(&choice);
    assert_ok(file_remove(far));
    free(far);
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) {
        char *path = path_join(f->dir, ignored[i]);
        assert_ok(file_remove(path));
        free(path);
    }
}

// `latest` and `best` are for people: whatever became of them, the choice is made by the folders.
static void links_do_not_matter(void **context) {
    struct fixture *f = *context;
    struct checkpoint_choice choice;
    char *latest = path_join(f->dir, "latest");
    static void (*const makes[])(const char *path) = {nothing, dangling, looping, empty_file, folder, pipe_held};
    for (size_t i = 0; i < sizeof makes / sizeof *makes; i++) {
        assert_ok(file_remove(latest));
        makes[i](latest);
        assert_ok(checkpoint_look(&choice, f->dir, "auto"));
        assert_string_equal(choice.path, f->newest);
        checkpoint_choice_release(&choice);
        if (makes[i] != nothing) { // as a path it is refused
            assert_status(checkpoint_look(&choice, f->dir, latest), STATUS_DATA);
            checkpoint_choice_release(&choice);
        }
    }
    close(held);
    held = -1;
    assert_ok(file_remove(latest));
    assert_ok(file_link(latest, NEWEST));
    free(latest);
}

static void never_from_step_0(const char *dir, const char *part) {
    struct checkpoint_choice choice;
    enum status status = checkpoint_look(&choice, dir, "auto");
    if ((status != STATUS_DATA && status != STATUS_IO) || choice.path || !strstr(status_message(), part))
        fail_msg("%s: status %d, %s", part, status, status_message());
    checkpoint_choice_release(&choice);
}

static void nothing_usable(void **context) {
    (void)context;
    char *dir = support_folder(), *inner = path_join(dir, "c"), *step = path_join(inner, NEWEST);
    char *latest = path_join(inner, "latest");
    assert_int_equal(symlink("nowhere", inner), 0); // a disk that is not mounted
    never_from_step_0(inner, "c: No such file");
    assert_ok(file_remove(inner));
    assert_int_equal(symlink("c", inner), 0);
    never_from_step_0(inner, "symbolic links");
    assert_ok(file_remove(inner));
    put(inner, "", 0);
    never_from_step_0(inner, "Not a directory");
    assert_ok(file_remove(inner));
    assert_int_equal(mkdir(inner, 0777), 0);
    assert_int_equal(mkdir(step, 0777), 0);
    never_from_step_0(inner, "none of 1 can be used");
    assert_ok(file_remove(step));
    assert_int_equal(symlink(NEWEST, latest), 0);
    never_from_step_0(inner, "no checkpoint that they could lead to");
    struct checkpoint_choice choice;
    assert_ok(checkpoint_choose(&choice, inner, "never")); // the way out that the message names
    checkpoint_choice_release(&choice);
    assert_ok(checkpoint_choose(&choice, inner, "auto"));
    assert_null(choice.path);
    checkpoint_choice_release(&choice);
    assert_ok(file_remove(dir));
    free(latest);
    free(step);
    free(inner);
    free(dir);
}

#define DAMAGE(name) cmocka_unit_test_setup_teardown(name, start, mend)

int main(void) {
    const struct CMUnitTest tests[] = {
        DAMAGE(truncated),
        DAMAGE(truncated_manifest),
        DAMAGE(longer),
        DAMAGE(flipped),
        DAMAGE(flipped_manifest),
        DAMAGE(pieces_of_another_step),
        DAMAGE(pieces_exchanged),
        DAMAGE(manifest_of_another_step),
        DAMAGE(malformed_manifests),
        DAMAGE(other_kinds),
        DAMAGE(links_that_lead),
        DAMAGE(permissions),
        DAMAGE(names),
        DAMAGE(links_do_not_matter),
        DAMAGE(nothing_usable),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
