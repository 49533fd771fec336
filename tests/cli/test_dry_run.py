# SPDX-License-Identifier: Apache-2.0
"""finetuned run --dry-run: says what a run would do, refuses what it would refuse, and leaves no trace."""
import hashlib
import json
import os
import socket

import support as s


def tree(folder):
    """Everything below a folder: names, kinds, times, contents."""
    found = {}
    for at, inner, names in os.walk(folder):
        for name in inner + names:
            path = os.path.join(at, name)
            info = os.lstat(path)
            content = os.readlink(path) if os.path.islink(path) else None
            if content is None and os.path.isfile(path):
                with open(path, "rb") as file:
                    content = hashlib.sha256(file.read()).hexdigest()
            found[os.path.relpath(path, folder)] = (info.st_mode, info.st_mtime_ns, info.st_ino, content)
    return found


class DryRun(s.Case):
    def setUp(self):
        super().setUp()
        self.data, self.out, self.temporary = s.task_make(self.path("d")), self.path("o"), self.path("tmp")
        os.mkdir(self.temporary)

    def job(self, out=None, **keys):
        return s.job_write(self.path("job.yaml"), self.data, out or self.out, **keys)

    def dry(self, *arguments, rc=0, **options):
        result = s.run("run", *arguments, "--dry-run", "--json", env={"TMPDIR": self.temporary}, **options)
        self.assertExit(result, rc)
        self.assertEqual(os.listdir(self.temporary), [], "a trace is left")
        lines = [line for line in result.out.split("\n") if line]
        self.assertEqual(len(lines), 1, f"one object, from one rank: {result}")
        return json.loads(lines[0])

    def test_fresh_and_as_the_run_then_is(self):
        job = self.job(train__epochs=3, checkpoints__every=2)
        report = self.dry(job)
        self.assertFalse(os.path.exists(self.out))
        self.assertEqual((report["start"], report["step"], report["checkpoint"]), ("fresh", 0, None))
        self.assertEqual(report["steps_left"], 9)
        self.assertGreater(report["time"]["tokens_per_s"], 0)
        self.assertGreater(report["time"]["train_s"], 0)
        self.assertGreater(report["disk"]["shards"], 0)
        self.train(job)
        start = s.events(self.out, "start")[0]
        for key, event in (("steps_total", "steps_total"), ("parts", "parts"), ("parameters", "parameters"), ("threads", "threads"),
                           ("precision", "precision"), ("isa", "isa"), ("world", "world")):
            self.assertEqual(report[key], start[event], key)
        checkpoints = s.events(self.out, "checkpoint")
        self.assertEqual(report["disk"]["checkpoint"], checkpoints[-1]["bytes"])
        self.assertEqual(report["evaluations"], len({e["step"] for e in s.events(self.out, "eval") if e["split"] == "val"}))
        model = sum(os.path.getsize(os.path.join(self.out, "model", name)) for name in os.listdir(os.path.join(self.out, "model")))
        self.assertGreaterEqual(report["disk"]["model"], model)
        self.assertLess(report["disk"]["model"], model + 100000)

    def test_for_people(self):
        result = s.run("run", self.job(), "--dry-run", env={"TMPDIR": self.temporary})
        self.assertExit(result, 0)
        for word in ("fresh", "6 to go of 6", "weights", "checkpoints", "estimate", "nothing was written"):
            self.assertIn(word, result.out)
        self.assertFalse(os.path.exists(self.out))

    def test_evaluations_in_steps(self):
        job = self.job(train__epochs=3, train__eval_every=2)
        report = self.dry(job)
        self.assertEqual(report["evaluations"], 5)  # of nine steps: 2, 4, 6, 8, 9
        self.train(job)
        self.assertEqual([e["step"] for e in s.events(self.out, "eval") if e["split"] == "val"][:5], [2, 4, 6, 8, 9])

    def test_squad(self):
        folder = os.path.join(s.SOURCE, "examples", "squad")
        report = self.dry("--model.base", "random:tiny", "--model.head", "question_answering", "--data.format", "squad", "--data.dir", folder,
                          "--data.max_length", "256", "--data.doc_stride", "64", "--out", self.out, "--threads", "1")
        self.assertEqual(report["start"], "fresh")
        self.assertGreater(report["steps_left"], 0)
        self.assertFalse(os.path.exists(self.out))

    def test_the_time_limit(self):
        result = s.run("run", self.job(train__epochs=1000000, train__max_time=1), "--dry-run")
        self.assertIn("train.max_time stops it before", result.out)

    def test_resume_and_complete(self):
        job = self.job(train__epochs=3, train__max_steps=4)
        self.train(job)
        before = tree(self.out)
        report = self.dry(job, "--train.max_steps", "0")
        self.assertEqual((report["start"], report["step"], report["steps_left"]), ("resume", 4, 5))
        self.assertTrue(report["checkpoint"].endswith("step-00000004"), report)
        self.assertEqual(report["disk"]["checkpoints_there"], len(s.checkpoint_names(self.out)))
        self.assertEqual(report["disk"]["shards"], 0, "the run's shards are there")
        complete = self.dry(job)
        self.assertEqual((complete["start"], complete["steps_left"], complete["time"]), ("complete", 0, None))
        self.assertEqual(tree(self.out), before)

    def test_nothing_is_tidied(self):
        """A start would remove left-overs, set steps aside, cut a half line; asking leaves all of them."""
        job = self.job(checkpoints__every=2)
        self.train(job)
        folder = os.path.join(self.out, "checkpoints")
        os.mkdir(os.path.join(folder, ".tmp-step-00000009-0123456789abcdef"))
        with open(os.path.join(self.out, "events.jsonl"), "ab") as file:
            file.write(b'{"event": "st')
        before = tree(self.out)
        fresh = self.dry(job, "--checkpoints.resume", "never")
        self.assertEqual((fresh["start"], fresh["steps_left"]), ("fresh", 6))
        older = self.dry(job, "--checkpoints.resume", s.checkpoint(self.out, 3))
        self.assertEqual((older["start"], older["step"]), ("resume", 3))
        self.assertEqual(tree(self.out), before)

    def test_a_damaged_checkpoint_is_passed_over(self):
        job = self.job(checkpoints__every=2)
        self.train(job)
        with open(os.path.join(s.checkpoint(self.out, 6), "checkpoint.h5"), "r+b") as file:
            file.seek(50000)
            file.write(b"\x55\x55")
        before = tree(self.out)
        report = self.dry(job)
        self.assertEqual(report["step"], 4)
        self.assertEqual(tree(self.out), before)

    def test_shards_are_used_where_they_are(self):
        self.assertExit(s.run("prepare", self.job(), "--out", self.path("shards")), 0)
        before = tree(self.path("shards"))
        report = self.dry(self.job(), "--data.cache", self.path("shards"))
        self.assertEqual(report["disk"]["shards"], 0)
        self.assertEqual(tree(self.path("shards")), before)

    def test_two_ranks(self):
        report = self.dry(self.job(), ranks=2)
        self.assertEqual((report["world"], report["parts"]), (2, 4))
        self.assertEqual(report["memory"]["host"], 2 * report["memory"]["rank"])
        self.assertFalse(os.path.exists(self.out))

    def test_micro_batches(self):
        whole, cut = self.dry(self.job(train__parts=8)), self.dry(self.job(train__parts=8, train__max_tokens=80))
        self.assertEqual(whole["micro_batches"], 1)
        self.assertGreater(cut["micro_batches"], 1)
        self.assertLess(cut["micro_tokens"], 81)
        self.assertLess(cut["memory"]["activations"], whole["memory"]["activations"])

    def refused(self, *arguments, ranks=0):
        """The dry run's and the run's refusal: the same code and the same last line."""
        dry = s.run("run", *arguments, "--dry-run", ranks=ranks)
        run = s.run("run", *arguments, ranks=ranks)
        last = [[line for line in r.err.split("\n") if line.startswith("finetuned") and ": data: " not in line] for r in (dry, run)]
        self.assertEqual(dry.out, "", dry)
        self.assertEqual(dry.rc, run.rc, f"{dry}\n{run}")
        self.assertNotEqual(run.rc, 0, run)
        self.assertEqual(last[0][-1:], last[1][-1:], f"{dry}\n{run}")
        return run.rc

    def test_what_run_refuses(self):
        blocked = self.write("blocked", "a file")
        job = self.job()
        for arguments, rc in ((["--model.base", self.path("none")], 65), (["--data.dir", self.path("none")], 65),
                              (["--data.max_length", "513"], 64), (["--train.max_tokens", "10"], 64), (["--out", os.path.join(blocked, "o")], 64),
                              (["--checkpoints.dir", blocked], 64), (["--checkpoints.resume", self.path("none")], 65),
                              (["--train.lr", "fast"], 64), (["--data.truncation", "false", "--data.max_length", "5"], 65)):
            with self.subTest(arguments=arguments):
                self.assertEqual(self.refused(job, *arguments), rc)

    def test_what_run_refuses_of_a_world(self):
        self.assertEqual(self.refused(self.job(train__parts=1), ranks=2), 64)

    def test_another_job_in_the_folder(self):
        self.train(self.job())
        self.assertEqual(self.refused(self.job(), "--train.lr", "2e-3"), 65)

    def test_a_folder_in_use(self):
        os.mkdir(self.out)
        with open("/proc/self/stat", encoding="utf-8") as file:
            start = int(file.read().rpartition(")")[2].split()[19])
        with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
            boot = file.read().strip()
        s.json_write(os.path.join(self.out, ".owner"), {
            "host": socket.gethostname(), "boot_id": boot, "pid_namespace": os.readlink("/proc/self/ns/pid"), "pid": os.getpid(),
            "start_time": start, "started": "2025-01-31T12:00:00Z", "token": "0" * 32, "heartbeat": "0" * 16})
        before = tree(self.out)
        self.assertEqual(self.refused(self.job()), 75)
        self.assertEqual(tree(self.out), before)

    def test_too_little_room(self):
        """A million checkpoints of 170 MB: no disk has that."""
        result = s.run("run", self.job(model__base="random:mini", train__epochs=1000000, checkpoints__keep=1000000), "--dry-run")
        self.assertExit(result, 74, "checkpoints.keep", "is free")
        self.assertIn("TOO LITTLE", result.out)

    def test_json_alone(self):
        self.assertRefused(s.run("run", self.job(), "--json"), 64, "--dry-run")


if __name__ == "__main__":
    s.main()
