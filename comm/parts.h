// SPDX-License-Identifier: Apache-2.0
// What the files of comm/ share among themselves.
#ifndef FINETUNED_COMM_PARTS_H
#define FINETUNED_COMM_PARTS_H

#include "comm/comm.h"

// Backends fill ops, rank, world, local_*, host and state of a zeroed struct.
enum status self_open(struct comm *comm);
enum status mpi_open(struct comm *comm);

// The watch (comm/watch.h): the others are told before this rank ends all; the end, with a good-bye.
void watch_abort(struct comm *comm, int exit_code);
void watch_close(struct comm *comm);

#endif
