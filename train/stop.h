// SPDX-License-Identifier: Apache-2.0
// Why a run stops before its end. Signals: SIGTERM, SIGUSR1, SIGINT and SIGHUP (unless it is ignored) set a flag; the
// next step boundary acts on it. A second SIGINT quits at once. Time: train.max_time is over, by the clock of rank 0.
#ifndef FINETUNED_TRAIN_STOP_H
#define FINETUNED_TRAIN_STOP_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

// Installs the handlers.
enum status stop_install(void);
// One more signal, such as SIGQUIT, for who has something to remove.
enum status stop_add(int signal);
// The signal that came first, 0 if none did.
int stop_signal(void);
// What this process has seen, as flags that ranks can join: its first signal, and the time. They are among STOP_FLAGS;
// the others are free for what else ranks tell one another.
#define STOP_FLAGS 0x00ffffffu
uint32_t stop_flags(bool time_over);
// The signal in the flags, the lowest of several; 0 if there is none. Whether the time is over.
int stop_flags_signal(uint32_t flags);
bool stop_flags_time(uint32_t flags);
// "SIGTERM", "SIGUSR1", "SIGINT", "SIGHUP", "SIGQUIT".
const char *stop_name(int signal);

#endif
