// SPDX-License-Identifier: Apache-2.0
#include "model/weight_files.h"

#include "base/file.h"
#include "model/weight_index.h"

#include <stdlib.h>
#include <string.h>

static bool ends_with(const char *string, const char *end) {
    size_t size = strlen(string), end_size = strlen(end);
    return size >= end_size && strcmp(string + size - end_size, end) == 0;
}

// How names end; the first that fits counts.
static const struct form {
    const char *end;
    bool torch, index;
} forms[] = {
    {".safetensors", false, false}, {".safetensors.index.json", false, true},
    {".bin", true, false},          {".bin.index.json", true, true},
    {".pt", true, false},           {".pth", true, false},
};
#define FORMS (sizeof forms / sizeof *forms)

static const struct form *form_of(const char *path) {
    for (size_t i = 0; i < FORMS; i++)
        if (ends_with(path, forms[i].end))
            return &forms[i];
    return NULL;
}

bool weight_files_is(const char *path) {
    return form_of(path) != NULL;
}

static enum status no_memory(const char *path) {
    return status_set(STATUS_SYSTEM, "%s: no memory", path);
}

static enum status part_open(struct weight_part *part, const char *path, bool torch) {
    *part = (struct weight_part){.path = strdup(path), .torch = torch};
    if (!part->path)
        return no_memory(path);
    return torch ? torch_file_open(&part->torch_file, path) : safetensors_open(&part->safetensors, path);
}

static void part_close(struct weight_part *part) {
    safetensors_close(&part->safetensors);
    torch_file_close(&part->torch_file);
    free(part->path);
}

static size_t part_tensors(const struct tensor **out, const struct weight_part *part) {
    *out = part->torch ? part->torch_file.at : part->safetensors.at;
    return part->torch ? part->torch_file.n : part->safetensors.n;
}

static const struct file_map *part_map(const struct weight_part *part) {
    return part->torch ? &part->torch_file.map : &part->safetensors.map;
}

void weight_files_close(struct weight_files *files) {
    for (size_t i = 0; i < files->n_parts; i++)
        part_close(&files->parts[i]);
    free(files->parts);
    free(files->at);
    free(files->path);
    *files = (struct weight_files){0};
}

void weight_files_rest(const struct weight_files *files) {
    for (size_t i = 0; i < files->n_parts; i++)
        file_map_rest(part_map(&files->parts[i]));
}

// All parts' tensors in one list.
static enum status tensors_gather(struct weight_files *files) {
    const struct tensor *at;
    size_t n = 0;
    for (size_t i = 0; i < files->n_parts; i++)
        n += part_tensors(&at, &files->parts[i]);
    files->at = calloc(n + 1, sizeof *files->at);
    if (!files->at)
        return no_memory(files->path);
    for (size_t i = 0; i < files->n_parts; i++) {
        n = part_tensors(&at, &files->parts[i]);
        if (n)
            memcpy(files->at + files->n, at, n * sizeof *at);
        files->n += n;
    }
    if (files->n)
        qsort(files->at, files->n, sizeof *files->at, tensor_by_name);
    return STATUS_OK;
}

static enum status shards_open(struct weight_files *files, const json_t *shards, const char *folder) {
    const char *name;
    const json_t *value;
    files->parts = calloc(json_object_size(shards) + 1, sizeof *files->parts);
    if (!files->parts)
        return no_memory(files->path);
    json_object_foreach((json_t *)(uintptr_t)shards, name, value) {
        char *path = path_join(folder, name);
        enum status status = path ? part_open(&files->parts[files->n_parts++], path, files->torch) : no_memory(folder);
        free(path);
        TRY(status);
    }
    return STATUS_OK;
}

static int by_path(const void *a, const void *b) {
    return strcmp(((const struct weight_part *)a)->path, ((const struct weight_part *)b)->path);
}

// Every tensor of every shard is one that the map places there. Then the counts say whether the map knows of more.
static enum status shards_check(const struct weight_files *files, const struct weight_index *index) {
    for (size_t i = 0; i < files->n_parts; i++) {
        const struct tensor *at;
        const char *path = files->parts[i].path, *slash = strrchr(path, '/');
        size_t n = part_tensors(&at, &files->parts[i]);
        for (size_t k = 0; k < n; k++) {
            const char *said = weight_index_file(index, at[k].name);
            if (!said || strcmp(said, slash ? slash + 1 : path) != 0)
                return status_set(STATUS_DATA, "%s: tensor %.200s: %s places it in %.80s", path, at[k].name,
                                  files->path, said ? said : "no file");
        }
    }
    return STATUS_OK;
}

static enum status map_check(const struct weight_files *files, const json_t *map) {
    const char *tensor;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)map, tensor, value) {
        if (!weight_files_find(files, tensor))
            return status_set(STATUS_DATA, "%s: tensor %.200s is not in %.80s", files->path, tensor,
                              json_string_value(value));
    }
    return STATUS_OK;
}

static enum status map_open(struct weight_files *files, const struct weight_index *index, const char *folder) {
    TRY(shards_open(files, index->shards, folder));
    qsort(files->parts, files->n_parts, sizeof *files->parts, by_path);
    TRY(shards_check(files, index));
    TRY(tensors_gather(files));
    return map_check(files, index->map);
}

static enum status index_open(struct weight_files *files) {
    const char *slash = strrchr(files->path, '/');
    size_t folder_size = !slash ? 0 : slash > files->path ? (size_t)(slash - files->path) : 1; // "/" stays
    char *bytes = NULL, *folder = strndup(files->path, folder_size);
    struct weight_index index = {0};
    size_t size;
    enum status status;
    TRY_GOTO(folder ? STATUS_OK : no_memory(files->path), done);
    TRY_GOTO(file_read(&bytes, &size, files->path, WEIGHT_INDEX_MAX), done);
    TRY_GOTO(weight_index_parse(&index, bytes, size, files->path), done);
    status = map_open(files, &index, folder);
done:
    weight_index_release(&index);
    free(bytes);
    free(folder);
    return status;
}

static enum status single_open(struct weight_files *files) {
    files->parts = calloc(1, sizeof *files->parts);
    if (!files->parts)
        return no_memory(files->path);
    files->n_parts = 1;
    TRY(part_open(&files->parts[0], files->path, files->torch));
    return tensors_gather(files);
}

enum status weight_files_open_path(struct weight_files *out, const char *path) {
    const struct form *form = form_of(path);
    *out = (struct weight_files){0};
    if (!form)
        return status_set(STATUS_DATA, "%s: not a file of weights (.safetensors, .bin, .pt, .pth, or an .index.json)",
                          path);
    *out = (struct weight_files){.path = strdup(path), .torch = form->torch, .is_index = form->index};
    enum status status = !out->path ? no_memory(path) : form->index ? index_open(out) : single_open(out);
    if (status != STATUS_OK)
        weight_files_close(out);
    return status;
}

enum status weight_files_open(struct weight_files *out, const char *folder) {
    static const char *const names[] = {WEIGHTS_NAME, "model.safetensors.index.json", "pytorch_model.bin",
                                        "pytorch_model.bin.index.json"};
    *out = (struct weight_files){0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = path_join(folder, names[i]);
        if (!path)
            return no_memory(folder);
        bool there = file_named(path);
        enum status status = there ? weight_files_open_path(out, path) : STATUS_OK;
        free(path);
        if (there)
            return status;
    }
    return status_set(STATUS_DATA,
                      "%s: no weights: none of model.safetensors, pytorch_model.bin and their .index.json is there",
                      folder);
}

const struct tensor *weight_files_find(const struct weight_files *files, const char *name) {
    struct tensor key = {.name = name};
    return files->n ? bsearch(&key, files->at, files->n, sizeof *files->at, tensor_by_name) : NULL;
}

uint64_t weight_files_bytes(const struct weight_files *files) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < files->n_parts; i++)
        bytes += part_map(&files->parts[i])->size;
    return bytes;
}

// Before each of several files its size, so that their bytes can't run into one another.
void weight_files_hash(const struct weight_files *files, struct hash_stream *hash) {
    for (size_t i = 0; i < files->n_parts; i++) {
        const struct file_map *map = part_map(&files->parts[i]);
        uint64_t size = map->size;
        if (files->is_index)
            hash_add(hash, &size, sizeof size);
        hash_add(hash, map->at, map->size);
    }
}
