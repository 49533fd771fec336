# SPDX-License-Identifier: Apache-2.0
"""Files that claim more than they hold: no verb takes memory for a claim. And names inside files and links inside model directories: none leads out of
its folder."""
import gzip
import json
import os
import shutil
import struct
import subprocess
import tarfile
import tempfile
import threading

import support as s
import test_malformed as m
import torch_files as t

BOUND = 200 << 20  # bytes of resident memory that a verb may take for a file of a few KiB, whatever that claims
TIB = 1 << 40


def sanitized():
    with open(os.path.join(s.BUILD, "CMakeCache.txt"), encoding="utf-8") as file:
        return any(line.startswith("FINETUNED_SANITIZE:") and line.strip()[-1] != "=" for line in file)


def sparse(name, size=TIB, head=b""):
    """A file of that size on the disk's word alone."""
    def edit(f):
        f.put(name, head)
        os.truncate(f.path(name), size)
    return edit


def device(name, target="/dev/zero"):
    def edit(f):
        os.remove(f.path(name))
        os.symlink(target, f.path(name))
    return edit


def all_of(*edits):
    return lambda f: [edit(f) for edit in edits]


def expanded(hidden, vocab):
    """A pytorch_model.bin of a few KiB whose tensors are views of one number, in the shapes of a model of gigabytes."""
    def edit(f):
        import numpy

        config = {"hidden_size": hidden, "vocab_size": vocab, "num_attention_heads": 16, "intermediate_size": hidden}
        f.json("bin/config.json", **config)
        shapes = s.model_shapes(hidden, m.LAYERS, hidden, vocab, 50, len(s.LABELS))
        one = t.Storage(numpy.zeros(1, "f4"))
        t.archive_write(f.path("bin/pytorch_model.bin"), t.entries_make(t.state_dict({k: t.Tensor(one, v, [0] * len(v)) for k, v in shapes.items()})))
    return edit


def shard_claims(f):
    """The counts of a shard's header, and its size, as large as they can be written."""
    content = f.get(f"run/shards/{m.shard_name(f)}")
    f.put("x.shard", content[:24] + b"\xff\xff\xff\x7f\0\0\0\0" * 6 + content[72:128])
    os.truncate(f.path("x.shard"), TIB)


def manifest_claims(f):
    content = json.loads(f.get(m.MANIFEST))
    content["size"] = TIB
    content["datasets"] = [{**content["datasets"][0], "size": TIB - 8192, "piece": 1}]
    f.put(m.MANIFEST, json.dumps(content))
    os.truncate(f.path(f"{m.CHECKPOINT}/checkpoint.h5"), TIB)


LABELS = {str(i): f"l{i}" for i in range(100000)}
TOKENS = {f"t{i}": (1 << 20) - 1 - i for i in range(10)}
CLAIMS = [  # name, edit, arguments, codes
    ("a header of 2^63 bytes", m.put("m/model.safetensors", struct.pack("<Q", (1 << 63) - 1) + b"{}"), m.PREDICT, (65,)),
    ("a safetensors file of a TiB", sparse("m/model.safetensors"), m.PREDICT, (65,)),
    ("one tensor of a TiB", sparse("m/model.safetensors", 8 + 64 + TIB, struct.pack("<Q", 64) + f'{{"{m.WORDS[:9]}":{{"dtype":"U8","shape":[{TIB}],"data_offsets":[0,{TIB}]}}}}'.encode().ljust(64)), m.PREDICT, (65,)),
    ("a model of 10^12 weights", m.config(hidden_size=65536, vocab_size=1 << 24, num_attention_heads=64), m.PREDICT, (65,)),
    ("a thousand layers", m.config(num_hidden_layers=1000, hidden_size=65536, num_attention_heads=64), m.PREDICT, (65,)),
    ("a hundred thousand labels", m.config(id2label=LABELS, label2id=None), m.PREDICT, (65,)),
    ("a base of gigabytes in a run", m.config(hidden_size=65536, num_attention_heads=64), ["run", "{job.yaml}", "--model.base", "{m}"], (65,)),
    ("a dry run of gigabytes", m.config(hidden_size=65536, num_attention_heads=64), ["run", "{job.yaml}", "--model.base", "{m}", "--dry-run"], (65,)),
    ("views of one number", expanded(1024, 1 << 21), m.PREDICT_BIN, (65,)),
    ("views of one number in a run", expanded(1024, 1 << 21), ["run", "{job.yaml}", "--model.base", "{bin}"], (65,)),
    ("views of one number inspected", expanded(1024, 1 << 21), ["inspect", "{bin/pytorch_model.bin}"], (0, 65)),
    ("a storage of 2^62 numbers", lambda f: f.torch(lambda v: v.update({m.BIAS: t.Tensor(t.Storage([0.0], elements=1 << 62), (16,), (1,))})), m.PREDICT_BIN, (65,)),
    ("a pickle of a string of 2^60", lambda f: f.torch(data=b"\x80\x04\x8d" + struct.pack("<Q", 1 << 60) + b"a."), m.PREDICT_BIN, (65,)),
    ("a pickle that is nothing but marks", lambda f: f.torch(data=b"\x80\x02" + b"(" * 60000 + b"."), m.PREDICT_BIN, (65,)),
    ("a bin of a TiB", sparse("bin/pytorch_model.bin"), m.PREDICT_BIN, (65,)),
    ("an index of a TiB", sparse("shards/model.safetensors.index.json"), m.PREDICT_SHARDS, (65,)),
    ("a config.json without an end", device("m/config.json"), m.PREDICT, (65,)),
    ("a finetuned.json without an end", all_of(m.put("m/finetuned.json", ""), device("m/finetuned.json")), m.PREDICT, (65,)),
    ("a vocab.json of a TiB", sparse("m/vocab.json"), m.TOKENIZE, (65,)),
    ("ids at the ceiling", lambda f: f.json("m/vocab.json", **TOKENS), m.TOKENIZE, (0, 65)),
    ("a merges.txt without an end", device("m/merges.txt"), m.TOKENIZE, (65,)),
    ("a job of a TiB", sparse("job.yaml"), m.JOB, (64,)),
    ("a job of aliases", m.job(m.ALIASES * 1000), m.JOB, (64,)),
    ("a mapping.txt of a TiB", sparse(m.MAPPING), m.PREPARE, (65,)),
    ("a mapping.txt of 100000 names", m.put(m.MAPPING, "".join(f"{i}\tl{i}\n" for i in range(100000))), m.SCORE, (65,)),
    ("a batch beyond any", m.nothing, ["run", "{job.yaml}", "--train.batch", "1048576", "--train.max_tokens", "134217728", "--dry-run"], (0, 64)),
    ("max_tokens beyond any", m.nothing, ["run", "{job.yaml}", "--train.max_tokens", "134217728", "--train.max_steps", "1", "--log.level", "error"], (0,)),
    ("a shard of counts", shard_claims, m.SHARD, (65,)),
    ("a shard of a TiB", sparse("x.shard"), m.SHARD, (65,)),
    ("a manifest of a TiB", sparse(m.MANIFEST), m.INSPECT, (65,)),
    ("a manifest of datasets of a TiB", manifest_claims, m.VERIFY, (65,)),
    ("a checkpoint.h5 of a TiB", lambda f: os.truncate(f.path(f"{m.CHECKPOINT}/checkpoint.h5"), TIB), m.VERIFY, (65,)),
    ("a report.json of a TiB", sparse("run/report.json"), ["report", "{run}"], (65,)),
    ("events of a TiB", sparse("run/events.jsonl"), ["report", "{run}"], (65,)),
    ("an event of nothing but brackets", m.put("run/events.jsonl", "[" * 3000000 + "\n"), ["report", "{run}"], (65,)),
    ("SQuAD of a TiB", sparse("qa/train.json"), m.QUESTIONS, (65,)),
    ("predictions without an end", device("pred/emotion.txt"), m.SCORE, (65,)),
    ("text without an end", device("d/emotion/train_text.txt"), m.PREPARE, (65,)),
    ("an export of 10^12 weights", m.config(hidden_size=65536, vocab_size=1 << 24, num_attention_heads=64), ["export", "--from", "{m}", "--to", "hf", "--out", "{e}"], (65,)),
    ("an evaluation of 10^12 weights", m.config(hidden_size=65536, num_attention_heads=64), ["eval", "--model", "{m}", "--data.dir", "{d}", "--data.task", "emotion"], (65,)),
    ("a file to evaluate without an end", device("csv/train.csv"), ["eval", "--model", "{m}", "--file", "{csv/train.csv}"], (65,)),
    ("a file to answer without an end", device("csv/train.csv"), ["predict", "--model", "{m}", "--file", "{csv/train.csv}"], (65,)),
    ("a model inspected", m.config(hidden_size=65536, vocab_size=1 << 24, num_attention_heads=64), ["inspect", "--verify", "{m}"], (65,)),
    ("a doctor's job of a TiB", sparse("job.yaml"), ["doctor", "{job.yaml}"], (64,)),
    ("a sweep's job of a TiB", sparse("job.yaml"), ["sweep", "{job.yaml}"], (64,)),
    ("a bench's job of a TiB", sparse("job.yaml"), ["bench", "step", "{job.yaml}"], (64,)),
    ("a csv without an end", device("csv/train.csv"), m.columns("csv"), (65,)),
]


class Memory(s.Case):
    @classmethod
    def setUpClass(cls):
        cls.good = tempfile.mkdtemp(prefix="finetuned-test-")
        cls.addClassCleanup(shutil.rmtree, cls.good, ignore_errors=True)
        m.workspace_make(cls.good)

    def measure(self, arguments, folder, stdin=None):
        """Exit code, standard error and the most resident memory (bytes) of one process."""
        with tempfile.TemporaryFile() as err, subprocess.Popen(s.command(arguments), cwd=folder, env=s.environment(), stdin=stdin or subprocess.DEVNULL,
                                                               stdout=subprocess.DEVNULL, stderr=err) as process:
            patience = threading.Timer(s.PATIENCE, process.kill)
            patience.start()
            _, status, usage = os.wait4(process.pid, 0)
            patience.cancel()
            process.returncode = os.waitstatus_to_exitcode(status)
            err.seek(0)
            return process.returncode, err.read().decode("utf-8", "replace"), usage.ru_maxrss << 10

    def check(self, name, codes, arguments, folder, stdin=None):
        with self.subTest(name=name):
            code, err, memory = self.measure([m.expand(a, folder) for a in arguments], folder, stdin)
            self.assertIn(code, codes, f"{arguments}: {err[-1500:]}")
            if not sanitized():
                self.assertLess(memory, BOUND, f"{memory >> 20} MiB for {arguments}: {err[-500:]}")

    def test_claims(self):
        for i, (name, edit, arguments, codes) in enumerate(CLAIMS):
            folder = self.path(str(i))
            edit(m.Files(folder, self.good))
            self.check(name, codes, arguments, folder)
            shutil.rmtree(folder)

    def test_endless_input(self):
        """Standard input that is one line without an end: refused at the ceiling of a text."""
        with open("/dev/zero", "rb") as zero:
            for verb in ("predict", "tokenize"):
                self.check(verb, (65,), [verb, "--model", os.path.join(self.good, "m")], self.folder, zero)

    def test_gzip(self):
        """An archive that unpacks to far more than it is: read in pieces, not into memory."""
        path = self.path("bomb-hf.tar.gz")
        with gzip.open(path, "wb", compresslevel=1) as file, tarfile.open(fileobj=file, mode="w|") as archive:
            entry = tarfile.TarInfo("config.json")
            entry.size = 300 << 20
            archive.addfile(entry, Zeros(entry.size))
        self.assertLess(os.path.getsize(path), 8 << 20)
        self.check("bomb", (0, 65), ["inspect", "--verify", path], self.folder)


class Paths(s.Case):
    """A job's own paths are its user's. A name inside a file, and a link inside a model directory, leads nowhere else."""

    SECRET = "QQsecretQQ of this host"

    def setUp(self):
        super().setUp()
        self.model = s.model_make(self.path("models/m"), s.LABELS, hidden=16, layers=1, ffn=16, positions=50)
        self.secret = self.write("home/secret", json.dumps({"auths": {"registry": {"auth": self.SECRET}}}))

    def nowhere(self, *folders):
        for folder in folders:
            for at, _, names in os.walk(self.path(folder)):
                for name in names:
                    with open(os.path.join(at, name), "rb") as file:
                        self.assertNotIn(self.SECRET.encode(), file.read(), name)

    def test_links_of_a_model(self):
        """Files that are copied as they are: a link out of the folder is refused before anything is made, by every verb."""
        for name in ("README.md", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"):
            for target in (self.secret, "../../home/secret"):
                with self.subTest(name=name, target=target):
                    path = os.path.join(self.model, name)
                    os.symlink(target, path)
                    result = s.run("export", "--from", self.model, "--to", "hf", "--out", self.path("e"))
                    self.assertRefused(result, 65, path, self.secret, "leads out of its folder")
                    if name != "README.md":
                        self.assertRefused(s.run("tokenize", "--model", self.model, "a"), 65, path, "leads out of its folder")
                        data = s.task_make(self.path("d"), rows=(8, 4, 4))
                        result = s.run("run", "--model.base", self.model, "--data.dir", data, "--data.task", "emotion", "--out", self.path("o"), "--data.max_length", 40)
                        self.assertRefused(result, 65, path, "leads out of its folder")
                    self.assertFalse(os.path.exists(self.path("e")))
                    self.nowhere("e", "o")
                    os.remove(path)

    def test_links_that_stay(self):
        """Inside the folder, through a link to the folder itself, and as the hub's cache has them."""
        wanted = s.run("tokenize", "--model", self.model, "happy").out
        os.makedirs(self.path("cache/blobs"))
        os.makedirs(self.path("cache/snapshots/1"))
        for i, name in enumerate(sorted(os.listdir(self.model))):
            shutil.copy(os.path.join(self.model, name), self.path(f"cache/blobs/{i}"))
            os.symlink(f"../../blobs/{i}", self.path(f"cache/snapshots/1/{name}"))
        os.symlink("models/m", self.path("link"))
        shutil.copytree(self.model, self.path("inside"))
        os.rename(self.path("inside/vocab.json"), self.path("inside/real"))
        os.symlink("real", self.path("inside/vocab.json"))
        for folder in ("cache/snapshots/1", "link", "inside"):
            result = s.run("tokenize", "--model", self.path(folder), "happy")
            self.assertExit(result, 0)
            self.assertEqual(result.out, wanted)
        self.assertExit(s.run("export", "--from", self.path("cache/snapshots/1"), "--to", "hf", "--out", self.path("e")), 0)

    def test_tasks(self):
        """A task is a folder of data.dir, whatever it is called and whoever asks."""
        data = s.task_make(self.path("d"))
        s.task_make(self.path("home"))
        for task in ("../home/emotion", "emotion/../../home/emotion", "..", ".", "", "/etc", f"{self.folder}/home/emotion", "emotion/", "a//b", ".hidden", "x" * 300):
            for verb in (["run", "--model.base", "random:tiny", "--data.task", task, "--out", self.path("o")],
                         ["prepare", "--model.base", "random:tiny", "--data.task", task, "--out", self.path("o")],
                         ["eval", "--model", self.model, "--data.task", task], ["score", "--predictions", self.path("p"), "--task", task],
                         ["sweep", self.write("job.yaml", "model:\n  base: random:tiny\n"), "--out", self.path("o"), f"--sweep.tasks={task}"]):
                with self.subTest(task=task[:40], verb=verb[0]):
                    if verb[0] == "sweep" and task == "":
                        continue  # no task at all: the job's own, which is missing
                    self.assertRefused(s.run(*verb, "--data.dir", data), 64)
                    self.assertFalse(os.path.exists(self.path("o")))

    def test_names_of_a_job(self):
        """The job's name becomes files' names, so it is one; what it makes lies in its out, and nothing beside."""
        data = s.task_make(self.path("d"), rows=(8, 4, 4))
        for name in ("../x", "a/b", "..", ".", ""):
            self.assertRefused(s.run("run", "--job", name, "--model.base", "random:tiny", "--data.dir", data, "--data.task", "emotion", "--out", self.path("o")), 64, "job")
        before = set(os.listdir(self.folder))
        self.train("--job", "-rf;$(id)", "--model.base", self.model, "--data.dir", data, "--data.task", "emotion", "--out", self.path("o"), "--data.max_length", 40,
                   "--train.max_steps", 1, "--export.to", "hf,sagemaker", "--threads", 1, cwd=self.folder)
        self.assertEqual(set(os.listdir(self.folder)) - before, {"o"})
        for archive in os.listdir(self.path("o/artifacts")):
            with tarfile.open(self.path("o/artifacts", archive)) as file:
                for entry in file.getmembers():
                    self.assertTrue(entry.isreg() or entry.isdir(), entry.name)
                    self.assertFalse(entry.name.startswith("/") or ".." in entry.name.split("/"), entry.name)


class Zeros:
    """A file of zeros to read from."""

    def __init__(self, left):
        self.left = left

    def read(self, size):
        size = min(size, self.left)
        self.left -= size
        return b"\0" * size


if __name__ == "__main__":
    s.main()
