# SPDX-License-Identifier: Apache-2.0
"""Sweeps: a run for each task, rate and seed. Its cells are runs like any other, its table is that of their reports, and
it goes on where it was stopped."""
import itertools
import json
import math
import os
import shutil
import signal
import statistics

import support as s

TASKS, RATES, SEEDS = ["emotion", "irony"], ["0.002", "0.0005"], ["1", "2", "3"]
TWEET_EVAL = ["emoji", "emotion", "hate", "irony", "offensive", "sentiment", "stance"]


def cell(out, task, rate, seed):
    return os.path.join(out, task.replace("/", "-"), f"lr-{rate}-seed-{seed}")


def read(path):
    with open(path, "rb") as file:
        return file.read()


def tree(folder, without=(".owner", ".lock")):
    """Path below `folder` -> bytes, of everything that is there."""
    return {os.path.relpath(os.path.join(at, name), folder): read(os.path.join(at, name))
            for at, _, names in os.walk(folder) for name in names if not name.endswith(without)}


class Sweep(s.Case):
    """Two tasks, two rates, three seeds; emotion has 24 texts to train on, irony 40."""

    @classmethod
    def setUpClass(cls):
        if hasattr(Sweep, "root"):
            return
        cls = Sweep  # once for all classes
        cls.root = s.tempfile.mkdtemp(prefix="finetuned-test-")
        s.unittest.addModuleCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        cls.data = s.task_make(os.path.join(cls.root, "d"), rows=(24, 16, 20))
        s.task_make(cls.data, "irony", rows=(40, 18, 22), classes=2)
        cls.base = s.model_make(os.path.join(cls.root, "m"))
        cls.job = s.job_write(os.path.join(cls.root, "try.yaml"), cls.data, os.path.join(cls.root, "whole"), model__base=cls.base,
                              checkpoints__keep=1, sweep__tasks=TASKS, sweep__rates=[float(r) for r in RATES], sweep__seeds=[int(x) for x in SEEDS])

    @classmethod
    def whole(cls):
        """A sweep that went through, made once for all tests."""
        cls = Sweep
        if not hasattr(cls, "whole_result"):
            cls.whole_out = os.path.join(cls.root, "whole")
            cls.whole_result = s.run("sweep", cls.job)
            if cls.whole_result.rc:
                raise AssertionError(str(cls.whole_result))
        return cls.whole_out

    def setUp(self):
        super().setUp()
        self.out = self.path("o")

    def go(self, *arguments, rc=0, words=(), **options):
        result = s.run("sweep", self.job, "--out", self.out, *arguments, **options)
        self.assertExit(result, rc, *words)
        return result

    def end(self, process):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()

    def copy(self):
        """A sweep that went through, of this test's own."""
        shutil.copytree(self.whole(), self.out, symlinks=True)

    def report(self, *where, out=None):
        return s.json_read(os.path.join(cell(out or self.out, *where), "report.json"))

    def sweep(self, out=None):
        return s.json_read(os.path.join(out or self.out, "sweep.json"))

    def assertSpread(self, got, values):
        values = [v for v in values if v is not None]
        if not values:
            self.assertIsNone(got)
            return
        self.assertEqual(got["n"], len(values))
        want = {"mean": statistics.mean(values), "sd": statistics.stdev(values) if len(values) > 1 else None, "min": min(values), "max": max(values)}
        for key, value in want.items():
            if value is None:
                self.assertIsNone(got[key])
            else:
                self.assertAlmostEqual(got[key], value, delta=2e-9, msg=key)

    def assertPaired(self, got, a, b):
        differences = [x - y for x, y in zip(a, b) if x is not None and y is not None]
        self.assertSpread({**got, "min": min(differences), "max": max(differences)}, differences)
        if len(differences) > 1:
            self.assertAlmostEqual(got["se"], statistics.stdev(differences) / math.sqrt(len(differences)), delta=2e-9)
        self.assertEqual([got[k] for k in ("wins", "losses", "ties")],
                         [sum(d > 0 for d in differences), sum(d < 0 for d in differences), sum(d == 0 for d in differences)])

    def check_table(self, out, tasks, rates, seeds):
        """Every number of sweep.json from the cells' reports."""
        table = self.sweep(out)
        self.assertEqual([t["task"] for t in table["tasks"]], tasks)
        for task, row in zip(tasks, table["tasks"]):
            reports = {r: [self.report(task, r, x, out=out) if os.path.exists(os.path.join(cell(out, task, r, x), "report.json")) else None
                           for x in seeds] for r in rates}
            value = lambda report, split: report and report[split] and report[split]["official"]["value"]
            scores = {(r, split): [value(p, split) for p in reports[r]] for r in rates for split in ("val", "test")}
            last = {(r, split): [p and value(p["last"], split) for p in reports[r]] for r in rates for split in ("val", "test")}
            self.assertEqual([float(r["lr"]) for r in row["rates"]], [float(r) for r in rates])
            for rate, got in zip(rates, row["rates"]):
                self.assertEqual(got["done"], sum(p is not None for p in reports[rate]))
                for split in ("val", "test"):
                    self.assertSpread(got[split], scores[rate, split])
                    self.assertSpread(got["last"][split], last[rate, split])
            means = [(statistics.mean(scores[r, "val"]), -i) for i, r in enumerate(rates) if None not in scores[r, "val"]]
            if means:
                self.assertEqual(row["best_rate"], float(rates[-max(means)[1]]))
            pairs = list(itertools.combinations(rates, 2))
            self.assertEqual([(p["a"], p["b"]) for p in row["pairs"]], [(float(a), float(b)) for a, b in pairs])
            for (a, b), got in zip(pairs, row["pairs"]):
                for split in ("val", "test"):
                    if scores[a, split][0] is not None and scores[b, split][0] is not None:
                        self.assertPaired(got[split], scores[a, split], scores[b, split])
        return table


class Whole(Sweep):
    """One sweep, looked at from all sides."""

    def setUp(self):
        super().setUp()
        self.out = self.whole()

    def test_cells(self):
        """Order: task, rate, seed; each an ordinary run."""
        table = self.sweep()
        wanted = list(itertools.product(TASKS, RATES, SEEDS))
        self.assertEqual([(c["task"], str(c["lr"]), str(c["seed"])) for c in table["cells"]], wanted)
        began = []
        for got, where in zip(table["cells"], wanted):
            folder = cell(self.out, *where)
            self.assertEqual((os.path.join(self.out, got["folder"]), got["state"]), (folder, "done"))
            for name in ("job.yaml", "events.jsonl", "report.json", "report.md", "model/config.json", "model/model.safetensors", "checkpoints/latest",
                         "checkpoints/best", "tensorboard"):
                self.assertTrue(os.path.exists(os.path.join(folder, name)), name)
            self.assertFalse(os.path.exists(os.path.join(folder, "shards")))
            self.assertEqual(len(s.events(folder, "start")), 1)
            self.assertEqual(s.events(folder)[-1]["event"], "end")
            began.append(s.events(folder, "start")[0]["time"])
            report = self.report(*where)
            self.assertEqual((report["task"], report["seed"], report["steps"], report["best_step"]), (where[0], int(where[2]), got["steps"], got["best_step"]))
            self.assertEqual(got["val"], report["val"]["official"]["value"])
            self.assertEqual(got["last"]["test"], report["last"]["test"]["official"]["value"])
            self.assertLessEqual(len(s.checkpoint_names(folder)), 2, "checkpoints.keep and the best")
        self.assertEqual(began, sorted(began))
        self.assertEqual(len([n for n in os.listdir(f"{self.out}/shards") if n.endswith(".shard")]), 3 * len(TASKS), "one set a task")
        self.assertFalse(os.path.exists(f"{self.out}/.owner"))
        self.assertEqual(table["complete"], True)
        self.assertEqual(table["base_hash"], report["base_hash"])

    def test_numbers(self):
        table = self.check_table(self.out, TASKS, RATES, SEEDS)
        self.assertEqual([t["metric"] for t in table["tasks"]], ["macro_f1", "f1_of_class_1"])
        self.assertEqual(table["tweet_eval"], {"total": None, "missing": [t for t in TWEET_EVAL if t not in TASKS]})
        self.assertGreater(len({c["test"] for c in table["cells"]}), 3, "the cells tell something")

    def test_table(self):
        """What people see is what the numbers are."""
        for task in self.sweep()["tasks"]:
            self.assertIn(f"{task['task']}: {task['metric']}", self.whole_result.out)
            for rate in task["rates"]:
                for got in (rate["val"], rate["test"], rate["last"]["val"], rate["last"]["test"]):
                    self.assertRegex(self.whole_result.out, rf"3 +{got['mean']:.4f} +{got['sd']:.4f} +{got['min']:.4f} +{got['max']:.4f}\n")
            for pair in task["pairs"]:
                got = pair["test"]
                self.assertRegex(self.whole_result.out, rf"{pair['a']} +- +{pair['b']} +3 +\{got['mean']:+.4f} +{got['sd']:.4f} +{got['se']:.4f} "
                                 rf"+{got['wins']} +{got['losses']} +{got['ties']}\n")
            self.assertRegex(self.whole_result.out, rf"\n\* {task['best_rate']} ")
        self.assertRegex(self.whole_result.out, "needs all seven tasks.*: emoji, hate, offensive, sentiment, stance")
        markdown = read(f"{self.out}/sweep.md").decode()
        for got in self.sweep()["cells"]:
            self.assertIn(f"[{got['folder']}](<{got['folder']}/report.md>) | done | {got['val']:.4f} |", markdown)
        for path in (line.split()[1] for line in self.whole_result.out.split("\n") if line.startswith(("table ", "numbers "))):
            self.assertTrue(os.path.exists(path), path)

    def test_progress(self):
        lines = [line for line in self.whole_result.err.split("\n") if "sweep: run " in line]
        self.assertEqual(len(lines), 12)
        self.assertIn("run 3 of 12: emotion/lr-0.002-seed-3; about", lines[2])

    def test_a_cell_is_the_run(self):
        """The same job started by `run`: the same weights and moments, bit for bit; and its job.yaml is that run's."""
        for task, rate, seed in (("emotion", RATES[1], "3"), ("irony", RATES[0], "2")):
            folder, out = cell(self.out, task, rate, seed), self.path(task)
            self.train(self.job, "--out", out, "--data.task", task, "--train.lr", rate, "--train.seed", seed)
            self.assertEqual(s.course(out), s.course(folder))
            for group in ("model", "optimizer"):
                self.assertEqual(s.tensors_differ(s.checkpoint_tensors(s.checkpoint(out), group), s.checkpoint_tensors(s.checkpoint(folder), group)), [])
            self.assertEqual(read(f"{out}/model/model.safetensors"), read(f"{folder}/model/model.safetensors"))
            one, two = (s.json_read(f"{at}/report.json") for at in (out, folder))
            for key in ("config_hash", "data_hash", "base_hash", "val", "test", "last"):
                self.assertEqual(one[key], two[key])

    def test_other_verbs_take_a_cell(self):
        one, two = cell(self.out, "emotion", RATES[0], "1"), cell(self.out, "emotion", RATES[1], "1")
        self.assertRefused(s.run("report", self.out), 65, "sweep.md")
        result = s.run("report", one, two)
        self.assertExit(result, 0)
        self.assertIn("train.lr", result.out)
        result = s.run("eval", "--model", f"{one}/model", "--data.dir", self.data, "--data.task", "emotion", "--json")
        self.assertExit(result, 0)
        self.assertEqual(result.lines()[0]["confusion"], self.report("emotion", RATES[0], "1")["test"]["confusion"])
        self.assertEqual(s.run("predict", "--model", s.checkpoint(one, "best"), "happy").lines(), s.run("predict", "--model", f"{one}/model", "happy").lines())
        before = tree(one)
        self.assertExit(s.run("run", f"{one}/job.yaml"), 0)
        after = tree(one)
        self.assertEqual({n for n in after if after[n] != before.get(n)}, set())

    def test_again(self):
        """All is done: nothing is opened, nothing changes, the same table is printed."""
        before = tree(self.out)
        result = s.run("sweep", self.job)
        self.assertExit(result, 0, "12 of 12 runs have ended before")
        self.assertEqual(result.out, self.whole_result.out)
        self.assertEqual(tree(self.out), before)
        self.assertNotIn("start: ", result.err)
        self.assertNotIn("complete at step", result.err)

    def test_ranks(self):
        """Two ranks walk the same cells and come to the same bits."""
        out = self.path("two")
        few = ("--sweep.seeds", "1,2", "--sweep.rates", RATES[0])
        result = s.run("sweep", self.job, "--out", out, *few, ranks=2)
        self.assertExit(result, 0)
        self.assertEqual(result.out.count("TweetEval's total"), 1, "one rank prints")
        self.check_table(out, TASKS, RATES[:1], SEEDS[:2])
        for task, seed in itertools.product(TASKS, SEEDS[:2]):
            one, two = cell(out, task, RATES[0], seed), cell(self.out, task, RATES[0], seed)
            self.assertEqual(s.events(one, "start")[0]["world"], 2)
            self.assertEqual(read(f"{one}/model/model.safetensors"), read(f"{two}/model/model.safetensors"))
        again = s.run("sweep", self.job, "--out", out, *few, ranks=2)
        self.assertExit(again, 0)
        self.assertEqual(again.out, result.out)
        # what two ranks have done, one goes on with
        self.assertExit(s.run("sweep", self.job, "--out", out), 0, "4 of 12 runs have ended before")
        self.assertEqual(read(f"{out}/sweep.json"), read(f"{self.out}/sweep.json"))

    def test_what_may_differ(self):
        """Threads, logs, and where data and base are: the cells are done all the same."""
        data, base, job = self.path("elsewhere"), self.path("base"), self.path("try.yaml")
        shutil.copytree(self.data, data)
        shutil.copytree(self.base, base)
        shutil.copy(self.job, job)
        result = s.run("sweep", job, "--data.dir", data, "--model.base", base, "--log.every", 7, "--threads", 2, "--checkpoints.keep", 5)
        self.assertExit(result, 0, "12 of 12 runs have ended before")
        self.assertExit(s.run("sweep", self.job), 0)  # as it was, for the others

    def test_more_seeds(self):
        """A list may grow: what is done stays."""
        out = self.path("grown")
        shutil.copytree(self.out, out, symlinks=True)
        result = s.run("sweep", self.job, "--out", out, "--sweep.seeds", "1,2,3,4", "--sweep.tasks", "irony")
        self.assertExit(result, 0, "6 of 8 runs have ended before")
        self.check_table(out, ["irony"], RATES, [*SEEDS, "4"])

    def test_dry_run(self):
        before = tree(self.out)
        result = s.run("sweep", self.job, "--dry-run")
        self.assertExit(result, 0)
        self.assertEqual(len([line for line in result.out.split("\n") if line.endswith(" done")]), 12)
        self.assertEqual(tree(self.out), before)
        out = self.path("nothing")
        result = s.run("sweep", self.job, "--dry-run", "--out", out)
        self.assertExit(result, 0)
        self.assertEqual(result.out.count("to be run\n"), 12)
        self.assertRegex(result.out, r"emotion: 6 to be run, 6 steps each, about .* in all")
        self.assertRegex(result.out, r"irony: 6 to be run, 10 steps each, about .* in all")
        self.assertRegex(result.out, r"up to .*iB on disk")
        self.assertFalse(os.path.exists(out))


class Stopped(Sweep):
    """Four runs, long enough for a signal to find them under way."""

    def setUp(self):
        super().setUp()
        self.job = s.job_write(self.path("try.yaml"), self.data, self.out, model__base=self.base, checkpoints__keep=1, train__epochs=30,
                               sweep__tasks=TASKS, sweep__rates=[0.002], sweep__seeds=[1, 2])

    def unbroken(self):
        """The same, never stopped; made once."""
        if not hasattr(Stopped, "unbroken_out"):
            out = os.path.join(self.root, "unbroken")
            self.assertExit(s.run("sweep", self.job, "--out", out), 0)
            Stopped.unbroken_out = out
        return Stopped.unbroken_out

    def stop(self, sign, where, step, ranks=0):
        """Sends the signal once the cell has done the step; a busy machine may be too late: then once more."""
        for _ in range(5):
            process = s.start("sweep", self.job, ranks=ranks)
            self.addCleanup(self.end, process)
            if s.wait_for(s.step_reached(cell(self.out, *where), step), process):
                try:
                    os.kill(s.ranks_of(process, ranks)[ranks - 1] if ranks else process.pid, sign)
                except (ProcessLookupError, AssertionError):
                    pass
            result = s.finish(process)
            if result.rc != 0:
                return result
            shutil.rmtree(self.out)
        return self.fail("five times the sweep ended before it could be stopped")

    def check_goes_on(self, result, where):
        self.assertExit(result, 75, "start the same job again", "runs are done")
        self.assertEqual(result.out, "")
        folder = cell(self.out, *where)
        self.assertEqual(s.events(folder)[-1]["event"], "stop")
        table = self.sweep()
        self.assertFalse(table["complete"])
        states = [c["state"] for c in table["cells"]]
        self.assertEqual(states, ["done"] * states.count("done") + ["waiting"] * states.count("waiting"))
        done = {c["folder"]: tree(os.path.join(self.out, c["folder"])) for c in table["cells"] if c["state"] == "done"}
        self.assertEqual(len(done), 1)
        # the stopped cell has no best rate's standing, and no total
        self.assertIsNone(table["tasks"][0]["best_rate"])
        dry = s.run("sweep", self.job, "--dry-run")
        self.assertExit(dry, 0)
        self.assertRegex(dry.out, rf"lr-0.002-seed-2 +goes on behind step {s.events(folder, 'stop')[-1]['step']}\n")
        self.assertExit(s.run("sweep", self.job), 0, "1 of 4 runs have ended before")
        self.assertEqual(len(s.events(folder, "resume")), 1)
        for name, before in done.items():
            self.assertEqual(tree(os.path.join(self.out, name)), before)
        out = self.unbroken()
        self.assertEqual(read(f"{self.out}/sweep.json"), read(f"{out}/sweep.json"))
        for task, seed in itertools.product(TASKS, ("1", "2")):
            one, two = cell(self.out, task, "0.002", seed), cell(out, task, "0.002", seed)
            self.assertEqual(read(f"{one}/model/model.safetensors"), read(f"{two}/model/model.safetensors"))
            self.assertEqual(s.course(one), s.course(two))

    def test_sigterm(self):
        where = ("emotion", "0.002", "2")
        self.check_goes_on(self.stop(signal.SIGTERM, where, 4), where)

    def test_sigusr1_to_a_rank(self):
        where = ("emotion", "0.002", "2")
        self.check_goes_on(self.stop(signal.SIGUSR1, where, 4, ranks=2), where)

    def test_kill_9(self):
        where = ("emotion", "0.002", "2")
        self.stop(signal.SIGKILL, where, 4)
        self.assertExit(s.run("sweep", self.job), 0, "1 of 4 runs have ended before")
        self.assertEqual(read(f"{self.out}/sweep.json"), read(f"{self.unbroken()}/sweep.json"))

    def test_max_time(self):
        """Counts all runs of a start: the first run's time is the second's too."""
        more = ("--sweep.tasks", "emotion", "--sweep.seeds", "1,2,3", "--train.epochs", 2)
        self.go(*more, "--train.max_time", 1e-6, rc=75, words=["train.max_time"])
        self.assertEqual(s.events(cell(self.out, "emotion", "0.002", "1"), "stop")[-1]["reason"], "time")
        states, between = [0], 0
        for _ in range(30):
            result = self.go(*more, "--train.max_time", 1e-6, rc=None)
            states.append([c["state"] for c in self.sweep()["cells"]].count("done"))
            if result.rc == 0:
                break
            self.assertExit(result, 75, "train.max_time")
            if states[-1] > states[-2]:  # the start that ended a run had no time for the next one
                between += "between two runs" in result.err
                self.assertEqual(len(os.listdir(os.path.join(self.out, "emotion"))), states[-1])
        self.assertEqual(result.rc, 0)
        self.assertEqual((sorted(set(states)), between), ([0, 1, 2, 3], 2))
        self.assertLessEqual(max(b - a for a, b in zip(states, states[1:])), 1, "no two runs end in one start")
        self.check_table(self.out, ["emotion"], RATES[:1], SEEDS)

    def assertExit(self, result, rc, *words):
        if rc is not None:
            super().assertExit(result, rc, *words)

    def test_second_sweep_is_refused(self):
        process = s.start("sweep", self.job)
        self.addCleanup(self.end, process)
        self.assertTrue(s.wait_for(s.step_reached(cell(self.out, "emotion", "0.002", "1"), 2), process))
        self.assertRefused(s.run("sweep", self.job), 75, str(process.pid))
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        self.assertExit(s.finish(process), 75)

    def test_base_that_changes(self):
        """The base is opened once for all: files that change while a sweep runs are not mixed in."""
        base = self.path("base")
        shutil.copytree(self.base, base)
        process = s.start("sweep", self.job, "--model.base", base)
        self.addCleanup(self.end, process)
        self.assertTrue(s.wait_for(s.step_reached(cell(self.out, "emotion", "0.002", "1"), 2), process))
        os.utime(f"{base}/model.safetensors", (1, 1))
        self.assertExit(s.finish(process), 65, "model.safetensors has changed")
        self.assertEqual([c["state"] for c in self.sweep()["cells"]].count("done"), 1)
        self.assertExit(s.run("sweep", self.job, "--model.base", base), 0, "1 of 4 runs have ended before")


class Mended(Sweep):
    def setUp(self):
        super().setUp()
        self.copy()

    def test_another_job(self):
        """Known before anything is trained, naming the run, the key and both values; nothing is touched."""
        for name in ("sweep.json", "sweep.md"):
            os.remove(f"{self.out}/{name}")
        before = tree(self.out)
        for key, value, was in (("train.clip", "0.5", "1.0"), ("train.batch", "4", "8"), ("data.max_length", "39", "40"), ("model.dropout", "0.2", "config")):
            self.go(f"--{key}", value, rc=65, words=["emotion/lr-0.002-seed-1", key, value, was])
        self.assertEqual(tree(self.out), before)
        self.go("--train.parts", 2, rc=65, words=["train.parts"])  # by the run itself: auto and a number may be the same

    def test_other_data(self):
        data = s.task_make(self.path("other"), rows=(24, 16, 20))
        s.task_make(data, "irony", rows=(40, 18, 21), classes=2)
        self.go("--data.dir", data, rc=65, words=["irony/lr-0.002-seed-1", "data"])

    def test_other_base(self):
        self.go("--model.base", s.model_make(self.path("other"), seed=8), rc=65, words=["emotion/lr-0.002-seed-1", "model.base"])

    def test_checkpoints_that_were_removed(self):
        """A cell that is whole stays in the table without them; one that is not is named, with a command that serves,
        and the table stays as it was."""
        for where in itertools.product(TASKS, RATES, SEEDS):
            shutil.rmtree(os.path.join(cell(self.out, *where), "checkpoints"))
        table, one = read(f"{self.out}/sweep.json"), cell(self.out, "emotion", RATES[0], "2")
        for more in ([], ["--train.precision", "auto"]):
            self.go(*more, words=["12 of 12 runs have ended before"])
            self.assertEqual(read(f"{self.out}/sweep.json"), table)
        self.go("--train.max_steps", 9, rc=65, words=[cell(self.out, "emotion", RATES[0], "1"), "its checkpoints are gone, and train.max_steps was ", "but this sweep says 9: bring"])
        self.go("--train.warmup", 0.5, rc=65, words=["train.warmup was"])
        weights = f"{one}/model/model.safetensors"
        with open(weights, "r+b") as file:
            file.seek(-9, os.SEEK_END)
            file.write(b"\x55" * 9)
        command = f"finetuned run {one}/job.yaml --out {one} --checkpoints.resume never"  # a copy
        for dry in ([], ["--dry-run"]):
            self.go(*dry, rc=65, words=[f"{one}: its run ended at step", "its checkpoints are gone, and ", "model.safetensors: its SHA-256 is not", f"`{command}`"])
        self.assertEqual(read(f"{self.out}/sweep.json"), table)
        self.assertExit(s.run(*command.split()[1:]), 0)
        self.go("--sweep.seeds", "1,2,3,4", words=["12 of 16 runs have ended before"])
        self.go(words=["12 of 12"])
        self.assertEqual(self.sweep()["cells"], s.json_read(f"{self.whole()}/sweep.json")["cells"])
        os.remove(f"{one}/job.yaml")
        shutil.rmtree(f"{one}/checkpoints")
        self.go(rc=65, words=["its checkpoints are gone, and its job.yaml is missing: ", f"bring {one}/checkpoints back, or remove the folder"])

    def test_events_and_checkpoints_that_were_removed(self):
        """A cell of which its model and report alone tell is not trained over."""
        one = cell(self.out, "emotion", RATES[0], "1")
        shutil.rmtree(f"{one}/checkpoints")
        os.remove(f"{one}/events.jsonl")
        before = tree(one)
        command = f"finetuned run {one}/job.yaml --out {one} --checkpoints.resume never"
        for dry in ([], ["--dry-run"]):
            self.go(*dry, rc=65, words=[f"{one}: its run ended, its checkpoints are gone, and so is its events.jsonl: bring", f"`{command}`"])
        self.assertEqual(tree(one), before)
        self.assertExit(s.run(*command.split()[1:]), 0)
        self.go(words=["12 of 12"])

    def test_what_is_missing_is_made(self):
        """Also a report that was lost; other cells are not opened."""
        one, two = cell(self.out, "emotion", RATES[0], "2"), cell(self.out, "irony", RATES[1], "3")
        shutil.rmtree(f"{one}/model")
        os.remove(f"{two}/report.json")
        untouched = {where: tree(cell(self.out, *where)) for where in itertools.product(TASKS, RATES, SEEDS) if cell(self.out, *where) not in (one, two)}
        self.go(words=["10 of 12 runs have ended before"])
        self.assertEqual(read(f"{one}/model/model.safetensors"), read(f"{cell(self.whole(), 'emotion', RATES[0], '2')}/model/model.safetensors"))
        self.assertEqual(read(f"{self.out}/sweep.json"), read(f"{self.whole()}/sweep.json"))
        for where, before in untouched.items():
            self.assertEqual(tree(cell(self.out, *where)), before)

    def test_a_report_that_tells_nothing(self):
        path = os.path.join(cell(self.out, "emotion", RATES[0], "2"), "report.json")
        before = s.json_read(path)["val"]
        for content in ("{}", "", "[1]"):  # damage: the cell's run makes it again
            with open(path, "w", encoding="utf-8") as file:
                file.write(content)
            self.go()
            self.assertEqual(s.json_read(path)["val"], before)
        tells_nothing = {"val": {"official": {"name": "macro_f1", "value": None}}}
        self.check_foreign(path, lambda: s.json_write(path, tells_nothing), before)
        self.untell(path)
        s.json_write(path, {**tells_nothing, "run_id": s.json_read(path)["run_id"]})
        self.go(rc=65, words=[path, "not this run's"])

    def untell(self, path):
        """As of an older run, whose end told no hash of its report."""
        events = os.path.join(os.path.dirname(path), "events.jsonl")
        lines = [json.loads(line) for line in s.file_lines(events)]
        with open(events, "w", encoding="utf-8") as file:
            for event in lines:
                event.pop("report", None)
                file.write(json.dumps(event) + "\n")

    def check_foreign(self, path, put, before):
        """Made again by the hash that the run's end told or, of an older run, by its run_id."""
        for told in (True, False):
            if not told:
                self.untell(path)
            put()
            self.go(words=[path, "made again"])
            self.assertEqual(s.json_read(path)["val"], before)

    def test_a_report_of_another_run(self):
        path = os.path.join(cell(self.out, "emotion", RATES[0], "2"), "report.json")
        other = os.path.join(cell(self.out, "emotion", RATES[0], "1"), "report.json")
        self.check_foreign(path, lambda: shutil.copy(other, path), s.json_read(path)["val"])

    def test_more_epochs(self):
        """Runs go on to more epochs, as with run."""
        self.go("--train.epochs", 3, "--sweep.tasks", "emotion", "--sweep.seeds", 1)
        for rate in RATES:
            folder = cell(self.out, "emotion", rate, "1")
            self.assertEqual([e["step"] for e in s.events(folder, "resume")], [6])
            self.assertEqual(s.json_read(f"{folder}/report.json")["steps"], 9)
        self.check_table(self.out, ["emotion"], RATES, ["1"])

    def test_cell_that_cannot_be_written(self):
        """Other errors than divergence end the sweep at once, this one before its first run; it goes on when they are gone."""
        shutil.rmtree(f"{self.out}/irony")
        shutil.rmtree(cell(self.out, "emotion", RATES[1], "3"))
        with open(f"{self.out}/irony", "wb"):
            pass
        self.go(rc=64, words=["irony", "is a file"])
        self.assertFalse(os.path.exists(cell(self.out, "emotion", RATES[1], "3")))
        os.remove(f"{self.out}/irony")
        self.go(words=["5 of 12"])
        self.assertEqual(read(f"{self.out}/sweep.json"), read(f"{self.whole()}/sweep.json"))

    def test_file_size_limit(self):
        """A limit of the system is as a full disk."""
        shutil.rmtree(cell(self.out, "emotion", RATES[1], "3"))
        self.go(rc=74, words=["step-"], before=("sh", "-c", 'ulimit -f 100; exec "$0" "$@"'))
        self.go(words=["11 of 12"])
        self.assertEqual(read(f"{self.out}/sweep.json"), read(f"{self.whole()}/sweep.json"))


class Diverged(Sweep):
    def test_diverged(self):
        """A run that diverges is noted, the others are made; it is not tried again."""
        env = {"FINETUNED_FAULT": "nan:rank=0,cursor=7,count=3"}  # emotion has six batches
        for ranks in (0, 2):
            with self.subTest(ranks=ranks):
                shutil.rmtree(self.out, ignore_errors=True)
                result = self.go("--sweep.seeds", "1,2", "--train.epochs", 2, rc=65, env=env, ranks=ranks,
                                 words=["4 of 8 runs diverged", "irony/lr-0.002-seed-1, irony/lr-0.002-seed-2", "the sweep goes on"])
                table = self.check_table(self.out, TASKS, RATES, SEEDS[:2])
                self.assertEqual([c["state"] for c in table["cells"]], ["done"] * 4 + ["diverged"] * 4)
                irony = table["tasks"][1]
                self.assertEqual((irony["metric"], irony["best_rate"], irony["rates"][0]["diverged"], irony["rates"][0]["val"]), (None, None, 2, None))
                self.assertIsNone(irony["pairs"][0]["test"])
                self.assertEqual(result.out.count("diverged: seed 1 2"), 2)
                self.assertTrue(table["complete"])
                before = tree(self.out)
                again = self.go("--sweep.seeds", "1,2", "--train.epochs", 2, rc=65, words=["4 of 8 runs diverged", "8 of 8"])
                self.assertEqual(again.out, result.out)
                self.assertEqual(tree(self.out), before)
        # its folder removed, it is tried again: without the fault it goes through
        shutil.rmtree(cell(self.out, "irony", RATES[0], "1"))
        self.go("--sweep.seeds", "1,2", rc=65, words=["3 of 8 runs diverged", "7 of 8"])
        irony = self.sweep()["tasks"][1]
        self.assertIsNone(irony["best_rate"], "a rate with a run that diverged is never the best")
        self.assertEqual((irony["rates"][0]["done"], irony["rates"][0]["diverged"], irony["rates"][0]["val"]["n"]), (1, 1, 1))


class Kinds(Sweep):
    def test_total(self):
        """TweetEval's total, when all seven are there: the mean of the official numbers at the best rates."""
        data = self.path("seven")
        for task in TWEET_EVAL[:-1]:
            s.task_make(data, task, rows=(16, 12, 12), classes=2 if task in ("hate", "irony", "offensive") else 3)
        for target in ("abortion", "atheism", "climate", "feminist", "hillary"):
            s.task_make(data, f"stance/{target}", rows=(6, 6, 6), classes=3)
        few = ("--data.dir", data, "--sweep.rates", "0.003,0.001", "--sweep.seeds", "5", "--train.epochs", 1, "--log.tensorboard", "false",
               "--export.to", "none")
        self.go(*few, "--sweep.tasks", ",".join([*TWEET_EVAL, "stance/abortion"]))
        table = self.check_table(self.out, [*TWEET_EVAL, "stance/abortion"], ["0.003", "0.001"], ["5"])
        parts = [next(r for r in t["rates"] if r["lr"] == t["best_rate"])["test"]["mean"] for t in table["tasks"][:-1]]
        self.assertAlmostEqual(table["tweet_eval"]["total"], statistics.mean(parts), delta=2e-9)
        self.assertEqual(table["tweet_eval"]["missing"], [])
        result = self.go(*few, "--sweep.tasks", ",".join(TWEET_EVAL))
        self.assertIn(f"TweetEval's total: {statistics.mean(parts):.4f} (", result.out)
        self.assertTrue(os.path.exists(cell(self.out, "stance/abortion", "0.001", "5")))
        result = self.go(*few, "--sweep.tasks", ",".join(TWEET_EVAL[1:]))
        self.assertIn("needs all seven tasks; these have no score on test: emoji\n", result.out)

    def test_csv_without_test(self):
        """Other formats: seeds and rates of one data set; without a test split val alone is told."""
        for split, rows in (("train", s.rows_make(24)), ("val", s.rows_make(12, first=24))):
            self.write(f"csv/{split}.csv", "text,label\n" + "".join(f"\"{text}\",{s.LABELS[label]}\n" for text, label in rows))
        job = s.job_write(self.path("own.yaml"), self.path("csv"), self.out, model__base=self.base, data__format="csv", data__task="csv",
                          sweep__seeds=[1, 2], sweep__rates=[0.002, 0.0005])
        result = s.run("sweep", job)
        self.assertExit(result, 0)
        table = self.check_table(self.out, ["csv"], RATES, SEEDS[:2])
        self.assertEqual((table["tweet_eval"], table["tasks"][0]["rates"][0]["test"]), (None, None))
        self.assertNotIn("TweetEval", result.out)
        self.assertIn("differences on val", result.out)
        self.assertRefused(s.run("sweep", job, "--sweep.tasks", "a,b"), 64, "sweep.tasks", "tweet_eval", "data.dir")

    def test_without_lists(self):
        """A sweep of one: data.task, train.lr and train.seed of the job."""
        job = s.job_write(self.path("one.yaml"), self.data, self.out, model__base=self.base)
        self.assertExit(s.run("sweep", job), 0)
        table = self.check_table(self.out, ["emotion"], ["0.001"], ["42"])
        self.assertEqual((table["tasks"][0]["rates"][0]["val"]["sd"], table["tasks"][0]["pairs"]), (None, []))

    def test_flags_alone(self):
        """No job file, and no data.task beside sweep.tasks."""
        result = s.run("sweep", "--model.base", self.base, "--data.dir", self.data, "--sweep.tasks", "irony", "--sweep.seeds", "3,1", "--out", self.out,
                       "--threads", 1, "--train.epochs", 1, "--data.max_length", 40)
        self.assertExit(result, 0)
        self.check_table(self.out, ["irony"], ["5.0e-05"], ["3", "1"])

    def test_run_passes_the_lists_over(self):
        result = self.train(self.job, "--out", self.out)
        self.assertEqual(len([line for line in result.err.split("\n") if "sweep" in line]), 1)
        self.assertIn("data.task, train.seed and train.lr", result.err)
        self.assertNotIn("sweep", self.train(self.job, "--out", self.out, "--sweep.tasks", "none", "--sweep.rates=", "--sweep.seeds", "[]").err)


class Refused(Sweep):
    def refused(self, *arguments, words):
        self.assertRefused(s.run("sweep", self.job, "--out", self.out, *arguments), 64, *words)
        self.assertFalse(os.path.exists(self.out), "nothing is made")

    def test_other_lists(self):
        """The runs of before stay, are named, and come back with their lists."""
        self.copy()
        before = read(f"{self.out}/sweep.json")
        result = self.go("--sweep.tasks", "emotion", "--sweep.rates", RATES[0], "--sweep.seeds", "1")
        self.assertIn("11 runs of other lists", result.err)
        table = s.json_read(f"{self.out}/sweep.json")
        others = sorted(f"{t}/lr-{r}-seed-{x}" for t, r, x in itertools.product(TASKS, RATES, SEEDS))
        others.remove(f"emotion/lr-{RATES[0]}-seed-1")
        self.assertEqual((len(table["cells"]), table["others"]), (1, others))
        for name in others:
            self.assertIn(f"- {name}\n", read(f"{self.out}/sweep.md").decode())
        self.assertNotIn("other lists", self.go().err)
        self.assertEqual(read(f"{self.out}/sweep.json"), before)

    def test_verified(self):
        """A line for each run, wherever it is wrong."""
        self.copy()
        names = {f"{t}/lr-{r}-seed-{x}" for t, r, x in itertools.product(TASKS, RATES, SEEDS)}
        for flags in (("--verify",), ()):
            result = s.run("inspect", *flags, self.out, "--json")
            self.assertExit(result, 0)
            answer, = result.lines()
            self.assertEqual((answer["kind"], {e["path"] for e in answer["items"] if e["kind"] == "run"}), ("sweep", names))
            self.assertTrue(all(e["intact"] for e in answer["items"]))
        bad, gone = f"emotion/lr-{RATES[1]}-seed-2", f"irony/lr-{RATES[0]}-seed-3"
        with open(f"{self.out}/{bad}/model/model.safetensors", "r+b") as file:
            file.seek(-9, os.SEEK_END)
            file.write(b"\x55" * 9)
        shutil.rmtree(f"{self.out}/{gone}")
        result = s.run("inspect", "--verify", self.out)
        self.assertExit(result, 65, "2 of ")
        wrong = [line for line in result.out.splitlines() if line.startswith("WRONG")]
        self.assertEqual(len(wrong), 2, result)
        self.assertIn(f"{bad}: ", wrong[0])
        self.assertIn("model.safetensors", wrong[0])
        self.assertIn(f"{gone}: is missing", wrong[1])

    def test_refused(self):
        self.refused("--sweep.rates", "1e-3,0.001", words=["--sweep.rates", "0.001", "twice"])
        self.refused("--sweep.seeds", "1,2,1", words=["--sweep.seeds", "twice"])
        self.refused("--sweep.tasks", "irony,emotion,irony", words=["--sweep.tasks", "irony", "twice"])
        self.refused("--sweep.seeds", "1,-2", words=["--sweep.seeds", "'-2'"])
        self.refused("--sweep.seeds", ",".join(map(str, range(65))), words=["--sweep.seeds", "64"])
        numbers = ",".join(map(str, range(1, 65)))
        self.refused("--sweep.seeds", numbers, "--sweep.rates", numbers, words=["8192 runs", "4096"])
        self.refused("--sweep.tasks", "emotion,irnoy", words=["irnoy", "irony"])
        self.refused("--sweep.tasks", "..", words=["sweep.tasks", ".."])
        self.refused("--sweep.tasks", "a/b,a-b", words=["sweep.tasks", "a/b", "a-b"])
        self.refused("--checkpoints.dir", self.path("c"), words=["checkpoints.dir", "<out>"])
        self.refused("--checkpoints.resume", "never", words=["checkpoints.resume", "auto"])
        self.refused("--checkpoints.resume", self.path("c"), words=["checkpoints.resume", "auto"])
        self.refused("--train.seed", "x", words=["--train.seed"])
        self.refused("--sweep.task", "emotion", words=["did you mean sweep.tasks"])
        self.assertRefused(s.run("sweep"), 64, "job file")
        self.assertRefused(s.run("sweep", "--model.base", self.base, "--data.dir", self.data), 64, "data.task", "sweep.tasks")
        self.assertRefused(s.run("sweep", self.path("nowhere.yaml")), 64, "nowhere.yaml")

    def test_data_is_read_first(self):
        """What is wrong with the last task is said before the first is trained."""
        data = self.path("d")
        shutil.copytree(self.data, data)
        with open(f"{data}/irony/val_labels.txt", "ab") as file:
            file.write(b"7\n")
        self.assertRefused(s.run("sweep", self.job, "--out", self.out, "--data.dir", data), 65, "irony/val_labels.txt")
        self.assertFalse(os.path.exists(self.out))

    def test_help(self):
        result = s.run("sweep", "--help")
        self.assertExit(result, 0)
        for word in ("sweep.tasks", "--dry-run", "sweep.json", "mpirun"):
            self.assertIn(word, result.out)


if __name__ == "__main__":
    s.main()
