// SPDX-License-Identifier: Apache-2.0
// A tar.gz read back: one pass that unpacks nothing to disk. libarchive's gzip filter does not compare the CRC-32 at
// its end, so the stream is taken from it as it is, summed here, and handed on to a second archive that reads the tar
// in it.
#include "base/file.h"
#include "base/hash.h"
#include "export/export.h"
#include "export/sums.h"
#include "model/safetensors.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GZIP_HEAD 10     // RFC 1952
#define GZIP_TAIL 8      // CRC-32 and size modulo 2^32 of what was packed
#define ENTRIES_MAX 4096 // files of an archive

struct reading {
    const char *path;
    struct archive *gzip, *tar;
    uint32_t crc;
    uint64_t unpacked;
    struct sums found; // the files that were read
    char *list;        // the archive's own finetuned.sha256
    size_t list_size;
    char *head; // of a .safetensors: its header
    size_t head_size;
};

static const char *reading_why(struct archive *archive) {
    const char *why = archive_error_string(archive);
    return why ? why : "not a tar.gz";
}

static enum status reading_bad(const struct reading *r, struct archive *archive) {
    return status_set(STATUS_DATA, "%s: damaged: %s", r->path, reading_why(archive));
}

// ---- the stream

// CRC-32 of RFC 1952, section 8, four bits at a time.
static uint32_t crc32_add(uint32_t crc, const unsigned char *bytes, size_t size) {
    static const uint32_t table[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
                                       0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                       0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

// The tar's reader takes blocks as the filter gives them.
static la_ssize_t reading_block(struct archive *tar, void *context, const void **block) {
    struct reading *r = context;
    size_t size;
    la_int64_t offset;
    int answer = archive_read_data_block(r->gzip, block, &size, &offset);
    if (answer == ARCHIVE_EOF)
        return 0;
    if (answer != ARCHIVE_OK) {
        archive_set_error(tar, -1, "%s", archive_error_string(r->gzip));
        return -1;
    }
    r->crc = crc32_add(r->crc, *block, size);
    r->unpacked += size;
    return (la_ssize_t)size;
}

static enum status reading_open(struct reading *r, int fd) {
    struct archive_entry *entry;
    r->gzip = archive_read_new();
    r->tar = archive_read_new();
    if (!r->gzip || !r->tar)
        return status_set(STATUS_SYSTEM, "%s: no memory", r->path);
    archive_read_support_filter_gzip(r->gzip);
    archive_read_support_format_raw(r->gzip);
    archive_read_support_format_tar(r->tar);
    if (archive_read_open_fd(r->gzip, fd, 1 << 16) != ARCHIVE_OK ||
        archive_read_next_header(r->gzip, &entry) != ARCHIVE_OK)
        return reading_bad(r, r->gzip);
    if (archive_filter_code(r->gzip, 0) != ARCHIVE_FILTER_GZIP)
        return status_set(STATUS_DATA, "%s: not a tar.gz", r->path);
    return archive_read_open(r->tar, r, NULL, reading_block, NULL) == ARCHIVE_OK ? STATUS_OK : reading_bad(r, r->tar);
}

// What the tar's end left, then the CRC and size that stand at the file's end.
static enum status reading_tail(struct reading *r, int fd) {
    const void *block;
    unsigned char tail[GZIP_TAIL];
    la_ssize_t n;
    struct stat info;
    while ((n = reading_block(r->tar, r, &block)) > 0)
        continue;
    if (n < 0)
        return reading_bad(r, r->tar);
    if (fstat(fd, &info) != 0 || info.st_size < GZIP_TAIL ||
        pread(fd, tail, sizeof tail, info.st_size - GZIP_TAIL) != GZIP_TAIL)
        return status_errno(STATUS_IO, "read %s", r->path);
    uint32_t crc = 0, size = 0;
    for (unsigned i = 0; i < 4; i++) {
        crc |= (uint32_t)tail[i] << 8 * i;
        size |= (uint32_t)tail[4 + i] << 8 * i;
    }
    if (crc != r->crc || size != (uint32_t)r->unpacked)
        return status_set(STATUS_DATA,
                          "%s: damaged: the CRC-32 or size at its end is not that of what it holds, or something "
                          "follows it",
                          r->path);
    return STATUS_OK;
}

// ---- a file in it

static bool ends_with(const char *name, const char *end) {
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

// Keeps the bytes of `block` that belong to the first `wanted` of the file.
static enum status keep(char **kept, size_t *size, uint64_t wanted, const void *block, size_t n, const char *path) {
    size_t more = *size < wanted ? (n < wanted - *size ? n : (size_t)(wanted - *size)) : 0;
    if (!more)
        return STATUS_OK;
    char *grown = realloc(*kept, *size + more);
    if (!grown)
        return status_set(STATUS_SYSTEM, "%s: no memory", path);
    memcpy(grown + *size, block, more);
    *kept = grown;
    *size += more;
    return STATUS_OK;
}

// How many bytes of a .safetensors its header takes, as far as is known: the first eight tell.
static uint64_t head_wanted(const struct reading *r) {
    uint64_t length;
    if (r->head_size < 8)
        return 8;
    memcpy(&length, r->head, 8);
    return length > SAFETENSORS_HEADER_MAX ? 8 : 8 + length;
}

static enum status entry_block(struct reading *r, struct sha256_stream *hash, const char *name, const void *block,
                               size_t n) {
    TRY(sha256_add(hash, block, n));
    if (strcmp(name, SUMS_NAME) == 0)
        return keep(&r->list, &r->list_size, SUMS_MAX + 1, block, n, r->path);
    if (!ends_with(name, ".safetensors"))
        return STATUS_OK;
    size_t before = r->head_size;
    TRY(keep(&r->head, &r->head_size, head_wanted(r), block, n, r->path));
    size_t taken = r->head_size - before; // the length first, then what it says
    return keep(&r->head, &r->head_size, head_wanted(r), (const char *)block + taken, n - taken, r->path);
}

static enum status entry_bytes(struct reading *r, struct sha256_stream *hash, const char *name) {
    for (;;) {
        const void *block;
        size_t n;
        la_int64_t offset;
        int answer = archive_read_data_block(r->tar, &block, &n, &offset);
        if (answer == ARCHIVE_EOF)
            return STATUS_OK;
        if (answer != ARCHIVE_OK)
            return status_set(STATUS_DATA, "%s: %s: damaged: %s", r->path, name, reading_why(r->tar));
        TRY(entry_block(r, hash, name, block, n));
    }
}

static enum status entry_head(struct reading *r, const char *name, uint64_t size) {
    enum status status = STATUS_OK;
    if (ends_with(name, ".safetensors"))
        status = safetensors_check_head(r->head, r->head_size, size, name);
    free(r->head);
    r->head = NULL;
    r->head_size = 0;
    return status == STATUS_OK ? status : status_add(status, "%s", r->path);
}

// A path that unpacking could carry out of its folder is refused, as is anything but a file.
static enum status entry_check(const struct reading *r, struct archive_entry *entry, const char *name) {
    if (!name || !sums_name_is_right(name, strlen(name)))
        return status_set(STATUS_DATA, "%s: holds a name that leads out of it: %.200s", r->path, name ? name : "");
    if (archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry))
        return status_set(STATUS_DATA, "%s: %.200s is no regular file", r->path, name);
    if (sums_find(&r->found, name))
        return status_set(STATUS_DATA, "%s: holds %.200s twice", r->path, name);
    return r->found.n < ENTRIES_MAX ? STATUS_OK : status_set(STATUS_DATA, "%s: holds too many files", r->path);
}

static enum status entry_read(struct reading *r, struct archive_entry *entry) {
    const char *name = archive_entry_pathname(entry);
    struct sha256_stream *hash;
    TRY(entry_check(r, entry, name));
    struct sum sum = {.name = strdup(name)};
    struct sum *grown = realloc(r->found.at, (r->found.n + 1) * sizeof *grown);
    if (grown)
        r->found.at = grown;
    if (!grown || !sum.name) {
        free(sum.name);
        return status_set(STATUS_SYSTEM, "%s: no memory", r->path);
    }
    r->found.at[r->found.n++] = sum;
    TRY(sha256_begin(&hash));
    enum status status = entry_bytes(r, hash, name);
    if (status == STATUS_OK)
        status = sha256_end(hash, r->found.at[r->found.n - 1].sha256);
    else
        sha256_drop(hash);
    if (status == STATUS_OK)
        status = entry_head(r, name, (uint64_t)archive_entry_size(entry));
    return status;
}

static enum status reading_entries(struct reading *r) {
    struct archive_entry *entry;
    int answer;
    while ((answer = archive_read_next_header(r->tar, &entry)) == ARCHIVE_OK)
        TRY(entry_read(r, entry));
    if (answer != ARCHIVE_EOF)
        return reading_bad(r, r->tar);
    return r->found.n ? STATUS_OK : status_set(STATUS_DATA, "%s: holds no files", r->path);
}

// ---- the list

// Both ways: each file of the list is there with its hash, and nothing else is.
static enum status reading_compare(const struct reading *r, const struct sums *list) {
    for (size_t i = 0; i < list->n; i++) {
        const struct sum *found = sums_find(&r->found, list->at[i].name);
        if (!found)
            return status_set(STATUS_DATA, "%s: %s is missing", r->path, list->at[i].name);
        if (strcmp(found->sha256, list->at[i].sha256) != 0)
            return status_set(STATUS_DATA, "%s: %s: its SHA-256 is not the one of " SUMS_NAME " (damaged or edited)",
                              r->path, found->name);
    }
    for (size_t i = 0; i < r->found.n; i++)
        if (strcmp(r->found.at[i].name, SUMS_NAME) != 0 && !sums_find(list, r->found.at[i].name))
            return status_set(STATUS_DATA, "%s: %s is not in its " SUMS_NAME, r->path, r->found.at[i].name);
    return STATUS_OK;
}

// Gzip's own header is under no sum: an archive of ours has always the same one (archive.c).
static enum status reading_header(const struct reading *r, int fd) {
    static const unsigned char ours[GZIP_HEAD] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3};
    unsigned char found[GZIP_HEAD];
    if (pread(fd, found, sizeof found, 0) != GZIP_HEAD)
        return status_errno(STATUS_IO, "read %s", r->path);
    if (memcmp(found, ours, sizeof ours) == 0)
        return STATUS_OK;
    return status_set(STATUS_DATA, "%s: its first %d bytes are not those that it was written with (packed anew?)",
                      r->path, GZIP_HEAD);
}

static enum status reading_list(struct archive_facts *out, const struct reading *r) {
    struct sums list;
    out->listed = r->list != NULL;
    if (!r->list)
        return STATUS_OK;
    enum status status = sums_parse(&list, r->list, r->list_size, SUMS_NAME);
    if (status != STATUS_OK)
        return status_add(status, "%s", r->path);
    status = reading_compare(r, &list);
    sums_release(&list);
    return status;
}

static enum status reading_all(struct archive_facts *out, struct reading *r, int fd) {
    TRY(reading_open(r, fd));
    TRY(reading_entries(r));
    TRY(reading_tail(r, fd));
    out->files = r->found.n;
    out->bytes = r->unpacked;
    TRY(reading_list(out, r));
    return out->listed ? reading_header(r, fd) : STATUS_OK;
}

enum status archive_check(struct archive_facts *out, const char *path) {
    struct reading r = {.path = path};
    struct stat info;
    *out = (struct archive_facts){0};
    TRY(file_check_pointer(path));
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return status_errno(file_missing_status(errno), "open %s", path);
    enum status status = fstat(fd, &info) == 0 && S_ISREG(info.st_mode)
                             ? reading_all(out, &r, fd)
                             : status_set(STATUS_DATA, "%s: not a regular file", path);
    archive_read_free(r.tar);
    archive_read_free(r.gzip);
    sums_release(&r.found);
    free(r.list);
    free(r.head);
    close(fd);
    return status;
}
