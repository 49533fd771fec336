// SPDX-License-Identifier: Apache-2.0
// What lies where a model directory is to be written and is not of our making: it is never deleted.
//
// Ours is a directory whose files all stand in its finetuned.sha256; without a good list (older versions wrote none)
// one with a finetuned.json whose files all have names that we write. Their contents don't matter: a damaged model is
// ours, and made again.
#ifndef FINETUNED_EXPORT_FOREIGN_H
#define FINETUNED_EXPORT_FOREIGN_H

#include "base/status.h"

// One line of what there is of others at `folder`, "p/model holds thesis.txt, not of a model that this program wrote",
// malloc'ed; NULL: nothing is there, only empty folders, a link (which is replaced, not what it leads to), or a
// directory of ours. At most three names.
enum status foreign_find(char **out, const char *folder);

// Gives `path` the first free name <folder>.aside-K if there is anything of others in it, and says so in the log. NULL
// in `moved` (malloc'ed): there was not.
enum status foreign_aside(char **moved, const char *path, const char *folder);

#endif
