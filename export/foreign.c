// SPDX-License-Identifier: Apache-2.0
#include "export/foreign.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "export/sums.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NAMED 3 // names in one line

struct foreign {
    const char *folder;
    struct sums sums;
    bool known; // without a whole list: the names that we write count as ours
    char *names[NAMED + 1];
    size_t n;
};

static enum status no_memory(const char *folder) {
    return status_set(STATUS_SYSTEM, "%s: no memory", folder);
}

static bool foreign_is_ours(const struct foreign *f, const char *name) {
    if (strcmp(name, SUMS_NAME) == 0 && f->sums.n)
        return true;
    return sums_find(&f->sums, name) || (f->known && sums_name_is_known(name));
}

static enum status foreign_walk(struct foreign *f, const char *inside);

// A link is one file, whatever it leads to.
static enum status foreign_one(struct foreign *f, const char *name) {
    struct stat info;
    char *path = path_join(f->folder, name);
    if (!path)
        return no_memory(f->folder);
    bool folder = lstat(path, &info) == 0 && S_ISDIR(info.st_mode);
    free(path);
    if (folder)
        return foreign_walk(f, name);
    if (!foreign_is_ours(f, name) && !(f->names[f->n++] = strdup(name)))
        return no_memory(f->folder);
    return STATUS_OK;
}

// Ends as soon as there are more than are named.
static enum status foreign_walk(struct foreign *f, const char *inside) {
    char **names, *from = path_join(f->folder, inside);
    size_t n;
    enum status status = from ? file_list(&names, &n, from) : no_memory(f->folder);
    free(from);
    TRY(status);
    for (size_t i = 0; i < n && status == STATUS_OK && f->n <= NAMED; i++) {
        char *name = path_join(inside, names[i]);
        status = name ? foreign_one(f, name) : no_memory(f->folder);
        free(name);
    }
    file_list_free(names, n);
    return status;
}

// A list that can't be read is damage, as in any of our files.
static void foreign_list(struct foreign *f) {
    char *path = path_join(f->folder, "finetuned.json");
    bool whole = sums_read(&f->sums, f->folder) == STATUS_OK && f->sums.n && !sums_cut(&f->sums, f->folder);
    f->known = !whole && path && file_named(path);
    free(path);
}

static char *foreign_line(const struct foreign *f) {
    struct text line = {0};
    text_printf(&line, "%s holds ", f->folder);
    for (size_t i = 0; i < f->n && i < NAMED; i++)
        text_printf(&line, "%s%s", i == 0 ? "" : i + 1 == f->n ? " and " : ", ", f->names[i]);
    text_puts(&line, f->n > NAMED ? " and more, not of a model that this program wrote"
                                  : ", not of a model that this program wrote");
    if (line.failed)
        text_release(&line);
    return line.at;
}

static enum status foreign_folder(char **out, const char *folder) {
    struct foreign f = {.folder = folder};
    foreign_list(&f);
    enum status status = foreign_walk(&f, "");
    if (status == STATUS_OK && f.n && !(*out = foreign_line(&f)))
        status = no_memory(folder);
    for (size_t i = 0; i <= NAMED; i++)
        free(f.names[i]);
    sums_release(&f.sums);
    return status;
}

enum status foreign_find(char **out, const char *folder) {
    struct stat info;
    *out = NULL;
    if (lstat(folder, &info) != 0)
        return errno == ENOENT || errno == ENOTDIR ? STATUS_OK : status_errno(STATUS_IO, "%s", folder);
    if (S_ISLNK(info.st_mode))
        return STATUS_OK;
    if (S_ISDIR(info.st_mode))
        return foreign_folder(out, folder);
    *out = text_format("%s is no folder", folder);
    return *out ? STATUS_OK : no_memory(folder);
}

enum status foreign_aside(char **moved, const char *path, const char *folder) {
    char *why;
    *moved = NULL;
    TRY(foreign_find(&why, path));
    if (!why)
        return STATUS_OK;
    enum status status = file_set_aside(moved, path, folder);
    if (status == STATUS_OK)
        log_warn("export: %s: set aside as %s", why, *moved);
    free(why);
    return status;
}

// ---- the card

static bool card_same(const char *card, const char *fresh) {
    char one[65] = "", two[65] = "", *path = path_join(fresh, SUMS_CARD);
    bool same = path && hash_sha256_file(one, card) == STATUS_OK && hash_sha256_file(two, path) == STATUS_OK &&
                strcmp(one, two) == 0;
    free(path);
    return same;
}

static enum status card_move(const char *card, const char *folder) {
    char *moved = NULL, *name = text_format("%s." SUMS_CARD, folder);
    enum status status = name ? file_set_aside(&moved, card, name) : no_memory(folder);
    if (status == STATUS_OK)
        log_warn("export: the card %s/" SUMS_CARD " was edited: set aside as %s", folder, moved);
    free(moved);
    free(name);
    return status;
}

// Where `path` is a link only that is replaced, and the card stays where it is.
enum status foreign_card_aside(const char *path, const char *folder, const char *fresh) {
    struct stat info;
    char *card = path_join(path, SUMS_CARD);
    bool ours = lstat(path, &info) == 0 && S_ISDIR(info.st_mode);
    bool there = card && ours && lstat(card, &info) == 0 && !S_ISDIR(info.st_mode);
    enum status status = card ? STATUS_OK : no_memory(folder);
    if (there && !sums_card_is_own(path) && !card_same(card, fresh))
        status = card_move(card, folder);
    free(card);
    return status;
}
