# SPDX-License-Identifier: Apache-2.0
"""What the tests of the built program share: running it alone and under mpirun, small data sets and models, reading what it wrote.

The environment variables are those of tests/CMakeLists.txt. A file that is missing is skipped out loud; when all is skipped,
the script ends with 77.
"""
import contextlib
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

os.environ["HDF5_USE_FILE_LOCKING"] = "FALSE"

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.environ.get("FINETUNED_SOURCE") or os.path.dirname(os.path.dirname(HERE))
BUILD = os.environ.get("FINETUNED_BUILD") or os.path.join(SOURCE, "build", "dev")
BINARY = os.path.join(BUILD, "finetuned")
PATIENCE = 240  # s that one command may take on a busy machine
LAUNCHER_VARIABLES = ("SLURM_", "PMI_", "PMIX_", "OMPI_", "FINETUNED_FAULT")


# ---- running

class Result:
    """What a command left behind; `err` and `out` are text, bytes that are no UTF-8 replaced."""

    def __init__(self, arguments, rc, out, err):
        self.arguments, self.rc, self.raw = arguments, rc, out
        self.out, self.err = out.decode("utf-8", "replace"), err.decode("utf-8", "replace")

    def __str__(self):
        command = " ".join(str(a) for a in self.arguments)
        return f"{command}\nrc {self.rc}\nstdout: {self.out[-2000:]}\nstderr: {self.err[-3000:]}"

    def lines(self):
        """Standard output as one JSON value a line."""
        return [json.loads(line) for line in self.out.split("\n") if line]


def environment(**more):
    """This process's, without what a launcher around the tests may have set."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHER_VARIABLES)}
    env.update({k: str(v) for k, v in more.items()})
    return env


def mpirun(ranks, *options):
    """The launcher's part of a command line."""
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return ["mpirun", *root, "--oversubscribe", *options, "-np", str(ranks)]


# Open MPI keeps blocks of its own to the end: nothing that starts it is searched for leaks.
MPI_LEAKS = {"ASAN_OPTIONS": "detect_leaks=0"}
MPI_ENVIRONMENT = {
    **MPI_LEAKS,
    "OMPI_MCA_btl": "self,vader",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}


def command(arguments, ranks=0, options=("--bind-to", "none"), before=()):
    """`ranks` 0: the program alone."""
    launcher = mpirun(ranks, *options) if ranks else []
    return [*before, *launcher, BINARY, *[a if isinstance(a, bytes) else str(a) for a in arguments]]


def start(*arguments, ranks=0, env=None, options=("--bind-to", "none"), before=(), cwd=None):
    """A Popen in a process group of its own; finish() waits for it."""
    env = environment(**(MPI_ENVIRONMENT if ranks else {}), **(env or {}))
    process = subprocess.Popen(command(arguments, ranks, options, before), env=env, cwd=cwd, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    return process


def finish(process, timeout=PATIENCE):
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        raise AssertionError(f"no end within {timeout} s: {Result(process.args, None, out, err)}") from None
    return Result(process.args, process.returncode, out, err)


def run(*arguments, ranks=0, stdin=None, env=None, options=("--bind-to", "none"), before=(), cwd=None, timeout=PATIENCE):
    """The program's Result. `stdin`: bytes or text."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    env = environment(**(MPI_ENVIRONMENT if ranks else {}), **(env or {}))
    with subprocess.Popen(command(arguments, ranks, options, before), env=env, cwd=cwd,
                          stdin=subprocess.PIPE if data is not None else subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, start_new_session=True) as process:
        try:
            out, err = process.communicate(data, timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            raise AssertionError(f"no end within {timeout} s: {Result(process.args, None, out, err)}") from None
    return Result(process.args, process.returncode, out, err)


def ranks_of(process, n, timeout=60):
    """Process ids of the `n` ranks below an mpirun, by rank."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline and process.poll() is None:
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                    parent = int(file.read().rpartition(")")[2].split()[1])
                if parent != process.pid or not os.path.samefile(os.readlink(f"/proc/{pid}/exe"), BINARY):
                    continue
                with open(f"/proc/{pid}/environ", "rb") as file:
                    for entry in file.read().split(b"\0"):
                        if entry.startswith(b"OMPI_COMM_WORLD_RANK="):
                            found[int(entry.partition(b"=")[2])] = int(pid)
        if len(found) == n:
            return [found[rank] for rank in range(n)]
        time.sleep(0.05)
    raise AssertionError(f"{n} ranks of process {process.pid} did not appear")


def process_state(pid):
    """The letter of proc(5): R, S, T, …; X: there is none of that number."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def alive(pid):
    """Runs still; a zombie does not."""
    return process_state(pid) not in "ZX"


# ---- skipping and the frame of a test script

def golden(variable, *names):
    """The path below a folder of reference facts; skips the test out loud where it is missing."""
    root = os.environ.get(variable)
    path = os.path.join(root, *names) if root else None
    if not path or not os.path.exists(path):
        skip(f"{os.path.join(*names) if names else variable} ({variable}) is not here")
    return path


def skip(why):
    print(f"\nSKIPPED: {why}", flush=True)  # ./check looks for lines that begin so
    raise unittest.SkipTest(why)


class Case(unittest.TestCase):
    """A test with a folder of its own, removed at its end."""

    maxDiff = 4000

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="finetuned-test-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, content):
        """Bytes or text into a file of the test's folder; its path."""
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        return path

    def assertExit(self, result, rc, *words):
        """The exit code, and every one of `words` somewhere in standard error."""
        self.assertEqual(result.rc, rc, f"wanted exit code {rc}: {result}")
        for word in words:
            self.assertIn(word, result.err, f"wanted {word!r} in the message: {result}")

    def assertRefused(self, result, rc, *words):
        """As assertExit, and: one line says why, nothing on standard output."""
        self.assertExit(result, rc, *words)
        self.assertEqual(result.out, "", f"standard output carries results only: {result}")

    def train(self, *arguments, rc=0, **options):
        """`finetuned run` that must end with `rc`."""
        result = run("run", *arguments, **options)
        self.assertExit(result, rc)
        return result


def main():
    """Runs the tests of the calling script; 77 if all were skipped."""
    if not os.path.exists(BINARY):
        sys.exit(f"{BINARY} is not built")
    program = unittest.main(module="__main__", exit=False, verbosity=2)
    result = program.result
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(77 if result.testsRun and len(result.skipped) == result.testsRun else 0)


# ---- data sets

WORDS = {
    "anger": ["furious", "hate", "awful", "rage", "worst"],
    "joy": ["lovely", "happy", "great", "sunshine", "yay"],
    "optimism": ["hope", "soon", "believe", "better", "tomorrow"],
    "sadness": ["alone", "tears", "miss", "gone", "grey"],
}
LABELS = list(WORDS)
FILLERS = ["the", "day", "so", "@user", "http://t.co/a", "coffee", "\U0001f602", "caf\u00e9", "and", "monday", "#wow", "it's", "again"]


def tweet(row, label, words=9):
    """A short text of that row: fillers and two words that tell the label."""
    names = [FILLERS[(row * 7 + i * i + label * 3 + i * row) % len(FILLERS)] for i in range(2 + (row * 5) % words)]
    telling = WORDS[LABELS[label % len(LABELS)]]
    names.insert(row % (len(names) + 1), telling[row % 5])
    names.append(telling[(row // 5) % 5])
    return " ".join(names) + f" {row}"


def rows_make(n, classes=4, first=0):
    """n (text, label) rows, all texts different."""
    labels = [(row * 3 + row // classes) % classes for row in range(first, first + n)]
    return [(tweet(first + i, label), label) for i, label in enumerate(labels)]


def split_write(folder, split, rows):
    for part, column in (("text", 0), ("labels", 1)):
        with open(os.path.join(folder, f"{split}_{part}.txt"), "wb") as file:
            for row in rows:
                value = row[column]
                file.write((value if isinstance(value, bytes) else str(value).encode()) + b"\n")


def mapping_write(folder, names):
    with open(os.path.join(folder, "mapping.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(f"{i}\t{name}" for i, name in enumerate(names)))


def task_make(folder, task="emotion", rows=(24, 12, 12), classes=4):
    """A task in TweetEval's layout below `folder`; returns `folder`. The mapping's last line lacks its newline, as the real ones do."""
    path = os.path.join(folder, task)
    os.makedirs(path, exist_ok=True)
    first = 0
    for split, n in zip(("train", "val", "test"), rows):
        split_write(path, split, rows_make(n, classes, first))
        first += n
    mapping_write(path, LABELS[:classes])
    return folder


def file_lines(path):
    """Lines of a file split at newlines only, as bytes."""
    with open(path, "rb") as file:
        return file.read().split(b"\n")[:-1]


# ---- models

def byte_vocabulary():
    """The 256 symbols of byte-level BPE, by byte."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    symbols, next_symbol = {}, 256
    for byte in range(256):
        if byte in visible:
            symbols[byte] = chr(byte)
        else:
            symbols[byte] = chr(next_symbol)
            next_symbol += 1
    return [symbols[byte] for byte in range(256)]


def tokenizer_make(folder):
    """A byte-level BPE tokenizer with a handful of merges; the number of ids."""
    vocabulary = ["<s>", "<pad>", "</s>", "<unk>", *byte_vocabulary()]
    merges = ["h a", "ha p", "hap p", "l o", "\u0120 t", "\u0120 h", "t h", "th e", "a n", "an d", "i n"]
    vocabulary += [merge.replace(" ", "") for merge in merges] + ["<mask>"]
    with open(os.path.join(folder, "vocab.json"), "w", encoding="utf-8") as file:
        json.dump({name: i for i, name in enumerate(vocabulary)}, file, ensure_ascii=False)
    with open(os.path.join(folder, "merges.txt"), "w", encoding="utf-8") as file:
        file.write("#version: 0.2\n" + "\n".join(merges) + "\n")
    return len(vocabulary)


def model_shapes(hidden, layers, ffn, vocab, positions, labels):
    """Hugging Face's names and shapes of a RoBERTa classifier."""
    vector = lambda name, n: {f"{name}.weight": (n,), f"{name}.bias": (n,)}
    matrix = lambda name, n, k: {f"{name}.weight": (n, k), f"{name}.bias": (n,)}
    shapes = {"roberta.embeddings.word_embeddings.weight": (vocab, hidden),
              "roberta.embeddings.position_embeddings.weight": (positions, hidden),
              "roberta.embeddings.token_type_embeddings.weight": (1, hidden), **vector("roberta.embeddings.LayerNorm", hidden)}
    for layer in range(layers):
        at = f"roberta.encoder.layer.{layer}."
        for name in ("query", "key", "value"):
            shapes.update(matrix(at + f"attention.self.{name}", hidden, hidden))
        shapes.update(matrix(at + "attention.output.dense", hidden, hidden))
        shapes.update(vector(at + "attention.output.LayerNorm", hidden))
        shapes.update(matrix(at + "intermediate.dense", ffn, hidden))
        shapes.update(matrix(at + "output.dense", hidden, ffn))
        shapes.update(vector(at + "output.LayerNorm", hidden))
    shapes.update(matrix("classifier.dense", hidden, hidden))
    shapes.update(matrix("classifier.out_proj", labels, hidden))
    return shapes


def model_make(folder, labels=None, hidden=32, layers=2, heads=2, ffn=64, positions=130, dropout=0.1, seed=7):
    """A Hugging Face directory of a small RoBERTa with weights large enough that texts get different answers.

    `labels`: names of a fine-tuned model's classes; None: an encoder without a head.
    """
    import numpy

    os.makedirs(folder, exist_ok=True)
    vocab = tokenizer_make(folder)
    random = numpy.random.RandomState(seed)
    tensors = {}
    for name, shape in model_shapes(hidden, layers, ffn, vocab, positions, len(labels or "ab")).items():
        if not labels and name.startswith("classifier"):
            continue
        spread = 0.02 if name.endswith("bias") or "position" in name else 0.6 if "embeddings" in name else 1.2 / shape[-1] ** 0.5
        value = random.standard_normal(shape) * spread
        tensors[name] = (1 + 0.1 * value if "LayerNorm.weight" in name else value).astype("<f4")
    safetensors_write(os.path.join(folder, "model.safetensors"), tensors)
    config = {"architectures": ["RobertaForSequenceClassification" if labels else "RobertaModel"], "model_type": "roberta",
              "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads, "intermediate_size": ffn,
              "vocab_size": vocab, "max_position_embeddings": positions, "type_vocab_size": 1, "pad_token_id": 1,
              "bos_token_id": 0, "eos_token_id": 2, "hidden_act": "gelu", "layer_norm_eps": 1e-5,
              "hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    if labels:
        config["id2label"] = {str(i): name for i, name in enumerate(labels)}
        config["label2id"] = {name: i for i, name in enumerate(labels)}
    json_write(os.path.join(folder, "config.json"), config)
    return folder


def safetensors_write(path, tensors):
    header, offset = {}, 0
    for name, value in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [offset, offset + value.nbytes]}
        offset += value.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for value in tensors.values():
            file.write(value.tobytes())


def safetensors_read(path):
    """Tensors by name, as float32 arrays."""
    import numpy

    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header, data = json.loads(file.read(size)), file.read()
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        if entry["dtype"] == "BF16":
            value = (numpy.frombuffer(data[begin:end], "<u2").astype("<u4") << 16).view("<f4")
        else:
            value = numpy.frombuffer(data[begin:end], {"F32": "<f4", "I64": "<i8", "F16": "<f2"}[entry["dtype"]])
        tensors[name] = value.reshape(entry["shape"])
    return tensors


# ---- jobs and what they leave

def yaml_text(tree, depth=0):
    """A nested dict of plain values as block YAML."""
    text = ""
    for key, value in tree.items():
        pad = "  " * depth
        if isinstance(value, dict):
            text += f"{pad}{key}:\n{yaml_text(value, depth + 1)}"
        else:
            text += f"{pad}{key}: {json.dumps(value) if isinstance(value, (bool, list)) else value}\n"
    return text


def job_tree(data, out, **keys):
    """A small job; `keys`: more of them, with __ for the dot (train__batch=8). In fp32, so that it is the same on every processor."""
    tree = {"out": out, "threads": 1, "model": {"base": "random:tiny"},
            "data": {"dir": data, "task": "emotion", "max_length": 40},
            "train": {"epochs": 2, "batch": 8, "lr": 1e-3, "parts": 4, "precision": "fp32"}, "log": {"every": 1, "samples": True}}
    for key, value in keys.items():
        at, _, name = key.rpartition("__")
        (tree.setdefault(at, {}) if at else tree)[name] = value
    return tree


def job_write(path, data, out, **keys):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(yaml_text(job_tree(data, out, **keys)))
    return path


def json_read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def json_write(path, value):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, ensure_ascii=False, indent=1)


def events(out, kind=None, name="events.jsonl", killed=False):
    """All events of a run, or those of one kind. Every line must be whole JSON; but a kill may cut the last one, where
    its write crosses a page."""
    with open(os.path.join(out, name), "rb") as file:
        *lines, rest = file.read().split(b"\n")
    assert killed or (lines and not rest), "events.jsonl ends in a half line"
    found = [json.loads(line) for line in lines]
    return [e for e in found if kind is None or e["event"] == kind]


def steps(out, killed=False):
    """Step events by step: what counts after resumes, since later ones supersede."""
    found = {}
    for event in events(out, killed=killed):
        if event["event"] == "resume":
            found = {step: e for step, e in found.items() if step <= event["step"]}
        elif event["event"] == "step":
            found[event["step"]] = event
    return found


def course(out, keys=("epoch", "loss", "lr", "grad_norm", "samples")):
    """What must not depend on stops, ranks and micro-batches: a tuple a step."""
    return {step: tuple(json.dumps(e.get(key)) for key in keys) for step, e in steps(out).items()}


def wait_for(what, process=None, timeout=120):
    """Waits until what() is true; False if the process ended first."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, ValueError, AssertionError):
            if what():
                return True
        if process is not None and process.poll() is not None:
            return False
        time.sleep(0.003)
    return False


def step_reached(out, step):
    return lambda: any(e["event"] == "step" and e["step"] >= step for e in events(out))


def checkpoint(out, name="latest", folder="checkpoints"):
    return os.path.join(out, folder, name if isinstance(name, str) else f"step-{name:08d}")


def checkpoint_names(out):
    folder = os.path.join(out, "checkpoints")
    return sorted(n for n in os.listdir(folder) if n.startswith("step-"))


def checkpoint_tensors(path, group="model"):
    """Whole tensors by Hugging Face's names, as h5py reads them."""
    import h5py

    with h5py.File(os.path.join(path, "checkpoint.h5"), "r") as file:
        found = {}
        file[group].visititems(lambda name, item: found.__setitem__(name, item[...]) if isinstance(item, h5py.Dataset) else None)
        return found


def checkpoint_attributes(path):
    import h5py

    with h5py.File(os.path.join(path, "checkpoint.h5"), "r") as file:
        plain = lambda v: v.decode() if isinstance(v, bytes) else v.item() if hasattr(v, "item") else v
        return {key: plain(value) for key, value in file["trainer"].attrs.items()}


def tensors_differ(one, two):
    """Names whose bits differ, or that only one side has."""
    names = set(one) ^ set(two)
    return sorted(names | {n for n in set(one) & set(two) if one[n].shape != two[n].shape or one[n].tobytes() != two[n].tobytes()})
