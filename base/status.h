// SPDX-License-Identifier: Apache-2.0
// Status codes: whose fault an error is, the exit code it leads to, and its one-line message.
#ifndef FINETUNED_BASE_STATUS_H
#define FINETUNED_BASE_STATUS_H

enum status {
    STATUS_OK = 0,
    STATUS_ARGUMENT, // the caller's mistake: a bug of ours                     exit 70
    STATUS_USAGE,    // command line or job file                                exit 64
    STATUS_DATA,     // data, model or checkpoint unusable; a run that diverged exit 65
    STATUS_SYSTEM,   // no memory, no thread, a broken library                  exit 70
    STATUS_IO,       // disk full, read error, no permission                    exit 74
    STATUS_DEVICE,   // device, fabric or service required but not there        exit 69
    STATUS_REMOTE,   // another rank was lost                                   exit 75
    STATUS_TIMEOUT,  // another rank, or the network, made no progress          exit 75
    STATUS_AGAIN,    // preempted, out of time, folder in use                   exit 75
};

// The process's exit code for a status (design, section 8).
int status_exit_code(enum status status);

// Sets this thread's message (one line, what and where first, then a hint; cut at 1023 bytes) and returns `status`.
enum status status_set(enum status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Puts "context: " before this thread's message; returns `status`.
enum status status_add(enum status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

// As status_set, with ": " and the text of errno behind the message.
enum status status_errno(enum status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

// This thread's message; empty if none was set. Borrowed, valid until the next status_* call.
const char *status_message(void);

#ifdef __clang_analyzer__
// clang's analyser looks at one source at a time: tell it that a status is handed back as it was given.
static inline enum status status_same(enum status status) {
    return status;
}
#define status_set(status, ...) ((void)(status_set)(status, __VA_ARGS__), status_same(status))
#define status_add(status, ...) ((void)(status_add)(status, __VA_ARGS__), status_same(status))
#define status_errno(status, ...) ((void)(status_errno)(status, __VA_ARGS__), status_same(status))
#endif

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        enum status try_status_ = (call);                                                                              \
        if (try_status_ != STATUS_OK)                                                                                  \
            return try_status_;                                                                                        \
    } while (0)

// Leaves `status` (a variable of the function) set and jumps.
#define TRY_GOTO(call, label)                                                                                          \
    do {                                                                                                               \
        status = (call);                                                                                               \
        if (status != STATUS_OK)                                                                                       \
            goto label;                                                                                                \
    } while (0)

#endif
