// SPDX-License-Identifier: Apache-2.0
// Saves that are written while the arenas change: under slow, held up and failing writes the file is that of a save
// which nothing disturbed, byte for byte, or there is none.
#include "support.h"

#include "base/text.h"
#include "checkpoints/layout.h"
#include "checkpoints/pieces.h"
#include "checkpoints_support.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

// ---- the writer's calls, which come here instead of to the C library

static struct {
    atomic_uint delay_us;   // of each pwrite
    atomic_bool held;       // they wait
    atomic_int fails_after; // so many pwrites are good, then `error`; negative: none fails
    atomic_int sync_error;  // of fsync and fdatasync; 0: none
    atomic_uint writes;     // how many came
    uint64_t offsets[4096]; // where
} disk;
static int disk_error = ENOSPC;

static void disk_reset(void) {
    atomic_store(&disk.delay_us, 0);
    atomic_store(&disk.held, false);
    atomic_store(&disk.fails_after, -1);
    atomic_store(&disk.sync_error, 0);
    atomic_store(&disk.writes, 0);
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset) {
    unsigned n = atomic_fetch_add(&disk.writes, 1);
    if (n < 4096)
        disk.offsets[n] = (uint64_t)offset;
    usleep(atomic_load(&disk.delay_us));
    while (atomic_load(&disk.held))
        usleep(100);
    int after = atomic_load(&disk.fails_after);
    if (after >= 0 && n >= (unsigned)after) {
        errno = disk_error;
        return -1;
    }
    return syscall(SYS_pwrite64, fd, bytes, size, offset);
}

static int disk_sync(int fd) {
    errno = atomic_load(&disk.sync_error);
    return errno ? -1 : (int)syscall(SYS_fsync, fd);
}

int fsync(int fd) {
    return disk_sync(fd);
}

int fdatasync(int fd) {
    return disk_sync(fd);
}

// ---- a save under updates

struct fixture {
    struct sample sample;
    struct comm *comm;
    struct pool *pool;
    struct checkpoint_dir dir, calm; // where saves are disturbed, and where not
    char *folder;
};

static int setup(void **context) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    disk_reset();
    assert_ok(sample_table(&fixture->sample.table));
    sample_arenas(&fixture->sample.arenas, &fixture->sample.table);
    sample_fill(&fixture->sample, 1);
    assert_ok(comm_open(&fixture->comm, JOB_BACKEND_SELF));
    assert_ok(pool_open(&fixture->pool, 0));
    fixture->folder = support_folder();
    fixture->dir = (struct checkpoint_dir){.path = path_join(fixture->folder, "checkpoints"), .keep = 3};
    fixture->calm = (struct checkpoint_dir){.path = path_join(fixture->folder, "calm"), .keep = 3};
    *context = fixture;
    return 0;
}

static int teardown(void **context) {
    struct fixture *fixture = *context;
    disk_reset();
    assert_ok(file_remove(fixture->folder));
    pool_close(fixture->pool);
    comm_close(fixture->comm);
    sample_arenas_free(&fixture->sample.arenas);
    param_table_release(&fixture->sample.table);
    free(fixture->calm.path);
    free(fixture->dir.path);
    free(fixture->folder);
    free(fixture);
    return 0;
}

static void message_holds(const char *part) {
    if (!strstr(status_message(), part))
        fail_msg("message \"%s\" does not hold \"%s\"", status_message(), part);
}

static struct checkpoint *begin(struct fixture *fixture, uint64_t step) {
    struct trainer_state state = sample_state(step);
    struct checkpoint *checkpoint;
    assert_ok(checkpoint_begin(&checkpoint, fixture->comm, &fixture->dir, &fixture->sample.table,
                               &fixture->sample.arenas, &state));
    return checkpoint;
}

static void save_calm(struct fixture *fixture, uint64_t step) {
    struct trainer_state state = sample_state(step);
    struct checkpoint_saved saved;
    assert_ok(checkpoint_save(&saved, fixture->comm, &fixture->calm, &fixture->sample.table, &fixture->sample.arenas,
                              &state));
    free(saved.path);
}

static void floats_change(struct fixture *fixture, uint64_t offset, uint64_t n) {
    float *arenas[] = {fixture->sample.arenas.weights, fixture->sample.arenas.exp_avg,
                       fixture->sample.arenas.exp_avg_sq};
    for (int a = 0; a < 3; a++)
        for (uint64_t i = 0; i < n; i++)
            arenas[a][offset + i] += 1.0f;
}

// An update of all that is trained, as train_step makes it; of the embeddings only these rows.
static void update_rows(struct fixture *fixture, struct checkpoint *checkpoint, const struct row_set *rows) {
    struct param_table *table = &fixture->sample.table;
    for (unsigned l = (unsigned)table->frozen; l < table->n_buckets; l++) {
        uint64_t first = l == 0 ? table->at[table->embeddings].offset : table->buckets[l].offset;
        checkpoint_release(checkpoint, l, rows);
        floats_change(fixture, first, table->buckets[l].offset + table->buckets[l].size - first);
        for (uint64_t row = row_set_next(rows, 0); l == 0 && row < table->rows; row = row_set_next(rows, row + 1))
            floats_change(fixture, row_piece(table, row).offset, row_piece(table, row).n);
    }
}

static void update(struct fixture *fixture, struct checkpoint *checkpoint) {
    struct row_set all;
    assert_ok(row_set_init(&all, &fixture->sample.table));
    row_set_fill(&all, &fixture->sample.table);
    update_rows(fixture, checkpoint, &all);
    row_set_release(&all);
}

// A few rows, which differ from round to round, and share pieces with others.
static void update_some(struct fixture *fixture, struct checkpoint *checkpoint, uint64_t round) {
    struct row_set some;
    assert_ok(row_set_init(&some, &fixture->sample.table));
    for (uint64_t i = 0; i < 4; i++)
        row_set_add(&some, (i * 327 + round * 31) % fixture->sample.table.rows);
    update_rows(fixture, checkpoint, &some);
    row_set_release(&some);
}

static void same_file(const struct fixture *fixture, const char *name) {
    char *one = text_format("%s/%s", fixture->dir.path, name), *two = text_format("%s/%s", fixture->calm.path, name);
    char *bytes[2];
    size_t sizes[2];
    assert_ok(file_read(&bytes[0], &sizes[0], one, 1 << 24));
    assert_ok(file_read(&bytes[1], &sizes[1], two, 1 << 24));
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(bytes[0], bytes[1], sizes[0]);
    free(bytes[0]);
    free(bytes[1]);
    free(one);
    free(two);
}

static void check_save(struct fixture *fixture, uint64_t step, unsigned delay_us) {
    struct checkpoint_saved saved;
    char *path = text_format("step-%08u/checkpoint.h5", (unsigned)step);
    save_calm(fixture, step);
    atomic_store(&disk.delay_us, delay_us);
    struct checkpoint *checkpoint = begin(fixture, step);
    for (uint64_t round = 0; round < 5; round++)
        update_some(fixture, checkpoint, round);
    update(fixture, checkpoint);
    assert_ok(checkpoint_commit(&saved, checkpoint, false));
    disk_reset();
    assert_int_equal(saved.step, step);
    assert_true(saved.write_s > 0 && saved.held_s > 0);
    same_file(fixture, path);
    assert_ok(checkpoint_verify(saved.path));
    checkpoint_saved_settle(&saved);
    free(saved.path);
    free(path);
}

static void the_file_is_of_its_step(void **context) {
    struct fixture *fixture = *context;
    const uint64_t buffers[] = {0, 60, 5000, 20000, 100000, 1 << 30};
    uint64_t step = 1;
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        for (unsigned delay = 0; delay <= 300; delay += 150) {
            fixture->dir.buffer = buffers[i];
            fixture->dir.pool = step % 2 ? fixture->pool : NULL;
            check_save(fixture, step++, delay);
        }
}

static void frozen_buckets(void **context) {
    struct fixture *fixture = *context;
    fixture->dir.buffer = 20000;
    for (fixture->sample.table.frozen = 1; fixture->sample.table.frozen < 3; fixture->sample.table.frozen++)
        check_save(fixture, fixture->sample.table.frozen, 150);
}

// Copied aside as a whole, a save holds training up for no write: they have not begun when the update is over.
static void a_buffer_is_enough(void **context) {
    struct fixture *fixture = *context;
    struct checkpoint_saved saved;
    fixture->dir.buffer = 1 << 30;
    fixture->dir.pool = fixture->pool;
    save_calm(fixture, 1);
    struct checkpoint *checkpoint = begin(fixture, 1);
    atomic_store(&disk.held, true);
    for (int round = 0; round < 3; round++)
        update(fixture, checkpoint);
    assert_int_equal(checkpoint_progress(checkpoint), CHECKPOINT_BUSY);
    atomic_store(&disk.held, false);
    while (checkpoint_progress(checkpoint) == CHECKPOINT_BUSY)
        usleep(1000);
    assert_int_equal(checkpoint_progress(checkpoint), CHECKPOINT_WRITTEN);
    update(fixture, checkpoint); // nothing to wait for any more
    assert_ok(checkpoint_commit(&saved, checkpoint, false));
    same_file(fixture, "step-00000001/checkpoint.h5");
    checkpoint_saved_settle(&saved);
    free(saved.path);
}

// ---- the order of writing

static unsigned bucket_at(const struct pieces *pieces, const struct param_table *table, uint64_t offset) {
    for (size_t i = 0; i < pieces->n; i++)
        if (pieces->at[i].offset == offset)
            return table->at[pieces->at[i].dataset % table->n].bucket;
    return UINT32_MAX; // HDF5's own bytes
}

static void order_is(struct fixture *fixture, const unsigned *wanted) {
    struct param_table *table = &fixture->sample.table;
    struct trainer_state state = sample_state(1);
    uint64_t *offsets = calloc(LAYOUT_GROUPS * table->n, sizeof *offsets);
    struct store store = {0};
    struct pieces pieces;
    struct checkpoint_saved saved;
    assert_ok(layout_create(offsets, &store, table, &state));
    assert_ok(pieces_plan(&pieces, table, offsets, 1));
    atomic_store(&disk.writes, 0);
    assert_ok(checkpoint_commit(&saved, begin(fixture, 1), false));
    unsigned seen = 0, n = 0, writes = atomic_load(&disk.writes);
    for (unsigned i = 0; i < writes; i++) {
        unsigned bucket = bucket_at(&pieces, table, disk.offsets[i]);
        if (bucket == UINT32_MAX)
            continue;
        n++;
        while (seen < 3 && wanted[seen] != bucket)
            seen++;
        assert_true(seen < 3);
    }
    assert_int_equal(n, pieces.n);
    checkpoint_saved_settle(&saved);
    free(saved.path);
    free(offsets);
    pieces_release(&pieces);
    store_release(&store);
}

static void the_order_of_updates(void **context) {
    struct fixture *fixture = *context;
    order_is(fixture, (unsigned[]){1, 2, 0});
    fixture->sample.table.frozen = 2; // what no update comes to is written last
    order_is(fixture, (unsigned[]){2, 0, 1});
}

// ---- what goes wrong

// The names in checkpoints.dir.
static size_t left(const struct fixture *fixture) {
    char **names;
    size_t n;
    assert_ok(file_list(&names, &n, fixture->dir.path));
    file_list_free(names, n);
    return n;
}

static void check_good(struct fixture *fixture) {
    struct trainer_state state;
    char *path = text_format("%s/latest", fixture->dir.path);
    assert_int_equal(left(fixture), 2); // step-00000001, latest
    assert_ok(checkpoint_verify(path));
    assert_ok(checkpoint_state(&state, path));
    assert_int_equal(state.step, 1);
    trainer_state_release(&state);
    free(path);
}

static void check_error(struct fixture *fixture, const char *what) {
    struct checkpoint_saved saved;
    struct checkpoint *checkpoint = begin(fixture, 2);
    for (int round = 0; round < 2; round++)
        update(fixture, checkpoint); // nobody waits for a writer that has failed
    enum status status = checkpoint_commit(&saved, checkpoint, false);
    disk_reset();
    assert_int_equal(status, STATUS_IO);
    message_holds("checkpoint of step 2 (");
    message_holds("MiB needed in ");
    message_holds("checkpoint.h5");
    message_holds(what);
    check_good(fixture);
}

static void write_errors(void **context) {
    struct fixture *fixture = *context;
    struct checkpoint_saved saved;
    assert_ok(checkpoint_commit(&saved, begin(fixture, 1), false));
    checkpoint_saved_settle(&saved);
    free(saved.path);
    unsigned all = atomic_load(&disk.writes);
    for (unsigned i = 0; i < 12; i++) {
        disk_error = i % 2 ? ENOSPC : EIO;
        fixture->dir.buffer = i % 3 ? 20000 * (i % 3 - 1) : 1 << 30;
        atomic_store(&disk.writes, 0);
        atomic_store(&disk.delay_us, 50);
        atomic_store(&disk.fails_after, (int)(20 + i * (all - 21) / 11)); // (HDF5's own are written at the beginning)
        check_error(fixture, strerror(disk_error));
    }
    struct checkpoint *checkpoint = begin(fixture, 2);
    atomic_store(&disk.sync_error, EIO);
    enum status status = checkpoint_commit(&saved, checkpoint, false);
    disk_reset();
    assert_int_equal(status, STATUS_IO);
    message_holds("sync");
    check_good(fixture);
}

static void not_finite(void **context) {
    struct fixture *fixture = *context;
    struct checkpoint_saved saved;
    assert_ok(checkpoint_commit(&saved, begin(fixture, 1), false));
    checkpoint_saved_settle(&saved);
    free(saved.path);
    for (int buffered = 0; buffered < 2; buffered++) {
        fixture->dir.buffer = buffered ? 1 << 30 : 0;
        fixture->sample.arenas.exp_avg[fixture->sample.table.at[4].offset + 40] = INFINITY;
        struct checkpoint *checkpoint = begin(fixture, 2);
        update(fixture, checkpoint);
        assert_status(checkpoint_commit(&saved, checkpoint, false), STATUS_DATA);
        message_holds("/optimizer/exp_avg/bert.encoder.layer.0.output.dense.weight");
        check_good(fixture);
    }
}

// A run that ends otherwise leaves nothing, keeps its message, and does not wait for the disk to take all of it.
static void rolled_back(void **context) {
    struct fixture *fixture = *context;
    struct checkpoint_saved saved;
    assert_ok(checkpoint_commit(&saved, begin(fixture, 1), false));
    checkpoint_saved_settle(&saved);
    free(saved.path);
    atomic_store(&disk.writes, 0);
    atomic_store(&disk.delay_us, 2000);
    struct checkpoint *checkpoint = begin(fixture, 2);
    assert_int_equal(left(fixture), 3);
    status_set(STATUS_DATA, "what ended the run");
    checkpoint_rollback(checkpoint);
    assert_string_equal(status_message(), "what ended the run");
    assert_true(atomic_load(&disk.writes) < 80);
    check_good(fixture);
    checkpoint_rollback(NULL);
    // another rank's writer has failed: ours ends without its own end
    disk_reset();
    atomic_store(&disk.delay_us, 2000);
    assert_status(checkpoint_commit(&saved, begin(fixture, 2), true), STATUS_ARGUMENT);
    assert_true(atomic_load(&disk.writes) < 80);
    check_good(fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_file_is_of_its_step, setup, teardown),
        cmocka_unit_test_setup_teardown(frozen_buckets, setup, teardown),
        cmocka_unit_test_setup_teardown(a_buffer_is_enough, setup, teardown),
        cmocka_unit_test_setup_teardown(the_order_of_updates, setup, teardown),
        cmocka_unit_test_setup_teardown(write_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(not_finite, setup, teardown),
        cmocka_unit_test_setup_teardown(rolled_back, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
