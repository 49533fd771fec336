// SPDX-License-Identifier: Apache-2.0
// What the files of the watch share: its messages, its connections.
//
// Rank 0 listens, and broadcasts over MPI where, and two tokens (watch_invitation). Another rank connects, sends the
// first token and its number (watch_hello), and gets the second token back, so that each knows that it is not a
// stranger. Then notes of fixed size go both ways.
#ifndef FINETUNED_COMM_WATCH_PARTS_H
#define FINETUNED_COMM_WATCH_PARTS_H

#include "comm/watch.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define WATCH_MAGIC UINT32_C(0x46544e57) // the version too: changes with the layout of what is sent
#define WATCH_ADDRESSES 16
#define WATCH_TOKEN 16

struct watch_address {
    uint8_t family; // 4, 6
    uint8_t bytes[16];
};

struct watch_invitation {
    uint8_t listens; // 0: rank 0 could not
    uint8_t n;
    uint16_t port;
    uint8_t hello[WATCH_TOKEN], answer[WATCH_TOKEN];
    struct watch_address addresses[WATCH_ADDRESSES];
};

struct watch_hello {
    uint32_t magic;
    int32_t rank;
    uint8_t token[WATCH_TOKEN];
};

enum watch_kind {
    WATCH_BEAT = 1,
    WATCH_STUCK, // to rank 0: I am stuck
    WATCH_ABORT, // I end all ranks with this exit code
    WATCH_END,   // a loss is said; end with this exit code
    WATCH_BYE,   // I end as I should
};

struct watch_note {
    uint32_t magic;
    uint8_t kind;
    uint8_t operation; // enum pulse_operation
    uint8_t waits;     // for other ranks, now
    uint8_t unused;
    int32_t exit_code;
    uint32_t wait; // number of the wait for other ranks
    uint64_t step;
    double waited; // s for others, all in all; WATCH_STUCK: s without a beat
};
_Static_assert(sizeof(struct watch_hello) == 24 && sizeof(struct watch_note) == 32, "sent as it lies in memory");

// A connection; fd -1: none.
struct watch_line {
    int fd;
    size_t got; // bytes of a note that came in part
    char in[sizeof(struct watch_note)];
    size_t left; // bytes of a note that could not be sent at once; its end lies at the end of `out`
    char out[sizeof(struct watch_note)];
};

// ---- watch_net.c

// Listens and fills the invitation; `local`: all ranks share this host's network, so that nobody else need reach it.
int watch_listen(struct watch_invitation *out, bool local);
// Connects to rank 0 as `rank`, within `patience` seconds; -1: in vain.
int watch_connect(const struct watch_invitation *invitation, int rank, bool local, double patience);
// Whether the bytes are a hello that belongs to us, and of which rank.
bool watch_hello_valid(int *rank, const struct watch_hello *hello, const struct watch_invitation *invitation,
                       int world);
// Sends what fits, without waiting; a beat is dropped if one before it is still on its way. False: the line is broken.
bool watch_send(struct watch_line *line, const struct watch_note *note);
// The next note that has come: 1; 0: none yet; -1: the other end has closed, or sends what is no note.
int watch_receive(struct watch_line *line, struct watch_note *out);
void watch_line_close(struct watch_line *line);

#endif
