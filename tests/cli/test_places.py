# SPDX-License-Identifier: Apache-2.0
"""Where a run writes and replaces, nothing that the job keeps or reads may lie, and what others wrote is not deleted.
`checkpoints/latest` is read from one folder while it moves on."""
import json
import os
import shlex
import shutil
import threading

import support as s


class Places(s.Case):
    @classmethod
    def setUpClass(cls):
        cls.root = os.path.realpath(s.tempfile.mkdtemp(prefix="finetuned-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        cls.data = s.task_make(os.path.join(cls.root, "d"))
        cls.done = os.path.join(cls.root, "done")
        result = s.run("run", *cls.keys(cls.done))
        if result.rc:
            raise AssertionError(str(result))

    @classmethod
    def keys(cls, out, steps=2, **more):
        keys = {"model.base": "random:tiny", "data.dir": cls.data, "data.task": "emotion", "data.max_length": 40, "train.max_steps": steps,
                "threads": 1, "log.level": "warn", "train.parts": 1, "out": out, **more}
        return [word for key, value in keys.items() for word in (f"--{key}", value)]

    def copy(self):
        """A finished run's folder of this test's own."""
        return shutil.copytree(self.done, self.path("o"), symlinks=True)

    def put(self, *names):
        path = self.path(*names)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write("x\n")
        return path

    def refused(self, arguments, *words, verbs=("run", "dry", "doctor")):
        for verb in verbs:
            command = {"run": ("run",), "dry": ("run", "--dry-run"), "doctor": ("doctor",), "sweep": ("sweep", "--sweep.seeds", "1,2")}[verb]
            result = s.run(*command, *arguments)
            self.assertEqual(result.rc, 64, result)
            for word in words:
                self.assertIn(word, result.out if verb == "doctor" else result.err, result)


class Apart(Places):
    def test_what_is_kept(self):
        out = self.path("k")
        os.makedirs(self.path("real"))
        os.symlink("k", self.path("link"))
        os.symlink("real", self.path("way"))
        os.symlink("k/model", self.path("to"))
        for key in ("checkpoints.dir", "data.cache"):
            for place, word in ((f"{out}/model", "is"), (f"{out}/model/", "is"), (f"{out}/model/a/b", "lies in"), (f"{out}/none/../model", "is"),
                                (f"{out}/artifacts", "is"), (f"{out}/tensorboard/x", "lies in"), (self.path("link/model/c"), "lies in"),
                                (self.path("way/../k/model"), "is"), (self.path("to"), "is"), (self.path("k/none/../../to/c"), "lies in")):
                with self.subTest(key=key, place=place):
                    word += " what the run makes" if place in (f"{out}/model", f"{out}/artifacts") else f" {out}/"
                    self.refused(self.keys(out, **{key: place}), f"{key}: {place} {word}", "out: " + out, verbs=("run",))
        self.refused(self.keys(out, **{"checkpoints.dir": out}), f"checkpoints.dir: {out} holds {out}/model", "out: ")
        self.refused(self.keys(out, **{"checkpoints.dir": self.root_of()}), "checkpoints.dir", "holds", "out: ", verbs=("run",))
        self.assertFalse(os.path.exists(out), "nothing was written")
        self.assertEqual(os.listdir(self.path("real")), [])

    def root_of(self):
        return os.path.dirname(self.path("k"))

    def test_out_is_a_link(self):
        os.makedirs(self.path("real"))
        os.symlink("real", self.path("out"))
        self.refused(self.keys(self.path("out"), **{"checkpoints.dir": self.path("real/model")}), "checkpoints.dir", "out: ")
        self.assertEqual(os.listdir(self.path("real")), [])

    def test_relative(self):
        os.makedirs(self.path("here"))
        for out, place in (("k", "k/model"), (self.path("here/k"), "k/model/x"), ("k", "../here/k/model"), (".", "model")):
            result = s.run("run", *self.keys(out, **{"checkpoints.dir": place}), cwd=self.path("here"))
            self.assertExit(result, 64, "checkpoints.dir", "out: ")
        self.assertEqual(os.listdir(self.path("here")), [])

    def test_what_is_read(self):
        out = self.copy()
        model, before = os.path.join(out, "model"), s.checkpoint_tensors(s.checkpoint(out))
        names = sorted(os.listdir(model))
        self.refused(self.keys(out, **{"model.base": model}), "model.base", "is", "out: ")
        self.refused(self.keys(out, **{"model.vocab": os.path.join(model, "vocab.json")}), "model.vocab", "lies in", "out: ")
        self.refused(self.keys(out, **{"data.dir": model}), "data.dir", "is", "out: ", verbs=("run",))
        self.refused(self.keys(out, **{"checkpoints.resume": os.path.join(model, "x")}), "checkpoints.resume", "lies in", "out: ", verbs=("run",))
        self.assertEqual(sorted(os.listdir(model)), names)
        self.assertEqual(s.tensors_differ(before, s.checkpoint_tensors(s.checkpoint(out))), [])

    def test_beside_is_right(self):
        out = os.path.join(self.data, "k")  # within the data, a cache above, names that only begin alike
        self.addCleanup(shutil.rmtree, out, ignore_errors=True)
        keys = self.keys(out, **{"data.cache": self.data, "checkpoints.dir": os.path.join(out, "model-c"), "log.tensorboard": "false"})
        self.assertExit(s.run("run", *keys), 0)

    def test_sweep(self):
        out = self.path("w")
        for key, place in (("checkpoints.dir", "<out>/model"), ("checkpoints.dir", "<out>/x/../artifacts/y"), ("checkpoints.dir", "<out>"),
                           ("data.cache", f"{out}/emotion/lr-0.001-seed-2/model")):
            self.refused(self.keys(out, **{key: place, "train.lr": "0.001"}), key, "out: ", verbs=("sweep",))
        self.assertFalse(os.path.exists(out), "nothing was written")


class Taken(Places):
    """A run's or an export's folder is never put where another run's turn removes it, or where it makes that run be refused."""

    def tree(self, path):
        return sorted(os.path.join(root, name) for root, folders, names in os.walk(path) for name in folders + names)

    def test_of_another_run(self):
        a, other = self.copy(), self.path("k")
        os.symlink("o/checkpoints/latest", self.path("to"))
        before = self.tree(self.folder)
        for place, word in (("o/checkpoints/step-00000002", "is"), ("o/checkpoints/step-00000002/b", "lies in"), ("o/checkpoints/latest/b/c", "lies in"),
                            ("to", "is"), ("o/checkpoints/step-00000099", "is"), ("o/checkpoints/.tmp-step-00000099-0123456789abcdef", "is"),
                            ("o/checkpoints/.tmp-step-seen-0123456789abcdef/y", "lies in"), ("o/x/../checkpoints/step-00000002", "is"),
                            ("o/.b.tmp-finetuned-1-0", "is"), ("o/artifacts/.b.tmp-finetuned-2-1/c", "lies in"),
                            ("o/checkpoints/.latest.tmp-finetuned-1-1", "is"), ("o/checkpoints/.best.tmp-finetuned-1-1/c", "lies in"), ("o/checkpoints/step-00000001.aside-1", "is"), ("o/checkpoints/latest.aside-2/c", "lies in"),
                            ("o/checkpoints/step-7", "is"), (f"o/.owner.next-{'a' * 32}", "is"), (f"o/.owner.tmp-0123abcd-7-9-{'b' * 32}/c", "lies in"), ("o/artifacts/b", "lies in"),
                            ("o/tensorboard", "is"), ("o/model", "is"), ("o/model/b", "lies in"), ("o/model/b/c", "lies in")):
            place = self.path(place)
            with self.subTest(place=place):
                self.refused(self.keys(place), f"out: {place} {word} {a}/", "choose another folder", verbs=("run",))
                for key in ("checkpoints.dir", "data.cache"):
                    self.refused(self.keys(other, **{key: place}), f"{key}: {place} {word} {a}/", verbs=("run",))
                for kind in ("hf", "sagemaker"):
                    if place == self.path("o/model") and kind == "hf":  # made anew, by whoever says so
                        continue
                    result = s.run("export", "--from", os.path.join(self.done, "model"), "--to", kind, "--out", place)
                    self.assertExit(result, 64, f"export: --out: {place} {word} {a}/")
        for place in ("o/artifacts", "o/checkpoints", "o/shards"):  # a start clears its out of temporary names
            self.refused(self.keys(self.path(place)), f"out: {self.path(place)} is {a}/", verbs=("run",))
        self.refused(self.keys(other, **{"checkpoints.dir": self.path("o/artifacts")}), "checkpoints.dir: ", verbs=("run",))
        self.refused(self.keys(self.path("o/checkpoints/step-00000002/b")), "out: ", verbs=("run", "dry", "doctor", "sweep"))
        self.assertExit(s.run("prepare", *self.keys(self.path("o/model/x"))), 64, "o/model/x lies in")
        self.assertExit(s.run("man", "--out", self.path("o/model")), 64, "man: --out: ", "o/model is ")
        self.assertEqual(self.tree(self.folder), before, "nothing was written")

    def test_of_its_own(self):
        out = self.path("k")
        for folder in (f"{out}/checkpoints", self.path("c")):
            for name, word in (("step-00000002/c", "lies in"), (".tmp-step-00000002-0123456789abcdef", "is")):
                self.refused(self.keys(out, **{"checkpoints.dir": folder, "data.cache": f"{folder}/{name}"}), f"data.cache: {folder}/{name} {word} ",
                             verbs=("run", "dry"))
        self.assertFalse(os.path.exists(out), "nothing was written")

    def test_checkpoints_elsewhere(self):
        """Known by what they hold: a run's own folder has another name."""
        folder = self.path("c")
        self.assertExit(s.run("run", *self.keys(self.path("a"), **{"checkpoints.dir": folder})), 0)
        self.refused(self.keys(os.path.join(folder, "step-00000007")), "out: ", "is", verbs=("run",))
        self.refused(self.keys(os.path.join(folder, "step-00000002", "b")), "out: ", "lies in", verbs=("run",))
        self.refused(self.keys(self.path("k"), **{"data.cache": os.path.join(folder, "latest", "b")}), "data.cache: ", "a checkpoint, which a run that saves there removes as a whole", verbs=("run",))

    def test_what_it_writes(self):
        """checkpoints.dir and data.cache are no file of the run, nor a link of its checkpoints."""
        out = self.path("k")
        for name in ("report.json", "report.md", "job.yaml", "events.jsonl", "job.yaml/x"):
            for key in ("checkpoints.dir", "data.cache"):
                self.refused(self.keys(out, **{key: f"{out}/{name}"}), f"{key}: {out}/{name}", verbs=("run",))
        for name in ("latest", "best", "latest/x"):
            self.refused(self.keys(out, **{"data.cache": f"{out}/checkpoints/{name}"}), f"data.cache: {out}/checkpoints/{name}", verbs=("run",))
        self.assertFalse(os.path.exists(out), "nothing was written")

    def test_what_could_not_be_put_in_place(self):
        """Told before the first step, where the end would fail."""
        make = {"a file": lambda p: self.put(p), "a folder": lambda p: os.makedirs(p), "nowhere": lambda p: os.symlink("none", p),
                "a loop": lambda p: os.symlink(os.path.basename(p), p), "a pipe": lambda p: os.mkfifo(p)}
        rows = [("artifacts", kind) for kind in ("a file", "nowhere", "a loop", "a pipe")] + [("tensorboard", "a file")]
        rows += [(name, kind) for name in ("artifacts/job-hf.tar.gz", "report.json", "report.md", "job.yaml") for kind in ("a folder", "a pipe")]
        for i, (name, kind) in enumerate(rows):
            with self.subTest(name=name, kind=kind):
                path = self.path(f"r{i}", name)
                os.makedirs(os.path.dirname(path))
                make[kind](path)
                if kind == "nowhere":
                    self.assertExit(s.run("run", *self.keys(self.path(f"r{i}"))), 74, f"out: {path} is a link that leads to none, which is not there")
                else:
                    self.refused(self.keys(self.path(f"r{i}")), f"out: {path} is ", "another", verbs=("run", "dry"))
                self.assertEqual(self.tree(self.path(f"r{i}"))[-1], path)

    def test_beside_a_run(self):
        """What is only in its folder, and an archive among its own."""
        out = self.copy()
        for place in ("o/inner", "o/checkpoints/step-b", "o/checkpoints/b/step-00000002", "o/model-b"):
            self.assertExit(s.run("run", *self.keys(self.path(place))), 0)
        self.assertExit(s.run("export", "--from", os.path.join(self.done, "model"), "--to", "sagemaker", "--out", os.path.join(out, "artifacts")), 0)
        self.assertExit(s.run("inspect", "--verify", out), 0)

    def test_names_alone(self):
        """Where no run saves, such a name is as good as another; a temporary one is whoever's that writes beside it."""
        export = lambda name: s.run("export", "--from", os.path.join(self.done, "model"), "--to", "hf", "--out", self.path(name))
        for name in ("e/step-00000002", "e/.tmp-step-b", "e/.latest.tmp-b", "e/.b.tmp-1", "e/model"):
            self.assertExit(export(name), 0)
        for name in ("e/.b.tmp-finetuned-1-0", "e/.b.tmp-finetuned-1-0/c"):
            self.assertExit(export(name), 64, "of what is on its way")
        self.put("e/job.yaml")  # anybody's
        self.assertExit(s.run("run", *self.keys(self.path("e/artifacts"))), 0)


class Swept(Places):
    """A start removes what an earlier one left half-made by the whole names that this program gives, and nothing else."""

    def test_names_like_ours(self):
        out = self.copy()
        mine = [self.put("o", name) for name in (".venv.old-2024/bin/x", "artifacts/.secret.old-1/x", ".env.old-2024", ".bashrc.tmp-1", ".owner.next-mine",
                                                 "checkpoints/.best.tmp-foo/x", "checkpoints/.tmp-step-99-b/x", ".x.tmp-finetuned-1", "report.md.tmp-finetuned-1-0")]
        left = [self.put("o", name) for name in (".report.json.tmp-finetuned-99999999-0", "artifacts/.job-hf.tar.gz.tmp-finetuned-1-2/config.json",
                                                 "checkpoints/.latest.tmp-finetuned-1-0", "checkpoints/..tmp-step-seen-0123456789abcdef.tmp-finetuned-1-0",
                                                 "checkpoints/.tmp-step-00000009-0123456789abcdef/checkpoint.h5")]
        result = s.run("run", *self.keys(out, steps=4, **{"log.level": "info"}))
        self.assertExit(result, 0)
        for path in mine:
            self.assertTrue(os.path.exists(path), path)
        for path in left:
            self.assertFalse(os.path.exists(path), path)
            self.assertIn("removed " + (path if ".tmp-" in os.path.basename(path) else os.path.dirname(path)), result.err)

    def test_runs_stay(self):
        """Whichever was there first, and wherever the other looks for what is on its way."""
        for i, (first, then) in enumerate((("x/.tmp-step-99-b", {"checkpoints.dir": "x"}), ("x/.b.tmp-5", {}), ("x/artifacts/.b.old-5", {}), ("x/checkpoints/.tmp-step-5", {}))):
            with self.subTest(first=first):
                root = self.path(f"w{i}")
                self.assertExit(s.run("run", *self.keys(f"{root}/{first}")), 0)
                other = self.keys(f"{root}/y", **{"checkpoints.dir": f"{root}/x"}) if then else self.keys(f"{root}/x")
                self.assertExit(s.run("run", *other), 0)
                self.assertExit(s.run("inspect", "--verify", f"{root}/{first}"), 0)

    def test_moved_there(self):
        """No name makes a run a left-over."""
        out = self.copy()
        for name in (".b.tmp-finetuned-1-0", "artifacts/.b.tmp-finetuned-1-0", "checkpoints/.tmp-step-00000009-0123456789abcdef"):
            shutil.copytree(self.done, f"{out}/{name}", symlinks=True)
        result = s.run("run", *self.keys(out, steps=4))
        self.assertExit(result, 0)
        self.assertEqual(result.err.count("has the name of what is on its way, but holds a run: left there"), 3, result)
        self.assertTrue(os.path.exists(f"{out}/.b.tmp-finetuned-1-0/model/config.json"))

    def test_export(self):
        mine = [self.put(name) for name in (".m.old-2024/x", ".m.tmp-20240101.bak", ".m.tmp-1/x")]
        left = self.put(".m.tmp-finetuned-99999999-3/config.json")
        self.assertExit(s.run("export", "--from", f"{self.done}/model", "--to", "hf", "--out", self.path("m")), 0)
        self.assertFalse(os.path.exists(left))
        for path in mine:
            self.assertTrue(os.path.exists(path), path)

    def test_a_job_of_such_a_name(self):
        keys = self.keys(self.path("w"), job=".x.tmp-finetuned-1-0", **{"export.to": "hf"})
        self.assertExit(s.run("run", *keys), 0)
        before = os.stat(self.path("w/artifacts/.x.tmp-finetuned-1-0-hf.tar.gz")).st_mtime_ns
        self.assertIn("already complete", s.run("run", *keys, "--log.level", "info").err)
        self.assertEqual(os.stat(self.path("w/artifacts/.x.tmp-finetuned-1-0-hf.tar.gz")).st_mtime_ns, before)


class Outputs(Places):
    """A file that is named to be written replaces none that is read, nor one that others live by."""

    def test_what_is_read(self):
        data, model = shutil.copytree(self.data, self.path("dd")), os.path.join(self.done, "model")
        with open(self.path("v.csv"), "w", encoding="utf-8") as file:
            file.write("text,label\nso glad,joy\n")
        os.symlink("v.csv", self.path("l.csv"))
        os.link(self.path("v.csv"), self.path("h.csv"))
        os.symlink(".", self.path("here"))
        for flag in ("--output", "--predictions"):
            for name in ("v.csv", "l.csv", "h.csv", "here/v.csv", "none/../v.csv"):
                self.assertExit(s.run("eval", "--model", model, "--file", self.path("v.csv"), flag, self.path(name)), 64, f"eval: {flag} {self.path(name)} is the file of --file")
            for name in ("test_text.txt", "test_labels.txt", "train_text.txt", "mapping.txt"):
                self.assertExit(s.run("eval", "--model", model, "--data.dir", data, "--data.task", "emotion", flag, f"{data}/emotion/{name}"), 64, f"is a file of the data in {data}")
        both = self.path("a.txt")
        self.assertExit(s.run("eval", "--model", model, "--file", self.path("v.csv"), "--output", both, "--predictions", both), 64, "is the file of --predictions")
        self.assertExit(s.run("bench", "step", *self.keys(self.path("k")), "--trace", f"{self.data}/emotion/val_text.txt"), 64, "bench step: --trace ", "data")
        self.assertFalse(os.path.exists(both))
        for _ in range(2):  # the second replaces the first
            self.assertExit(s.run("eval", "--model", model, "--file", self.path("v.csv"), "--output", both), 0)

    def test_what_a_run_made(self):
        out, before = self.copy(), None
        names = ("model/model.safetensors", "model/new.txt", "checkpoints/step-00000002/checkpoint.h5", "checkpoints/latest", "checkpoints/latest/x", "checkpoints/best",
                 "job.yaml", "report.json", "report.md", "events.jsonl", "events.rank-1.jsonl", ".owner", ".x.tmp-finetuned-1-0", "artifacts/job-hf.tar.gz", "shards/x.shard")
        before = {name: os.stat(os.path.join(out, name)).st_mtime_ns for name in names if os.path.exists(os.path.join(out, name))}
        for name in names:
            path = os.path.join(out, name)
            with self.subTest(name=name):
                for command in (("eval", "--model", os.path.join(self.done, "model"), "--data.dir", self.data, "--data.task", "emotion", "--output"),
                                ("bench", "step", *self.keys(self.path("k")), "--trace")):
                    self.assertExit(s.run(*command, path), 64, f"{command[-1]}: {path} ", "choose another file")
        self.assertEqual(before, {name: os.stat(os.path.join(out, name)).st_mtime_ns for name in before})
        base = s.model_make(self.path("base"), labels=["a", "b"])
        job = os.path.join(out, "job.yaml")
        self.assertExit(s.run("eval", "--model", self.done + "/model", "--data.dir", self.data, "--data.task", "emotion", "--output", f"{base}/config.json"), 64, "a folder of model files")
        self.assertExit(s.run("bench", "step", job, "--trace", job), 64, "is the file of the job")
        self.put("w/sweep.json")
        self.assertExit(s.run("eval", "--model", self.done + "/model", "--data.dir", self.data, "--data.task", "emotion", "--predictions", self.path("w/sweep.md")), 64, "a sweep writes")
        self.assertExit(s.run("eval", "--model", self.done + "/model", "--data.dir", self.data, "--data.task", "emotion", "--output", os.path.join(out, "answers.jsonl")), 0)


class Moved(Places):
    """A run's folder that was moved or copied holds the job of where it was."""

    def begun(self, name, **more):
        """A run that is not at its end, by the job that it left."""
        out = self.path(name)
        self.assertExit(s.run("run", *self.keys(out, **{"checkpoints.every": 1, "export.to": "", **more})), 0)
        os.remove(os.path.join(out, "report.json"))
        return out

    def onwards(self, folder):
        result = s.run("report", folder)
        self.assertExit(result, 0)
        return result.out.split("To go on: `")[1].split("`")[0]

    def test_report(self):
        out, moved = self.begun("m", **{"checkpoints.dir": "<out>/c", "data.cache": "<out>/t"}), self.path("moved")
        self.assertEqual(self.onwards(out), f"finetuned run {out}/job.yaml")
        os.rename(out, moved)
        line = self.onwards(moved)
        self.assertEqual(line, f"finetuned run {moved}/job.yaml --out {moved} --checkpoints.dir {moved}/c --data.cache {moved}/t")
        result = s.run(*line.split()[1:], "--train.max_steps", 3, "--log.level", "info")
        self.assertExit(result, 0)
        self.assertEqual(s.events(moved, "resume")[-1]["step"], 2)
        self.assertFalse(os.path.exists(out), "nothing is where it was")
        self.assertNotIn("its out is", result.err)

    def test_report_by_itself(self):
        out = self.begun("m")
        os.rename(out, self.path("moved"))
        os.symlink("moved", self.path("to"))
        self.assertEqual(self.onwards(self.path("moved")), f"finetuned run {self.path('moved')}/job.yaml --out {self.path('moved')}")
        os.symlink("moved", out)  # the old name leads there: no other folder
        self.assertEqual(self.onwards(self.path("to")), f"finetuned run {self.path('to')}/job.yaml")

    def test_ranks(self):
        out = self.path("r")
        self.assertExit(s.run("run", *self.keys(out, **{"train.parts": 2}), ranks=2), 0)
        os.remove(os.path.join(out, "report.json"))
        result = s.run("report", out)
        self.assertIn(f"To go on: `mpirun -n 2 finetuned run {out}/job.yaml` (it was started with 2 ranks)", result.out)

    def test_run_warns(self):
        out, copy = self.copy(), self.path("copy")
        with open(os.path.join(out, "job.yaml"), encoding="utf-8") as file:
            text = file.read().replace(self.done, out)
        with open(os.path.join(out, "job.yaml"), "w", encoding="utf-8") as file:
            file.write(text)
        shutil.copytree(out, copy, symlinks=True)
        words = f"{copy}/job.yaml is of the run in {copy}, but its out is {out}: ", f"add --out {copy}"
        for arguments, said in ((["--dry-run"], True), ([], True), (["--out", copy], False), ([f"--out={self.path('x')}"], False)):
            result = s.run("run", f"{copy}/job.yaml", *arguments)
            self.assertExit(result, 0)
            for word in words:
                (self.assertIn if said else self.assertNotIn)(word, result.err, result)
        self.assertNotIn("its out is", s.run("run", f"{out}/job.yaml").err)
        self.assertNotIn("its out is", s.run("run", "job.yaml", cwd=out).err)

    def test_in_a_sweeps_folder(self):
        """A cache of all runs that went with them is not made anew where it was."""
        self.begun("s/a", **{"data.cache": self.path("s/shards")})
        os.rename(self.path("s"), self.path("t"))
        cell = self.path("t/a")
        self.assertEqual(self.onwards(cell), f"finetuned run {cell}/job.yaml --out {cell} --data.cache {cell}/shards")

    def test_quoted(self):
        out, moved = self.begun("m"), self.path("it's moved")
        os.rename(out, moved)
        line = self.onwards(moved)
        self.assertIn(f"--out '{self.path('it')}'\\''s moved'", line)
        self.assertExit(s.run(*shlex.split(line)[1:], "--train.max_steps", 3), 0)

    def test_without_out(self):
        """The file of a run that was moved, and nothing at the old place: nothing is begun anew there."""
        out, moved = self.begun("m"), self.path("moved")
        os.rename(out, moved)
        for arguments in ([], ["--dry-run"]):
            self.assertExit(s.run("run", f"{moved}/job.yaml", *arguments), 64, "where no run is any more", f"add --out {moved}")
        self.assertFalse(os.path.exists(out))

    def test_checkpoints_of_the_original(self):
        """A run that was copied does not go on in the original's checkpoints, wherever they lie and whoever wrote the job."""
        disk = self.path("disk")
        os.makedirs(disk)
        for name, where in (("below", self.path("o-below/ck")), ("default", None), ("outside", self.path("ck")), ("link", "link")):
            with self.subTest(name):
                out, copy = self.path("o-" + name), self.path("c-" + name)
                if where == "link":
                    os.makedirs(out)
                    os.symlink(disk, os.path.join(out, "checkpoints"))
                more = {"checkpoints.every": 1, "export.to": "", **({"checkpoints.dir": where} if where not in (None, "link") else {})}
                self.assertExit(s.run("run", *self.keys(out, **more)), 0)
                shutil.copytree(out, copy, symlinks=True)
                real = os.path.realpath(where if where not in (None, "link") else os.path.join(out, "checkpoints"))
                before = sorted(os.listdir(real))
                given = {} if where == "link" else {"checkpoints.dir": real}
                self.refused(self.keys(copy, 4, **{**more, **given}), "checkpoints.dir: ", f"holds the checkpoints of the run in {out}", f"cp -a {real} ")
                self.assertEqual(sorted(os.listdir(real)), before)
                own = shutil.copytree(real, self.path("own-" + name), symlinks=True)
                self.assertExit(s.run("run", *self.keys(copy, 4, **{**more, "checkpoints.dir": own})), 0)
                self.assertEqual(s.events(copy, "resume")[-1]["step"], 2)
                shutil.rmtree(out)  # nobody else's any more
                if os.path.isdir(real):
                    self.assertExit(s.run("run", *self.keys(self.path("n-" + name), 3, **{**more, "checkpoints.dir": real})), 0)

    def test_another_thing_of_that_name(self):
        """Bytes that are no such file are as none; what can't be one is told before the first step."""
        out = self.begun("m")
        home = os.path.join(out, "checkpoints", ".home")
        for step, text in enumerate(("garbage", '{"out": 3}', "[]", "", '{"out": ""}', "x" * 100000), 3):
            with open(home, "w", encoding="utf-8") as file:
                file.write(text)
            self.assertExit(s.run("run", *self.keys(out, step, **{"checkpoints.every": 1, "export.to": ""})), 0)
            with open(home, encoding="utf-8") as file:
                self.assertEqual(json.load(file), {"out": out})
        for make in (os.mkfifo, os.mkdir, lambda path: os.symlink("none", path)):
            os.rmdir(home) if os.path.isdir(home) else os.remove(home)
            make(home)
            self.refused(self.keys(out, 20), f"checkpoints.dir: {home} is no regular file", "move it away")

    def test_moved_with_its_checkpoints(self):
        """The user's own job, which names the old folder, is not begun anew while the checkpoints lie where they were moved."""
        out, moved = self.begun("m", **{"checkpoints.dir": self.path("m/ck")}), self.path("moved")
        os.rename(out, moved)
        job = self.keys(moved, 4, **{"checkpoints.dir": f"{out}/ck"})
        self.refused(job, f"there is no {out}/ck", f"add --checkpoints.dir {moved}/ck", verbs=("run", "dry"))
        self.assertFalse(os.path.exists(out))

    def test_kept_below_the_old_out(self):
        """Nothing of a copy is trained in the original's folders, and nothing of a moved run begun anew at the old place."""
        out, copy, moved = self.begun("a", **{"checkpoints.dir": "<out>/ck", "data.cache": "<out>/t"}), self.path("copy"), self.path("moved")
        shutil.copytree(out, copy, symlinks=True)
        rows = [(copy, [], f" --checkpoints.dir {copy}/ck --data.cache {copy}/t"), (copy, ["--data.cache", self.path("c")], f" --checkpoints.dir {copy}/ck --data.cache {self.path('c')}"),
                (copy, [f"--checkpoints.dir={copy}/ck"], f" --checkpoints.dir {copy}/ck --data.cache {copy}/t"), (self.path("new"), [], f" --checkpoints.dir {self.path('new')}/ck --data.cache {self.path('new')}/t")]
        before = {name: os.stat(os.path.join(out, "ck", name)).st_mtime_ns for name in os.listdir(os.path.join(out, "ck"))}
        for to, more, flags in rows:
            self.refused([f"{copy}/job.yaml", "--out", to, "--train.max_steps", 4, *more], f"was written by the run in {out}", f"`finetuned run {copy}/job.yaml --out {to}{flags}`")
        self.assertFalse(os.path.exists(self.path("new")))
        self.assertIn(f"for the one in {copy} add --out {copy}{rows[0][2]}", s.run("run", f"{copy}/job.yaml", "--dry-run").err)
        os.rename(out, moved)
        for headless in (False, True):  # as an older version wrote it
            result = s.run("run", f"{moved}/job.yaml", "--out", moved)
            self.assertExit(result, 64, f"--out {moved} --checkpoints.dir {moved}/ck --data.cache {moved}/t`")
            with open(os.path.join(moved, "job.yaml"), encoding="utf-8") as file:
                text = file.read()
            with open(os.path.join(moved, "job.yaml"), "w", encoding="utf-8") as file:
                file.write(text.split("\n", 1)[1] if not headless else text)
        self.assertFalse(os.path.exists(out))
        self.assertExit(s.run(*result.err.split("`finetuned ")[1].split("`")[0].split(), "--train.max_steps", 3), 0)
        self.assertEqual(s.events(moved, "resume")[-1]["step"], 2)
        os.symlink("moved", out)  # the old name leads there: no other folder
        self.assertExit(s.run("run", f"{moved}/job.yaml", "--out", out), 0)
        os.remove(out)
        shutil.move(moved, out)
        self.assertEqual({name: os.stat(os.path.join(out, "ck", name)).st_mtime_ns for name in before if name.startswith("step")},
                         {name: at for name, at in before.items() if name.startswith("step")})


class Standing(Places):
    """What stands where a folder is to be made is named with its key, and a start that is refused leaves nothing."""

    def test_no_folder(self):
        self.put("f")
        os.symlink("nowhere", self.path("dang"))
        rows = [("f", 64, "{0} is a file"), ("f/x", 64, "{0}: {1}/f is a file"), ("dang", 74, "{0} is a link that leads to nowhere, which is not there"),
                ("dang/x", 74, "{0}: {1}/dang is a link that leads to nowhere")]
        for name, rc, words in rows:
            place = self.path(name)
            words = words.format(place, self.folder)
            for key in ("out", "checkpoints.dir", "data.cache"):
                for dry in ([], ["--dry-run"]):
                    with self.subTest(name=name, key=key, dry=dry):
                        self.assertExit(s.run("run", *self.keys(**{"out": self.path("k"), key: place}), *dry), rc, f"error: {key}: {words}")
            self.assertExit(s.run("prepare", *self.keys(place)), rc, words)
            self.assertExit(s.run("man", "--out", place), rc, f"man: --out: {words}")
            for kind in ("hf", "sagemaker") if name != "f" else ():
                self.assertExit(s.run("export", "--from", os.path.join(self.done, "model"), "--to", kind, "--out", place), rc, f"export: --out: {words}")
            self.assertExit(s.run("doctor", *self.keys(place)), rc)
        for key in ("out", "checkpoints.dir", "data.cache"):
            self.assertExit(s.run("run", *self.keys(**{"out": self.path("k"), key: "/proc/x"})), 74, f"error: {key}: ", "/proc/x", "choose another folder")
        self.assertFalse(os.path.exists(self.path("k")), "nothing was left")

    def test_names_of_archives(self):
        for kind, word in (("hf", "the directory of model files"), ("sagemaker", "the folder that model-sagemaker.tar.gz is put into")):
            for name in ("foo.tar.gz", "foo.tgz"):
                self.assertExit(s.run("export", "--from", os.path.join(self.done, "model"), "--to", kind, "--out", self.path(name)), 64, word)
                self.assertFalse(os.path.exists(self.path(name)))

    def test_not_writable(self):
        if os.geteuid() or not shutil.which("setpriv"):
            s.skip("setpriv, run by root, is needed to become somebody else")
        out = self.copy()
        for folder in (self.root, os.path.dirname(self.data), self.folder):
            os.chmod(folder, 0o755)
        nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        for dry in ([], ["--dry-run"]):
            for key, place, words in (("out", out, f"{out} is not writable"), ("out", self.path("o/b/c"), f"{out} is not writable"), ("out", self.path("n"), f"{self.folder} is not writable"),
                                      ("checkpoints.dir", self.path("o/b"), f"{out} is not writable")):
                more = {"out": self.path("w/k"), "checkpoints.dir": "<out>/checkpoints", key: place}
                os.makedirs(self.path("w"), exist_ok=True)
                os.chmod(self.path("w"), 0o777)
                self.assertExit(s.run("run", *self.keys(more.pop("out"), **more), *dry, before=nobody), 74, f"error: {key}: ", words)
                self.assertEqual(os.listdir(self.path("w")), [])

    def test_nothing_is_left(self):
        for out in ("k", "k/l/m"):
            self.assertExit(s.run("run", *self.keys(self.path(out), **{"checkpoints.resume": self.path("none")})), 65, "not there")
            self.assertExit(s.run("run", *self.keys(self.path(out), **{"data.task": "none"})), 64)
            self.assertExit(s.run("run", *self.keys(self.path(out), **{"data.max_length": 100000})), 64)
            self.assertExit(s.run("run", *self.keys(self.path(out), **{"checkpoints.dir": self.path("c/d"), "checkpoints.resume": self.path("none")})), 65)
            self.assertExit(s.run("run", *self.keys(self.path(out), **{"train.batch": 2, "train.parts": "auto"}), ranks=4), 64, "start at most 2")
        self.assertEqual(os.listdir(self.folder), [])
        os.makedirs(self.path("k/mine"))
        os.makedirs(self.path("k/checkpoints"))
        self.assertExit(s.run("run", *self.keys(self.path("k"), **{"checkpoints.resume": self.path("none")})), 65, "not there")
        self.assertEqual(sorted(os.listdir(self.path("k"))), ["checkpoints", "mine"], "what was there stays")

    def test_home(self):
        for arguments in (("eval", "--model", "m", "--file=~/x"), ("export", "--from=~/a", "--to", "hf", "--out", "x"), ("run", *self.keys("~/x"))):
            self.assertExit(s.run(*arguments, cwd=self.folder), 64, "begins with ~, which no shell filled in")
        self.assertEqual(os.listdir(self.folder), [])


class JobFile(Places):
    """The user's own job file is not replaced by the one that a run writes."""

    def test_refused(self):
        path, keys = self.put("j/job.yaml"), self.keys(self.path("j"))
        self.refused(keys, f"out: {path} is where the run writes its own job.yaml", f"e.g. to {self.path('j/my.yaml')}")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"# mine\nout: {self.path('j')}\nmodel: {{base: 'random:tiny'}}\ndata: {{dir: {self.data}, task: emotion}}\n")
        self.refused([path], "is where the run writes its own job.yaml", verbs=("run", "dry"))
        with open(path, encoding="utf-8") as file:
            self.assertIn("# mine", file.read())
        self.assertEqual(os.listdir(self.path("j")), ["job.yaml"])
        os.rename(path, self.path("j/my.yaml"))
        self.assertExit(s.run("run", self.path("j/my.yaml"), "--train.max_steps", 2), 0)

    def test_ours(self):
        """Edited or copied by itself, it is as good as any."""
        out = self.copy()
        path = os.path.join(out, "job.yaml")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.assertTrue(text.startswith("# The job of this run"), text[:80])
        with open(path, "w", encoding="utf-8") as file:
            file.write("# note\n" + text.replace("max_steps: 2", "max_steps: 3").replace("out: " + self.done, "out: " + out))
        self.assertExit(s.run("run", path), 0)
        self.assertEqual(s.json_read(f"{out}/report.json")["steps"], 3)
        os.makedirs(self.path("n"))
        shutil.copyfile(path, self.path("n/job.yaml"))
        self.assertExit(s.run("run", self.path("n/job.yaml"), "--out", self.path("n")), 0)


class Foreign(Places):
    def kept(self, *paths):
        for path in paths:
            self.assertTrue(os.path.lexists(path), path)

    def test_at_the_start(self):
        out = self.path("p")
        notes = [self.put("p/model", name) for name in ("b.txt", "thesis.txt", "a/deep.txt")]
        self.refused(self.keys(out), f"out: {out}/model holds a/deep.txt, b.txt and thesis.txt, not of a model that this program wrote: move it away")
        self.refused(self.keys(self.path("p")), "thesis.txt", verbs=("run", "dry"))
        notes += [self.put("p/model", name) for name in ("c.txt", "z.txt")]
        self.refused(self.keys(out), "a/deep.txt, b.txt, c.txt and more, not of", verbs=("run",))
        self.kept(*notes)
        self.assertEqual(os.listdir(out), ["model"])
        shutil.rmtree(os.path.join(out, "model"))
        os.makedirs(os.path.join(out, "model", "empty"))  # nothing to lose
        self.assertExit(s.run("run", *self.keys(out)), 0)

    def test_a_model_of_others(self):
        model = s.model_make(self.path("p/model"), labels=["a", "b"])
        names = sorted(os.listdir(model))
        self.refused(self.keys(self.path("p")), "model holds config.json, ", "not of a model that this program wrote", verbs=("run",))
        self.assertEqual(sorted(os.listdir(model)), names)

    def test_a_file(self):
        path = self.put("p/model")
        self.refused(self.keys(self.path("p")), f"out: {path} is no folder", verbs=("run",))
        self.kept(path)

    def test_a_file_beside_ours(self):
        out = self.copy()
        notes = self.put("o/model/notes.txt")
        self.refused(self.keys(out, steps=4), "o/model holds notes.txt, not of")
        self.kept(notes)
        os.remove(notes)
        self.assertExit(s.run("run", *self.keys(out, steps=4)), 0)
        self.assertEqual([n for n in os.listdir(out) if "aside" in n], [])

    def test_a_file_beside_ours_of_a_run_that_is_done(self):
        """No reason to end: nothing is replaced. But where the model is damaged it would be."""
        out = self.copy()
        notes = self.put("o/model/notes.txt")
        for more in ((), ("--dry-run",)):
            self.assertExit(s.run("run", *self.keys(out), *more), 0)
        self.assertIn("already complete", s.run("run", *self.keys(out), "--log.level", "info").err)
        self.refused(self.keys(out, **{"export.dtype": "bf16"}), "o/model holds notes.txt, not of")
        self.kept(notes)
        with open(os.path.join(out, "model", "vocab.json"), "a", encoding="utf-8") as file:
            file.write(" ")
        self.refused(self.keys(out), "o/model holds notes.txt, not of")
        self.kept(notes)

    def test_ours_without_its_list(self):
        out = self.copy()
        for name in ("finetuned.sha256", "README.md"):
            os.remove(os.path.join(out, "model", name))
            self.assertExit(s.run("run", *self.keys(out)), 0)
        self.kept(os.path.join(out, "model", "README.md"), os.path.join(out, "model", "finetuned.sha256"))
        with open(os.path.join(out, "model", "finetuned.sha256"), "w", encoding="utf-8") as file:
            file.write("damage\n")
        self.assertExit(s.run("run", *self.keys(out)), 0)
        os.remove(os.path.join(out, "model", "finetuned.sha256"))
        self.put("o/model/notes.txt")
        self.refused(self.keys(out), "holds notes.txt, not of", verbs=("run",))
        os.remove(self.path("o/model/notes.txt"))
        os.remove(os.path.join(out, "model", "finetuned.json"))  # nothing of ours is left to know it by
        self.refused(self.keys(out), "model holds README.md, config.json, ", verbs=("run",))

    def test_while_it_runs(self):
        out = self.path("o")
        process = s.start("run", *self.keys(out, steps=30, **{"checkpoints.every": 1}))
        self.assertTrue(s.wait_for(lambda: os.path.exists(s.checkpoint(out)), process), "no checkpoint before the end")
        self.put("o/model/thesis.txt")
        os.makedirs(self.path("o/model.aside-1"))
        result = s.finish(process)
        self.assertExit(result, 0)
        self.assertIn("o/model holds thesis.txt, not of a model that this program wrote: set aside as " + self.path("o/model.aside-2"), result.err)
        self.kept(self.path("o/model.aside-2/thesis.txt"), self.path("o/model/config.json"))
        self.assertEqual(os.listdir(self.path("o/model.aside-1")), [])
        self.assertEqual([n for n in os.listdir(out) if "tmp-" in n or "old-" in n], [])
        self.assertExit(s.run("inspect", "--verify", out), 0)

    def test_export(self):
        source, target = os.path.join(self.done, "model"), self.path("e")
        export = lambda out: s.run("export", "--from", source, "--to", "hf", "--out", out)
        for _ in range(2):  # the second replaces the first
            self.assertExit(export(target), 0)
        notes = self.put("e/notes.txt")
        self.assertExit(export(target), 64, f"--out {target} holds other files", "notes.txt", "an earlier export")
        self.kept(notes, os.path.join(target, "config.json"))
        other = s.model_make(self.path("m"), labels=["a", "b"])
        names = sorted(os.listdir(other))
        self.assertExit(export(other), 64, "holds other files", "config.json")
        self.assertExit(s.run("export", "--from", other, "--to", "hf", "--out", other), 64, "holds other files")
        self.assertEqual(sorted(os.listdir(other)), names)


class Latest(Places):
    """`latest` moves on, and what it led to goes away, as often as a run that keeps one checkpoint does it."""

    def moving(self, folder):
        """A thread that renames one checkpoint's folder and moves the link; stop() ends it."""
        over, count = threading.Event(), [0]
        first = os.path.realpath(os.path.join(folder, "latest"))

        def move():
            at, spare = first, os.path.join(folder, "spare")
            while not over.is_set():
                count[0] += 1
                to = os.path.join(folder, f".moved-{count[0]}")
                shutil.copytree(at, to)
                os.symlink(to, spare)
                os.replace(spare, os.path.join(folder, "latest"))
                shutil.rmtree(at)
                at = to
        thread = threading.Thread(target=move)
        thread.start()

        def stop():
            over.set()
            thread.join()
        return stop

    def test_beside_a_run_that_prunes(self):
        out, bad = self.path("o"), []
        process = s.start("run", *self.keys(out, steps=4000, **{"checkpoints.every": 1, "checkpoints.keep": 1, "train.epochs": 1}))
        self.addCleanup(lambda: process.poll() is None and process.kill())
        latest = s.checkpoint(out)
        self.assertTrue(s.wait_for(lambda: os.path.exists(latest), process))
        for i in range(40):
            verb = ("inspect", "--verify", latest) if i % 2 else ("export", "--from", latest, "--to", "hf", "--out", self.path("e"))
            result = s.run(*verb)
            if result.rc and not (result.rc == 75 and "was replaced by a newer checkpoint while it was read: try again" in result.err):
                bad.append(str(result))
        self.assertIsNone(process.poll(), "the run was over too early")
        process.terminate()
        s.finish(process)
        self.assertEqual(bad, [])

    def test_gone_each_time(self):
        out = self.copy()
        stop = self.moving(os.path.join(out, "checkpoints"))
        try:
            for verb in (("inspect", "--verify", s.checkpoint(out)), ("predict", "--job", os.path.join(out, "job.yaml"), "--model", s.checkpoint(out), "x")) * 6:
                result = s.run(*verb)
                self.assertIn(result.rc, (0, 75), result)
                if result.rc:
                    self.assertIn("was replaced by a newer checkpoint while it was read: try again", result.err)
        finally:
            stop()

    def test_no_link(self):
        self.assertExit(s.run("inspect", "--verify", self.path("none")), 65, "is not there")
        os.symlink("nowhere", self.path("latest"))
        self.assertExit(s.run("inspect", "--verify", self.path("latest")), 65, "leads nowhere")
        self.assertExit(s.run("export", "--from", self.path("latest"), "--to", "hf", "--out", self.path("e")), 65, "neither a model directory")


class Values(Places):
    def test_the_working_directory(self):
        """job.yaml holds paths in full: what it can't hold is refused at the start."""
        for name in (b"new\nline", b"not-utf-8-\xff"):
            here = os.path.join(os.fsencode(self.folder), name)
            os.makedirs(here)
            for command in (("run",), ("run", "--dry-run"), ("sweep", "--sweep.seeds", "1,2")):
                self.assertExit(s.run(*command, *self.keys("w"), cwd=here), 64, "out: w", " in full, and no job.yaml can hold that", "start in another working directory")
            self.assertEqual(os.listdir(here), [])
            self.assertExit(s.run("run", *self.keys(self.path("k"), **{"data.dir": self.data}), cwd=here), 0)

    def test_paths(self):
        for value, word in (("a\nb", "holds a control character"), ("a\tb", "holds a control character"), ("a\rb", "holds a control character"),
                            ("a" * 4200, "is longer than 4096 bytes")):
            result = s.run("run", *self.keys(value))
            self.assertExit(result, 64, "--out", word)
            self.assertNotIn("a" * 100, result.err)


if __name__ == "__main__":
    s.main()
