// SPDX-License-Identifier: Apache-2.0
// SQuAD's JSON, versions 1.1 and 2.0, <dir>/{train,val,test}.json:
//     {"data": [{"paragraphs": [{"context": "…", "qas": [{"id": "…", "question": "…",
//         "answers": [{"text": "…", "answer_start": 12}, …], "is_impossible": false}, …]}, …]}, …]}
// Other keys are passed over. "is_impossible" may lack (version 1.1): false. Each question is an example: text = the
// question, pair = its context, id, answers; label 0, or -1 where neither an answer nor is_impossible says anything.
#ifndef FINETUNED_DATA_SQUAD_H
#define FINETUNED_DATA_SQUAD_H

#include "base/status.h"
#include "data/source.h"

#include <stdbool.h>
#include <stddef.h>

#define SQUAD_FILE_MAX ((size_t)1 << 30) // bytes of a file
#define SQUAD_ID_MAX ((size_t)1024)      // bytes of an id

// malloc'ed "<dir>/<split>.json"; NULL if there is no memory.
char *squad_path(const char *dir, enum source_split split);
bool squad_has(const char *dir, enum source_split split);

// Reads a file; `name` is the source's (NULL: "squad"), `path` malloc'ed, which the source takes over. While it is read
// the parsed JSON takes some six times the file's bytes; what stays is each context, question, id and answer once.
// `answered`: a question without an answer is refused unless is_impossible says so (train); else it is unlabelled.
enum status squad_read(struct source *out, const char *name, char *path, bool answered);

// The same from bytes; `path` is borrowed (for messages). Refused (STATUS_DATA) with the file and the question's id, or
// where it stands: what is not JSON or not of this form, a duplicate id, an answer to an impossible question, an answer
// whose text is not what the context holds at answer_start (code points, as Python counts; the official files have none
// such). `out` has no rows yet; nothing points into `bytes` afterwards.
enum status squad_parse(struct source *out, const char *path, const char *bytes, size_t size, bool answered);

#endif
