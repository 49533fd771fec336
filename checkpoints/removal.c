// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/removal.h"

#include "base/file.h"
#include "base/log.h"
#include "base/pulse.h"

#include <signal.h>
#include <stdlib.h>

static void removal_delete(const char *path) {
    if (file_remove(path) != STATUS_OK)
        log_warn("checkpoint: %s (the checkpoint itself is good)", status_message());
}

void removal_add(struct removal *removal, char *path) {
    char **grown = realloc(removal->paths, (removal->n + 1) * sizeof *grown);
    if (!grown) {
        removal_delete(path);
        free(path);
        return;
    }
    removal->paths = grown;
    removal->paths[removal->n++] = path;
}

static void removal_all(const struct removal *removal) {
    for (size_t i = 0; i < removal->n; i++)
        removal_delete(removal->paths[i]);
}

static void *removal_main(void *argument) {
    pulse_enter(PULSE_WRITE);
    removal_all(argument);
    pulse_leave();
    return NULL;
}

void removal_begin(struct removal *removal) {
    sigset_t all, before;
    if (removal->n == 0)
        return;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); // signals go to the threads that handle them
    removal->running = pthread_create(&removal->thread, NULL, removal_main, removal) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (removal->running)
        pthread_setname_np(removal->thread, "removal");
    else
        removal_all(removal);
}

void removal_end(struct removal *removal) {
    pulse_long();
    if (removal->running)
        pthread_join(removal->thread, NULL);
    pulse_beat();
    for (size_t i = 0; i < removal->n; i++)
        free(removal->paths[i]);
    free(removal->paths);
    *removal = (struct removal){0};
}
