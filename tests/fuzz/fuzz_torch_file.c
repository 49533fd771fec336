// SPDX-License-Identifier: Apache-2.0
#include "model/torch_file.h"

#include <archive.h>
#include <archive_entry.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define ROOM ((size_t)1 << 16)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Reads some elements, first and last included: a view may say more of them than there is time for (stride 0).
static void tensor_read(const struct tensor *tensor) {
    double value;
    uint64_t step = tensor->elements / 1000 + 1;
    for (uint64_t i = 0; i < tensor->elements && i + step > i; i += step)
        tensor_doubles(&value, tensor, i, 1);
    if (tensor->elements)
        tensor_doubles(&value, tensor, tensor->elements - 1, 1);
}

// What is accepted can be read to its last element.
static void file_check(const void *bytes, size_t size) {
    struct torch_file file;
    if (torch_file_parse(&file, bytes, size, "fuzz") != STATUS_OK)
        return;
    for (size_t i = 0; i < file.n; i++)
        tensor_read(&file.at[i]);
    torch_file_close(&file);
}

static void entry_write(struct archive *archive, const char *name, const void *bytes, size_t size) {
    struct archive_entry *entry = archive_entry_new();
    archive_entry_set_pathname(entry, name);
    archive_entry_set_size(entry, (la_int64_t)size);
    archive_entry_set_filetype(entry, AE_IFREG);
    if (archive_write_header(archive, entry) != ARCHIVE_OK ||
        archive_write_data(archive, bytes, size) != (la_ssize_t)size)
        __builtin_trap();
    archive_entry_free(entry);
}

// The input as the data.pkl of a whole archive with a storage "0" of 64 bytes: no CRC-32 stands in a fuzzer's way.
static void pickle_wrap(const uint8_t *data, size_t size) {
    static char room[ROOM];
    size_t used = 0;
    struct archive *archive = archive_write_new();
    archive_write_set_format_zip(archive);
    archive_write_zip_set_compression_store(archive);
    if (archive_write_open_memory(archive, room, sizeof room, &used) != ARCHIVE_OK)
        __builtin_trap();
    entry_write(archive, "m/data.pkl", data, size);
    entry_write(archive, "m/data/0", (char[64]){0}, 64);
    archive_write_close(archive);
    archive_write_free(archive);
    char *exact = malloc(used);
    if (!exact)
        return;
    memcpy(exact, room, used);
    file_check(exact, used);
    free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    file_check(data, size);
    if (size > 0 && data[0] == 0x80 && size < ROOM / 2)
        pickle_wrap(data, size);
    return 0;
}
