// SPDX-License-Identifier: Apache-2.0
// What is counted and what is done about it. Nothing here may call what is wrapped: system calls are made directly.
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define REFUSED 99 // exit code

static const char *const kind_names[SHIM_KINDS] = {
    [SHIM_WRITE] = "write",   [SHIM_PWRITE] = "pwrite",     [SHIM_FSYNC] = "fsync", [SHIM_RENAME] = "rename",
    [SHIM_MKDIR] = "mkdir",   [SHIM_TRUNCATE] = "truncate", [SHIM_LINK] = "link",   [SHIM_UNLINK] = "unlink",
    [SHIM_CREATE] = "create", [SHIM_CLOSE] = "close",       [SHIM_OPEN] = "open",   [SHIM_READ] = "read",
    [SHIM_PREAD] = "pread",   [SHIM_MMAP] = "mmap",         [SHIM_LOCK] = "lock",   [SHIM_MALLOC] = "malloc",
};

#define BIT(kind) (1u << (kind))
static const struct {
    const char *name;
    uint32_t kinds;
} groups[] = {
    {"changes", BIT(SHIM_WRITE) | BIT(SHIM_PWRITE) | BIT(SHIM_FSYNC) | BIT(SHIM_RENAME) | BIT(SHIM_TRUNCATE) |
                    BIT(SHIM_MKDIR) | BIT(SHIM_UNLINK) | BIT(SHIM_LINK) | BIT(SHIM_CREATE)},
    {"reads", BIT(SHIM_OPEN) | BIT(SHIM_READ) | BIT(SHIM_PREAD) | BIT(SHIM_MMAP)},
    {"locks", BIT(SHIM_LOCK)},
    {"memory", BIT(SHIM_MALLOC)},
};

static const struct {
    const char *name;
    int number;
} errors[] = {
    {"EIO", EIO},       {"ENOSPC", ENOSPC},         {"EDQUOT", EDQUOT}, {"EINTR", EINTR},
    {"ENOMEM", ENOMEM}, {"EACCES", EACCES},         {"EROFS", EROFS},   {"ENOLCK", ENOLCK},
    {"ENOSYS", ENOSYS}, {"EINVAL", EINVAL},         {"EMFILE", EMFILE}, {"ESTALE", ESTALE},
    {"EXDEV", EXDEV},   {"EOPNOTSUPP", EOPNOTSUPP}, {"EBADF", EBADF},   {"EFBIG", EFBIG},
};

static struct {
    struct shim_plan plan;
    char under[PATH_MAX];
    size_t under_size;
    int log; // -1: none
    atomic_bool on;
    atomic_uint_fast64_t seen; // of the plan's kinds
    atomic_uint_fast64_t counts[SHIM_KINDS];
} shim = {.log = -1};

// ---- words

static bool refuse(const char *what, const char *word) {
    fprintf(stderr, "shim: %s: '%s' is not understood\n", what, word);
    return false;
}

static bool number_parse(uint64_t *out, const char *word) {
    char *end;
    errno = 0;
    *out = strtoull(word, &end, 10);
    return *word >= '0' && *word <= '9' && !*end && !errno;
}

static bool word_is(const char *word, size_t size, const char *name) {
    return strlen(name) == size && memcmp(word, name, size) == 0;
}

static uint32_t kinds_of(const char *word, size_t size) {
    for (unsigned kind = 0; kind < SHIM_KINDS; kind++)
        if (word_is(word, size, kind_names[kind]))
            return BIT(kind);
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (word_is(word, size, groups[i].name))
            return groups[i].kinds;
    return 0;
}

bool shim_kinds_parse(uint32_t *kinds, const char *words) {
    *kinds = 0;
    for (const char *at = words;; at++) {
        size_t size = strcspn(at, ",");
        uint32_t more = kinds_of(at, size);
        if (!more)
            return refuse("calls", words);
        *kinds |= more;
        at += size;
        if (!*at)
            return true;
    }
}

static bool error_parse(int *out, const char *word) {
    uint64_t number;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (strcmp(word, errors[i].name) == 0) {
            *out = errors[i].number;
            return true;
        }
    *out = number_parse(&number, word) && number && number < 4096 ? (int)number : 0;
    return *out;
}

bool shim_action_parse(struct shim_plan *plan, const char *word) {
    static const struct {
        const char *name;
        enum shim_action action;
    } words[] = {
        {"short", SHIM_SHORT}, {"hang", SHIM_HANG}, {"kill-before", SHIM_KILL_BEFORE}, {"kill-after", SHIM_KILL_AFTER}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(word, words[i].name) == 0) {
            plan->action = words[i].action;
            return true;
        }
    uint64_t ms;
    if (strncmp(word, "fail:", 5) == 0 && error_parse(&plan->error, word + 5))
        plan->action = SHIM_FAIL;
    else if (strncmp(word, "delay:", 6) == 0 && number_parse(&ms, word + 6) && ms <= 3600000)
        plan->action = SHIM_DELAY, plan->delay_ms = (unsigned)ms;
    else
        return refuse("action", word);
    return true;
}

// ---- the log

__attribute__((format(printf, 1, 2))) static void log_line(const char *format, ...) {
    char line[PATH_MAX + 64];
    va_list args;
    if (shim.log < 0)
        return;
    va_start(args, format);
    int size = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (size > 0)
        syscall(SYS_write, shim.log, line, (size_t)size < sizeof line ? (size_t)size : sizeof line - 1);
}

// ---- which calls count

static bool is_under(const char *path) {
    return strncmp(path, shim.under, shim.under_size) == 0 &&
           (path[shim.under_size] == '/' || path[shim.under_size] == '\0');
}

static bool fd_path(char out[PATH_MAX], int fd) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    long n = syscall(SYS_readlinkat, AT_FDCWD, link, out, PATH_MAX - 1);
    out[n > 0 ? n : 0] = '\0';
    return n > 0 && *out == '/';
}

// Absolute, with links in it left as they are.
static bool at_path(char out[PATH_MAX], int folder, const char *path) {
    int size;
    out[0] = '\0';
    if (!path || *path == '/') {
        size = snprintf(out, PATH_MAX, "%s", path ? path : "");
    } else {
        bool known = folder == AT_FDCWD ? syscall(SYS_getcwd, out, PATH_MAX) > 0 : fd_path(out, folder);
        size_t used = strlen(out);
        while (strncmp(path, "./", 2) == 0)
            path += 2;
        size = known ? snprintf(out + used, PATH_MAX - used, "/%s", path) + (int)used : 0;
    }
    return size > 0 && size < PATH_MAX;
}

static void wait_ms(unsigned ms) {
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    while (syscall(SYS_nanosleep, &left, &left) != 0 && errno == EINTR)
        continue;
}

void shim_kill(void) {
    for (;;)
        kill(getpid(), SIGKILL);
}

static enum shim_action call_hit(enum shim_kind kind, uint64_t n, const char *path, int error) {
    const struct shim_plan *plan = &shim.plan;
    if (!plan->at || n < plan->at || n - plan->at >= plan->n)
        return SHIM_NOTHING;
    log_line("hit %llu %s %s\n", (unsigned long long)n, kind_names[kind], path);
    switch (plan->action) {
    case SHIM_DELAY:
        wait_ms(plan->delay_ms);
        break;
    case SHIM_HANG:
        for (;;)
            wait_ms(1000);
    case SHIM_KILL_BEFORE:
        shim_kill();
    default:
        break;
    }
    errno = plan->action == SHIM_FAIL ? plan->error : error;
    return plan->action;
}

static enum shim_action call_count(enum shim_kind kind, const char *path, int error) {
    atomic_fetch_add(&shim.counts[kind], 1);
    if (!(shim.plan.kinds & BIT(kind)))
        return SHIM_NOTHING;
    return call_hit(kind, atomic_fetch_add(&shim.seen, 1) + 1, path, error);
}

enum shim_action shim_call_fd(enum shim_kind kind, int fd) {
    char path[PATH_MAX];
    int error = errno;
    if (!atomic_load(&shim.on))
        return SHIM_NOTHING;
    bool counts = fd_path(path, fd) && is_under(path);
    errno = error;
    return counts ? call_count(kind, path, error) : SHIM_NOTHING;
}

enum shim_action shim_call_path(enum shim_kind kind, int folder, const char *name) {
    char path[PATH_MAX];
    int error = errno;
    if (!atomic_load(&shim.on))
        return SHIM_NOTHING;
    bool counts = at_path(path, folder, name) && is_under(path);
    errno = error;
    return counts ? call_count(kind, path, error) : SHIM_NOTHING;
}

enum shim_action shim_call(enum shim_kind kind) {
    return atomic_load(&shim.on) ? call_count(kind, "", errno) : SHIM_NOTHING;
}

void shim_begin(const struct shim_plan *plan, const char *under) {
    shim.plan = *plan;
    shim.under_size = strlen(under);
    memcpy(shim.under, under, shim.under_size + 1);
    atomic_store(&shim.seen, 0);
    atomic_store(&shim.on, true);
}

uint64_t shim_end(void) {
    atomic_store(&shim.on, false);
    return atomic_load(&shim.seen);
}

// ---- a preloaded object

#ifdef SHIM_PRELOAD

// Whether this process is meant.
static bool preload_is_ours(void) {
    const char *rank = getenv("SHIM_RANK"), *program = getenv("SHIM_PROGRAM");
    const char *own = getenv("OMPI_COMM_WORLD_RANK");
    return (!rank || (own && strcmp(rank, own) == 0)) &&
           (!program || strcmp(program, program_invocation_short_name) == 0);
}

static bool preload_numbers(struct shim_plan *plan) {
    const char *at = getenv("SHIM_AT"), *n = getenv("SHIM_FOR"), *action = getenv("SHIM_DO"),
               *rank = getenv("SHIM_RANK");
    uint64_t unused;
    plan->n = 1;
    if (at && (!number_parse(&plan->at, at) || !plan->at))
        return refuse("SHIM_AT", at);
    if (n && strcmp(n, "all") == 0)
        plan->n = UINT64_MAX;
    else if (n && (!number_parse(&plan->n, n) || !plan->n))
        return refuse("SHIM_FOR", n);
    if (rank && !number_parse(&unused, rank))
        return refuse("SHIM_RANK", rank);
    if (!at != !action)
        return refuse("SHIM_AT and SHIM_DO go together", at ? at : action);
    return !action || shim_action_parse(plan, action);
}

static bool preload_parse(struct shim_plan *plan, char under[PATH_MAX]) {
    const char *calls = getenv("SHIM_CALLS"), *folder = getenv("SHIM_UNDER");
    if (!preload_numbers(plan))
        return false;
    if (!folder || *folder != '/' || !realpath(folder, under))
        return refuse("SHIM_UNDER", folder ? folder : "");
    return shim_kinds_parse(&plan->kinds, calls);
}

// Before main, and once: its memory and files are the loader's.
static void preload_begin(void) {
    struct shim_plan plan = {0};
    char under[PATH_MAX];
    const char *log = getenv("SHIM_LOG");
    if (!getenv("SHIM_CALLS") || !preload_is_ours())
        return;
    if (!preload_parse(&plan, under))
        _exit(REFUSED);
    if (log)
        shim.log = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (log && shim.log < 0) {
        refuse("SHIM_LOG", log);
        _exit(REFUSED);
    }
    shim_begin(&plan, under);
}

__attribute__((destructor)) static void preload_end(void) {
    for (unsigned kind = 0; kind < SHIM_KINDS && shim.log >= 0; kind++)
        if (atomic_load(&shim.counts[kind]))
            log_line("count %s %llu\n", kind_names[kind], (unsigned long long)atomic_load(&shim.counts[kind]));
}

typedef int main_function(int, char **, char **);
typedef int start_function(main_function *, int, char **, void (*)(void), void (*)(void), void (*)(void), void *);
extern void *shim_next(const char *name);
static main_function *preload_main_of;

static int preload_main(int count, char **arguments, char **environment) {
    preload_begin();
    return preload_main_of(count, arguments, environment);
}

// The C library's start of every program: we come between it and main.
int __libc_start_main(main_function *, int, char **, void (*)(void), void (*)(void), void (*)(void), void *);
int __libc_start_main(main_function *of, int count, char **arguments, void (*init)(void), void (*fini)(void),
                      void (*end)(void), void *stack) {
    start_function *start = (start_function *)(uintptr_t)shim_next("__libc_start_main");
    preload_main_of = of;
    return start(preload_main, count, arguments, init, fini, end, stack);
}

#endif
