// SPDX-License-Identifier: Apache-2.0
// The folder of checkpoints and the names in it: step-00000200, step-00000200.aside-1, .tmp-step-00000200-<random>,
// latest, best.
#ifndef FINETUNED_CHECKPOINTS_STEPS_H
#define FINETUNED_CHECKPOINTS_STEPS_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STEP_NAME 32 // bytes of a step's name, its NUL included
// A folder on its way, in or out: .tmp-<step's name>-<16 hex digits>; or a file by which ranks see one another:
// .tmp-step-seen-<16 hex digits>.
#define STEPS_TMP ".tmp-"
#define STEPS_SEEN "step-seen"

void step_name(char out[STEP_NAME], uint64_t step);
bool step_parse(uint64_t *step, const char *name); // whether it is a name that step_name gives

// What checkpoint_sweep removes from the folder: a save or a link on its way, by the whole name that we give.
bool steps_name_is_left(const char *name);
// Any name that a run gives, sets aside or removes there: those, step-<digits>, latest, best, and what file_set_aside
// makes of them.
bool steps_name_is_given(const char *name);

struct steps {
    uint64_t *at; // rising
    size_t n;
};
// What is in `dir` under a step's name, good or not. A missing folder has none; one that a link does not lead to, or
// that can't be read, is an error.
enum status steps_list(struct steps *out, const char *dir);
void steps_release(struct steps *steps);

// malloc'ed "<dir>/step-00000200".
char *step_path(const char *dir, uint64_t step);
// Renames it to the first free step-N.aside-K; `aside` (may be NULL): the new path, malloc'ed.
enum status step_aside(char **aside, const char *dir, uint64_t step);
// Gives it a temporary name to be deleted under (malloc'ed): never is half a checkpoint there.
enum status step_remove(char **temporary, const char *dir, uint64_t step);

// Points the relative link <dir>/<name> at a step, in one go; removes it (what is no link stays).
enum status step_link(const char *dir, const char *name, uint64_t step);
// Points it at a step, whatever stands there: what is no link is set aside, not replaced. *was_wrong: it led elsewhere,
// or nowhere.
enum status step_mend(bool *was_wrong, const char *dir, const char *name, uint64_t step);
enum status step_unlink(const char *dir, const char *name);

#endif
