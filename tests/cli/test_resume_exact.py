# SPDX-License-Identifier: Apache-2.0
"""A run that is gone on with, from wherever, is the unbroken run: every later step, skip and eval event, every weight."""
import csv
import os
import shutil
import signal
import subprocess
import time

import resume_support as r
import support as s


class Points(r.Runs):
    """From a step inside epoch 2, an epoch's last, the first, the one before the last; in every kind of run."""

    def check(self, steps=(7, 10), env=None, ranks=0, **keys):
        job = self.job(**keys)
        unbroken = self.unbroken(job, env=env, ranks=ranks)
        for step in steps:
            with self.subTest(step=step, **keys):
                self.cut(unbroken, step)
                self.train(job, "--checkpoints.every", 0, env=env, ranks=ranks)
                resume, = s.events(self.out, "resume")
                self.assertEqual((resume["step"], resume["skipped"]), (step, []))
                self.assertSameEnd(unbroken)
        return unbroken

    def test_plain(self):
        self.check((1, 7, 10, 14))

    def test_micro_batches(self):
        unbroken = self.check((7,), train__max_tokens=100, train__schedule="cosine")
        whole = self.unbroken(self.job(train__schedule="cosine"), "whole")
        self.assertEqual(s.course(unbroken), s.course(whole))  # and it was cut into micro-batches
        self.assertGreater(max(e["tokens"] for e in self.sizes(whole)), 100)

    def sizes(self, out):
        """Tokens of the global batches, from their samples."""
        data = s.file_lines(os.path.join(self.data, "emotion", "train_text.txt"))
        return [{"tokens": sum(len(data[i]) for i in e["samples"])} for e in s.events(out, "step")]

    def test_early_stopping(self):
        """It ends by what the checkpoint remembers of evaluations without gain."""
        unbroken = self.check((4, 5), train__epochs=30, train__lr=1e-9, train__eval_every=2, train__early_stopping=3)
        end = s.events(unbroken, "end")[0]
        self.assertLess(end["step"], 30 * 5, "the test needs a run that stops early")
        self.assertEqual(end["step"], end["best"]["step"] + 6)

    def test_best_from_earlier(self):
        unbroken = self.check((7, 11), train__lr=1e-9)
        self.assertEqual(s.events(unbroken, "end")[0]["best"]["step"], 5, "the test needs a best model of epoch 1")

    def test_skipped_batches(self):
        """Behind two skips, between a skip and the next step (a checkpoint of a step that was saved before it), and in front of them."""
        fault = {"FINETUNED_FAULT": "nan:rank=0,cursor=6,count=2;nan:rank=0,cursor=12"}
        unbroken = self.check((5, 6, 7, 10), env=fault)
        self.assertEqual([e["cursor"] for e in s.events(unbroken, "skip")], [6, 7, 12])
        self.assertEqual(s.checkpoint_attributes(s.checkpoint(unbroken))["cursor"], 15)
        self.assertEqual(s.events(unbroken, "end")[0]["step"], 12)

    def test_two_ranks(self):
        self.check((7,), ranks=2, train__label_smoothing=0.1, train__class_weights="balanced", train__layer_decay=0.9)

    def test_csv(self):
        folder = self.path("csv")
        os.makedirs(folder)
        for split, first, n in (("train", 0, 38), ("val", 38, 12), ("test", 50, 8)):
            with open(os.path.join(folder, f"{split}.csv"), "w", encoding="utf-8", newline="") as file:
                rows = csv.writer(file)
                rows.writerow(["label", "text"])
                rows.writerows([s.LABELS[label], text] for text, label in s.rows_make(n, first=first))
        self.check((7,), data=folder, data__format="csv", data__task="mine")

    def test_questions(self):
        folder = self.path("squad")
        os.makedirs(folder)
        for split, first, n in (("train", 0, 38), ("val", 40, 12)):
            s.json_write(os.path.join(folder, f"{split}.json"), {"version": "v2.0", "data": [{"title": "t", "paragraphs": [
                question(i) for i in range(first, first + n)]}]})
        unbroken = self.check((7, 10), data=folder, model__head="question_answering", data__format="squad", data__task="mine",
                              data__max_length=64, data__doc_stride=16)
        self.assertIn("em", s.events(unbroken, "eval")[-1])


def question(i):
    """A context of some windows and a question about it; each fourth has no answer."""
    words = s.tweet(i, i % 4).split() + ["then", "came"] + s.tweet(i + 50, (i + 1) % 4, 16).split()
    context, answer = " ".join(words), words[(3 * i) % len(words)]
    answers = [{"text": answer, "answer_start": context.index(answer)}] if i % 4 else []
    return {"context": context, "qas": [{"id": f"q{i}", "question": f"which one was number {i % 7}?", "answers": answers,
                                         "is_impossible": not answers}]}


class Stopped(r.Runs):
    """By a signal."""

    def stop(self, job, step, ranks=0, rank=0, sign=signal.SIGTERM, env=None):
        """The step after which the run stopped: `step`, or where a busy machine lets the signal come later, one behind it."""
        for _ in range(8):
            before = shutil.copytree(self.out, self.path("before"), symlinks=True) if os.path.exists(self.out) else None
            process = self.begin(job, ranks=ranks, env=env)
            s.wait_for(s.step_reached(self.out, step), process)
            if process.poll() is None:
                os.kill(s.ranks_of(process, ranks)[rank] if ranks else process.pid, sign)
            result = s.finish(process)
            if result.rc == 75 and before:
                shutil.rmtree(before)
            if result.rc == 75:
                return s.events(self.out, "stop")[-1]["step"]
            self.assertExit(result, 0)
            shutil.rmtree(self.out)
            if before:
                os.rename(before, self.out)
        return self.fail("eight times the run ended before the signal came")

    def test_worlds(self):
        """4 ranks, then 1, then 2: the bits of an unbroken run on one rank."""
        job = self.job(train__epochs=8, checkpoints__every=0)
        unbroken = self.unbroken(job)
        steps = [self.stop(job, 2, ranks=4, rank=3), self.stop(job, 12)]
        self.train(job, ranks=2)
        self.assertEqual([e["step"] for e in s.events(self.out, "resume")], steps)
        self.assertEqual([e["world"] for e in s.events(self.out, "start")], [4, 1, 2])
        self.assertSameEnd(unbroken)

    def test_world_of_three(self):
        """No power of two: the same samples and learning rates step by step, the loss within 1e-4."""
        job = self.job(train__lr=1e-4)
        unbroken = self.unbroken(job)
        self.cut(unbroken, 4)
        self.train(job, "--train.max_time", 0.0001, ranks=3, rc=75)
        self.train(job, ranks=3)
        self.assertEqual([e["world"] for e in s.events(self.out, "start")], [1, 3, 3])
        mine, theirs = s.steps(self.out), s.steps(unbroken)
        self.assertEqual(sorted(mine), list(range(1, 16)))
        for step, event in mine.items():
            for key in ("samples", "lr", "epoch"):
                self.assertEqual(event[key], theirs[step][key])
            self.assertAlmostEqual(event["loss"], theirs[step]["loss"], delta=1e-4)

    def test_time_after_time(self):
        """train.max_time ends each start after one step."""
        job = self.job(train__epochs=1, checkpoints__every=0)
        unbroken = self.unbroken(job)
        for step in range(1, 5):
            self.train(job, "--train.max_time", 1e-6, rc=75)
            self.assertEqual(s.events(self.out, "stop")[-1]["step"], step)
        self.train(job)
        self.assertSameEnd(unbroken)


class Long(r.Runs):
    def test_step_600000(self):
        """Nothing is replayed: the first new step comes within 10 s, also where the plan is walked for micro-batches, in full or in part."""
        tool = os.path.join(s.BUILD, "tests", "checkpoint_edit")
        if not os.path.exists(tool):
            s.skip("tests/checkpoint_edit is not built")
        kinds = {"plain": {}, "cosine": {"train__schedule": "cosine", "train__warmup": 0.1}, "micro": {"train__max_tokens": 100},
                 "bounded": {"train__max_tokens": 200, "train__epochs": 1000000}, "partly": {"train__max_tokens": 100, "train__epochs": 1000000}}
        for name, keys in kinds.items():
            with self.subTest(name):
                job = self.job(name, **{"train__epochs": 130000, **keys})
                shutil.rmtree(self.out, ignore_errors=True)
                self.train(job, "--train.max_time", 1e-6, rc=75)
                at = s.checkpoint(self.out)
                done = subprocess.run([tool, at, "step=600000", "cursor=600000", "epoch=120000", "best_step=0"],
                                      capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                os.rename(os.path.realpath(at), s.checkpoint(self.out, 600000))
                began = time.time()
                process = self.begin(job)
                self.assertTrue(s.wait_for(s.step_reached(self.out, 600001), process, 60), "no new step")
                process.send_signal(signal.SIGTERM)
                self.assertExit(s.finish(process), 75)
                resume, = s.events(self.out, "resume")
                step = s.steps(self.out)[600001]
                self.assertEqual((resume["step"], step["epoch"]), (600000, 120001))
                self.assertLess(step["time"] - began, 10)


if __name__ == "__main__":
    s.main()
