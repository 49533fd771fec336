# SPDX-License-Identifier: Apache-2.0
"""kill -9 of all ranks at seeded moments of a short run, again and again until it is done: the weights and events of the unbroken run.

FINETUNED_KILLS: how many (20; ctest's long.resume_killed: 200). FINETUNED_SEED: of the moments.
"""
import os
import random
import shutil
import subprocess
import time

import resume_support as r
import support as s

KILLS = int(os.environ.get("FINETUNED_KILLS") or 20)
SEED = int(os.environ.get("FINETUNED_SEED") or 1)


def names(folder):
    try:
        return os.listdir(folder)
    except OSError:
        return []


def has_event(out, test):
    return lambda: any(test(e) for e in s.events(out))


# What of a run has begun when the kill comes, in the order of a run; and how long after that it comes at most, s.
MOMENTS = {
    "start": (lambda out, step: lambda: True, 0.08),
    "shards": (lambda out, step: lambda: any(".shard" in n for n in names(f"{out}/shards")), 0.01),
    "ready": (lambda out, step: has_event(out, lambda e: e["event"] in ("start", "resume")), 0.01),
    "step": (lambda out, step: s.step_reached(out, step + 2), 0.01),
    "save": (lambda out, step: lambda: any(n.startswith(".tmp-step") for n in names(f"{out}/checkpoints")), 0.01),
    "saved": (lambda out, step: has_event(out, lambda e: e["event"] == "checkpoint" and e["step"] > step), 0.005),
    "evaluation": (lambda out, step: has_event(out, lambda e: e["event"] == "step" and e["step"] > step and e["step"] % 5 == 0), 0.01),
    "finish": (lambda out, step: has_event(out, lambda e: e["event"] == "checkpoint" and e["step"] == 12), 0.04),
    "model": (lambda out, step: lambda: any("model" in n for n in names(out)), 0.02),
    "export": (lambda out, step: lambda: bool(names(f"{out}/artifacts")), 0.04),
    "report": (lambda out, step: has_event(out, lambda e: e["event"] == "export" and e["kind"] == "hf"), 0.01),
}


class Killed(r.Runs):
    keys = {**r.Runs.keys, "log__level": "info"}
    fault = {"FINETUNED_FAULT": "nan:rank=0,cursor=4;nan:rank=0,cursor=8,count=2"}  # so 12 steps of 15 batches

    def environment(self):
        """Open MPI keeps its files where the test removes them: a killed mpirun removes nothing."""
        os.makedirs(self.path("mpi"), exist_ok=True)
        return {**self.fault, "TMPDIR": self.path("mpi"), "OMPI_MCA_btl_vader_backing_directory": self.path("mpi")}

    def kill(self, job, moment, ranks):
        """One start that is killed at that moment; False if it was at its end before."""
        left = r.left_over(self.out)
        step = max(s.steps(self.out, killed=True), default=0) if os.path.exists(f"{self.out}/events.jsonl") else 0
        begun, delay = MOMENTS[moment]
        with open(self.path("err"), "wb") as err:
            process = subprocess.Popen(s.command(["run", job, "--out", self.out], ranks), stdin=subprocess.DEVNULL, stdout=err, stderr=err,
                                         env=s.environment(**s.MPI_ENVIRONMENT, **self.environment()), start_new_session=True)
        self.addCleanup(lambda: process.poll() is None and r.kill_all(process))
        s.wait_for(begun(self.out, step), process)
        time.sleep(self.random.random() * delay)
        killed = process.poll() is None
        r.kill_all(process)
        with open(self.path("err"), encoding="utf-8", errors="replace") as file:
            said = file.read()
        if not killed:
            self.assertEqual(process.returncode, 0, said)
        self.check_left(left, said)
        return killed

    def check_left(self, before, said):
        """What an earlier start left and this one removed is named in its log."""
        for path in before:
            if not os.path.lexists(path) and not path.endswith(".lock"):  # a lock is used again
                self.assertIn(path, said, "removed, but not said so")

    def chain(self, job):
        """A run killed at a moment of each kind that is left of it, then left alone: how often it was killed, by moment."""
        shutil.rmtree(self.out, ignore_errors=True)
        counts = dict.fromkeys(MOMENTS, 0)
        for moment in MOMENTS:
            if self.random.random() < 0.3:
                continue
            if not self.kill(job, moment, self.random.choice((0, 0, 2))):
                break
            counts[moment] += 1
        left = r.left_over(self.out)
        result = self.train(job, env=self.environment(), ranks=self.random.choice((0, 2)))
        self.check_left(left, result.err)
        self.assertEqual(r.left_over(self.out), [])
        return counts

    def test_killed(self):
        self.random = random.Random(SEED)
        total = dict.fromkeys(MOMENTS, 0)
        jobs = {every: self.job(f"every{every}", checkpoints__every=every, checkpoints__keep=every) for every in (1, 2, 3)}
        wholes = {every: self.unbroken(job, f"unbroken{every}", env=self.environment()) for every, job in jobs.items()}
        while sum(total.values()) < KILLS:
            every = self.random.choice((1, 2, 3))
            for moment, n in self.chain(jobs[every]).items():
                total[moment] += n
            self.assertSameEnd(wholes[every])
        print(f"\n{sum(total.values())} kills, seed {SEED}: " + ", ".join(f"{m} {n}" for m, n in total.items()), flush=True)


if __name__ == "__main__":
    s.main()
