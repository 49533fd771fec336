// SPDX-License-Identifier: Apache-2.0
// What lies where a model directory is to be written and is not of our making: it is never deleted.
//
// Ours is a directory whose files all stand in its finetuned.sha256; without a good list (older versions wrote none; a
// damaged or cut one) one with a finetuned.json whose files all have names that we write. Their contents don't matter:
// a damaged model is ours, and made again. The card is text for people, who may have edited it: of that no word is
// lost.
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

// The card of the directory of ours at `path`, if somebody edited it (its list says so; without one: it is not that of
// the directory `fresh`), gets the first free name <folder>.README.md.aside-K, beside `folder`, and the log says so.
enum status foreign_card_aside(const char *path, const char *folder, const char *fresh);

#endif
