// SPDX-License-Identifier: Apache-2.0
// What unit tests share: where golden facts lie, temporary folders, skipping out loud, JSON and status assertions.
#ifndef FINETUNED_TESTS_SUPPORT_H
#define FINETUNED_TESTS_SUPPORT_H

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/status.h"

// "<value of variable>/<name>" in a static buffer (four in turn); NULL if it is not set or the path does not exist.
static inline const char *support_path(const char *variable, const char *name) {
    static char buffers[4][PATH_MAX];
    static unsigned turn;
    char *path = buffers[turn++ % 4];
    const char *root = getenv(variable);
    if (!root)
        return NULL;
    snprintf(path, PATH_MAX, "%s/%s", root, name);
    return access(path, R_OK) == 0 ? path : NULL;
}

// Skips the running cmocka test, out loud, unless `path` is there.
#define SUPPORT_NEED(path, what)                                                                                       \
    do {                                                                                                               \
        if (!(path)) {                                                                                                 \
            fprintf(stderr, "SKIPPED: %s: %s is not here\n", __func__, what);                                          \
            skip();                                                                                                    \
        }                                                                                                              \
    } while (0)

// A fresh temporary folder, malloc'ed name. The test removes it (file_remove).
static inline char *support_folder(void) {
    const char *root = getenv("TMPDIR");
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%s/finetuned-test-XXXXXX", root ? root : "/tmp");
    char *made = mkdtemp(name);
    assert_non_null(made);
    return strdup(made);
}

#define assert_ok(call)                                                                                                \
    do {                                                                                                               \
        enum status support_status_ = (call);                                                                          \
        if (support_status_ != STATUS_OK)                                                                              \
            fail_msg("%s: status %d: %s", #call, support_status_, status_message());                                   \
    } while (0)

#define assert_status(call, wanted)                                                                                    \
    do {                                                                                                               \
        enum status support_status_ = (call);                                                                          \
        if (support_status_ != (wanted))                                                                               \
            fail_msg("%s: status %d, wanted %d: %s", #call, support_status_, wanted, status_message());                \
    } while (0)

// |got - want| <= absolute + relative * |want|
#define assert_near(got, want, absolute, relative)                                                                     \
    do {                                                                                                               \
        double support_got_ = (got), support_want_ = (want);                                                           \
        double support_bound_ = (absolute) + (relative) * (support_want_ < 0 ? -support_want_ : support_want_);        \
        double support_off_ = support_got_ - support_want_;                                                            \
        if (!(support_off_ <= support_bound_ && -support_off_ <= support_bound_))                                      \
            fail_msg("%s = %.10g, wanted %.10g (+- %.3g)", #got, support_got_, support_want_, support_bound_);         \
    } while (0)

#endif
