# SPDX-License-Identifier: Apache-2.0
"""A rank of several is killed, stopped, hangs, is slow, or gets wrong bytes: the job ends in time with a line that says so, or waits;
nothing is left behind; and the next start ends with the weights of a run that was never broken."""
import contextlib
import glob
import os
import random
import shutil
import signal
import socket
import sys
import time

import support as s

TIMEOUT = 3  # s, comm.timeout
SLACK = 10  # s, what the design allows on top


def fault(text):
    return {"FINETUNED_FAULT": text}


class LostCase(s.Case):
    """24 texts in batches of 8: three steps an epoch, two epochs; each ends with an evaluation and a checkpoint."""

    def setUp(self):
        super().setUp()
        self.data = s.task_make(self.path("d"), rows=(24, 8, 8))
        self.out = self.path("o")

    def arguments(self, out, *more):
        return ["run", "--model.base", "random:tiny", "--data.dir", self.data, "--data.task", "emotion", "--data.max_length", 40,
                "--threads", 1, "--train.batch", 8, "--train.parts", 4, "--train.epochs", 2, "--train.lr", 1e-3, "--log.every", 1,
                "--log.level", "warn", "--log.tensorboard", "false", "--data.cache", self.path("shards"), "--comm.timeout", TIMEOUT,
                "--out", out, *more]

    def start(self, text, ranks=4, *more, out=None):
        process = s.start(*self.arguments(out or self.out, *more), ranks=ranks, env=fault(text))
        self.pids = s.ranks_of(process, ranks)
        self.addCleanup(self.end, process, self.pids)
        with open(f"/proc/{self.pids[0]}/environ", "rb") as file:
            self.job = [int(e.partition(b"=")[2]) for e in file.read().split(b"\0") if e.startswith(b"PMIX_NAMESPACE=")]
        return process

    def end(self, process, pids):
        for pid in [process.pid, *pids]:
            if s.alive(pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        process.wait()

    def finish(self, process, rank=None, states="ZX"):
        """Waits for the end; from when `rank` was in one of `states`, if one is given, it is in time."""
        if rank is not None:
            self.assertTrue(s.wait_for(lambda: s.process_state(self.pids[rank]) in states or process.poll() is not None, timeout=60))
        begun = time.monotonic()
        result = s.finish(process, 60 + TIMEOUT)
        if rank is not None:
            self.assertLess(time.monotonic() - begun, TIMEOUT + SLACK, result)
        return result

    def nothing_left(self, process):
        """No process, no segment of shared memory, no folder of this job's session."""
        self.assertTrue(s.wait_for(lambda: not any(s.alive(pid) for pid in self.pids), timeout=15), "no process is left")
        left = lambda: [p for job in self.job for p in glob.glob("/dev/shm/*") if f"{job:x}" in os.path.basename(p)]
        self.assertTrue(s.wait_for(lambda: not left(), timeout=15), left())
        root = os.environ.get("TMPDIR", "/tmp")
        self.assertEqual(glob.glob(os.path.join(root, f"ompi.*/pid.{process.pid}")), [])

    def said(self, result, rank, *words, one=True):
        """Our one line names rank and host."""
        lines = [line for line in result.err.split("\n") if "all ranks end" in line]
        self.assertEqual(len(lines), 1, result) if one else self.assertTrue(lines, result)
        for word in (f"rank {rank} ({socket.gethostname()})", "exit 75", *words):
            self.assertIn(word, lines[0])

    def stopped(self, reason, rank, by=0, **keys):
        """The stop event, by rank 0 or another."""
        event = s.events(self.out, "stop", "events.jsonl" if by == 0 else f"events.rank-{by}.jsonl")[-1]
        self.assertEqual((event["reason"], event["exit"], event["rank"], event["host"]), (reason, 75, rank, socket.gethostname()))
        self.assertIsInstance(event["operation"], str)
        for key, value in keys.items():
            self.assertEqual(event[key], value)

    def go_on(self, resumed, ranks=0):
        """The next start (alone: the bits are the same): to the end, with the weights of an unbroken run. `resumed`: the steps it may go on
        from; 0: it begins afresh, a save that was due may not have been committed yet."""
        whole = self.path("whole")
        if not os.path.isdir(whole):
            result = s.run(*self.arguments(whole))
            self.assertExit(result, 0)
        result = s.run(*self.arguments(self.out), ranks=ranks)
        self.assertExit(result, 0)
        events = s.events(self.out, "resume")
        self.assertIn(events[-1]["step"] if events else 0, resumed)
        for group in ("model", "optimizer"):
            self.assertEqual(s.tensors_differ(s.checkpoint_tensors(s.checkpoint(self.out), group),
                                              s.checkpoint_tensors(s.checkpoint(whole), group)), [])
        self.assertEqual(s.course(self.out), s.course(whole))
        with open(os.path.join(self.out, "model", "model.safetensors"), "rb") as one, \
             open(os.path.join(whole, "model", "model.safetensors"), "rb") as two:
            self.assertEqual(one.read(), two.read())
        for folder, folders, names in os.walk(self.out):
            self.assertEqual([n for n in folders + names if ".tmp-" in n], [], folder)
        return events[-1]["previous"] if events else None


class Killed(LostCase):
    """kill -9 of one rank: mpirun's 137 or our 75; the rank is named by our line, or by mpirun where that is quicker."""

    def check(self, text, rank, resumed, ranks=4, then=0):
        process = self.start(text, ranks)
        result = self.finish(process, rank)
        self.assertIn(result.rc, (75, 137), result)
        self.nothing_left(process)
        self.assertTrue(f"rank {rank} (" in result.err or f"process rank {rank} " in result.err, result)
        previous = self.go_on(resumed, then)
        if previous:
            self.assertIn(previous["ended"], ("stop: peer_lost", "no stop event"))
            if previous["ended"] == "stop: peer_lost":
                # where mpirun was quicker, a rank that it ended may be what another one missed first
                ours = f"rank {rank} (" in result.err
                self.assertIn(previous["rank"], (rank,) if ours else range(ranks))
                self.assertEqual(previous["host"], socket.gethostname())
                self.assertIn("operation", previous)

    def test_in_mid_step(self):
        self.check("kill:rank=2,at=backward,step=4", 2, (0, 3), then=4)

    def test_in_a_collective(self):
        self.check("kill:rank=1,call=66,of=exchange", 1, (0, 3))

    def test_rank_0_in_a_collective(self):
        self.check("kill:rank=0,at=sum of gradients,step=5", 0, (0, 3))

    def test_in_a_save(self):
        self.check("kill:rank=3,at=checkpoint,step=6", 3, (0, 3))

    def test_in_the_first_save(self):
        self.check("kill:rank=0,at=checkpoint,step=3", 0, (0,))

    def test_while_a_writer_writes(self):
        self.check("kill:rank=1,at=checkpoint write,call=2", 1, (0, 3))

    def test_in_evaluation(self):
        self.check("kill:rank=2,at=evaluation,step=6", 2, (0, 3))

    def test_in_export(self):
        self.check("kill:rank=0,at=export", 0, (6,))

    def test_while_rank_0_exports(self):
        self.check("kill:rank=1,at=export;delay:rank=0,at=export,ms=1500", 1, (6,), ranks=2)

    def test_before_the_watch_stands(self):
        process = self.start("kill:rank=1,call=1")
        self.assertIn(self.finish(process, 1).rc, (75, 137))
        self.nothing_left(process)


class Stuck(LostCase):
    """SIGSTOP, or a rank that hangs: 75, and our line."""

    def check(self, text, rank, words, *, by=0, states="T", ranks=4, **keys):
        process = self.start(text, ranks)
        result = self.finish(process, rank if states else None, states)
        self.assertEqual(result.rc, 75, result)
        self.said(result, rank, *words)
        self.stopped("timeout", rank, by, **keys)
        self.nothing_left(process)

    def test_stopped(self):
        self.check("stop:rank=2,at=forward,step=4", 2, ("has not answered for 3 s", "after step 4"), step=4)
        previous = self.go_on((0, 3))
        if previous:
            self.assertEqual((previous["ended"], previous["rank"]), ("stop: timeout", 2))

    def test_rank_0_stopped(self):
        self.check("stop:rank=0,at=forward,step=4", 0, ("has not answered for 3 s", "after step 4"), by=1, step=4)
        previous = self.go_on((0, 3))
        if previous:
            self.assertEqual((previous["ended"], previous["rank"]), ("stop: timeout", 0))

    def test_one_of_two_stopped_in_a_save(self):
        self.check("stop:rank=1,at=checkpoint,step=3", 1, ("has not answered for 3 s",), ranks=2)
        self.go_on((0,))

    def test_hangs_in_a_write(self):
        """The thread that writes a checkpoint in the background."""
        self.check("hang:rank=1,at=checkpoint write,call=2", 1, ("has made no progress for 3 s, in checkpoint write after step 6",),
                   states=None, operation="checkpoint write", step=6)
        self.go_on((0, 3))

    def test_rank_0_hangs(self):
        self.check("hang:rank=0,at=backward,step=2", 0, ("has made no progress for 3 s, in backward after step 2",), states=None,
                   operation="backward", step=2)

    def test_before_the_watch_stands(self):
        process = self.start("stop:rank=1,call=1", 2)
        result = self.finish(process, 1, "T")
        self.assertExit(result, 75, "another rank has not come")
        self.nothing_left(process)

    def test_a_stop_that_ends_in_time(self):
        """A laptop that was closed for a moment: a rank that is continued within comm.timeout goes on."""
        process = self.start("stop:rank=1,at=forward,step=2", 2)
        self.assertTrue(s.wait_for(lambda: s.process_state(self.pids[1]) == "T", process))
        time.sleep(0.5)
        os.kill(self.pids[1], signal.SIGCONT)
        self.assertExit(self.finish(process), 0)


class Slow(LostCase):
    def test_logged_and_waited_for(self):
        """One rank takes a second a step, the others some ms."""
        result = s.run(*self.arguments(self.out, "--comm.timeout", 2), ranks=4, env=fault("delay:rank=2,at=forward,ms=250,count=1000"))
        self.assertExit(result, 0, "rank 2 (", "is slow: others have waited")
        self.assertEqual([line for line in result.err.split("\n") if "is slow" in line and "rank 2 (" not in line], [])
        self.assertEqual(max(s.steps(self.out)), 6)

    def test_alone_at_work(self):
        """Where one rank works and the others wait, nobody is slow, and long is not stuck."""
        result = s.run(*self.arguments(self.out, "--comm.timeout", 1), ranks=2, env=fault("delay:rank=0,at=export,ms=3000"))
        self.assertExit(result, 0)
        self.assertNotIn("slow", result.err)


class Wrong(LostCase):
    def test_a_call_fails(self):
        process = self.start("fail:rank=2,call=66,of=exchange")
        result = self.finish(process)
        self.assertExit(result, 75, "rank 2", "call 66", "FINETUNED_FAULT")
        self.nothing_left(process)
        self.go_on((0, 3))

    def test_a_call_fails_outside_of_a_step(self):
        """In an evaluation, where a status could be agreed upon if it were not that of a lost peer."""
        process = self.start("fail:rank=1,call=1,of=barrier;fail:rank=1,call=30,of=all_gather", 2)
        result = self.finish(process)
        self.assertExit(result, 75, "rank 1", "FINETUNED_FAULT")
        self.nothing_left(process)

    def test_corrupted_gradients(self):
        """One bit of a sum on its way to one rank: the norms differ, the run ends before anything is saved."""
        process = self.start("corrupt:rank=3,call=4,of=exchange,bit=29")
        result = self.finish(process)
        self.assertExit(result, 75, "another loss or gradient norm than rank 0")
        self.assertEqual(s.events(self.out, "stop")[-1]["reason"], "error")
        self.nothing_left(process)
        self.go_on((0,))

    def test_corrupted_a_little(self):
        """The lowest bit of one number: where the norm does not show it, the next save does, before it is one."""
        process = self.start("corrupt:rank=1,call=4,of=exchange,bit=0", 2)
        result = self.finish(process)
        self.assertExit(result, 75, "rank 1 has another", "a message was corrupted on its way")
        self.assertFalse(os.path.exists(os.path.join(self.out, "checkpoints")), "nothing was saved: the folder goes, too")

    def test_refused(self):
        for text, word in (("kill:rank=9,call=1", "world of 1"), ("kill:rank=0", "call or at"), ("stop:rank=0,at=lunch", "a value")):
            result = s.run(*self.arguments(self.out), env=fault(text))
            self.assertRefused(result, 64, "FINETUNED_FAULT", word)


class Random(LostCase):
    """A rank of four is killed or stopped at a random moment of a run, FINETUNED_LOSSES times; each time the next start ends as it should."""

    def slow(self):
        """A run with its first step about to begin."""
        process = self.start("delay:rank=0,at=forward,ms=20,count=9999")
        self.assertTrue(s.wait_for(lambda: s.events(self.out, "start"), process))
        return process

    def past_its_end(self, process, rank):
        """A rank that is stopped when MPI has ended, on its way out, is mpirun's alone: all the run's work is done, and nobody of ours is left to notice."""
        if s.wait_for(lambda: process.poll() is not None, timeout=TIMEOUT + 2) or s.process_state(self.pids[rank]) != "T":
            return
        if s.events(self.out, "end") and not any(s.alive(pid) for pid in self.pids if pid != self.pids[rank]):
            os.kill(self.pids[rank], signal.SIGCONT)

    def test_any_moment(self):
        draw = random.Random(int(os.environ.get("FINETUNED_SEED", "5")))
        count, ends = int(os.environ.get("FINETUNED_LOSSES", "1")), {}
        process = self.slow()
        begun = time.monotonic()
        self.assertExit(self.finish(process), 0)
        whole = time.monotonic() - begun
        for number in range(count):
            shutil.rmtree(self.out)
            kind, rank, moment = draw.choice(("KILL", "STOP")), draw.randrange(4), draw.uniform(0, 0.8) * whole
            with self.subTest(number=number, kind=kind, rank=rank, moment=moment):
                process = self.slow()
                with contextlib.suppress(Exception):
                    process.wait(moment)
                if s.alive(self.pids[rank]):
                    os.kill(self.pids[rank], getattr(signal, f"SIG{kind}"))
                begun = time.monotonic()
                self.past_its_end(process, rank)
                result = s.finish(process, 60 + TIMEOUT)
                self.assertLess(time.monotonic() - begun, TIMEOUT + 5 + SLACK, result)
                self.assertIn(result.rc, (0, 75, 137) if kind == "KILL" else (0, 75), result)
                ends[kind, result.rc] = ends.get((kind, result.rc), 0) + 1
                self.nothing_left(process)
                self.go_on((0, 3, 6))
        print(f"{count} losses: {ends}")


FEW = ("Killed.test_in_mid_step", "Killed.test_in_a_save", "Killed.test_in_export", "Stuck.test_rank_0_stopped", "Stuck.test_hangs_in_a_write",
       "Slow.test_logged_and_waited_for", "Wrong.test_a_call_fails", "Wrong.test_corrupted_gradients", "Wrong.test_refused")

if __name__ == "__main__":
    sys.argv += FEW if os.environ.get("FINETUNED_FEW") else ()
    s.main()
