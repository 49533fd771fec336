// SPDX-License-Identifier: Apache-2.0
// Stop signals: SIGTERM, SIGUSR1 and SIGINT set a flag; the next step boundary acts on it. A second SIGINT quits at
// once.
#ifndef FINETUNED_TRAIN_STOP_H
#define FINETUNED_TRAIN_STOP_H

#include "base/status.h"

// Installs the handlers.
enum status stop_install(void);
// The signal that came first, 0 if none did.
int stop_signal(void);
// "SIGTERM", "SIGUSR1", "SIGINT".
const char *stop_name(int signal);

#endif
