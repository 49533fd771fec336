// SPDX-License-Identifier: Apache-2.0
// The machine: processor, kernels, threads, memory, clock.
#include "daemon/doctor/doctor.h"

#include "base/host.h"
#include "base/pool.h"
#include "daemon/units.h"
#include "model/ops.h"

#include <glob.h>
#include <math.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/timex.h>
#include <time.h>

#define LINE 4096
#define ROBERTA_BASE_BYTES ((uint64_t)3 << 30) // what a RoBERTa-base trains in

void doctor_program(struct doctor *d) {
    bool optimised = false, sanitised = false;
#if defined(__OPTIMIZE__)
    optimised = true;
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    sanitised = true;
#endif
    if (!optimised || sanitised)
        doctor_warn(d, "build the release preset: cmake --preset release && cmake --build --preset release",
                    "finetuned " FINETUNED_VERSION ", built %s: slow", sanitised ? "with sanitizers" : "for debugging");
    else
        doctor_ok(d, "finetuned " FINETUNED_VERSION ", optimised build");
}

// ---- processor

// The value of the first "name : value" line of /proc/cpuinfo.
static void cpu_value(char *out, size_t room, const char *root, const char *name) {
    char *path = text_format("%s/proc/cpuinfo", root), *line = NULL;
    size_t size = 0, n = strlen(name);
    FILE *file = path ? fopen(path, "re") : NULL;
    *out = '\0';
    while (file && !*out && getline(&line, &size, file) >= 0)
        if (strncmp(line, name, n) == 0 && strchr("\t :", line[n]) && strchr(line, ':'))
            snprintf(out, room, "%.*s", (int)strcspn(strchr(line, ':') + 1, "\n"), strchr(line, ':') + 1);
    if (file)
        fclose(file);
    free(line);
    free(path);
}

static bool cpu_has(const char *flags, const char *name) {
    size_t n = strlen(name);
    for (const char *at = strstr(flags, name); at; at = strstr(at + 1, name))
        if ((at == flags || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0'))
            return true;
    return false;
}

void doctor_cpu(struct doctor *d) {
    static const char *const names[] = {"avx2",     "fma",         "f16c",        "avx512f",  "avx512bw",
                                        "avx512vl", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8",
                                        "asimd",    "asimddp",     "bf16",        "i8mm",     "sve"};
    char model[256], flags[LINE], smt[16];
    struct text sets = {0};
    cpu_value(model, sizeof model, d->root, "model name");
    cpu_value(flags, sizeof flags, d->root, "flags");
    if (!*flags)
        cpu_value(flags, sizeof flags, d->root, "Features");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (cpu_has(flags, names[i]))
            text_printf(&sets, "%s%s", sets.size ? " " : "", names[i]);
    host_line(smt, sizeof smt, d->root, "/sys/devices/system/cpu/smt/active");
    doctor_ok(d, "%s, %u CPUs online%s; %s", *model ? model + strspn(model, " ") : "processor of no name",
              pool_cpus_host(), strcmp(smt, "1") == 0 ? " (two hyper-threads share a core)" : "",
              sets.size ? text_string(&sets) : "no vector sets that we know");
    text_release(&sets);
}

void doctor_kernels(struct doctor *d) {
    const char *forced = getenv("FINETUNED_ISA");
    enum isa isa, best = isa_best();
    enum status status = isa_choose(&isa);
    if (status != STATUS_OK)
        doctor_fail(d, status, "unset FINETUNED_ISA, or set it to what this processor has", "%s", status_message());
    else if (!ops_table(isa))
        doctor_fail(d, STATUS_DEVICE, "build on this kind of processor", "this build has no kernels for %s",
                    isa_name(isa));
    else if (isa != best)
        doctor_warn(d, "unset FINETUNED_ISA", "%s, forced by FINETUNED_ISA=%s: the processor has %s", isa_name(isa),
                    forced, isa_name(best));
    else if (best == ISA_PLAIN)
        doctor_warn(d, "use a processor with AVX2 or AVX-512", "plain C: several times slower than vector kernels");
    else
        doctor_ok(d, "%s, fp32%s", isa_name(isa), forced && *forced ? " (FINETUNED_ISA says the same)" : "");
}

// ---- threads

static void threads_mask(struct doctor *d, unsigned cpus, unsigned host) {
    unsigned wanted = d->job ? (unsigned)d->job->threads : 0;
    if (cpus == 1 && host > doctor_ranks(d))
        doctor_warn(d,
                    "under mpirun: --bind-to none, or --map-by slot:PE=n for n CPUs a rank; else taskset, or the "
                    "container's cpuset",
                    "this process may use one CPU of %u", host);
    else if (wanted > cpus)
        doctor_warn(d, "lower threads, or let the process use more CPUs",
                    "threads is %u, but this process may use %u CPUs of %u: so many threads are used", wanted, cpus,
                    host);
    else
        doctor_ok(d, "%u of %u CPUs may be used, by %u thread%s of %s", cpus, host, wanted ? wanted : cpus,
                  (wanted ? wanted : cpus) == 1 ? "" : "s", d->comm ? "this rank" : "one rank");
}

static void threads_quota(struct doctor *d, unsigned cpus) {
    double quota = host_cpu_quota(d->root);
    unsigned threads = d->job && d->job->threads ? (unsigned)d->job->threads : cpus;
    char fix[128];
    snprintf(fix, sizeof fix, "set threads to %u, or give the container more CPUs", quota >= 1 ? (unsigned)quota : 1);
    if (quota > 0 && quota < (double)(threads * doctor_ranks(d)))
        doctor_warn(d, fix,
                    "the control group allows the time of %.3g CPUs, but %u threads would run: they would be held up",
                    quota, threads * doctor_ranks(d));
}

static void threads_load(struct doctor *d, unsigned host) {
    char line[128];
    double load = strtod(host_line(line, sizeof line, d->root, "/proc/loadavg"), NULL);
    if (load > 0.5 * host && load > 1)
        doctor_warn(d, "wait for the others, or share the host's CPUs out (taskset)",
                    "others compute here: the load of the last minute is %.1f on %u CPUs", load, host);
}

void doctor_threads(struct doctor *d) {
    unsigned cpus = pool_cpus(), host = pool_cpus_host();
    glob_t nodes = {0};
    char *pattern = text_format("%s/sys/devices/system/node/node[0-9]*", d->root);
    threads_mask(d, cpus, host);
    threads_quota(d, cpus);
    threads_load(d, host);
    if (pattern && glob(pattern, 0, NULL, &nodes) == 0 && nodes.gl_pathc > 1 && doctor_ranks(d) < nodes.gl_pathc)
        doctor_ok(d, "%zu NUMA nodes: a rank each (mpirun --map-by numa --bind-to numa) keeps memory near",
                  nodes.gl_pathc);
    globfree(&nodes);
    free(pattern);
}

// ---- memory

static void memory_job(struct doctor *d, const struct host_memory *m) {
    const struct dry_memory *rank = &d->report.memory;
    uint64_t ranks = doctor_ranks(d), all = rank->total * ranks;
    uint64_t sure = (rank->weights + rank->moments + rank->gradients) * ranks;
    static const char fix[] =
        "lower train.max_tokens, data.max_length or checkpoints.buffer, start fewer ranks here, or take a larger host";
    if (sure > m->available)
        doctor_fail(d, STATUS_DEVICE, fix,
                    "the job needs %s for weights, moments and gradients of %u rank%s, %s is available",
                    unit_bytes(sure).text, (unsigned)ranks, ranks == 1 ? "" : "s", unit_bytes(m->available).text);
    else if (all > m->available)
        doctor_warn(d, fix, "the job takes up to %s with %u rank%s, %s is available", unit_bytes(all).text,
                    (unsigned)ranks, ranks == 1 ? "" : "s", unit_bytes(m->available).text);
    else
        doctor_ok(d, "the job takes up to %s with %u rank%s", unit_bytes(all).text, (unsigned)ranks,
                  ranks == 1 ? "" : "s");
}

static void memory_limits(struct doctor *d) {
    struct rlimit space;
    char line[16];
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
        doctor_warn(d, "ulimit -v unlimited", "address space is limited to %s: arenas are mapped whole",
                    unit_bytes(space.rlim_cur).text);
    if (strcmp(host_line(line, sizeof line, d->root, "/proc/sys/vm/overcommit_memory"), "2") == 0)
        doctor_warn(d, "sysctl vm.overcommit_memory=0",
                    "vm.overcommit_memory is 2: arenas count whole though only "
                    "what is used is touched");
}

void doctor_memory(struct doctor *d) {
    struct host_memory m;
    if (!host_memory(&m, d->root)) {
        doctor_warn(d, "mount /proc", "/proc/meminfo can't be read: how much memory there is is not known");
        return;
    }
    char group[128] = "";
    if (m.limit != HOST_NONE)
        snprintf(group, sizeof group, "; the control group allows %s, %s of it in use", unit_bytes(m.limit).text,
                 unit_bytes(m.used).text);
    if (d->trainer || m.available >= ROBERTA_BASE_BYTES)
        doctor_ok(d, "%s available of %s%s", unit_bytes(m.available).text, unit_bytes(m.total).text, group);
    else
        doctor_warn(d, "free some, raise the container's limit, or train a smaller base",
                    "%s available of %s%s: a RoBERTa-base needs about %s", unit_bytes(m.available).text,
                    unit_bytes(m.total).text, group, unit_bytes(ROBERTA_BASE_BYTES).text);
    if (d->trainer)
        memory_job(d, &m);
    memory_limits(d);
}

void doctor_huge_pages(struct doctor *d) {
    char line[128];
    host_line(line, sizeof line, d->root, "/sys/kernel/mm/transparent_hugepage/enabled");
    if (!*line)
        doctor_ok(d, "this kernel does not say");
    else if (strstr(line, "[never]"))
        doctor_warn(d, "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
                    "transparent huge pages are off: weights and moments are read through small pages");
    else
        doctor_ok(d, "transparent huge pages: %s", strstr(line, "[always]") ? "always" : "where asked for");
}

void doctor_frequency(struct doctor *d) {
    char governor[64], driver[64];
    host_line(governor, sizeof governor, d->root, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    host_line(driver, sizeof driver, d->root, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver");
    bool own = strncmp(driver, "intel_pstate", 12) == 0 || strncmp(driver, "amd-pstate-epp", 14) == 0;
    if (!*governor)
        doctor_ok(d, "not set from here (a virtual machine or container)");
    else if ((strcmp(governor, "powersave") == 0 && !own) || strcmp(governor, "conservative") == 0)
        doctor_warn(d, "cpupower frequency-set -g performance", "the governor is %s (%s): slow clock", governor,
                    driver);
    else
        doctor_ok(d, "governor %s (%s)", governor, driver);
}

// ---- devices

static size_t devices_count(const struct doctor *d, const char *pattern) {
    glob_t found = {0};
    char *path = text_format("%s%s", d->root, pattern);
    size_t n = path && glob(path, 0, NULL, &found) == 0 ? found.gl_pathc : 0;
    globfree(&found);
    free(path);
    return n;
}

void doctor_devices(struct doctor *d) {
    static const struct {
        const char *pattern, *name;
    } kinds[] = {{"/dev/nvidia[0-9]*", "NVIDIA GPU"},
                 {"/dev/neuron[0-9]*", "AWS Neuron device"},
                 {"/sys/class/infiniband/*", "RDMA or EFA device"}};
    struct text text = {0};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t n = devices_count(d, kinds[i].pattern);
        if (n)
            text_printf(&text, "%s%zu %s%s", text.size ? ", " : "", n, kinds[i].name, n == 1 ? "" : "s");
    }
    if (text.size)
        doctor_ok(d, "%s; this version trains on CPUs and talks through MPI, and uses none of them",
                  text_string(&text));
    else
        doctor_ok(d, "CPUs alone");
    text_release(&text);
}

// ---- clock

static bool clock_goes_back(void) {
    struct timespec before, now;
    clock_gettime(CLOCK_MONOTONIC, &before);
    for (int i = 0; i < 10000; i++, before = now) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec < before.tv_sec || (now.tv_sec == before.tv_sec && now.tv_nsec < before.tv_nsec))
            return true;
    }
    return false;
}

void doctor_clock(struct doctor *d) {
    char source[64], text[32];
    time_t now = time(NULL);
    struct tm parts;
    struct timex state = {0};
    gmtime_r(&now, &parts);
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
    host_line(source, sizeof source, d->root, "/sys/devices/system/clocksource/clocksource0/current_clocksource");
    bool synchronised = adjtimex(&state) >= 0 && !(state.status & STA_UNSYNC);
    if (clock_goes_back())
        doctor_fail(d, STATUS_DEVICE, "use a reliable clock source (tsc, kvm-clock)",
                    "the monotonic clock goes backwards (%s)", source);
    else if (parts.tm_year + 1900 < 2024 || parts.tm_year + 1900 > 2100)
        doctor_warn(d, "set the date: chronyd or timedatectl", "%s can't be right: events and owners carry it", text);
    else if (strcmp(source, "hpet") == 0 || strcmp(source, "acpi_pm") == 0 || strcmp(source, "jiffies") == 0)
        doctor_warn(d, "boot with a better clock source (tsc)", "clock source %s is slow to read", source);
    else
        doctor_ok(d, "%s%s%s%s", text, *source ? ", clock source " : "", source,
                  synchronised ? ", synchronised" : "; not known to be synchronised (time stamps alone depend on it)");
}
