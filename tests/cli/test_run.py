# SPDX-License-Identifier: Apache-2.0
"""One job on one rank, from text to a model directory: what it writes, runs again, and what the other verbs make of it."""
import hashlib
import math
import os
import pty
import re
import shutil
import subprocess
import tarfile
import time

import support as s

# Event -> keys that it must have (design, section 7).
KEYS = {
    "start": ["world", "threads", "precision", "backend", "fabric", "data", "base", "parameters", "parts", "steps_total", "config_hash"],
    "resume": ["step", "cursor", "epoch", "checkpoint", "skipped", "previous"],
    "step": ["step", "epoch", "loss", "lr", "grad_norm", "tweets_per_s", "tokens_per_s", "flops_share", "samples"],
    "eval": ["split", "epoch", "step", "loss", "official", "accuracy", "macro_f1", "macro_recall", "per_class", "confusion"],
    "checkpoint": ["step", "path", "bytes", "held_s", "write_s"],
    "export": ["kind", "path", "bytes", "sha256", "check"],
    "end": ["step", "epoch", "best", "seconds"],
}
MODEL_FILES = ["README.md", "config.json", "finetuned.json", "finetuned.sha256", "merges.txt", "model.safetensors", "special_tokens_map.json", "tokenizer_config.json", "vocab.json"]


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def stamps(folder):
    """path -> (inode, time of last write) of every file below a folder."""
    return {os.path.join(at, name): (os.stat(os.path.join(at, name)).st_ino, os.stat(os.path.join(at, name)).st_mtime_ns)
            for at, _, names in os.walk(folder) for name in names}


def yaml_keys(text):
    """Dotted names of the values in block YAML."""
    found, above = [], []
    for line in text.split("\n"):
        match = re.match(r"( *)(\w+):(.*)", line)
        if match:
            above = above[:len(match[1]) // 2] + [match[2]]
            found += [".".join(above)] if match[3].strip() else []
    return found


class Whole(s.Case):
    """One run, looked at from all sides."""

    @classmethod
    def setUpClass(cls):
        cls.root = s.tempfile.mkdtemp(prefix="finetuned-test-")
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        cls.data = s.task_make(os.path.join(cls.root, "d"), rows=(26, 12, 14))
        cls.out = os.path.join(cls.root, "o")
        cls.job = s.job_write(os.path.join(cls.root, "small.yaml"), cls.data, cls.out, train__epochs=3, checkpoints__every=3)
        cls.before = time.time()
        cls.result = s.run("run", cls.job)
        cls.after = time.time()

    def test_exit_and_output(self):
        self.assertExit(self.result, 0)
        for path in ("model", "report.md", "events.jsonl"):
            self.assertIn(path, self.result.out)
        self.assertNotIn("loss", self.result.out, "logs go to standard error")
        self.assertRegex(self.result.err, r"step 12/12.*tweets/s.*left")

    def test_events(self):
        found = s.events(self.out)
        for event in found:
            self.assertEqual([k for k in KEYS[event["event"]] if k not in event], [], event)
            self.assertEqual(list(event)[:2], ["event", "time"])
        times = [e["time"] for e in found]
        self.assertEqual(times, sorted(times))
        self.assertGreaterEqual(times[0], self.before - 0.01)
        self.assertLessEqual(times[-1], self.after + 0.01)
        self.assertEqual(found[0]["event"], "start")
        self.assertEqual(found[-1]["event"], "end")

    def test_times_have_milliseconds(self):
        for line in s.file_lines(os.path.join(self.out, "events.jsonl")):
            self.assertRegex(line.decode(), r'^\{"event": "\w+", "time": \d{10}\.\d{3}, ')

    def test_start_event(self):
        start, = s.events(self.out, "start")
        self.assertEqual([start[k] for k in ("world", "threads", "precision", "backend", "parts", "steps_total", "base")],
                         [1, 1, "fp32", "self", 4, 12, "random:tiny"])
        self.assertEqual([start["data"][k] for k in ("train", "val", "test")], [26, 12, 14])
        self.assertGreater(len(start["data"]["hash"]), 15)
        self.assertEqual(start["parameters"], sum(v.size for v in s.safetensors_read(f"{self.out}/model/model.safetensors").values()))

    def test_step_events(self):
        found = s.events(self.out, "step")
        self.assertEqual([e["step"] for e in found], list(range(1, 13)))
        self.assertEqual([e["epoch"] for e in found], [1] * 4 + [2] * 4 + [3] * 4)
        for n, event in enumerate(found):
            self.assertAlmostEqual(event["lr"], 1e-3 * (12 - n) / 12, delta=1e-11)
            self.assertTrue(0 < event["loss"] < 3 and 0 < event["grad_norm"] < 100, event)
            self.assertTrue(event["tweets_per_s"] > 0 and event["tokens_per_s"] > event["tweets_per_s"] and 0 < event["flops_share"] < 2, event)

    def test_numbers_have_nine_digits(self):
        text = b"\n".join(s.file_lines(os.path.join(self.out, "events.jsonl"))).decode()
        losses = re.findall(r'"loss": ([0-9.]+)', text)
        self.assertTrue(losses)
        self.assertTrue(max(len(v.replace(".", "").lstrip("0")) for v in losses) == 9, losses)

    def test_every_row_once_an_epoch(self):
        orders = [[i for e in s.events(self.out, "step") if e["epoch"] == epoch for i in e["samples"]] for epoch in (1, 2, 3)]
        for order in orders:
            self.assertEqual(sorted(order), list(range(26)))
        self.assertNotEqual(orders[0], orders[1])
        self.assertNotEqual(orders[1], orders[2])
        self.assertNotEqual(orders[0], list(range(26)))
        self.assertEqual([len(e["samples"]) for e in s.events(self.out, "step")], [8, 8, 8, 2] * 3)

    def test_evaluations(self):
        found = s.events(self.out, "eval")
        self.assertEqual([(e["split"], e["step"], e["epoch"]) for e in found[:-1]], [("val", 4, 1), ("val", 8, 2), ("val", 12, 3)])
        last, end = found[-1], s.events(self.out, "end")[0]
        self.assertEqual((last["split"], last["step"]), ("test", end["best"]["step"]))
        best = max(found[:-1], key=lambda e: (e["official"]["value"], -e["step"]))
        self.assertEqual(end["best"], {"step": best["step"], "official": best["official"]["value"]})
        for event in found:
            rows = event["confusion"]
            self.assertEqual(sum(map(sum, rows)), 14 if event["split"] == "test" else 12)
            self.assertEqual([sum(row) for row in rows], [c["support"] for c in event["per_class"]])
            self.assertEqual([c["label"] for c in event["per_class"]], s.LABELS)
            self.assertAlmostEqual(event["accuracy"], sum(rows[i][i] for i in range(4)) / sum(map(sum, rows)), places=8)
            self.assertEqual(event["official"], {"name": "macro_f1", "value": event["macro_f1"]})

    def test_the_log_says_the_same_epoch_as_the_event(self):
        test = s.events(self.out, "eval")[-1]
        self.assertIn(f"eval test: epoch {test['epoch']}, step {test['step']}:", self.result.err)

    def test_checkpoints(self):
        made = s.events(self.out, "checkpoint")
        self.assertEqual([e["step"] for e in made], [3, 4, 6, 8, 9, 12])
        best = s.events(self.out, "end")[0]["best"]["step"]
        self.assertEqual(s.checkpoint_names(self.out), [f"step-{n:08d}" for n in sorted({best, 8, 9, 12})])
        for event in made[-1:]:
            self.assertEqual(event["bytes"], os.path.getsize(os.path.join(event["path"], "checkpoint.h5")))
        links = {name: os.readlink(os.path.join(self.out, "checkpoints", name)) for name in ("latest", "best")}
        self.assertEqual(links, {"latest": "step-00000012", "best": f"step-{best:08d}"})

    def test_resolved_job_runs_again(self):
        text = open(os.path.join(self.out, "job.yaml"), encoding="utf-8").read()
        listed = re.findall(r"(?m)^\| `([\w.]+)` \|", s.run("config", "--markdown").out)
        self.assertGreater(len(listed), 40)
        self.assertEqual(sorted(yaml_keys(text)), sorted(listed), "every key")
        shown = s.run("config", os.path.join(self.out, "job.yaml"), "--yaml")
        self.assertExit(shown, 0)
        self.assertRegex(text, r"(?m)^  precision: fp32$")
        again = os.path.join(self.root, "again")
        moved = self.write("moved.yaml", text.replace(self.out, again))
        self.train(moved)
        self.assertEqual(s.course(again), s.course(self.out))
        self.assertEqual(s.tensors_differ(s.safetensors_read(f"{again}/model/model.safetensors"), s.safetensors_read(f"{self.out}/model/model.safetensors")), [])

    def test_reports(self):
        report, test = s.json_read(os.path.join(self.out, "report.json")), s.events(self.out, "eval")[-1]
        for split in ("val", "test"):
            for key in ("loss", "official", "accuracy", "macro_f1", "macro_recall", "per_class", "confusion"):
                self.assertIn(key, report[split])
        self.assertEqual({k: report["test"][k] for k in ("official", "confusion", "per_class", "loss")},
                         {k: test[k] for k in ("official", "confusion", "per_class", "loss")})
        best = next(e for e in s.events(self.out, "eval") if e["split"] == "val" and e["step"] == test["step"])
        self.assertEqual(report["val"]["confusion"], best["confusion"])
        text = open(os.path.join(self.out, "report.md"), encoding="utf-8").read()
        for words in (*s.LABELS, "onfusion", "precision", "recall", "F1", "support", f"{test['macro_f1']:.4f}", "random:tiny"):
            self.assertIn(words, text)

    def test_model_directory(self):
        folder = os.path.join(self.out, "model")
        self.assertEqual(sorted(os.listdir(folder)), MODEL_FILES)
        config, tensors = s.json_read(f"{folder}/config.json"), s.safetensors_read(f"{folder}/model.safetensors")
        self.assertEqual(config["architectures"], ["RobertaForSequenceClassification"])
        self.assertEqual(config["id2label"], {str(i): name for i, name in enumerate(s.LABELS)})
        self.assertEqual(config["label2id"], {name: i for i, name in enumerate(s.LABELS)})
        shapes = s.model_shapes(config["hidden_size"], config["num_hidden_layers"], config["intermediate_size"], config["vocab_size"],
                                config["max_position_embeddings"], 4)
        self.assertEqual({name: value.shape for name, value in tensors.items()}, shapes)
        for value in tensors.values():
            self.assertEqual(str(value.dtype), "float32")
        settings = s.json_read(f"{folder}/finetuned.json")
        self.assertEqual([settings[k] for k in ("max_length", "special_tokens", "normalize")], [40, "literal", "none"])

    def test_archive(self):
        path = os.path.join(self.out, "artifacts", "small-hf.tar.gz")
        event = s.events(self.out, "export")[-1]
        self.assertEqual([e["kind"] for e in s.events(self.out, "export")][-1], "hf")
        self.assertEqual((event["path"], event["bytes"], event["sha256"]), (path, os.path.getsize(path), sha256(path)))
        with tarfile.open(path) as archive:
            members = archive.getmembers()
            self.assertEqual([m.name for m in members], sorted(m.name for m in members))
            files = {os.path.basename(m.name): m for m in members if m.isfile()}
            self.assertEqual(sorted(files), MODEL_FILES)
            for name, member in files.items():
                with open(os.path.join(self.out, "model", name), "rb") as file:
                    self.assertEqual(archive.extractfile(member).read(), file.read(), name)
                self.assertEqual((member.uid, member.gid), (0, 0))

    def test_archive_is_deterministic(self):
        again = os.path.join(self.root, "twin")
        self.train(self.job, "--out", again)
        self.assertEqual(sha256(f"{again}/artifacts/small-hf.tar.gz"), sha256(f"{self.out}/artifacts/small-hf.tar.gz"))

    def test_no_leftovers(self):
        self.assertFalse([n for n in os.listdir(self.out) if n not in
                          ("job.yaml", "events.jsonl", ".owner", "checkpoints", "model", "artifacts", "report.json", "report.md", "shards", "tensorboard")])


class Again(s.Case):
    """A job that is complete."""

    def setUp(self):
        super().setUp()
        self.data, self.out = s.task_make(self.path("d")), self.path("o")
        self.job = s.job_write(self.path("job.yaml"), self.data, self.out)
        self.train(self.job)

    def test_nothing_to_do(self):
        before, events = stamps(os.path.join(self.out, "model")), len(s.events(self.out, "step"))
        result = self.train(self.job)
        self.assertIn("already complete", result.err)
        self.assertEqual(stamps(os.path.join(self.out, "model")), before)
        self.assertEqual(len(s.events(self.out, "step")), events)

    def test_archive_missing(self):
        archive = os.path.join(self.out, "artifacts", "job-hf.tar.gz")
        digest, before = sha256(archive), stamps(os.path.join(self.out, "model"))
        shutil.rmtree(os.path.join(self.out, "artifacts"))
        result = self.train(self.job)
        self.assertIn("already complete", result.err)
        self.assertEqual(sha256(archive), digest)
        self.assertEqual(stamps(os.path.join(self.out, "model")), before, "only what is missing is made")
        self.assertEqual(len(s.events(self.out, "step")), 6)

    def test_model_missing(self):
        path = os.path.join(self.out, "model", "model.safetensors")
        digest, before = sha256(path), stamps(os.path.join(self.out, "artifacts"))
        shutil.rmtree(os.path.join(self.out, "model"))
        self.train(self.job)
        self.assertEqual(sha256(path), digest)
        self.assertEqual(stamps(os.path.join(self.out, "artifacts")), before, "only what is missing is made")

    def test_report_missing(self):
        report, before = s.json_read(f"{self.out}/report.json"), stamps(os.path.join(self.out, "model"))
        os.remove(f"{self.out}/report.json")
        os.remove(f"{self.out}/report.md")
        self.train(self.job)
        again = s.json_read(f"{self.out}/report.json")
        for key in ("val", "test", "steps", "best_step", "config_hash"):
            self.assertEqual(again[key], report[key])
        self.assertEqual(stamps(os.path.join(self.out, "model")), before, "only what is missing is made")

    def test_tokenizer_file_missing(self):
        os.remove(f"{self.out}/model/vocab.json")
        self.train(self.job)
        self.assertTrue(os.path.exists(f"{self.out}/model/vocab.json"))

    def test_export_new_in_the_list(self):
        out = self.path("bare")
        self.train(self.job, "--out", out, "--export.to", "[]")
        self.assertFalse(os.path.exists(f"{out}/artifacts/job-hf.tar.gz"))
        self.assertTrue(os.path.exists(f"{out}/model/model.safetensors"), "model/ is always made")
        self.train(self.job, "--out", out)
        self.assertEqual(sha256(f"{out}/artifacts/job-hf.tar.gz"), sha256(f"{self.out}/artifacts/job-hf.tar.gz"))

    def test_more_epochs_extend(self):
        result = self.train(self.job, "--train.epochs", 3)
        self.assertIn("schedule", result.err)
        self.assertEqual(sorted(s.steps(self.out)), list(range(1, 10)))
        resume, = s.events(self.out, "resume")
        self.assertEqual((resume["step"], resume["epoch"], resume["previous"]["ended"][:3]), (6, 2, "end"))
        self.assertAlmostEqual(s.steps(self.out)[7]["lr"], 1e-3 * 3 / 9, delta=1e-11)


class Stale(s.Case):
    """What an earlier, shorter run left is not taken for what the longer one would make."""

    def setUp(self):
        super().setUp()
        self.data, self.out = s.task_make(self.path("d")), self.path("o")
        self.job = s.job_write(self.path("job.yaml"), self.data, self.out, train__best_metric="loss", model__dropout=0, checkpoints__keep=50)

    def model_is_best(self):
        best = s.events(self.out, "end")[-1]["best"]["step"]
        tensors = s.safetensors_read(f"{self.out}/model/model.safetensors")
        self.assertEqual(s.tensors_differ(tensors, s.checkpoint_tensors(s.checkpoint(self.out, best))), [])
        with tarfile.open(f"{self.out}/artifacts/job-hf.tar.gz") as archive:
            member = next(m for m in archive.getmembers() if m.name.endswith("model.safetensors"))
            with open(f"{self.out}/model/model.safetensors", "rb") as file:
                self.assertEqual(archive.extractfile(member).read(), file.read())
        self.assertEqual(s.json_read(f"{self.out}/report.json")["best_step"], best)
        return best

    def test_extended(self):
        self.train(self.job, "--train.epochs", 1)
        self.assertEqual(self.model_is_best(), 3)
        self.train(self.job, "--train.epochs", 12)
        self.assertGreater(self.model_is_best(), 3, "the test needs a run that gets better")

    def test_crash_between_training_and_export(self):
        self.train(self.job, "--train.epochs", 1)
        for name in ("model", "artifacts"):
            shutil.copytree(os.path.join(self.out, name), self.path("old", name))
        for name in ("report.json", "report.md"):
            shutil.copy(os.path.join(self.out, name), self.path("old", name))
        self.train(self.job, "--train.epochs", 12)
        digest = sha256(f"{self.out}/model/model.safetensors")
        shutil.rmtree(f"{self.out}/model")
        shutil.rmtree(f"{self.out}/artifacts")
        shutil.copytree(self.path("old"), self.out, dirs_exist_ok=True)
        lines = s.file_lines(f"{self.out}/events.jsonl")
        last = max(i for i, line in enumerate(lines) if b'"event": "checkpoint"' in line)
        with open(f"{self.out}/events.jsonl", "wb") as file:
            file.write(b"\n".join(lines[:last + 1]) + b"\n")
        self.train(self.job, "--train.epochs", 12)
        self.assertEqual(sha256(f"{self.out}/model/model.safetensors"), digest, "the model of the first epoch is not the best of twelve")
        self.model_is_best()

    def test_other_dtype(self):
        self.train(self.job)
        self.train(self.job, "--export.dtype", "bf16")
        self.assertEqual(s.json_read(f"{self.out}/model/config.json")["dtype"], "bfloat16")
        made = os.stat(f"{self.out}/model/model.safetensors").st_mtime_ns
        self.train(self.job, "--export.dtype", "bf16")
        self.assertEqual(os.stat(f"{self.out}/model/model.safetensors").st_mtime_ns, made, "nothing is missing now")
        self.assertLess(os.path.getsize(f"{self.out}/model/model.safetensors"), 400000, "export.dtype may differ on resume, and is obeyed")


class Elsewhere(s.Case):
    """A run started with relative paths; its checkpoints answer from any folder, and a run's folder is told from a model's."""

    def test_other_folder(self):
        root = self.path("root")
        s.task_make(os.path.join(root, "d"))
        s.model_make(os.path.join(root, "m"))
        result = s.run("run", "--model.base", "m", "--data.dir", "d", "--data.task", "emotion", "--data.max_length", 40, "--out", "o",
                       "--train.max_steps", 2, "--threads", 1, cwd=root)
        self.assertEqual(result.rc, 0, result)
        checkpoint = os.path.join(root, "o", "checkpoints", "latest")
        self.assertEqual(s.run("predict", "--model", checkpoint, "a b", cwd="/").out, s.run("predict", "--model", checkpoint, "a b", cwd=root).out)
        self.assertRefused(s.run("predict", "--model", os.path.join(root, "o"), "a b"), 65, "o/model?")
        verified = s.run("inspect", "--verify", os.path.join(root, "o", "model"))
        self.assertEqual(verified.rc, 0)
        self.assertIn("intact: every hash agrees", verified.out)


class Odd(s.Case):
    """Names and paths that are unusual but allowed."""

    def test_labels(self):
        names = ['say "no"', "back\\slash", "pipe | pipe", "\u00e9\U0001f602"]
        data, out = s.task_make(self.path("d")), self.path("o")
        s.mapping_write(os.path.join(data, "emotion"), names)
        self.train(s.job_write(self.path("job.yaml"), data, out))
        config = s.json_read(f"{out}/model/config.json")
        self.assertEqual(list(config["id2label"].values()), names)
        self.assertEqual(config["label2id"], {name: i for i, name in enumerate(names)})
        self.assertEqual([c["label"] for c in s.events(out, "eval")[-1]["per_class"]], names)
        self.assertEqual(list(s.run("predict", "--model", f"{out}/model", "x").lines()[0]["scores"]), names)
        with open(f"{out}/report.md", encoding="utf-8") as file:
            rows = [line for line in file.read().split("\n") if line.startswith("| say")]
        self.assertEqual({len(re.findall(r"(?<!\\)\|", row)) for row in rows}, {6}, rows)

    def test_paths(self):
        folder = self.path("a b \u00e9 'q' #1: x")
        os.makedirs(folder)
        data, out = s.task_make(os.path.join(folder, "d")), os.path.join(folder, "o") + "/"
        self.train("--model.base", "random:tiny", "--data.dir", data + "/", "--data.task", "emotion", "--out", out, "--threads", 1, "--train.epochs", 1)
        self.train(os.path.join(out, "job.yaml"))
        self.assertExit(s.run("inspect", "--verify", s.checkpoint(out)), 0)
        self.assertExit(s.run("predict", "--model", s.checkpoint(out), "x"), 0)

    def test_relative_paths(self):
        s.task_make(self.path("d"))
        self.train("--model.base", "random:tiny", "--data.dir", "d", "--data.task", "emotion", "--out", "runs/o", "--threads", 1, "--train.epochs", 1,
                   cwd=self.folder)
        self.assertTrue(os.path.exists(self.path("runs/o/model/config.json")))
        self.assertExit(s.run("predict", "--model", "runs/o/checkpoints/latest", "x", cwd=self.folder), 0)

    def test_moved_folder(self):
        """An output folder may be moved: links are relative."""
        self.train("--model.base", "random:tiny", "--data.dir", s.task_make(self.path("d")), "--data.task", "emotion", "--out", self.path("o"),
                   "--threads", 1, "--train.epochs", 1)
        os.rename(self.path("o"), self.path("moved"))
        self.train("--model.base", "random:tiny", "--data.dir", self.path("d"), "--data.task", "emotion", "--out", self.path("moved"),
                   "--threads", 1, "--train.epochs", 2)
        self.assertEqual(s.events(self.path("moved"), "resume")[0]["step"], 2)
        self.assertEqual(s.checkpoint_names(self.path("moved")), ["step-00000002", "step-00000004"])

    def test_seeds_at_the_edge(self):
        data = s.task_make(self.path("d"))
        for seed in (0, 2**64 - 1):
            out = self.path(f"o{seed}")
            self.train(s.job_write(self.path("job.yaml"), data, out, train__seed=seed, train__max_steps=1))
            # HDF5's integer may be signed: the bits count.
            self.assertEqual(s.checkpoint_attributes(s.checkpoint(out))["seed"] % 2**64, seed)
            self.train(os.path.join(out, "job.yaml"))

    def test_terminal(self):
        """A progress line that is drawn over itself on a terminal, plain lines elsewhere."""
        data = s.task_make(self.path("d"))
        arguments = ["run", s.job_write(self.path("job.yaml"), data, self.path("o"))]
        plain = self.train(*arguments[1:], "--out", self.path("p"))
        self.assertNotIn("\r", plain.err)
        self.assertNotIn("\x1b", plain.err)
        controller, terminal = pty.openpty()
        process = subprocess.Popen(s.command(arguments), stderr=terminal, stdout=subprocess.DEVNULL, env=s.environment())
        os.close(terminal)
        shown = b""
        while True:
            try:
                piece = os.read(controller, 65536)
            except OSError:
                break
            if not piece:
                break
            shown += piece
        os.close(controller)
        self.assertEqual(process.wait(60), 0)
        self.assertRegex(shown.decode(), r"\r[^\r\n]*\d/6[^\r\n]*left")


class Options(s.Case):
    def setUp(self):
        super().setUp()
        self.data = s.task_make(self.path("d"))
        self.job = s.job_write(self.path("job.yaml"), self.data, self.path("o"))

    def go(self, name, *arguments, **options):
        self.train(self.job, "--out", self.path(name), *arguments, **options)
        return self.path(name)

    def test_seeds(self):
        one, two, three = self.go("a", "--train.seed", 1), self.go("b", "--train.seed", 1), self.go("c", "--train.seed", 2)
        self.assertEqual(s.course(one), s.course(two))
        for step in s.steps(one):
            self.assertNotEqual(s.steps(one)[step]["samples"], s.steps(three)[step]["samples"])
            self.assertNotEqual(s.steps(one)[step]["loss"], s.steps(three)[step]["loss"])

    def test_threads_do_not_change_bits(self):
        one, two = self.go("a", "--threads", 1), self.go("b", "--threads", 3)
        self.assertEqual(s.course(one), s.course(two))
        self.assertEqual(s.tensors_differ(s.checkpoint_tensors(s.checkpoint(one)), s.checkpoint_tensors(s.checkpoint(two))), [])

    def test_dropout(self):
        base, off, off_again, more = self.go("a"), self.go("b", "--model.dropout", 0), self.go("c", "--model.dropout", "0.0"), self.go("d", "--model.dropout", 0.5)
        self.assertEqual(s.course(off), s.course(off_again))
        self.assertNotEqual(s.course(base), s.course(off))
        self.assertNotEqual(s.course(base), s.course(more))
        self.assertEqual(s.steps(base)[1]["samples"], s.steps(off)[1]["samples"])

    def test_max_steps(self):
        out = self.go("a", "--train.max_steps", 4)
        self.assertEqual(sorted(s.steps(out)), [1, 2, 3, 4])
        self.assertEqual(s.events(out, "end")[0]["step"], 4)
        self.assertTrue(os.path.exists(f"{out}/model/model.safetensors"))
        self.assertEqual([(e["split"], e["step"]) for e in s.events(out, "eval")][:2], [("val", 3), ("val", 4)])

    def test_max_steps_beyond_the_epochs(self):
        """`train.epochs` is where the run ends if that comes first, or max_steps goes on over more epochs: either way it says how many."""
        out = self.go("a", "--train.max_steps", 1000, "--train.epochs", 1)
        start, end = s.events(out, "start")[0], s.events(out, "end")[0]
        self.assertEqual(start["steps_total"], end["step"])

    def test_early_stopping(self):
        out = self.go("a", "--train.epochs", 50, "--train.lr", "0", "--train.early_stopping", 2)
        evals = [e["step"] for e in s.events(out, "eval") if e["split"] == "val"]
        self.assertEqual(evals, [3, 6, 9], "the first is the best, two more without gain")
        self.assertEqual(s.events(out, "end")[0]["best"]["step"], 3)
        result = self.train(self.job, "--out", out, "--train.epochs", 50, "--train.lr", "0", "--train.early_stopping", 2)
        self.assertIn("already complete", result.err)

    def test_learning_rate_zero_changes_nothing(self):
        base = s.model_make(self.path("m"), s.LABELS)
        out = self.go("a", "--train.lr", 0, "--model.base", base)
        self.assertEqual(s.tensors_differ(s.safetensors_read(f"{out}/model/model.safetensors"), s.safetensors_read(f"{base}/model.safetensors")), [])

    def test_loss_is_the_mean_over_the_examples(self):
        """With the learning rate at 0 and no dropout, each step's and each evaluation's loss follows from the logits of predict."""
        base = s.model_make(self.path("m"), s.LABELS)
        out = self.go("a", "--train.lr", 0, "--model.dropout", 0, "--model.base", base, "--train.batch", 7)

        def losses(split):
            texts, gold = (s.file_lines(f"{self.data}/emotion/{split}_{part}.txt") for part in ("text", "labels"))
            answers = s.run("predict", "--model", f"{out}/model", stdin=b"".join(t + b"\n" for t in texts)).lines()
            return [math.log(sum(math.exp(v) for v in a["logits"])) - a["logits"][int(g)] for a, g in zip(answers, gold)]

        of = losses("train")
        for event in s.events(out, "step"):
            self.assertAlmostEqual(event["loss"], sum(of[i] for i in event["samples"]) / len(event["samples"]), delta=2e-6)
        for event in s.events(out, "eval"):
            of = losses(event["split"])
            self.assertAlmostEqual(event["loss"], sum(of) / len(of), delta=2e-6)

    def test_a_partial_batch_counts_its_examples(self):
        """Five rows: batches of 5 and of 8 are the same batch, so the same loss and the same gradient."""
        s.split_write(f"{self.data}/emotion", "train", s.rows_make(5))
        one, two = (self.go(f"o{n}", "--train.batch", n, "--model.dropout", 0, "--train.parts", 4) for n in (5, 8))
        for step, event in s.steps(one).items():
            other = s.steps(two)[step]
            self.assertEqual(sorted(event["samples"]), sorted(other["samples"]))
            self.assertAlmostEqual(event["loss"], other["loss"], delta=1e-6)
            self.assertAlmostEqual(event["grad_norm"], other["grad_norm"], delta=1e-5 * event["grad_norm"])

    def test_schedules(self):
        total = 6
        rates = {"constant": lambda n: 1, "linear": lambda n: (total - n) / total, "cosine": lambda n: 0.5 * (1 + math.cos(math.pi * n / total))}
        for name, rate in rates.items():
            out = self.go(name, "--train.schedule", name)
            for n, event in enumerate(s.events(out, "step")):
                self.assertAlmostEqual(event["lr"], 1e-3 * rate(n), delta=1e-11)
        for warmup in (2, 1 / 3):
            out = self.go(f"warm{warmup}", "--train.warmup", warmup)
            wanted = [0, 1 / 2, 1, 3 / 4, 2 / 4, 1 / 4]
            for event, share in zip(s.events(out, "step"), wanted):
                self.assertAlmostEqual(event["lr"], 1e-3 * share, delta=1e-10)

    def test_log_every(self):
        out = self.go("a", "--log.every", 4, "--log.samples", "false")
        found = s.events(out, "step")
        self.assertEqual([e["step"] for e in found], [4])
        self.assertNotIn("samples", found[0])
        self.assertNotIn("step 3/", self.train(self.job, "--out", self.path("b"), "--log.level", "warn").err)

    def test_best_metric(self):
        out = self.go("a", "--train.best_metric", "loss", "--train.epochs", 4)
        losses = {e["step"]: e["loss"] for e in s.events(out, "eval") if e["split"] == "val"}
        self.assertEqual(s.events(out, "end")[0]["best"]["step"], min(losses, key=losses.get))

    def test_the_best_model_is_handed_over(self):
        """model/ holds the weights of the best step, not of the last."""
        out = self.go("a", "--train.lr", 1e-6)
        best = s.events(out, "end")[0]["best"]["step"]
        self.assertEqual(best, 3, "ties: the earlier")
        self.assertEqual(s.tensors_differ(s.safetensors_read(f"{out}/model/model.safetensors"), s.checkpoint_tensors(s.checkpoint(out, best))), [])
        self.assertNotEqual(s.tensors_differ(s.safetensors_read(f"{out}/model/model.safetensors"), s.checkpoint_tensors(s.checkpoint(out))), [])

    def test_overfits(self):
        """The whole of it learns: 24 rows by heart."""
        out = self.go("a", "--train.epochs", 40, "--model.dropout", 0, "--model.base", s.model_make(self.path("m")))
        losses = [e["loss"] for e in s.events(out, "step")]
        self.assertLess(sum(losses[-3:]), 0.8 * sum(losses[:3]))

    def test_dtype(self):
        out = self.go("a", "--export.dtype", "bf16")
        tensors, master = s.safetensors_read(f"{out}/model/model.safetensors"), s.checkpoint_tensors(s.checkpoint(out, s.events(out, "end")[0]["best"]["step"]))
        self.assertLess(os.path.getsize(f"{out}/model/model.safetensors"), 154180 * 2 + 10000)
        for name, value in tensors.items():
            self.assertLessEqual(float(abs(value - master[name]).max()), float(abs(master[name]).max()) / 256, name)

    def test_tokens_above_the_ceiling(self):
        result = s.run("run", self.job, "--out", self.path("a"), "--train.max_tokens", 20)
        self.assertRefused(result, 64, "train.max_tokens", "20")
        self.assertFalse(os.path.exists(self.path("a/model")))


class Labels(s.Case):
    """One mapping, by name, whatever the base model says."""

    def setUp(self):
        super().setUp()
        self.data = s.task_make(self.path("d"), rows=(24, 12, 24))

    def base(self, names, name="m"):
        """A model that is fine-tuned on these classes, in this order."""
        return s.model_make(self.path(name), names)

    def permute(self, folder, order):
        """The same classifier with its outputs in another order: rows of the head and id2label are permuted alike."""
        tensors, config = s.safetensors_read(f"{folder}/model.safetensors"), s.json_read(f"{folder}/config.json")
        names = [config["id2label"][str(i)] for i in range(len(order))]
        for part in ("weight", "bias"):
            tensors[f"classifier.out_proj.{part}"] = tensors[f"classifier.out_proj.{part}"][order].copy()
        config["id2label"] = {str(i): names[k] for i, k in enumerate(order)}
        config["label2id"] = {names[k]: i for i, k in enumerate(order)}
        other = self.path("permuted")
        shutil.copytree(folder, other)
        s.safetensors_write(f"{other}/model.safetensors", tensors)
        s.json_write(f"{other}/config.json", config)
        return other

    def run_from(self, base, name, *arguments):
        out = self.path(name)
        result = s.run("run", "--model.base", base, "--data.dir", self.data, "--data.task", "emotion", "--out", out, "--threads", 1,
                       "--train.batch", 8, "--train.epochs", 2, "--log.every", 1, *arguments)
        self.assertExit(result, 0)
        return out, result

    def test_permuted_base_is_aligned(self):
        base = self.base(s.LABELS)
        straight, _ = self.run_from(base, "a", "--train.lr", 0)
        turned, result = self.run_from(self.permute(base, [2, 0, 3, 1]), "b", "--train.lr", 0)
        self.assertRegex(result.err, r"(?i)label")
        one, two = (s.safetensors_read(f"{o}/model/model.safetensors") for o in (straight, turned))
        self.assertEqual(s.tensors_differ(one, two), [], "rows of the head stand in the data's order again")
        self.assertEqual(s.json_read(f"{turned}/model/config.json")["id2label"], {str(i): n for i, n in enumerate(s.LABELS)})
        self.assertEqual(s.events(straight, "eval")[-1]["confusion"], s.events(turned, "eval")[-1]["confusion"])

    def test_other_classes_are_replaced(self):
        for names in (["positive", "negative"], ["w", "x", "y", "z"], s.LABELS[:3] + ["boredom"]):
            with self.subTest(names=names):
                shutil.rmtree(self.path("m"), ignore_errors=True)
                shutil.rmtree(self.path("a"), ignore_errors=True)
                out, result = self.run_from(self.base(names), "a")
                self.assertRegex(result.err, r"(?i)head|label")
                self.assertEqual(list(s.json_read(f"{out}/model/config.json")["id2label"].values()), s.LABELS)

    def test_eval_of_a_permuted_model(self):
        """eval, predictions and predict name the same label for the same tweet, and the data's ids go into the file."""
        base = self.base(s.LABELS)
        permuted = self.permute(base, [3, 2, 0, 1])
        answers = {}
        for folder in (base, permuted):
            file = self.path("p.txt")
            result = s.run("eval", "--model", folder, "--data.dir", self.data, "--data.task", "emotion", "--predictions", file, "--json")
            self.assertExit(result, 0)
            answers[folder] = (s.file_lines(file), result.lines()[0]["confusion"])
        self.assertEqual(answers[base], answers[permuted])
        self.assertGreater(len(set(answers[base][0])), 1, "the test needs a model that says more than one thing")
        texts = b"".join(t + b"\n" for t in s.file_lines(f"{self.data}/emotion/test_text.txt"))
        for folder in (base, permuted):
            named = [a["label"] for a in s.run("predict", "--model", folder, stdin=texts).lines()]
            self.assertEqual([s.LABELS[int(v)] for v in answers[base][0]], named)

    def test_eval_of_a_model_with_other_classes(self):
        result = s.run("eval", "--model", self.base(["x", "y", "z", "w"]), "--data.dir", self.data, "--data.task", "emotion")
        self.assertRefused(result, 65)

    def test_same_label_everywhere(self):
        out, _ = self.run_from(self.base(None), "a", "--train.lr", 1e-3, "--train.epochs", 8, "--model.dropout", 0)
        file = self.path("p.txt")
        result = s.run("eval", "--model", f"{out}/model", "--data.dir", self.data, "--data.task", "emotion", "--predictions", file, "--json")
        self.assertExit(result, 0)
        answer, event = result.lines()[0], s.events(out, "eval")[-1]
        for key in ("split", "official", "accuracy", "macro_f1", "macro_recall", "per_class", "confusion"):
            self.assertEqual(answer[key], event[key], key)
        predicted = [int(v) for v in s.file_lines(file)]
        gold = [int(v) for v in s.file_lines(f"{self.data}/emotion/test_labels.txt")]
        self.assertEqual([[sum(g == a and p == b for g, p in zip(gold, predicted)) for b in range(4)] for a in range(4)], answer["confusion"])
        names = s.json_read(f"{out}/model/config.json")["id2label"]
        texts = b"".join(t + b"\n" for t in s.file_lines(f"{self.data}/emotion/test_text.txt"))
        self.assertEqual([a["label"] for a in s.run("predict", "--model", f"{out}/model", stdin=texts).lines()], [names[str(p)] for p in predicted])
        score = s.run("score", "--data.dir", self.data, "--predictions", file, "--task", "emotion", "--json").lines()[0]
        self.assertAlmostEqual(score["tasks"]["emotion"], answer["official"]["value"], places=8)


class Verbs(s.Case):
    """predict, eval, inspect and export on what a run made."""

    @classmethod
    def setUpClass(cls):
        cls.root = s.tempfile.mkdtemp(prefix="finetuned-test-")
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        cls.data, cls.out = s.task_make(os.path.join(cls.root, "d")), os.path.join(cls.root, "o")
        cls.base = s.model_make(os.path.join(cls.root, "m"))
        cls.job = s.job_write(os.path.join(cls.root, "job.yaml"), cls.data, cls.out, model__base=cls.base)
        result = s.run("run", cls.job)
        if result.rc:
            raise AssertionError(str(result))
        cls.model = os.path.join(cls.out, "model")

    def test_predict(self):
        result = s.run("predict", "--model", self.model, "happy day", "", "so alone \U0001f602")
        self.assertExit(result, 0)
        answers = result.lines()
        self.assertEqual(len(answers), 3)
        for answer in answers:
            self.assertEqual(list(answer), ["label", "score", "scores", "logits"])
            self.assertEqual(list(answer["scores"]), s.LABELS)
            self.assertAlmostEqual(sum(answer["scores"].values()), 1, places=6)
            self.assertEqual(answer["score"], answer["scores"][answer["label"]])
            self.assertEqual(answer["score"], max(answer["scores"].values()))
            powers = [math.exp(v) for v in answer["logits"]]
            for value, power in zip(answer["scores"].values(), powers):
                self.assertAlmostEqual(value, power / sum(powers), places=5)

    def test_predict_inputs_agree(self):
        texts = ["happy day", "", "tab\tand \"quotes\"", "caf\u00e9"]
        wanted = s.run("predict", "--model", self.model, "--", *texts).lines()
        self.assertEqual(len(wanted), 4)
        self.assertEqual(s.run("predict", "--model", self.model, stdin="\n".join(texts) + "\n").lines(), wanted)
        self.assertEqual(s.run("predict", "--model", self.model, "--file", self.write("t.txt", "\n".join(texts))).lines(), wanted)
        self.assertEqual(s.run("predict", "--model", self.model, texts[0]).lines(), wanted[:1], "the same bits whatever shares its batch")

    def test_predict_cuts_or_refuses(self):
        long, short = "word " * 50, "word"
        answer, plain = s.run("predict", "--model", self.model, long, short).lines()
        self.assertIs(answer["truncated"], True)
        self.assertNotIn("truncated", plain)
        self.assertExit(s.run("predict", "--model", self.model, "--no-truncation", short, long), 65, "2")

    def test_predict_bad_input(self):
        self.assertExit(s.run("predict", "--model", self.model, stdin=b"fine\nbad \xff\n"), 65, "standard input:2")
        self.assertRefused(s.run("predict", "--model", self.base, "x"), 65, "head")
        self.assertRefused(s.run("predict", "--model", self.model, "--file", "/nowhere/x"), 65, "/nowhere/x")

    def test_predict_nothing(self):
        result = s.run("predict", "--model", self.model, stdin=b"")
        self.assertExit(result, 0)
        self.assertEqual(result.out, "")

    def test_predict_on_a_checkpoint(self):
        best = s.checkpoint(self.out, "best")
        self.assertEqual(s.run("predict", "--model", best, "happy day").lines(), s.run("predict", "--model", self.model, "happy day").lines())

    def test_eval_splits(self):
        for split in ("train", "val", "test"):
            result = s.run("eval", "--model", self.model, "--data.dir", self.data, "--data.task", "emotion", "--split", split, "--json")
            self.assertExit(result, 0)
            answer = result.lines()[0]
            self.assertEqual(answer["split"], split)
            self.assertEqual([k for k in KEYS["eval"] if k not in answer], [])
            self.assertEqual(sum(map(sum, answer["confusion"])), 24 if split == "train" else 12)
        self.assertEqual(answer["confusion"], s.events(self.out, "eval")[-1]["confusion"])

    def test_eval_text(self):
        result = s.run("eval", "--model", self.model, "--data.dir", self.data, "--data.task", "emotion")
        self.assertExit(result, 0)
        for word in ("macro_f1", *s.LABELS):
            self.assertIn(word, result.out)

    def test_eval_on_a_checkpoint(self):
        for path in (s.checkpoint(self.out, "best"), os.path.join(s.checkpoint(self.out, "best"), "checkpoint.h5")):
            result = s.run("eval", "--model", path, "--data.dir", self.data, "--data.task", "emotion", "--json")
            self.assertExit(result, 0)
            self.assertEqual(result.lines()[0]["confusion"], s.events(self.out, "eval")[-1]["confusion"])

    def test_eval_bad_data(self):
        self.assertRefused(s.run("eval", "--model", self.model, "--data.dir", self.data, "--data.task", "hate"), 65, "hate")

    def test_export_equals_the_runs(self):
        for source in (self.model, s.checkpoint(self.out, "best")):
            out = self.path("e")
            shutil.rmtree(out, ignore_errors=True)
            result = s.run("export", "--from", source, "--to", "hf", "--out", out)
            self.assertExit(result, 0)
            self.assertIn(out, result.out)
            self.assertEqual(sorted(os.listdir(out)), MODEL_FILES)
            card = set() if source == self.model else {"README.md", "finetuned.sha256"}  # a checkpoint does not know its scores
            for name in sorted(set(MODEL_FILES) - card):
                with open(os.path.join(out, name), "rb") as one, open(os.path.join(self.model, name), "rb") as two:
                    self.assertEqual(one.read(), two.read(), name)

    def test_export_does_not_overwrite_strangers(self):
        self.write("e/precious.txt", "mine")
        self.assertRefused(s.run("export", "--from", self.model, "--to", "hf", "--out", self.path("e")), 64, "e")
        self.assertEqual(os.listdir(self.path("e")), ["precious.txt"])
        self.assertRefused(s.run("export", "--from", self.base, "--to", "hf", "--out", self.path("f")), 65)

    def test_inspect(self):
        for path in (self.model, f"{self.model}/model.safetensors", s.checkpoint(self.out)):
            for more in ([], ["--verify"], ["--json"]):
                with self.subTest(path=path, more=more):
                    result = s.run("inspect", *more, path)
                    self.assertExit(result, 0)
                    if more == ["--json"]:
                        self.assertEqual(len(result.lines()), 1)
                    elif path == self.model:
                        self.assertIn("roberta.encoder.layer.1.output.dense.weight", result.out)

    def test_inspect_what_is_nothing(self):
        self.assertRefused(s.run("inspect", self.write("x.txt", "hello")), 65, "x.txt")
        os.makedirs(self.path("empty"))
        self.assertRefused(s.run("inspect", self.path("empty")), 65, "empty")

    def test_model_is_a_base(self):
        out = self.path("second")
        result = self.train("--model.base", self.model, "--data.dir", self.data, "--data.task", "emotion", "--out", out, "--threads", 1,
                            "--train.lr", 0, "--train.epochs", 1)
        self.assertNotIn("a new one", result.err)
        self.assertEqual(s.tensors_differ(s.safetensors_read(f"{out}/model/model.safetensors"), s.safetensors_read(f"{self.model}/model.safetensors")), [])

    def test_broken_model(self):
        size = os.path.getsize(f"{self.model}/model.safetensors")
        tensors = s.safetensors_read(f"{self.model}/model.safetensors")
        gone = "roberta.encoder.layer.1.attention.self.key.weight"
        cases = {"short": (lambda p: os.truncate(p, size - 4), "model.safetensors"), "empty": (lambda p: os.truncate(p, 0), "model.safetensors"),
                 "missing": (lambda p: s.safetensors_write(p, {k: v for k, v in tensors.items() if k != gone}), gone),
                 "shape": (lambda p: s.safetensors_write(p, {k: v[:-1].copy() if k == gone else v for k, v in tensors.items()}), gone),
                 "no file": (os.remove, "model.safetensors")}
        for name, (breaks, word) in cases.items():
            with self.subTest(name=name):
                folder = self.path("broken")
                shutil.rmtree(folder, ignore_errors=True)
                shutil.copytree(self.model, folder)
                os.remove(os.path.join(folder, "finetuned.sha256"))  # which tells a base that is damaged before it is opened
                breaks(os.path.join(folder, "model.safetensors"))
                self.assertRefused(s.run("predict", "--model", folder, "x"), 65, word)
                self.assertRefused(s.run("run", self.job, "--model.base", folder, "--out", self.path("o")), 65, word)

    def test_broken_config(self):
        for key, value in (("num_attention_heads", 3), ("hidden_size", 10**9), ("vocab_size", 5), ("model_type", "llama"), ("hidden_act", "swiglu"),
                           ("num_hidden_layers", -1)):
            with self.subTest(key=key):
                folder = self.path("broken")
                shutil.rmtree(folder, ignore_errors=True)
                shutil.copytree(self.model, folder)
                s.json_write(f"{folder}/config.json", {**s.json_read(f"{folder}/config.json"), key: value})
                self.assertRefused(s.run("predict", "--model", folder, "x"), 65, folder)


class Bert(s.Case):
    """The real MiniLM as a base, one short run."""

    def test_minilm(self):
        base = s.golden("FINETUNED_MINILM", "config.json")
        data, out = s.task_make(self.path("d"), rows=(8, 4, 4)), self.path("o")
        result = self.train("--model.base", os.path.dirname(base), "--data.dir", data, "--data.task", "emotion", "--out", out, "--threads", 2,
                            "--train.epochs", 1, "--train.batch", 4, "--log.every", 1, "--checkpoints.keep", 1)
        self.assertIn("new", result.err)
        config = s.json_read(f"{out}/model/config.json")
        self.assertEqual((config["architectures"], config["model_type"]), (["BertForSequenceClassification"], "bert"))
        names = s.safetensors_read(f"{out}/model/model.safetensors")
        self.assertIn("bert.encoder.layer.5.attention.self.query.weight", names)
        self.assertIn("classifier.weight", names)
        self.assertTrue(os.path.exists(f"{out}/model/vocab.txt"))
        self.assertEqual(len(s.run("predict", "--model", f"{out}/model", "hello").lines()), 1)


if __name__ == "__main__":
    s.main()
