// SPDX-License-Identifier: Apache-2.0
#include "train/stop.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

static volatile sig_atomic_t stop_first;
static volatile sig_atomic_t stop_interrupted;

static void stop_handler(int signal) {
    if (signal == SIGINT && stop_interrupted)
        _exit(128 + SIGINT);
    if (signal == SIGINT)
        stop_interrupted = 1;
    if (!stop_first)
        stop_first = signal;
}

enum status stop_add(int signal) {
    struct sigaction action = {.sa_handler = stop_handler, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    if (sigaction(signal, &action, NULL) != 0)
        return status_errno(STATUS_SYSTEM, "stop: installing the handler of %s", stop_name(signal));
    return STATUS_OK;
}

enum status stop_install(void) {
    struct sigaction before;
    bool nohup = sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler == SIG_IGN; // then a hang-up is nothing
    TRY(stop_add(SIGTERM));
    TRY(stop_add(SIGUSR1));
    TRY(stop_add(SIGINT));
    return nohup ? STATUS_OK : stop_add(SIGHUP);
}

int stop_signal(void) {
    return stop_first;
}

#define TIME_OVER 1u // bit 0: no signal has that number; SIGHUP's is 1

uint32_t stop_flags(bool time_over) {
    return (stop_first ? 1u << stop_first : 0) | (time_over ? TIME_OVER : 0);
}

int stop_flags_signal(uint32_t flags) {
    flags &= STOP_FLAGS & ~TIME_OVER;
    return flags ? __builtin_ctz(flags) : 0;
}

bool stop_flags_time(uint32_t flags) {
    return flags & TIME_OVER;
}

const char *stop_name(int signal) {
    switch (signal) {
    case SIGTERM:
        return "SIGTERM";
    case SIGUSR1:
        return "SIGUSR1";
    case SIGINT:
        return "SIGINT";
    case SIGHUP:
        return "SIGHUP";
    case SIGQUIT:
        return "SIGQUIT";
    default:
        return "none";
    }
}
