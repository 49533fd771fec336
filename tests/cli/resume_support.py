# SPDX-License-Identifier: Apache-2.0
"""What the resume tests share: tiny runs, what of their events counts, folders compared, whole jobs killed."""
import contextlib
import hashlib
import os
import shutil
import signal
import time

import support as s

MEASURED = {"time", "tweets_per_s", "tokens_per_s", "flops_share"}  # of clocks: all that may differ between equal runs
QUIET = {"log__level": "warn", "log__tensorboard": False}


def counting(out):
    """The step, skip and eval events that count: what a resume (or a start without one: from step 0) supersedes is left out, and what
    clocks say. An evaluation may be there more than once, since a run may be ended behind it: the last one of a split and step counts."""
    found, resumed = [], False
    for event in s.events(out):
        kind = event["event"]
        if kind == "start" and not resumed:
            found = []
        if kind in ("start", "resume"):
            resumed = kind == "resume"
        if kind == "resume":
            found = [e for e in found if e["step"] <= event["step"] and e.get("cursor", -1) < event["cursor"]]
        elif kind in ("step", "skip", "eval"):
            if kind == "eval":
                found = [e for e in found if (e["event"], e["step"], e.get("split")) != ("eval", event["step"], event["split"])]
            found.append({k: v for k, v in event.items() if k not in MEASURED})
    return found


def tree(folder, without=(".owner",)):
    """Every file and link below a folder, by relative path, as its bytes' hash."""
    found = {}
    for at, folders, names in os.walk(folder):
        found[os.path.relpath(at, folder)] = "folder"
        for name in names + [n for n in folders if os.path.islink(os.path.join(at, n))]:
            path = os.path.join(at, name)
            if name in without:
                continue
            if os.path.islink(path):
                found[os.path.relpath(path, folder)] = os.readlink(path)
            else:
                with open(path, "rb") as file:
                    found[os.path.relpath(path, folder)] = hashlib.sha256(file.read()).hexdigest()
    return found


def left_over(folder):
    """Paths below a folder that a writer left half-made: temporary names, locks, claims. Not what lies below such a folder."""
    is_left = lambda n: ".tmp-" in n or ".old-" in n or n.endswith(".lock") or ".next-" in n
    found = []
    for at, folders, names in os.walk(folder):
        found += [os.path.join(at, n) for n in folders + names if is_left(n)]
        folders[:] = [n for n in folders if not is_left(n)]
    return sorted(found)


def session(leader):
    """Process ids of a session: mpirun and all that it started, whatever groups they made."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, IndexError):
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
            if int(fields[3]) == leader and fields[0] not in "ZX":
                found.append(int(pid))
    return found


def kill_all(process):
    """SIGKILL to everything that a Popen of support.start() started, its ranks first."""
    for _ in range(100):
        pids = session(process.pid)
        for pid in sorted(pids, key=lambda p: p == process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not pids:
            break
        time.sleep(0.002)
    process.communicate()


class Runs(s.Case):
    """Small runs: 15 steps in 3 epochs (38 rows in batches of 8, the last of an epoch is partial), a checkpoint at each step."""

    rows = (38, 12, 8)
    keys = {"train__epochs": 3, "checkpoints__every": 1, "checkpoints__keep": 99, "train__warmup": 2, **QUIET}

    @classmethod
    def setUpClass(cls):
        cls.root = s.tempfile.mkdtemp(prefix="finetuned-test-")
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        cls.data = s.task_make(os.path.join(cls.root, "d"), rows=cls.rows)

    def setUp(self):
        super().setUp()
        self.out = self.path("o")

    def job(self, name="job", **keys):
        return s.job_write(self.path(f"{name}.yaml"), keys.pop("data", self.data), self.out, **{**self.keys, **keys})

    def begin(self, job, *arguments, **options):
        """A run under way; whatever is left of it goes at the test's end."""
        process = s.start("run", job, "--out", self.out, *arguments, **options)
        self.addCleanup(lambda: process.poll() is None and kill_all(process))
        return process

    def cut(self, unbroken, step):
        """self.out: the unbroken run's folder as a crash behind the checkpoint of `step` leaves it."""
        shutil.rmtree(self.out, ignore_errors=True)
        shutil.copytree(unbroken, self.out, symlinks=True)
        folder = os.path.join(self.out, "checkpoints")
        for name in s.checkpoint_names(self.out):
            if int(name[5:]) > step:
                shutil.rmtree(os.path.join(folder, name))
        for link in ("latest", "best"):
            path = os.path.join(folder, link)
            if os.path.islink(path) and not os.path.exists(path):
                os.remove(path)
        os.symlink(f"step-{step:08d}", os.path.join(folder, "latest"))
        for name in ("model", "artifacts", "report.json", "report.md"):
            path = os.path.join(self.out, name)
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
        lines = s.file_lines(os.path.join(self.out, "events.jsonl"))
        keep = next(i for i, line in enumerate(lines) if b'"event": "checkpoint"' in line and f'"step": {step},'.encode() in line)
        with open(os.path.join(self.out, "events.jsonl"), "wb") as file:
            file.write(b"\n".join(lines[:keep + 1]) + b"\n")

    def assertSameEnd(self, other):
        """Every event that counts, all weights and moments, the exported model, and the state of the last checkpoint."""
        mine, theirs = counting(self.out), counting(other)
        self.assertEqual([(e["event"], e["step"]) for e in mine], [(e["event"], e["step"]) for e in theirs])
        for one, two in zip(mine, theirs):
            self.assertEqual(one, two)
        for group in ("model", "optimizer"):
            self.assertEqual(s.tensors_differ(s.checkpoint_tensors(s.checkpoint(self.out), group), s.checkpoint_tensors(s.checkpoint(other), group)), [])
        self.assertEqual(s.tensors_differ(s.safetensors_read(f"{self.out}/model/model.safetensors"),
                                          s.safetensors_read(f"{other}/model/model.safetensors")), [])
        one, two = (s.checkpoint_attributes(s.checkpoint(o)) for o in (self.out, other))
        for state in (one, two):
            state.pop("run_id"), state.pop("world")
        self.assertEqual(one, two)

    def unbroken(self, job, name="unbroken", **options):
        out = self.path(name)
        self.train(job, "--out", out, **options)
        return out
