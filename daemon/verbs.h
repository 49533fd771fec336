// SPDX-License-Identifier: Apache-2.0
// The verbs of `finetuned`, one row each in main.c. argv[0] is the verb itself; the exit code is returned, after the
// error was logged.
#ifndef FINETUNED_DAEMON_VERBS_H
#define FINETUNED_DAEMON_VERBS_H

int verb_run(int argc, char **argv);
int verb_prepare(int argc, char **argv);
int verb_eval(int argc, char **argv);
int verb_score(int argc, char **argv);
int verb_predict(int argc, char **argv);
int verb_tokenize(int argc, char **argv);
int verb_export(int argc, char **argv);
int verb_inspect(int argc, char **argv);
int verb_config(int argc, char **argv);

#endif
