# SPDX-License-Identifier: Apache-2.0
"""Walks of faults over the whole program: a fresh run, a run gone on with, prepare and export, each with its n-th call hit, then started again.

Here each SAMPLE-th call meets the next fault of the list; with FINETUNED_LONG=1 each LONG_SAMPLE-th call meets every one. (Each call
of a save, a retention, an export and a shard, one by one: tests/shim/walk.c.)
"""
import itertools
import os
import re
import shutil
import tarfile
import unittest

import shim
import support as s

LONG = bool(os.environ.get("FINETUNED_LONG"))
LONG_SAMPLE = 11
CHANGES = "changes,close"
READS = "reads"
BYTES = "write,pwrite,read,pread"
# Which calls, what they meet, how many of them, and the exit codes that are right.
FAULTS = (
    (CHANGES, "fail:EIO", None, (0, 74)),
    (CHANGES, "kill-after", None, (0, -9)),
    ("write,pwrite,truncate,mkdir,link,create,fsync", "fail:ENOSPC", "all", (0, 74)),
    (READS, "fail:EIO", None, (0, 74)),
    (CHANGES, "kill-before", None, (0, -9)),
    (BYTES, "short", None, (0,)),
    (CHANGES, "fail:EIO", "all", (0, 74)),
    (BYTES, "fail:EINTR", None, (0,)),
)
# Without memory a parser of JSON may take what it reads for wrong, and HDF5 and libarchive end the process themselves.
MEMORY = ("memory", "fail:ENOMEM", None, (0, 70, 65, 74, 1, 255, -11, -6))
LEFT = re.compile(r"\.(tmp|old)-|\.lock$|\.next-|^\.owner")


def walkable():
    """A folder in memory where there is one: a walk is thousands of fsyncs."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def left_over(folder):
    return sorted(os.path.join(at, n) for at, folders, names in os.walk(folder) for n in [*folders, *names] if LEFT.search(n))


def archived(path, name="model.safetensors"):
    with tarfile.open(path) as archive:
        return archive.extractfile(name).read()


def regions(path):
    """Where the datasets' bytes lie in a checkpoint.h5: the same place in every one of a model."""
    import h5py

    found = []
    with h5py.File(path, "r") as file:
        take = lambda _, item: found.append((item.id.get_offset(), item.nbytes)) if isinstance(item, h5py.Dataset) else None
        file.visititems(take)
    return found


def read(path):
    with open(path, "rb") as file:
        return file.read()


class Walk(s.Case):
    SAMPLE = 1  # every so-manieth call, where not all are walked
    MEMORY_SAMPLE = 1

    def setUp(self):
        super().setUp()
        if walkable():
            shutil.rmtree(self.folder)
            self.folder = os.path.join(walkable(), os.path.basename(self.folder))
            os.mkdir(self.folder)
            self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        s.task_make(self.path("data"), rows=(8, 4, 4))
        self.at, self.before, self.log = self.path("at"), self.path("before"), self.path("log")
        self.anew = self.path("anew")
        os.mkdir(self.before)
        self.job = s.job_write(self.path("job.yaml"), self.path("data"), self.at, train__epochs=2, train__batch=4, train__parts=2,
                               export__to=["hf", "sagemaker"], checkpoints__every=1, checkpoints__keep=2, log__level="info")

    def reset(self):
        shutil.rmtree(self.at, ignore_errors=True)
        shutil.copytree(self.before, self.at, symlinks=True)
        for path in (self.log, self.anew):
            if os.path.exists(path):
                os.unlink(path)

    def counted(self, calls, command):
        self.reset()
        result = s.run(*command, env=shim.environment(self.at, calls, log=self.log))
        self.assertExit(result, 0)
        kinds = shim.counts(self.log)
        groups = {"changes": "write pwrite fsync rename truncate mkdir unlink link create", "reads": "open read pread mmap", "memory": "malloc"}
        return sum(kinds.get(kind, 0) for word in calls.split(",") for kind in groups.get(word, word).split())

    def attempt(self, command, again, n, fault):
        calls, do, count, codes = fault
        where = f"{calls} call {n}: {do}{' and all that follow' if count else ''}"
        self.reset()
        result = s.run(*command, env=shim.environment(self.at, calls, at=n, do=do, count=count, log=self.log))
        hits = shim.hits(self.log)
        with self.subTest(where=where, hits=hits[:3]):
            self.assertTrue(hits, "the call did not come")
            self.assertIn(result.rc, codes, str(result))
            if result.rc > 1 and calls != "memory":
                errors = [line for line in result.err.split("\n") if "error: " in line]
                self.assertEqual(len(errors), 1, f"one line says why: {result}")
                self.assertIn(self.at, errors[0])
            self.between(result)
            left = left_over(self.at) if result.rc < 0 else []
            mended = s.run(*again)
            self.assertExit(mended, 0)
            for name in left:
                if not name.endswith(".lock") and ".owner" not in name and not any(name.startswith(folder + "/") for folder in left):
                    self.assertIn(name, mended.err, f"it did not say what it removed: {mended}")
            self.assertEqual(left_over(self.at), [], str(mended))
            self.after(mended)

    def walk(self, *command, again=None, faults=FAULTS):
        again = again or command
        totals = {calls: self.counted(calls, command) for calls, _, _, _ in (*faults, MEMORY)}
        self.reference()
        if LONG:
            plan = [(n, fault) for i, fault in enumerate(faults) for n in range(1 + i, totals[fault[0]] + 1, LONG_SAMPLE)]
        else:
            turns, sample = itertools.cycle(faults), self.SAMPLE * (5 if shim.sanitizer() else 1)
            most = max(totals[fault[0]] for fault in faults)
            plan = [(n, fault) for n, fault in zip(range(1, most + 1, sample), turns) if n <= totals[fault[0]]]
        if not shim.sanitizer():
            plan += [(n, MEMORY) for n in range(1, totals["memory"] + 1, self.MEMORY_SAMPLE // (20 if LONG else 1))]
        for n, fault in plan:
            self.attempt(command, again, n, fault)
        print(f"{len(plan)} attempts; calls: {totals}", flush=True)

    def reference(self):
        """Remembers what the untouched action made."""

    def between(self, result):
        """What must hold after an attempt."""

    def after(self, result):
        """What must hold after the new start."""


class Runs(Walk):
    SAMPLE, MEMORY_SAMPLE = 41, 9001

    def reference(self):
        self.tensors = {}
        folder = self.path("all")
        self.train(self.job, "--out", folder, "--checkpoints.keep", 100)
        for name in s.checkpoint_names(folder):
            path = os.path.join(folder, "checkpoints", name, "checkpoint.h5")
            self.regions = regions(path)
            self.tensors[name] = self.values(path)
        self.model = read(os.path.join(folder, "model", "model.safetensors"))
        self.names = sorted(os.listdir(os.path.join(folder, "model")))
        self.artifacts = sorted(os.listdir(os.path.join(folder, "artifacts")))
        self.course = s.course(folder)

    def values(self, path):
        """All weights and moments of a checkpoint, as bytes."""
        data = read(path)
        return [data[at:at + size] for at, size in self.regions]

    def checkpoints(self):
        folder = os.path.join(self.at, "checkpoints")
        return s.checkpoint_names(self.at) if os.path.isdir(folder) else []

    def between(self, result):
        """Each checkpoint that is there, is there whole and is its step; so are the model and the artifacts."""
        for name in self.checkpoints():
            path = os.path.join(self.at, "checkpoints", name)
            self.assertEqual(sorted(os.listdir(path)), ["MANIFEST.json", "checkpoint.h5"], path)
            self.assertTrue(self.values(os.path.join(path, "checkpoint.h5")) == self.tensors[name], f"{name} is not its step")
        had = os.path.join(self.before, "checkpoints")
        if os.path.isdir(had):
            self.assertGreaterEqual(self.checkpoints()[-1], s.checkpoint_names(self.before)[-1])
        model, artifacts = os.path.join(self.at, "model"), os.path.join(self.at, "artifacts")
        # A best checkpoint that can't be read is said and found anew: then it is another one's model.
        anew = "the best is found anew" in result.err or os.path.exists(self.anew)
        if anew:
            open(self.anew, "wb").close()
        if os.path.exists(model):
            self.assertEqual(sorted(os.listdir(model)), self.names)
            self.assertTrue(anew or read(os.path.join(model, "model.safetensors")) == self.model, "another model")
        for name in os.listdir(artifacts) if os.path.exists(artifacts) else ():
            self.assertTrue(anew or LEFT.search(name) or archived(os.path.join(artifacts, name)) == self.model, name)
        for name in ("report.json", "job.yaml"):
            if os.path.exists(os.path.join(self.at, name)):
                self.assertGreater(os.path.getsize(os.path.join(self.at, name)), 100)

    def after(self, result):
        self.between(result)
        self.assertEqual(self.checkpoints()[-1], max(self.tensors))
        self.assertEqual(s.course(self.at), self.course)
        self.assertEqual(s.events(self.at)[-1]["event"], "end")
        self.assertEqual(sorted(os.listdir(os.path.join(self.at, "artifacts"))), self.artifacts)
        s.json_read(os.path.join(self.at, "report.json"))

    def test_fresh(self):
        self.walk("run", self.job)


class Resumed(Runs):
    SAMPLE, MEMORY_SAMPLE = 43, 9001

    def test_fresh(self):
        self.skipTest("of the other class")

    def test_resumed(self):
        """Killed in the middle of saving step 4 of 4: step 3 is the newest, and retention goes on."""
        log = self.path("count")
        os.mkdir(self.before + "-all")
        watched = shim.environment(self.before + "-all", "pwrite", log=log)
        self.train(self.job, "--out", self.before + "-all", env=watched)
        pieces = shim.counts(log)["pwrite"] // 4
        killed = s.run("run", self.job, "--out", self.before, env=shim.environment(self.before, "pwrite", at=4 * pieces - pieces // 2, do="kill-before"))
        self.assertEqual((killed.rc, s.checkpoint_names(self.before)), (-9, ["step-00000002", "step-00000003"]))
        self.walk("run", self.job)


class Verbs(Walk):
    SAMPLE, MEMORY_SAMPLE = 7, 2003

    def test_prepare(self):
        cache = os.path.join(self.at, "cache")
        self.made = lambda: {n: read(os.path.join(cache, n)) for n in os.listdir(cache) if not LEFT.search(n)} if os.path.isdir(cache) else {}
        self.reference = lambda: setattr(self, "want", self.made())
        self.between = lambda _: self.assertTrue(all(made == self.want[name] for name, made in self.made().items()), "half a shard")
        self.after = lambda _: self.assertTrue(self.made() == self.want, "shards are missing")
        self.walk("prepare", "--data.dir", self.path("data"), "--data.task", "emotion", "--model.base", "random:tiny", "--out", cache)

    def export(self, kind):
        base, old = s.model_make(self.path("m"), list("abcd"), layers=1), s.model_make(self.path("m2"), list("abcd"), layers=1, seed=8)
        out = os.path.join(self.at, "x")
        tree = lambda: {os.path.relpath(os.path.join(at, n), self.at): read(os.path.join(at, n)) for at, folders, names in os.walk(self.at)
                        for n in names if not LEFT.search(os.path.join(at, n)[len(self.at):])}
        self.reset()
        self.assertExit(s.run("export", "--from", old, "--to", kind, "--out", out), 0)
        shutil.rmtree(self.before)
        shutil.copytree(self.at, self.before, symlinks=True)
        earlier = tree()
        self.reference = lambda: setattr(self, "want", tree())
        self.between = lambda _: self.assertTrue(tree() in (earlier, self.want), "half an export")
        self.after = lambda _: self.assertTrue(tree() == self.want, "another export")
        self.walk("export", "--from", base, "--to", kind, "--out", out)

    def test_export_directory(self):
        self.export("hf")

    def test_export_archive(self):
        self.export("sagemaker")


class Reads(Walk):
    """Everything that is read, from each call on that reads it: 74 with the path, once and for good."""

    ALL = 30  # calls; of more, some

    more = {}  # variables of the environment

    def refused(self, folder, *command, codes=(74,)):
        self.reset()
        self.assertExit(s.run(*command, env=shim.environment(folder, READS, log=self.log)), 0)
        total = sum(shim.counts(self.log).get(kind, 0) for kind in ("open", "read", "pread", "mmap"))
        self.assertGreater(total, 2)
        numbers = range(1, total + 1, 1 + (0 if LONG else total // self.ALL) + (3 if shim.sanitizer() else 0))
        for n, count in itertools.product(numbers, (None, "all")):
            self.reset()
            env = {**shim.environment(folder, READS, at=n, do="fail:EIO", count=count, log=self.log), **self.more}
            result = s.run(*command, env=env)
            with self.subTest(command=command[0], n=n, count=count, hits=shim.hits(self.log)[:1]):
                self.assertIn(result.rc, codes, str(result))
                errors = [line for line in result.err.split("\n") if "error: " in line]
                self.assertEqual(len(errors), 1, str(result))
                self.assertIn(folder, errors[0])
                self.assertIn("Input/output error", errors[0])

    def test_data_and_base(self):
        model = s.model_make(self.path("in", "m"), s.LABELS, layers=1)
        s.task_make(self.path("in", "data"), rows=(8, 4, 4))
        data = ("--data.dir", self.path("in", "data"), "--data.task", "emotion")
        self.refused(self.path("in", "data"), "prepare", *data, "--model.base", model, "--out", os.path.join(self.at, "c"))
        self.refused(model, "run", *data, "--model.base", model, "--out", os.path.join(self.at, "o"), "--train.max_steps", 1, "--export.to", "[]")
        self.refused(self.path("in"), "eval", "--model", model, *data)

    def test_model(self):
        model = s.model_make(self.path("m"), list("abcd"), layers=1)
        self.refused(model, "predict", "--model", model, "a text")
        self.refused(model, "export", "--from", model, "--to", "hf", "--out", os.path.join(self.at, "x"))
        self.refused(model, "inspect", "--verify", model)

    def test_checkpoint(self):
        self.more = s.MPI_LEAKS  # HDF5 keeps memory after a read that failed
        out = self.path("o")
        self.train(self.job, "--out", out, "--train.max_steps", 1, "--export.to", "[]")
        self.refused(s.checkpoint(out, 1), "inspect", "--verify", s.checkpoint(out, 1))
        self.refused(s.checkpoint(out, 1), "export", "--from", s.checkpoint(out, 1), "--to", "hf", "--out", os.path.join(self.at, "x"))


if __name__ == "__main__":
    s.main()
