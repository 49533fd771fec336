// SPDX-License-Identifier: Apache-2.0
// The sockets of the watch. Nothing here waits, but watch_connect, which has a deadline.
#include "comm/watch_parts.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BACKLOG 1024

union address {
    struct sockaddr any;
    struct sockaddr_in in4;
    struct sockaddr_in6 in6;
};

// ---- rank 0

static int listen_on(const union address *address, socklen_t size) {
    int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), off = 0;
    if (fd < 0)
        return -1;
    if (address->any.sa_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, &address->any, size) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    close(fd);
    return -1;
}

static int listen_local(void) {
    union address address = {.in4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
    return listen_on(&address, sizeof address.in4);
}

static int listen_everywhere(void) {
    union address six = {.in6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT}};
    union address four = {.in4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)}};
    int fd = listen_on(&six, sizeof six.in6);
    return fd >= 0 ? fd : listen_on(&four, sizeof four.in4);
}

static bool address_take(struct watch_address *out, const struct ifaddrs *at) {
    const union address *address = (const union address *)at->ifa_addr;
    if (!address || !(at->ifa_flags & IFF_UP) || at->ifa_flags & IFF_LOOPBACK)
        return false;
    if (address->any.sa_family == AF_INET) {
        out->family = 4;
        memcpy(out->bytes, &address->in4.sin_addr, 4);
        return true;
    }
    if (address->any.sa_family != AF_INET6 || IN6_IS_ADDR_LINKLOCAL(&address->in6.sin6_addr))
        return false;
    out->family = 6;
    memcpy(out->bytes, &address->in6.sin6_addr, 16);
    return true;
}

static void invitation_addresses(struct watch_invitation *out) {
    struct ifaddrs *all;
    if (getifaddrs(&all) != 0)
        return;
    for (const struct ifaddrs *at = all; at && out->n < WATCH_ADDRESSES; at = at->ifa_next)
        out->n += address_take(&out->addresses[out->n], at);
    freeifaddrs(all);
}

int watch_listen(struct watch_invitation *out, bool local) {
    union address bound = {0};
    socklen_t size = sizeof bound;
    *out = (struct watch_invitation){0};
    int fd = local ? listen_local() : listen_everywhere();
    if (fd < 0 || getsockname(fd, &bound.any, &size) != 0 || getrandom(out->hello, WATCH_TOKEN, 0) != WATCH_TOKEN ||
        getrandom(out->answer, WATCH_TOKEN, 0) != WATCH_TOKEN) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    out->listens = 1;
    out->port = ntohs(bound.any.sa_family == AF_INET6 ? bound.in6.sin6_port : bound.in4.sin_port);
    if (!local)
        invitation_addresses(out);
    return fd;
}

bool watch_hello_valid(int *rank, const struct watch_hello *hello, const struct watch_invitation *invitation,
                       int world) {
    *rank = hello->rank;
    return hello->magic == WATCH_MAGIC && hello->rank > 0 && hello->rank < world &&
           memcmp(hello->token, invitation->hello, WATCH_TOKEN) == 0;
}

// ---- the others

// All of rank 0's addresses are tried at once: the first that answers as it should is taken.
struct attempt {
    int fd;
    bool said;  // the hello is sent
    size_t got; // bytes of the answer
    uint8_t answer[WATCH_TOKEN];
};

static void attempt_close(struct attempt *attempt) {
    if (attempt->fd >= 0)
        close(attempt->fd);
    attempt->fd = -1;
}

static socklen_t address_fill(union address *out, const struct watch_address *from, uint16_t port) {
    memset(out, 0, sizeof *out);
    if (from->family == 4) {
        out->in4.sin_family = AF_INET;
        out->in4.sin_port = htons(port);
        memcpy(&out->in4.sin_addr, from->bytes, 4);
        return sizeof out->in4;
    }
    out->in6.sin6_family = AF_INET6;
    out->in6.sin6_port = htons(port);
    memcpy(&out->in6.sin6_addr, from->bytes, 16);
    return sizeof out->in6;
}

static void attempt_begin(struct attempt *attempt, const struct watch_address *at, uint16_t port) {
    union address address;
    socklen_t size = address_fill(&address, at, port);
    *attempt = (struct attempt){.fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    if (attempt->fd >= 0 && connect(attempt->fd, &address.any, size) != 0 && errno != EINPROGRESS)
        attempt_close(attempt);
}

// Something has happened on it; true: it is rank 0.
static bool attempt_go(struct attempt *attempt, const struct watch_hello *hello, const uint8_t *answer) {
    if (!attempt->said) {
        attempt->said = send(attempt->fd, hello, sizeof *hello, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof *hello;
        if (!attempt->said)
            attempt_close(attempt);
        return false;
    }
    ssize_t n = recv(attempt->fd, attempt->answer + attempt->got, WATCH_TOKEN - attempt->got, MSG_DONTWAIT);
    if (n <= 0 && !(n < 0 && (errno == EAGAIN || errno == EINTR)))
        attempt_close(attempt);
    attempt->got += n > 0 ? (size_t)n : 0;
    if (attempt->fd < 0 || attempt->got < WATCH_TOKEN)
        return false;
    if (memcmp(attempt->answer, answer, WATCH_TOKEN) == 0)
        return true;
    attempt_close(attempt);
    return false;
}

// The index of the one that answered; -1: none.
static int attempts_wait(struct attempt *attempts, unsigned n, const struct watch_hello *hello, const uint8_t *answer,
                         double until) {
    for (;;) {
        struct pollfd polled[WATCH_ADDRESSES + 1];
        unsigned open = 0;
        for (unsigned i = 0; i < n; i++) {
            polled[i] = (struct pollfd){attempts[i].fd, attempts[i].said ? POLLIN : POLLOUT, 0};
            open += attempts[i].fd >= 0;
        }
        double left = until - clock_seconds();
        if (open == 0 || left <= 0)
            return -1;
        poll(polled, n, (int)(left * 1000) + 1);
        for (unsigned i = 0; i < n; i++)
            if (attempts[i].fd >= 0 && polled[i].revents && attempt_go(&attempts[i], hello, answer))
                return (int)i;
    }
}

int watch_connect(const struct watch_invitation *invitation, int rank, bool local, double patience) {
    struct attempt attempts[WATCH_ADDRESSES + 1];
    struct watch_hello hello = {.magic = WATCH_MAGIC, .rank = rank};
    struct watch_address loop = {.family = 4, .bytes = {127, 0, 0, 1}};
    unsigned n = 0;
    int fd = -1;
    if (!invitation->listens)
        return -1;
    memcpy(hello.token, invitation->hello, WATCH_TOKEN);
    if (local)
        attempt_begin(&attempts[n++], &loop, invitation->port);
    for (unsigned i = 0; i < invitation->n && i < WATCH_ADDRESSES; i++)
        attempt_begin(&attempts[n++], &invitation->addresses[i], invitation->port);
    int found = attempts_wait(attempts, n, &hello, invitation->answer, clock_seconds() + patience);
    for (unsigned i = 0; i < n; i++) {
        if ((int)i == found)
            fd = attempts[i].fd;
        else
            attempt_close(&attempts[i]);
    }
    int on = 1;
    if (fd >= 0)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

// ---- notes

// What is left of the note before goes first.
static bool line_flush(struct watch_line *line) {
    while (line->left > 0) {
        ssize_t n = send(line->fd, line->out + sizeof line->out - line->left, line->left, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN;
        line->left -= (size_t)n;
    }
    return true;
}

bool watch_send(struct watch_line *line, const struct watch_note *note) {
    if (line->fd < 0)
        return false;
    if (!line_flush(line))
        return false;
    if (line->left > 0)
        return true;
    memcpy(line->out, note, sizeof *note);
    line->left = sizeof *note;
    return line_flush(line);
}

int watch_receive(struct watch_line *line, struct watch_note *out) {
    while (line->got < sizeof line->in) {
        ssize_t n = recv(line->fd, line->in + line->got, sizeof line->in - line->got, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return 0;
        if (n <= 0)
            return -1;
        line->got += (size_t)n;
    }
    line->got = 0;
    memcpy(out, line->in, sizeof *out);
    bool valid = out->magic == WATCH_MAGIC && out->kind >= WATCH_BEAT && out->kind <= WATCH_BYE &&
                 out->operation < PULSE_OPERATIONS;
    return valid ? 1 : -1;
}

void watch_line_close(struct watch_line *line) {
    if (line->fd >= 0)
        close(line->fd);
    line->fd = -1;
}
