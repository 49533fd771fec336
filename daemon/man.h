// SPDX-License-Identifier: Apache-2.0
// Man pages in roff (man(7)), from the tables of verbs, flags and options: finetuned(1), finetuned-VERB(1),
// finetuned-job(5).
#ifndef FINETUNED_DAEMON_MAN_H
#define FINETUNED_DAEMON_MAN_H

#include "base/text.h"
#include "daemon/verbs.h"

void man_program(struct text *out);
void man_verb(struct text *out, const struct verb *verb);
void man_job(struct text *out);

#endif
