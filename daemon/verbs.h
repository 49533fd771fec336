// SPDX-License-Identifier: Apache-2.0
// The verbs of `finetuned`, one row each in verbs.c: main, help, man pages and completion walk that table. Each
// verb_<name>.c has the function, argv[0] being the verb itself, which returns the exit code after the error was
// logged, and its flags.
#ifndef FINETUNED_DAEMON_VERBS_H
#define FINETUNED_DAEMON_VERBS_H

#include "daemon/flags.h"

struct verb {
    const char *name;
    int (*run)(int argc, char **argv);
    const struct verb_flags *flags;
    const char *about; // in one line
};

extern const struct verb verbs[];
extern const size_t verbs_count;

// NULL if there is none of that name.
const struct verb *verb_find(const char *name);
// Says that there is none, with the nearest name, or that none was given; 64.
int verb_unknown(const char *name);
int verb_missing(void);

int verb_run(int argc, char **argv);
int verb_sweep(int argc, char **argv);
int verb_prepare(int argc, char **argv);
int verb_eval(int argc, char **argv);
int verb_score(int argc, char **argv);
int verb_predict(int argc, char **argv);
int verb_tokenize(int argc, char **argv);
int verb_export(int argc, char **argv);
int verb_report(int argc, char **argv);
int verb_inspect(int argc, char **argv);
int verb_doctor(int argc, char **argv);
int verb_bench(int argc, char **argv);
int verb_config(int argc, char **argv);
int verb_help(int argc, char **argv);
int verb_man(int argc, char **argv);
int verb_completion(int argc, char **argv);

extern const struct verb_flags verb_run_flags, verb_sweep_flags, verb_prepare_flags, verb_eval_flags, verb_score_flags,
    verb_predict_flags, verb_tokenize_flags, verb_export_flags, verb_report_flags, verb_inspect_flags,
    verb_doctor_flags, verb_bench_flags, verb_config_flags, verb_help_flags, verb_man_flags, verb_completion_flags;

#endif
