// SPDX-License-Identifier: Apache-2.0
// The job: every option of the job file (design, section 6), described once in the table of base/options.c. Each key is
// also a flag. Filled with defaults, then the file, then the flags; each value knows where it came from (for messages).
#ifndef FINETUNED_BASE_JOB_H
#define FINETUNED_BASE_JOB_H

#include "base/log.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum job_head { JOB_HEAD_CLASSIFICATION, JOB_HEAD_QUESTION_ANSWERING };
enum job_format { JOB_TWEET_EVAL, JOB_CSV, JOB_TSV, JOB_JSONL, JOB_SQUAD }; // same order as enum source_format
enum job_normalize { JOB_NORMALIZE_NONE, JOB_NORMALIZE_TWEET };
enum job_special { JOB_SPECIAL_LITERAL, JOB_SPECIAL_PARSE };
enum job_schedule { JOB_LINEAR, JOB_COSINE, JOB_CONSTANT, JOB_POLYNOMIAL };
enum job_precision { JOB_PRECISION_AUTO, JOB_BF16, JOB_FP32 };
enum job_metric { JOB_OFFICIAL, JOB_ACCURACY, JOB_MACRO_F1, JOB_MACRO_RECALL, JOB_LOSS, JOB_EM, JOB_F1 };
extern const char *const job_metric_names[]; // by enum job_metric
enum job_backend { JOB_BACKEND_AUTO, JOB_BACKEND_SELF, JOB_BACKEND_MPI, JOB_BACKEND_OFI, JOB_BACKEND_NCCL };
enum job_fabric { JOB_FABRIC_AUTO, JOB_FABRIC_EFA, JOB_FABRIC_TCP, JOB_FABRIC_SHM };
enum job_reduce { JOB_REDUCE_FP32, JOB_REDUCE_BF16 };
enum job_export {
    JOB_EXPORT_HF,
    JOB_EXPORT_SAGEMAKER,
    JOB_EXPORT_ONNX,
    JOB_EXPORT_NEURON,
    JOB_EXPORT_GRAVITON,
    JOB_EXPORTS
};

#define JOB_LIST_MAX 64
// Values of another key, as text.
struct job_list {
    char **at; // (n)
    size_t n;
};

struct job {
    char *job, *out;
    int64_t threads; // 0 = auto
    struct {
        char *base, *vocab; // vocab NULL = none
        int head;           // enum job_head
        double dropout;     // -1 = config
    } model;
    struct {
        int format; // enum job_format
        char *dir, *task;
        int64_t max_length;
        bool truncation;
        int64_t doc_stride;
        int normalize;
        char *column_text, *column_pair, *column_label; // pair NULL = none
        int special_tokens;
        char *cache; // resolved: <out>/shards
    } data;
    struct {
        int64_t epochs, max_steps;
        double max_time;
        int64_t batch, max_tokens;
        double lr;
        int schedule;
        double warmup, weight_decay, betas[2], eps, clip, label_smoothing;
        char *class_weights; // "none", "balanced", or a list
        uint64_t seed;
        int precision;
        int64_t parts;      // 0 = auto
        int64_t eval_every; // 0 = epoch
        int best_metric;
        int64_t early_stopping;
        double layer_decay;
        int64_t freeze; // 0 = none, -1 = embeddings, n = embeddings and n layers
    } train;
    struct {
        int backend, fabric;
        double timeout;
        int reduce;
    } comm;
    struct {
        char *dir;
        int64_t every, keep, buffer; // steps, checkpoints, bytes
        char *resume;                // "auto", "never" or a path
    } checkpoints;
    struct {
        bool to[JOB_EXPORTS];
        int dtype; // JOB_FP32 or JOB_BF16
        char *s3;  // NULL = none
    } export;
    struct {
        int level; // enum log_level
        int64_t every;
        bool samples, tensorboard;
    } log;
    struct {
        struct job_list tasks, seeds, rates; // of data.task, train.seed, train.lr; empty: that key's own value
    } sweep;
};

// What a verb needs: which keys must be set for it.
enum job_need { JOB_NEED_RUN, JOB_NEED_PREPARE, JOB_NEED_NOTHING };

#define JOB_FILE_MAX ((size_t)1 << 20) // bytes of a job file

// Defaults, then `file` (NULL: none), then flags: `--key value` and `--key=value` pairs, lists with commas.
// Every mistake is STATUS_USAGE: key, value, allowed range, and the file's line or the flag; unknown keys with the
// nearest known name. Given twice in the file a key is refused; given twice as a flag the last one holds. Values that
// this version can't do yet are STATUS_USAGE "… not in this version yet" (see options.c). Frees nothing on error but
// what it made.
enum status job_read(struct job **out, const char *file, const char *const *flags, size_t n_flags, enum job_need need);
void job_free(struct job *job);
// The same from the file's bytes (NULL: none); `name` is the file's, for messages. Reads nothing else.
enum status job_parse(struct job **out, const char *bytes, size_t size, const char *name, const char *const *flags,
                      size_t n_flags, enum job_need need);

// How a job file begins that a run wrote.
#define JOB_FILE_WRITTEN "# The job of this run, as finetuned resolved it; each start writes it anew.\n"

// The resolved job as YAML, every key, malloc'ed; readable by job_read. `comments`: with each key's help (config
// --yaml).
enum status job_print_yaml(char **out, const struct job *job, bool comments);
// The options table for people: key, value, default, range, help. malloc'ed. `markdown`: as docs/options.md.
enum status job_print_table(char **out, const struct job *job, bool markdown);
// One key's value as text, as in the YAML ("5.0e-05"; "" if it is unset); malloc'ed, NULL if there is no such key.
char *job_value(const struct job *job, const char *key);
#define JOB_KEYS_MAX 80 // there are never more
// Whether the i-th key has its default, or the value that follows from another key ("<out>/shards").
bool job_key_is_default(const struct job *job, size_t i);
// The i-th key, NULL behind the last: lets others walk the table (config hash, report's differences).
const char *job_key(size_t i);
// Whether the key is part of what defines a run (design, section 6: model and data by content are hashed by the caller;
// these are the `train` keys, `model.head`, `model.dropout`, `data.max_length`, `data.truncation`, … without paths and
// without max_tokens, max_steps, max_time, eval_every, epochs).
bool job_key_defines_run(size_t i);

#endif
