// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/checkpoint.h"
#include "checkpoints/h5.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_once_t h5_once = PTHREAD_ONCE_INIT;

static void h5_first(void) {
    setenv("HDF5_USE_FILE_LOCKING", "FALSE", 1);
    H5dont_atexit(); // we close all that we open; after a failed read its own cleaning up finds no end and says so
    H5open();
}

// Of this thread's calls since h5_start: the errno of the first read that failed, 0 for none.
static _Thread_local int h5_read_errno;

// "file read failed: time = …, errno = 5, error message = …", "unable to open file: name = …, errno = 5, …"
// (H5FDsec2.c). What is not there, or is no file, is no disk's fault.
static herr_t h5_read_take(unsigned n, const H5E_error2_t *error, void *context) {
    bool reads = error->min_num == H5E_READERROR || error->min_num == H5E_CANTOPENFILE;
    const char *at = reads && error->desc ? strstr(error->desc, ", errno = ") : NULL;
    int number = at ? (int)strtol(at + strlen(", errno = "), NULL, 10) : 0;
    (void)n, (void)context;
    if (!h5_read_errno && number != ENOENT && number != ENOTDIR && number != EISDIR)
        h5_read_errno = number;
    return 0;
}

// Called where a call of the library failed; nothing is printed.
static herr_t h5_failed(hid_t stack, void *context) {
    (void)context;
    return H5Ewalk2(stack, H5E_WALK_UPWARD, h5_read_take, NULL);
}

void h5_start(void) {
    pthread_once(&h5_once, h5_first);
    h5_read_errno = 0;
    H5Eset_auto2(H5E_DEFAULT, h5_failed, NULL); // each thread has a stack of its own
}

enum status h5_blame(enum status status, const char *path) {
    if (status != STATUS_DATA || !h5_read_errno)
        return status;
    return status_set(STATUS_IO, "read %s: %s", path, strerror(h5_read_errno));
}

void checkpoint_library(char *out, size_t size) {
    unsigned major = 0, minor = 0, release = 0;
    h5_start();
    H5get_libversion(&major, &minor, &release);
    snprintf(out, size, "HDF5 %u.%u.%u", major, minor, release);
}

struct h5_reason {
    char text[256];
};

static herr_t h5_reason_take(unsigned n, const H5E_error2_t *error, void *context) {
    struct h5_reason *reason = context;
    if (n == 0 && error->desc)
        snprintf(reason->text, sizeof reason->text, "%s", error->desc);
    return 0;
}

enum status h5_error(enum status status, const char *format, ...) {
    struct h5_reason reason = {"HDF5 gives no reason"};
    char what[512];
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, h5_reason_take, &reason);
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return status_set(status, "%s: %s", what, reason.text);
}

bool h5_is_hard(hid_t at, const char *name) {
    H5L_info_t info;
    return H5Lget_info(at, name, &info, H5P_DEFAULT) >= 0 && info.type == H5L_TYPE_HARD;
}

hid_t h5_group(hid_t at, const char *name) {
    return h5_is_hard(at, name) ? H5Gopen2(at, name, H5P_DEFAULT) : H5I_INVALID_HID;
}

hid_t h5_dataset(hid_t at, const char *name) {
    return h5_is_hard(at, name) ? H5Dopen2(at, name, H5P_DEFAULT) : H5I_INVALID_HID;
}
