// SPDX-License-Identifier: Apache-2.0
// Which checkpoint a run goes on from, and what is cleared out of its way. Rank 0 only.
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "checkpoints/checkpoint.h"
#include "checkpoints/manifest.h"
#include "checkpoints/reader.h"
#include "checkpoints/steps.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void checkpoint_choice_release(struct checkpoint_choice *choice) {
    for (size_t i = 0; i < choice->n_skipped; i++) {
        free(choice->skipped[i].path);
        free(choice->skipped[i].why);
    }
    for (size_t i = 0; i < choice->n_aside; i++)
        free(choice->aside[i]);
    free(choice->skipped);
    free(choice->aside);
    free(choice->path);
    *choice = (struct checkpoint_choice){0};
}

static enum status choice_no_memory(const char *dir) {
    return status_set(STATUS_SYSTEM, "checkpoints in %s: no memory", dir);
}

static enum status choice_skip(struct checkpoint_choice *choice, const char *path, const char *why) {
    struct checkpoint_skip skip = {strdup(path), strdup(why)};
    struct checkpoint_skip *grown = realloc(choice->skipped, (choice->n_skipped + 1) * sizeof *grown);
    if (grown)
        choice->skipped = grown;
    if (!grown || !skip.path || !skip.why) {
        free(skip.path);
        free(skip.why);
        return choice_no_memory(path);
    }
    choice->skipped[choice->n_skipped++] = skip;
    return STATUS_OK;
}

enum status checkpoint_verify_step(const char *path, uint64_t step) {
    struct manifest manifest;
    TRY(manifest_read(&manifest, path));
    uint64_t found = manifest.step;
    manifest_release(&manifest);
    if (found != step)
        return status_set(STATUS_DATA, "%s: holds step %" PRIu64 ", which its name does not say", path, found);
    return checkpoint_verify(path);
}

// ---- auto

// One that a newer program wrote is no damage to step back from: what it holds would be lost without a word.
static enum status choice_newer(const char *path, uint64_t format) {
    return status_set(STATUS_DATA,
                      "checkpoint %s: format %" PRIu64 " is newer than this program's (%d): use a newer finetuned, or "
                      "name an older checkpoint by checkpoints.resume",
                      path, format, CHECKPOINT_FORMAT);
}

// STATUS_OK with choice->path still NULL: this one was skipped.
static enum status choice_try(struct checkpoint_choice *choice, const char *dir, uint64_t step) {
    char *path = step_path(dir, step);
    if (!path)
        return choice_no_memory(dir);
    enum status status = checkpoint_verify_step(path, step);
    uint64_t format;
    char why[1024];
    if (status == STATUS_OK) {
        choice->path = path;
        return STATUS_OK;
    }
    snprintf(why, sizeof why, "%s", status_message());
    if (status == STATUS_DATA && manifest_is_newer(&format, path))
        status = choice_newer(path, format);
    else if (status == STATUS_DATA || status == STATUS_IO)
        status = choice_skip(choice, path, why);
    free(path);
    return status;
}

static enum status choice_none(const struct checkpoint_choice *choice, const char *dir) {
    return status_set(
        STATUS_DATA,
        "checkpoints in %s: none of %zu can be used; the newest: %s (to start anew: checkpoints.resume never, "
        "or another out)",
        dir, choice->n_skipped, choice->skipped[0].why);
}

// A link without any checkpoint: those that it led to are lost, or not mounted. That is no empty folder.
static enum status choice_lost(const char *dir) {
    static const char *const links[] = {"latest", "best"};
    bool lost = false;
    for (size_t i = 0; i < 2; i++) {
        char *path = path_join(dir, links[i]);
        lost = lost || (path && file_named(path));
        free(path);
    }
    return !lost ? STATUS_OK
                 : status_set(STATUS_DATA,
                              "checkpoints in %s: there are links, but no checkpoint that they could lead to (to start "
                              "anew: checkpoints.resume never, or another out)",
                              dir);
}

static enum status choice_auto(struct checkpoint_choice *choice, const char *dir, const struct steps *steps) {
    size_t i = steps->n;
    if (!steps->n)
        return choice_lost(dir);
    for (; i > 0 && !choice->path; i--)
        TRY(choice_try(choice, dir, steps->at[i - 1]));
    choice->relinks = choice->path && choice->n_skipped; // `latest` led to one that was passed over
    choice->step = choice->path ? steps->at[i] : 0;
    return choice->path ? STATUS_OK : choice_none(choice, dir);
}

// ---- what is off the chosen branch

static enum status choice_aside(struct checkpoint_choice *choice, const char *dir, uint64_t step) {
    char **grown = realloc(choice->aside, (choice->n_aside + 1) * sizeof *grown);
    if (!grown)
        return choice_no_memory(dir);
    choice->aside = grown;
    char *path = step_path(dir, step);
    if (!path)
        return choice_no_memory(dir);
    choice->aside[choice->n_aside++] = path;
    return STATUS_OK;
}

// All steps from `first` on are to be set aside.
static enum status choice_clear(struct checkpoint_choice *choice, const char *dir, const struct steps *steps,
                                uint64_t first) {
    choice->clears = true;
    for (size_t i = 0; i < steps->n; i++)
        if (steps->at[i] >= first)
            TRY(choice_aside(choice, dir, steps->at[i]));
    return STATUS_OK;
}

// ---- a path

static bool choice_is_same_folder(const char *a, const char *b) {
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

// The step of `dir` that `folder` is, whatever links led there; false if it lies elsewhere.
static bool choice_is_step_of(uint64_t *step, const char *folder, const char *dir, const struct steps *steps) {
    for (size_t i = 0; i < steps->n; i++) {
        char *path = step_path(dir, steps->at[i]);
        bool same = path && choice_is_same_folder(path, folder);
        free(path);
        if (same) {
            *step = steps->at[i];
            return true;
        }
    }
    return false;
}

// `best` and `latest` alone are names in the folder of checkpoints, but a path is asked for.
static enum status choice_bad_path(enum status status, const char *dir, const char *resume) {
    char *named = !file_named(resume) && !strchr(resume, '/') ? path_join(dir, resume) : NULL;
    if (named && checkpoint_is(named))
        status = status_set(STATUS_DATA, "checkpoints.resume %s: not there: did you mean %s?", resume, named);
    else if (status == STATUS_DATA || status == STATUS_IO) // what can't be read can't be used
        status = status_add(STATUS_DATA, "checkpoints.resume %s", resume);
    free(named);
    return status;
}

static enum status choice_path(struct checkpoint_choice *choice, const char *dir, const struct steps *steps,
                               const char *resume) {
    char *folder;
    uint64_t step;
    bool ours = false;
    enum status status = reader_folder(&folder, resume);
    if (status == STATUS_OK) {
        ours = choice_is_step_of(&step, folder, dir, steps);
        status = ours ? checkpoint_verify_step(folder, step) : checkpoint_verify(folder);
    }
    if (status != STATUS_OK) {
        free(folder);
        return choice_bad_path(status, dir, resume);
    }
    if (!ours) {
        choice->path = folder;
        return choice_clear(choice, dir, steps, 0); // nothing here is of its branch
    }
    free(folder);
    choice->path = step_path(dir, step);
    if (!choice->path)
        return choice_no_memory(dir);
    choice->step = step;
    choice->relinks = true;
    return choice_clear(choice, dir, steps, step + 1);
}

static enum status choice_make(struct checkpoint_choice *choice, const char *dir, const struct steps *steps,
                               const char *resume) {
    if (strcmp(resume, "auto") == 0)
        return choice_auto(choice, dir, steps);
    if (strcmp(resume, "never") == 0)
        return choice_clear(choice, dir, steps, 0);
    return choice_path(choice, dir, steps, resume);
}

enum status checkpoint_look(struct checkpoint_choice *out, const char *dir, const char *resume) {
    struct steps steps;
    *out = (struct checkpoint_choice){0};
    TRY(steps_list(&steps, dir));
    enum status status = choice_make(out, dir, &steps, resume);
    steps_release(&steps);
    for (size_t i = 0; status != STATUS_OK && i < out->n_skipped; i++)
        log_error("checkpoint: can't be used: %s", out->skipped[i].why);
    return status;
}

// ---- carrying it out

// Whether the link leads to something.
static bool choice_link_leads(const char *dir, const char *name) {
    char *path = path_join(dir, name);
    bool leads = path && file_exists(path);
    free(path);
    return leads;
}

// From its old path to its new one.
static enum status choice_move(char **path, const char *dir) {
    const char *name = strrchr(*path, '/');
    uint64_t step;
    char *moved;
    if (!step_parse(&step, name ? name + 1 : *path))
        return status_set(STATUS_ARGUMENT, "checkpoint %s is no step", *path);
    TRY(step_aside(&moved, dir, step));
    free(*path);
    *path = moved;
    return STATUS_OK;
}

// `expected`: it is known to lead elsewhere, and has been said.
static enum status choice_mend(const char *dir, const char *name, uint64_t step, bool expected) {
    bool was_wrong, led = choice_link_leads(dir, name);
    TRY(step_mend(&was_wrong, dir, name, step));
    if (was_wrong && !expected && led) // a crash between a save and its links
        log_info("resume: %s/%s leads to step %" PRIu64 " now", dir, name, step);
    else if (was_wrong && !expected)
        log_warn("resume: %s/%s led nowhere: it leads to step %" PRIu64 " again", dir, name, step);
    return STATUS_OK;
}

enum status checkpoint_settle(struct checkpoint_choice *choice, const char *dir) {
    static const char *const links[] = {"latest", "best"};
    for (size_t i = 0; i < choice->n_aside; i++)
        TRY(choice_move(&choice->aside[i], dir));
    for (size_t i = 0; i < 2 && choice->clears; i++)
        if (!choice_link_leads(dir, links[i]))
            TRY(step_unlink(dir, links[i]));
    return choice->path && choice->step ? choice_mend(dir, "latest", choice->step, choice->relinks) : STATUS_OK;
}

enum status checkpoint_mend_best(const struct checkpoint_choice *choice, const char *dir, uint64_t step) {
    return choice_mend(dir, "best", step, choice->clears);
}

enum status checkpoint_choose(struct checkpoint_choice *out, const char *dir, const char *resume) {
    TRY(checkpoint_look(out, dir, resume));
    return checkpoint_settle(out, dir);
}

// ---- left-overs

enum status checkpoint_sweep(const char *dir) {
    return file_sweep(dir, steps_name_is_left);
}
