// SPDX-License-Identifier: Apache-2.0
// The Hugging Face directory: config.json, model.safetensors, tokenizer files, finetuned.json, README.md,
// finetuned.sha256.
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "export/export.h"
#include "export/foreign.h"
#include "export/sums.h"
#include "model/weight_files.h"
#include "model/weights.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static enum status hf_config(const struct export_model *model, const char *folder) {
    struct model_config config = *model->config; // its labels are borrowed
    char *json = NULL, *path = path_join(folder, "config.json");
    config.stored_bf16 = model->bf16;
    enum status status = path ? model_config_print(&json, &config) : status_set(STATUS_SYSTEM, "export: no memory");
    if (status == STATUS_OK)
        status = file_replace(path, json, strlen(json));
    free(json);
    free(path);
    return status;
}

static enum status hf_weights(struct export_result *out, const struct export_model *model, const char *folder) {
    struct stat info;
    char *path = path_join(folder, WEIGHTS_NAME);
    enum status status = path ? weights_save(model->weights, model->table, path, model->bf16)
                              : status_set(STATUS_SYSTEM, "export: no memory");
    if (status == STATUS_OK)
        status = hash_sha256_file(out->sha256, path);
    if (status == STATUS_OK && stat(path, &info) != 0)
        status = status_errno(STATUS_IO, "export: %s", path);
    else if (status == STATUS_OK)
        out->bytes = (uint64_t)info.st_size;
    free(path);
    return status;
}

static enum status hf_files(struct export_result *out, const struct export_model *model, const char *folder) {
    TRY(hf_config(model, folder));
    TRY(hf_weights(out, model, folder));
    TRY(card_write(model, folder));
    TRY(tokenizer_save(model->tokenizer, folder, model_usable_length(model->config)));
    TRY(model_settings_write(&model->settings, folder));
    return sums_write(folder); // last: it lists the others
}

// Sets aside what of others there is in the directory before, `old`: all of it, or a card that was edited. `fresh`: the
// new one.
static enum status hf_keep(bool *whole, const char *old, const char *folder, const char *fresh) {
    char *moved;
    TRY(foreign_aside(&moved, old, folder));
    *whole = moved;
    free(moved);
    return *whole ? STATUS_OK : foreign_card_aside(old, folder, fresh);
}

// The new directory is there and good: what could not be removed of the one before is only left over. What somebody
// put into it or edited since hf_commit looked is not removed.
static void hf_remove_old(const char *old, const char *folder) {
    bool whole;
    enum status status = hf_keep(&whole, old, folder, folder);
    if (status == STATUS_OK && !whole)
        status = file_remove(old);
    if (status != STATUS_OK)
        log_warn("export: %s (of the directory before; the new one is good)", status_message());
}

// Where the file system can't exchange two names: an older directory steps aside for the new one.
static enum status hf_commit_aside(const char *staged, const char *folder, const char *aside) {
    bool replaces = file_exists(folder) || file_is_folder(folder);
    if (replaces && rename(folder, aside) != 0)
        return status_errno(STATUS_IO, "export: setting %s aside", folder);
    if (rename(staged, folder) == 0)
        return STATUS_OK;
    enum status status = status_errno(STATUS_IO, "export: renaming %s to %s", staged, folder);
    if (replaces && rename(aside, folder) != 0)
        return status_add(status, "export: the directory before stays at %s", aside);
    return status;
}

// At every moment the one before or the new one is there, where the file system can exchange two names. What is not
// ours steps aside for good.
static enum status hf_commit(const char *staged, const char *folder, const char *aside, const char *parent) {
    bool whole;
    TRY(hf_keep(&whole, folder, folder, staged));
    TRY(file_sync_folder(parent)); // what was set aside is there for good before the rest goes
    bool exchanged = renameat2(AT_FDCWD, staged, AT_FDCWD, folder, RENAME_EXCHANGE) == 0;
    if (!exchanged)
        TRY(hf_commit_aside(staged, folder, aside));
    enum status status = file_sync_folder(parent);
    hf_remove_old(exchanged ? staged : aside, folder);
    return status;
}

static char *hf_parent(const char *folder) {
    const char *slash = strrchr(folder, '/');
    if (!slash)
        return strdup(".");
    return slash == folder ? strdup("/") : strndup(folder, (size_t)(slash - folder));
}

enum status export_hf_directory(struct export_result *out, const struct export_model *model, const char *folder,
                                struct pool *pool) {
    enum status status;
    char *parent = hf_parent(folder);
    char *staged = file_temporary(folder), *aside = file_temporary(folder);
    if (!parent || !staged || !aside) {
        status = status_set(STATUS_SYSTEM, "export: no memory");
        goto done;
    }
    TRY_GOTO(file_sweep_beside(folder), done);
    TRY_GOTO(file_make_folders(staged), done);
    TRY_GOTO(hf_files(out, model, staged), done);
    TRY_GOTO(export_check(out->check, sizeof out->check, model, staged, pool), done);
    TRY_GOTO(export_may(model), done);
    TRY_GOTO(hf_commit(staged, folder, aside, parent), done);
    out->path = strdup(folder);
    status = out->path ? STATUS_OK : status_set(STATUS_SYSTEM, "export: no memory");
done:
    if (status != STATUS_OK && staged)
        file_remove(staged);
    free(aside);
    free(staged);
    free(parent);
    return status;
}
