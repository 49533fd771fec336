# SPDX-License-Identifier: Apache-2.0
"""A run holds the folders that it writes to, `out` and `checkpoints.dir`, and ends without a further write where one is lost."""
import contextlib
import json
import os
import shutil
import signal
import socket

import resume_support as r
import support as s

LONG = {"train__epochs": 100000, "checkpoints__every": 0, "checkpoints__keep": 1}


class Held(r.Runs):
    def setUp(self):
        super().setUp()
        self.ck = self.path("ck")

    def going(self, job, *arguments, step=8, **options):
        process = self.begin(job, *arguments, **options)
        self.assertTrue(s.wait_for(s.step_reached(self.out, step), process), "it goes")
        return process

    def between_saves(self):
        """The newest checkpoint is whole, has its link and its event, and no other is under way."""
        folder = self.ck if os.path.isdir(self.ck) else f"{self.out}/checkpoints"
        names = [n for n in os.listdir(folder) if n.startswith("step-")]
        saved = [e["step"] for e in s.events(self.out, "checkpoint")]
        return (names and saved and not any(".tmp-" in n for n in os.listdir(folder)) and int(max(names)[5:]) == saved[-1] and
                os.path.islink(f"{folder}/latest") and os.readlink(f"{folder}/latest") == max(names))

    @contextlib.contextmanager
    def stopped(self, process, ranks=0):
        """All of its processes stand still meanwhile, and no save is under way: what a stop left of one would change after it."""
        pids = s.ranks_of(process, ranks) if ranks else [process.pid]
        self.assertTrue(s.wait_for(lambda: self.stopped_between_saves(pids), process), "between two saves")
        try:
            yield
        finally:
            self.go_on(pids)

    def stopped_between_saves(self, pids):
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        for pid in pids:
            self.assertTrue(s.wait_for(lambda pid=pid: s.process_state(pid) == "T"))
        with contextlib.suppress(OSError, ValueError):
            if self.between_saves():
                return True
        return self.go_on(pids)

    def go_on(self, pids):
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        return False

    def end(self, process):
        process.send_signal(signal.SIGUSR1)
        self.assertExit(s.finish(process), 75, "SIGUSR1")


class Shared(Held):
    """One checkpoints.dir and two runs."""

    def check_refused(self, job, out, ck, pid, *more):
        where = f"checkpoints.dir: {os.path.realpath(more[0]) if more else ck} is in use by pid {pid} on host {socket.gethostname()}"
        for dry in ((), ("--dry-run",)):
            result = s.run("run", job, "--out", out, "--checkpoints.dir", ck, "--train.seed", 9, *dry)
            self.assertRefused(result, 75, where, "choose another checkpoints.dir")

    def test_two_outs(self):
        job = self.job(checkpoints__dir=self.ck, **LONG)
        process = self.going(job)
        self.assertEqual(s.json_read(f"{self.ck}/.owner")["pid"], process.pid)
        link = self.path("link")
        os.symlink(self.ck, link)
        self.check_refused(job, self.path("two"), self.ck, process.pid)
        self.assertRefused(s.run("run", job, "--out", self.path("two"), "--checkpoints.dir", link), 75, "checkpoints.dir", f"pid {process.pid}")
        self.assertRefused(s.run("run", job, "--out", self.ck, "--checkpoints.dir", f"{self.ck}/inner"), 75, f"out: {self.ck} is in use by pid {process.pid}")
        self.end(process)
        self.assertFalse(os.path.exists(f"{self.ck}/.owner"))
        self.assertFalse(os.path.exists(f"{self.out}/.owner"))
        # with its end the folder is free, but for the same run alone
        self.assertRefused(s.run("run", job, "--out", self.path("two"), "--train.seed", 9), 64, f"holds the checkpoints of the run in {self.out}")
        os.remove(f"{self.ck}/.home")  # as an older version left it
        self.assertRefused(s.run("run", job, "--out", self.path("two"), "--train.seed", 9), 65, "train.seed", "another run")

    def test_at_once(self):
        """One of them is made, whole; the other is refused."""
        job = self.job(train__epochs=20, checkpoints__dir=self.ck, checkpoints__every=0, checkpoints__keep=1)
        starts = [self.begin(job, "--train.seed", seed, "--out", self.path(f"o{seed}")) for seed in (1, 2, 3)]
        ends = [s.finish(p) for p in starts]
        self.assertEqual(sorted(e.rc for e in ends), [0, 75, 75], [str(e) for e in ends])
        winner = next(seed for seed, e in zip((1, 2, 3), ends) if e.rc == 0)
        report = s.json_read(self.path(f"o{winner}/report.json"))
        self.assertEqual(report["seed"], winner)
        self.assertEqual(s.checkpoint_attributes(f"{self.ck}/best")["run_id"], report["run_id"])

    def test_anothers_own_folder(self):
        """Below another run's out, whichever of the two came first."""
        job = self.job(**LONG)
        inner = f"{self.out}/checkpoints"
        first = self.going(job)
        self.check_refused(job, self.path("two"), inner, first.pid, self.out)
        self.end(first)
        shutil.rmtree(self.out)
        mine, self.out = self.out, self.path("two")
        second = self.going(job, "--checkpoints.dir", inner)
        self.out = mine
        for dry in ((), ("--dry-run",)):
            self.assertRefused(s.run("run", job, *dry), 75, f"checkpoints.dir: {inner} is in use by pid {second.pid}")
        self.end(second)

    def test_sweep(self):
        """Its runs are runs: one of them finds its folder held by another process."""
        out = self.path("sweep")
        job = self.job("sweep", train__epochs=1)
        self.assertExit(s.run("sweep", job, "--out", out, "--sweep.seeds", "1,2"), 0)
        self.out = self.path("one")
        cell = f"{out}/emotion/lr-0.001-seed-1/checkpoints"
        os.remove(f"{cell}/.home")
        other = self.going(self.job(**LONG), "--checkpoints.dir", cell, "--checkpoints.resume", "never")
        shutil.rmtree(f"{out}/emotion/lr-0.001-seed-1/model")
        os.remove(f"{out}/emotion/lr-0.001-seed-1/report.json")
        self.assertExit(s.run("sweep", job, "--out", out, "--sweep.seeds", "1,2"), 75, f"in use by pid {other.pid}")
        self.end(other)


class Foreign(Held):
    """A best checkpoint that another run wrote is never published."""

    def setUp(self):
        super().setUp()
        keys = {"train__lr": 1e-12, "train__epochs": 40, "checkpoints__every": 0, "checkpoints__keep": 1}  # all evaluations alike: the first, of step 5, is the best
        self.other = self.path("other")
        self.train(self.job(**keys, train__seed=77), "--out", self.other, "--train.epochs", 1)
        self.yaml = self.job(**keys)

    def swap(self):
        best = s.checkpoint(self.out, 5)
        shutil.rmtree(best)
        shutil.copytree(s.checkpoint(self.other, 5), best)

    def check(self, result, *words):
        self.assertExit(result, 0, "step-00000005 is of another run", *words)
        mine, best = (s.checkpoint_tensors(p) for p in (s.checkpoint(self.out), s.checkpoint(self.other, 5)))
        model = s.safetensors_read(f"{self.out}/model/model.safetensors")
        self.assertEqual(s.tensors_differ(model, mine), [])
        self.assertNotEqual(s.tensors_differ(model, best), [])
        self.assertEqual(s.json_read(f"{self.out}/report.json")["best_step"], 200)

    def test_at_the_end(self):
        process = self.going(self.yaml, step=12)  # the save of step 5 is whole before that of step 10 begins
        with self.stopped(process):
            self.swap()
        self.check(s.finish(process), "is lost")

    def test_at_a_start(self):
        self.assertExit(s.run("run", self.yaml, "--train.max_steps", 7), 0)
        self.swap()
        for name in ("model", "report.json"):
            path = f"{self.out}/{name}"
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
        result = s.run("run", self.yaml, "--train.epochs", 2)
        self.assertExit(result, 0, "step-00000005 is of another run", "found anew")
        self.assertEqual(s.json_read(f"{self.out}/report.json")["best_step"], 10)


class Lost(Held):
    """A folder that is no longer the run's."""

    def tree(self, folder):
        """Without temporary names: a stop may fall into a save, whose own folder then goes."""
        return {n: h for n, h in r.tree(folder, without=()).items() if ".tmp-" not in n}

    def take(self, folder):
        """As another run does that saw no heartbeat: its file in the place of ours."""
        record = s.json_read(f"{folder}/.owner")
        record.update(host="elsewhere", boot_id="another", pid=4321, token="f" * 32)
        with open(f"{folder}/.owner.new", "w", encoding="utf-8") as file:
            json.dump(record, file)
        os.rename(f"{folder}/.owner.new", f"{folder}/.owner")

    def check_end(self, process, folder, why, before):
        result = s.finish(process)
        self.assertExit(result, 75, f"this run no longer holds {folder}: {why}")
        self.assertEqual(result.err.count("finetuned:"), 1, f"one line: {result}")
        self.assertEqual(self.tree(self.out), before)
        self.assertFalse(os.path.exists(f"{self.out}/model"))

    def test_owner_file_is_gone(self):
        job = self.job(**LONG)
        for ranks in (0, 2):
            self.out = self.path(f"world-{ranks}")
            process = self.going(job, "--log.level", "error", ranks=ranks)
            with self.stopped(process, ranks):
                os.remove(f"{self.out}/.owner")
                before = self.tree(self.out)
            if ranks:
                result = s.finish(process)
                self.assertExit(result, 75, f"this run no longer holds {self.out}: its .owner is gone")
                self.assertEqual(result.err.count("no longer holds"), 1, str(result))
                self.assertEqual(r.left_over(self.out), [])
                self.assertEqual(self.tree(self.out), before)
            else:
                self.check_end(process, self.out, "its .owner is gone", before)

    def test_another_took_it(self):
        process = self.going(self.job(**LONG), "--log.level", "error", "--checkpoints.every", 0)
        with self.stopped(process):
            self.take(self.out)
            before = self.tree(self.out)
        self.check_end(process, self.out, "another run took it", before)
        self.assertEqual(s.json_read(f"{self.out}/.owner")["pid"], 4321)

    def test_folder_is_gone(self):
        process = self.going(self.job(**LONG), "--log.level", "error")
        with self.stopped(process):
            shutil.rmtree(self.out)
        self.assertExit(s.finish(process), 75, "its .owner is gone")
        self.assertFalse(os.path.exists(self.out))

    def test_checkpoints_dir(self):
        """`out` is still ours: it says why the run ended."""
        process = self.going(self.job(checkpoints__dir=self.ck, **LONG), "--log.level", "error")
        with self.stopped(process):
            self.take(self.ck)
            before = self.tree(self.ck)
        self.assertExit(s.finish(process), 75, f"this run no longer holds {self.ck}: another run took it")
        self.assertEqual(self.tree(self.ck), before)
        stop = s.events(self.out)[-1]
        self.assertEqual((stop["event"], stop["exit"]), ("stop", 75))
        self.assertIn("no longer holds", stop["message"])


class Events(Held):
    """events.jsonl changed by another hand while the run goes on: said, and gone on with."""

    def check(self, was, change):
        self.out = self.path(was)
        process = self.going(self.job(train__epochs=20, checkpoints__every=0, checkpoints__keep=1))
        with self.stopped(process):
            change(f"{self.out}/events.jsonl")
        result = s.finish(process)
        self.assertExit(result, 0, f"{self.out}/events.jsonl was {was}")
        self.assertEqual(result.err.count(f"events.jsonl was {was}"), 1)
        found = s.events(self.out)
        self.assertEqual([e.get("was") for e in found if e["event"] == "gap"], [was])
        self.assertEqual(found[-1]["event"], "end")
        self.assertEqual(s.json_read(f"{self.out}/report.json")["steps"], 100)
        self.assertExit(s.run("inspect", "--verify", self.out), 0)
        self.assertExit(s.run("run", self.path("job.yaml"), "--out", self.out), 0)

    def test_removed(self):
        self.check("removed", os.remove)

    def test_emptied(self):
        self.check("cut", lambda path: os.truncate(path, 0))

    def test_replaced(self):
        def replace(path):
            with open(path, "rb") as file:
                half = file.read()[:-9]
            with open(path + ".new", "wb") as file:
                file.write(half[:half.rindex(b"\n") + 1])
            os.rename(path + ".new", path)

        self.check("replaced", replace)

    def test_verify(self):
        job = self.job(train__epochs=1)
        self.train(job)
        for change in (lambda p: os.truncate(p, 0), os.remove):
            change(f"{self.out}/events.jsonl")
            result = s.run("inspect", "--verify", self.out)
            self.assertExit(result, 65, "events.jsonl")


if __name__ == "__main__":
    s.main()
