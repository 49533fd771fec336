// SPDX-License-Identifier: Apache-2.0
// finetuned bench: measures this host.
#include "daemon/verbs.h"

#include "base/log.h"
#include "base/pool.h"
#include "base/text.h"
#include "daemon/bench/bench.h"
#include "daemon/flags.h"
#include "train/events.h"

#include <math.h>
#include <stdlib.h>

struct bench {
    const char *name;
    bench_run *run;
};

static const struct bench benches[] = {
    {"gemm", bench_gemm},         {"step", bench_step}, {"optimizer", bench_optimizer},
    {"tokenize", bench_tokenize}, {"io", bench_io},
};
#define BENCHES (sizeof benches / sizeof *benches)

void bench_number(struct text *json, const char *key, double value) {
    size_t size = json->size;
    text_printf(json, "%s\"%s\": ", size && json->at[size - 1] != '{' ? ", " : "", key);
    json_number_add(json, value);
}

void bench_string(struct text *json, const char *key, const char *value) {
    size_t size = json->size;
    text_printf(json, "%s\"%s\": ", size && json->at[size - 1] != '{' ? ", " : "", key);
    json_string_add(json, value);
}

static int number_compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *values, size_t n) {
    if (!n)
        return NAN;
    qsort(values, n, sizeof *values, number_compare);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static const struct verb_flags *const parts[] = {&bench_gemm_flags,     &bench_step_flags, &bench_optimizer_flags,
                                                 &bench_tokenize_flags, &bench_io_flags,   NULL};

static bool json_wanted;
static const struct flag flags[] = {
    {"--json", FLAG_SWITCH, &json_wanted, NULL, "one JSON object", NULL, false},
    FLAGS_END,
};

const struct verb_flags verb_bench_flags = {
    .verb = "bench",
    .usage = "[gemm|step|optimizer|tokenize|io] [--json] [flags]",
    .about = "Measures this host, which should do nothing else meanwhile; without a name all of them in turn.\n"
             "gemm: the products of linear layers, as shares of the processor's peak.\n"
             "step: training steps, where their time goes, a Chrome trace on request.\n"
             "optimizer: AdamW's update, beside a loop that only reads and writes its bytes.\n"
             "tokenize: texts a second that become token ids.\n"
             "io: writing, fsync, reading and small commits in a folder.\n"
             "finetuned bench NAME --help says more of each.",
    .flags = flags,
    .max_words = 0,
    .parts = parts,
    .examples = "finetuned bench tokenize --model path/to/model\n"
                "finetuned bench gemm --json",
};

static enum status json_print(const struct text *json) {
    if (!text_string(json))
        return status_set(STATUS_SYSTEM, "bench: no memory");
    return puts(text_string(json)) < 0 ? status_errno(STATUS_IO, "writing standard output") : STATUS_OK;
}

// Others' work makes every figure worse than the host is.
static void bench_look(void) {
    double load;
    const unsigned cpus = pool_cpus_host();
    if (getloadavg(&load, 1) == 1 && load > 0.5 * cpus)
        log_warn("bench: this host is busy (load %.1f, %u CPUs): the figures are lower than it can do", load, cpus);
}

// Whether only its help is asked for.
static bool bench_asks(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

static enum status bench_one(const struct bench *bench, int argc, char **argv) {
    struct text json = {0};
    char name[32];
    snprintf(name, sizeof name, "bench %s", bench->name);
    argv[0] = name;
    if (!bench_asks(argc, argv))
        bench_look();
    enum status status = bench->run(argc, argv, &json);
    if (status == STATUS_OK && json.size)
        status = json_print(&json);
    text_release(&json);
    return status;
}

// All with their defaults; as JSON one object, {"gemm": {…}, …}.
static enum status bench_all(void) {
    struct text json = {0};
    enum status status = STATUS_OK;
    bench_look();
    text_puts(&json, "{");
    for (size_t i = 0; status == STATUS_OK && i < BENCHES; i++) {
        char name[32], option[] = "--json", *argv[] = {name, option, NULL};
        snprintf(name, sizeof name, "bench %s", benches[i].name);
        text_printf(&json, "%s\"%s\": ", i ? ", " : "", benches[i].name);
        if (!json_wanted)
            printf("%s%s\n", i ? "\n" : "", name);
        status = benches[i].run(1 + json_wanted, argv, &json);
    }
    text_puts(&json, "}");
    if (status == STATUS_OK && json_wanted)
        status = json_print(&json);
    text_release(&json);
    return status;
}

static enum status bench_unknown(const char *name) {
    const char *names[BENCHES];
    for (size_t i = 0; i < BENCHES; i++)
        names[i] = benches[i].name;
    if (strcmp(name, "comm") == 0)
        return status_set(STATUS_USAGE, "bench: comm is not in this version yet");
    const char *near = text_nearest(name, names, BENCHES);
    return status_set(STATUS_USAGE, "bench: there is no '%s'%s%s (see finetuned bench --help)", name,
                      near ? ": did you mean " : "", near ? near : "");
}

int verb_bench(int argc, char **argv) {
    size_t words;
    bool helped;
    for (size_t i = 0; argc > 1 && i < BENCHES; i++)
        if (strcmp(argv[1], benches[i].name) == 0)
            return verb_exit(bench_one(&benches[i], argc - 1, argv + 1));
    if (argc > 1 && argv[1][0] != '-')
        return verb_exit(bench_unknown(argv[1]));
    enum status status = flags_parse(&verb_bench_flags, argc, argv, argv, &words, &helped);
    return helped ? 0 : verb_exit(status == STATUS_OK ? bench_all() : status);
}
