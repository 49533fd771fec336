// SPDX-License-Identifier: Apache-2.0
// What stands between HDF5's parser and a file that somebody made together with a right manifest: every form that we
// write is let through, and of thousands of edits, each with its manifest made anew, none crashes or holds us.
// FINETUNED_DAMAGES: how many (default 2000).
#include "support.h"

#include "checkpoints_support.h"

#include "base/hash.h"
#include "checkpoints/manifest.h"

#include <fcntl.h>
#include <math.h>
#include <sys/time.h>
#include <unistd.h>

struct saved {
    struct param_table table;
    struct checkpoint_arenas arenas;
    struct comm *comm;
    char *dir, *step, *file, *manifest;
};

static void saved_make(struct saved *out, const struct trainer_state *state) {
    struct checkpoint_saved result;
    sample_arenas(&out->arenas, &out->table);
    sample_fill(&(struct sample){out->table, out->arenas}, 3);
    assert_ok(comm_open(&out->comm, JOB_BACKEND_SELF));
    out->dir = support_folder();
    struct checkpoint_dir dir = {.path = out->dir, .keep = 9};
    assert_ok(checkpoint_save(&result, out->comm, &dir, &out->table, &out->arenas, state));
    out->step = result.path;
    out->file = path_join(out->step, MANIFEST_FILE);
    out->manifest = path_join(out->step, MANIFEST_NAME);
}

static void saved_release(struct saved *saved) {
    assert_ok(file_remove(saved->dir));
    comm_close(saved->comm);
    sample_arenas_free(&saved->arenas);
    param_table_release(&saved->table);
    free(saved->dir);
    free(saved->step);
    free(saved->file);
    free(saved->manifest);
}

// ---- what must pass

static void passes(struct saved *saved, const struct trainer_state *state) {
    struct trainer_state found;
    saved_make(saved, state);
    assert_ok(checkpoint_verify(saved->step));
    assert_ok(checkpoint_state(&found, saved->step));
    assert_string_equal(found.config, state->config ? state->config : "");
    assert_string_equal(found.labels, state->labels ? state->labels : "");
    assert_string_equal(found.precision, state->precision);
    trainer_state_release(&found);
    saved_release(saved);
}

// So many names that a group's tree has two levels, then three.
static void many_datasets(void **context) {
    (void)context;
    for (unsigned n = 1; n <= 3000; n = n < 40 ? n + 13 : n * 3) {
        struct saved saved = {0};
        struct trainer_state state = sample_state(7);
        for (unsigned i = 0; i < n; i++) {
            char name[128];
            snprintf(name, sizeof name, "bert.%u.%.*s", i, (int)(i * 7 % 60),
                     "a.long.name.as.models.of.many.layers.have.them.all.over.the.place");
            assert_ok(param_add(&saved.table, name, PARAM_VECTOR, 1 + i % 5, 1, false, 0));
        }
        assert_ok(param_finish(&saved.table));
        passes(&saved, &state);
    }
}

static void texts(void **context) {
    (void)context;
    static const size_t sizes[] = {0, 1, 7, 8, 4000, 4080, 4096, 5000, 65535, 65536, 70000, 1000000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct saved saved = {0};
        struct trainer_state state = sample_state(7);
        char *config = malloc(sizes[i] + 1), *labels = malloc(sizes[i] / 2 + 1);
        memset(config, 'c', sizes[i]);
        memset(labels, 'l', sizes[i] / 2);
        config[sizes[i]] = labels[sizes[i] / 2] = '\0';
        state.config = config;
        state.labels = labels;
        if (i % 2)
            memset(state.precision, 0, sizeof state.precision);
        assert_ok(sample_table(&saved.table));
        passes(&saved, &state);
        free(labels);
        free(config);
    }
    struct saved saved = {0};
    struct trainer_state state = sample_state(7);
    state.config = state.labels = NULL;
    assert_ok(sample_table(&saved.table));
    passes(&saved, &state);
}

// ---- what must not crash

struct original {
    char *bytes, *text;
    size_t size, text_size;
    struct manifest manifest;
    size_t own; // HDF5's own bytes
};

static size_t own_place(const struct original *o, size_t at) {
    for (size_t i = 0; i < o->manifest.n_pieces; i++) {
        const struct manifest_piece *piece = &o->manifest.pieces[i];
        if (piece->dataset != MANIFEST_REST)
            continue;
        if (at < piece->size)
            return (size_t)piece->offset + at;
        at -= (size_t)piece->size;
    }
    return 0;
}

static bool busy(const struct original *o, size_t at) {
    for (size_t i = at < 8 ? 0 : at - 8; i < at + 8 && i < o->size; i++)
        if (o->bytes[i])
            return true;
    return false;
}

static void original_read(struct original *o, const struct saved *saved) {
    *o = (struct original){0};
    assert_ok(file_read(&o->bytes, &o->size, saved->file, 1 << 28));
    assert_ok(file_read(&o->text, &o->text_size, saved->manifest, 1 << 28));
    assert_ok(manifest_parse(&o->manifest, o->text, o->text_size, "m"));
    for (size_t i = 0; i < o->manifest.n_pieces; i++)
        o->own += o->manifest.pieces[i].dataset == MANIFEST_REST ? o->manifest.pieces[i].size : 0;
}

static void original_release(struct original *o) {
    manifest_release(&o->manifest);
    free(o->bytes);
    free(o->text);
}

// One to three bytes, or a whole number of 8, to values that parsers stumble over.
static void edit(char *bytes, const struct original *o, struct rng *rng) {
    unsigned edits = 1 + (unsigned)rng_below(rng, 3);
    for (unsigned i = 0; i < edits; i++) {
        size_t at;
        do
            at = own_place(o, rng_below(rng, o->own));
        while (!busy(o, at));
        const unsigned char values[] = {0,
                                        1,
                                        0xff,
                                        0x7f,
                                        0x80,
                                        (unsigned char)(bytes[at] + 1),
                                        (unsigned char)(bytes[at] - 1),
                                        (unsigned char)rng_below(rng, 256)};
        bytes[at] = (char)values[rng_below(rng, 8)];
        if (rng_below(rng, 4) == 0 && at + 16 < o->size) {
            const uint64_t numbers[] = {
                0,           1,           UINT64_MAX,           INT64_MAX,
                o->size - 1, o->size + 1, rng_below(rng, 4096), own_place(o, rng_below(rng, o->own)) & ~7u};
            memcpy(bytes + (at & ~(size_t)7), &numbers[rng_below(rng, 8)], 8);
        }
    }
}

static void put(const char *path, const void *bytes, size_t size) {
    int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_ok(file_write_all(fd, bytes, size, path));
    close(fd);
}

// The edited file with a manifest of right hashes, as somebody would make it who wants to reach the library.
static void resealed(const struct saved *saved, struct original *o, const char *bytes) {
    char *text;
    size_t size;
    for (size_t i = 0; i < o->manifest.n_pieces; i++)
        o->manifest.pieces[i].hash = hash64(bytes + o->manifest.pieces[i].offset, o->manifest.pieces[i].size);
    assert_ok(manifest_format(&text, &size, &o->manifest));
    put(saved->file, bytes, o->size);
    put(saved->manifest, text, size);
    free(text);
}

// A library that walks in a circle for so many seconds of the processor's time ends the test.
static void patience(time_t seconds) {
    setitimer(ITIMER_PROF, &(struct itimerval){.it_value.tv_sec = seconds}, NULL);
}

static void edits(void **context) {
    (void)context;
    const char *given = getenv("FINETUNED_DAMAGES");
    size_t count = given ? (size_t)strtoull(given, NULL, 10) : 2000, refused = 0;
    struct saved saved = {0};
    struct original o;
    struct trainer_state state = sample_state(7);
    struct checkpoint_arenas none = {0};
    struct rng rng = rng_stream(21, 0);
    assert_ok(sample_table(&saved.table));
    saved_make(&saved, &state);
    original_read(&o, &saved);
    char *bytes = malloc(o.size);
    for (size_t i = 0; i < count; i++) {
        char *text;
        memcpy(bytes, o.bytes, o.size);
        edit(bytes, &o, &rng);
        resealed(&saved, &o, bytes);
        patience(20);
        enum status status = checkpoint_load(&none, &state, &saved.table, saved.step);
        if (status == STATUS_OK)
            trainer_state_release(&state);
        else if (status != STATUS_DATA)
            fail_msg("edit %zu: status %d, %s", i, status, status_message());
        refused += status != STATUS_OK;
        if (checkpoint_describe(&text, saved.step, true) == STATUS_OK)
            free(text);
    }
    patience(0);
    assert_true(refused > count / 2); // or the edits do nothing
    resealed(&saved, &o, o.bytes);
    assert_ok(checkpoint_verify(saved.step));
    free(bytes);
    original_release(&o);
    saved_release(&saved);
}

// With right hashes: weights and moments that are not finite are still no checkpoint.
static void not_finite(void **context) {
    (void)context;
    struct saved saved = {0};
    struct original o;
    struct trainer_state state = sample_state(7);
    struct checkpoint_arenas none = {0};
    assert_ok(sample_table(&saved.table));
    saved_make(&saved, &state);
    original_read(&o, &saved);
    char *bytes = malloc(o.size);
    for (size_t d = 0; d < o.manifest.n_datasets; d += 7) {
        const struct manifest_dataset *dataset = &o.manifest.datasets[d];
        memcpy(bytes, o.bytes, o.size);
        memcpy(bytes + dataset->offset + dataset->size - sizeof(float), &(float){d % 2 ? NAN : -INFINITY},
               sizeof(float));
        resealed(&saved, &o, bytes);
        assert_status(checkpoint_load(&none, NULL, &saved.table, saved.step), STATUS_DATA);
        assert_non_null(strstr(status_message(), "not finite"));
        assert_non_null(strstr(status_message(), dataset->name));
        assert_status(checkpoint_verify(saved.step), STATUS_DATA);
    }
    free(bytes);
    original_release(&o);
    saved_release(&saved);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_datasets),
        cmocka_unit_test(texts),
        cmocka_unit_test(edits),
        cmocka_unit_test(not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
