// SPDX-License-Identifier: Apache-2.0
// What tells that a run came to its end in a folder, where its checkpoints are gone: it is not begun anew there, which
// would replace its model and report.
#ifndef FINETUNED_TRAIN_ENDED_H
#define FINETUNED_TRAIN_ENDED_H

#include <stdbool.h>
#include <stdint.h>

// "model" or "report.json", whichever of an ended run is in `out`; NULL: neither. `end_step`: where its events tell of
// an end, else 0. `any`: there are events; without, a job.yaml that a run wrote tells that one was here, since only an
// ended one has the others. A model that lies there alone may have been copied, and is replaced as any of ours.
const char *ended_has(const char *out, bool any, uint64_t end_step);

#endif
