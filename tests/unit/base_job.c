// SPDX-License-Identifier: Apache-2.0
// The job file and its flags: what is taken, what is refused and with which words, and that what is printed reads back.
#include "support.h"

#include "base/file.h"
#include "base/job.h"
#include "base/options.h"
#include "base/rng.h"

static enum status parse(struct job **out, const char *yaml) {
    return job_parse(out, yaml, strlen(yaml), "x.yaml", NULL, 0, JOB_NEED_NOTHING);
}

// Refused with 64 and a message that holds each of the words.
static void refused(enum status status, const char *const *words) {
    if (status != STATUS_USAGE)
        fail_msg("status %d, wanted usage (%s): %s", status, words[0], status_message());
    for (; *words; words++)
        if (!strstr(status_message(), *words))
            fail_msg("'%s' lacks '%s'", status_message(), *words);
}

#define REFUSED(yaml, ...)                                                                                             \
    do {                                                                                                               \
        struct job *refused_ = NULL;                                                                                   \
        refused(parse(&refused_, yaml), (const char *const[]){__VA_ARGS__, NULL});                                     \
        assert_null(refused_);                                                                                         \
    } while (0)

static void refused_flags(const char *const *flags, const char *const *words) {
    struct job *job = NULL;
    size_t n = 0;
    while (flags[n])
        n++;
    refused(job_read(&job, NULL, flags, n, JOB_NEED_NOTHING), words);
    assert_null(job);
}

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

// The job file of the design, as it stands there but for the values that are paths.
static const char design[] =
    "job: emotion                    # name; default from the file's name\n"
    "out: runs/emotion               # everything the job writes\n"
    "threads: auto                   # per rank; auto = the CPUs of the process's mask\n"
    "model:\n"
    "  base: random:tiny\n"
    "  vocab: none                   # tokenizer files for random: models; none: a built-in vocabulary of bytes\n"
    "  head: classification          # classification | question_answering\n"
    "  dropout: config\n"
    "data:\n"
    "  format: tweet_eval            # tweet_eval | csv | tsv | jsonl | squad\n"
    "  dir: path/to/tweet_eval\n"
    "  task: emotion\n"
    "  max_length: 128\n"
    "  truncation: true\n"
    "  doc_stride: 128               # squad\n"
    "  normalize: none\n"
    "  columns: {text: text, pair: none, label: label}   # csv, tsv, jsonl\n"
    "  special_tokens: literal\n"
    "  cache: <out>/shards\n"
    "train:\n"
    "  epochs: 3\n  max_steps: 0\n  max_time: 0\n  batch: 16\n  max_tokens: 16384\n  lr: 5.0e-5\n  schedule: linear\n"
    "  warmup: 0.0\n  weight_decay: 0.0\n  betas: [0.9, 0.999]\n  eps: 1.0e-8\n  clip: 1.0\n  label_smoothing: 0.0\n"
    "  class_weights: none\n  seed: 42\n  precision: auto\n  parts: auto\n  eval_every: epoch\n  best_metric: "
    "official\n"
    "  early_stopping: 0\n  layer_decay: 1.0\n  freeze: none\n"
    "comm:\n  backend: auto\n  fabric: auto\n  timeout: 30\n  reduce: fp32\n"
    "checkpoints:\n  dir: <out>/checkpoints\n  every: 200\n  keep: 3\n  buffer: 512MiB\n  resume: auto\n"
    "export:\n  to: [hf]\n  dtype: fp32\n  s3: none\n"
    "log: { level: info, every: 10, samples: false, tensorboard: true }\n";

static void test_design(void **state) {
    (void)state;
    struct job *job, *defaults;
    assert_ok(parse(&job, design));
    assert_string_equal(job->job, "emotion");
    assert_string_equal(job->data.cache, "runs/emotion/shards");
    assert_string_equal(job->checkpoints.dir, "runs/emotion/checkpoints");
    assert_null(job->model.vocab);
    assert_null(job->data.column_pair);
    assert_true(job->model.dropout == -1 && job->train.lr == 5.0e-5 && job->train.betas[1] == 0.999);
    assert_int_equal(job->checkpoints.buffer, 512 << 20);
    assert_int_equal(job->log.level, LOG_INFO);
    assert_int_equal(job->train.precision, JOB_PRECISION_AUTO);
    assert_true(job->export.to[JOB_EXPORT_HF] && !job->export.to[JOB_EXPORT_ONNX]);

    // the design's values are the defaults
    assert_ok(parse(&defaults, "job: emotion\n"));
    assert_null(defaults->model.base);
    for (size_t i = 0; job_key(i); i++) {
        char *got = job_value(job, job_key(i)), *want = job_value(defaults, job_key(i));
        if (strcmp(job_key(i), "model.base") != 0 && strcmp(job_key(i), "data.dir") != 0 &&
            strcmp(job_key(i), "data.task") != 0)
            assert_string_equal(got, want);
        free(got);
        free(want);
    }
    job_free(job);
    job_free(defaults);
}

static void test_forms(void **state) {
    (void)state;
    struct job *job;
    assert_ok(parse(&job,
                    "train.lr: 3e-5\n'train': {\"epochs\": 7}\ncomm:\nexport: {to: []}\ncheckpoints: {buffer: 1GiB}\n"
                    "job: 2022\nthreads: 'auto'\ndata: {columns: {pair: other}}\n"));
    assert_true(job->train.lr == 3e-5);
    assert_int_equal(job->train.epochs, 7);
    assert_false(job->export.to[JOB_EXPORT_HF]);
    assert_int_equal(job->checkpoints.buffer, 1 << 30);
    assert_string_equal(job->out, "runs/2022");
    assert_string_equal(job->data.column_pair, "other");
    job_free(job);
    assert_ok(parse(&job, ""));
    assert_string_equal(job->job, "x");
    job_free(job);
    assert_ok(parse(&job, "---\n# nothing\n"));
    job_free(job);
    assert_ok(parse(
        &job, "export:\n  to: hf\ncheckpoints: {buffer: 4096}\ntrain: {seed: 18446744073709551615, parts: 16}\n"));
    assert_int_equal(job->checkpoints.buffer, 4096);
    assert_true(job->train.seed == UINT64_MAX && job->train.parts == 16);
    job_free(job);
}

static void test_flags(void **state) {
    (void)state;
    struct job *job;
    const char *const flags[] = {"--train.lr",    "3e-5",    "--train.lr=1e-4", "--out=o=1",   "--export.to",   "none",
                                 "--train.betas", "0.8,0.9", "--model.base",    "random:tiny", "--log.samples", "true"};
    assert_ok(job_parse(&job, "train: {lr: 1}\n", 15, "runs.d/a.b.yaml", flags, 12, JOB_NEED_NOTHING));
    assert_true(job->train.lr == 1e-4);
    assert_string_equal(job->out, "o=1");
    assert_string_equal(job->data.cache, "o=1/shards");
    assert_string_equal(job->job, "a.b");
    assert_true(job->train.betas[0] == 0.8 && job->log.samples && !job->export.to[JOB_EXPORT_HF]);
    job_free(job);
    refused_flags(LIST("--train.lr"), LIST("--train.lr needs a value", "5.0e-05"));
    refused_flags(LIST("--train.lr", "--out"), LIST("--train.lr needs a value"));
    refused_flags(LIST("--log.samples", "1"), LIST("--log.samples: '1'", "true, false"));
    refused_flags(LIST("--train.lrr", "1"), LIST("--train.lrr", "did you mean train.lr?"));
    refused_flags(LIST("--epochs", "1"), LIST("--epochs", "did you mean train.epochs?"));
    refused_flags(LIST("train.lr", "1"), LIST("'train.lr'", "--key value"));
    refused_flags(LIST("--", "1"), LIST("'--'"));
    refused_flags(LIST("--train.epochs=3.0"), LIST("--train.epochs: '3.0'", "an integer from 1"));
    refused_flags(LIST("--out="), LIST("--out: ''", "empty"));
    refused_flags(LIST("--out", "\xff"), LIST("--out", "not UTF-8"));
    refused_flags(LIST("--export.to", "hf,hf"), LIST("--export.to", "'hf,hf'"));
    refused_flags(LIST("--train.betas", "0.9"), LIST("--train.betas", "two numbers"));
    // each in its own message, as far as it goes
    char name[300];
    memset(name, 'x', sizeof name - 1);
    name[0] = name[1] = '-';
    name[sizeof name - 1] = '\0';
    refused_flags(LIST(name, "1"), LIST("no known key"));
}

static void test_values(void **state) {
    (void)state;
    REFUSED("train:\n  epochs: 3.0\n", "x.yaml:2: train.epochs: '3.0'", "an integer from 1 to 1000000");
    REFUSED("train:\n  epochs: '3'\n", "x.yaml:2: train.epochs", "quotes");
    REFUSED("train:\n  epochs: 0\n", "'0'", "from 1");
    REFUSED("train:\n  epochs: 0x10\n", "'0x10'");
    REFUSED("train:\n  epochs: +3\n", "'+3'");
    REFUSED("train:\n  epochs: 1_000\n", "'1_000'");
    REFUSED("train:\n  epochs: 99999999999999999999\n", "99999999999999999999");
    REFUSED("train:\n  epochs: [3]\n", "train.epochs", "a list is not allowed");
    REFUSED("train:\n  epochs: {a: 3}\n", "train.epochs", "a mapping is not allowed");
    REFUSED("train:\n  epochs:\n", "train.epochs", "empty");
    REFUSED("train:\n\n  lr: .nan\n", "x.yaml:3: train.lr: '.nan'", "a number from 0");
    REFUSED("train: {lr: .inf}", "'.inf'");
    REFUSED("train: {lr: 1e999}", "'1e999'");
    REFUSED("train: {lr: -1e-5}", "'-1e-5'");
    REFUSED("train: {betas: [0.9, 1.0]}", "train.betas", "1 (excluded)");
    REFUSED("train: {betas: [0.9]}", "train.betas");
    REFUSED("train: {betas: [0.9, 0.99, 0.999]}", "train.betas");
    REFUSED("train: {betas: [0.9, [0.99]]}", "train.betas", "plain values");
    REFUSED("train: {betas: 'a,b'}", "train.betas");
    REFUSED("train: {eps: 0}", "train.eps", "0 (excluded)");
    REFUSED("train: {warmup: 1.5}", "x.yaml:1: train.warmup: 1.5", "whole number");
    REFUSED("train: {warmup: -0.1}", "train.warmup");
    REFUSED("train: {parts: 3}", "train.parts: '3'", "power of two");
    REFUSED("train: {parts: 0}", "train.parts: '0'", "power of two");
    REFUSED("train: {parts: 32}", "x.yaml:1: train.parts: 32 is above train.batch");
    REFUSED("train: {class_weights: [1, 0]}", "train.class_weights: '[1, 0]'", "1e-06");
    REFUSED("train: {class_weights: []}", "train.class_weights");
    REFUSED("train: {class_weights: [1, -2]}", "train.class_weights", "is not allowed");
    REFUSED("train: {class_weights: equal}", "train.class_weights: 'equal'", "none, balanced");
    REFUSED("train: {label_smoothing: 1}", "train.label_smoothing: '1'", "1 (excluded)");
    REFUSED("train: {label_smoothing: -0.1}", "train.label_smoothing");
    REFUSED("train: {layer_decay: 0}", "train.layer_decay: '0'", "0 (excluded)");
    REFUSED("train: {layer_decay: 1.1}", "train.layer_decay");
    REFUSED("train: {freeze: 0}", "train.freeze: '0'", "none, embeddings, or an integer from 1");
    REFUSED("train: {freeze: all}", "train.freeze: 'all'");
    REFUSED("train: {eval_every: 0}", "train.eval_every: '0'", "epoch");
    REFUSED("train: {max_time: -1}", "train.max_time");
    REFUSED("model: {head: question_answering}\ntrain:\n  label_smoothing: 0.1\n",
            "x.yaml:3: train.label_smoothing: 0.1 is for classification");
    REFUSED("model: {head: question_answering}\ntrain:\n  class_weights: [1, 2.50]\n",
            "x.yaml:3: train.class_weights: [1.0, 2.5] is for classification");
    REFUSED("train: {schedule: liner}", "train.schedule: 'liner'", "linear, cosine, constant, polynomial");
    REFUSED("train: {seed: -1}", "train.seed");
    REFUSED("train: {seed: 18446744073709551616}", "train.seed", "18446744073709551615");
    REFUSED("model: {dropout: 1}", "model.dropout", "config, or a number from 0 to 1 (excluded)");
    REFUSED("model: {dropout: none}", "model.dropout: 'none'");
    REFUSED("data:\n  truncation: yes\n", "x.yaml:2: data.truncation: 'yes'", "write true");
    REFUSED("data: {truncation: no}", "write false");
    REFUSED("data: {truncation: 'true'}", "quotes");
    REFUSED("data: {truncation: 1}", "true, false");
    REFUSED("data: {max_length: 2}", "data.max_length", "from 3");
    REFUSED("checkpoints: {buffer: 512MB}", "checkpoints.buffer: '512MB'", "512MiB");
    REFUSED("checkpoints: {buffer: 2TiB}", "'2TiB'");
    REFUSED("checkpoints: {buffer: 9999999999TiB}", "'9999999999TiB'");
    REFUSED("checkpoints: {buffer: -1}", "'-1'");
    REFUSED("export: {to: [hf, hff]}", "export.to", "sagemaker");
    REFUSED("export: {dtype: auto}", "export.dtype: 'auto'", "bf16, fp32");
    REFUSED("job: a/b", "job: 'a/b'", "without /");
    REFUSED("job: a<job>", "job: 'a<job>'");
    REFUSED("out: <out>/a", "x.yaml:1: out: \"<out>/a\"", "itself");
    REFUSED("out: runs/<jobb>", "x.yaml:1: out: \"runs/<jobb>\"", "nothing is filled in for <jobb> (only for <job>)");
    REFUSED("data: {cache: <job>/c}", "data.cache", "<job> (only for <out>)");
    REFUSED("checkpoints: {dir: <out>/<x.1>}", "checkpoints.dir", "<x.1> (only for <out>)");
    REFUSED("out: ~/x", "x.yaml:1: out: \"~/x\"", "write the folder in full");
    REFUSED("data: {dir: ~/x}", "data.dir", "begins with ~");
    REFUSED("model: {base: ~/x}", "model.base", "begins with ~");
    REFUSED("checkpoints: {resume: ~/x}", "checkpoints.resume", "begins with ~");
    REFUSED("job: ..", "job: '..'");
    REFUSED("out: ~", "out: ''", "empty");
    REFUSED("out: \"a\\nb\"", "x.yaml:1: out");
    REFUSED("out: \"a\\0b\"", "NUL");
}

static void test_structure(void **state) {
    (void)state;
    REFUSED("train:\n  lrr: 1\n", "x.yaml:2: train.lrr is no known key", "did you mean train.lr?");
    REFUSED("lr: 1\n", "x.yaml:1: lr is no known key", "did you mean train.lr?");
    REFUSED("a:\n  b: 1\n", "x.yaml:1: a is no known key");
    REFUSED("trian: {lr: 1}\n", "x.yaml:1: trian is no known key", "did you mean train?");
    REFUSED("data: {column: {text: a}}\n", "did you mean data.columns?");
    REFUSED("data: {columns: {texts: a}}", "data.columns.texts", "did you mean data.columns.text?");
    REFUSED("train:\n  lr: 1\n  epochs: 1\n  lr: 2\n", "x.yaml:4: train.lr is given twice, first in line 2");
    REFUSED("train: {lr: 1}\nout: a\ntrain: {epochs: 1}\n", "x.yaml:3: train is given twice, first in line 1");
    REFUSED("train: {lr: 1}\ntrain.lr: 2\n", "given twice");
    REFUSED("data: {columns: {text: a}, columns: {pair: b}}\n", "data.columns is given twice");
    REFUSED("train: 3\n", "x.yaml:1: train: '3'", "section");
    REFUSED("train: [1]\n", "train: 'a list'", "section");
    REFUSED("train:\n\tlr: 1\n", "x.yaml:2: not YAML");
    REFUSED("train: {lr: 1\n", "not YAML");
    REFUSED("job: a\n---\njob: b\n", "x.yaml:2", "second document");
    REFUSED("job: a\n...\nstray\n", "x.yaml:3: not YAML");
    REFUSED("job: &x a\nout: b\n", "x.yaml:1", "anchor &x");
    REFUSED("out: *x\n", "alias *x");
    REFUSED("train: &t {lr: 1}\n", "anchor &t");
    REFUSED("train:\n  <<: {lr: 1}\n", "train.<<");
    REFUSED("job: !!str a\n", "tag");
    REFUSED("train: !x {lr: 1}\n", "tag");
    REFUSED("- job\n", "x.yaml:1", "a list", "name: value");
    REFUSED("just words\n", "just words");
    REFUSED("? [a]\n: b\n", "a key is wanted");
    REFUSED("job: \xff\n", "x.yaml:1: byte 0xff is not UTF-8");
    REFUSED("job: a\n\nout: \xc3(\n", "x.yaml:3: byte 0xc3");
    REFUSED("\xff\xfej\0o\0b\0", "UTF-8");
    char deep[20001];
    memset(deep, '[', 20000);
    deep[20000] = '\0';
    REFUSED(deep, "x.yaml:1");
}

static void test_later(void **state) {
    (void)state;
    REFUSED("comm:\n  backend: ofi\n", "x.yaml:2: comm.backend: ofi: not in this version yet");
    REFUSED("comm: {backend: nccl}", "comm.backend: nccl");
    REFUSED("comm: {fabric: efa}", "comm.fabric: efa");
    REFUSED("comm: {reduce: bf16}", "comm.reduce: bf16");
    REFUSED("export: {to: [hf, onnx]}", "export.to: onnx: not in this version yet");
    REFUSED("export: {s3: s3://bucket/prefix}", "export.s3", "not in this version yet");
    REFUSED("export: {s3: http://bucket}", "export.s3", "s3://bucket/prefix");
    refused_flags(LIST("--comm.reduce", "bf16"), LIST("--comm.reduce: bf16: not in this version yet"));
    struct job *job; // a flag may take back what the file asks for
    assert_ok(job_parse(&job, "comm: {reduce: bf16}", 20, "x.yaml", (const char *const[]){"--comm.reduce", "fp32"}, 2,
                        JOB_NEED_NOTHING));
    job_free(job);
}

static void test_needs(void **state) {
    (void)state;
    struct job *job;
    refused(job_read(&job, NULL, NULL, 0, JOB_NEED_RUN), (const char *const[]){"model.base", "--model.base", NULL});
    refused(job_read(&job, NULL, (const char *const[]){"--model.base", "m"}, 2, JOB_NEED_PREPARE),
            (const char *const[]){"data.dir", NULL});
    refused(job_read(&job, NULL, (const char *const[]){"--model.base", "m", "--data.dir", "d"}, 4, JOB_NEED_RUN),
            (const char *const[]){"data.task", "emotion", NULL});
    assert_ok(job_read(&job, NULL,
                       (const char *const[]){"--model.base", "m", "--data.dir", "d", "--data.task", "stance/hillary"},
                       6, JOB_NEED_RUN));
    assert_string_equal(job->job, "job");
    assert_string_equal(job->out, "runs/job");
    job_free(job);
    // a format of one file a split needs no task: its name is the format's
    assert_ok(job_read(&job, NULL,
                       (const char *const[]){"--model.base", "m", "--data.dir", "d", "--data.format", "jsonl"}, 6,
                       JOB_NEED_RUN));
    assert_string_equal(job->data.task, "jsonl");
    assert_int_equal(job->data.format, JOB_JSONL);
    job_free(job);
    assert_ok(job_parse(&job, "data: {format: csv, task: irony}", 32, "x.yaml", NULL, 0, JOB_NEED_NOTHING));
    assert_string_equal(job->data.task, "irony");
    job_free(job);
    // a folder that has such files: the format is what lacks
    char *folder = support_folder(), *path = path_join(folder, "train.tsv");
    assert_ok(file_replace(path, "", 0));
    refused(job_read(&job, NULL, (const char *const[]){"--model.base", "m", "--data.dir", folder}, 4, JOB_NEED_RUN),
            (const char *const[]){"data.task", path, "data.format: tsv", NULL});
    assert_ok(file_remove(folder));
    free(path);
    free(folder);
}

static void test_files(void **state) {
    (void)state;
    struct job *job;
    char *folder = support_folder(), *path = path_join(folder, "my job.yaml"), *large = path_join(folder, "large.yaml");
    assert_status(job_read(&job, path, NULL, 0, JOB_NEED_NOTHING), STATUS_USAGE);
    assert_non_null(strstr(status_message(), "my job.yaml"));
    assert_ok(file_replace(path, "train: {lr: 2e-5}\n", 18));
    assert_ok(job_read(&job, path, NULL, 0, JOB_NEED_NOTHING));
    assert_string_equal(job->job, "my job");
    assert_string_equal(job->out, "runs/my job");
    job_free(job);
    char *bytes = calloc(1, 2 << 20);
    assert_ok(file_replace(large, bytes, 2 << 20));
    assert_status(job_read(&job, large, NULL, 0, JOB_NEED_NOTHING), STATUS_USAGE);
    assert_ok(file_remove(folder));
    free(bytes);
    free(folder);
    free(path);
    free(large);
}

static void test_lists(void **state) {
    (void)state;
    struct job *job;
    assert_ok(parse(&job, "sweep:\n  tasks: [emotion, 'stance/abortion', none]\n  seeds: [1, 18446744073709551615]\n"
                          "  rates:\n    - 3e-5\n    - 0.00010\n"));
    assert_int_equal(job->sweep.tasks.n, 3);
    assert_string_equal(job->sweep.tasks.at[1], "stance/abortion");
    assert_string_equal(job->sweep.tasks.at[2], "none");
    assert_int_equal(job->sweep.seeds.n, 2);
    assert_string_equal(job->sweep.seeds.at[1], "18446744073709551615");
    assert_int_equal(job->sweep.rates.n, 2);
    assert_string_equal(job->sweep.rates.at[0], "3.0e-05");
    assert_string_equal(job->sweep.rates.at[1], "0.0001");
    job_free(job);
    // one value without brackets; a flag is stronger, "none" and nothing are the empty list
    const char *const flags[] = {"--sweep.tasks", "none", "--sweep.seeds=", "--sweep.rates", "1,2"};
    const char *yaml = "sweep: {tasks: emotion, seeds: 7, rates: 1}\n";
    assert_ok(parse(&job, yaml));
    assert_true(job->sweep.tasks.n == 1 && job->sweep.seeds.n == 1 && job->sweep.rates.n == 1);
    job_free(job);
    assert_ok(job_parse(&job, yaml, strlen(yaml), "x.yaml", flags, 5, JOB_NEED_NOTHING));
    assert_true(job->sweep.tasks.n == 0 && job->sweep.seeds.n == 0 && job->sweep.rates.n == 2);
    job_free(job);
    assert_ok(parse(&job, "sweep: {tasks: [], seeds: none}\n"));
    assert_true(job->sweep.tasks.n == 0 && job->sweep.seeds.n == 0);
    job_free(job);

    REFUSED("sweep: {rates: [3e-5, 0.00003]}", "x.yaml:1: sweep.rates: 3.0e-05 is in the list twice");
    REFUSED("sweep: {seeds: [1, 01, 1]}", "sweep.seeds");
    REFUSED("sweep:\n  tasks: [a, b, a]\n", "x.yaml:2: sweep.tasks: a is in the list twice");
    REFUSED("sweep: {rates: [1, -1]}", "sweep.rates: '-1'", "from 0");
    REFUSED("sweep: {seeds: [1.5]}", "sweep.seeds: '1.5'", "an integer from 0");
    REFUSED("sweep: {seeds: ['1']}", "sweep.seeds", "in quotes");
    REFUSED("sweep: {tasks: [a, [b]]}", "sweep.tasks", "a list of plain values");
    REFUSED("sweep: {tasks: [a, ~]}", "sweep.tasks");
    REFUSED("sweep: {task: [a]}", "did you mean sweep.tasks?");
    refused_flags(LIST("--sweep.rates", "[1,2"), LIST("--sweep.rates", "no list"));
    refused_flags(LIST("--sweep.rates", "1,,2"), LIST("--sweep.rates", "empty value"));
    refused_flags(LIST("--sweep.tasks", "a[b"), LIST("--sweep.tasks", "'a[b'"));
    char many[400] = "";
    for (int i = 0, at = 0; i <= JOB_LIST_MAX; i++) {
        at += snprintf(many + at, sizeof many - (size_t)at, "%s%d", i ? "," : "", i);
        const char *const seeds[] = {"--sweep.seeds", many};
        if (i == JOB_LIST_MAX)
            break;
        assert_ok(job_read(&job, NULL, seeds, 2, JOB_NEED_NOTHING));
        assert_int_equal(job->sweep.seeds.n, i + 1);
        job_free(job);
    }
    refused_flags(LIST("--sweep.seeds", many), LIST("--sweep.seeds", "more than 64"));
    // no part of what defines a run
    for (size_t i = 0; job_key(i); i++)
        assert_false(strncmp(job_key(i), "sweep.", 6) == 0 && job_key_defines_run(i));
}

// ---- what is printed reads back as the same job

static uint64_t dice;

static uint64_t roll(uint64_t n) {
    dice = rng_mix(dice, 1);
    return dice % n;
}

static const char *const texts[] = {
    "none",         "a b",     "it's", "\"q\\\"", "1.5",  "true", "no",         "\xc3\xa4\xe2\x80\xa8\xc2\x85z",
    "x: y # z",     "- a",     "{a}",  "~",       "null", ".inf", "a:",         "\xf0\x9f\x98\x80 tweet",
    "\xef\xbb\xbf", "*a",      "&a",   "!x",      "%d",   "@x",   "`",          "a,b",
    "  blanks  ",   "<out>/x", "./-",  "=",       "?",    "0x10", "2020-01-01", "\xef\xbf\xbf"};

static void random_number(char *out, size_t size, const struct option *option) {
    if (option->words[0].word && roll(3) == 0) {
        snprintf(out, size, "%s", option->words[option->words[1].word ? roll(2) : 0].word);
    } else if (option->type == OPTION_INTEGER && (option->flags & OPTION_POWER_OF_TWO)) {
        snprintf(out, size, "%d", 1 << roll(4));
    } else if (option->type == OPTION_INTEGER) {
        snprintf(out, size, "%lld",
                 (long long)(option->least + (double)roll((uint64_t)(option->most - option->least) + 1)));
    } else {
        double share = (double)(1 + roll(1 << 30)) / (1 << 30), most = option->most - option->least;
        snprintf(out, size, "%.17g", option->least + (share < 1 ? share : 0.5) * most * (roll(2) ? 1 : 1e-12));
    }
}

// Up to two values, which must differ.
static void random_list(char *out, size_t size, const struct option *option) {
    enum option_type type = option_find(option->each)->type;
    size_t n = sizeof texts / sizeof texts[0], first = roll(n), second = (first + 1 + roll(n - 1)) % n;
    if (type == OPTION_TEXT && !strchr(texts[first], ',') && !strchr(texts[second], ','))
        snprintf(out, size, roll(2) ? "%s,%s" : "[%s]", texts[first], texts[second]);
    else if (type == OPTION_SEED)
        snprintf(out, size, "%llu, %llu", (unsigned long long)roll(UINT64_MAX / 2),
                 (unsigned long long)(UINT64_MAX - roll(1000)));
    else if (type == OPTION_REAL)
        snprintf(out, size, "[%.17g,%.17g]", (double)roll(1000) / 1001, 1 + (double)roll(777) / 777);
    else
        snprintf(out, size, "%s", roll(2) ? "none" : "[]");
}

static void random_value(char *out, size_t size, const struct option *option) {
    size_t names = 0;
    while (option->names && option->names[names])
        names++;
    if (option->type == OPTION_BOOL)
        snprintf(out, size, "%s", roll(2) ? "true" : "false");
    else if (option->type == OPTION_SEED)
        snprintf(out, size, "%llu", (unsigned long long)roll(UINT64_MAX));
    else if (option->type == OPTION_SIZE)
        snprintf(out, size, "%lld", (long long)(roll(1 << 20) << roll(20)));
    else if (option->type == OPTION_PAIR)
        snprintf(out, size, "%.17g,%.17g", (double)roll(1000) / 1000, (double)roll(777) / 777);
    else if (option->type == OPTION_LIST)
        random_list(out, size, option);
    else if (option->type == OPTION_WEIGHTS && roll(2))
        snprintf(out, size, "%.17g,%.17g", (double)(1 + roll(1000)) / 7, (double)(1 + roll(777)) / 1000);
    else if (names)
        snprintf(out, size, "%s",
                 option->names[option->type == OPTION_CHOICE && option->least > 0 ? 1 + roll(names - 1) : roll(names)]);
    else if (option->type == OPTION_TEXT)
        snprintf(out, size, "%s", texts[roll(sizeof texts / sizeof texts[0])]);
    else
        random_number(out, size, option);
}

// Flags for about half of the options: only values that this version takes.
static size_t random_flags(char (*flags)[160]) {
    size_t n = 0;
    for (size_t i = 0; i < options_count; i++) {
        const struct option *option = &options[i];
        char value[100];
        random_value(value, sizeof value, option);
        if (strcmp(option->key, "train.warmup") == 0) // a share
            snprintf(value, sizeof value, "%.17g", (double)roll(1000) / 1001);
        if (strcmp(option->key, "train.batch") == 0) // not below train.parts
            snprintf(value, sizeof value, "%d", (int)(8 + roll(1000)));
        if (strcmp(option->key, "model.head") == 0) // of questions, there are no classes to weigh
            snprintf(value, sizeof value, "%s", option->fallback);
        if (option->later && (strcmp(option->later, "*") == 0 || strstr(option->later, value)))
            snprintf(value, sizeof value, "%s", option->fallback);
        if (strcmp(value, "~") == 0 && option->range && strstr(option->range, "path")) // a home that no shell filled in
            snprintf(value, sizeof value, "~x");
        if (roll(2) && !(strchr(value, '<') && option->key[0] != 'c') &&
            !((option->flags & OPTION_NAME) && strchr(value, '/')))
            snprintf(flags[n++], sizeof flags[0], "--%s=%s", option->key, value);
    }
    return n;
}

static void same_jobs(const struct job *a, const struct job *b, const char *yaml) {
    for (size_t i = 0; job_key(i); i++) {
        char *x = job_value(a, job_key(i)), *y = job_value(b, job_key(i));
        if (strcmp(x, y) != 0)
            fail_msg("%s: %s became %s in\n%s", job_key(i), x, y, yaml);
        free(x);
        free(y);
    }
    assert_memory_equal(&a->train.lr, &b->train.lr, sizeof a->train.lr); // the values, not their text alone
    assert_memory_equal(a->train.betas, b->train.betas, sizeof a->train.betas);
    assert_int_equal(a->model.vocab == NULL, b->model.vocab == NULL);
    if (a->data.dir)
        assert_string_equal(a->data.dir, b->data.dir);
}

static void test_round_trip(void **state) {
    (void)state;
    static char flags[OPTIONS_MAX][160];
    const char *list[OPTIONS_MAX];
    for (unsigned seed = 0; seed < 400; seed++) {
        dice = seed;
        size_t n = random_flags(flags);
        for (size_t i = 0; i < n; i++)
            list[i] = flags[i];
        struct job *job, *again;
        char *yaml, *second, file[200];
        assert_ok(job_read(&job, NULL, list, n, JOB_NEED_NOTHING));
        snprintf(file, sizeof file, "%s.yaml", job->job); // a name that was not given follows the file's
        assert_ok(job_print_yaml(&yaml, job, seed % 2));
        enum status status = job_parse(&again, yaml, strlen(yaml), file, NULL, 0, JOB_NEED_NOTHING);
        if (status != STATUS_OK)
            fail_msg("%s in\n%s", status_message(), yaml);
        same_jobs(job, again, yaml);
        assert_ok(job_print_yaml(&second, again, seed % 2));
        assert_string_equal(yaml, second);
        free(yaml);
        free(second);
        job_free(job);
        job_free(again);
    }
}

static void test_numbers(void **state) {
    (void)state;
    static const char *const want[][2] = {{"5e-5", "5.0e-05"},
                                          {"0.1", "0.1"},
                                          {"1", "1.0"},
                                          {"-0", "0.0"},
                                          {"1e5", "100000.0"},
                                          {"30", "30.0"},
                                          {"123456.5", "123456.5"},
                                          {"0.000123", "0.000123"},
                                          {"2.5e-7", "2.5e-07"},
                                          {".5", "0.5"}};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        struct job *job;
        const char *const flags[] = {"--train.lr", want[i][0]};
        assert_ok(job_read(&job, NULL, flags, 2, JOB_NEED_NOTHING));
        char *value = job_value(job, "train.lr");
        assert_string_equal(value, want[i][1]);
        free(value);
        job_free(job);
    }
}

static void test_table(void **state) {
    (void)state;
    struct job *job;
    char *text;
    assert_ok(job_read(&job, NULL, NULL, 0, JOB_NEED_NOTHING));
    for (int markdown = 0; markdown < 2; markdown++) {
        assert_ok(job_print_table(&text, job, markdown));
        for (size_t i = 0; job_key(i); i++)
            assert_non_null(strstr(text, job_key(i)));
        free(text);
    }
    assert_null(job_value(job, "no.such"));
    assert_ok(job_print_yaml(&text, job, true)); // paths follow job and out when the file is edited
    assert_non_null(strstr(text, "out: runs/<job> "));
    assert_non_null(strstr(text, "cache: <out>/shards "));
    free(text);
    text = job_value(job, "model.base");
    assert_string_equal(text, "");
    free(text);
    job_free(job);
}

// Design, section 6: what defines a run.
static void test_defines_run(void **state) {
    (void)state;
    static const char *const not [] = {"train.max_tokens", "train.max_steps", "train.max_time", "train.eval_every",
                                       "train.epochs"};
    for (size_t i = 0; job_key(i); i++) {
        const char *key = job_key(i);
        bool want = strncmp(key, "train.", 6) == 0;
        for (size_t j = 0; j < sizeof not / sizeof not [0]; j++)
            want = want && strcmp(key, not [j]) != 0;
        if (strncmp(key, "model.", 6) == 0 || strncmp(key, "data.", 5) == 0)
            continue;
        if (job_key_defines_run(i) != want)
            fail_msg("%s", key);
    }
    assert_false(job_key_defines_run(1000));
}

// Of an empty job every key has its default, also those that follow from others; what is set to something else has not.
// `job` is named after the file.
static void test_defaults(void **state) {
    (void)state;
    struct job *job;
    assert_ok(parse(&job, ""));
    for (size_t i = 0; job_key(i); i++)
        if (!job_key_is_default(job, i) && strcmp(job_key(i), "job") != 0)
            fail_msg("%s is not its default", job_key(i));
    job_free(job);
    assert_ok(parse(&job, "out: o\ndata: {cache: o/shards, task: x}\ncheckpoints: {dir: elsewhere}\n"
                          "export: {to: []}\ntrain: {lr: 5e-5, eps: 1e-7}\n"));
    static const char *const set[] = {"job", "out", "data.task", "checkpoints.dir", "export.to", "train.eps", NULL};
    for (size_t i = 0; job_key(i); i++) {
        bool wanted = false;
        for (size_t k = 0; set[k]; k++)
            wanted = wanted || strcmp(set[k], job_key(i)) == 0;
        if (job_key_is_default(job, i) == wanted)
            fail_msg("%s: taken for %s", job_key(i), wanted ? "its default" : "set");
    }
    job_free(job);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_design),      cmocka_unit_test(test_forms),     cmocka_unit_test(test_flags),
        cmocka_unit_test(test_values),      cmocka_unit_test(test_structure), cmocka_unit_test(test_later),
        cmocka_unit_test(test_needs),       cmocka_unit_test(test_files),     cmocka_unit_test(test_lists),
        cmocka_unit_test(test_round_trip),  cmocka_unit_test(test_numbers),   cmocka_unit_test(test_table),
        cmocka_unit_test(test_defines_run), cmocka_unit_test(test_defaults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
