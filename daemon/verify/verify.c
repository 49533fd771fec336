// SPDX-License-Identifier: Apache-2.0
// Whether one thing is as it was written.
#include "daemon/verify/verify.h"

#include "base/file.h"
#include "checkpoints/checkpoint.h"
#include "checkpoints/steps.h"
#include "data/tokenizer.h"
#include "export/export.h"
#include "export/sums.h"
#include "model/weight_files.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// The structure, read as whoever uses it reads it.
static enum status verify_structure(enum inspect_kind kind, const char *path) {
    struct text unused = {0};
    enum status status = inspect_describe(&unused, kind, path, false);
    text_release(&unused);
    return status;
}

// As a run would take it: of the step that its folder's name says, if that is a step's name.
static enum status verify_step(const char *path) {
    struct trainer_state state = {0};
    char *folder = strdup(path), *slash = folder ? strrchr(folder, '/') : NULL;
    uint64_t step;
    enum status status = folder ? STATUS_OK : status_set(STATUS_SYSTEM, "inspect: no memory");
    if (slash && !file_is_folder(path)) { // named by its file
        *slash = '\0';
        slash = strrchr(folder, '/');
    }
    bool named = folder && step_parse(&step, slash ? slash + 1 : folder);
    if (named)
        status = checkpoint_state(&state, folder);
    if (named && status == STATUS_OK && state.step != step)
        status = status_set(STATUS_DATA, "%s: holds step %" PRIu64 ", which its name does not say", folder, state.step);
    trainer_state_release(&state);
    free(folder);
    return status;
}

static enum status verify_checkpoint(const char *path) {
    char *real = realpath(path, NULL); // `latest` may move on while we read
    if (!real)
        return status_errno(STATUS_DATA, "inspect: %s", path);
    enum status status = checkpoint_verify(real);
    if (status == STATUS_OK)
        status = verify_step(real);
    if (status == STATUS_OK) // a link may have a step's name
        status = verify_step(path);
    free(real);
    return status;
}

static bool verify_has_tokenizer(const char *folder) {
    static const char *const names[] = {"tokenizer.json", "vocab.json", "vocab.txt"};
    bool has = false;
    for (size_t i = 0; i < sizeof names / sizeof *names && !has; i++) {
        char *path = path_join(folder, names[i]);
        has = path && file_named(path);
        free(path);
    }
    return has;
}

// An encoder without a head may lack a tokenizer, or have one: then it must open too.
static enum status verify_tokenizer(const char *folder) {
    struct tokenizer *tokenizer = NULL;
    enum status status = verify_has_tokenizer(folder) ? tokenizer_open(&tokenizer, folder) : STATUS_OK;
    tokenizer_close(tokenizer);
    return status;
}

// The list first: it says which file is damaged, where a reader would only say that it makes no sense.
static enum status verify_model(enum verify_depth *depth, const char *path) {
    bool listed;
    enum status status = sums_verify(&listed, path);
    *depth = listed ? VERIFY_HASHES : VERIFY_STRUCTURE;
    TRY(status);
    TRY(verify_structure(INSPECT_MODEL, path));
    return verify_tokenizer(path);
}

// The list beside it knows a model directory's own files.
static enum status verify_weights(enum verify_depth *depth, const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char *folder = slash ? strndup(path, (size_t)(slash + 1 - path)) : strdup(".");
    struct sums sums = {0};
    enum status status = folder ? sums_read(&sums, folder) : status_set(STATUS_SYSTEM, "inspect: no memory");
    const struct sum *sum = status == STATUS_OK ? sums_find(&sums, name) : NULL;
    if (sum)
        status = sums_check_file(sum, folder);
    if (status == STATUS_OK)
        status = verify_structure(INSPECT_WEIGHTS, path);
    *depth = sum ? VERIFY_HASHES : VERIFY_STRUCTURE;
    sums_release(&sums);
    free(folder);
    return status;
}

enum status verify_one(enum verify_depth *depth, enum inspect_kind kind, const char *path) {
    struct archive_facts facts;
    *depth = VERIFY_HASHES;
    switch (kind) {
    case INSPECT_CHECKPOINT:
        return verify_checkpoint(path);
    case INSPECT_MODEL:
        return verify_model(depth, path);
    case INSPECT_WEIGHTS:
        return verify_weights(depth, path);
    case INSPECT_SHARD:
        return verify_structure(kind, path); // opening it compares its hashes
    case INSPECT_ARCHIVE:
        return archive_check(&facts, path); // every byte is under gzip's CRC-32, a list or not
    case INSPECT_NONE:
    case INSPECT_RUN:
    case INSPECT_CHECKPOINTS:
    case INSPECT_SWEEP:
        break;
    }
    return status_set(STATUS_ARGUMENT, "inspect: %s is no single thing", path);
}
