// SPDX-License-Identifier: Apache-2.0
// Functions that are too easy to use wrongly; forced into every source by the build.
#ifndef FINETUNED_BASE_BANNED_H
#define FINETUNED_BASE_BANNED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#pragma GCC poison strcpy strcat strncpy strncat sprintf vsprintf strtok gets atoi atol atoll atof asctime gmtime      \
    localtime
// HDF5's header has a member of this name, so only calls are banned.
#define ctime(time) ctime_is_banned(time)

#endif
