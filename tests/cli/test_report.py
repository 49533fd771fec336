# SPDX-License-Identifier: Apache-2.0
"""report.json and report.md: best and last model, timings, memory, provenance, settings, history; made again where they are missing.
And the verb report: one run, one that has not ended, two side by side."""
import os
import re
import shutil
import signal
import time

import support as s

SPLIT_KEYS = ["examples", "loss", "official", "accuracy", "macro_f1", "macro_recall", "per_class", "confusion"]


def markdown_tables(text):
    """{heading: rows} of the tables; a row is its cells."""
    found, heading = {}, ""
    for line in text.split("\n"):
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif line.startswith("|") and not line.startswith("| ---"):
            found.setdefault(heading, []).append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return found


class Report(s.Case):
    """A run whose best model is not its last: it learns next to nothing, and of equal scores the earlier is the best."""

    @classmethod
    def setUpClass(cls):
        cls.root = s.tempfile.mkdtemp(prefix="finetuned-test-")
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        cls.data, cls.out = s.task_make(os.path.join(cls.root, "d"), rows=(26, 12, 14)), os.path.join(cls.root, "o")
        cls.job = s.job_write(os.path.join(cls.root, "small.yaml"), cls.data, cls.out, train__epochs=3, train__lr="1.0e-6", checkpoints__keep=50)
        cls.before = time.time()
        cls.result = s.run("run", cls.job)
        cls.after = time.time()
        cls.report = s.json_read(os.path.join(cls.out, "report.json"))
        with open(os.path.join(cls.out, "report.md"), encoding="utf-8") as file:
            cls.text = file.read()

    def eval_of(self, step, split):
        result = s.run("eval", "--model", s.checkpoint(self.out, step), "--data.dir", self.data, "--data.task", "emotion", "--split", split, "--json")
        self.assertExit(result, 0)
        return result.lines()[0]

    def test_a_job_read_back_with_another_out(self):
        """job.yaml of a run, started with another out: a run of its own, and the first is left as it was."""
        before = sorted((name, os.stat(os.path.join(self.out, "checkpoints", name)).st_mtime_ns) for name in os.listdir(os.path.join(self.out, "checkpoints")))
        other = os.path.join(self.root, "other")
        self.train(os.path.join(self.out, "job.yaml"), "--train.max_steps", 2, "--train.lr", "3e-6", "--out", other)
        after = sorted((name, os.stat(os.path.join(self.out, "checkpoints", name)).st_mtime_ns) for name in os.listdir(os.path.join(self.out, "checkpoints")))
        self.assertEqual(after, before)
        self.assertEqual(s.events(other, "start")[0]["steps_total"], 2)
        self.assertTrue(os.path.isdir(s.checkpoint(other, 2)))
        self.assertTrue(os.path.isdir(os.path.join(other, "shards")))

    def test_best_and_last(self):
        best, last = self.report["best_step"], self.report["last"]["step"]
        self.assertEqual(last, 12)
        self.assertLess(best, last, "the test needs a run that does not get better")
        self.assertEqual(self.report["best_epoch"], best // 4)
        self.assertEqual(self.report["last"]["epoch"], 3)
        for of, step in ((self.report, best), (self.report["last"], last)):
            for split, n in (("val", 12), ("test", 14)):
                self.assertEqual(list(of[split]), SPLIT_KEYS)
                self.assertEqual(of[split]["examples"], n)
                again = self.eval_of(step, split)
                for key in SPLIT_KEYS[1:]:
                    self.assertEqual(of[split][key], again[key], (split, step, key))
        self.assertNotEqual(self.report["test"]["loss"], self.report["last"]["test"]["loss"])

    def test_the_last_eval_event_is_the_best_model_on_test(self):
        found = s.events(self.out, "eval")
        self.assertEqual([(e["split"], e["step"]) for e in found], [("val", 4), ("val", 8), ("val", 12), ("test", self.report["best_step"])])
        self.assertEqual(found[-1]["loss"], self.report["test"]["loss"])

    def test_history(self):
        wanted = [{key: e[key] for key in ("epoch", "step", "loss", "official")} for e in s.events(self.out, "eval") if e["split"] == "val"]
        self.assertEqual(self.report["history"], wanted)

    def test_timings(self):
        times = self.report["timings"]
        self.assertEqual((times["steps"], times["starts"]), (12, 1))
        parts = [times[key] for key in ("train_s", "evaluate_s", "save_s", "export_s", "tokenise_s")]
        self.assertTrue(all(value > 0 for value in parts), times)
        self.assertLessEqual(sum(parts), self.after - self.before)
        self.assertLessEqual(times["all_starts_s"], self.after - self.before)
        self.assertGreaterEqual(times["all_starts_s"], times["train_s"])
        self.assertGreaterEqual(times["save_s"] + 1e-2, sum(e["held_s"] for e in s.events(self.out, "checkpoint")))
        self.assertAlmostEqual(3 * 26 / times["tweets_per_s"], times["train_s"], delta=1e-3)  # as exact as it is written
        self.assertGreater(times["tokens_per_s"], times["tweets_per_s"])

    def test_memory(self):
        memory, parameters = self.report["memory"], s.events(self.out, "start")[0]["parameters"]
        self.assertEqual(memory["rss_max_bytes"], memory["rss_sum_bytes"])
        self.assertGreaterEqual(memory["weights_and_moments_bytes"], 3 * 4 * parameters)
        self.assertGreaterEqual(memory["gradients_bytes"], 4 * parameters)
        self.assertGreater(memory["activations_bytes"], 0)
        self.assertGreater(memory["rss_max_bytes"], 4 * 4 * parameters)

    def test_provenance(self):
        start = s.events(self.out, "start")[0]
        for key in ("base", "config_hash", "world", "threads", "precision", "parts"):
            self.assertEqual(self.report[key], start[key], key)
        self.assertEqual(self.report["data_hash"], start["data"]["hash"])
        self.assertEqual(self.report["examples"], {"train": 26, "val": 12, "test": 14})
        of = self.report["provenance"]
        self.assertRegex(of["compiler"], r"^(gcc|clang) \d+")
        self.assertRegex(of["mpi"], r"^Open MPI v\d")
        self.assertRegex(of["hdf5"], r"^HDF5 1\.\d+\.\d+$")
        self.assertTrue(of["cpu"])
        self.assertEqual((of["hosts"], of["backend"]), (1, "self"))
        for key, at in (("started", self.before), ("ended", self.after)):
            seconds = time.mktime(time.strptime(of[key], "%Y-%m-%dT%H:%M:%SZ")) - time.timezone
            self.assertAlmostEqual(seconds, at, delta=self.after - self.before + 2)

    def test_settings(self):
        """What the job file says and the defaults don't, nothing that only follows from `out`."""
        self.assertEqual(self.report["settings"], {
            "job": "small", "out": self.out, "threads": "1", "model.base": "random:tiny", "data.dir": self.data, "data.task": "emotion",
            "data.max_length": "40", "train.batch": "8", "train.lr": "1.0e-06", "train.parts": "4",
            "checkpoints.keep": "50", "log.every": "1", "log.samples": "true"})

    def test_markdown(self):
        tables = markdown_tables(self.text)
        official = self.report["test"]["official"]
        classes = tables[f"test: {official['name']} {official['value']:.4f}"]
        self.assertEqual(classes[1:5], [[c["label"], *[f"{c[key]:.4f}" for key in ("precision", "recall", "f1")], str(c["support"])]
                                        for c in self.report["test"]["per_class"]])
        self.assertEqual(classes[6:], [[name, *map(str, row)] for name, row in zip(s.LABELS, self.report["test"]["confusion"])])
        compared = {row[0]: row[1:] for row in tables["Best and last model"]}
        self.assertEqual(compared["test loss"], [f"{self.report['test']['loss']:.4f}", f"{self.report['last']['test']['loss']:.4f}"])
        self.assertEqual(len(tables["Evaluations on val"]), 4)
        self.assertEqual(dict(map(tuple, tables["Settings that are not the defaults"]))["train.lr"], "1.0e-06")
        for word in (self.report["config_hash"], self.report["data_hash"], self.report["run_id"], "MiB", "examples/s", "Open MPI", "HDF5"):
            self.assertIn(word, self.text)

    def test_the_last_words_of_run(self):
        test = self.report["test"]
        line = self.result.out.split("\n")[0]
        self.assertRegex(line, rf"^test +{test['official']['name']} {test['official']['value']:.4f}, .*step {self.report['best_step']}\)$")
        again = self.train(self.job)
        self.assertIn("already complete", again.err)
        self.assertEqual(again.out, self.result.out)

    def test_made_again(self):
        """Of a complete run: the last checkpoint and the best are evaluated again."""
        out = os.path.join(self.root, "again")
        shutil.copytree(self.out, out, symlinks=True)
        os.remove(os.path.join(out, "report.json"))
        self.train(self.job, "--out", out)
        again = s.json_read(os.path.join(out, "report.json"))
        for key in ("val", "test", "last", "history", "best_step", "best_epoch", "run_id"):
            self.assertEqual(again[key], self.report[key], key)
        self.assertEqual((again["timings"]["steps"], again["timings"]["tweets_per_s"], again["timings"]["starts"]), (0, None, 1))
        self.assertEqual(s.events(out, "eval")[-1]["loss"], self.report["test"]["loss"])


class Course(s.Case):
    def setUp(self):
        super().setUp()
        self.data, self.out = s.task_make(self.path("d")), self.path("o")
        self.job = s.job_write(self.path("job.yaml"), self.data, self.out)

    def test_starts_are_counted(self):
        arguments = [self.job, "--train.epochs", 400]
        process = s.start("run", *arguments)
        self.assertTrue(s.wait_for(s.step_reached(self.out, 7), process))
        process.send_signal(signal.SIGTERM)
        self.assertExit(s.finish(process), 75)
        stopped = s.events(self.out, "stop")[0]
        time.sleep(1.5)
        self.train(self.job, "--train.epochs", 400, "--train.max_steps", stopped["step"] + 4)
        report, events = s.json_read(f"{self.out}/report.json"), s.events(self.out)
        self.assertEqual((report["timings"]["starts"], report["timings"]["steps"]), (2, 4))
        starts = [e["time"] for e in events if e["event"] == "start"]
        self.assertLessEqual(report["timings"]["all_starts_s"], events[-1]["time"] - starts[1] + stopped["time"] - starts[0] + 0.002, "idle time is none")
        self.assertEqual([e["step"] for e in report["history"]], sorted({e["step"] for e in s.events(self.out, "eval") if e["split"] == "val"}))

    def test_ranks(self):
        self.train(self.job, ranks=2)
        report = s.json_read(f"{self.out}/report.json")
        self.assertEqual((report["world"], report["provenance"]["hosts"], report["provenance"]["backend"]), (2, 1, "mpi"))
        memory = report["memory"]
        self.assertTrue(memory["rss_max_bytes"] < memory["rss_sum_bytes"] <= 2 * memory["rss_max_bytes"])

    def test_no_test_split(self):
        """A data set without a test file: null, and val's score is what run says."""
        folder = self.path("csv")
        os.makedirs(folder)
        for split, rows in (("train", s.rows_make(24)), ("val", s.rows_make(12, first=24))):
            with open(os.path.join(folder, f"{split}.csv"), "w", encoding="utf-8") as file:
                file.write("text,label\n" + "".join(f'"{text}",{s.LABELS[label]}\n' for text, label in rows))
        result = self.train("--model.base", "random:tiny", "--data.format", "csv", "--data.dir", folder, "--data.task", "mine", "--out", self.out,
                            "--threads", 1, "--train.epochs", 1)
        report = s.json_read(f"{self.out}/report.json")
        self.assertIsNone(report["test"])
        self.assertIsNone(report["last"]["test"])
        self.assertEqual(report["val"]["examples"], 12)
        self.assertRegex(result.out, r"^val +macro_f1 ")
        self.assertEqual({e["split"] for e in s.events(self.out, "eval")}, {"val"})
        with open(f"{self.out}/report.md", encoding="utf-8") as file:
            self.assertIn("no test split", file.read())


class Verb(s.Case):
    @classmethod
    def setUpClass(cls):
        cls.root = s.tempfile.mkdtemp(prefix="finetuned-test-")
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        cls.data = s.task_make(os.path.join(cls.root, "d"))
        cls.one, cls.two = (os.path.join(cls.root, name) for name in ("one", "two"))
        cls.job = s.job_write(os.path.join(cls.root, "small.yaml"), cls.data, cls.one)
        for arguments in ([], ["--out", cls.two, "--train.lr", "5.0e-3", "--train.seed", 7, "--export.to", "[]", "--train.epochs", 1]):
            result = s.run("run", cls.job, *arguments)
            if result.rc:
                raise AssertionError(str(result))

    def unfinished(self):
        """As after a crash behind the first epoch's evaluation."""
        out = self.path("cut")
        shutil.copytree(self.one, out, symlinks=True)
        lines = s.file_lines(os.path.join(out, "events.jsonl"))
        last = next(i for i, line in enumerate(lines) if b'"event": "eval"' in line)
        with open(os.path.join(out, "events.jsonl"), "wb") as file:
            file.write(b"\n".join(lines[:last + 1]) + b'\n{"event": "st')
        return out

    def test_one(self):
        result = s.run("report", self.one)
        self.assertExit(result, 0)
        with open(os.path.join(self.one, "report.md"), encoding="utf-8") as file:
            self.assertEqual(result.out, file.read())
        answer, = s.run("report", "--json", self.one).lines()
        self.assertEqual((answer["finished"], answer["report"]), (True, s.json_read(os.path.join(self.one, "report.json"))))
        self.assertEqual(answer["progress"]["history"], answer["report"]["history"])

    def test_not_finished(self):
        out = self.unfinished()
        for report in (True, False):
            if not report:
                os.remove(os.path.join(out, "report.json"))
            result = s.run("report", out)
            self.assertExit(result, 0)
            for word in ("small", "Not finished: at step 3 of 6 (epoch 1) after 1 start", "no stop event", f"finetuned run {out}/job.yaml"):
                self.assertIn(word, result.out)
            self.assertEqual("earlier end" in result.out, report)
            self.assertEqual(markdown_tables(result.out)["Evaluations on val"][1][:2], ["1", "3"])
            answer, = s.run("report", "--json", out).lines()
            self.assertEqual((answer["finished"], answer["progress"]["step"], answer["report"] is not None), (False, 3, report))
        self.train(self.job, "--out", out)
        self.assertNotIn("Not finished", s.run("report", out).out)

    def test_extended(self):
        """After more epochs were begun the report is of an earlier end."""
        out = self.path("more")
        shutil.copytree(self.one, out, symlinks=True)
        with open(os.path.join(out, "events.jsonl"), "a", encoding="utf-8") as file:
            file.write('{"event": "resume", "time": 3e9, "step": 6}\n{"event": "start", "time": 3e9, "steps_total": 30}\n'
                       '{"event": "stop", "time": 3e9, "step": 8, "reason": "signal"}\n')
        result = s.run("report", out)
        self.assertIn("Not finished: at step 8 of 30", result.out)
        self.assertIn("stop: signal", result.out)
        self.assertIn("earlier end", result.out)

    def test_two(self):
        result = s.run("report", self.one, self.two)
        self.assertExit(result, 0)
        tables = markdown_tables(result.out)
        reports = [s.json_read(os.path.join(out, "report.json")) for out in (self.one, self.two)]
        rows = {row[0]: row[1:] for row in tables["Two runs"]}
        a, b = (r["test"]["loss"] for r in reports)
        self.assertEqual(rows["test loss"], [f"{a:.4f}", f"{b:.4f}", f"{b - a:+.4f}"])
        self.assertEqual(rows["val F1 of joy"][:2], [f"{r['val']['per_class'][1]['f1']:.4f}" for r in reports])
        self.assertIn("tweets_per_s", rows)
        jobs = {row[0]: row[1:] for row in tables["What differs in their jobs"][1:]}
        self.assertEqual(jobs, {"train.lr": ["0.001", "0.005"], "train.seed": ["42", "7"], "train.epochs": ["2", "1"],
                                "export.to": ["\\[hf\\]", "\\[\\]"]})

    def test_two_as_json(self):
        answer, = s.run("report", self.one, self.two, "--json").lines()
        self.assertEqual({row["key"]: (row["a"], row["b"]) for row in answer["job"]},
                         {"train.lr": ("0.001", "0.005"), "train.seed": ("42", "7"), "train.epochs": ("2", "1"), "export.to": ("[hf]", "[]")})
        for row in answer["scores"]:
            self.assertAlmostEqual(row["difference"], row["b"] - row["a"], places=8)
        names = [(row["split"], row["name"]) for row in answer["scores"]]
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual([answer[side]["folder"] for side in "ab"], [self.one, self.two])

    def test_with_one_that_is_not_finished(self):
        out = self.unfinished()
        answer, = s.run("report", out, self.two, "--json").lines()
        scores = {(row["split"], row["name"]): row for row in answer["scores"]}
        self.assertIsNone(scores["test", "loss"]["a"])
        self.assertIsNone(scores["test", "loss"]["difference"])
        first = next(e for e in s.events(self.one, "eval"))
        self.assertEqual((scores["val", "loss"]["a"], scores["val", "macro_f1"]["a"]), (first["loss"], first["macro_f1"]))

    def test_the_same(self):
        out = self.path("moved")
        shutil.copytree(self.one, out, symlinks=True)
        result = s.run("report", self.one, out)
        self.assertIn("Nothing.", result.out)

    def test_another_world(self):
        """The job does not say how many ranks it was started on."""
        out = self.path("ranks")
        self.train(self.job, "--out", out, ranks=2)
        rows = markdown_tables(s.run("report", self.one, out).out)["What differs in their jobs"][1:]
        self.assertIn(["world", "1", "2"], rows)
        answer, = s.run("report", self.one, out, "--json").lines()
        self.assertIn({"key": "world", "a": "1", "b": "2"}, answer["job"])

    def test_epoch_of_a_short_start(self):
        """Of a run that was stopped before any `step` event; of one that was killed nothing is known, and nothing said."""
        out = self.path("short")
        self.assertExit(s.run("run", self.job, "--out", out, "--log.every", 1000, "--train.max_time", 1e-6), 75)
        self.assertEqual(s.events(out, "step"), [])
        self.assertIn("at step 1 of 6 (epoch 1) after", s.run("report", out).out)
        with open(os.path.join(out, "events.jsonl"), encoding="utf-8") as file:
            lines = [line for line in file if '"event": "stop"' not in line]
        with open(os.path.join(out, "events.jsonl"), "w", encoding="utf-8") as file:
            file.writelines(lines)
        self.assertIn("at step 1 of 6 after", s.run("report", out).out)
        self.assertIsNone(s.run("report", "--json", out).lines()[0]["progress"]["epoch"])

    def test_refused(self):
        self.assertRefused(s.run("report", self.path("nowhere")), 65, "nowhere")
        self.assertRefused(s.run("report", os.path.join(self.one, "model")), 65, "events.jsonl", "above")
        self.assertRefused(s.run("report", os.path.join(self.one, "checkpoints")), 65, "events.jsonl")
        self.assertRefused(s.run("report"), 64)
        self.assertRefused(s.run("report", "a", "b", "c"), 64)
        out = self.path("broken")
        shutil.copytree(self.one, out, symlinks=True)
        for content, word in (("{", "JSON"), ("[]", "object")):
            with open(os.path.join(out, "report.json"), "w", encoding="utf-8") as file:
                file.write(content)
            self.assertRefused(s.run("report", out), 65, "report.json", word)


if __name__ == "__main__":
    s.main()
