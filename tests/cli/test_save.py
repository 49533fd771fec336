# SPDX-License-Identifier: Apache-2.0
"""Saves while training goes on, on a disk made slow by the shim: each is of its step, those due meanwhile wait, and nothing is left of one
that fails."""
import glob
import math
import os
import shutil
import signal

import resume_support as r
import shim
import support as s


class Slow(s.Case):
    """Checkpoints of 36 MB (smaller ones are waited for) in about 600 writes, each so slow that a save takes at least six steps."""

    @classmethod
    def setUpClass(cls):
        cls.root = s.tempfile.mkdtemp(prefix="finetuned-test-")
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        cls.data = s.task_make(os.path.join(cls.root, "d"), rows=(96, 8, 8))
        cls.base = s.model_make(os.path.join(cls.root, "m"), hidden=512, heads=4, layers=1, positions=3000)
        cls.job = s.job_write(os.path.join(cls.root, "job.yaml"), cls.data, os.path.join(cls.root, "calm"), model__base=cls.base, train__epochs=1,
                              checkpoints__every=4, checkpoints__keep=50, log__tensorboard=False, export__to=[])
        result = s.run("run", cls.job)
        if result.rc:
            raise AssertionError(str(result))
        cls.calm = os.path.join(cls.root, "calm")
        times = [e["time"] for e in s.events(cls.calm, "step")]
        cls.ms = max(2, math.ceil(1000 * 8 * (times[-1] - times[0]) / (len(times) - 1) / 600))

    def setUp(self):
        super().setUp()
        self.out = self.path("o")

    def slow(self, rank=None, times=1):
        return shim.environment(os.path.join(self.out, "checkpoints"), "pwrite", at=1, count="all", do=f"delay:{times * self.ms}", rank=rank)

    def go(self, *arguments, **options):
        os.makedirs(os.path.join(self.out, "checkpoints"), exist_ok=True)
        return self.train(self.job, "--out", self.out, *arguments, **options)

    def saved(self):
        return [e["step"] for e in s.events(self.out, "checkpoint")]

    def assertNothingLeft(self):
        self.assertEqual(r.left_over(self.out), [])

    def assertSame(self, other=None):
        other = other or self.calm
        self.assertEqual(s.course(self.out), s.course(other))
        for group in ("model", "optimizer"):
            self.assertEqual(s.tensors_differ(s.checkpoint_tensors(s.checkpoint(self.out), group), s.checkpoint_tensors(s.checkpoint(other), group)), [])

    def test_training_goes_on(self):
        """Saves take longer than four steps: they overlap with training, each is good, and the run ends as the calm one."""
        self.go(env=self.slow())
        saved = self.saved()
        self.assertEqual((saved[0], saved[-1]), (4, 12))
        self.assertEqual(saved, sorted(set(saved)))
        self.assertNotIn(8, saved, "saves that are due while one is being written wait")
        order = [(e["event"], e["step"]) for e in s.events(self.out) if e["event"] in ("step", "checkpoint")]
        self.assertGreater(order.index(("checkpoint", 4)), order.index(("step", 6)), "training went on meanwhile")
        # Each save but the last (the end's, which is always made) was begun as soon as the one before it was there.
        for before, after in zip(saved, saved[1:-1]):
            at = order.index(("checkpoint", before))
            steps = [step for event, step in order[:at] if event == "step"]
            self.assertEqual(after, max(steps[-1], (before // 4 + 1) * 4), order)
        for step in saved:
            self.assertExit(s.run("inspect", "--verify", s.checkpoint(self.out, step)), 0)
        self.assertNothingLeft()
        self.assertSame()

    def test_resumed_from_the_middle(self):
        """A checkpoint that was written while the weights changed is that of its step, whatever the buffer, and goes on as the run never stopped."""
        for buffer in ("0", "2MiB"):
            with self.subTest(buffer=buffer):
                shutil.rmtree(self.out, ignore_errors=True)
                self.go("--checkpoints.buffer", buffer, env=self.slow())
                self.assertSame()
                for group in ("model", "optimizer"):
                    self.assertEqual(s.tensors_differ(s.checkpoint_tensors(s.checkpoint(self.out, 4), group),
                                                      s.checkpoint_tensors(s.checkpoint(self.calm, 4), group)), [])
        middle = self.saved()[1]
        path = self.path("backup")
        shutil.copytree(s.checkpoint(self.out, middle), path)
        shutil.rmtree(self.out)
        self.go("--checkpoints.resume", path)
        self.assertEqual(s.course(self.out), {n: c for n, c in s.course(self.calm).items() if n > middle})
        for group in ("model", "optimizer"):
            self.assertEqual(s.tensors_differ(s.checkpoint_tensors(s.checkpoint(self.out), group), s.checkpoint_tensors(s.checkpoint(self.calm), group)), [])

    def test_ranks(self):
        """The slow disk is one rank's: the others' training waits with it only where it must."""
        self.go(ranks=2, env=self.slow(rank=1, times=3))
        self.assertNotIn(8, self.saved())
        self.assertSame()
        self.assertNothingLeft()

    def test_micro_batches_frozen_buckets_and_skips(self):
        """Updates that come in one of several micro-batches, or not at all."""
        more = ("--train.max_tokens", 120, "--train.freeze", "embeddings")
        fault = {"FINETUNED_FAULT": "nan:rank=0,cursor=4;nan:rank=0,cursor=7"}
        calm, self.out = self.path("calm"), self.path("o")
        self.train(self.job, "--out", calm, *more, env=fault)
        self.go(*more, env={**self.slow(), **fault})
        self.assertEqual([e["cursor"] for e in s.events(self.out, "skip")], [4, 7])
        self.assertSame(calm)
        for group in ("model", "optimizer"):
            self.assertEqual(s.tensors_differ(s.checkpoint_tensors(s.checkpoint(self.out, 4), group), s.checkpoint_tensors(s.checkpoint(calm, 4), group)), [])

    def test_epochs_and_ends_wait(self):
        """An epoch's end and the run's are saved, however short the epochs and however slow the disk."""
        data = s.task_make(self.path("short"), rows=(24, 8, 8))
        self.go("--data.dir", data, "--train.epochs", 4, "--checkpoints.every", 2, env=self.slow())
        saved = self.saved()
        self.assertEqual([n for n in saved if n % 3 == 0], [3, 6, 9, 12])
        for event in s.events(self.out, "checkpoint"):
            self.assertGreater(event["write_s"], 0.5)
            self.assertGreater(event["held_s"], 0)

    def writing(self):
        return glob.glob(f"{glob.escape(self.out)}/checkpoints/.tmp-step-*/checkpoint.h5")

    def start(self, *arguments, **options):
        os.makedirs(os.path.join(self.out, "checkpoints"), exist_ok=True)
        process = s.start("run", self.job, "--out", self.out, *arguments, **options)
        self.addCleanup(lambda: process.poll() is None and r.kill_all(process))
        return process

    def test_stopped_while_one_is_written(self):
        for ranks, sign in ((0, signal.SIGTERM), (2, signal.SIGUSR1)):
            with self.subTest(ranks=ranks):
                shutil.rmtree(self.out, ignore_errors=True)
                process = self.start(ranks=ranks, env=self.slow())
                self.assertTrue(s.wait_for(lambda: self.writing() and s.step_reached(self.out, 5)(), process))
                os.kill(s.ranks_of(process, ranks)[-1] if ranks else process.pid, sign)
                result = s.finish(process)
                self.assertExit(result, 75, sign.name)
                stop, = s.events(self.out, "stop")
                self.assertEqual(self.saved(), [4, stop["step"]])
                self.assertEqual(s.events(self.out)[-1], stop)
                self.assertNothingLeft()
                self.go()
                self.assertSame()

    def test_a_disk_that_fills_up_meanwhile(self):
        """The run ends with 74 on all ranks and the words of a save that held it; the one before loads; no trace of the other."""
        for ranks, rank in ((0, None), (2, 1)):
            with self.subTest(ranks=ranks, rank=rank):
                shutil.rmtree(self.out, ignore_errors=True)
                os.makedirs(os.path.join(self.out, "checkpoints"))
                log = self.path("log")
                writes = 700 if not ranks else 400  # behind the first save, in the second
                env = shim.environment(os.path.join(self.out, "checkpoints"), "pwrite", at=writes, count="all", do="fail:ENOSPC", rank=rank, log=log)
                result = self.go(ranks=ranks, env=env, rc=74)
                self.assertTrue(shim.hits(log), "the fault did not come")
                self.assertIn("No space left on device", result.err)
                self.assertRegex(result.err, r"checkpoint of step \d+ \(\d+\.\d MiB needed in ")
                self.assertNothingLeft()
                stop, = s.events(self.out, "stop")
                self.assertEqual((stop["reason"], stop["exit"]), ("error", 74))
                saved = self.saved()
                self.assertEqual(s.checkpoint_names(self.out), [f"step-{n:08d}" for n in saved])
                self.go()
                self.assertEqual(s.events(self.out, "resume")[0]["step"], saved[-1])
                self.assertSame()

    def test_diverged_while_one_is_written(self):
        """What was good before is kept: the save that was on its way is committed."""
        env = {**self.slow(), "FINETUNED_FAULT": "nan:rank=0,cursor=5,count=3"}
        self.go(rc=65, env=env)
        self.assertEqual(s.checkpoint_names(self.out), ["step-00000004"])
        self.assertExit(s.run("inspect", "--verify", s.checkpoint(self.out, 4)), 0)
        self.assertNothingLeft()
        self.assertEqual([e["reason"] for e in s.events(self.out, "stop")], ["nonfinite"])


if __name__ == "__main__":
    s.main()
