// SPDX-License-Identifier: Apache-2.0
// Where the time goes: by stage of one thread that leads (one stage at a time), and in each stage by op and thread.
// Sums, and on request each span, to be written as a Chrome trace. Stages and ops are numbers; who asks knows their
// names.
#ifndef FINETUNED_BASE_TRACE_H
#define FINETUNED_BASE_TRACE_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

#define TRACE_STAGES 16u // stage 0: outside of any
#define TRACE_OPS 24u

struct trace;

// For at most `threads` threads, each with room for `spans` spans (0: sums alone); a span too many is only counted.
enum status trace_open(struct trace **out, unsigned threads, size_t spans);
void trace_close(struct trace *trace);

// Nanoseconds of the monotonic clock.
uint64_t trace_now(void);
// Ends the stage that runs and begins this one. Only by the thread that leads, while no other is in an op.
void trace_stage(struct trace *trace, unsigned stage);
// An op of this thread that began at `begin` has ended; `flops` that count for trace_flops.
void trace_op(struct trace *trace, unsigned op, uint64_t begin, double flops);

double trace_stage_seconds(const struct trace *trace, unsigned stage);
double trace_op_seconds(const struct trace *trace, unsigned stage, unsigned op); // all threads' together
double trace_flops(const struct trace *trace);
size_t trace_lost(const struct trace *trace); // spans for which there was no room

// A JSON array of "X" events, as chrome://tracing and Perfetto read it: stages, and inside them the ops, by thread.
enum status trace_write(const struct trace *trace, const char *path, const char *const stages[TRACE_STAGES],
                        const char *const ops[TRACE_OPS]);

#endif
