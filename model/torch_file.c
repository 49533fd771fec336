// SPDX-License-Identifier: Apache-2.0
#include "model/torch_file.h"

#include "base/text.h"
#include "model/pickle.h"
#include "model/zip.h"

#include <stdlib.h>
#include <string.h>

struct parse {
    struct torch_file *out;
    struct zip zip;
    struct pickle pickle;
    const char *folder; // "<name>/", its size below
    size_t folder_size;
    const char *name; // of the file
    char *names_next; // where the next tensor's name goes
};

static enum status bad(const struct parse *parse, const char *tensor, const char *what) {
    return status_set(STATUS_DATA, "%s: tensor %.200s: %s", parse->name, tensor, what);
}

// What is no zip archive: older forms that torch.save wrote, or something else.
static enum status form_check(const char *bytes, size_t size, const char *name) {
    if (size >= 4 && memcmp(bytes, "PK\x03\x04", 4) == 0)
        return STATUS_OK;
    bool pickle = size >= 2 && bytes[0] == '\x80', tar = size >= 262 && memcmp(bytes + 257, "ustar", 5) == 0;
    if (pickle || tar)
        return status_set(STATUS_DATA,
                          "%s: the form that torch.save wrote before torch 1.6 is not read: load it with torch and "
                          "save it again (torch.save, or save_pretrained for safetensors)",
                          name);
    return status_set(STATUS_DATA, "%s: not a file of torch.save (a zip archive)", name);
}

// The archive's one folder: that of the only <name>/data.pkl.
static enum status folder_find(struct parse *parse) {
    for (size_t i = 0; i < parse->zip.n; i++) {
        const char *name = parse->zip.at[i].name, *slash = strchr(name, '/');
        if (!slash || strcmp(slash, "/data.pkl") != 0)
            continue;
        if (parse->folder)
            return status_set(STATUS_DATA, "%s: holds two data.pkl", parse->name);
        parse->folder = name;
        parse->folder_size = (size_t)(slash + 1 - name);
    }
    if (!parse->folder)
        return status_set(STATUS_DATA, "%s: no <name>/data.pkl in this zip archive: not a file of torch.save",
                          parse->name);
    return STATUS_OK;
}

// <name>/<folder><key>; NULL if it is not there (or has a name that is too long to be).
static const struct zip_entry *entry_find(const struct parse *parse, const char *folder, struct pickle_string key) {
    char name[2 * TORCH_NAME_MAX];
    int length = snprintf(name, sizeof name, "%.*s%s%.*s", (int)parse->folder_size, parse->folder, folder,
                          (int)(key.size < TORCH_NAME_MAX ? key.size : TORCH_NAME_MAX), key.at);
    bool whole = length > 0 && (size_t)length == parse->folder_size + strlen(folder) + key.size;
    return whole && (size_t)length < sizeof name ? zip_find(&parse->zip, name) : NULL;
}

static enum status byteorder_check(const struct parse *parse) {
    const struct zip_entry *entry = entry_find(parse, "", (struct pickle_string){"byteorder", 9});
    if (!entry || (entry->size == 6 && memcmp(entry->data, "little", 6) == 0))
        return STATUS_OK;
    return status_set(STATUS_DATA, "%s: its byteorder is not little: save it again on a little-endian host",
                      parse->name);
}

// A view within its storage: `last` is the furthest element that it reaches.
static enum status view_set(struct tensor *out, const struct parse *parse, const struct pickle_tensor *view) {
    uint64_t last = view->offset, reach;
    out->elements = 1;
    for (unsigned d = view->rank; d-- > 0;) {
        out->shape[d] = view->shape[d];
        out->stride[d] = view->stride[d];
        out->strided = out->strided || (view->shape[d] > 1 && view->stride[d] != out->elements);
        if (__builtin_mul_overflow(out->elements, view->shape[d], &out->elements) ||
            __builtin_mul_overflow(view->shape[d] ? view->shape[d] - 1 : 0, view->stride[d], &reach) ||
            __builtin_add_overflow(last, reach, &last))
            return bad(parse, out->name, "size and stride overflow");
    }
    if (out->elements == 0) {
        out->strided = false;
        return STATUS_OK;
    }
    if (last >= view->storage->elements)
        return status_set(STATUS_DATA, "%s: tensor %.200s: reaches element %llu of a storage of %llu", parse->name,
                          out->name, (unsigned long long)last, (unsigned long long)view->storage->elements);
    return STATUS_OK;
}

static enum status data_set(struct tensor *out, const struct parse *parse, const struct pickle_tensor *view) {
    const struct pickle_storage *storage = view->storage;
    const struct zip_entry *entry = entry_find(parse, "data/", storage->key);
    uint64_t bytes, width = tensor_dtype_size(storage->dtype);
    if (!entry)
        return status_set(STATUS_DATA, "%s: tensor %.200s: its storage data/%.*s is missing", parse->name, out->name,
                          (int)(storage->key.size < 40 ? storage->key.size : 40), storage->key.at);
    if (__builtin_mul_overflow(storage->elements, width, &bytes) || bytes != entry->size)
        return status_set(STATUS_DATA, "%s: tensor %.200s: its storage %s has %zu bytes, %llu elements of %s are said",
                          parse->name, out->name, entry->name, entry->size, (unsigned long long)storage->elements,
                          tensor_dtype_name(storage->dtype));
    out->data = out->elements ? entry->data + view->offset * width : entry->data;
    return STATUS_OK;
}

static enum status name_set(struct tensor *out, struct parse *parse, const struct pickle_value *key) {
    if (key->kind != PICKLE_STRING)
        return status_set(STATUS_DATA, "%s: a name in the state_dict is not a string (%s)", parse->name,
                          pickle_kind_name(key->kind));
    if (key->string.size > TORCH_NAME_MAX || memchr(key->string.at, 0, key->string.size))
        return status_set(STATUS_DATA, "%s: a tensor's name is longer than %d bytes or holds a NUL", parse->name,
                          TORCH_NAME_MAX);
    memcpy(parse->names_next, key->string.at, key->string.size);
    out->name = parse->names_next;
    parse->names_next += key->string.size + 1;
    return STATUS_OK;
}

// Numbers, strings and None beside the tensors are no weights; what could hold some must be a tensor.
static enum status tensor_take(struct parse *parse, const struct pickle_value *key, const struct pickle_value *value) {
    struct tensor *out = &parse->out->at[parse->out->n];
    *out = (struct tensor){0};
    TRY(name_set(out, parse, key));
    if (value->kind <= PICKLE_STRING)
        return STATUS_OK;
    if (value->kind != PICKLE_TENSOR)
        return status_set(STATUS_DATA,
                          "%s: %.200s is not a tensor (%s): a file of model.state_dict() alone is needed "
                          "(torch.save(model.state_dict(), …))",
                          parse->name, out->name, pickle_kind_name(value->kind));
    out->dtype = value->tensor.storage->dtype;
    out->rank = value->tensor.rank;
    TRY(view_set(out, parse, &value->tensor));
    TRY(data_set(out, parse, &value->tensor));
    parse->out->n++;
    return STATUS_OK;
}

static enum status tensors_room(struct parse *parse, const struct pickle_items *items) {
    size_t names = 1;
    for (size_t i = 0; i < items->n; i += 2)
        names += items->at[i]->kind == PICKLE_STRING && items->at[i]->string.size <= TORCH_NAME_MAX
                     ? items->at[i]->string.size + 1
                     : 0;
    if (names > PICKLE_MAX) // more than the pickle holds: one name many times
        return status_set(STATUS_DATA, "%s: a tensor's name is there twice", parse->name);
    parse->out->at = calloc(items->n / 2 + 1, sizeof *parse->out->at);
    parse->out->names = parse->names_next = calloc(names, 1);
    if (!parse->out->at || !parse->out->names)
        return status_set(STATUS_SYSTEM, "%s: no memory for %zu tensors", parse->name, items->n / 2);
    return STATUS_OK;
}

static enum status tensors_read(struct parse *parse) {
    const struct pickle_value *root = parse->pickle.root;
    struct torch_file *out = parse->out;
    if (root->kind != PICKLE_DICT && root->kind != PICKLE_ORDERED)
        return status_set(STATUS_DATA, "%s: not a state_dict (%s)", parse->name, pickle_kind_name(root->kind));
    TRY(tensors_room(parse, &root->items));
    for (size_t i = 0; i < root->items.n; i += 2)
        TRY(tensor_take(parse, root->items.at[i], root->items.at[i + 1]));
    if (out->n)
        qsort(out->at, out->n, sizeof *out->at, tensor_by_name);
    for (size_t i = 1; i < out->n; i++)
        if (strcmp(out->at[i - 1].name, out->at[i].name) == 0)
            return bad(parse, out->at[i].name, "is there twice");
    return STATUS_OK;
}

static enum status archive_read_all(struct parse *parse) {
    TRY(folder_find(parse));
    TRY(byteorder_check(parse));
    const struct zip_entry *data = zip_find(&parse->zip, parse->folder);
    TRY(pickle_parse(&parse->pickle, data->data, data->size, parse->name));
    return tensors_read(parse);
}

enum status torch_file_parse(struct torch_file *out, const char *bytes, size_t size, const char *name) {
    struct parse parse = {.out = out, .name = name};
    *out = (struct torch_file){0};
    TRY(form_check(bytes, size, name));
    TRY(zip_parse(&parse.zip, bytes, size, name));
    enum status status = archive_read_all(&parse);
    pickle_release(&parse.pickle);
    zip_release(&parse.zip);
    if (status != STATUS_OK)
        torch_file_close(out);
    return status;
}

enum status torch_file_open(struct torch_file *out, const char *path) {
    struct file_map map;
    *out = (struct torch_file){0};
    TRY(file_map_open(&map, path));
    enum status status = torch_file_parse(out, map.at, map.size, path);
    if (status == STATUS_OK)
        out->map = map;
    else
        file_map_close(&map);
    return status;
}

void torch_file_close(struct torch_file *file) {
    free(file->at);
    free(file->names);
    if (file->map.at)
        file_map_close(&file->map);
    *file = (struct torch_file){0};
}
