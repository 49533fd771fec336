// SPDX-License-Identifier: Apache-2.0
#include "export/sums.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"
#include "data/tokenizer_parts.h"
#include "model/weight_files.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SUM_DIGITS 64
#define SUM_NAMED 3 // names of files that differ in one message
#define BYTE_ORDER_MARK "\xef\xbb\xbf"

void sums_release(struct sums *sums) {
    for (size_t i = 0; i < sums->n; i++)
        free(sums->at[i].name);
    free(sums->at);
    *sums = (struct sums){0};
}

struct sum *sums_find(const struct sums *sums, const char *name) {
    for (size_t i = 0; i < sums->n; i++)
        if (strcmp(sums->at[i].name, name) == 0)
            return &sums->at[i];
    return NULL;
}

// ---- reading

// Below the folder: no empty, "." or ".." part, so not absolute either; nothing that could not stand in a line.
bool sums_name_is_right(const char *name, size_t size) {
    size_t part = 0;
    for (size_t i = 0; i <= size; i++) {
        unsigned char c = i < size ? (unsigned char)name[i] : '/';
        if (c < ' ' || c == 0x7f || c == '\\')
            return false;
        if (c != '/')
            continue;
        size_t length = i - part;
        if (length == 0 || (length == 1 && name[part] == '.') || (length == 2 && memcmp(name + part, "..", 2) == 0))
            return false;
        part = i + 1;
    }
    return true;
}

// Lower-case in `out`.
static bool sum_digits(char out[SUM_DIGITS], const char *digits) {
    for (size_t i = 0; i < SUM_DIGITS; i++) {
        bool upper = digits[i] >= 'A' && digits[i] <= 'F';
        out[i] = upper ? (char)(digits[i] - 'A' + 'a') : digits[i];
        if (!((out[i] >= '0' && out[i] <= '9') || (out[i] >= 'a' && out[i] <= 'f')))
            return false;
    }
    return true;
}

static bool sum_is_list(const char *name, size_t size) {
    return size == strlen(SUMS_NAME) && memcmp(name, SUMS_NAME, size) == 0;
}

// A line without its newline. `sha256sum` writes a * for a blank where it read in binary mode.
static bool sum_line(struct sums *sums, const char *line, size_t size, const char **why) {
    char digits[SUM_DIGITS];
    *why = "not 64 hex digits, two blanks and a file's name";
    if (size < SUM_DIGITS + 3 || !sum_digits(digits, line) || line[SUM_DIGITS] != ' ' ||
        (line[SUM_DIGITS + 1] != ' ' && line[SUM_DIGITS + 1] != '*') ||
        !sums_name_is_right(line + SUM_DIGITS + 2, size - SUM_DIGITS - 2) ||
        sum_is_list(line + SUM_DIGITS + 2, size - SUM_DIGITS - 2))
        return false;
    struct sum *sum = &sums->at[sums->n];
    *sum = (struct sum){.name = strndup(line + SUM_DIGITS + 2, size - SUM_DIGITS - 2)};
    memcpy(sum->sha256, digits, SUM_DIGITS);
    *why = !sum->name ? "no memory" : "names a file twice";
    if (!sum->name || sums_find(sums, sum->name)) {
        free(sum->name);
        return false;
    }
    sums->n++;
    return true;
}

static enum status sums_lines(struct sums *out, const char *bytes, size_t size, const char *name) {
    const char *why;
    size_t lines = 0;
    for (const char *at = bytes, *end = bytes + size; at < end; lines++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop)
            return status_set(STATUS_DATA, "%s:%zu: the line is cut off", name, lines + 1);
        if (lines == SUMS_FILES)
            return status_set(STATUS_DATA, "%s: more than %d files", name, SUMS_FILES);
        bool crlf = stop > at && stop[-1] == '\r';
        if (!sum_line(out, at, (size_t)(stop - at) - crlf, &why))
            return status_set(STATUS_DATA, "%s:%zu: %s", name, lines + 1, why);
        at = stop + 1;
    }
    return lines ? STATUS_OK : status_set(STATUS_DATA, "%s: is empty", name);
}

enum status sums_parse(struct sums *out, const char *bytes, size_t size, const char *name) {
    size_t lines = 1;
    *out = (struct sums){0};
    if (size > SUMS_MAX)
        return status_set(STATUS_DATA, "%s: %zu bytes are too many for it", name, size);
    if (size >= 3 && memcmp(bytes, BYTE_ORDER_MARK, 3) == 0)
        return status_set(STATUS_DATA, "%s:1: begins with a byte order mark: save it as UTF-8 without one", name);
    for (size_t i = 0; i < size; i++)
        lines += bytes[i] == '\n';
    out->at = calloc(lines, sizeof *out->at);
    enum status status =
        out->at ? sums_lines(out, bytes, size, name) : status_set(STATUS_SYSTEM, "%s: no memory", name);
    if (status != STATUS_OK)
        sums_release(out);
    return status;
}

enum status sums_read(struct sums *out, const char *folder) {
    char *bytes = NULL, *path = path_join(folder, SUMS_NAME);
    size_t size;
    struct stat info;
    enum status status = STATUS_OK;
    *out = (struct sums){0};
    if (!path)
        return status_set(STATUS_SYSTEM, "%s: no memory", folder);
    if (file_named(path)) {
        if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
            status = status_set(STATUS_DATA, "%s: not a regular file", path);
        else
            status = file_read(&bytes, &size, path, SUMS_MAX);
        if (status == STATUS_OK)
            status = sums_parse(out, bytes, size, path);
    }
    free(bytes);
    free(path);
    return status;
}

// ---- a folder's files

// Calls `each` with the names of all files below `folder` but the list, sorted.
static enum status sums_walk(const char *folder, const char *inside,
                             enum status (*each)(void *context, const char *folder, const char *name), void *context) {
    char **names, *from = path_join(folder, inside);
    size_t n;
    enum status status = from ? file_list(&names, &n, from) : status_set(STATUS_SYSTEM, "%s: no memory", folder);
    free(from);
    TRY(status);
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        char *name = path_join(inside, names[i]), *path = name ? path_join(folder, name) : NULL;
        if (!path)
            status = status_set(STATUS_SYSTEM, "%s: no memory", folder);
        else if (file_is_folder(path))
            status = sums_walk(folder, name, each, context);
        else if (strcmp(name, SUMS_NAME) != 0)
            status = each(context, folder, name);
        free(path);
        free(name);
    }
    file_list_free(names, n);
    return status;
}

static enum status sums_add(void *context, const char *folder, const char *name) {
    char sha256[65], *path = path_join(folder, name);
    enum status status = path ? hash_sha256_file(sha256, path) : status_set(STATUS_SYSTEM, "%s: no memory", folder);
    if (status == STATUS_OK)
        text_printf(context, "%s  %s\n", sha256, name);
    free(path);
    return status;
}

enum status sums_write(const char *folder) {
    struct text text = {0};
    char *path = path_join(folder, SUMS_NAME);
    enum status status = path ? sums_walk(folder, "", sums_add, &text) : STATUS_OK;
    if (status == STATUS_OK)
        status = path && text_string(&text) ? file_replace(path, text_string(&text), text.size)
                                            : status_set(STATUS_SYSTEM, "%s: no memory", folder);
    free(path);
    text_release(&text);
    return status;
}

// ---- comparing

enum status sums_check_file(const struct sum *sum, const char *folder) {
    struct stat info;
    char sha256[65] = "", *path = path_join(folder, sum->name);
    enum status status = path ? STATUS_OK : status_set(STATUS_SYSTEM, "%s: no memory", folder);
    if (path && stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        status = status_set(STATUS_DATA, "%s: not a regular file", path);
    else if (path)
        status = hash_sha256_file(sha256, path);
    if (status == STATUS_OK && strcmp(sha256, sum->sha256) != 0)
        status = status_set(STATUS_DATA, "%s: its SHA-256 is not the one of " SUMS_NAME " (damaged or edited)", path);
    free(path);
    return status;
}

struct sums_others {
    const struct sums *sums;
    size_t n;
};

static enum status sums_count_others(void *context, const char *folder, const char *name) {
    struct sums_others *others = context;
    (void)folder;
    others->n += !sums_find(others->sums, name);
    return STATUS_OK;
}

enum status sums_check(size_t *others, const struct sums *sums, const char *folder) {
    struct sums_others count = {sums, 0};
    struct text wrong = {0};
    size_t n = 0;
    enum status status = STATUS_OK, found;
    for (size_t i = 0; i < sums->n; i++) {
        if ((found = sums_check_file(&sums->at[i], folder)) == STATUS_OK)
            continue;
        status = status == STATUS_OK || found == STATUS_DATA ? found : status;
        if (n++ < SUM_NAMED)
            text_printf(&wrong, "%s%s", n > 1 ? "; " : "", status_message());
    }
    if (n > SUM_NAMED)
        text_printf(&wrong, "; and %zu more files", n - SUM_NAMED);
    if (n)
        status_set(status, "%s", text_string(&wrong) ? text_string(&wrong) : folder);
    else
        status = sums_walk(folder, "", sums_count_others, &count);
    if (others)
        *others = count.n;
    text_release(&wrong);
    return status;
}

bool sums_card_is_own(const char *folder) {
    struct sums sums;
    if (sums_read(&sums, folder) != STATUS_OK)
        return false;
    const struct sum *card = sums_find(&sums, SUMS_CARD);
    bool own = card && sums_check_file(card, folder) == STATUS_OK;
    sums_release(&sums);
    return own;
}

// ---- cut lists

// Every model directory that we write has these, and a tokenizer in one form or the other.
static const char *const always[] = {
    SUMS_CARD, "config.json", "finetuned.json", WEIGHTS_NAME, "special_tokens_map.json", "tokenizer_config.json"};
#define ALWAYS (sizeof always / sizeof *always)

bool sums_name_is_known(const char *name) {
    for (size_t i = 0; i < ALWAYS; i++)
        if (strcmp(always[i], name) == 0)
            return true;
    for (size_t i = 0; i < TOKENIZER_FILES; i++)
        if (strcmp(tokenizer_file_names[i], name) == 0)
            return true;
    return strcmp(name, SUMS_NAME) == 0;
}

static const char *cut_always(const struct sums *sums) {
    for (size_t i = 0; i < ALWAYS; i++)
        if (!sums_find(sums, always[i]))
            return always[i];
    bool json = sums_find(sums, "tokenizer.json"), words = sums_find(sums, "vocab.txt");
    bool vocabulary = sums_find(sums, "vocab.json"), merges = sums_find(sums, "merges.txt");
    if (json || words || (vocabulary && merges))
        return NULL;
    return vocabulary ? "merges.txt" : "vocab.json";
}

// The list is sorted: what a cut took off is behind its last name.
static const char *cut_end(const struct sums *sums, const char *folder) {
    const char *last = "", *lacks = NULL;
    for (size_t i = 0; i < sums->n; i++)
        last = strcmp(sums->at[i].name, last) > 0 ? sums->at[i].name : last;
    for (size_t i = 0; i < TOKENIZER_FILES && !lacks; i++) {
        char *path = path_join(folder, tokenizer_file_names[i]);
        if (path && strcmp(tokenizer_file_names[i], last) > 0 && file_named(path))
            lacks = tokenizer_file_names[i];
        free(path);
    }
    return lacks;
}

const char *sums_cut(const struct sums *sums, const char *folder) {
    char *path = path_join(folder, "finetuned.json");
    bool ours = sums->n && (sums_find(sums, "finetuned.json") || (path && file_named(path)));
    const char *lacks = ours ? cut_always(sums) : NULL;
    free(path);
    return !ours || lacks ? lacks : cut_end(sums, folder);
}

// ---- the whole

// A card that is there counts as right.
static void sums_drop_card(struct sums *sums, const char *folder) {
    struct stat info;
    struct sum *card = sums_find(sums, SUMS_CARD);
    char *path = card ? path_join(folder, SUMS_CARD) : NULL;
    if (path && stat(path, &info) == 0 && S_ISREG(info.st_mode)) {
        free(card->name);
        *card = sums->at[--sums->n];
    }
    free(path);
}

static enum status sums_check_all(bool *listed, const char *folder, bool card) {
    struct sums sums;
    *listed = true;
    TRY(sums_read(&sums, folder));
    *listed = sums.n > 0;
    const char *lacks = sums_cut(&sums, folder);
    if (!card)
        sums_drop_card(&sums, folder);
    enum status status = *listed ? sums_check(NULL, &sums, folder) : STATUS_OK;
    if (status == STATUS_OK && lacks)
        status =
            status_set(STATUS_DATA, "%s/" SUMS_NAME ": does not name %s, as it does where we write it: cut or edited",
                       folder, lacks);
    sums_release(&sums);
    return status;
}

enum status sums_verify(bool *listed, const char *folder) {
    return sums_check_all(listed, folder, true);
}

enum status sums_usable(bool *listed, const char *folder) {
    return sums_check_all(listed, folder, false);
}
