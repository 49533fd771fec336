# SPDX-License-Identifier: Apache-2.0
"""Every option of the table, changed on resume: what defines the run is refused by name, value and value, and nothing of the run has
changed then; the rest changes what it is for and nothing else."""
import json
import os
import re
import shutil

import resume_support as r
import support as s


def table():
    """Keys of base/options.c, and whether they define the run."""
    with open(os.path.join(s.SOURCE, "base", "options.c"), encoding="utf-8") as file:
        text = file.read()
    rows = re.split(r'\n    (?=[A-Z]+\("|\{\.key)', text[text.index("const struct option options[]"):])[1:]
    return {re.search(r'"([a-z_.0-9]+)"', row).group(1): "OPTION_DEFINES_RUN" in row for row in rows}


# key: another value than the run's, and what the run had, as the message says it.
REFUSED = {
    "model.dropout": ("0.2", "config"), "data.max_length": ("39", "40"), "data.truncation": ("false", "true"),
    "data.doc_stride": ("64", "128"), "data.normalize": ("tweet", "none"), "data.special_tokens": ("parse", "literal"),
    "data.task": ("mine", "emotion"), "train.batch": ("4", "8"), "train.lr": ("0.002", "0.001"), "train.schedule": ("cosine", "linear"),
    "train.warmup": ("1.0", "2.0"), "train.weight_decay": ("0.1", "0.0"), "train.betas": ("0.9,0.99", "[0.9, 0.999]"), "train.eps": ("1e-7", "1.0e-08"),
    "train.clip": ("0.5", "1.0"), "train.label_smoothing": ("0.1", "0.0"), "train.class_weights": ("balanced", "none"),
    "train.seed": ("43", "42"), "train.parts": ("2", "4"), "train.best_metric": ("loss", "official"), "train.early_stopping": ("5", "0"),
    "train.layer_decay": ("0.9", "1.0"), "train.freeze": ("1", "none"), "train.precision": ("bf16", "fp32"),
}
# key: a value that this start can't have at all (64), whatever was before.
IMPOSSIBLE = {"model.head": ("question_answering", "data.format")}
# key: a value with which the end is the same, bit for bit.
SAME = {
    "job": "another", "threads": "2", "data.cache": "{root}/cache", "data.columns.text": "t", "data.columns.label": "l", "data.columns.pair": "p",
    "train.max_tokens": "100", "train.max_time": "100000", "comm.backend": "self", "comm.timeout": "60", "checkpoints.every": "3",
    "checkpoints.keep": "2", "checkpoints.buffer": "1MiB", "export.to": "sagemaker", "log.level": "error", "log.tensorboard": "true",
    "sweep.tasks": "emotion,irony", "sweep.seeds": "1,2", "sweep.rates": "0.1,0.2", "data.dir": "{root}/copy",
}
# keys with a test of their own below, or that other tests are about.
OWN = {"model.base", "model.vocab", "data.format", "train.epochs", "train.max_steps", "train.eval_every", "checkpoints.dir", "export.dtype",
       "log.every", "log.samples"}
ELSEWHERE = {"out", "checkpoints.resume", "comm.fabric", "comm.reduce", "export.s3"}


class Options(r.Runs):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.whole = os.path.join(cls.root, "unbroken")
        shutil.copytree(os.path.join(cls.data, "emotion"), os.path.join(cls.data, "mine"))
        shutil.copytree(cls.data, os.path.join(cls.root, "copy"))
        cls.yaml = s.job_write(os.path.join(cls.root, "job.yaml"), cls.data, cls.whole, **cls.keys)
        result = s.run("run", cls.yaml)
        if result.rc:
            raise AssertionError(str(result))

    def go(self, key, value, rc=0):
        return self.train(self.yaml, "--out", self.out, f"--{key}", value, rc=rc)

    def test_every_option_has_a_row(self):
        keys = table()
        rows = set(REFUSED) | set(IMPOSSIBLE) | set(SAME) | OWN | ELSEWHERE
        self.assertEqual(set(keys) ^ rows, set())
        self.assertEqual({k for k, defines in keys.items() if defines}, set(REFUSED) | set(IMPOSSIBLE))

    def test_refused(self):
        self.cut(self.whole, 7)
        with open(f"{self.out}/events.jsonl", "ab") as file:  # what a crash leaves is not touched either
            file.write(b'{"event": "st')
        left = f"{self.out}/checkpoints/.tmp-step-00000008-0123456789abcdef"
        os.makedirs(left)
        before = r.tree(self.out)
        for key, (value, was) in REFUSED.items():
            with self.subTest(key=key):
                result = self.go(key, value, 65)
                now = f"[{value.replace(',', ', ')}]" if "," in value else value
                self.assertRegex(result.err, re.escape(f"{key} was {was}, but this job says ") + ".?" + re.escape(now.replace("1e-7", "1.0e-07")))
                self.assertEqual(result.err.count("\n"), 1, "one clear line")
                self.assertEqual(result.out, "")
                self.assertEqual(r.tree(self.out), before)
        for key, (value, word) in IMPOSSIBLE.items():
            with self.subTest(key=key):
                self.assertIn(word, self.go(key, value, 64).err)
                self.assertEqual(r.tree(self.out), before)
        result = self.go("log.level", "info")  # and it still goes on
        self.assertIn(f"removed {left}", result.err)
        self.assertFalse(os.path.exists(left))
        self.assertSameEnd(self.whole)

    def test_refused_on_two_ranks(self):
        self.cut(self.whole, 7)
        before = r.tree(self.out)
        result = self.train(self.yaml, "--out", self.out, "--train.seed", 43, rc=65, ranks=2)
        self.assertIn("train.seed was 42, but this job says 43", result.err)
        self.assertEqual(r.tree(self.out), before)

    def test_refused_with_a_path(self):
        """A path to an older checkpoint sets newer ones aside, but not for a job that is refused."""
        self.cut(self.whole, 7)
        before = r.tree(self.out)
        self.train(self.yaml, "--out", self.out, "--checkpoints.resume", s.checkpoint(self.out, 3), "--train.seed", 43, rc=65)
        self.train(self.yaml, "--out", self.out, "--checkpoints.resume", self.path("nowhere"), rc=65)
        self.assertEqual(r.tree(self.out), before)

    def test_same(self):
        for key, value in SAME.items():
            with self.subTest(key=key):
                self.cut(self.whole, 13)
                self.go(key, value.replace("{root}", self.root))
                self.assertEqual(len(s.events(self.out, "resume")), 1)
                self.assertSameEnd(self.whole)

    def test_other_base_and_data(self):
        self.cut(self.whole, 13)
        before = r.tree(self.out)
        vocabulary = self.path("vocabulary")
        os.makedirs(vocabulary)
        s.tokenizer_make(vocabulary)
        other = s.task_make(self.path("other"), rows=self.rows)
        with open(os.path.join(other, "emotion", "val_text.txt"), "r+b") as file:
            file.write(b"X")
        for key, value, word in (("model.base", "random:mini", "model.base (content)"), ("model.vocab", vocabulary, "model.base (content)"),
                                 ("data.dir", other, "data (content)")):
            with self.subTest(key=key):
                self.assertRegex(self.go(key, value, 65).err, re.escape(word) + " was [0-9a-f]{32}, but this job says [0-9a-f]{32}")
                self.assertEqual(r.tree(self.out), before)

    def test_other_format(self):
        """The same texts and labels as jsonl: the same data by content, or refused as another's; never something else."""
        folder = self.path("jsonl")
        os.makedirs(folder)
        shutil.copy(os.path.join(self.data, "emotion", "mapping.txt"), folder)
        first = 0
        for split, n in zip(("train", "val", "test"), self.rows):
            with open(os.path.join(folder, f"{split}.jsonl"), "w", encoding="utf-8") as file:
                for text, label in s.rows_make(n, first=first):
                    file.write(json.dumps({"text": text, "label": label}) + "\n")
            first += n
        self.cut(self.whole, 13)
        self.train(self.yaml, "--out", self.out, "--data.format", "jsonl", "--data.dir", folder)
        self.assertSameEnd(self.whole)

    def test_more_epochs(self):
        """They extend the run: the schedule is computed anew, and the log says so."""
        self.cut(self.whole, 7)
        result = self.train(self.yaml, "--out", self.out, "--train.epochs", 4, "--log.level", "info")
        self.assertIn("20 steps in all now, 15 before: the schedule is computed anew", result.err)
        mine, theirs = s.steps(self.out), s.steps(self.whole)
        self.assertEqual(sorted(mine), list(range(1, 21)))
        for step in range(8, 16):
            self.assertEqual(mine[step]["samples"], theirs[step]["samples"])
            self.assertAlmostEqual(mine[step]["lr"], 1e-3 * (20 - step + 1) / 18, places=8)

    def test_fewer_steps(self):
        self.cut(self.whole, 7)
        result = self.train(self.yaml, "--out", self.out, "--train.max_steps", 9, "--log.level", "info")
        self.assertIn("9 steps in all now, 15 before", result.err)
        self.assertEqual(s.events(self.out, "end")[0]["step"], 9)
        self.assertEqual([e["step"] for e in s.events(self.out, "eval") if e["split"] == "val"], [5, 9])

    def test_fewer_steps_than_done(self):
        self.cut(self.whole, 7)
        before = s.checkpoint_tensors(s.checkpoint(self.out))
        result = self.train(self.yaml, "--out", self.out, "--train.max_steps", 4)
        self.assertIn("this job asks for 4: nothing is trained", result.err)
        self.assertEqual(s.tensors_differ(s.checkpoint_tensors(s.checkpoint(self.out)), before), [])

    def test_eval_every(self):
        self.cut(self.whole, 7)
        self.train(self.yaml, "--out", self.out, "--train.eval_every", 4)
        self.assertEqual([e["step"] for e in s.events(self.out, "eval") if e["split"] == "val"], [5, 8, 12, 15])
        self.assertEqual(s.course(self.out), s.course(self.whole))

    def test_another_folder_of_checkpoints(self):
        """An empty one is a fresh start, and that is said."""
        self.cut(self.whole, 7)
        before = s.checkpoint_names(self.out)
        result = self.train(self.yaml, "--out", self.out, "--checkpoints.dir", self.path("empty"))
        self.assertIn("fresh start", result.err)
        self.assertIn(self.path("empty"), result.err)
        steps = [e["step"] for e in s.events(self.out, "step")]  # (a step or two may come before the event of checkpoint 7)
        self.assertEqual((steps[:7], steps[-15:]), ([*range(1, 8)], [*range(1, 16)]))
        self.assertEqual(s.checkpoint_names(self.out), before)

    def test_what_is_written(self):
        """Logging and export: only what they are about."""
        self.cut(self.whole, 10)
        self.train(self.yaml, "--out", self.out, "--log.every", 2, "--log.samples", "false", "--export.dtype", "bf16")
        mine = s.steps(self.out)
        self.assertEqual([n for n in sorted(mine) if n > 10], [12, 14])
        self.assertEqual([mine[n]["loss"] for n in (12, 14)], [s.steps(self.whole)[n]["loss"] for n in (12, 14)])
        self.assertNotIn("samples", mine[12])
        self.assertEqual(s.tensors_differ(s.checkpoint_tensors(s.checkpoint(self.out)), s.checkpoint_tensors(s.checkpoint(self.whole))), [])


if __name__ == "__main__":
    s.main()
