# SPDX-License-Identifier: Apache-2.0
"""What a run writes below its `out`: not into another run's files through a link, not over what is the user's, not where it can't be."""
import os
import shutil

import support as s
import test_places


class Links(test_places.Places):
    NAMES = ("events.jsonl", "report.json", "report.md", "job.yaml", "artifacts", "tensorboard", "model", "checkpoints")

    def test_into_another_run(self):
        other = self.copy()
        before = self.bytes(other)
        for i, name in enumerate(self.NAMES):
            with self.subTest(name=name):
                out = self.path(f"w{i}")
                os.makedirs(out)
                os.symlink(f"../o/{name}", f"{out}/{name}")
                self.refused(self.keys(out, **{"train.seed": 9}), f"out: {out}/{name} is a link that leads to {other}/{name}, which is the run's in {other}", "choose another out")
                self.assertEqual(os.listdir(out), [name])
        out = self.path("farm")
        shutil.copytree(other, out, symlinks=True, copy_function=os.symlink)
        self.refused(self.keys(out, steps=4), "is a link that leads to", verbs=("run", "dry"))
        os.makedirs(self.path("a/artifacts"))
        os.symlink(f"{other}/artifacts/job-hf.tar.gz", self.path("a/artifacts/job-hf.tar.gz"))
        self.refused(self.keys(self.path("a")), "artifacts/job-hf.tar.gz is a link that leads to", verbs=("run",))
        self.assertEqual(self.bytes(other), before)

    def bytes(self, folder):
        found = {}
        for at, _, names in os.walk(folder):
            for name in names:
                with open(os.path.join(at, name), "rb") as file:
                    found[os.path.join(at, name)] = file.read()
        return found

    def test_to_other_disks(self):
        """out itself, and the large folders in it."""
        for name in ("real", "big/c", "big/s", "big/t", "big/a"):
            os.makedirs(self.path(name))
        os.symlink("real", self.path("out"))
        for name, to in (("checkpoints", "c"), ("shards", "s"), ("tensorboard", "t"), ("artifacts", "a")):
            os.symlink(f"../big/{to}", self.path("real", name))
        for steps in (2, 4, 4):
            self.assertExit(s.run("run", *self.keys(self.path("out"), steps=steps)), 0)
        self.assertExit(s.run("inspect", "--verify", self.path("out")), 0)
        self.assertTrue(os.path.islink(self.path("real/checkpoints")))
        self.assertIn("step-00000004", os.listdir(self.path("big/c")))

    def test_below_another_runs_out(self):
        """A link to what no run makes there is a disk's, and shards may be shared; as by checkpoints.dir and data.cache."""
        root = self.copy()
        for name in ("a", "disk/a", "b"):
            os.makedirs(os.path.join(root, name))
        os.symlink("../disk/a", f"{root}/a/checkpoints")
        os.symlink("../shards", f"{root}/b/shards")
        for out in ("a", "b"):
            for steps in (2, 4):
                result = s.run("run", *self.keys(out, steps=steps), cwd=root)
                self.assertExit(result, 0)
                self.assertNotIn("is a link", result.err)
        self.assertIn("step-00000004", os.listdir(f"{root}/disk/a"))

    def test_begun(self):
        """What has begun goes on, with one warning."""
        other = self.copy()
        out = shutil.copytree(self.done, self.path("b"), symlinks=True)
        for name in ("tensorboard", "artifacts", "report.md"):
            shutil.rmtree(f"{out}/{name}") if os.path.isdir(f"{out}/{name}") else os.remove(f"{out}/{name}")
            os.symlink(f"{other}/{name}", f"{out}/{name}")
        result = s.run("run", *self.keys(out, steps=4))
        self.assertExit(result, 0)
        self.assertEqual(result.err.count(f" is a link that leads to {other}/"), 1, result)
        self.assertIn("resume", self.events(out))

    def events(self, out):
        with open(f"{out}/events.jsonl", encoding="utf-8") as file:
            return [s.json.loads(line)["event"] for line in file]

    def test_hard_links(self):
        """A backup of that kind stays as it is."""
        out, backup = self.copy(), self.path("backup")
        shutil.copytree(out, backup, symlinks=True, copy_function=os.link)
        before = self.bytes(backup)
        self.assertExit(s.run("run", *self.keys(out, steps=4)), 0)
        self.assertEqual(self.bytes(backup), before)
        self.assertExit(s.run("inspect", "--verify", out), 0)


class Users(test_places.Places):
    def test_files_of_the_users(self):
        """Where no run was. In a run's folder they are the run's."""
        rows = ("report.md", "report.json", "artifacts/job-hf.tar.gz", "artifacts/job-sagemaker.tar.gz")
        for i, name in enumerate(rows):
            with self.subTest(name=name):
                out = self.path(f"w{i}")
                path = self.put(f"w{i}", name)
                keys = self.keys(out, **{"export.to": "hf,sagemaker"})
                self.refused(keys, f"out: {path} would be replaced, and no run wrote it: move it away or choose another out")
                with open(path, encoding="utf-8") as file:
                    self.assertEqual(file.read(), "x\n")
                self.assertEqual([n for _, _, names in os.walk(out) for n in names], [os.path.basename(name)])
        self.put("n/artifacts/job-sagemaker.tar.gz")  # not exported
        self.assertExit(s.run("run", *self.keys(self.path("n"), **{"export.to": "hf"})), 0)
        out = self.copy()
        for name in rows[:2]:
            self.put("o", name)
        self.assertExit(s.run("run", *self.keys(out, steps=4)), 0)
        self.assertExit(s.run("inspect", "--verify", out), 0)

    def test_events_lost(self):
        """Checkpoints, or a job.yaml as runs write it, tell that a run was here: it goes on, and says so."""
        for i, (lost, kept, header) in enumerate((("gone", ("job.yaml", "report.json", "report.md", "checkpoints"), True), ("empty", ("job.yaml", "report.json", "checkpoints"), True),
                                                  ("gone", ("job.yaml", "checkpoints"), False), ("gone", ("report.md", "job.yaml"), True))):
            with self.subTest(lost=lost, kept=kept, header=header):
                out = self.path(f"e{i}")
                os.makedirs(out)
                for name in kept:
                    source = os.path.join(self.done, name)
                    (shutil.copytree if os.path.isdir(source) else shutil.copy)(source, f"{out}/{name}", **({"symlinks": True} if os.path.isdir(source) else {}))
                if lost == "empty":
                    open(f"{out}/events.jsonl", "w", encoding="utf-8").close()
                if not header:
                    with open(f"{out}/job.yaml", encoding="utf-8") as file:
                        text = file.read().split("\n", 1)[1]
                    with open(f"{out}/job.yaml", "w", encoding="utf-8") as file:
                        file.write(text)
                result = s.run("run", *self.keys(out, steps=4))
                self.assertExit(result, 0)
                self.assertEqual(f"{out}/events.jsonl, which tells of the steps before it, is gone or empty" in result.err, "checkpoints" in kept, result)
                self.assertExit(s.run("inspect", "--verify", out), 0)
        self.put("n/job.yaml")
        os.makedirs(self.path("n/checkpoints/step-00000002"))  # a name alone is nobody's
        self.refused(self.keys(self.path("n")), "no run wrote this one", verbs=("run",))

    def test_a_line_of_the_users(self):
        """Only what a crash cuts of a line of ours is cut off."""
        for end, kept in (("my note", True), ('{"event": "st', False), ('{"ev', False), ("\0\0\0", False)):
            with self.subTest(end=end):
                out = shutil.copytree(self.done, self.path(f"l{kept}{len(end)}"), symlinks=True)
                with open(f"{out}/events.jsonl", "a", encoding="utf-8") as file:
                    file.write(end)
                self.assertExit(s.run("run", *self.keys(out, steps=4)), 0)
                with open(f"{out}/events.jsonl", encoding="utf-8") as file:
                    lines = file.read().split("\n")
                self.assertEqual(end in lines, kept)
                self.assertTrue(kept or all(line.startswith('{"event": "') for line in lines if line), lines)

    def test_sweep(self):
        table = self.put("w/sweep.md")
        self.refused(self.keys(self.path("w")), f"out: {table} would be replaced, and no run wrote it", verbs=("sweep",))
        begun = ["sweep", "--sweep.seeds", "1,2", *self.keys(self.path("s"))]
        self.assertExit(s.run(*begun), 0)
        os.remove(self.path("s/sweep.json"))  # its cells tell
        self.assertExit(s.run(*begun), 0)
        self.assertTrue(os.path.exists(self.path("s/sweep.json")))
        cells = "emotion/lr-5.0e-05-seed-2"
        makes = {"checkpoints": lambda p: self.put(p), "": lambda p: self.put(p), ".owner": lambda p: (os.makedirs(os.path.dirname(p)), os.mkfifo(p)),
                 "sweep.json": lambda p: self.put(p), "report.md": lambda p: self.put(p)}
        for i, (name, make) in enumerate(makes.items()):
            with self.subTest(name=name):
                out = self.path(f"c{i}")
                make(os.path.join(out, cells, name).rstrip("/"))
                result = s.run("sweep", "--sweep.seeds", "1,2", *self.keys(out, **{"train.lr": "5e-5"}))
                self.assertExit(result, 74 if name == ".owner" else 64, cells)
                self.assertEqual(os.listdir(os.path.join(out, "emotion")), ["lr-5.0e-05-seed-2"], "no other cell has begun")
        for name in ("sweep.md", "sweep.json"):
            os.makedirs(self.path("f", name))
            self.refused(self.keys(self.path("f")), f"out: {self.path('f', name)} is a folder, where the run writes a file: move it away", verbs=("sweep",))
            os.rmdir(self.path("f", name))


class Kinds(test_places.Places):
    """What can't become a folder is told at the start, by any name that leads to it."""

    def test_circles(self):
        os.symlink("loop", self.path("loop"))
        for key in ("out", "checkpoints.dir", "data.cache"):
            for place in ("loop", "loop/x"):
                with self.subTest(key=key, place=place):
                    keys = self.keys(self.path(place)) if key == "out" else self.keys(self.path("k"), **{key: self.path(place)})
                    self.refused(keys, f"{key}: ", f"{self.path('loop')} is a link that leads in a circle: remove it, or name another folder")
        self.refused(self.keys(self.path("loop")), "in a circle", verbs=("sweep",))
        self.assertExit(s.run("prepare", *self.keys(self.path("loop"))), 64, "in a circle")
        self.assertFalse(os.path.exists(self.path("k")), "nothing was written")

    def test_below_out(self):
        make = {"a file": lambda p: self.put(p), "in a circle": lambda p: os.symlink(os.path.basename(p), p)}
        rows = [(name, kind) for name in ("checkpoints", "shards") for kind in make] + [("events.jsonl", "in a circle"), ("report.md", "in a circle")]
        for i, (name, kind) in enumerate(rows):
            with self.subTest(name=name, kind=kind):
                path = self.path(f"r{i}", name)
                os.makedirs(os.path.dirname(path))
                make[kind](path)
                self.refused(self.keys(self.path(f"r{i}")), f": {path} is ", kind)

    def test_a_shard(self):
        out = self.copy()
        path = os.path.join(out, "shards", sorted(os.listdir(f"{out}/shards"))[0])
        for make, kind in ((os.makedirs, "a folder"), (os.mkfifo, "no regular file")):
            os.path.isdir(path) and os.rmdir(path) or os.path.isfile(path) and os.remove(path)
            make(path)
            self.refused(self.keys(out, steps=4), f"data.cache: {path} is {kind}, and has a shard's name: remove it", verbs=("run", "dry"))

    def test_a_run_among_checkpoints(self):
        for name in ("latest", "best", "step-00000002"):
            self.assertExit(s.run("run", *self.keys(self.path("c", name))), 0)
            self.refused(self.keys(self.path("k"), **{"checkpoints.dir": self.path("c")}), f"checkpoints.dir: {self.path('c', name)} is a run's folder", verbs=("run",))
            shutil.rmtree(self.path("c", name))


class GoesOn(test_places.Places):
    """What has begun in a folder goes on there, whatever lies beside or above it by then; what would be refused then is refused at once."""

    def begin(self, keys, **where):
        result = s.run("run", *keys, "--train.max_time", "0.001", **where)
        self.assertExit(result, 75)

    def test_beside_links(self):
        for name in ("best", "step-00000100"):
            keys = self.keys(self.path(name, "runs", name), steps=4)
            self.begin(keys)
            os.symlink(name, self.path(name, "runs/latest"))
            self.put(name, "runs/.owner")
            self.assertExit(s.run("run", *keys), 0)

    def test_in_a_clone(self):
        """Of a model, and of a checkpoint: nobody replaces or removes it."""
        for source in ("model", "checkpoints/step-00000002"):
            clone = shutil.copytree(os.path.join(self.done, source), self.path(os.path.basename(source) + "-c"))
            for out, where in (("runs/ft", clone), (f"{clone}/a/b", None), (".", clone)):
                self.assertExit(s.run("run", *self.keys(out), cwd=where), 0)
        keys = self.keys("runs/j", steps=4)
        os.makedirs(self.path("here"))
        self.begin(keys, cwd=self.path("here"))
        for source in ("model", "checkpoints/step-00000002"):
            shutil.copytree(os.path.join(self.done, source), self.path("here"), dirs_exist_ok=True)
        self.assertExit(s.run("run", *keys, cwd=self.path("here")), 0)

    def test_below_one_that_begins_later(self):
        for name in ("artifacts", "tensorboard", "checkpoints"):
            keys = self.keys(self.path(f"x-{name}", name, "b"), steps=4)
            self.begin(keys)
            self.assertExit(s.run("run", *self.keys(self.path(f"x-{name}"))), 0)
            self.assertExit(s.run("run", *keys), 0)

    def test_own_paths(self):
        """The same at the first start and at the second."""
        for i, (key, name, rc) in enumerate((("checkpoints.dir", ".x.tmp-1", 0), ("checkpoints.dir", "checkpoints/latest", 64), ("checkpoints.dir", "checkpoints/step-00000004", 64),
                                             ("checkpoints.dir", ".owner.tmp-3", 0), ("data.cache", ".x.tmp-1", 0), ("data.cache", "checkpoints/best", 64),
                                             ("checkpoints.dir", "sweep.json", 64), ("data.cache", "sweep.json/x", 64))):
            with self.subTest(key=key, name=name):
                out = self.path(f"w{i}")
                for _ in range(2):
                    self.assertExit(s.run("run", *self.keys(out, **{key: f"{out}/{name}"})), rc)
                self.assertEqual(os.path.exists(out), rc == 0)


if __name__ == "__main__":
    s.main()
