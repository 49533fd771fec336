// SPDX-License-Identifier: Apache-2.0
#include "train/lost.h"

#include "base/file.h"
#include "base/log.h"
#include "base/markup.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PREFIX "events.rank-"
#define FRESH_S 60 // another rank has written of this loss, not of one before (clocks of hosts may differ a little)

bool lost_is(const char *name) {
    size_t digits = strncmp(name, PREFIX, strlen(PREFIX)) == 0 ? strspn(name + strlen(PREFIX), "0123456789") : 0;
    return digits > 0 && strcmp(name + strlen(PREFIX) + digits, ".jsonl") == 0;
}

// Whether a rank below this one, that also misses rank 0, has told of it.
static bool lost_told(const struct lost *lost) {
    char path[4096];
    struct stat info;
    for (int rank = 1; rank < lost->comm->rank; rank++) {
        snprintf(path, sizeof path, "%s/" PREFIX "%d.jsonl", lost->out, rank);
        if (stat(path, &info) == 0 && info.st_mtime + FRESH_S > time(NULL))
            return true;
    }
    return false;
}

// On a thread of the watch.
static bool lost_tell(void *context, const struct watch_loss *loss) {
    struct lost *lost = context;
    if (lost->comm->rank != 0 && lost_told(lost))
        return false;
    if (owner_lost(lost->owner))
        return true;
    text_clear(&lost->line);
    text_printf(&lost->line, "{\"event\": \"stop\", \"time\": %.3f, \"step\": %llu, \"reason\": \"%s\", \"exit\": %d",
                events_now(), (unsigned long long)loss->step, loss->reason, loss->exit_code);
    text_printf(&lost->line, ", \"rank\": %d, \"host\": ", loss->rank);
    json_string_add(&lost->line, loss->host);
    text_printf(&lost->line, ", \"operation\": \"%s\"}\n", pulse_name(loss->operation));
    int fd = open(lost->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0 || !text_string(&lost->line) ||
        file_write_all(fd, text_string(&lost->line), lost->line.size, lost->path) != STATUS_OK)
        log_warn("%s: the stop event could not be written", lost->path);
    if (fd >= 0)
        close(fd);
    return true;
}

enum status lost_open(struct lost *lost, struct comm *comm, const char *out, struct owner *owner) {
    *lost = (struct lost){.comm = comm, .owner = owner, .out = text_format("%s", out)};
    lost->path =
        comm->rank == 0 ? path_join(out, "events.jsonl") : text_format("%s/" PREFIX "%d.jsonl", out, comm->rank);
    if (!lost->out || !lost->path)
        return status_set(STATUS_SYSTEM, "events: no memory");
    comm_watch_tell(comm, lost_tell, lost);
    return STATUS_OK;
}

void lost_close(struct lost *lost) {
    if (lost->comm)
        comm_watch_tell(lost->comm, NULL, NULL);
    text_release(&lost->line);
    free(lost->out);
    free(lost->path);
    *lost = (struct lost){0};
}
