// SPDX-License-Identifier: Apache-2.0
// Save and load, bit for bit; every byte is covered; errors leave earlier checkpoints as they are.
#include "support.h"

#include "base/hash.h"
#include "base/text.h"
#include "checkpoints_support.h"

#include <fcntl.h>
#include <hdf5.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
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
    sample_fill(&fixture->sample, 1);
    assert_ok(comm_open(&fixture->comm, JOB_BACKEND_SELF));
    fixture->folder = support_folder();
    fixture->dir = (struct checkpoint_dir){.path = path_join(fixture->folder, "checkpoints"), .keep = 3};
    *context = fixture;
    return 0;
}

static int teardown(void **context) {
    struct fixture *fixture = *context;
    assert_int_equal(H5Fget_obj_count((hid_t)H5F_OBJ_ALL, H5F_OBJ_ALL), 0); // every id was closed
    assert_ok(file_remove(fixture->folder));
    comm_close(fixture->comm);
    sample_arenas_free(&fixture->sample.arenas);
    param_table_release(&fixture->sample.table);
    free(fixture->dir.path);
    free(fixture->folder);
    free(fixture);
    return 0;
}

static enum status save_state(struct fixture *fixture, const struct trainer_state *state) {
    struct checkpoint_saved saved;
    enum status status =
        checkpoint_save(&saved, fixture->comm, &fixture->dir, &fixture->sample.table, &fixture->sample.arenas, state);
    free(saved.path);
    return status;
}

static enum status save_step(struct fixture *fixture, uint64_t step, uint64_t best) {
    struct trainer_state state = sample_state(step);
    state.best_step = best;
    return save_state(fixture, &state);
}

// "<checkpoints.dir>/<name>" in a static buffer (four in turn).
static const char *in_dir(const struct fixture *fixture, const char *name) {
    static char buffers[4][PATH_MAX];
    static unsigned turn;
    char *path = buffers[turn++ % 4];
    snprintf(path, PATH_MAX, "%s/%s", fixture->dir.path, name);
    return path;
}

// The names in checkpoints.dir, with blanks between.
static const char *listing(const struct fixture *fixture) {
    static char line[4096];
    char **names;
    size_t n;
    line[0] = '\0';
    assert_ok(file_list(&names, &n, fixture->dir.path));
    for (size_t i = 0; i < n; i++) {
        size_t at = strlen(line);
        snprintf(line + at, sizeof line - at, "%s%s", i ? " " : "", names[i]);
    }
    file_list_free(names, n);
    return line;
}

static void link_is(const struct fixture *fixture, const char *name, const char *wanted) {
    char target[PATH_MAX] = "";
    ssize_t size = readlink(in_dir(fixture, name), target, sizeof target - 1);
    assert_true(size > 0);
    assert_string_equal(target, wanted);
}

static void message_holds(const char *part) {
    if (!strstr(status_message(), part))
        fail_msg("message \"%s\" does not hold \"%s\"", status_message(), part);
}

static void round_trip(void **context) {
    struct fixture *fixture = *context;
    struct checkpoint_saved saved;
    struct trainer_state state = sample_state(200), found;
    struct checkpoint_arenas loaded;
    state.best_step = 200;
    assert_ok(
        checkpoint_save(&saved, fixture->comm, &fixture->dir, &fixture->sample.table, &fixture->sample.arenas, &state));
    assert_string_equal(saved.path, in_dir(fixture, "step-00000200"));
    struct stat info;
    assert_int_equal(stat(in_dir(fixture, "step-00000200/checkpoint.h5"), &info), 0);
    assert_int_equal(saved.bytes, info.st_size);
    assert_true(saved.held_s >= saved.write_s && saved.write_s > 0);
    assert_string_equal(listing(fixture), "best latest step-00000200");
    link_is(fixture, "latest", "step-00000200");
    link_is(fixture, "best", "step-00000200");
    assert_ok(checkpoint_verify(saved.path));

    sample_arenas(&loaded, &fixture->sample.table);
    assert_ok(checkpoint_load(&loaded, &found, &fixture->sample.table, in_dir(fixture, "latest")));
    assert_true(sample_same(&loaded, &fixture->sample.arenas, &fixture->sample.table));
    assert_int_equal(found.step, 200);
    assert_int_equal(found.cursor, 202);
    assert_int_equal(found.epoch, 3);
    assert_true(found.seed == 0xfedcba9876543210u);
    assert_int_equal(found.batch, 16);
    assert_int_equal(found.parts, 4);
    assert_string_equal(found.precision, "fp32");
    assert_int_equal(found.steps_total, 600);
    assert_int_equal(found.skips_in_a_row, 1);
    assert_int_equal(found.best_step, 200);
    assert_true(found.best_metric == state.best_metric);
    assert_int_equal(found.evaluations_without_gain, 2);
    assert_string_equal(found.config_hash, state.config_hash);
    assert_string_equal(found.data_hash, state.data_hash);
    assert_string_equal(found.base_hash, state.base_hash);
    assert_int_equal(found.format, CHECKPOINT_FORMAT);
    assert_string_equal(found.run_id, state.run_id);
    assert_string_equal(found.config, state.config);
    assert_string_equal(found.labels, state.labels);
    trainer_state_release(&found);
    sample_arenas_free(&loaded);

    // the model alone, through the file's own name
    loaded.weights = calloc(fixture->sample.table.floats, sizeof(float));
    assert_ok(checkpoint_load(&loaded, NULL, &fixture->sample.table, in_dir(fixture, "best/checkpoint.h5")));
    assert_memory_equal(loaded.weights, fixture->sample.arenas.weights, fixture->sample.table.floats * sizeof(float));
    sample_arenas_free(&loaded);
    free(saved.path);
}

// The datasets hold Hugging Face's rows: compared with the same values laid out row by row in an arena.
static void datasets_hold_rows(void **context) {
    struct fixture *fixture = *context;
    struct param_table rows = {0};
    assert_ok(save_step(fixture, 1, 0));
    for (size_t i = 0; i < fixture->sample.table.n; i++) {
        const struct param *param = &fixture->sample.table.at[i];
        enum param_layout layout = param->layout == PARAM_TILES ? PARAM_ROWS : param->layout;
        assert_ok(param_add(&rows, param->name, layout, param->shape[0], param->shape[1], false, param->bucket));
    }
    assert_ok(param_finish(&rows));
    float *wanted = calloc(rows.floats, sizeof *wanted), *found = calloc(rows.floats, sizeof *found);
    sample_fill_arena(wanted, &rows, 1 * 3 + 1);
    hid_t file = H5Fopen(in_dir(fixture, "step-00000001/checkpoint.h5"), H5F_ACC_RDONLY, H5P_DEFAULT);
    for (size_t i = 0; i < rows.n; i++) {
        char name[PATH_MAX];
        snprintf(name, sizeof name, "/optimizer/exp_avg/%s", rows.at[i].name);
        hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT);
        assert_true(H5Dread(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, found + rows.at[i].offset) >= 0);
        H5Dclose(dataset);
    }
    H5Fclose(file);
    assert_memory_equal(found, wanted, rows.floats * sizeof *wanted);
    free(found);
    free(wanted);
    param_table_release(&rows);
}

static void padding_stays_zero(void **context) {
    struct fixture *fixture = *context;
    struct checkpoint_arenas loaded;
    assert_ok(save_step(fixture, 1, 0));
    sample_arenas(&loaded, &fixture->sample.table);
    for (uint64_t i = 0; i < fixture->sample.table.floats; i++)
        loaded.weights[i] = 7.0f;
    assert_ok(checkpoint_load(&loaded, NULL, &fixture->sample.table, in_dir(fixture, "step-00000001")));
    const struct param *param = param_find(&fixture->sample.table, "bert.encoder.layer.0.intermediate.dense.weight");
    const float *last = loaded.weights + param->offset + 437 / PARAM_TILE * PARAM_TILE * param->shape[1];
    for (uint64_t k = 0; k < param->shape[1]; k++)
        for (uint64_t r = 437 % PARAM_TILE; r < PARAM_TILE; r++)
            assert_true(last[k * PARAM_TILE + r] == 0.0f);
    sample_arenas_free(&loaded);
}

static void small_pieces_are_rank_0s(void **context) {
    struct fixture *fixture = *context;
    const struct param_table *table = &fixture->sample.table;
    uint64_t offsets[3 * 7] = {0};
    struct pieces pieces;
    uint64_t bytes[3] = {0};
    for (size_t i = 1; i < 3 * table->n; i++)
        offsets[i] = offsets[i - 1] + param_elements(&table->at[(i - 1) % table->n]) * 4;
    assert_int_equal(table->n, 7);
    assert_ok(pieces_plan(&pieces, table, offsets, 3));
    uint64_t at = 0;
    for (size_t i = 0; i < pieces.n; i++) {
        const struct piece *piece = &pieces.at[i];
        const struct param *param = &table->at[piece->dataset % table->n];
        bool small = param->rank == 1 || param_elements(param) * 4 < 131072;
        assert_int_equal(piece->offset, at);
        assert_true(!small || (piece->rank == 0 && piece->rows == param->shape[0]));
        assert_true(small || (piece->row % 32 == 0 && piece->rows <= 32));
        bytes[piece->rank] += small ? 0 : piece->size;
        at += piece->size;
    }
    assert_int_equal(at, 3 * table->count * 4);
    uint64_t large = bytes[0] + bytes[1] + bytes[2];
    for (int rank = 0; rank < 3; rank++) // a third each, within a piece
        assert_true(bytes[rank] + 2 * 32 * 96 * 4 > large / 3 && bytes[rank] < large / 3 + 2 * 32 * 96 * 4);
    pieces_release(&pieces);
}

// ---- every byte is covered

static void flip(const char *path, off_t at, uint8_t bits) {
    uint8_t byte;
    int fd = open(path, O_RDWR);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= bits;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void flips_are_found(struct fixture *fixture, const char *name, unsigned count) {
    struct stat info;
    const char *folder = in_dir(fixture, "step-00000001");
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(stat(path, &info), 0);
    struct rng rng = rng_stream(5, (uint64_t)name[0]);
    for (unsigned i = 0; i < count; i++) {
        off_t at = i < 20 ? (off_t)i : (off_t)rng_below(&rng, (uint64_t)info.st_size);
        if (i >= 20 && i < 40)
            at = info.st_size - 1 - (off_t)(i - 20);
        uint8_t bits = (uint8_t)(1u << rng_below(&rng, 8));
        flip(path, at, bits);
        enum status status = checkpoint_verify(folder);
        if (status != STATUS_DATA || !strstr(status_message(), name))
            fail_msg("%s: flip of byte %jd: status %d, %s", name, (intmax_t)at, status, status_message());
        flip(path, at, bits);
    }
    assert_ok(checkpoint_verify(folder));
}

static void every_byte_is_covered(void **context) {
    struct fixture *fixture = *context;
    assert_ok(save_step(fixture, 1, 0));
    flips_are_found(fixture, "checkpoint.h5", 200);
    flips_are_found(fixture, "MANIFEST.json", 200);
}

static void damage_is_named(void **context) {
    struct fixture *fixture = *context;
    struct checkpoint_arenas none = {0};
    assert_ok(save_step(fixture, 1, 0));
    const char *file = in_dir(fixture, "step-00000001/checkpoint.h5");
    struct stat info;
    assert_int_equal(stat(file, &info), 0);
    // the middle of the file is in some tensor: load says which, as verify does
    flip(file, info.st_size / 2, 1);
    assert_status(checkpoint_verify(in_dir(fixture, "step-00000001")), STATUS_DATA);
    message_holds("damaged: bytes");
    message_holds("/optimizer/exp_avg/bert.");
    assert_status(checkpoint_load(&none, NULL, &fixture->sample.table, in_dir(fixture, "step-00000001")), STATUS_DATA);
    message_holds("/optimizer/exp_avg/bert.");
    flip(file, info.st_size / 2, 1);

    assert_int_equal(truncate(file, info.st_size - 1), 0);
    assert_status(checkpoint_verify(in_dir(fixture, "step-00000001")), STATUS_DATA);
    message_holds("cut off");
    assert_int_equal(truncate(file, info.st_size), 0);
    assert_int_equal(unlink(file), 0);
    assert_status(checkpoint_verify(in_dir(fixture, "step-00000001")), STATUS_DATA);
    message_holds("checkpoint.h5: No such file");
    assert_true(checkpoint_is(in_dir(fixture, "step-00000001")));
    assert_false(checkpoint_is(fixture->dir.path));
    assert_false(checkpoint_is("/nowhere"));
}

static void missing_manifest(void **context) {
    struct fixture *fixture = *context;
    struct trainer_state state;
    assert_ok(save_step(fixture, 1, 0));
    assert_true(checkpoint_is(in_dir(fixture, "step-00000001/checkpoint.h5")));
    assert_int_equal(unlink(in_dir(fixture, "step-00000001/MANIFEST.json")), 0);
    assert_status(checkpoint_state(&state, in_dir(fixture, "step-00000001")), STATUS_DATA);
    message_holds("MANIFEST.json");
    assert_status(checkpoint_verify(in_dir(fixture, "step-00000009")), STATUS_DATA);
    message_holds("not there");
}

// ---- other files, other models

static void rewrite(const char *path, const char *from, const char *to) {
    char *bytes;
    size_t size;
    assert_ok(file_read(&bytes, &size, path, 1 << 24));
    char *at = strstr(bytes, from);
    assert_non_null(at);
    memcpy(at, to, strlen(to));
    // a valid check again
    char digits[17];
    snprintf(digits, sizeof digits, "%016" PRIx64, hash64(bytes, size - 29));
    assert_memory_equal(bytes + size - 29, "\"check\": \"", 10);
    memcpy(bytes + size - 19, digits, 16);
    assert_ok(file_replace(path, bytes, size));
    free(bytes);
}

static void newer_format(void **context) {
    struct fixture *fixture = *context;
    assert_ok(save_step(fixture, 1, 0));
    rewrite(in_dir(fixture, "step-00000001/MANIFEST.json"), "\"format\": 2", "\"format\": 3");
    assert_status(checkpoint_verify(in_dir(fixture, "step-00000001")), STATUS_DATA);
    message_holds("format 3 is newer");
    struct trainer_state state = sample_state(2);
    state.format = CHECKPOINT_FORMAT + 1; // as a later program's attributes would be
    assert_ok(save_state(fixture, &state));
    assert_status(checkpoint_verify(in_dir(fixture, "step-00000002")), STATUS_DATA);
    message_holds("format 3 is newer");
}

static void manifest_of_another_step(void **context) {
    struct fixture *fixture = *context;
    assert_ok(save_step(fixture, 1, 0));
    rewrite(in_dir(fixture, "step-00000001/MANIFEST.json"), "\"step\": 1", "\"step\": 3");
    assert_status(checkpoint_verify(in_dir(fixture, "step-00000001")), STATUS_DATA);
    message_holds("of step 1, MANIFEST.json of step 3");
}

static void other_model(void **context) {
    struct fixture *fixture = *context;
    const char *path = in_dir(fixture, "step-00000001");
    struct checkpoint_arenas none = {0};
    struct param_table table = {0};
    assert_ok(save_step(fixture, 1, 0));
    // one tensor of another shape
    assert_ok(sample_table(&table));
    for (size_t i = 0; i < table.n; i++)
        if (strncmp(table.at[i].name, "classifier", 10) == 0)
            table.at[i].shape[0] = 4;
    assert_status(checkpoint_load(&none, NULL, &table, path), STATUS_DATA);
    message_holds("/model/classifier.weight is [3, 48] in it, [4, 48] in the model");
    param_table_release(&table);
    // the model has one more
    assert_ok(sample_table(&table));
    memcpy(table.at[3].name, "bert.pooler", 12);
    assert_status(checkpoint_load(&none, NULL, &table, path), STATUS_DATA);
    message_holds("/model/bert.pooler is not in it, the model has it as [437]");
    param_table_release(&table);
    // the checkpoint has one more
    assert_ok(param_add(&table, "classifier.bias", PARAM_VECTOR, 3, 1, false, 0));
    assert_ok(param_finish(&table));
    assert_status(checkpoint_load(&none, NULL, &table, path), STATUS_DATA);
    message_holds("bert.embeddings.word_embeddings.weight is [1003, 48] in it, the model has none of that name");
    param_table_release(&table);
}

// ---- retention and what stands in the way

static void retention(void **context) {
    struct fixture *fixture = *context;
    fixture->dir.keep = 2;
    assert_ok(save_step(fixture, 100, 100));
    assert_ok(save_step(fixture, 200, 100));
    assert_ok(save_step(fixture, 300, 100));
    assert_string_equal(listing(fixture), "best latest step-00000100 step-00000200 step-00000300");
    assert_ok(save_step(fixture, 400, 100));
    assert_string_equal(listing(fixture), "best latest step-00000100 step-00000300 step-00000400");
    link_is(fixture, "best", "step-00000100");
    assert_ok(save_step(fixture, 500, 500)); // the old best is one of the many now
    assert_string_equal(listing(fixture), "best latest step-00000400 step-00000500");
    link_is(fixture, "best", "step-00000500");
    // a bad one does not count and is left alone
    assert_int_equal(unlink(in_dir(fixture, "step-00000500/MANIFEST.json")), 0);
    assert_ok(save_step(fixture, 600, 500));
    assert_string_equal(listing(fixture), "best latest step-00000400 step-00000500 step-00000600");
    link_is(fixture, "latest", "step-00000600");
    fixture->dir.keep = 1;
    assert_ok(save_step(fixture, 700, 0));
    assert_string_equal(listing(fixture), "best latest step-00000500 step-00000700");
}

static void parents(void **context) {
    struct fixture *fixture = *context;
    char *bytes;
    assert_ok(save_step(fixture, 100, 0));
    assert_ok(save_step(fixture, 200, 0));
    assert_ok(file_read(&bytes, NULL, in_dir(fixture, "step-00000100/MANIFEST.json"), 1 << 20));
    assert_non_null(strstr(bytes, "\"parent\": null"));
    free(bytes);
    assert_ok(file_read(&bytes, NULL, in_dir(fixture, "step-00000200/MANIFEST.json"), 1 << 20));
    assert_non_null(strstr(bytes, "\"parent\": \"step-00000100\""));
    free(bytes);
}

static void in_the_way(void **context) {
    struct fixture *fixture = *context;
    // abandoned: a folder without a manifest
    assert_ok(file_make_folders(in_dir(fixture, "step-00000100")));
    assert_ok(file_replace(in_dir(fixture, "step-00000100/checkpoint.h5"), "abc", 3));
    assert_ok(save_step(fixture, 100, 0));
    assert_ok(checkpoint_verify(in_dir(fixture, "step-00000100")));
    assert_true(file_exists(in_dir(fixture, "step-00000100.aside-1/checkpoint.h5")));
    // a good one of another run
    struct trainer_state state = sample_state(100);
    state.run_id[0] = '2';
    assert_ok(save_state(fixture, &state));
    assert_ok(checkpoint_verify(in_dir(fixture, "step-00000100.aside-2")));
    // the same run's: replaced
    state.evaluations_without_gain = 9;
    assert_ok(save_state(fixture, &state));
    assert_string_equal(listing(fixture), "latest step-00000100 step-00000100.aside-1 step-00000100.aside-2");
    struct trainer_state found;
    assert_ok(checkpoint_state(&found, in_dir(fixture, "step-00000100")));
    assert_int_equal(found.evaluations_without_gain, 9);
    trainer_state_release(&found);
}

// ---- errors

static void nothing_new(struct fixture *fixture) {
    assert_string_equal(listing(fixture), "latest step-00000100");
    assert_ok(checkpoint_verify(in_dir(fixture, "step-00000100")));
    link_is(fixture, "latest", "step-00000100");
}

static void not_finite(void **context) {
    struct fixture *fixture = *context;
    assert_ok(save_step(fixture, 100, 0));
    const struct param *param = param_find(&fixture->sample.table, "bert.encoder.layer.0.output.dense.weight");
    fixture->sample.arenas.exp_avg[param->offset + 40] = NAN;
    assert_status(save_step(fixture, 200, 0), STATUS_DATA);
    message_holds("/optimizer/exp_avg/bert.encoder.layer.0.output.dense.weight");
    nothing_new(fixture);
}

// A limit on the size of files stands for a disk that fills up at some point, and says so by another errno.
static void write_errors(void **context) {
    struct fixture *fixture = *context;
    struct rlimit before, limit;
    assert_ok(save_step(fixture, 100, 0));
    struct stat info;
    assert_int_equal(stat(in_dir(fixture, "step-00000100/checkpoint.h5"), &info), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    const rlim_t limits[] = {1, 700, 3000, 20000, 300000, (rlim_t)info.st_size - 1};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        limit = (struct rlimit){limits[i], before.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        enum status status = save_step(fixture, 200, 200);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_int_equal(status, STATUS_IO);
        message_holds("checkpoint of step 200");
        message_holds("MiB needed");
        message_holds("checkpoints.dir");
        nothing_new(fixture);
    }
    assert_ok(save_step(fixture, 200, 0)); // and it goes on
    assert_ok(checkpoint_verify(in_dir(fixture, "step-00000200")));
}

static void disk_full(void **context) {
    struct fixture *fixture = *context;
    assert_ok(file_make_folders(fixture->dir.path));
    // room for one and a half; reserving what is missing fails, or the look at the free space does
    if (mount("finetuned-test", fixture->dir.path, "tmpfs", 0, "size=2500k") != 0) {
        fprintf(stderr, "SKIPPED: disk_full: a tmpfs can't be mounted (needs root)\n");
        skip();
    }
    assert_ok(save_step(fixture, 100, 0));
    enum status status = save_step(fixture, 200, 0);
    char message[1024];
    snprintf(message, sizeof message, "%s", status_message());
    bool same = strcmp(listing(fixture), "latest step-00000100") == 0 &&
                checkpoint_verify(in_dir(fixture, "step-00000100")) == STATUS_OK;
    assert_int_equal(umount2(fixture->dir.path, MNT_DETACH), 0);
    assert_int_equal(status, STATUS_IO);
    status_set(status, "%s", message);
    message_holds("No space left on device");
    message_holds("free some");
    assert_true(same);
}

static void no_folder(void **context) {
    struct fixture *fixture = *context;
    assert_ok(file_replace(fixture->dir.path, "", 0)); // a file where the folder should be
    assert_status(save_step(fixture, 100, 0), STATUS_IO);
    message_holds("checkpoint of step 100");
}

// ---- describe

// A folder that another took while the save was written: nothing in it is renamed, linked or deleted.
static void folder_lost(void **context) {
    struct fixture *fixture = *context;
    struct trainer_state state = sample_state(300);
    struct checkpoint_saved saved;
    struct checkpoint *checkpoint;
    fixture->dir.keep = 1;
    assert_ok(save_step(fixture, 200, 0));
    char *owned = path_join(fixture->folder, "owned");
    for (int i = 0; i < 2; i++) {
        struct owner *owner;
        assert_ok(owner_take(&owner, owned, "out"));
        fixture->dir.owners[0] = fixture->dir.owners[1] = NULL;
        fixture->dir.owners[i] = owner;
        assert_ok(checkpoint_begin(&checkpoint, fixture->comm, &fixture->dir, &fixture->sample.table,
                                   &fixture->sample.arenas, &state));
        assert_ok(file_remove(owned));
        assert_status(checkpoint_commit(&saved, checkpoint, false), STATUS_AGAIN);
        message_holds("this run no longer holds ");
        message_holds("its .owner is gone");
        assert_string_equal(listing(fixture), "latest step-00000200");
        link_is(fixture, "latest", "step-00000200");
        assert_status(save_step(fixture, 300, 0), STATUS_AGAIN); // and nothing is begun
        assert_string_equal(listing(fixture), "latest step-00000200");
        owner_release(owner);
    }
    free(owned);
    fixture->dir.owners[1] = NULL;
}

static void describe(void **context) {
    struct fixture *fixture = *context;
    char *text;
    assert_ok(save_step(fixture, 100, 100));
    assert_ok(checkpoint_describe(&text, in_dir(fixture, "step-00000100"), false));
    assert_non_null(strstr(text, "step                      100\n"));
    assert_non_null(strstr(text, "bert.embeddings.word_embeddings.weight [1003, 48]\n"));
    free(text);
    assert_ok(checkpoint_describe(&text, in_dir(fixture, "step-00000100/checkpoint.h5"), true));
    assert_non_null(strstr(text, "\"step\":100,"));
    assert_non_null(strstr(text, "\"classifier.weight\":[3,48]"));
    assert_non_null(strstr(text, "\"labels\":[\"anger\",\"joy\","));
    free(text);
    assert_status(checkpoint_describe(&text, fixture->folder, true), STATUS_DATA);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(round_trip, setup, teardown),
        cmocka_unit_test_setup_teardown(datasets_hold_rows, setup, teardown),
        cmocka_unit_test_setup_teardown(padding_stays_zero, setup, teardown),
        cmocka_unit_test_setup_teardown(small_pieces_are_rank_0s, setup, teardown),
        cmocka_unit_test_setup_teardown(every_byte_is_covered, setup, teardown),
        cmocka_unit_test_setup_teardown(damage_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(missing_manifest, setup, teardown),
        cmocka_unit_test_setup_teardown(newer_format, setup, teardown),
        cmocka_unit_test_setup_teardown(manifest_of_another_step, setup, teardown),
        cmocka_unit_test_setup_teardown(other_model, setup, teardown),
        cmocka_unit_test_setup_teardown(retention, setup, teardown),
        cmocka_unit_test_setup_teardown(parents, setup, teardown),
        cmocka_unit_test_setup_teardown(in_the_way, setup, teardown),
        cmocka_unit_test_setup_teardown(not_finite, setup, teardown),
        cmocka_unit_test_setup_teardown(write_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(disk_full, setup, teardown),
        cmocka_unit_test_setup_teardown(no_folder, setup, teardown),
        cmocka_unit_test_setup_teardown(folder_lost, setup, teardown),
        cmocka_unit_test_setup_teardown(describe, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
