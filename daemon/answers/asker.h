// SPDX-License-Identifier: Apache-2.0
// Questions to answers, for `finetuned predict`: one question's windows in batches, its spans merged.
#ifndef FINETUNED_DAEMON_ANSWERS_ASKER_H
#define FINETUNED_DAEMON_ANSWERS_ASKER_H

#include "base/text.h"
#include "daemon/subject.h"
#include "data/window.h"
#include "train/question.h"

#define ASKER_BATCH 32 // windows that are computed together, at most

struct asker {
    const struct model *model; // borrowed
    struct runner *runner;     // borrowed; room for ASKER_BATCH windows of the model's length
    struct span_options options;
    uint32_t doc_stride;
    struct windows windows;
    struct question question;
    // one batch's windows
    int32_t *ids;          // (max_tokens)
    uint8_t *types;        // (max_tokens)
    uint32_t *begin, *end; // (max_tokens) bytes of the context
};

enum status asker_open(struct asker *out, const struct model *model, struct runner *runner,
                       const struct span_options *options, uint32_t doc_stride);
void asker_close(struct asker *asker);

// Answers one question; the answers, best first, are asker->question.spans[0 .. n). `where` is for messages.
enum status asker_ask(struct span *out, struct asker *asker, const char *question, size_t question_size,
                      const char *context, size_t context_size, const char *where);

// One JSON line onto `text`: {"id", "answer", "score", "start", "end", "nbest": [{"answer", "score", "start", "end"}]};
// `id` NULL: none; at most `n_best` in the list. Bytes of the context; no answer is "" at 0.
void asker_print(struct text *text, const struct asker *asker, const struct span *answer, const char *id,
                 const char *context, uint32_t n_best);

#endif
