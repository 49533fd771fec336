// SPDX-License-Identifier: Apache-2.0
// One message a thread. A message is formatted aside and then put in place, so that status_message() itself may be
// among the arguments.
#include "base/status.h"

#include "base/secret.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#undef status_set // the analyser's (base/status.h)
#undef status_add
#undef status_errno

#define MESSAGE_SIZE 1024

static _Thread_local char status_text[MESSAGE_SIZE];

int status_exit_code(enum status status) {
    static const int codes[] = {
        [STATUS_OK] = 0,  [STATUS_ARGUMENT] = 70, [STATUS_USAGE] = 64,  [STATUS_DATA] = 65,    [STATUS_SYSTEM] = 70,
        [STATUS_IO] = 74, [STATUS_DEVICE] = 69,   [STATUS_REMOTE] = 75, [STATUS_TIMEOUT] = 75, [STATUS_AGAIN] = 75,
    };
    size_t n = sizeof codes / sizeof codes[0];
    return (unsigned)status < n ? codes[status] : 70;
}

// Cuts a message that filled its buffer back to whole UTF-8 characters.
static void message_trim(char *message, size_t length) {
    if (length < MESSAGE_SIZE - 1)
        return;
    size_t start = length;
    while (start > 0 && length - start < 4 && ((unsigned char)message[start - 1] & 0xc0) == 0x80)
        start--;
    if (start == 0)
        return;
    unsigned char lead = (unsigned char)message[start - 1];
    size_t wanted = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
    if (length - (start - 1) < wanted)
        message[start - 1] = '\0';
}

// Puts the message in place, as one line: control characters of the input (file names, labels) become blanks.
static void message_keep(char *message) {
    for (char *at = message; *at; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            *at = ' ';
    secret_mask(message);
    size_t length = strlen(message);
    message_trim(message, length);
    memcpy(status_text, message, strlen(message) + 1);
}

__attribute__((format(printf, 2, 0))) static size_t message_format(char *message, const char *format, va_list args) {
    int length = vsnprintf(message, MESSAGE_SIZE, format, args);
    if (length < 0) {
        message[0] = '\0';
        return 0;
    }
    return (size_t)length < MESSAGE_SIZE ? (size_t)length : MESSAGE_SIZE - 1;
}

enum status status_set(enum status status, const char *format, ...) {
    char message[MESSAGE_SIZE];
    va_list args;
    va_start(args, format);
    message_format(message, format, args);
    va_end(args);
    message_keep(message);
    return status;
}

enum status status_add(enum status status, const char *format, ...) {
    char message[MESSAGE_SIZE];
    va_list args;
    va_start(args, format);
    size_t length = message_format(message, format, args);
    va_end(args);
    snprintf(message + length, MESSAGE_SIZE - length, ": %s", status_text);
    message_keep(message);
    return status;
}

enum status status_errno(enum status status, const char *format, ...) {
    int error = errno;
    char message[MESSAGE_SIZE];
    va_list args;
    va_start(args, format);
    size_t length = message_format(message, format, args);
    va_end(args);
    snprintf(message + length, MESSAGE_SIZE - length, ": %s", strerror(error));
    message_keep(message);
    errno = error;
    return status;
}

const char *status_message(void) {
    return status_text;
}
