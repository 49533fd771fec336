// SPDX-License-Identifier: Apache-2.0
// Reading a checkpoint: verify, state, load. One pass over the file: what was hashed is what is used.
#include "base/file.h"
#include "checkpoints/checkpoint.h"
#include "checkpoints/layout.h"
#include "checkpoints/pieces.h"
#include "checkpoints/reader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// A piece of a dataset, in the reader's buffer. We never save what is not finite, so who did has broken the run.
static enum status load_read(struct reader *reader, const struct manifest_piece *piece) {
    TRY(reader_piece(reader, piece));
    if (piece_values_finite(reader->buffer, piece->size / sizeof(float)))
        return STATUS_OK;
    return status_set(STATUS_DATA, "%s: %s holds a value that is not finite (bytes %" PRIu64 " to %" PRIu64 ")",
                      reader->file, reader->manifest.datasets[piece->dataset].name, piece->offset,
                      piece->offset + piece->size - 1);
}

enum status checkpoint_verify(const char *path) {
    struct reader reader;
    TRY(reader_open(&reader, path));
    enum status status = layout_check(NULL, reader.file, &reader.manifest, NULL);
    for (size_t i = 0; i < reader.manifest.n_pieces && status == STATUS_OK; i++)
        if (reader.manifest.pieces[i].dataset != MANIFEST_REST)
            status = load_read(&reader, &reader.manifest.pieces[i]);
    reader_close(&reader);
    return status;
}

enum status checkpoint_state(struct trainer_state *out, const char *path) {
    struct reader reader;
    *out = (struct trainer_state){0};
    TRY(reader_open(&reader, path));
    enum status status = layout_check(out, reader.file, &reader.manifest, NULL);
    reader_close(&reader);
    return status;
}

// Which parameter and arena each dataset of the manifest goes to.
struct load_target {
    const struct param *param;
    float *arena; // NULL: checked only
};

static enum status load_target_find(struct load_target *target, const struct manifest_dataset *dataset,
                                    const struct param_table *table, const struct checkpoint_arenas *arenas,
                                    const char *path) {
    float *of[LAYOUT_GROUPS] = {arenas->weights, arenas->exp_avg, arenas->exp_avg_sq};
    for (size_t g = 0; g < LAYOUT_GROUPS; g++) {
        size_t size = strlen(layout_groups[g]);
        if (strncmp(dataset->name, layout_groups[g], size) == 0 && dataset->name[size] == '/')
            *target = (struct load_target){param_find(table, dataset->name + size + 1), of[g]};
    }
    if (!target->param || dataset->piece != piece_bytes(target->param))
        return status_set(STATUS_DATA, "%s: %s is cut into pieces of %" PRIu64 " bytes, which format %d does not do",
                          path, dataset->name, dataset->piece, CHECKPOINT_FORMAT);
    return STATUS_OK;
}

static enum status load_targets(struct load_target **out, const struct reader *reader, const struct param_table *table,
                                const struct checkpoint_arenas *arenas) {
    const struct manifest *manifest = &reader->manifest;
    struct load_target *targets = calloc(manifest->n_datasets + 1, sizeof *targets);
    enum status status = targets ? STATUS_OK : status_set(STATUS_SYSTEM, "load %s: no memory", reader->file);
    for (size_t i = 0; i < manifest->n_datasets && status == STATUS_OK; i++)
        status = load_target_find(&targets[i], &manifest->datasets[i], table, arenas, reader->file);
    if (status != STATUS_OK) {
        free(targets);
        targets = NULL;
    }
    *out = targets;
    return status;
}

// Rows of zeros over zeros are not written: the moments of words that never had a gradient need not be resident.
static void load_rows(float *arena, const struct param *param, const float *in, uint64_t row, uint64_t rows) {
    const uint64_t n = param->shape[1];
    for (; rows > 0; rows--, row++, in += n)
        if (!floats_are_zero(in, n) || !floats_are_zero(arena + param->offset + row * n, n))
            param_write_rows(arena, param, in, row, 1);
}

static enum status load_piece(struct reader *reader, const struct manifest_piece *piece,
                              const struct load_target *targets) {
    if (piece->dataset == MANIFEST_REST)
        return STATUS_OK; // compared when it was opened
    TRY(load_read(reader, piece));
    const struct load_target *target = &targets[piece->dataset];
    if (!target->arena)
        return STATUS_OK;
    uint64_t row_bytes = target->param->shape[1] * sizeof(float);
    uint64_t row = (piece->offset - reader->manifest.datasets[piece->dataset].offset) / row_bytes;
    if (target->param->layout == PARAM_ROWS)
        load_rows(target->arena, target->param, reader->buffer, row, piece->size / row_bytes);
    else
        param_write_rows(target->arena, target->param, reader->buffer, row, piece->size / row_bytes);
    return STATUS_OK;
}

static enum status load_pieces(struct reader *reader, const struct param_table *table,
                               const struct checkpoint_arenas *arenas) {
    struct load_target *targets;
    TRY(load_targets(&targets, reader, table, arenas));
    enum status status = STATUS_OK;
    for (size_t i = 0; i < reader->manifest.n_pieces && status == STATUS_OK; i++)
        status = load_piece(reader, &reader->manifest.pieces[i], targets);
    free(targets);
    return status;
}

enum status checkpoint_load(const struct checkpoint_arenas *arenas, struct trainer_state *state,
                            const struct param_table *table, const char *path) {
    struct reader reader;
    struct trainer_state found = {0};
    TRY(reader_open(&reader, path));
    enum status status = layout_check(&found, reader.file, &reader.manifest, table);
    if (status == STATUS_OK)
        status = load_pieces(&reader, table, arenas);
    reader_close(&reader);
    if (status == STATUS_OK && state)
        *state = found;
    else
        trainer_state_release(&found);
    return status;
}

// "<path>/<below>", as far as `latest` and `best` are there.
static bool hint_put(char *out, size_t room, const char *path, const char *below) {
    char *folder = path_join(path, below), *latest = folder ? path_join(folder, "latest") : NULL,
         *best = folder ? path_join(folder, "best") : NULL;
    bool has = latest && checkpoint_is(latest), has_best = best && checkpoint_is(best);
    if (has)
        snprintf(out, room, ": did you mean %.420s%s%.420s%s?", latest, has_best ? " (or " : "", has_best ? best : "",
                 has_best ? ")" : "");
    free(best);
    free(latest);
    free(folder);
    return has;
}

const char *checkpoint_hint(const char *path) {
    static _Thread_local char hint[900];
    *hint = '\0';
    if (!hint_put(hint, sizeof hint, path, ""))
        hint_put(hint, sizeof hint, path, "checkpoints");
    return hint;
}

bool checkpoint_is(const char *path) {
    static const char *const names[] = {MANIFEST_FILE, MANIFEST_NAME};
    const char *slash = strrchr(path, '/');
    if (!file_is_folder(path))
        return file_exists(path) && strcmp(slash ? slash + 1 : path, MANIFEST_FILE) == 0;
    bool is = false;
    for (size_t i = 0; i < 2 && !is; i++) {
        char *name = path_join(path, names[i]);
        is = name && file_exists(name);
        free(name);
    }
    return is;
}
