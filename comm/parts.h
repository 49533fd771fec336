// SPDX-License-Identifier: Apache-2.0
// What the files of comm/ share among themselves.
#ifndef FINETUNED_COMM_PARTS_H
#define FINETUNED_COMM_PARTS_H

#include "comm/comm.h"

// Backends fill ops, rank, world, local_*, host and state of a zeroed struct.
enum status self_open(struct comm *comm);
enum status mpi_open(struct comm *comm);

#endif
