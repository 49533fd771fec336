# SPDX-License-Identifier: Apache-2.0
"""Stop signals at every point of a run's life: 75, nothing lost, and the run that is gone on with is the unbroken one."""
import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import time

import resume_support as r
import support as s


def catches(pid, sign):
    """Whether the process has a handler of that signal, by /proc; False for what is not the program yet."""
    with contextlib.suppress(OSError, AttributeError):
        if not os.path.samefile(os.readlink(f"/proc/{pid}/exe"), s.BINARY):
            return False
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            mask = int(re.search(r"SigCgt:\s*([0-9a-f]+)", file.read()).group(1), 16)
        return bool(mask >> (sign - 1) & 1)
    return False


def ranks(process, n):
    """Process ids of the ranks that have begun, whatever the order."""
    return [pid for pid in r.session(process.pid) if pid != process.pid and os.path.exists(f"/proc/{pid}/exe") and
            os.path.basename(os.readlink(f"/proc/{pid}/exe")) == os.path.basename(s.BINARY)][:n]


class Signals(r.Runs):
    """Fifteen steps; evaluations that take a while: val and test are much larger than train."""

    rows = (38, 700, 400)
    keys = {**r.Runs.keys, "checkpoints__every": 4}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.yaml = s.job_write(os.path.join(cls.root, "job.yaml"), cls.data, "o", **cls.keys)
        cls.whole = os.path.join(cls.root, "whole")
        result = s.run("run", cls.yaml, "--out", cls.whole)
        if result.rc:
            raise AssertionError(str(result))

    def signal_when(self, ready, sign, n=0, rank=0, more=(), arguments=(), delay=0.0, to_launcher=False):
        """Starts, waits until ready() and sends; the Result. None if the run was at its end before that."""
        process = self.begin(self.yaml, *arguments, ranks=n)
        found = s.wait_for(ready if callable(ready) else lambda: ready, process)
        time.sleep(delay)
        if found and process.poll() is None:
            pid = process.pid if not n or to_launcher else s.ranks_of(process, n)[rank]
            for one in (sign, *more):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, one)
                time.sleep(0.002)
        result = s.finish(process)
        return result if found and result.rc else None

    def stopped(self, name, attempt, tries=6):
        """attempt() until it stopped the run (a busy machine may be late); a fresh folder each time."""
        for _ in range(tries):
            shutil.rmtree(self.out, ignore_errors=True)
            result = attempt()
            if result is not None:
                return result
        return self.fail(f"{name}: the run was always at its end before the signal")

    def events_of(self, event, **keys):
        return lambda: any(all(e.get(k) == v for k, v in keys.items()) for e in s.events(self.out, event))

    def go_on(self, *arguments, **options):
        result = self.train(self.yaml, "--out", self.out, *arguments, **options)
        self.assertSameEnd(self.whole)
        self.assertEqual(r.left_over(self.out), [])
        return result


class Early(Signals):
    def test_as_soon_as_it_can_be_caught(self):
        """Handlers stand before the program does anything: alone, and each rank of two; nothing has begun then."""
        for sign in (signal.SIGUSR1, signal.SIGTERM):
            with self.subTest(sign=sign.name):
                process = self.begin(self.yaml)
                self.assertTrue(s.wait_for(lambda: catches(process.pid, sign), process))
                process.send_signal(sign)
                self.assertExit(s.finish(process), 75, sign.name)
                self.assertFalse(os.path.exists(f"{self.out}/events.jsonl") and s.events(self.out, "step"))
        for rank in (0, 1):
            with self.subTest(rank=rank):
                process = self.begin(self.yaml, ranks=2)
                found = lambda: [pid for pid in ranks(process, 2) if catches(pid, signal.SIGUSR1)]
                self.assertTrue(s.wait_for(lambda: len(found()) == 2, process))
                os.kill(sorted(found())[rank], signal.SIGUSR1)
                self.assertExit(s.finish(process), 75, "SIGUSR1")
        self.go_on()

    def test_in_the_first_second(self):
        """At seeded moments, of a fresh run and of one that goes on: 75, or killed where the program had not begun."""
        moments = random.Random(3)
        for begun in (False, True):
            shutil.rmtree(self.out, ignore_errors=True)
            if begun:
                self.train(self.yaml, "--out", self.out, "--train.max_time", 1e-6, rc=75)
            for _ in range(5):
                process = self.begin(self.yaml, ranks=0)
                time.sleep(moments.random() * 0.15)
                process.send_signal(signal.SIGUSR1)
                self.assertIn(s.finish(process).rc, (75, -signal.SIGUSR1, 0))
            self.go_on()

    def test_through_mpirun(self):
        """SIGUSR1 to mpirun, which passes it on, once its ranks are there."""
        process = self.begin(self.yaml, ranks=2)
        self.assertTrue(s.wait_for(lambda: len([p for p in ranks(process, 2) if catches(p, signal.SIGUSR1)]) == 2, process))
        process.send_signal(signal.SIGUSR1)
        result = s.finish(process)
        self.assertExit(result, 75)
        self.go_on(ranks=2)

    def test_mpiruns_own(self):
        """Those that mpirun keeps for itself (Ctrl-C): SIGTERM to its ranks, which have a second to save; it ends with 1."""
        saved, longer = 0, ("--train.epochs", 500)
        for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(sign=sign.name):
                shutil.rmtree(self.out, ignore_errors=True)
                result = self.signal_when(s.step_reached(self.out, 2), sign, n=2, to_launcher=True, arguments=longer)
                self.assertExit(result, 1)
                saved += any(e.get("signal") == "SIGTERM" for e in s.events(self.out, "stop", killed=True))
                self.train(self.yaml, "--out", self.out, *longer, "--train.max_time", 0.001, rc=75, ranks=2)
                self.assertGreater(s.events(self.out, "resume")[-1]["step"], 0)
        self.assertGreater(saved, 0, "no rank had its second")

    def test_hang_up(self):
        result = self.stopped("hang-up", lambda: self.signal_when(s.step_reached(self.out, 2), signal.SIGHUP))
        self.assertExit(result, 75, "SIGHUP")
        self.go_on()

    def test_hang_up_under_nohup(self):
        process = self.begin(self.yaml, before=("nohup",))
        self.assertTrue(s.wait_for(s.step_reached(self.out, 2), process))
        process.send_signal(signal.SIGHUP)
        self.assertExit(s.finish(process), 0)
        self.assertSameEnd(self.whole)


class Evaluations(Signals):
    """Given up between two rounds; the next start evaluates first."""

    def check(self, n=0, rank=0):
        """In the evaluation at the end of epoch 2, step 10."""
        attempt = lambda: self.given_up(10, n, rank)
        result = self.stopped("evaluation", attempt)
        self.assertExit(result, 75, "SIGTERM", "after step 10")
        self.assertEqual([e["step"] for e in s.events(self.out, "eval")], [5])
        state = s.checkpoint_attributes(s.checkpoint(self.out))
        self.assertEqual((state["step"], state["evaluation_due"]), (10, 1))
        # stopped again as soon as it has begun with it
        again = self.begin(self.yaml, ranks=n)
        if s.wait_for(lambda: len(s.events(self.out, "start")) == 2, again):
            with contextlib.suppress(ProcessLookupError):
                os.kill(s.ranks_of(again, n)[rank] if n else again.pid, signal.SIGTERM)
        self.assertIn(s.finish(again).rc, (0, 75))
        self.go_on(ranks=n)
        kinds = [e["event"] for e in s.events(self.out) if e["event"] in ("step", "eval")]
        self.assertEqual(kinds.count("eval"), 4)
        self.assertEqual(s.checkpoint_attributes(s.checkpoint(self.out))["evaluation_due"], 0)

    def given_up(self, step, n=0, rank=0, sign=signal.SIGTERM):
        result = self.signal_when(s.step_reached(self.out, step), sign, n, rank)
        if result is None or result.rc != 75 or s.events(self.out, "stop")[-1]["step"] != step or \
                any(e["step"] == step for e in s.events(self.out, "eval")):
            return None
        return result

    def test_one_rank(self):
        self.check()

    def test_rank_1_of_two(self):
        self.check(2, 1)

    def test_two_signals_to_rank_1(self):
        """SIGTERM then SIGUSR1 to a rank that is not 0: one stop."""
        result = self.stopped("two signals", lambda: self.signal_when(s.step_reached(self.out, 6), signal.SIGTERM, 2, 1, (signal.SIGUSR1,)))
        self.assertExit(result, 75, "SIGTERM")
        stop, = s.events(self.out, "stop")
        self.assertEqual((stop["reason"], stop["signal"], stop["exit"]), ("signal", "SIGTERM", 75))
        self.go_on()

    def test_last_step(self):
        """The evaluation of the last step, on which the end of the run hangs."""
        result = self.stopped("last step", lambda: self.given_up(15))
        self.assertExit(result, 75, "after step 15")
        self.go_on()

    def test_early_stopping(self):
        """The evaluation that would have ended the run is given up; made anew, it ends it."""
        whole, yaml = self.whole, self.yaml
        try:
            self.yaml = self.job(train__epochs=20, train__lr=1e-9, train__early_stopping=1)
            self.whole = self.unbroken(self.yaml)
            self.assertEqual(s.events(self.whole, "end")[0]["step"], 10)
            self.stopped("early stopping", lambda: self.given_up(10))
            self.go_on()
        finally:
            self.whole, self.yaml = whole, yaml

    def test_a_checkpoint_of_format_1(self):
        """Written before there was such a mark: read as not due."""
        tool = os.path.join(s.BUILD, "tests", "checkpoint_edit")
        if not os.path.exists(tool):
            s.skip("tests/checkpoint_edit is not built")
        self.cut(self.whole, 8)
        done = subprocess.run([tool, s.checkpoint(self.out, 8), "evaluation_due=", "format=1"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertExit(s.run("inspect", "--verify", s.checkpoint(self.out, 8)), 0)
        state = s.checkpoint_attributes(s.checkpoint(self.out, 8))
        self.assertEqual((state["format"], "evaluation_due" in state), (1, False))
        self.go_on()
        self.assertEqual(s.events(self.out, "resume")[0]["step"], 8)


class Ends(Signals):
    """During a save, the last scores, the exports."""

    def test_save(self):
        seen = lambda: any(n.startswith(".tmp-step") for n in os.listdir(f"{self.out}/checkpoints"))
        result = self.stopped("save", lambda: self.signal_when(seen, signal.SIGTERM))
        self.assertExit(result, 75)
        self.assertEqual(s.checkpoint_names(self.out)[-1], f"step-{s.events(self.out, 'stop')[-1]['step']:08d}")
        self.go_on()

    def test_score(self):
        """Between the last checkpoint and the first export: the best model is being scored."""
        def attempt():
            result = self.signal_when(self.events_of("checkpoint", step=15), signal.SIGTERM)
            return result if result and not s.events(self.out, "export") else None

        result = self.stopped("score", attempt)
        self.assertExit(result, 75, "SIGTERM")
        self.go_on()

    def test_export(self):
        """What was made stays as it is; the next start makes the rest."""
        for n in (0, 2):
            with self.subTest(ranks=n):
                seen = self.events_of("export", kind="model")
                arguments = ("--export.to", "sagemaker,hf")

                def attempt():
                    result = self.signal_when(seen, signal.SIGUSR1, n, n - 1, arguments=arguments)
                    return result if result and len(s.events(self.out, "export")) < 3 else None

                result = self.stopped("export", attempt)
                self.assertExit(result, 75, "before all was exported")
                self.assertEqual(s.events(self.out)[-1]["event"], "stop")
                made = [(e["kind"], e["path"]) for e in s.events(self.out, "export")]
                before = {path: os.stat(path).st_mtime_ns for _, path in made}
                self.train(self.yaml, "--out", self.out, *arguments)
                self.assertEqual([e["kind"] for e in s.events(self.out, "export")], ["model", "hf", "sagemaker"])
                self.assertEqual({path: os.stat(path).st_mtime_ns for path in before}, before)
                self.assertSameEnd(self.whole)
                self.assertEqual(s.events(self.out)[-1]["event"], "end")
                again = self.train(self.yaml, "--out", self.out, *arguments, "--log.level", "info")
                self.assertIn("already complete", again.err)

    def test_second_interrupt(self):
        """The first waits for the step, the second does not: 130, and the newest checkpoint goes on."""
        self.cut_short()

        def attempt():
            process = self.begin(self.yaml, "--model.base", "random:mini", "--train.batch", 512, "--train.parts", 4, "--data.max_length", 128,
                                 "--train.epochs", 50, "--data.dir", self.long)
            self.assertTrue(s.wait_for(lambda: s.events(self.out, "start"), process))
            time.sleep(0.1)
            process.send_signal(signal.SIGINT)
            time.sleep(0.1)
            begun = time.monotonic()
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)
            result = s.finish(process, 60)
            self.assertLess(time.monotonic() - begun, 10)
            return None if result.rc == 75 else result  # the first found it between two steps

        self.assertExit(self.stopped("second interrupt", attempt), 130)
        self.assertEqual(s.events(self.out, "stop"), [])

    def cut_short(self):
        """Texts of full length, so that a step takes seconds."""
        self.long = self.path("long")
        os.makedirs(os.path.join(self.long, "emotion"))
        for split, n in (("train", 512), ("val", 8), ("test", 8)):
            s.split_write(os.path.join(self.long, "emotion"), split, [(f"{i} " + "a b c d e f g h " * 30, i % 4) for i in range(n)])
        s.mapping_write(os.path.join(self.long, "emotion"), s.LABELS)


if __name__ == "__main__":
    s.main()
