# SPDX-License-Identifier: Apache-2.0
"""Malformed input of every kind: a table of small edits to good files, each with the exit code and the words of the message.

A row is (name, edit, arguments, code, words). `edit(f)` gets the Files of a fresh workspace; `arguments` name its
files by {…}. Whatever the row, the program ends by itself, says why in one line, prints nothing on standard output and leaves no
temporary file.
"""
import json
import os
import re
import shutil
import struct
import tempfile

import support as s
import torch_files as t

HIDDEN, LAYERS = 16, 1
BIAS = "roberta.encoder.layer.0.output.dense.bias"
WORDS = "roberta.embeddings.word_embeddings.weight"
MAPPING = "d/emotion/mapping.txt"
TRAIN_TEXT, TRAIN_LABELS = "d/emotion/train_text.txt", "d/emotion/train_labels.txt"


# ---- the good workspace

def workspace_make(folder):
    """Everything that is edited: a model, its other forms, data of each format, a run with checkpoints, predictions."""
    at = lambda name: os.path.join(folder, name)
    s.model_make(at("m"), s.LABELS, hidden=HIDDEN, layers=LAYERS, ffn=HIDDEN, positions=50)
    tensors = s.safetensors_read(at("m/model.safetensors"))
    for name in ("bin", "shards"):
        shutil.copytree(at("m"), at(name), ignore=shutil.ignore_patterns("*.safetensors"))
    t.torch_save(at("bin/pytorch_model.bin"), t.state_dict({k: t.whole(v) for k, v in tensors.items()}))
    shards_make(at("shards"), tensors)
    wordpiece_make(at("bert"), tensors)
    s.task_make(at("d"), rows=(12, 6, 6))
    columns_make(folder)
    questions_make(at("qa"))
    os.makedirs(at("pred"))
    shutil.copy(at("d/emotion/test_labels.txt"), at("pred/emotion.txt"))
    with open(at("job.yaml"), "w", encoding="utf-8") as file:
        file.write("# a job\nout: o\nthreads: 1\nmodel:\n  base: random:tiny\ndata:\n  dir: d\n  task: emotion\n  max_length: 40\n"
                   "train:\n  epochs: 1\n  lr: 1.0e-3\n  class_weights: none\nexport:\n  to: [hf]\n")
    result = s.run("run", "--model.base", "m", "--data.dir", "d", "--data.task", "emotion", "--data.max_length", 40, "--out", "run", "--threads", 1,
                   "--train.max_steps", 1, "--train.batch", 4, "--log.level", "error", "--log.tensorboard", "false", cwd=folder)
    if result.rc != 0:
        raise AssertionError(f"the good workspace: {result}")


def shards_make(folder, tensors):
    names = sorted(tensors)
    where = {n: f"model-{i % 2 + 1:05d}-of-00002.safetensors" for i, n in enumerate(names)}
    for file in sorted(set(where.values())):
        s.safetensors_write(os.path.join(folder, file), {n: tensors[n] for n in names if where[n] == file})
    s.json_write(os.path.join(folder, "model.safetensors.index.json"), {"metadata": {}, "weight_map": where})


def wordpiece_make(folder, tensors):
    """A tokenizer of vocab.txt alone."""
    os.makedirs(folder)
    with open(os.path.join(folder, "vocab.txt"), "w", encoding="utf-8") as file:
        file.write("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n##s\na\n")
    s.json_write(os.path.join(folder, "tokenizer_config.json"), {"tokenizer_class": "BertTokenizer", "do_lower_case": True})


def columns_make(folder):
    for ending, separator in (("csv", ","), ("tsv", "\t"), ("jsonl", None)):
        os.makedirs(os.path.join(folder, ending))
        for split, n in (("train", 6), ("val", 3)):
            rows = s.rows_make(n, 3)
            lines = ([separator.join(("text", "label"))] + [separator.join((text.replace(",", " "), s.LABELS[label])) for text, label in rows]
                     if separator else [json.dumps({"text": text, "label": s.LABELS[label]}) for text, label in rows])
            with open(os.path.join(folder, ending, f"{split}.{ending}"), "w", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n")


def questions_make(folder):
    os.makedirs(folder)
    context = "Mirela lives in Torvik."
    for split in ("train", "val"):
        questions = [{"id": f"{split}-{i}", "question": "Where does Mirela live?", "answers": [{"text": "Torvik", "answer_start": 16}]} for i in range(2)]
        s.json_write(os.path.join(folder, f"{split}.json"), {"version": "1.1", "data": [{"title": "t", "paragraphs": [{"context": context, "qas": questions}]}]})


# ---- edits

class Files:
    """A row's workspace: links to the good one's files and folders, each a copy once it is touched; the small edits that the rows are made of."""

    def __init__(self, folder, good):
        self.folder, self.good = folder, good
        os.mkdir(folder)
        for name in os.listdir(good):
            os.symlink(os.path.join(good, name), os.path.join(folder, name))

    def path(self, name):
        top = name.split("/")[0]
        own, good = os.path.join(self.folder, top), os.path.join(self.good, top)
        if os.path.islink(own) and os.readlink(own) == good:
            os.remove(own)
            (shutil.copytree if os.path.isdir(good) else shutil.copy)(good, own, **({"symlinks": True} if os.path.isdir(good) else {}))
        return os.path.join(self.folder, name)

    def get(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def put(self, name, content):
        os.makedirs(os.path.dirname(self.path(name)) or ".", exist_ok=True)
        with open(self.path(name), "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)

    def sub(self, name, old, new):
        old, new = (v.encode() if isinstance(v, str) else v for v in (old, new))
        content = self.get(name)
        assert old in content, f"{name} has no {old!r}"
        self.put(name, content.replace(old, new, 1))

    def line(self, name, number, content):
        """Line `number` (from 1) replaced; None: taken out."""
        lines = self.get(name).split(b"\n")
        lines[number - 1:number] = [] if content is None else [content.encode() if isinstance(content, str) else content]
        self.put(name, b"\n".join(lines))

    def json(self, name, change=None, **keys):
        """Keys of a JSON object set (None: taken out), or change(object)."""
        value = s.json_read(self.path(name))
        if change:
            value = change(value) or value
        for key, new in keys.items():
            if new is None:
                value.pop(key, None)
            else:
                value[key] = new
        s.json_write(self.path(name), value)

    def tensors(self, name, change):
        """change(header) on the header of a safetensors file; what it returns (bytes) is the header as it is."""
        content = self.get(name)
        size = struct.unpack("<Q", content[:8])[0]
        header = json.loads(content[8:8 + size])
        text = change(header) or json.dumps(header).encode()
        self.put(name, struct.pack("<Q", len(text)) + text + content[8 + size:])

    def weights(self, change):
        """change(tensors) on the values of the model's safetensors."""
        values = {k: v.copy() for k, v in s.safetensors_read(self.path("m/model.safetensors")).items()}
        change(values)
        s.safetensors_write(self.path("m/model.safetensors"), values)

    def torch(self, change=None, data=None):
        """bin/pytorch_model.bin of changed tensors, or with other bytes as its pickle."""
        values = {k: t.whole(v) for k, v in s.safetensors_read(self.path("m/model.safetensors")).items()}
        entries = t.entries_make(t.state_dict(change(values) or values if change else values))
        if data is not None:
            entries["pytorch_model/data.pkl"] = data
        t.archive_write(self.path("bin/pytorch_model.bin"), entries)


def put(name, content):
    return lambda f: f.put(name, content)


def sub(name, old, new):
    return lambda f: f.sub(name, old, new)


def line(name, number, content):
    return lambda f: f.line(name, number, content)


def config(**keys):
    return lambda f: f.json("m/config.json", **keys)


def job(text):
    return put("job.yaml", text)


def header(change):
    return lambda f: f.tensors("m/model.safetensors", change)


def entry(name=BIAS, **keys):
    return header(lambda h: h[name].update(keys))


def index(**places):
    return lambda f: f.json("shards/model.safetensors.index.json", lambda v: v["weight_map"].update({k.replace("__", "."): p for k, p in places.items()}))


def cut(name, keep):
    """Keeps so many bytes; negative: takes so many off."""
    return lambda f: f.put(name, f.get(name)[:keep])


def gone(name):
    return lambda f: os.remove(f.path(name))


def nothing(_):
    pass


# ---- commands

JOB = ["config", "{job.yaml}"]
RUN = ["run", "{job.yaml}"]
PREDICT = ["predict", "--model", "{m}", "x"]
PREDICT_BIN = ["predict", "--model", "{bin}", "x"]
PREDICT_SHARDS = ["predict", "--model", "{shards}", "x"]
TOKENIZE = ["tokenize", "--model", "{m}", "x"]
TOKENIZE_BERT = ["tokenize", "--model", "{bert}", "the"]
PREPARE = ["prepare", "--model.base", "random:tiny", "--data.dir", "{d}", "--data.task", "emotion", "--data.max_length", "40", "--out", "{cache}"]
SCORE = ["score", "--data.dir", "{d}", "--predictions", "{pred}", "--task", "emotion"]


def columns(ending, *more):
    return ["prepare", "--model.base", "random:tiny", "--data.format", ending, "--data.dir", "{%s}" % ending, "--data.max_length", "40", "--out", "{cache}", *more]


QUESTIONS = ["prepare", "--model.base", "random:tiny", "--model.head", "question_answering", "--data.format", "squad", "--data.dir", "{qa}", "--data.doc_stride", "8",
             "--data.max_length", "40", "--out", "{cache}"]


def flag(key, value, *words, code=64):
    return (f"--{key} {value}", nothing, ["run", "{job.yaml}", f"--{key}", value], code, (f"--{key}", *words))


NESTED = "[" * 5000
ALIASES = "a: &a [x, x]\nb: &b [*a, *a, *a]\nc: &c [*b, *b, *b]\n"
JOB_FILES = [
    ("a key nobody knows", job("train:\n  epochs: 1\n  bacth: 4\n"), JOB, 64, ("{job.yaml}:3", "bacth", "did you mean train.batch")),
    ("a section nobody knows", job("trian:\n  epochs: 1\n"), JOB, 64, ("{job.yaml}:1", "trian", "did you mean train")),
    ("a key of another section", job("data:\n  lr: 1\n"), JOB, 64, ("{job.yaml}:2", "data.lr")),
    ("a key twice", job("train:\n  epochs: 1\n  epochs: 2\n"), JOB, 64, ("{job.yaml}:3", "train.epochs", "twice", "line 2")),
    ("a section twice", job("train:\n  epochs: 1\ntrain:\n  lr: 1\n"), JOB, 64, ("{job.yaml}:3", "train is given twice", "line 1")),
    ("aliases that multiply", job(ALIASES), JOB, 64, ("{job.yaml}:1",)),
    ("an anchor", job("job: &name b\n"), JOB, 64, ("{job.yaml}:1", "anchor &name")),
    ("an alias", job("job: *name\n"), JOB, 64, ("{job.yaml}:1", "alias *name")),
    ("a merge key", job("<<: {job: a}\n"), JOB, 64, ("{job.yaml}:1", "<<")),
    ("a tag", job("job: !!python/object/apply:os.system [ls]\n"), JOB, 64, ("{job.yaml}:1", "tag")),
    ("a tab as indentation", job("train:\n\tepochs: 1\n"), JOB, 64, ("{job.yaml}:2", "not YAML", "indent with blanks")),
    ("a NUL byte", job(b"job: a\0b\n"), JOB, 64, ("{job.yaml}:1",)),
    ("an escaped NUL", job('job: "a\\0b"\n'), JOB, 64, ("{job.yaml}:1", "NUL")),
    ("a newline in a path", job('out: "a\\nb"\n'), JOB, 64, ("{job.yaml}:1", "out", "a")),
    ("an escape sequence in a path", job('out: "a\\e[31mb"\n'), JOB, 64, ("{job.yaml}:1", "out")),
    ("UTF-16", job("job: a\n".encode("utf-16")), JOB, 64, ("{job.yaml}:1", "0xff", "UTF-8")),
    ("bytes that are no UTF-8", job(b"job: a\n# caf\xe9\n"), JOB, 64, ("{job.yaml}:2", "0xe9", "UTF-8")),
    ("two documents", job("job: a\n---\njob: b\n"), JOB, 64, ("{job.yaml}:2", "second document")),
    ("a list", job("- job\n"), JOB, 64, ("{job.yaml}:1", "keys are wanted")),
    ("a word", job("hello\n"), JOB, 64, ("{job.yaml}:1", "hello", "no job")),
    ("a value where a section is", job("train: 5\n"), JOB, 64, ("{job.yaml}:1", "train", "'5'", "a section")),
    ("a section where a value is", job("train:\n  lr: {a: 1}\n"), JOB, 64, ("{job.yaml}:2", "train.lr", "mapping")),
    ("a list where a value is", job("train:\n  lr: [1]\n"), JOB, 64, ("{job.yaml}:2", "train.lr", "list")),
    ("a list of lists", job("export:\n  to: [[hf]]\n"), JOB, 64, ("{job.yaml}:2", "export.to", "plain values")),
    ("a list that does not end", job("export:\n  to: [hf\n"), JOB, 64, ("{job.yaml}", "not YAML")),
    ("deep nesting", job(NESTED), JOB, 64, ("{job.yaml}:1",)),
    ("a very long key", job("x" * 100000 + ": 1\n"), JOB, 64, ("{job.yaml}:1",)),
    ("a very long value", job("out: " + "x" * 5000 + "\n"), JOB, 64, ("{job.yaml}:1", "out", "...")),
    ("a very long file", job("# " + "x" * (2 << 20) + "\n"), JOB, 64, ("{job.yaml}", "larger")),
    ("a number in quotes", job('train:\n  epochs: "3"\n'), JOB, 64, ("{job.yaml}:2", "train.epochs", "in quotes it is a string")),
    ("yes for true", job("data:\n  truncation: yes\n"), JOB, 64, ("{job.yaml}:2", "data.truncation", "write true")),
    ("no value", job("train:\n  lr:\n"), JOB, 64, ("{job.yaml}:2", "train.lr", "empty")),
    ("not a number", job("train:\n  lr: .nan\n"), JOB, 64, ("{job.yaml}:2", "train.lr", ".nan")),
    ("nan", job("train:\n  lr: nan\n"), JOB, 64, ("{job.yaml}:2", "train.lr", "'nan'")),
    ("infinite", job("train:\n  clip: inf\n"), JOB, 64, ("{job.yaml}:2", "train.clip", "'inf'")),
    ("a number beyond double", job("train:\n  lr: 1e999\n"), JOB, 64, ("{job.yaml}:2", "train.lr", "1e999")),
    ("a hexadecimal number", job("train:\n  lr: 0x10\n"), JOB, 64, ("{job.yaml}:2", "train.lr", "0x10")),
    ("a number beyond 64 bits", job("train:\n  epochs: 99999999999999999999\n"), JOB, 64, ("{job.yaml}:2", "train.epochs")),
    ("a fraction of an epoch", job("train:\n  epochs: 1.5\n"), JOB, 64, ("{job.yaml}:2", "train.epochs", "1.5")),
    ("a negative rate", job("train:\n  lr: -1\n"), JOB, 64, ("{job.yaml}:2", "train.lr", "-1", "allowed")),
    ("an eps of 0", job("train:\n  eps: 0\n"), JOB, 64, ("{job.yaml}:2", "train.eps", "excluded")),
    ("a beta of 1", job("train:\n  betas: [0.9, 1.0]\n"), JOB, 64, ("{job.yaml}:2", "train.betas", "1.0")),
    ("three betas", job("train:\n  betas: [0.9, 0.99, 0.999]\n"), JOB, 64, ("{job.yaml}:2", "train.betas")),
    ("a class weight of nan", job("train:\n  class_weights: [1, nan]\n"), JOB, 64, ("{job.yaml}:2", "train.class_weights", "nan")),
    ("a class weight of 0", job("train:\n  class_weights: [1, 0]\n"), JOB, 64, ("{job.yaml}:2", "train.class_weights")),
    ("a negative class weight", job("train:\n  class_weights: [1, -1]\n"), JOB, 64, ("{job.yaml}:2", "train.class_weights")),
    ("an infinite class weight", job("train:\n  class_weights: [1, inf]\n"), JOB, 64, ("{job.yaml}:2", "train.class_weights")),
    ("class weights of other classes", sub("job.yaml", "class_weights: none", "class_weights: [1, 2]"), RUN, 64, ("train.class_weights", "2 numbers", "4 classes")),
    ("three parts", job("train:\n  parts: 3\n"), JOB, 64, ("{job.yaml}:2", "train.parts", "power of two")),
    ("a size of parsecs", job("checkpoints:\n  buffer: 12parsecs\n"), JOB, 64, ("{job.yaml}:2", "checkpoints.buffer", "12parsecs")),
    ("a size beyond 64 bits", job("checkpoints:\n  buffer: 99999999999GiB\n"), JOB, 64, ("{job.yaml}:2", "checkpoints.buffer")),
    ("an exporter twice", job("export:\n  to: [hf, hf]\n"), JOB, 64, ("{job.yaml}:2", "export.to")),
    ("an unknown exporter", job("export:\n  to: [tflite]\n"), JOB, 64, ("{job.yaml}:2", "export.to", "tflite")),
    ("a bucket without a name", job("export:\n  s3: s3://\n"), JOB, 64, ("{job.yaml}:2", "export.s3")),
    ("a name with a slash", job("job: a/b\n"), JOB, 64, ("{job.yaml}:1", "job", "without /")),
    ("a name of dots", job("job: ..\n"), JOB, 64, ("{job.yaml}:1", "job")),
    ("out in itself", job("out: <out>/a\n"), JOB, 64, ("out", "itself")),
    ("warmup of one step and a half", job("train:\n  warmup: 1.5\n"), JOB, 64, ("{job.yaml}:2", "train.warmup", "1.5")),
    ("no model", job("out: o\n"), RUN, 64, ("{job.yaml}", "model.base must be given")),
    ("a job that is a folder", lambda f: (os.remove(f.path("job.yaml")), os.mkdir(f.path("job.yaml"))), JOB, 64, ("{job.yaml}", "folder")),
    ("a job that is not there", gone("job.yaml"), JOB, 64, ("{job.yaml} is not there",)),
    ("a task out of the folder", sub("job.yaml", "task: emotion", "task: ../d/emotion"), RUN, 64, ("data.task", "../d/emotion", "not the name of a folder")),
    ("a task that is a path", sub("job.yaml", "task: emotion", "task: /etc"), RUN, 64, ("data.task", "/etc")),
    ("a hidden task", sub("job.yaml", "task: emotion", "task: .git"), RUN, 64, ("data.task", ".git")),
    ("a slip of a task", sub("job.yaml", "task: emotion", "task: emotoin"), RUN, 64, ("data.task", "emotoin", "did you mean emotion")),
    ("a base of the hub", sub("job.yaml", "random:tiny", "cardiffnlp/twitter-roberta-base"), RUN, 65, ("model.base", "nothing is downloaded")),
    ("a random base nobody knows", sub("job.yaml", "random:tiny", "random:huge"), RUN, 64, ("random:huge", "random:tiny")),
    ("longer than the model", sub("job.yaml", "max_length: 40", "max_length: 513"), RUN, 64, ("data.max_length", "513", "512")),
    ("more layers frozen than there are", nothing, [*RUN, "--train.freeze", "9"], 64, ("train.freeze", "9", "layers")),
    ("an example above max_tokens", nothing, [*RUN, "--train.max_tokens", "4"], 64, ("train.max_tokens", "4", "longest example")),
]

FLAGS = [
    flag("train.lr", "nan", "'nan'"), flag("train.lr", "-inf", "'-inf'"), flag("train.eps", "inf", "'inf'"), flag("train.clip", "nan", "'nan'"),
    flag("train.weight_decay", "nan", "'nan'"), flag("train.betas", "nan,0.9", "nan"), flag("train.class_weights", "1,nan,1,1", "nan"),
    flag("train.class_weights", "1,0,1,1"), flag("train.label_smoothing", "1", "excluded"), flag("train.max_time", "inf", "'inf'"),
    flag("train.warmup", "nan", "'nan'"), flag("train.layer_decay", "0", "excluded"), flag("comm.timeout", "nan", "'nan'"),
    flag("train.seed", "18446744073709551616"), flag("train.batch", "0x10", "0x10"), flag("threads", "-1", "-1"), flag("log.every", "0"),
    flag("train.schedule", "linaer", "linear"), flag("sweep.seeds", "1,1"),
    ("a flag without a value", nothing, ["run", "{job.yaml}", "--train.lr"], 64, ("--train.lr", "value")),
    ("a flag nobody knows", nothing, ["predict", "--model", "{m}", "--btach", "4", "x"], 64, ("--btach",)),
    ("a word too many", nothing, ["run", "{job.yaml}", "again"], 64, ("again",)),
    ("bytes that are no UTF-8 in a flag", nothing, ["run", "{job.yaml}", "--out", b"a\xff"], 64, ("--out", "not UTF-8")),
    ("a length of 0", nothing, [*TOKENIZE, "--max-length", "0"], 64, ("--max-length", "0")),
    ("a length beyond 64 bits", nothing, [*TOKENIZE, "--max-length", "99999999999999999999"], 64, ("--max-length",)),
    ("a split nobody knows", nothing, ["eval", "--model", "{m}", "--data.dir", "{d}", "--data.task", "emotion", "--split", "tset"], 64, ("--split", "tset", "test")),
    ("no data to evaluate", nothing, ["eval", "--model", "{m}"], 64, ("--data.dir",)),
    ("a format that eval lacks", nothing, ["eval", "--model", "{m}", "--data.dir", "{d}", "--data.format", "xml"], 64, ("--data.format", "xml")),
    ("a file to answer that is not there", nothing, ["predict", "--model", "{m}", "--file", "{none.csv}"], 65, ("{none.csv}", "No such file")),
    ("a bench nobody knows", nothing, ["bench", "gpu"], 64, ("gpu",)),
    ("an exporter nobody knows", nothing, ["export", "--from", "{m}", "--to", "onxn", "--out", "{e}"], 64, ("--to", "onxn", "hf")),
    ("an exporter of later", nothing, ["export", "--from", "{m}", "--to", "onnx", "--out", "{e}"], 64, ("onnx", "not in this version")),
    ("export into a file", nothing, ["export", "--from", "{m}", "--to", "hf", "--out", "{job.yaml}"], 64, ("{job.yaml}", "is a file")),
    ("export over other files", nothing, ["export", "--from", "{m}", "--to", "hf", "--out", "{d}"], 64, ("{d}", "other files")),
    ("export over the working directory", nothing, ["export", "--from", "m", "--to", "hf", "--out", "."], 64, ("--out", "working directory")),
    ("export above the working directory", nothing, ["export", "--from", "m", "--to", "hf", "--out", ".."], 64, ("--out", "working directory")),
    ("export over the root", nothing, ["export", "--from", "{m}", "--to", "hf", "--out", "/"], 64, ("--out /", "working directory")),
    ("export to a link to nothing", lambda f: os.symlink("none", f.path("e")), ["export", "--from", "{m}", "--to", "hf", "--out", "{e}"], 74, ("{e}", "leads to none, which is not there")),
    ("export of nothing", nothing, ["export", "--from", "{none}", "--to", "hf", "--out", "{e}"], 65, ("{none}", "neither a model directory")),
    ("inspect of text", nothing, ["inspect", "{job.yaml}"], 65, ("{job.yaml}",)),
    ("inspect of nothing", nothing, ["inspect", "{none}"], 65, ("{none}",)),
    ("inspect of an empty folder", lambda f: os.mkdir(f.path("e")), ["inspect", "{e}"], 65, ("{e}",)),
    ("a report of data", nothing, ["report", "{d}"], 65, ("{d}", "no run's folder")),
    ("a report of a model", nothing, ["report", "{run/model}"], 65, ("{run/model}", "name the run's out")),
    ("a report of garbage", put("run/events.jsonl", "garbage\n"), ["report", "{run}"], 65, ("{run/events.jsonl}:1", "no event")),
    ("a report of another JSON", put("run/events.jsonl", "\n[1]\n{\"event\": 5}\n"), ["report", "{run}"], 65, ("{run/events.jsonl}:2", "no event")),
    ("a broken report.json", cut("run/report.json", -20), ["report", "{run}"], 65, ("{run/report.json}",)),
    ("a list as report.json", put("run/report.json", "[]"), ["report", "{run}"], 65, ("{run/report.json}",)),
    ("a broken job.yaml of a run", put("run/job.yaml", "train:\n  lr: fast\n"), ["report", "{run}"], 65, ("{run/job.yaml}:2", "train.lr", "fast")),
    ("a sweep of tasks that lead away", nothing, ["sweep", "{job.yaml}", "--sweep.tasks", "../d/emotion"], 64, ("../d/emotion",)),
    ("a sweep of rates that are none", nothing, ["sweep", "{job.yaml}", "--sweep.rates", "1e-3,nan"], 64, ("--sweep.rates", "nan")),
    ("a run's own checkpoints as data", nothing, ["run", "{job.yaml}", "--checkpoints.resume", "{d}"], 65, ("{d}",)),
]

TEXTS = [
    ("a row of text less", line(TRAIN_TEXT, 3, None), PREPARE, 65, ("{%s}" % TRAIN_TEXT, "11 rows", "12")),
    ("a row of labels less", line(TRAIN_LABELS, 3, None), PREPARE, 65, ("{%s}" % TRAIN_LABELS, "11", "12")),
    ("a blank row of labels", lambda f: f.put(TRAIN_LABELS, f.get(TRAIN_LABELS) + b"\n"), PREPARE, 65, ("last row of labels is blank",)),
    ("a label above the mapping's", line(TRAIN_LABELS, 5, "4"), PREPARE, 65, ("{%s}:5" % TRAIN_LABELS, '"4"', "0 to 3")),
    ("a negative label", line(TRAIN_LABELS, 5, "-1"), PREPARE, 65, ("{%s}:5" % TRAIN_LABELS, '"-1"')),
    ("a label with a sign", line(TRAIN_LABELS, 5, "+1"), PREPARE, 65, ("{%s}:5" % TRAIN_LABELS, '"+1"')),
    ("a label with a zero before it", line(TRAIN_LABELS, 5, "01"), PREPARE, 65, ("{%s}:5" % TRAIN_LABELS, '"01"')),
    ("a label that is a word", line(TRAIN_LABELS, 5, "joy"), PREPARE, 65, ("{%s}:5" % TRAIN_LABELS, '"joy"')),
    ("a label beyond 32 bits", line(TRAIN_LABELS, 5, "4294967296"), PREPARE, 65, ("{%s}:5" % TRAIN_LABELS, '"4294967296"')),
    ("a label beyond 64 bits", line(TRAIN_LABELS, 5, "18446744073709551617"), PREPARE, 65, ("{%s}:5" % TRAIN_LABELS,)),
    ("labels with CRLF", lambda f: f.put(TRAIN_LABELS, f.get(TRAIN_LABELS).replace(b"\n", b"\r\n")), PREPARE, 65, ("{%s}:1" % TRAIN_LABELS, "CRLF")),
    ("a NUL in a label", line(TRAIN_LABELS, 2, b"1\0"), PREPARE, 65, ("{%s}:2" % TRAIN_LABELS, "\\x00")),
    ("text that is no UTF-8", line(TRAIN_TEXT, 7, b"caf\xe9 end"), PREPARE, 65, ("{%s}:7" % TRAIN_TEXT, "0xe9", "column 4")),
    ("half a character at the end", line(TRAIN_TEXT, 7, b"\xf0\x9f\x98"), PREPARE, 65, ("{%s}:7" % TRAIN_TEXT, "0xf0")),
    ("an overlong slash", line(TRAIN_TEXT, 7, b"\xc0\xaf"), PREPARE, 65, ("{%s}:7" % TRAIN_TEXT, "0xc0")),
    ("a surrogate", line(TRAIN_TEXT, 7, b"\xed\xa0\x80"), PREPARE, 65, ("{%s}:7" % TRAIN_TEXT, "0xed")),
    ("text as UTF-16", lambda f: f.put(TRAIN_TEXT, f.get(TRAIN_TEXT).decode().encode("utf-16")), PREPARE, 65, ("{%s}:1" % TRAIN_TEXT, "UTF-16")),
    ("no rows at all", lambda f: (f.put(TRAIN_TEXT, ""), f.put(TRAIN_LABELS, "")), PREPARE, 65, ("train", "no rows")),
    ("a split less", gone("d/emotion/val_text.txt"), PREPARE, 65, ("val_text.txt",)),
    ("a text file that is a folder", lambda f: (os.remove(f.path(TRAIN_TEXT)), os.mkdir(f.path(TRAIN_TEXT))), PREPARE, 65, ("{%s}" % TRAIN_TEXT, "folder")),
    ("a text file that is a pipe", lambda f: (os.remove(f.path(TRAIN_TEXT)), os.mkfifo(f.path(TRAIN_TEXT))), PREPARE, 65, ("{%s}" % TRAIN_TEXT, "not a regular file")),
    ("a text file that is a loop of links", lambda f: (os.remove(f.path(TRAIN_TEXT)), os.symlink("train_text.txt", f.path(TRAIN_TEXT))), PREPARE, 65, ("{%s}" % TRAIN_TEXT, "symbolic links")),
    ("no mapping", gone(MAPPING), PREPARE, 65, ("mapping.txt is missing",)),
    ("an empty mapping", put(MAPPING, ""), PREPARE, 65, ("{%s}" % MAPPING,)),
    ("an id twice", put(MAPPING, "0\ta\n0\tb\n"), PREPARE, 65, ("{%s}:2" % MAPPING, "id 0 occurs twice")),
    ("a name twice", put(MAPPING, "0\ta\n1\ta\n2\tb\n3\tc\n"), PREPARE, 65, ("{%s}" % MAPPING, '"a" occurs twice')),
    ("an id left out", put(MAPPING, "0\ta\n2\tb\n"), PREPARE, 65, ("{%s}:2" % MAPPING,)),
    ("an id that is a word", put(MAPPING, "x\ta\n"), PREPARE, 65, ("{%s}:1" % MAPPING, '"x"')),
    ("no tab", put(MAPPING, "0 a\n"), PREPARE, 65, ("{%s}:1" % MAPPING,)),
    ("no name", put(MAPPING, "0\t\n"), PREPARE, 65, ("{%s}:1" % MAPPING,)),
    ("a name that is no UTF-8", put(MAPPING, b"0\ta\n1\t\xff\n"), PREPARE, 65, ("{%s}:2" % MAPPING,)),
    ("a name with a NUL", put(MAPPING, b"0\ta\n1\tb\0c\n"), PREPARE, 65, ("{%s}:2" % MAPPING,)),
    ("more labels than can be scored", put(MAPPING, "".join(f"{i}\tl{i}\n" for i in range(1001))), PREPARE, 65, ("{%s}" % MAPPING, "1001 labels", "1000")),
    ("a text cut where that is refused", line(TRAIN_TEXT, 1, "word " * 60), [*PREPARE, "--data.truncation", "false"], 65, ("{%s}:1" % TRAIN_TEXT, "302 tokens", "40")),
    ("predictions: a row less", line("pred/emotion.txt", 1, None), SCORE, 65, ("{pred/emotion.txt}", "5 rows", "6")),
    ("predictions: names", put("pred/emotion.txt", "joy\n" * 6), SCORE, 65, ("{pred/emotion.txt}:1", '"joy"')),
    ("predictions: a class of another task", line("pred/emotion.txt", 2, "4"), SCORE, 65, ("{pred/emotion.txt}:2", '"4"', "0 to 3")),
    ("predictions: probabilities", line("pred/emotion.txt", 2, "0.5"), SCORE, 65, ("{pred/emotion.txt}:2", '"0.5"')),
    ("predictions: CRLF", line("pred/emotion.txt", 2, b"1\r"), SCORE, 65, ("{pred/emotion.txt}:2", "CRLF")),
    ("predictions: bytes", put("pred/emotion.txt", bytes(range(256))), SCORE, 65, ("{pred/emotion.txt}:1",)),
    ("predictions: nothing", put("pred/emotion.txt", ""), SCORE, 65, ("{pred/emotion.txt}", "0 rows")),
    ("predictions: none", gone("pred/emotion.txt"), SCORE, 65, ("emotion.txt",)),
    ("predictions: a folder", lambda f: (os.remove(f.path("pred/emotion.txt")), os.mkdir(f.path("pred/emotion.txt"))), SCORE, 65, ("{pred/emotion.txt}", "folder")),
    ("predictions: a task of its own", nothing, [*SCORE[:-1], "emotoin"], 64, ("--task", "emotoin")),
    ("predictions: out of the folder", nothing, [*SCORE[:-1], "../d/emotion"], 64, ("--task", "../d/emotion")),
]

COLUMNS = [
    ("csv: an empty file", put("csv/train.csv", ""), columns("csv"), 65, ("{csv/train.csv}",)),
    ("csv: no such column", line("csv/train.csv", 1, "tweet,label"), columns("csv"), 65, ("{csv/train.csv}", "text", "tweet")),
    ("csv: a column twice", line("csv/train.csv", 1, "text,text"), columns("csv"), 65, ("{csv/train.csv}", "text")),
    ("csv: a field more", line("csv/train.csv", 3, "a,joy,b"), columns("csv"), 65, ("{csv/train.csv}:3", "3", "2")),
    ("csv: a field less", line("csv/train.csv", 3, "a"), columns("csv"), 65, ("{csv/train.csv}:3", "1", "2")),
    ("csv: a quote that does not end", line("csv/train.csv", 3, '"a,joy'), columns("csv"), 65, ("{csv/train.csv}:3",)),
    ("csv: a quote in a plain field", line("csv/train.csv", 3, 'a"b,joy'), columns("csv"), 65, ("{csv/train.csv}:3", "quote")),
    ("csv: text behind a quote", line("csv/train.csv", 3, '"a"b,joy'), columns("csv"), 65, ("{csv/train.csv}:3", "quote")),
    ("csv: a bare CR", line("csv/train.csv", 3, "a\rb,joy"), columns("csv"), 65, ("{csv/train.csv}:3",)),
    ("csv: an unknown label", line("csv/val.csv", 2, "a,jjoy"), columns("csv"), 65, ("{csv/val.csv}:2", '"jjoy"')),
    ("csv: no label", line("csv/train.csv", 2, "a,"), columns("csv"), 65, ("{csv/train.csv}:2", "label")),
    ("csv: no UTF-8", line("csv/train.csv", 2, b"caf\xe9,joy"), columns("csv"), 65, ("{csv/train.csv}:2", "0xe9")),
    ("csv: UTF-16", lambda f: f.put("csv/train.csv", f.get("csv/train.csv").decode().encode("utf-16")), columns("csv"), 65, ("{csv/train.csv}:1", "UTF-16")),
    ("csv: tabs for commas", lambda f: f.put("csv/train.csv", f.get("csv/train.csv").replace(b",", b"\t")), columns("csv"), 65, ("{csv/train.csv}", "text")),
    ("csv: no val", gone("csv/val.csv"), columns("csv"), 65, ("val.csv",)),
    ("csv: a pair that is not there", nothing, columns("csv", "--data.columns.pair", "second"), 65, ("{csv/train.csv}", "second")),
    ("csv: only one label", put("csv/train.csv", "text,label\na,joy\nb,joy\n"), columns("csv"), 65, ("{csv/", "joy")),
    ("csv: a label a row", put("csv/train.csv", "text,label\n" + "".join(f"a,{i}\n" for i in range(1001))), columns("csv"), 65, ("{csv/train.csv}", "more than 1000")),
    ("tsv: a quote", line("tsv/train.tsv", 3, '"a\tjoy'), columns("tsv"), 65, ("{tsv/train.tsv}:3",)),
    ("tsv: a field more", line("tsv/train.tsv", 3, "a\tjoy\tb"), columns("tsv"), 65, ("{tsv/train.tsv}:3", "3", "2")),
    ("jsonl: an array", put("jsonl/train.jsonl", '[{"text": "a", "label": "joy"}]\n'), columns("jsonl"), 65, ("{jsonl/train.jsonl}:1", "array")),
    ("jsonl: half a line", lambda f: f.put("jsonl/train.jsonl", f.get("jsonl/train.jsonl")[:-20]), columns("jsonl"), 65, ("{jsonl/train.jsonl}:6", "JSON")),
    ("jsonl: text that is a number", line("jsonl/train.jsonl", 2, '{"text": 5, "label": "joy"}'), columns("jsonl"), 65, ("{jsonl/train.jsonl}:2", "text")),
    ("jsonl: no text", line("jsonl/train.jsonl", 2, '{"label": "joy"}'), columns("jsonl"), 65, ("{jsonl/train.jsonl}:2", "text")),
    ("jsonl: a key twice", line("jsonl/train.jsonl", 2, '{"text": "a", "text": "b", "label": "joy"}'), columns("jsonl"), 65, ("{jsonl/train.jsonl}:2", "duplicate")),
    ("jsonl: deep nesting", line("jsonl/train.jsonl", 2, '{"text": ' + "[" * 100000), columns("jsonl"), 65, ("{jsonl/train.jsonl}:2", "depth")),
    ("jsonl: no UTF-8", line("jsonl/train.jsonl", 2, b'{"text": "\xff", "label": "joy"}'), columns("jsonl"), 65, ("{jsonl/train.jsonl}:2", "0xff")),
    ("jsonl: half a surrogate", line("jsonl/train.jsonl", 2, '{"text": "\\ud800", "label": "joy"}'), columns("jsonl"), 65, ("{jsonl/train.jsonl}:2",)),
    ("squad: an array", put("qa/train.json", "[]"), QUESTIONS, 65, ("{qa/train.json}",)),
    ("squad: no data", put("qa/train.json", "{}"), QUESTIONS, 65, ("{qa/train.json}", "data")),
    ("squad: half a file", cut("qa/train.json", -30), QUESTIONS, 65, ("{qa/train.json}:", "column 4", "near end of file")),
    ("squad: an answer that is elsewhere", sub("qa/train.json", '"answer_start": 16', '"answer_start": 15'), QUESTIONS, 65, ("{qa/train.json}", "train-0", "Torvik")),
    ("squad: an answer behind the context", sub("qa/train.json", '"answer_start": 16', '"answer_start": 1000000'), QUESTIONS, 65, ("{qa/train.json}", "train-0")),
    ("squad: a negative place", sub("qa/train.json", '"answer_start": 16', '"answer_start": -1'), QUESTIONS, 65, ("{qa/train.json}", "train-0")),
    ("squad: an empty answer", sub("qa/train.json", '"text": "Torvik"', '"text": ""'), QUESTIONS, 65, ("{qa/train.json}", "train-0")),
    ("squad: an id twice", sub("qa/train.json", '"train-1"', '"train-0"'), QUESTIONS, 65, ("{qa/train.json}", "train-0")),
    ("squad: a question that is a number", sub("qa/train.json", '"Where does Mirela live?"', "5"), QUESTIONS, 65, ("{qa/train.json}", "question")),
    ("squad: deep nesting", put("qa/train.json", '{"data": ' + "[" * 100000), QUESTIONS, 65, ("{qa/train.json}:1", "depth")),
    ("squad: no head for it", nothing, [a for a in QUESTIONS if a not in ("--model.head", "question_answering")], 64, ("model.head",)),
]

CONFIGS = [
    ("config: not there", gone("m/config.json"), PREDICT, 65, ("{m}", "config.json")),
    ("config: empty", put("m/config.json", ""), PREDICT, 65, ("{m/config.json}:1",)),
    ("config: half", cut("m/config.json", -10), PREDICT, 65, ("{m/config.json}:",)),
    ("config: a list", put("m/config.json", "[]"), PREDICT, 65, ("{m/config.json}", "not a JSON object")),
    ("config: a key twice", sub("m/config.json", "{", '{"hidden_size": 16,'), PREDICT, 65, ("{m/config.json}:", "duplicate")),
    ("config: deep nesting", put("m/config.json", NESTED), PREDICT, 65, ("{m/config.json}:1", "depth")),
    ("config: no size", config(hidden_size=None), PREDICT, 65, ("{m/config.json}", "hidden_size", "missing")),
    ("config: a negative size", config(hidden_size=-16), PREDICT, 65, ("{m/config.json}", "hidden_size", "-16")),
    ("config: a size of 0", config(intermediate_size=0), PREDICT, 65, ("{m/config.json}", "intermediate_size", "0")),
    ("config: a size that is no whole number", config(hidden_size=16.5), PREDICT, 65, ("{m/config.json}", "hidden_size", "16.5")),
    ("config: a size in quotes", config(hidden_size="16"), PREDICT, 65, ("{m/config.json}", "hidden_size", '"16"')),
    ("config: a size beyond 32 bits", config(vocab_size=1 << 40), PREDICT, 65, ("{m/config.json}", "vocab_size", str(1 << 40))),
    ("config: a size beyond 64 bits", sub("m/config.json", '"hidden_size": 16', '"hidden_size": 99999999999999999999'), PREDICT, 65, ("{m/config.json}:",)),
    ("config: heads that do not divide", config(num_attention_heads=3), PREDICT, 65, ("{m/config.json}", "num_attention_heads", "3", "multiple")),
    ("config: more heads than numbers", config(num_attention_heads=4097), PREDICT, 65, ("{m/config.json}", "num_attention_heads", "4097")),
    ("config: another activation", config(hidden_act="swiglu"), PREDICT, 65, ("{m/config.json}", "hidden_act", "swiglu")),
    ("config: another model", config(model_type="llama"), PREDICT, 65, ("{m/config.json}", "model_type", "llama")),
    ("config: no model", config(model_type=None), PREDICT, 65, ("{m/config.json}", "model_type", "missing")),
    ("config: relative positions", config(position_embedding_type="relative_key"), PREDICT, 65, ("{m/config.json}", "position_embedding_type")),
    ("config: a decoder", config(is_decoder=True), PREDICT, 65, ("{m/config.json}", "is_decoder")),
    ("config: a dropout of 1", config(hidden_dropout_prob=1.0), PREDICT, 65, ("{m/config.json}", "hidden_dropout_prob")),
    ("config: a NaN", sub("m/config.json", '"hidden_dropout_prob": 0.1', '"hidden_dropout_prob": NaN'), PREDICT, 65, ("{m/config.json}:", "NaN")),
    ("config: a negative eps", config(layer_norm_eps=-1e-5), PREDICT, 65, ("{m/config.json}", "layer_norm_eps")),
    ("config: padding beyond the vocabulary", config(pad_token_id=100000), PREDICT, 65, ("{m/config.json}", "pad_token_id")),
    ("config: no position left", config(max_position_embeddings=2), PREDICT, 65, ("{m/config.json}", "max_position_embeddings")),
    ("config: label ids with a hole", config(id2label={"0": "a", "2": "b"}), PREDICT, 65, ("{m/config.json}", "id2label")),
    ("config: labels of one name", config(id2label={"0": "a", "1": "a"}), PREDICT, 65, ("{m/config.json}", "id2label", "same name")),
    ("config: a list of architectures that is none", config(architectures="RobertaModel"), PREDICT, 65, ("{m/config.json}", "architectures")),
    ("config: a thousand layers", config(num_hidden_layers=1000), PREDICT, 65, ("{m/model.safetensors}", "layer.1.", "missing")),
    ("config: layers beyond any", config(num_hidden_layers=1001), PREDICT, 65, ("{m/config.json}", "num_hidden_layers", "1001")),
    ("config: another width", config(hidden_size=32), PREDICT, 65, ("{m/model.safetensors}", "16", "32")),
    ("config: another vocabulary", config(vocab_size=1000), PREDICT, 65, ("{m/model.safetensors}", WORDS, "1000")),
    ("config: fewer words than the tokenizer has", config(vocab_size=10), PREDICT, 65, ("{m}", "vocab_size")),
    ("config: another number of labels", config(id2label={"0": "a", "1": "b"}, label2id=None), PREDICT, 65, ("{m}", "head")),
    ("config: a pipe", lambda f: (os.remove(f.path("m/config.json")), os.mkfifo(f.path("m/config.json"))), PREDICT, 65, ("{m/config.json}",)),
    ("config: a loop of links", lambda f: (os.remove(f.path("m/config.json")), os.symlink("config.json", f.path("m/config.json"))), PREDICT, 65, ("{m}", "config.json")),
    ("merges.txt: a loop of links", lambda f: (os.remove(f.path("m/merges.txt")), os.symlink("merges.txt", f.path("m/merges.txt"))), PREDICT, 65, ("{m/merges.txt}", "symbolic links")),
    ("config: a folder", lambda f: (os.remove(f.path("m/config.json")), os.mkdir(f.path("m/config.json"))), PREDICT, 65, ("{m/config.json}", "folder")),
    ("config: larger than any", lambda f: os.truncate(f.path("m/config.json"), 1 << 40), PREDICT, 65, ("{m/config.json}", "larger")),
    ("finetuned.json: half", put("m/finetuned.json", '{"format": 1'), PREDICT, 65, ("{m/finetuned.json}:1", "JSON")),
    ("finetuned.json: newer", put("m/finetuned.json", '{"format": 2}'), PREDICT, 65, ("{m/finetuned.json}", "format", "newer")),
    ("finetuned.json: a length beyond any", put("m/finetuned.json", '{"max_length": 99999999}'), PREDICT, 65, ("{m/finetuned.json}", "max_length", "99999999")),
    ("finetuned.json: an unknown word", put("m/finetuned.json", '{"normalize": "tweets"}'), PREDICT, 65, ("{m/finetuned.json}", "normalize", "tweets")),
]


def clash(h):
    h[BIAS]["data_offsets"] = h[WORDS]["data_offsets"][:1] + [h[WORDS]["data_offsets"][0] + 4 * HIDDEN]


def torch_view(shape, strides, offset=0, elements=HIDDEN, **more):
    """A bias that is a view of a storage of so many elements."""
    import numpy

    return lambda f: f.torch(lambda v: v.update({BIAS: t.Tensor(t.Storage(numpy.zeros(elements, "f4")), shape, strides, offset, **more)}))


def value(number, name=BIAS, place=3):
    def change(tensors):
        tensors[name].reshape(-1)[place] = number
    return lambda f: f.weights(change)


def twice(other):
    def change(tensors):
        tensors[other] = tensors[next(n for n in tensors if n in ("roberta." + other, other.replace("gamma", "weight")))]
    return change


WEIGHTS = [
    ("safetensors: empty", put("m/model.safetensors", ""), PREDICT, 65, ("{m/model.safetensors}",)),
    ("safetensors: seven bytes", put("m/model.safetensors", b"\0" * 7), PREDICT, 65, ("{m/model.safetensors}",)),
    ("safetensors: a header beyond the file", lambda f: f.put("m/model.safetensors", struct.pack("<Q", 1 << 20) + f.get("m/model.safetensors")[8:]), PREDICT, 65, ("{m/model.safetensors}", str(1 << 20))),
    ("safetensors: a header beyond 64 bits", lambda f: f.put("m/model.safetensors", b"\xff" * 8 + f.get("m/model.safetensors")[8:]), PREDICT, 65, ("{m/model.safetensors}",)),
    ("safetensors: a header that is no JSON", header(lambda h: b"{" * 64), PREDICT, 65, ("{m/model.safetensors}", "header", "byte 10")),
    ("safetensors: a header that is a list", header(lambda h: b"[]      "), PREDICT, 65, ("{m/model.safetensors}",)),
    ("safetensors: a name twice", header(lambda h: json.dumps(h).replace(BIAS, WORDS).encode()), PREDICT, 65, ("{m/model.safetensors}", "duplicate")),
    ("safetensors: a tensor behind the end", header(lambda h: h[BIAS].update(data_offsets=[v + (1 << 30) for v in h[BIAS]["data_offsets"]])), PREDICT, 65, ("{m/model.safetensors}", BIAS)),
    ("safetensors: tensors that overlap", header(clash), PREDICT, 65, ("{m/model.safetensors}",)),
    ("safetensors: a hole", header(lambda h: h.pop(BIAS) and None), PREDICT, 65, ("{m/model.safetensors}",)),
    ("safetensors: offsets that fall", header(lambda h: h[BIAS]["data_offsets"].reverse()), PREDICT, 65, ("{m/model.safetensors}", BIAS)),
    ("safetensors: a negative offset", entry(data_offsets=[-64, 0]), PREDICT, 65, ("{m/model.safetensors}", BIAS)),
    ("safetensors: a negative size", entry(shape=[-HIDDEN]), PREDICT, 65, ("{m/model.safetensors}", BIAS)),
    ("safetensors: a size that is no whole number", entry(shape=[16.0]), PREDICT, 65, ("{m/model.safetensors}", BIAS)),
    ("safetensors: sizes whose product overflows", entry(shape=[1 << 32, 1 << 32, HIDDEN]), PREDICT, 65, ("{m/model.safetensors}", BIAS)),
    ("safetensors: sizes whose bytes overflow", entry(shape=[1 << 62, 4]), PREDICT, 65, ("{m/model.safetensors}", BIAS)),
    ("safetensors: more numbers than bytes", entry(shape=[HIDDEN + 1]), PREDICT, 65, ("{m/model.safetensors}", BIAS)),
    ("safetensors: too many dimensions", entry(shape=[1] * 100 + [HIDDEN]), PREDICT, 65, ("{m/model.safetensors}", BIAS)),
    ("safetensors: another type", entry(dtype="F8_E4M3"), PREDICT, 65, ("{m/model.safetensors}", BIAS)),
    ("safetensors: integers for weights", entry(dtype="I64", shape=[HIDDEN // 2]), PREDICT, 65, ("{m/model.safetensors}", BIAS, "I64")),
    ("safetensors: a shape of other sizes", entry(shape=[4, 4]), PREDICT, 65, ("{m/model.safetensors}", BIAS, "[4, 4]", "[16]")),
    ("safetensors: no shape", header(lambda h: h[BIAS].pop("shape") and None), PREDICT, 65, ("{m/model.safetensors}", BIAS)),
    ("safetensors: metadata that is no text", header(lambda h: h.update(__metadata__={"a": 1})), PREDICT, 65, ("{m/model.safetensors}", "__metadata__")),
    ("safetensors: a weight less", lambda f: f.weights(lambda v: v.pop(BIAS)), PREDICT, 65, ("{m/model.safetensors}", BIAS, "missing")),
    ("safetensors: a byte less", cut("m/model.safetensors", -1), PREDICT, 65, ("{m/model.safetensors}",)),
    ("safetensors: a byte more", lambda f: f.put("m/model.safetensors", f.get("m/model.safetensors") + b"\0"), PREDICT, 65, ("{m/model.safetensors}",)),
    ("safetensors: a weight under two names", lambda f: f.weights(twice(BIAS[len("roberta."):])), PREDICT, 65, ("{m/model.safetensors}", BIAS, BIAS[len("roberta."):], "both")),
    ("safetensors: a weight by its old name too", lambda f: f.weights(twice("roberta.embeddings.LayerNorm.gamma")), PREDICT, 65, ("{m/model.safetensors}", "LayerNorm.gamma", "LayerNorm.weight", "both")),
    ("safetensors: NaN", value(float("nan")), PREDICT, 65, ("{m/model.safetensors}", BIAS, "not finite")),
    ("safetensors: infinite", value(float("inf"), WORDS, 1000), PREDICT, 65, ("{m/model.safetensors}", WORDS, "not finite")),
    ("safetensors: NaN in a head", value(float("nan"), "classifier.out_proj.bias", 1), PREDICT, 65, ("{m/model.safetensors}", "classifier.out_proj.bias", "not finite")),
    ("safetensors: NaN in a run's base", value(float("-inf")), ["run", "{job.yaml}", "--model.base", "{m}"], 65, ("{m/model.safetensors}", BIAS, "not finite")),
    ("safetensors: text", put("m/model.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 5\n"), PREDICT, 65, ("{m/model.safetensors}",)),
    ("no weights", gone("m/model.safetensors"), PREDICT, 65, ("{m}", "no weights")),
    ("index: half", cut("shards/model.safetensors.index.json", -9), PREDICT_SHARDS, 65, ("index.json}:".join(("{shards/model.safetensors.", "")),)),
    ("index: no map", put("shards/model.safetensors.index.json", "{}"), PREDICT_SHARDS, 65, ("{shards/model.safetensors.index.json}", "weight_map")),
    ("index: out of the folder", index(**{BIAS.replace(".", "__"): "../m/model.safetensors"}), PREDICT_SHARDS, 65, (BIAS, "../m/model.safetensors", "not the name of a file")),
    ("index: a path", index(**{BIAS.replace(".", "__"): "/etc/passwd"}), PREDICT_SHARDS, 65, (BIAS, "/etc/passwd", "not the name of a file")),
    ("index: the folder", index(**{BIAS.replace(".", "__"): ".."}), PREDICT_SHARDS, 65, (BIAS, '".."', "not the name of a file")),
    ("index: a number", index(**{BIAS.replace(".", "__"): 5}), PREDICT_SHARDS, 65, (BIAS, "not the name of a file")),
    ("index: a shard that is not there", index(**{BIAS.replace(".", "__"): "model-00003-of-00002.safetensors"}), PREDICT_SHARDS, 65, ("model-00003-of-00002.safetensors",)),
    ("index: a tensor that is elsewhere", index(**{BIAS.replace(".", "__"): "model-00001-of-00002.safetensors", WORDS.replace(".", "__"): "model-00001-of-00002.safetensors"}), PREDICT_SHARDS, 65, ("places it in",)),
    ("index: a tensor that nobody has", index(ghost="model-00001-of-00002.safetensors"), PREDICT_SHARDS, 65, ("ghost", "not in")),
    ("index: a shard that is half", cut("shards/model-00002-of-00002.safetensors", 999), PREDICT_SHARDS, 65, ("{shards/model-00002-of-00002.safetensors}",)),
    ("bin: empty", put("bin/pytorch_model.bin", ""), PREDICT_BIN, 65, ("{bin/pytorch_model.bin}",)),
    ("bin: half", cut("bin/pytorch_model.bin", 5000), PREDICT_BIN, 65, ("{bin/pytorch_model.bin}",)),
    ("bin: of before torch 1.6", put("bin/pytorch_model.bin", b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03."), PREDICT_BIN, 65, ("{bin/pytorch_model.bin}", "1.6")),
    ("bin: a call", lambda f: f.torch(data=b"\x80\x02cposix\nsystem\nX\x02\0\0\0ls\x85R."), PREDICT_BIN, 65, ("{bin/pytorch_model.bin}", "posix.system")),
    ("bin: a pickle without an end", lambda f: f.torch(data=b"\x80\x02}"), PREDICT_BIN, 65, ("{bin/pytorch_model.bin}", "pickle")),
    ("bin: a string beyond the pickle", lambda f: f.torch(data=b"\x80\x02X\xff\xff\xff\x7fab."), PREDICT_BIN, 65, ("{bin/pytorch_model.bin}", "pickle")),
    ("bin: a memo beyond any", lambda f: f.torch(data=b"\x80\x02Nr\xff\xff\xff\xff."), PREDICT_BIN, 65, ("{bin/pytorch_model.bin}", "pickle")),
    ("bin: a list of tensors", lambda f: f.torch(data=b"\x80\x02]."), PREDICT_BIN, 65, ("{bin/pytorch_model.bin}", "state_dict")),
    ("bin: a view beyond its storage", torch_view((HIDDEN,), (1,), offset=1), PREDICT_BIN, 65, ("{bin/pytorch_model.bin}", BIAS)),
    ("bin: strides beyond its storage", torch_view((HIDDEN,), (2,)), PREDICT_BIN, 65, ("{bin/pytorch_model.bin}", BIAS)),
    ("bin: a negative stride", torch_view((HIDDEN,), (-1,), offset=HIDDEN - 1), PREDICT_BIN, 65, ("{bin/pytorch_model.bin}",)),
    ("bin: an offset beyond 64 bits", torch_view((HIDDEN,), (1,), offset=1 << 70), PREDICT_BIN, 65, ("{bin/pytorch_model.bin}",)),
    ("bin: strides whose product overflows", torch_view((1 << 40, 1 << 40), (1 << 40, 1)), PREDICT_BIN, 65, ("{bin/pytorch_model.bin}",)),
    ("bin: another shape", torch_view((4, 4), (4, 1)), PREDICT_BIN, 65, ("{bin/pytorch_model.bin}", BIAS, "[4, 4]")),
    ("bin: a weight under two names", lambda f: f.torch(lambda v: v.update({BIAS[len("roberta."):]: v[BIAS]})), PREDICT_BIN, 65, (BIAS, "both")),
]


def tokenizer_json(**keys):
    """A tokenizer.json beside the others, which then counts."""
    model = {"type": "BPE", "vocab": {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "<mask>": 4}, "merges": []}
    return put("m/tokenizer.json", json.dumps({"version": "1.0", "model": {**model, **keys}}))


TOKENIZERS = [
    ("vocab.json: half", cut("m/vocab.json", -9), TOKENIZE, 65, ("{m}", "vocab.json", "line")),
    ("vocab.json: a list", put("m/vocab.json", "[]"), TOKENIZE, 65, ("{m}", "vocab.json")),
    ("vocab.json: an id twice", lambda f: f.json("m/vocab.json", happ=4), TOKENIZE, 65, ("{m}", "vocab.json", "id 4")),
    ("vocab.json: a negative id", lambda f: f.json("m/vocab.json", x=-1), TOKENIZE, 65, ("{m}", "vocab.json", "-1")),
    ("vocab.json: an id beyond any", lambda f: f.json("m/vocab.json", x=1 << 40), TOKENIZE, 65, ("{m}", "vocab.json", str(1 << 40))),
    ("vocab.json: an id that is a word", lambda f: f.json("m/vocab.json", x="y"), TOKENIZE, 65, ("{m}", "vocab.json", '"x"')),
    ("vocab.json: an empty token", lambda f: f.json("m/vocab.json", **{"": 9999}), TOKENIZE, 65, ("{m}", "vocab.json")),
    ("vocab.json: a token too long", lambda f: f.json("m/vocab.json", **{"x" * 2000: 9999}), TOKENIZE, 65, ("{m}", "vocab.json")),
    ("vocab.json: a special token less", lambda f: f.json("m/vocab.json", **{"</s>": None}), TOKENIZE, 65, ("{m}", "</s>")),
    ("vocab.json: a byte less", lambda f: f.json("m/vocab.json", **{"a": None}), TOKENIZE, 65, ("{m}",)),
    ("vocab.json: alone", gone("m/merges.txt"), TOKENIZE, 65, ("{m}", "merges.txt")),
    ("merges.txt: alone", gone("m/vocab.json"), TOKENIZE, 65, ("{m}", "vocab.json")),
    ("merges.txt: one token", lambda f: f.put("m/merges.txt", "#version: 0.2\nha\n"), TOKENIZE, 65, ("{m}", "merges.txt", "line 2", "ha")),
    ("merges.txt: three tokens", lambda f: f.put("m/merges.txt", "#version: 0.2\nh a p\n"), TOKENIZE, 65, ("{m}", "merges.txt", "line 2")),
    ("merges.txt: a token nobody knows", lambda f: f.put("m/merges.txt", "#version: 0.2\nz z\n"), TOKENIZE, 65, ("{m}", "merges.txt", "line 2")),
    ("merges.txt: a merge twice", lambda f: f.put("m/merges.txt", f.get("m/merges.txt") + b"h a\n"), TOKENIZE, 65, ("{m}", "merges.txt", "twice")),
    ("merges.txt: no UTF-8", lambda f: f.put("m/merges.txt", b"\xff \xfe\n"), TOKENIZE, 65, ("{m}", "merges.txt", "line 1")),
    ("vocab.txt: empty", put("bert/vocab.txt", ""), TOKENIZE_BERT, 65, ("{bert}",)),
    ("vocab.txt: a token twice", lambda f: f.put("bert/vocab.txt", f.get("bert/vocab.txt") + b"the\n"), TOKENIZE_BERT, 65, ("{bert}", "vocab.txt:9", "twice")),
    ("vocab.txt: no UTF-8", lambda f: f.put("bert/vocab.txt", f.get("bert/vocab.txt") + b"\xff\n"), TOKENIZE_BERT, 65, ("{bert}", "vocab.txt", "UTF-8")),
    ("vocab.txt: no special tokens", put("bert/vocab.txt", "a\nb\n"), TOKENIZE_BERT, 65, ("{bert}", "[CLS]")),
    ("vocab.txt: a blank line", lambda f: f.put("bert/vocab.txt", f.get("bert/vocab.txt") + b"\nx\n"), TOKENIZE_BERT, 65, ("{bert}", "vocab.txt:9")),
    ("model.vocab: nothing there", lambda f: None, [*RUN, "--dry-run", "--model.base", "random:tiny", "--model.vocab", "{m}/none"], 65,
     ("model.vocab: {m}/none: no tokenizer",)),
    ("merges.txt: a pipe", lambda f: (os.remove(f.path("m/merges.txt")), os.mkfifo(f.path("m/merges.txt"))), TOKENIZE, 65, ("{m/merges.txt}", "not a regular file")),
    ("special_tokens_map.json: no JSON", put("bert/special_tokens_map.json", b"\x00\xffgarbage"), TOKENIZE_BERT, 65, ("{bert}", "special_tokens_map.json")),
    ("special_tokens_map.json: no JSON, and not needed", lambda f: (f.put("bert/special_tokens_map.json", "x"), f.put(
        "bert/tokenizer_config.json", json.dumps({**json.loads(f.get("bert/tokenizer_config.json")), "added_tokens_decoder": {}}))),
     TOKENIZE_BERT, 65, ("{bert}", "special_tokens_map.json")),
    ("special_tokens_map.json: a list, and not needed", lambda f: (f.put("bert/special_tokens_map.json", "[]"), f.put(
        "bert/tokenizer_config.json", json.dumps({**json.loads(f.get("bert/tokenizer_config.json")), "added_tokens_decoder": {}}))),
     TOKENIZE_BERT, 65, ("{bert}", "special_tokens_map.json", "not an object")),
    ("tokenizer_config.json: half", cut("bert/tokenizer_config.json", -3), TOKENIZE_BERT, 65, ("{bert}", "tokenizer_config.json", "line")),
    ("tokenizer_config.json: another class", put("bert/tokenizer_config.json", '{"tokenizer_class": "T5Tokenizer"}'), TOKENIZE_BERT, 65, ("tokenizer_config.json", "T5Tokenizer")),
    ("tokenizer_config.json: a flag that is none", put("bert/tokenizer_config.json", '{"do_lower_case": "yes"}'), TOKENIZE_BERT, 65, ("tokenizer_config.json", "do_lower_case")),
    ("tokenizer_config.json: an id that is none", put("bert/tokenizer_config.json", '{"added_tokens_decoder": {"x": {"content": "y"}}}'), TOKENIZE_BERT, 65, ("tokenizer_config.json", '"x"')),
    ("special_tokens_map.json: a list", put("bert/special_tokens_map.json", "[]"), TOKENIZE_BERT, 65, ("special_tokens_map.json", "object")),
    ("special_tokens_map.json: an unknown token", put("bert/special_tokens_map.json", '{"cls_token": "<none>"}'), TOKENIZE_BERT, 65, ("{bert}", "<none>")),
    ("added_tokens.json: half", put("bert/added_tokens.json", '{"a": '), TOKENIZE_BERT, 65, ("{bert}", "added_tokens.json", "line 1")),
    ("added_tokens.json: another token", put("bert/added_tokens.json", '{"<new>": 8}'), TOKENIZE_BERT, 65, ("{bert}", "added_tokens.json", "<new>")),
    ("tokenizer.json: half", put("m/tokenizer.json", '{"model": '), TOKENIZE, 65, ("{m}", "tokenizer.json", "line 1")),
    ("tokenizer.json: no model", put("m/tokenizer.json", "{}"), TOKENIZE, 65, ("{m}", "tokenizer.json", "model")),
    ("tokenizer.json: another model", tokenizer_json(type="Unigram"), TOKENIZE, 65, ("{m}", "tokenizer.json", "Unigram")),
    ("tokenizer.json: a vocabulary that is a list", tokenizer_json(vocab=[]), TOKENIZE, 65, ("{m}", "tokenizer.json")),
    ("tokenizer.json: deep nesting", put("m/tokenizer.json", NESTED), TOKENIZE, 65, ("{m}", "tokenizer.json", "depth")),
    ("tokenizer.json: larger than any", lambda f: (f.put("m/tokenizer.json", "{"), os.truncate(f.path("m/tokenizer.json"), 1 << 40)), TOKENIZE, 65, ("tokenizer.json", "larger")),
    ("no tokenizer", lambda f: (os.remove(f.path("m/vocab.json")), os.remove(f.path("m/merges.txt"))), TOKENIZE, 65, ("{m}", "no tokenizer")),
]

CHECKPOINT = "run/checkpoints/step-00000001"
MANIFEST = f"{CHECKPOINT}/MANIFEST.json"
INSPECT = ["inspect", "{%s}" % CHECKPOINT]
VERIFY = ["inspect", "--verify", "{%s}" % CHECKPOINT]


def shard_name(f):
    return next(n for n in sorted(os.listdir(f.path("run/shards"))) if n.endswith(".shard") and "train" in n)


def shard(change):
    """The run's train shard as {x.shard}, changed."""
    return lambda f: f.put("x.shard", change(f.get(f"run/shards/{shard_name(f)}")))


SHARD = ["inspect", "{x.shard}"]
RUN_FILES = [
    ("manifest: empty", put(MANIFEST, ""), INSPECT, 65, ("MANIFEST.json",)),
    ("manifest: half", cut(MANIFEST, -30), INSPECT, 65, ("MANIFEST.json",)),
    ("manifest: a list", put(MANIFEST, "[]"), INSPECT, 65, ("MANIFEST.json",)),
    ("manifest: another step", sub(MANIFEST, '"step": 1', '"step": 2'), INSPECT, 65, ("MANIFEST.json",)),
    ("manifest: a file elsewhere", sub(MANIFEST, '"checkpoint.h5"', '"../../checkpoint.h5"'), INSPECT, 65, ("MANIFEST.json",)),
    ("manifest: newer", lambda f: f.put(MANIFEST, re.sub(rb'"format": \d+', b'"format": 99', f.get(MANIFEST))), INSPECT, 65, ("MANIFEST.json",)),
    ("checkpoint: half", cut(f"{CHECKPOINT}/checkpoint.h5", 5000), INSPECT, 65, ("{%s" % CHECKPOINT,)),
    ("checkpoint: a changed byte", lambda f: f.put(f"{CHECKPOINT}/checkpoint.h5", f.get(f"{CHECKPOINT}/checkpoint.h5")[:-1] + b"\x55"), VERIFY, 65, ("{%s" % CHECKPOINT,)),
    ("checkpoint: no job.yaml", gone("run/job.yaml"), ["predict", "--model", "{%s}" % CHECKPOINT, "x"], 65, ("job.yaml", "--job")),
    ("checkpoint: a broken job.yaml", put("run/job.yaml", "train:\n  lr: fast\n"), ["predict", "--model", "{%s}" % CHECKPOINT, "x"], 65, ("job.yaml:2", "fast")),
    ("checkpoint: a broken --job", put("other.yaml", "train:\n  lr: fast\n"), ["eval", "--model", "{%s}" % CHECKPOINT, "--job", "{other.yaml}", "--data.dir", "{d}", "--data.task", "emotion"], 64, ("{other.yaml}:2", "fast")),
    ("shard: empty", shard(lambda b: b""), SHARD, 65, ("{x.shard}",)),
    ("shard: a header alone", shard(lambda b: b[:128]), SHARD, 65, ("{x.shard}",)),
    ("shard: another magic", shard(lambda b: b"X" + b[1:]), SHARD, 65, ("{x.shard}",)),
    ("shard: half", shard(lambda b: b[:len(b) // 2]), SHARD, 65, ("{x.shard}",)),
    ("shard: a changed byte", shard(lambda b: b[:-3] + bytes([b[-3] ^ 1]) + b[-2:]), ["inspect", "--verify", "{x.shard}"], 65, ("{x.shard}",)),
    ("shard: counts beyond the file", shard(lambda b: b[:16] + b"\xff" * 64 + b[80:]), SHARD, 65, ("{x.shard}",)),
]


def expand(text, folder):
    """{name} is the path of a file of the row's workspace; an open brace without an end stands for what begins so."""
    out = ""
    while "{" in text:
        before, _, rest = text.partition("{")
        name, _, text = rest.partition("}") if "}" in rest else (rest, "", "")
        out += before + os.path.join(folder, name)
    return out + text


class Malformed(s.Case):
    @classmethod
    def setUpClass(cls):
        cls.good = tempfile.mkdtemp(prefix="finetuned-test-")
        cls.addClassCleanup(shutil.rmtree, cls.good, ignore_errors=True)
        workspace_make(cls.good)

    def go(self, folder, arguments):
        fill = lambda text: text if isinstance(text, bytes) else expand(text, folder)
        return s.run(*[fill(a) for a in arguments], cwd=folder, timeout=60)

    def refused(self, folder, arguments, code, words):
        result = self.go(folder, arguments)
        self.assertRefused(result, code, *[expand(word, folder) for word in words])
        self.assertEqual(len([line for line in result.err.splitlines() if "error:" in line]), 1, f"one line says why: {result}")
        self.assertNotIn("Sanitizer", result.err)
        self.assertEqual([n for _, _, names in os.walk(folder) for n in names if ".tmp-" in n], [], f"left behind: {result}")

    def check(self, rows):
        failed = []
        for i, (name, edit, arguments, code, words) in enumerate(rows):
            folder = self.path(str(i))
            edit(Files(folder, self.good))
            try:
                self.refused(folder, arguments, code, words)
            except AssertionError as error:
                failed.append(f"{name}: {error}")
            shutil.rmtree(folder)
        self.assertEqual(failed, [], "\n\n".join(failed))

    def test_job_files(self):
        self.check(JOB_FILES)

    def test_flags(self):
        self.check(FLAGS)

    def test_texts(self):
        self.check(TEXTS)

    def test_columns(self):
        self.check(COLUMNS)

    def test_configs(self):
        self.check(CONFIGS)

    def test_weights(self):
        self.check(WEIGHTS)

    def test_tokenizers(self):
        self.check(TOKENIZERS)

    def test_run_files(self):
        self.check(RUN_FILES)

    def test_good(self):
        """The workspace itself is refused by none of the commands: the edits are what is wrong."""
        for arguments in (JOB, PREDICT, PREDICT_BIN, PREDICT_SHARDS, TOKENIZE, TOKENIZE_BERT, PREPARE, SCORE, INSPECT, VERIFY, QUESTIONS, columns("csv"), columns("tsv"),
                          columns("jsonl"), [*RUN, "--dry-run"], ["report", "{run}"]):
            folder = self.path("good")
            Files(folder, self.good)
            result = self.go(folder, arguments)
            self.assertEqual(result.rc, 0, result)
            shutil.rmtree(folder)

    def test_enough(self):
        rows = [*JOB_FILES, *FLAGS, *TEXTS, *COLUMNS, *CONFIGS, *WEIGHTS, *TOKENIZERS, *RUN_FILES]
        self.assertGreaterEqual(len(rows), 150)
        names = [row[0] for row in rows]
        self.assertEqual(len(names), len(set(names)), "a name twice")
        print(f"\n{len(rows)} malformed inputs", flush=True)


if __name__ == "__main__":
    s.main()
