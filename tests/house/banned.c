// SPDX-License-Identifier: Apache-2.0
// Must not compile: base/banned.h forbids strcpy. The test house.banned looks for the compiler's complaint.
char *banned(char *to, const char *from);

char *banned(char *to, const char *from) {
    return strcpy(to, from);
}
