# SPDX-License-Identifier: Apache-2.0
"""finetuned config: what it prints reads back as the same job; wrong arguments are 64, on standard error alone."""
import os
import subprocess
import tempfile
import unittest

PROGRAM = os.path.join(os.environ["FINETUNED_BUILD"], "finetuned")


def config(*arguments, folder=None):
    done = subprocess.run([PROGRAM, "config", *arguments], capture_output=True, text=True, cwd=folder)
    return done.returncode, done.stdout, done.stderr


class Config(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="finetuned-test-")
        self.addCleanup(holder.cleanup)
        self.folder = holder.name

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def refused(self, *arguments, words):
        code, out, err = config(*arguments, folder=self.folder)
        self.assertEqual((code, out), (64, ""), err)
        self.assertEqual(err.count("\n"), 1, err)
        for word in words:
            self.assertIn(word, err)

    def test_list(self):
        code, out, err = config()
        self.assertEqual((code, err), (0, ""))
        self.assertIn("train.lr: 5.0e-05\n", out)
        self.assertIn("allowed: a number from 0 to 1000000", out)

    def test_values(self):
        path = self.write("mine.yaml", "train:\n  lr: 3e-5\n  epochs: 2\n")
        code, out, _ = config(path, "--train.epochs", "7", "--train.batch=8")
        self.assertEqual(code, 0)
        for line in ("job: mine\n", "train.lr: 3.0e-05\n", "train.epochs: 7\n", "train.batch: 8\n", "out: runs/mine\n"):
            self.assertIn(line, out)

    def test_yaml(self):
        code, first, _ = config("--yaml", "--train.lr", "3e-5", "--out", "a b", "--job", "x")
        self.assertEqual(code, 0)
        code, second, _ = config(self.write("again.yaml", first), "--yaml")
        self.assertEqual((code, second), (0, first))

    def test_edited(self):
        _, text, _ = config("--yaml")
        path = self.write("edited.yaml", text.replace("out: runs/<job>", "out: elsewhere"))
        _, out, _ = config(path)
        self.assertIn("checkpoints.dir: elsewhere/checkpoints\n", out)
        self.assertIn("data.cache: elsewhere/shards\n", out)

    def test_help(self):
        code, out, err = config("--help")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("usage: finetuned config", out)

    def test_refused(self):
        self.refused("--train.lr", "fast", words=["--train.lr: 'fast'", "a number from 0"])
        self.refused("--train.lrr", "1", words=["--train.lrr", "did you mean train.lr?"])
        self.refused("--train.lr", words=["--train.lr needs a value"])
        self.refused("--yaml", "--markdown", words=["--markdown"])
        self.refused("a.yaml", "b.yaml", words=["a.yaml", "b.yaml"])
        self.refused("not-here.yaml", words=["not-here.yaml", "No such file"])
        self.write("bad.yaml", "train:\n  epochs: 3.0\n")
        self.refused("bad.yaml", words=["bad.yaml:2: train.epochs: '3.0'", "an integer from 1 to 1000000"])
        self.refused("--train.precision", "bf16", words=["--train.precision: bf16: not in this version yet"])


if __name__ == "__main__":
    unittest.main()
