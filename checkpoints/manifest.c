// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/manifest.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"
#include "checkpoints/checkpoint.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CHECK_KEY "\"check\": \""
#define CHECK_DIGITS 16
#define CHECK_END "\"}\n"
#define CHECK_SIZE (sizeof CHECK_KEY - 1 + CHECK_DIGITS + sizeof CHECK_END - 1)

void manifest_release(struct manifest *manifest) {
    for (size_t i = 0; i < manifest->n_datasets; i++)
        free(manifest->datasets[i].name);
    free(manifest->datasets);
    free(manifest->pieces);
    *manifest = (struct manifest){0};
}

const struct manifest_dataset *manifest_find(const struct manifest *manifest, const char *name) {
    for (size_t i = 0; i < manifest->n_datasets; i++)
        if (strcmp(manifest->datasets[i].name, name) == 0)
            return &manifest->datasets[i];
    return NULL;
}

// ---- reading

static enum status manifest_bad(const char *name, const char *what) {
    return status_set(STATUS_DATA, "%s: %s", name, what);
}

static bool manifest_u64(uint64_t *out, const json_t *value) {
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *out = (uint64_t)json_integer_value(value);
    return true;
}

// 16 lower-case hex digits.
static bool manifest_hash(uint64_t *out, const char *digits, size_t size) {
    uint64_t hash = 0;
    if (!digits || size != CHECK_DIGITS)
        return false;
    for (size_t i = 0; i < CHECK_DIGITS; i++) {
        char c = digits[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
            return false;
        hash = hash << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    *out = hash;
    return true;
}

static bool manifest_json_hash(uint64_t *out, const json_t *value) {
    return json_is_string(value) && manifest_hash(out, json_string_value(value), json_string_length(value));
}

static bool manifest_text(char *out, size_t room, const json_t *value) {
    if (!json_is_string(value) || json_string_length(value) >= room)
        return false;
    memcpy(out, json_string_value(value), json_string_length(value) + 1);
    return true;
}

// The manifest's own bytes: it must end in the check of all before it.
static enum status manifest_check(const char *bytes, size_t size, const char *name) {
    uint64_t wanted;
    if (size < CHECK_SIZE || memcmp(bytes + size - CHECK_SIZE, CHECK_KEY, sizeof CHECK_KEY - 1) != 0 ||
        memcmp(bytes + size - (sizeof CHECK_END - 1), CHECK_END, sizeof CHECK_END - 1) != 0 ||
        !manifest_hash(&wanted, bytes + size - CHECK_DIGITS - (sizeof CHECK_END - 1), CHECK_DIGITS))
        return manifest_bad(name, "does not end in its own check (cut off or damaged)");
    if (hash64(bytes, size - CHECK_SIZE) != wanted)
        return manifest_bad(name, "its bytes differ from its own check (damaged or edited)");
    return STATUS_OK;
}

// One piece more, ranges checked against the file's size. The array's room was counted before.
static bool manifest_piece_add(struct manifest *manifest, uint64_t offset, uint64_t size, uint64_t hash,
                               uint32_t dataset) {
    if (size == 0 || size > MANIFEST_PIECE_MAX || offset > manifest->size || size > manifest->size - offset)
        return false;
    manifest->pieces[manifest->n_pieces++] = (struct manifest_piece){offset, size, hash, dataset};
    return true;
}

static enum status manifest_dataset_read(struct manifest *manifest, const json_t *value, const char *name) {
    struct manifest_dataset dataset = {0};
    const json_t *title = json_object_get(value, "name");
    const json_t *hashes = json_object_get(value, "hashes");
    if (!json_is_string(title) || !json_is_array(hashes) ||
        !manifest_u64(&dataset.offset, json_object_get(value, "offset")) ||
        !manifest_u64(&dataset.size, json_object_get(value, "size")) ||
        !manifest_u64(&dataset.piece, json_object_get(value, "piece")))
        return status_set(STATUS_DATA, "%s: dataset %zu: name, offset, size, piece or hashes missing", name,
                          manifest->n_datasets);
    const char *string = json_string_value(title);
    if (dataset.size == 0 || dataset.piece == 0 || json_array_size(hashes) != (dataset.size - 1) / dataset.piece + 1 ||
        dataset.offset > manifest->size || dataset.size > manifest->size - dataset.offset)
        return status_set(STATUS_DATA, "%s: dataset %s: offset, size, piece and hashes don't agree", name, string);
    uint32_t index = (uint32_t)manifest->n_datasets;
    for (size_t i = 0; i < json_array_size(hashes); i++) {
        uint64_t hash, at = i * dataset.piece; // below dataset.size
        uint64_t size = dataset.size - at < dataset.piece ? dataset.size - at : dataset.piece;
        if (!manifest_json_hash(&hash, json_array_get(hashes, i)) ||
            !manifest_piece_add(manifest, dataset.offset + at, size, hash, index))
            return status_set(STATUS_DATA, "%s: dataset %s: piece %zu is not possible", name, string, i);
    }
    dataset.name = strdup(string);
    if (!dataset.name)
        return status_set(STATUS_SYSTEM, "%s: no memory", name);
    manifest->datasets[manifest->n_datasets++] = dataset;
    return STATUS_OK;
}

static enum status manifest_rest_read(struct manifest *manifest, const json_t *value, const char *name) {
    uint64_t offset, size, hash;
    if (!json_is_array(value) || json_array_size(value) != 3 || !manifest_u64(&offset, json_array_get(value, 0)) ||
        !manifest_u64(&size, json_array_get(value, 1)) || !manifest_json_hash(&hash, json_array_get(value, 2)) ||
        !manifest_piece_add(manifest, offset, size, hash, MANIFEST_REST))
        return manifest_bad(name, "an entry of rest is not a possible [offset, size, hash]");
    return STATUS_OK;
}

static int manifest_piece_order(const void *a, const void *b) {
    const struct manifest_piece *x = a, *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static enum status manifest_cover(struct manifest *manifest, const char *name) {
    uint64_t at = 0;
    qsort(manifest->pieces, manifest->n_pieces, sizeof *manifest->pieces, manifest_piece_order);
    for (size_t i = 0; i < manifest->n_pieces; i++) {
        if (manifest->pieces[i].offset != at)
            return status_set(STATUS_DATA, "%s: the hashes leave out or repeat bytes at %" PRIu64 " of " MANIFEST_FILE,
                              name, at);
        at += manifest->pieces[i].size;
    }
    if (at != manifest->size)
        return status_set(STATUS_DATA, "%s: the hashes end at byte %" PRIu64 " of %" PRIu64, name, at, manifest->size);
    return STATUS_OK;
}

// Room for what the arrays hold: bounded by the manifest's own size.
static enum status manifest_room(struct manifest *manifest, const json_t *datasets, const json_t *rest,
                                 const char *name) {
    size_t pieces = json_array_size(rest);
    for (size_t i = 0; i < json_array_size(datasets); i++)
        pieces += json_array_size(json_object_get(json_array_get(datasets, i), "hashes"));
    manifest->datasets = calloc(json_array_size(datasets) + 1, sizeof *manifest->datasets);
    manifest->pieces = calloc(pieces + 1, sizeof *manifest->pieces);
    if (!manifest->datasets || !manifest->pieces)
        return status_set(STATUS_SYSTEM, "%s: no memory for %zu pieces", name, pieces);
    return STATUS_OK;
}

static enum status manifest_read_arrays(struct manifest *manifest, const json_t *root, const char *name) {
    const json_t *datasets = json_object_get(root, "datasets");
    const json_t *rest = json_object_get(root, "rest");
    if (!json_is_array(datasets) || !json_is_array(rest))
        return manifest_bad(name, "datasets or rest missing");
    TRY(manifest_room(manifest, datasets, rest, name));
    for (size_t i = 0; i < json_array_size(datasets); i++)
        TRY(manifest_dataset_read(manifest, json_array_get(datasets, i), name));
    for (size_t i = 0; i < json_array_size(rest); i++)
        TRY(manifest_rest_read(manifest, json_array_get(rest, i), name));
    return manifest_cover(manifest, name);
}

static enum status manifest_read_head(struct manifest *manifest, const json_t *root, const char *name) {
    const json_t *parent = json_object_get(root, "parent");
    const json_t *file = json_object_get(root, "file");
    if (!manifest_u64(&manifest->step, json_object_get(root, "step")) ||
        !manifest_u64(&manifest->size, json_object_get(root, "size")) ||
        !manifest_text(manifest->run_id, sizeof manifest->run_id, json_object_get(root, "run_id")) ||
        !(json_is_null(parent) || manifest_text(manifest->parent, sizeof manifest->parent, parent)))
        return manifest_bad(name, "step, size, run_id or parent missing or not possible");
    if (!json_is_string(file) || strcmp(json_string_value(file), MANIFEST_FILE) != 0)
        return manifest_bad(name, "file is not " MANIFEST_FILE);
    return STATUS_OK;
}

static enum status manifest_read_json(struct manifest *manifest, const json_t *root, const char *bytes, size_t size,
                                      const char *name) {
    uint64_t format;
    if (!json_is_object(root) || !manifest_u64(&format, json_object_get(root, "format")) || format == 0)
        return manifest_bad(name, "is not a checkpoint's manifest");
    if (format > CHECKPOINT_FORMAT)
        return status_set(STATUS_DATA,
                          "%s: format %" PRIu64 " is newer than this program's (%d): use a newer finetuned", name,
                          format, CHECKPOINT_FORMAT);
    TRY(manifest_check(bytes, size, name));
    TRY(manifest_read_head(manifest, root, name));
    return manifest_read_arrays(manifest, root, name);
}

enum status manifest_parse(struct manifest *out, const char *bytes, size_t size, const char *name) {
    *out = (struct manifest){0};
    json_error_t error;
    if (size > MANIFEST_MAX)
        return manifest_bad(name, "is too large for a manifest");
    json_t *root = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        return status_set(STATUS_DATA, "%s:%d: %s", name, error.line, error.text);
    enum status status = manifest_read_json(out, root, bytes, size, name);
    json_decref(root);
    if (status != STATUS_OK)
        manifest_release(out);
    return status;
}

// A pipe that a writer holds open would be read for ever, a device without end.
static enum status manifest_bytes(char **out, size_t *size, const char *name) {
    struct stat info;
    *out = NULL;
    if (stat(name, &info) == 0 && !S_ISREG(info.st_mode))
        return status_set(STATUS_DATA, "%s: not a regular file", name);
    return file_read(out, size, name, MANIFEST_MAX);
}

enum status manifest_read(struct manifest *out, const char *path) {
    *out = (struct manifest){0};
    char *name = path_join(path, MANIFEST_NAME), *bytes = NULL;
    size_t size;
    if (!name)
        return status_set(STATUS_SYSTEM, "read %s: no memory", path);
    enum status status = manifest_bytes(&bytes, &size, name);
    if (status == STATUS_OK)
        status = manifest_parse(out, bytes, size, name);
    free(bytes);
    free(name);
    return status;
}

bool manifest_is_newer(uint64_t *format, const char *path) {
    char *name = path_join(path, MANIFEST_NAME), *bytes = NULL;
    size_t size = 0;
    json_t *root = NULL;
    if (name && manifest_bytes(&bytes, &size, name) == STATUS_OK && manifest_check(bytes, size, name) == STATUS_OK)
        root = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, NULL);
    bool newer = manifest_u64(format, json_object_get(root, "format")) && *format > CHECKPOINT_FORMAT;
    json_decref(root);
    free(bytes);
    free(name);
    return newer;
}

// ---- writing

static void manifest_add_string(struct text *text, const char *string) {
    json_t *value = json_string(string);
    char *quoted = value ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
    if (quoted)
        text_puts(text, quoted);
    else
        text->failed = true;
    free(quoted);
    json_decref(value);
}

static void manifest_add_head(struct text *text, const struct manifest *manifest) {
    text_printf(text, "{\"format\": %d, \"step\": %" PRIu64 ", \"run_id\": ", CHECKPOINT_FORMAT, manifest->step);
    manifest_add_string(text, manifest->run_id);
    text_puts(text, ", \"parent\": ");
    if (manifest->parent[0])
        manifest_add_string(text, manifest->parent);
    else
        text_puts(text, "null");
    text_printf(text, ", \"file\": \"" MANIFEST_FILE "\", \"size\": %" PRIu64 ",\n", manifest->size);
}

// A dataset's pieces are neighbours: `at` is its first one.
static void manifest_add_dataset(struct text *text, const struct manifest *manifest, size_t index, size_t at) {
    const struct manifest_dataset *dataset = &manifest->datasets[index];
    text_puts(text, "{\"name\": ");
    manifest_add_string(text, dataset->name);
    text_printf(text, ", \"offset\": %" PRIu64 ", \"size\": %" PRIu64 ", \"piece\": %" PRIu64 ", \"hashes\": [",
                dataset->offset, dataset->size, dataset->piece);
    for (size_t i = at; i < manifest->n_pieces && manifest->pieces[i].dataset == index; i++)
        text_printf(text, "%s\"%016" PRIx64 "\"", i > at ? "," : "", manifest->pieces[i].hash);
    text_puts(text, "]}");
}

// In the order of the datasets, not of the file, where small ones lie apart.
static void manifest_add_datasets(struct text *text, const struct manifest *manifest) {
    size_t *first = calloc(manifest->n_datasets + 1, sizeof *first);
    if (!first) {
        text->failed = true;
        return;
    }
    for (size_t i = manifest->n_pieces; i-- > 0;)
        if (manifest->pieces[i].dataset != MANIFEST_REST)
            first[manifest->pieces[i].dataset] = i;
    text_puts(text, "\"datasets\": [\n");
    for (size_t d = 0; d < manifest->n_datasets; d++) {
        text_puts(text, d ? ",\n" : "");
        manifest_add_dataset(text, manifest, d, first[d]);
    }
    text_puts(text, "\n],\n");
    free(first);
}

static void manifest_add_rest(struct text *text, const struct manifest *manifest) {
    const char *comma = "";
    text_puts(text, "\"rest\": [\n");
    for (size_t i = 0; i < manifest->n_pieces; i++) {
        const struct manifest_piece *piece = &manifest->pieces[i];
        if (piece->dataset != MANIFEST_REST)
            continue;
        text_printf(text, "%s[%" PRIu64 ", %" PRIu64 ", \"%016" PRIx64 "\"]", comma, piece->offset, piece->size,
                    piece->hash);
        comma = ",\n";
    }
    text_puts(text, "\n],\n");
}

enum status manifest_format(char **out, size_t *size, const struct manifest *manifest) {
    struct text text = {0};
    *out = NULL;
    manifest_add_head(&text, manifest);
    manifest_add_datasets(&text, manifest);
    manifest_add_rest(&text, manifest);
    if (!text.failed)
        text_printf(&text, CHECK_KEY "%016" PRIx64 CHECK_END, hash64(text.at, text.size));
    if (text.failed) {
        text_release(&text);
        return status_set(STATUS_SYSTEM, "checkpoint of step %" PRIu64 ": no memory for its manifest", manifest->step);
    }
    *out = text.at;
    *size = text.size;
    return STATUS_OK;
}
