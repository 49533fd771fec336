// SPDX-License-Identifier: Apache-2.0
// finetuned_walk SUBJECT [EVERY]: walks all faults over one action. EVERY: of the calls that take memory only each
// EVERY-th is failed.
#include "walk.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_S 60 // of one attempt
#define CRASHED 1     // exit code of the walk
#define BYTES "write,pwrite,read,pread"
#ifdef SHIM_NO_MEMORY
#define CALLS_EVERY 7 // a sanitizer makes each process slow
#else
#define CALLS_EVERY 1
#endif

// A call that failed once; a full disk; a disk that is gone; what a program must take without a word; the end.
static const struct fault faults[] = {
    {"error", "changes,reads", "fail:EIO", 1, false, false, false},
    {"full", "write,pwrite,truncate,mkdir,link,create,fsync", "fail:ENOSPC", UINT64_MAX, false, true, false},
    {"gone", "changes,reads", "fail:EIO", UINT64_MAX, false, true, false},
    {"interrupted", BYTES, "fail:EINTR", 1, true, false, false},
    {"short", BYTES, "short", 1, true, false, false},
    {"killed", "changes", "kill-after", 1, false, false, false},
#ifndef SHIM_NO_MEMORY
    {"memory", "malloc", "fail:ENOMEM", 1, false, false, true},
#endif
};

static const struct subject *const subjects[] = {&walk_save,    &walk_replace,   &walk_retain, &walk_export,
                                                 &walk_archive, &walk_sagemaker, &walk_shard,  &walk_file};

// ---- folders

static bool tree_is_left(const char *name) {
    return strstr(name, ".tmp-") || strstr(name, ".lock") || strstr(name, ".next-");
}

static void tree_line(struct text *out, const char *path, const char *name) {
    char target[PATH_MAX];
    struct stat info;
    ssize_t n;
    if (lstat(path, &info) != 0) {
        text_printf(out, "%s missing\n", name);
    } else if (S_ISLNK(info.st_mode) && (n = readlink(path, target, sizeof target - 1)) > 0) {
        text_printf(out, "%s -> %.*s\n", name, (int)n, target);
    } else if (S_ISREG(info.st_mode)) {
        char *bytes = NULL;
        size_t size = 0;
        enum status status = file_read(&bytes, &size, path, (size_t)1 << 30);
        text_printf(out, "%s %016" PRIx64 "%s\n", name, status == STATUS_OK ? hash64(bytes, size) : 0,
                    status == STATUS_OK ? "" : " unreadable");
        free(bytes);
    }
}

static void tree_walk(struct text *out, const char *path, const char *inside) {
    char **names;
    size_t n;
    if (file_list(&names, &n, path) != STATUS_OK)
        return;
    for (size_t i = 0; i < n; i++) {
        char *one = path_join(path, names[i]), *name = path_join(inside, names[i]);
        struct stat info;
        if (!tree_is_left(names[i]))
            tree_line(out, one, name);
        if (!tree_is_left(names[i]) && lstat(one, &info) == 0 && S_ISDIR(info.st_mode))
            tree_walk(out, one, name);
        free(one);
        free(name);
    }
    file_list_free(names, n);
}

char *tree_print(const char *path) {
    struct text out = {0};
    text_puts(&out, "");
    tree_walk(&out, path, "");
    char *text = strdup(text_string(&out) ? text_string(&out) : "");
    text_release(&out);
    return text;
}

char *tree_left(const char *path) {
    char **names, *found = NULL;
    size_t n;
    if (file_list(&names, &n, path) != STATUS_OK)
        return NULL;
    for (size_t i = 0; i < n && !found; i++) {
        char *one = path_join(path, names[i]);
        struct stat info;
        if (tree_is_left(names[i]))
            found = strdup(one);
        else if (lstat(one, &info) == 0 && S_ISDIR(info.st_mode))
            found = tree_left(one);
        free(one);
    }
    file_list_free(names, n);
    return found;
}

static void copy_one(const char *to, const char *from) {
    char target[PATH_MAX];
    struct stat info;
    ssize_t n;
    if (lstat(from, &info) != 0)
        return;
    if (S_ISDIR(info.st_mode)) {
        tree_copy(to, from);
    } else if (S_ISLNK(info.st_mode)) {
        n = readlink(from, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        if (symlink(target, to) != 0)
            abort();
    } else if (file_copy(to, from) != STATUS_OK) {
        abort();
    }
}

void tree_copy(const char *to, const char *from) {
    char **names;
    size_t n;
    if (mkdir(to, 0777) != 0 || file_list(&names, &n, from) != STATUS_OK)
        abort();
    for (size_t i = 0; i < n; i++) {
        char *a = path_join(to, names[i]), *b = path_join(from, names[i]);
        copy_one(a, b);
        free(a);
        free(b);
    }
    file_list_free(names, n);
}

// ---- an attempt

void walk_need(const struct walk *walk, bool right, const char *what, const char *detail) {
    char *log = NULL, *tree;
    if (right)
        return;
    if (getenv("WALK_ALL")) {
        fprintf(stderr, "%s: %s: %s\n", walk->at, what, detail ? detail : "");
        return;
    }
    file_read(&log, NULL, walk->log, (size_t)1 << 24);
    tree = tree_print(walk->folder);
    fprintf(stderr, "%s: %s%s%s\n-- its log:\n%s-- its folder:\n%s", walk->at, what, detail ? ": " : "",
            detail ? detail : "", log ? log : "", tree);
    free(tree);
    free(log);
    exit(CRASHED);
}

// In a child, which leaves its outcome in memory that is shared with us.
static void attempt_child(struct outcome *out, struct walk *walk, enum status (*act)(struct walk *),
                          const struct shim_plan *plan) {
    int log = open(walk->log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (log < 0 || dup2(log, STDERR_FILENO) < 0)
        _exit(3);
    alarm(PATIENCE_S);
    if (plan)
        shim_begin(plan, walk->folder);
    enum status status = act(walk);
    out->seen = shim_end();
    out->status = status;
    snprintf(out->message, sizeof out->message, "%s", status == STATUS_OK ? "" : status_message());
    fprintf(stderr, "%s\n", out->message);
    exit(0); // also what is done at an exit must hold
}

static struct outcome attempt(struct walk *walk, enum status (*act)(struct walk *), const struct shim_plan *plan) {
    struct outcome *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct outcome out;
    int ended = 0;
    *shared = (struct outcome){.seen = UINT64_MAX};
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        attempt_child(shared, walk, act, plan);
    while (waitpid(child, &ended, 0) < 0)
        walk_need(walk, errno == EINTR, "waitpid", NULL);
    out = *shared;
    munmap(shared, sizeof *shared);
    out.killed = WIFSIGNALED(ended) && WTERMSIG(ended) == SIGKILL && plan && plan->action == SHIM_KILL_AFTER;
    if (plan && plan->kinds == 1u << SHIM_MALLOC && !(WIFEXITED(ended) && WEXITSTATUS(ended) == 0))
        out.killed = true;
    char how[64];
    snprintf(how, sizeof how, WIFSIGNALED(ended) ? "by signal %d" : "with %d",
             WIFSIGNALED(ended) ? WTERMSIG(ended) : WEXITSTATUS(ended));
    walk_need(walk, out.killed || (WIFEXITED(ended) && WEXITSTATUS(ended) == 0), "the process ended", how);
    return out;
}

// Which end is right, whatever the action.
static void outcome_check(const struct walk *walk, const struct outcome *o, const struct fault *fault) {
    bool right = o->killed || o->status == STATUS_OK || o->status == (fault->memory ? STATUS_SYSTEM : STATUS_IO);
    if (fault->memory) // a model's arrays; a parser of JSON without memory takes what it reads for wrong
        right = right || o->status == STATUS_DEVICE || o->status == STATUS_DATA || o->status == STATUS_IO;
    walk_need(walk, right, "another status than the fault's", o->message);
    walk_need(walk, !fault->harmless || o->status == STATUS_OK, "it minded", o->message);
    if (o->killed || o->status == STATUS_OK)
        return;
    bool named = fault->memory ? *o->message : strstr(o->message, walk->folder) != NULL;
    walk_need(walk, named, "its message does not name what went wrong", o->message);
}

static void attempt_reset(struct walk *walk) {
    walk_need(walk, file_remove(walk->folder) == STATUS_OK, "reset", status_message());
    tree_copy(walk->folder, walk->before);
}

// One call hit, and everything after it. Returns false if the action passed untouched.
static bool attempt_one(struct walk *walk, const struct subject *subject, const struct fault *fault,
                        struct shim_plan *plan) {
    attempt_reset(walk);
    snprintf(walk->at, sizeof walk->at, "%s: %s: call %" PRIu64, subject->name, fault->name, plan->at);
    struct outcome outcome = attempt(walk, subject->act, plan);
    if (!outcome.killed && outcome.seen < plan->at) {
        walk_need(walk, outcome.status == STATUS_OK, "untouched, it failed", outcome.message);
        return false;
    }
    outcome_check(walk, &outcome, fault);
    subject->check(walk, &outcome, fault);
    char *left = tree_left(walk->folder);
    outcome = attempt(walk, subject->again, NULL);
    walk_need(walk, outcome.status == STATUS_OK, "the new start failed", outcome.message);
    char *log = NULL, *still = tree_left(walk->folder);
    walk_need(walk, !still, "the new start left", still);
    file_read(&log, NULL, walk->log, (size_t)1 << 24);
    bool lock = left && strstr(left, ".lock"); // taken over, which needs no word
    walk_need(walk, !left || lock || (log && strstr(log, "left by")), "the new start did not say that it removed",
              left);
    subject->done(walk);
    free(log);
    free(left);
    return true;
}

static uint64_t walk_fault(struct walk *walk, const struct subject *subject, const struct fault *fault,
                           uint64_t every) {
    struct shim_plan plan = {.n = fault->n};
    uint64_t n = 0, step = fault->memory ? every : CALLS_EVERY;
    if (!shim_kinds_parse(&plan.kinds, fault->calls) || !shim_action_parse(&plan, fault->action))
        exit(CRASHED);
    for (plan.at = 1 + (uint64_t)(fault - faults) % step; attempt_one(walk, subject, fault, &plan); plan.at += step)
        n++;
    printf("%s: %s: %" PRIu64 " of %" PRIu64 " calls\n", subject->name, fault->name, n, plan.at - 1);
    return n;
}

static void walk_open(struct walk *walk, const char *root) {
    char name[PATH_MAX], real[PATH_MAX];
    snprintf(name, sizeof name, "%s/finetuned-walk-XXXXXX", root);
    if (!mkdtemp(name) || !realpath(name, real))
        abort();
    *walk = (struct walk){
        .folder = path_join(real, "at"), .before = path_join(real, "before"), .log = path_join(real, "log")};
}

// On memory where there is some: a walk is thousands of fsyncs.
static const char *walk_root(void) {
    const char *root = getenv("TMPDIR");
    return root && *root ? root : access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
}

static const struct subject *subject_find(const char *name) {
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++)
        if (strcmp(subjects[i]->name, name) == 0)
            return subjects[i];
    return NULL;
}

int main(int count, char **arguments) {
    struct walk walk;
    uint64_t every = 1;
    const struct subject *subject = count > 1 ? subject_find(arguments[1]) : NULL;
    const char *only = getenv("WALK_FAULT");
    if (!subject || (count > 2 && (!text_to_u64(arguments[2], &every) || !every))) {
        fprintf(stderr, "usage: finetuned_walk SUBJECT [EVERY]\n");
        return 64;
    }
    walk_open(&walk, walk_root());
    subject->open(&walk);
    tree_copy(walk.before, walk.folder);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        if (!only || strcmp(only, faults[i].name) == 0)
            walk_fault(&walk, subject, &faults[i], every);
    *strrchr(walk.log, '/') = '\0';
    file_remove(walk.log);
    free(walk.folder);
    free(walk.before);
    free(walk.log);
    return 0;
}
