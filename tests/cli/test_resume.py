# SPDX-License-Identifier: Apache-2.0
"""Stopped, killed and resumed runs equal the unbroken one, bit for bit; what resume refuses; the owner of an output folder."""
import os
import pathlib
import shutil
import signal
import socket
import time

import resume_support as r
import support as s


class Resume(s.Case):
    """A run of 15 steps in 3 epochs (38 rows in batches of 8: the last of an epoch is partial)."""

    @classmethod
    def setUpClass(cls):
        cls.root = s.tempfile.mkdtemp(prefix="finetuned-test-")
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        cls.data = s.task_make(os.path.join(cls.root, "d"), rows=(38, 8, 8))
        cls.base = s.model_make(os.path.join(cls.root, "m"), hidden=96, heads=3, ffn=256)
        cls.unbroken = os.path.join(cls.root, "unbroken")
        cls.job = s.job_write(os.path.join(cls.root, "job.yaml"), cls.data, cls.unbroken, model__base=cls.base, train__epochs=3,
                              checkpoints__every=4, checkpoints__keep=20, train__warmup=2)
        result = s.run("run", cls.job)
        if result.rc:
            raise AssertionError(str(result))

    def setUp(self):
        super().setUp()
        self.out = self.path("o")

    def go(self, *arguments, rc=0, **options):
        return self.train(self.job, "--out", self.out, *arguments, rc=rc, **options)

    def stop(self, sign=signal.SIGTERM, step=7, rank=0, ranks=0, **options):
        """Starts, sends a signal to a rank (or with rank None to the process that was started) once `step` is done; its Result.
        On a busy machine a run may be at its end before the signal comes: then once more from the start."""
        before = self.path("before-stop")
        shutil.rmtree(before, ignore_errors=True)
        if os.path.exists(self.out):
            shutil.copytree(self.out, before, symlinks=True)
        for _ in range(5):
            process = s.start("run", self.job, "--out", self.out, ranks=ranks, **options)
            self.addCleanup(self.end, process)
            if s.wait_for(s.step_reached(self.out, step), process):
                try:
                    os.kill(process.pid if rank is None or not ranks else s.ranks_of(process, ranks)[rank], sign)
                except (ProcessLookupError, IndexError, AssertionError):
                    pass
            result = s.finish(process)
            if result.rc != 0:
                return result
            shutil.rmtree(self.out)
            if os.path.exists(before):
                shutil.copytree(before, self.out, symlinks=True)
        return self.fail("five times the run ended before it could be stopped")

    def stop_between(self, sign, first, last, ranks=0):
        """stop() with its signal after step `first`, tried again where the run was beyond `last` or at its end before it came."""
        before = self.path("before")
        if os.path.exists(self.out):
            shutil.copytree(self.out, before, symlinks=True)
        for _ in range(8):
            process = s.start("run", self.job, "--out", self.out, ranks=ranks)
            self.addCleanup(self.end, process)
            s.wait_for(s.step_reached(self.out, first), process)
            if process.poll() is None:
                os.kill(s.ranks_of(process, ranks)[ranks - 1] if ranks else process.pid, sign)
            result = s.finish(process)
            if result.rc == 75 and s.events(self.out, "stop")[-1]["step"] <= last:
                break
            shutil.rmtree(self.out)
            if os.path.exists(before):
                shutil.copytree(before, self.out, symlinks=True)
        return result

    def end(self, process):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()

    def slow(self):
        """More steps, so that a signal finds the run under way: the job as it is, but 40 epochs."""
        self.job = s.job_write(self.path("job.yaml"), self.data, self.out, model__base=self.base, train__epochs=40, checkpoints__every=4,
                               checkpoints__keep=20, train__warmup=2)

    def cut(self, step):
        """The unbroken run's folder (or the run's own) as a crash behind `step` leaves it: without what came later."""
        if not os.path.exists(self.out):
            shutil.copytree(self.unbroken, self.out, symlinks=True)
        folder = os.path.join(self.out, "checkpoints")
        for name in s.checkpoint_names(self.out):
            if int(name[5:]) > step:
                shutil.rmtree(os.path.join(folder, name))
        for link in ("latest", "best"):
            if not os.path.exists(os.path.join(folder, link)):
                os.remove(os.path.join(folder, link))
                os.symlink(f"step-{step:08d}", os.path.join(folder, link))
        for name in ("model", "artifacts"):
            shutil.rmtree(os.path.join(self.out, name))
        for name in ("report.json", "report.md", ".owner"):
            if os.path.exists(os.path.join(self.out, name)):
                os.remove(os.path.join(self.out, name))
        lines = s.file_lines(os.path.join(self.out, "events.jsonl"))
        keep = next(i for i, line in enumerate(lines) if b'"event": "step"' in line and f'"step": {step},'.encode() in line)
        with open(os.path.join(self.out, "events.jsonl"), "wb") as file:
            file.write(b"\n".join(lines[:keep + 1]) + b"\n")

    def assertSame(self, other=None):
        """Samples, learning rates, losses, and all weights and moments at the end."""
        other = other or self.unbroken
        self.assertEqual(s.course(self.out), s.course(other))
        for group in ("model", "optimizer"):
            self.assertEqual(s.tensors_differ(s.checkpoint_tensors(s.checkpoint(self.out), group), s.checkpoint_tensors(s.checkpoint(other), group)), [])
        self.assertEqual(s.tensors_differ(s.safetensors_read(f"{self.out}/model/model.safetensors"),
                                          s.safetensors_read(f"{other}/model/model.safetensors")), [])
        keep = ("step", "cursor", "epoch", "seed", "parts", "best_step", "best_metric", "evaluations_without_gain", "config_hash", "data_hash")
        one, two = (s.checkpoint_attributes(s.checkpoint(o)) for o in (self.out, other))
        self.assertEqual([one[k] for k in keep], [two[k] for k in keep])


class Exact(Resume):
    def check_stop(self, sign):
        """Stopped in epoch 2 (its first step is the 6th), with a checkpoint of just that step, and resumed."""
        result = self.stop_between(sign, 6, 9)
        self.assertExit(result, 75, sign.name)
        stop, = s.events(self.out, "stop")
        self.assertEqual((stop["reason"], stop["exit"], stop["signal"]), ("signal", 75, sign.name))
        self.assertEqual(s.checkpoint_names(self.out)[-1], f"step-{stop['step']:08d}")
        self.assertEqual(s.events(self.out)[-1]["event"], "stop")
        self.assertEqual(len([e for e in s.events(self.out, "checkpoint") if e["step"] == stop["step"]]), 1, "one checkpoint")
        self.go()
        resume, = s.events(self.out, "resume")
        self.assertEqual([resume[k] for k in ("step", "cursor", "epoch", "skipped")], [stop["step"], stop["step"], 1 + (stop["step"] - 1) // 5, []])
        self.assertEqual(resume["previous"], {"step": stop["step"], "ended": resume["previous"]["ended"]})
        self.assertIn("signal", resume["previous"]["ended"])
        self.assertTrue(resume["checkpoint"].endswith(f"step-{stop['step']:08d}"))
        self.assertSame()

    def test_sigterm(self):
        self.check_stop(signal.SIGTERM)

    def test_sigusr1(self):
        self.check_stop(signal.SIGUSR1)

    def test_sigint(self):
        self.check_stop(signal.SIGINT)

    def test_from_every_checkpoint(self):
        """At 4 (inside epoch 1), 5 (its end), 8 (inside epoch 2), 12."""
        for step in (4, 5, 8, 12):
            with self.subTest(step=step):
                shutil.rmtree(self.out, ignore_errors=True)
                self.cut(step)
                self.go()
                resume, = s.events(self.out, "resume")
                self.assertEqual((resume["step"], resume["previous"]["ended"]), (step, "no stop event"))
                self.assertSame()

    def test_twice(self):
        self.cut(4)
        self.go()
        self.cut(8)
        self.go()
        self.assertEqual([e["step"] for e in s.events(self.out, "resume")], [4, 8])
        self.assertSame()

    def test_many_stops(self):
        """Stopped at every step boundary that a signal finds, until it is done."""
        for _ in range(40):
            process = s.start("run", self.job, "--out", self.out)
            self.addCleanup(self.end, process)
            before = len(s.events(self.out, "step")) if os.path.exists(f"{self.out}/events.jsonl") else 0
            s.wait_for(lambda: len(s.events(self.out, "step")) > before, process)
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            result = s.finish(process)
            if result.rc == 0:
                break
            self.assertExit(result, 75)
        self.assertEqual(result.rc, 0)
        self.assertGreater(len(s.events(self.out, "resume")), 0)
        self.assertSame()

    def test_threads_may_change(self):
        self.cut(8)
        self.go("--threads", 2)
        self.assertSame()


class Worlds(Resume):
    def test_four_one_two(self):
        """4 ranks until SIGTERM in epoch 2, then 1 rank until SIGTERM, then 2 ranks to the end."""
        self.assertExit(self.stop_between(signal.SIGTERM, 6, 9, ranks=4), 75)
        self.assertExit(self.stop_between(signal.SIGTERM, 10, 13), 75)
        self.go(ranks=2)
        self.assertEqual([e["world"] for e in s.events(self.out, "start")], [4, 1, 2])
        self.assertSame()

    def test_worlds_of_one_and_two(self):
        self.go(ranks=2)
        self.assertSame()
        self.cut(8)
        self.go()
        self.assertSame()

    def check_rank(self, sign, rank):
        self.slow()
        result = self.stop(sign, 6, rank, ranks=2)
        self.assertExit(result, 75)
        stop, = s.events(self.out, "stop")
        self.assertEqual((stop["reason"], stop["exit"]), ("signal", 75))
        self.assertEqual(s.checkpoint_names(self.out)[-1], f"step-{stop['step']:08d}")
        self.go("--train.max_steps", stop["step"] + 2)
        self.assertEqual(max(s.steps(self.out)), stop["step"] + 2)

    def test_sigterm_to_rank_1(self):
        self.check_rank(signal.SIGTERM, 1)

    def test_sigusr1_to_rank_0(self):
        self.check_rank(signal.SIGUSR1, 0)

    def test_sigint_to_rank_1(self):
        self.check_rank(signal.SIGINT, 1)

    def test_sigusr1_to_mpirun(self):
        """mpirun passes it on."""
        self.slow()
        result = self.stop(signal.SIGUSR1, 6, None, ranks=2)
        self.assertExit(result, 75)
        stop, = s.events(self.out, "stop")
        self.assertEqual((stop["signal"], s.checkpoint_names(self.out)[-1]), ("SIGUSR1", f"step-{stop['step']:08d}"))

    def test_sigterm_and_sigint_to_mpirun(self):
        """Open MPI ends everything: no process is left, and the newest checkpoint resumes."""
        for sign in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(sign=sign.name):
                shutil.rmtree(self.out, ignore_errors=True)
                self.slow()
                process = s.start("run", self.job, "--out", self.out, ranks=2)
                self.addCleanup(self.end, process)
                self.assertTrue(s.wait_for(s.step_reached(self.out, 6), process))
                pids = s.ranks_of(process, 2)
                process.send_signal(sign)
                result = s.finish(process, 60)
                self.assertNotEqual(result.rc, 0)
                self.assertTrue(s.wait_for(lambda: not any(s.alive(pid) for pid in pids), timeout=15), "no process is left")
                newest = int(s.checkpoint_names(self.out)[-1][5:])
                self.go("--train.max_steps", newest + 1)
                self.assertEqual(s.events(self.out, "resume")[-1]["step"], newest)

    def test_kill_9_of_a_rank(self):
        self.slow()
        process = s.start("run", self.job, "--out", self.out, ranks=2)
        self.addCleanup(self.end, process)
        self.assertTrue(s.wait_for(s.step_reached(self.out, 9), process))
        pids = s.ranks_of(process, 2)
        os.kill(pids[1], signal.SIGKILL)
        result = s.finish(process, 60)
        self.assertIn(result.rc, (137, 75), result)
        self.assertTrue(s.wait_for(lambda: not any(s.alive(pid) for pid in pids), timeout=15), "no process is left")
        newest = int(s.checkpoint_names(self.out)[-1][5:])
        self.go("--train.max_steps", newest + 1, ranks=2)
        resume = s.events(self.out, "resume")[-1]
        self.assertEqual(resume["step"], newest)
        self.assertIn(resume["previous"]["ended"], ("stop: peer_lost", "no stop event"), "mpirun may be quicker than the watch")


class Killed(Resume):
    def test_kill_9(self):
        """At any moment: what is there resumes, and the course is that of the unbroken run."""
        for delay in (0.02, 0.1):
            with self.subTest(delay=delay):
                shutil.rmtree(self.out, ignore_errors=True)
                process = s.start("run", self.job, "--out", self.out)
                self.addCleanup(self.end, process)
                s.wait_for(s.step_reached(self.out, 4), process)
                time.sleep(delay)
                process.kill()
                s.finish(process)
                self.go()
                self.assertSame()

    def test_half_a_line_of_events(self):
        self.cut(8)
        with open(f"{self.out}/events.jsonl", "ab") as file:
            file.write(b'{"event": "step", "time": 17')
        self.go()
        self.assertSame()

    def test_left_over_temporary_folder(self):
        self.cut(8)
        os.makedirs(f"{self.out}/checkpoints/.tmp-step-00000009")
        names = set(os.listdir(f"{self.unbroken}/checkpoints"))
        self.go()
        self.assertEqual({n for n in os.listdir(f"{self.out}/checkpoints") if n in names}, names)
        self.assertSame()

    def test_second_sigint_ends_at_once(self):
        process = s.start("run", self.job, "--out", self.out, "--model.base", "random:mini", "--train.batch", 16, "--data.max_length", 100,
                          "--train.epochs", 100)
        self.addCleanup(self.end, process)
        self.assertTrue(s.wait_for(lambda: s.events(self.out, "start"), process))
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        result = s.finish(process, 60)
        self.assertIn(result.rc, (130, -signal.SIGINT, 75), result)


class Refused(Resume):
    def setUp(self):
        super().setUp()
        self.cut(8)

    def break_checkpoint(self, step, name="checkpoint.h5"):
        """Flips one byte in the middle of a file."""
        path = os.path.join(s.checkpoint(self.out, step), name)
        with open(path, "r+b") as file:
            file.seek(os.path.getsize(path) // 2)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 0x10]))
        return path

    def test_best_is_damaged(self):
        """The best checkpoint is older than the newest and broken: said so, and the best is found anew."""
        best = s.checkpoint_attributes(s.checkpoint(self.out, "step-00000008"))["best_step"]
        self.assertEqual(int(best), 5, "the first epoch's evaluation")
        self.break_checkpoint("step-00000005")
        result = self.go()
        self.assertIn("step-00000005", result.err)
        self.assertIn(s.events(self.out, "end")[-1]["best"]["step"], (10, 15))
        self.assertTrue(os.path.exists(os.path.join(self.out, "model", "config.json")))

    def test_best_and_model_are_lost(self):
        """A complete run without its best checkpoint and model: the newest stands in, and it is said."""
        shutil.rmtree(self.out)
        shutil.copytree(self.unbroken, self.out, symlinks=True)
        best = s.events(self.out, "end")[-1]["best"]["step"]
        if best == 15:
            s.skip("a run whose best is not its newest")
        shutil.rmtree(s.checkpoint(self.out, f"step-{best:08d}"))
        shutil.rmtree(os.path.join(self.out, "model"))
        result = self.go()
        self.assertIn("stands in", result.err)
        self.assertEqual(s.events(self.out, "end")[-1]["best"]["step"], 15)

    def test_another_job(self):
        """Names the key and both values; nothing is touched."""
        before = s.checkpoint_names(self.out)
        for key, value, was in (("train.lr", "0.002", "0.001"), ("train.batch", "4", "8"), ("train.seed", "43", "42"), ("train.schedule", "cosine", "linear"),
                                ("train.parts", "2", "4"), ("data.max_length", "39", "40"), ("train.clip", "0.5", "1"), ("model.dropout", "0.2", "config"),
                                ("train.warmup", "1", "2"), ("data.special_tokens", "parse", "literal")):
            with self.subTest(key=key):
                result = self.go(f"--{key}", value, rc=65)
                for word in (key, value, was):
                    self.assertIn(word, result.err)
                self.assertEqual(s.checkpoint_names(self.out), before)

    def test_another_base_or_other_data(self):
        """A hash can't be given again: the place of the files is named, and what to do."""
        other = s.model_make(self.path("other"), seed=8)
        result = self.go("--model.base", other, rc=65)
        for word in ("model.base (content) was", f"then the files of {self.base})", "Restore the files as they were"):
            self.assertIn(word, result.err)
        self.assertNotIn("old value", result.err)
        data = s.task_make(self.path("d2"), rows=(30, 12, 8))
        result = self.go("--data.dir", data, rc=65)
        for word in ("data (content) was", f"data.columns of {data})", "Restore the files as they were"):
            self.assertIn(word, result.err)
        result = self.go("--data.dir", data, "--train.lr", 0.5, rc=65)
        self.assertIn("Give the old value again and restore the files as they were", result.err)
        self.assertIn("Give the old value again, choose", self.go("--train.lr", 0.5, rc=65).err)
        self.assertIn("Give the old values again, choose", self.go("--train.lr", 0.5, "--train.seed", 5, rc=65).err)

    def test_a_refused_job_leaves_everything_as_it_was(self):
        def state():
            found = {}
            for at, _, names in os.walk(self.out):
                for name in names:
                    if name != ".owner":
                        with open(os.path.join(at, name), "rb") as file:
                            found[os.path.relpath(os.path.join(at, name), self.out)] = file.read()
            return found

        before = state()
        self.go("--train.lr", "0.5", rc=65)
        self.go("--checkpoints.resume", self.path("nowhere"), rc=65)
        self.go("--train.parts", 16, rc=64)
        after = state()
        changed = {n for n in set(before) | set(after) if before.get(n) != after.get(n)}
        self.assertEqual(changed - {"events.jsonl"}, set())
        self.go()
        self.assertEqual(s.events(self.out, "resume")[0]["previous"]["step"], 8)
        self.assertSame()

    def test_what_may_differ(self):
        self.go("--train.max_tokens", 400, "--checkpoints.every", 100, "--log.every", 1, "--threads", 2, "--checkpoints.keep", 9)
        self.assertSame()

    def test_path_of_the_data_and_the_base_may_differ(self):
        data, base = self.path("elsewhere"), self.path("base")
        shutil.copytree(self.data, data)
        shutil.copytree(self.base, base)
        self.go("--data.dir", data, "--model.base", base)
        self.assertSame()

    def test_other_data(self):
        data = s.task_make(self.path("other"), rows=(39, 8, 8))
        result = self.go("--data.dir", data, rc=65)
        self.assertIn("data", result.err)

    def test_other_base(self):
        result = self.go("--model.base", s.model_make(self.path("other"), hidden=96, heads=3, ffn=256, seed=8), rc=65)
        self.assertIn("model.base", result.err)

    def test_another_shape(self):
        """Weights of another model: the first tensor that differs is named."""
        result = self.go("--model.base", s.model_make(self.path("other"), hidden=16), rc=65)
        self.assertRegex(result.err, r"roberta\.|classifier|model\.base")

    def test_corrupted_newest_is_skipped(self):
        path = self.break_checkpoint(8)
        self.go()
        resume, = s.events(self.out, "resume")
        self.assertEqual(resume["step"], 5)
        self.assertEqual([os.path.basename(e["path"]) for e in resume["skipped"]], ["step-00000008"])
        self.assertTrue(resume["skipped"][0]["why"])
        self.assertSame()
        self.assertTrue(os.path.dirname(path))

    def test_manifest_missing_or_broken(self):
        for breaks in (lambda p: os.remove(p), lambda p: os.truncate(p, 100), lambda p: os.truncate(p, 0)):
            shutil.rmtree(self.out)
            self.cut(8)
            breaks(os.path.join(s.checkpoint(self.out, 8), "MANIFEST.json"))
            self.go()
            self.assertEqual(s.events(self.out, "resume")[0]["step"], 5)
            self.assertSame()

    def test_truncated_file_is_skipped(self):
        os.truncate(os.path.join(s.checkpoint(self.out, 8), "checkpoint.h5"), 5000)
        self.go()
        self.assertEqual(s.events(self.out, "resume")[0]["step"], 5)
        self.assertSame()

    def test_all_corrupted(self):
        """Never a silent restart from step 0."""
        for step in (4, 5, 8):
            self.break_checkpoint(step)
        steps = len(s.events(self.out, "step"))
        result = self.go(rc=65)
        self.assertIn("step-", result.err)
        self.assertEqual(len(s.events(self.out, "step")), steps)
        self.assertEqual(s.checkpoint_names(self.out), ["step-00000004", "step-00000005", "step-00000008"])

    def test_path(self):
        for path in (s.checkpoint(self.out, 4), os.path.join(s.checkpoint(self.out, 4), "checkpoint.h5")):
            shutil.rmtree(self.out)
            self.cut(8)
            self.go("--checkpoints.resume", path)
            self.assertEqual(s.events(self.out, "resume")[0]["step"], 4)
            self.assertSame()

    def test_path_elsewhere(self):
        """A checkpoint that was copied away starts a new folder."""
        copy = self.path("backup")
        shutil.copytree(s.checkpoint(self.out, 8), copy)
        lines = s.file_lines(f"{self.out}/events.jsonl")
        shutil.rmtree(self.out)
        result = s.run("run", self.job, "--out", self.out, "--checkpoints.resume", copy)
        if result.rc == 65:  # its best model is not here; that must be said before the work, not after it
            self.assertEqual(s.events(self.out, "step") if os.path.exists(f"{self.out}/events.jsonl") else [], [], result)
            return
        self.assertExit(result, 0)
        self.assertTrue(os.path.exists(f"{self.out}/model/model.safetensors"))
        self.assertEqual([e["step"] for e in s.events(self.out, "step")], list(range(9, 16)))
        with open(f"{self.out}/events.jsonl", "rb") as file:
            data = file.read()
        with open(f"{self.out}/events.jsonl", "wb") as file:
            file.write(b"\n".join(lines) + b"\n" + data)
        self.assertEqual(s.course(self.out), s.course(self.unbroken))
        self.assertEqual(s.tensors_differ(s.checkpoint_tensors(s.checkpoint(self.out)), s.checkpoint_tensors(s.checkpoint(self.unbroken))), [])

    def test_path_sets_newer_ones_aside(self):
        result = self.go("--checkpoints.resume", s.checkpoint(self.out, 4), "--train.max_steps", 5)
        self.assertIn("aside", result.err)
        self.assertEqual([n for n in s.checkpoint_names(self.out) if len(n) == 13], ["step-00000004", "step-00000005"])

    def test_path_that_is_missing_or_unusable(self):
        result = self.go("--checkpoints.resume", self.path("nowhere"), rc=65)
        self.assertIn(self.path("nowhere"), result.err)
        self.break_checkpoint(4)
        result = self.go("--checkpoints.resume", s.checkpoint(self.out, 4), rc=65)
        self.assertIn("step-00000004", result.err)
        self.assertEqual(s.checkpoint_names(self.out), ["step-00000004", "step-00000005", "step-00000008"])

    def test_never(self):
        result = self.go("--checkpoints.resume", "never")
        self.assertEqual(s.events(self.out, "resume"), [])
        self.assertEqual([e["step"] for e in s.events(self.out, "step")][8:], list(range(1, 16)), result)
        self.assertEqual(s.tensors_differ(s.checkpoint_tensors(s.checkpoint(self.out)), s.checkpoint_tensors(s.checkpoint(self.unbroken))), [])
        # what would start afresh each time is not what a restarted job should read
        self.assertIn("resume: auto", pathlib.Path(self.out, "job.yaml").read_text())

    def test_fewer_steps_than_done(self):
        self.go()
        before = pathlib.Path(self.out, "job.yaml").read_text()
        result = self.go("--train.max_steps", 2)
        self.assertIn("fewer steps", result.err)
        self.assertEqual(pathlib.Path(self.out, "job.yaml").read_text(), before)

    def test_never_then_stopped(self):
        result = self.go("--checkpoints.resume", "never", "--train.max_time", 0.001, rc=75)
        self.assertIn("checkpoints.resume: auto", result.err)

    def test_empty_or_missing_directory_is_a_fresh_start(self):
        shutil.rmtree(f"{self.out}/checkpoints")
        os.makedirs(f"{self.out}/checkpoints")
        self.assertRegex(self.go().err, "tells of one of step [1-9][0-9]*: a fresh start")
        self.assertEqual(s.events(self.out, "resume"), [])
        self.assertEqual(s.tensors_differ(s.checkpoint_tensors(s.checkpoint(self.out)), s.checkpoint_tensors(s.checkpoint(self.unbroken))), [])

    def test_finished_without_its_checkpoints(self):
        """Never trained over: not where the folder is gone, empty, elsewhere, or nothing but links."""
        def gone():
            shutil.rmtree(f"{self.out}/checkpoints")
        def empty():
            gone()
            os.makedirs(f"{self.out}/checkpoints")
        def links():
            empty()
            os.symlink("step-00000006", f"{self.out}/checkpoints/latest")
        elsewhere = ("--checkpoints.dir", self.path("elsewhere"))
        for breaks, more in ((gone, ()), (empty, ()), (links, ()), (lambda: None, elsewhere)):
            shutil.rmtree(self.out, ignore_errors=True)
            shutil.copytree(self.unbroken, self.out, symlinks=True)
            breaks()
            before = r.tree(self.out)
            for ranks, flags in ((0, ()), (2, ()), (0, ("--dry-run",))):
                result = s.run("run", self.job, "--out", self.out, *more, *flags, ranks=ranks)
                self.assertRefused(result, 65, "holds no checkpoint", "ended at step", "checkpoints.resume: never", "another out")
                self.assertIn(more[1] if more else f"{self.out}/checkpoints", result.err)
            self.assertEqual(r.tree(self.out), before)
            self.assertFalse(os.path.exists(self.path("elsewhere")), "nor is an empty folder made")
        self.go(*elsewhere, "--checkpoints.resume", "never")
        self.go(*elsewhere)


class Failing(Resume):
    def test_checkpoints_that_cannot_be_written(self):
        """74 with a stop event; what was there stays."""
        for ranks in (0, 2):
            with self.subTest(ranks=ranks):
                shutil.rmtree(self.out, ignore_errors=True)
                self.slow()
                process = s.start("run", self.job, "--out", self.out, ranks=ranks)
                self.addCleanup(self.end, process)
                self.assertTrue(s.wait_for(s.step_reached(self.out, 6), process))
                os.rename(f"{self.out}/checkpoints", self.path(f"away{ranks}"))
                with open(f"{self.out}/checkpoints", "wb"):
                    pass
                result = s.finish(process)
                self.assertExit(result, 74, "checkpoints")
                stop, = s.events(self.out, "stop")
                self.assertEqual((stop["reason"], stop["exit"]), ("error", 74))

    def test_file_size_limit(self):
        """A limit of the system is an I/O error like a full disk: earlier checkpoints stay intact."""
        self.cut(8)
        limit = ("sh", "-c", 'ulimit -f 500; exec "$0" "$@"')
        result = s.run("run", self.job, "--out", self.out, before=limit)
        self.assertExit(result, 74, "step-")
        self.assertEqual(s.events(self.out, "stop")[-1]["exit"], 74)
        self.go()
        self.assertSame()


class Owner(Resume):
    def test_second_run_is_refused(self):
        self.slow()
        process = s.start("run", self.job, "--out", self.out)
        self.addCleanup(self.end, process)
        self.assertTrue(s.wait_for(s.step_reached(self.out, 2), process))
        second = s.run("run", self.job, "--out", self.out)
        self.assertRefused(second, 75, socket.gethostname(), str(process.pid))
        self.assertIsNone(process.poll(), "the first goes on")
        process.send_signal(signal.SIGTERM)
        self.assertExit(s.finish(process), 75)

    def test_a_dead_owner_does_not_matter(self):
        self.slow()
        process = s.start("run", self.job, "--out", self.out)
        self.addCleanup(self.end, process)
        self.assertTrue(s.wait_for(s.step_reached(self.out, 5), process))
        process.kill()
        s.finish(process)
        self.assertTrue(os.path.exists(f"{self.out}/.owner"))
        self.go("--train.max_steps", 8)

    def test_two_started_at_once(self):
        self.slow()
        processes = [s.start("run", self.job, "--out", self.out, "--train.epochs", 8) for _ in range(3)]
        for process in processes:
            self.addCleanup(self.end, process)
        codes = sorted(s.finish(p).rc for p in processes)
        self.assertEqual(codes.count(0) >= 1 and set(codes) <= {0, 75}, True, codes)
        self.assertEqual(sorted(s.steps(self.out)), list(range(1, 41)))
        self.assertEqual(len(s.events(self.out, "start")), 1)


if __name__ == "__main__":
    s.main()
