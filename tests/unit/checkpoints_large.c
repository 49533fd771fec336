// SPDX-License-Identifier: Apache-2.0
// Datasets of more than 2 and 4 GiB: places and sizes that 32 bits don't hold. Here a file that is mostly a hole, of
// which the ends are read; with FINETUNED_LARGE (label long) a real one, saved, verified and loaded.
#include "support.h"

#include "checkpoints_support.h"

#include "base/hash.h"
#include "checkpoints/layout.h"
#include "checkpoints/manifest.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define GIB ((uint64_t)1 << 30)

static void table_make(struct param_table *table, uint64_t rows, uint64_t columns) {
    *table = (struct param_table){0};
    assert_ok(param_add(table, "bert.embeddings.word_embeddings.weight", PARAM_ROWS, rows, columns, true, 0));
    assert_ok(param_add(table, "bert.embeddings.LayerNorm.bias", PARAM_VECTOR, columns, 1, false, 0));
    assert_ok(param_add(table, "bert.encoder.layer.0.output.dense.weight", PARAM_TILES, 200, columns, true, 1));
    assert_ok(param_add(table, "classifier.bias", PARAM_VECTOR, 3, 1, false, 2));
    assert_ok(param_finish(table));
}

// ---- a file with holes

struct hollow {
    struct param_table table;
    uint64_t *offsets;
    struct manifest manifest;
    struct store store;
    char *folder, *file;
    int fd;
};

static int by_offset(const void *a, const void *b) {
    const struct manifest_piece *x = a, *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

// A dataset's pieces, all of them zeros.
static void hollow_dataset(struct hollow *h, size_t d) {
    const struct param *param = &h->table.at[d % h->table.n];
    uint64_t size = param_elements(param) * sizeof(float), piece = piece_bytes(param);
    char *zeros = calloc(1, piece);
    uint64_t full = hash64(zeros, piece);
    h->manifest.datasets[d] = (struct manifest_dataset){layout_name(&h->table, d), h->offsets[d], size, piece};
    for (uint64_t at = 0; at < size; at += piece) {
        uint64_t here = size - at < piece ? size - at : piece;
        h->manifest.pieces[h->manifest.n_pieces++] =
            (struct manifest_piece){h->offsets[d] + at, here, here == piece ? full : hash64(zeros, here), (uint32_t)d};
    }
    free(zeros);
}

static void hollow_own(struct hollow *h, uint64_t at, uint64_t end) {
    assert_true(end >= at && end - at < MANIFEST_PIECE_MAX); // datasets don't overlap
    if (end == at)
        return;
    char *bytes = malloc(end - at);
    store_read(bytes, &h->store, at, end - at);
    assert_ok(file_pwrite_all(h->fd, bytes, end - at, at, h->file));
    h->manifest.pieces[h->manifest.n_pieces++] =
        (struct manifest_piece){at, end - at, hash64(bytes, end - at), MANIFEST_REST};
    free(bytes);
}

static void hollow_make(struct hollow *h, uint64_t rows, uint64_t columns) {
    struct trainer_state state = sample_state(7);
    char *text, *path;
    size_t size, n;
    table_make(&h->table, rows, columns);
    n = LAYOUT_GROUPS * h->table.n;
    h->offsets = calloc(n, sizeof *h->offsets);
    assert_ok(layout_create(h->offsets, &h->store, &h->table, &state));
    h->folder = support_folder();
    h->file = path_join(h->folder, MANIFEST_FILE);
    h->fd = open(h->file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(h->fd >= 0 && ftruncate(h->fd, (off_t)h->store.size) == 0);
    h->manifest = (struct manifest){.step = 7, .size = h->store.size, .n_datasets = n};
    memcpy(h->manifest.run_id, state.run_id, sizeof h->manifest.run_id);
    h->manifest.datasets = calloc(n, sizeof *h->manifest.datasets);
    h->manifest.pieces = calloc(LAYOUT_GROUPS * (rows / PIECE_ROWS + 100) + 1000, sizeof *h->manifest.pieces);
    for (size_t d = 0; d < n; d++)
        hollow_dataset(h, d);
    size_t pieces = h->manifest.n_pieces;
    qsort(h->manifest.pieces, pieces, sizeof *h->manifest.pieces, by_offset);
    uint64_t at = 0;
    for (size_t i = 0; i < pieces; i++) {
        hollow_own(h, at, h->manifest.pieces[i].offset);
        at = h->manifest.pieces[i].offset + h->manifest.pieces[i].size;
    }
    hollow_own(h, at, h->store.size);
    qsort(h->manifest.pieces, h->manifest.n_pieces, sizeof *h->manifest.pieces, by_offset);
    assert_ok(manifest_format(&text, &size, &h->manifest));
    path = path_join(h->folder, MANIFEST_NAME);
    assert_ok(file_replace(path, text, size));
    free(path);
    free(text);
}

static void hollow_release(struct hollow *h) {
    close(h->fd);
    assert_ok(file_remove(h->folder));
    manifest_release(&h->manifest);
    store_release(&h->store);
    param_table_release(&h->table);
    free(h->offsets);
    free(h->folder);
    free(h->file);
}

// Everything but the tensors' bytes: HDF5's own bytes lie at both ends of 38 GB.
static void places(void **context) {
    (void)context;
    struct hollow h = {0};
    struct trainer_state found;
    char *text;
    uint64_t bytes;
    hollow_make(&h, 3000000, 1056); // 12.7 GB each, three times
    struct trainer_state state = sample_state(7);
    assert_ok(checkpoint_size(&bytes, &h.table, &state));
    assert_int_equal(bytes, h.store.size);
    assert_true(bytes > 35 * GIB);
    assert_true(h.offsets[h.table.n] > 11 * GIB); // the second group's embeddings
    assert_ok(checkpoint_state(&found, h.folder));
    trainer_state_release(&found);
    assert_ok(checkpoint_describe(&text, h.folder, false));
    assert_non_null(strstr(text, "bert.embeddings.word_embeddings.weight [3000000, 1056]\n"));
    free(text);
    // what lies behind 4 GiB is read from where it is: a byte there is seen, and named by its true place
    const struct manifest_piece *own = NULL;
    for (size_t i = 0; i < h.manifest.n_pieces; i++)
        if (h.manifest.pieces[i].dataset == MANIFEST_REST && h.manifest.pieces[i].offset > 8 * GIB)
            own = &h.manifest.pieces[i];
    assert_non_null(own);
    assert_ok(file_pwrite_all(h.fd, "\x55", 1, own->offset, h.file));
    char wanted[64];
    snprintf(wanted, sizeof wanted, "damaged: bytes %" PRIu64 " to ", own->offset);
    assert_status(checkpoint_state(&found, h.folder), STATUS_DATA);
    assert_non_null(strstr(status_message(), wanted));
    hollow_release(&h);
}

// Whose pieces are whose, when a dataset has more bytes than 32 bits count.
static void shares(void **context) {
    (void)context;
    struct param_table table;
    struct pieces pieces;
    uint64_t offsets[LAYOUT_GROUPS * 4], bytes[5] = {0}, total = 0;
    table_make(&table, 3000000, 1056);
    for (size_t d = 0; d < LAYOUT_GROUPS * table.n; d++)
        offsets[d] = d * 16 * GIB;
    assert_ok(pieces_plan(&pieces, &table, offsets, 5));
    for (size_t i = 0; i < pieces.n; i++) {
        const struct piece *piece = &pieces.at[i];
        assert_in_range(piece->rank, 0, 4);
        assert_int_equal(piece->offset, offsets[piece->dataset] + piece->row * piece->size / piece->rows);
        bytes[piece->rank] += piece->size;
        total += piece->size;
    }
    assert_int_equal(total, table.count * sizeof(float) * LAYOUT_GROUPS);
    for (size_t r = 0; r < 5; r++)
        assert_true(bytes[r] > total / 6 && bytes[r] < total / 4);
    pieces_release(&pieces);
    param_table_release(&table);
}

// ---- a real one

static float value_of(uint64_t i) {
    return (float)(i % 8191) * 0.25f - (float)(i >> 20);
}

// The three arenas are one, so that memory for it twice is enough.
static void saved_and_loaded(void **context) {
    (void)context;
    struct param_table table;
    struct comm *comm;
    struct checkpoint_saved saved;
    struct trainer_state state = sample_state(7), found;
    table_make(&table, 700001, 1024); // 2.87 GB
    float *ours = calloc(table.floats, sizeof *ours), *theirs = calloc(table.floats, sizeof *theirs);
    assert_true(ours && theirs);
    for (size_t p = 0; p < table.n; p++)
        for (uint64_t i = 0; table.at[p].layout != PARAM_TILES && i < table.at[p].size; i++)
            ours[table.at[p].offset + i] = value_of(i);
    char *folder = support_folder();
    struct checkpoint_dir dir = {.path = folder, .keep = 1};
    assert_ok(comm_open(&comm, JOB_BACKEND_SELF));
    assert_ok(checkpoint_save(&saved, comm, &dir, &table, &(struct checkpoint_arenas){ours, ours, ours}, &state));
    assert_true(saved.bytes > 8 * GIB);
    assert_ok(checkpoint_verify(saved.path));
    assert_ok(checkpoint_load(&(struct checkpoint_arenas){.exp_avg_sq = theirs}, &found, &table, saved.path));
    assert_memory_equal(ours, theirs, table.floats * sizeof *ours);
    trainer_state_release(&found);
    comm_close(comm);
    assert_ok(file_remove(folder));
    free(saved.path);
    free(folder);
    free(theirs);
    free(ours);
    param_table_release(&table);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(places), cmocka_unit_test(shares)};
    const struct CMUnitTest real[] = {cmocka_unit_test(saved_and_loaded)};
    return getenv("FINETUNED_LARGE") ? cmocka_run_group_tests(real, NULL, NULL)
                                     : cmocka_run_group_tests(tests, NULL, NULL);
}
