// SPDX-License-Identifier: Apache-2.0
// Each thread adds up on its own cache lines; nothing is shared but the number of the stage.
#include "base/trace.h"

#include "base/file.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LINE 64 // bytes

// `op` TRACE_OPS: the stage itself.
struct span {
    uint64_t begin, end;
    uint8_t stage, op;
};

struct trace_thread {
    alignas(LINE) uint64_t ns[TRACE_STAGES][TRACE_OPS];
    double flops;
    struct span *spans; // (room)
    size_t n, lost;
};

struct trace {
    uint64_t serial;
    unsigned n_threads;
    size_t room;
    struct trace_thread *threads; // (n_threads)
    atomic_uint claimed;          // threads that have one
    atomic_uint stage;
    uint64_t stage_begin;
    uint64_t stage_ns[TRACE_STAGES];
};

uint64_t trace_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

enum status trace_open(struct trace **out, unsigned threads, size_t spans) {
    static _Atomic uint64_t serials;
    struct trace *trace = *out = calloc(1, sizeof *trace);
    if (!trace)
        return status_set(STATUS_SYSTEM, "trace: no memory");
    trace->serial = ++serials;
    trace->room = spans;
    trace->threads = aligned_alloc(LINE, threads * sizeof *trace->threads);
    if (!trace->threads)
        goto no_memory;
    memset(trace->threads, 0, threads * sizeof *trace->threads);
    for (; trace->n_threads < threads; trace->n_threads++) {
        struct trace_thread *thread = &trace->threads[trace->n_threads];
        thread->spans = malloc((spans + 1) * sizeof *thread->spans); // resident once touched
        if (!thread->spans)
            goto no_memory;
    }
    return STATUS_OK;
no_memory:
    trace_close(trace);
    *out = NULL;
    return status_set(STATUS_SYSTEM, "trace: no memory for %u threads of %zu spans", threads, spans);
}

void trace_close(struct trace *trace) {
    if (!trace)
        return;
    for (unsigned i = 0; i < trace->n_threads; i++)
        free(trace->threads[i].spans);
    free(trace->threads);
    free(trace);
}

// The calling thread's; NULL if there are more threads than were said.
static struct trace_thread *thread_own(struct trace *trace) {
    static _Thread_local struct trace_thread *mine;
    static _Thread_local uint64_t serial;
    if (serial != trace->serial) {
        unsigned i = atomic_fetch_add(&trace->claimed, 1);
        mine = i < trace->n_threads ? &trace->threads[i] : NULL;
        serial = trace->serial;
    }
    return mine;
}

static void span_add(struct trace *trace, struct trace_thread *thread, struct span span) {
    if (thread->n < trace->room)
        thread->spans[thread->n++] = span;
    else if (trace->room)
        thread->lost++;
}

void trace_stage(struct trace *trace, unsigned stage) {
    struct trace_thread *thread = thread_own(trace);
    const unsigned running = atomic_load_explicit(&trace->stage, memory_order_relaxed);
    const uint64_t now = trace_now();
    if (running) {
        trace->stage_ns[running] += now - trace->stage_begin;
        if (thread)
            span_add(trace, thread, (struct span){trace->stage_begin, now, (uint8_t)running, TRACE_OPS});
    }
    trace->stage_begin = now;
    atomic_store_explicit(&trace->stage, stage, memory_order_relaxed);
}

void trace_op(struct trace *trace, unsigned op, uint64_t begin, double flops) {
    struct trace_thread *thread = thread_own(trace);
    const unsigned stage = atomic_load_explicit(&trace->stage, memory_order_relaxed);
    const uint64_t now = trace_now();
    if (!thread || !stage)
        return;
    thread->ns[stage][op] += now - begin;
    thread->flops += flops;
    span_add(trace, thread, (struct span){begin, now, (uint8_t)stage, (uint8_t)op});
}

double trace_stage_seconds(const struct trace *trace, unsigned stage) {
    return 1e-9 * (double)trace->stage_ns[stage];
}

double trace_op_seconds(const struct trace *trace, unsigned stage, unsigned op) {
    uint64_t ns = 0;
    for (unsigned i = 0; i < trace->n_threads; i++)
        ns += trace->threads[i].ns[stage][op];
    return 1e-9 * (double)ns;
}

double trace_flops(const struct trace *trace) {
    double flops = 0;
    for (unsigned i = 0; i < trace->n_threads; i++)
        flops += trace->threads[i].flops;
    return flops;
}

size_t trace_lost(const struct trace *trace) {
    size_t lost = 0;
    for (unsigned i = 0; i < trace->n_threads; i++)
        lost += trace->threads[i].lost;
    return lost;
}

static uint64_t trace_begin(const struct trace *trace) {
    uint64_t first = UINT64_MAX;
    for (unsigned i = 0; i < trace->n_threads; i++)
        for (size_t s = 0; s < trace->threads[i].n; s++)
            first = trace->threads[i].spans[s].begin < first ? trace->threads[i].spans[s].begin : first;
    return first;
}

// Times are microseconds; three digits behind the point are the nanoseconds.
static enum status span_write(struct file_write *file, const struct span *span, const char *name, bool is_stage,
                              unsigned thread, uint64_t origin, bool first) {
    char line[256];
    const uint64_t at = span->begin - origin, took = span->end - span->begin;
    int size = snprintf(line, sizeof line,
                        "%s{\"name\": \"%s\", \"cat\": \"%s\", \"ph\": \"X\", \"ts\": %llu.%03u, \"dur\": %llu.%03u, "
                        "\"pid\": 1, \"tid\": %u}",
                        first ? "[\n" : ",\n", name, is_stage ? "stage" : "op", (unsigned long long)(at / 1000),
                        (unsigned)(at % 1000), (unsigned long long)(took / 1000), (unsigned)(took % 1000), thread);
    return file_put(file, line, (size_t)size);
}

static enum status spans_write(struct file_write *file, const struct trace *trace, const char *const *stages,
                               const char *const *ops) {
    const uint64_t origin = trace_begin(trace);
    bool first = true;
    for (unsigned i = 0; i < trace->n_threads; i++)
        for (size_t s = 0; s < trace->threads[i].n; s++, first = false) {
            const struct span *span = &trace->threads[i].spans[s];
            bool is_stage = span->op == TRACE_OPS;
            TRY(span_write(file, span, is_stage ? stages[span->stage] : ops[span->op], is_stage, i, origin, first));
        }
    return file_put(file, first ? "[]\n" : "\n]\n", 3);
}

enum status trace_write(const struct trace *trace, const char *path, const char *const stages[TRACE_STAGES],
                        const char *const ops[TRACE_OPS]) {
    struct file_write *file;
    TRY(file_begin(&file, path));
    enum status status = spans_write(file, trace, stages, ops);
    if (status == STATUS_OK)
        return file_commit(file);
    file_rollback(file);
    return status;
}
