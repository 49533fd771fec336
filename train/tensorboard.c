// SPDX-License-Identifier: Apache-2.0
#include "train/tensorboard.h"

#include "base/file.h"
#include "train/events.h"
#include "train/tfrecord.h"

#include <tensorboard.pb-c.h>

#include <assert.h>
#include <fcntl.h>
#include <unistd.h>

static enum status board_event(struct tensorboard *board, Tensorboard__Event *event) {
    event->has_wall_time = true;
    event->wall_time = events_now();
    size_t size = tensorboard__event__get_packed_size(event);
    uint8_t *bytes = malloc(size);
    if (!bytes)
        return status_set(STATUS_SYSTEM, "tensorboard: no memory");
    tensorboard__event__pack(event, bytes);
    text_clear(&board->record);
    tfrecord_add(&board->record, bytes, size);
    free(bytes);
    const char *record = text_string(&board->record);
    return record ? file_write_all(board->fd, record, board->record.size, board->path)
                  : status_set(STATUS_SYSTEM, "tensorboard: no memory");
}

// The file's first two events: its version, and where this start goes on.
static enum status board_begin(struct tensorboard *board, uint64_t first) {
    char version[] = "brain.Event:2";
    Tensorboard__Event head = TENSORBOARD__EVENT__INIT, start = TENSORBOARD__EVENT__INIT;
    Tensorboard__SessionLog log = TENSORBOARD__SESSION_LOG__INIT;
    head.file_version = version;
    log.has_status = true;
    log.status = TENSORBOARD__SESSION_LOG__SESSION_STATUS__START;
    start.has_step = true;
    start.step = (int64_t)first;
    start.session_log = &log;
    TRY(board_event(board, &head));
    return board_event(board, &start);
}

// Readers take the files of a folder in the order of their names: time first.
static char *board_path(const char *folder) {
    char host[256] = "";
    if (gethostname(host, sizeof host - 1) != 0 || !*host)
        snprintf(host, sizeof host, "localhost");
    double now = events_now();
    return text_format("%s/events.out.tfevents.%010llu.%03u.%s.%d", folder, (unsigned long long)now,
                       (unsigned)((now - (double)(unsigned long long)now) * 1000), host, (int)getpid());
}

enum status tensorboard_open(struct tensorboard *board, const char *out, uint64_t first) {
    char *folder = path_join(out, "tensorboard");
    *board = (struct tensorboard){.fd = -1};
    enum status status = folder ? file_make_folders(folder) : status_set(STATUS_SYSTEM, "tensorboard: no memory");
    if (status == STATUS_OK && !(board->path = board_path(folder)))
        status = status_set(STATUS_SYSTEM, "tensorboard: no memory");
    free(folder);
    if (status != STATUS_OK)
        return status;
    board->fd = open(board->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (board->fd < 0)
        return status_errno(STATUS_IO, "tensorboard: opening %s", board->path);
    return board_begin(board, first);
}

void tensorboard_close(struct tensorboard *board) {
    if (board->fd >= 0)
        close(board->fd);
    free(board->path);
    text_release(&board->record);
    *board = (struct tensorboard){.fd = -1};
}

enum status tensorboard_write(struct tensorboard *board, uint64_t step, const struct tensorboard_scalar *scalars,
                              size_t n) {
    Tensorboard__Event event = TENSORBOARD__EVENT__INIT;
    Tensorboard__Summary summary = TENSORBOARD__SUMMARY__INIT;
    Tensorboard__Summary__Value values[TENSORBOARD_SCALARS_MAX], *list[TENSORBOARD_SCALARS_MAX];
    assert(n <= TENSORBOARD_SCALARS_MAX);
    if (board->fd < 0)
        return STATUS_OK;
    for (size_t i = 0; i < n; i++) {
        values[i] = (Tensorboard__Summary__Value)TENSORBOARD__SUMMARY__VALUE__INIT;
        values[i].tag = (char *)(uintptr_t)scalars[i].tag; // the library's type; it does not write there
        values[i].has_simple_value = true;
        values[i].simple_value = (float)scalars[i].value;
        list[i] = &values[i];
    }
    summary.n_value = n;
    summary.value = list;
    event.has_step = true;
    event.step = (int64_t)step;
    event.summary = &summary;
    return board_event(board, &event);
}
