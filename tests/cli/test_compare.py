# SPDX-License-Identifier: Apache-2.0
"""bench/compare with stand-ins for the peers: what is missing in one line, turns and their results, work that was not the same, the table."""
import json
import os
import subprocess
import sys

import support as s

COMPARE = os.path.join(s.SOURCE, "bench", "compare")
PEER = {"loss": 1.1, "tweets": 64, "steps": 4, "tokens": 3072, "threads": 1, "dropout": 0.1, "padding_share": 0.5, "real_tokens_per_s": 100, "mean_tokens": 48,
        "mean_computed": 96}


class Compare(s.Case):
    def setUp(self):
        super().setUp()
        os.makedirs(self.path("work"))
        self.write("work/versions.json", "{}")
        for name in ("torch_train.py", "ort_infer.py"):
            self.write(name, "")
        s.task_make(self.path("data"), rows=(64, 4, 4))
        self.vocab = self.path("vocab")
        os.makedirs(self.vocab)
        s.tokenizer_make(self.vocab)

    def peer(self, **facts):
        """A Python that lacks nothing and prints the results of a training."""
        path = self.write("python", f"#!/bin/sh\n[ \"$1\" = -c ] || cat <<'END'\n{json.dumps({**PEER, **facts})}\nEND\n")
        os.chmod(path, 0o755)
        return path

    def compare(self, *more, python=None):
        found = subprocess.run([sys.executable, COMPARE, "--program", s.BINARY, "--peers", self.folder, "--python", python or self.peer(), "--data",
                                self.path("data"), "--vocab", self.vocab, "--work", self.path("work"), "--threads", "1", *more],
                               capture_output=True, text=True, check=False, timeout=s.PATIENCE)
        return found

    def refused(self, *words, **options):
        found = self.compare(*options.pop("more", ()), **options)
        self.assertEqual((found.returncode, found.stderr.count("\n")), (1, 1), found)
        for word in words:
            self.assertIn(word, found.stderr)

    def test_what_is_missing(self):
        self.refused("torch", "pip install", python="/usr/bin/python3") if subprocess.run(["/usr/bin/python3", "-c", "import torch"], capture_output=True,
                                                                                          check=False).returncode else None
        self.refused("does not run", python=self.path("none"))
        self.refused("train-base-usual", more=("--only", "nonsense"))
        self.refused("is not built", more=("--program", self.path("none")))
        os.remove(self.path("ort_infer.py"))
        self.refused("ort_infer.py is not here: --peers")

    def test_rounds(self):
        """Later calls add; rates are by what a side computes for a tweet of an epoch's average."""
        for _ in range(2):
            found = self.compare("--only", "train-mini-usual", "--rounds", "1", "--steps", "1")
            self.assertEqual(found.returncode, 0, found)
            self.assertIn("of 1 rounds", found.stdout)  # which a busy machine leaves out of the table
        rounds = s.json_read(self.path("work", "results.json"))
        self.assertEqual([r["cell"] for r in rounds], ["train-mini-usual"] * 2)
        for r in rounds:
            self.assertAlmostEqual(r["peer"]["tweets_per_s"], 100 / 0.5 / 96)
            self.assertAlmostEqual(r["ours"]["tweets_per_s"], r["ours"]["tokens_per_s"] / 48)
            self.assertGreater(r["ours"]["rss_bytes"], 1 << 20)

    def test_not_the_same(self):
        for facts, word in (({"loss": None}, "loss"), ({"threads": 2}, "threads"), ({"tweets": 63}, "63"), ({"tokens": 9000}, "tokens of a tweet")):
            with self.subTest(facts=facts):
                self.refused(word, more=("--only", "train-mini-usual", "--rounds", "1", "--steps", "1"), python=self.peer(**facts))
        self.assertFalse(os.path.exists(self.path("work", "results.json")))

    def test_table(self):
        def result(ours, peer, others=0.0):
            return {"cell": "train-base-usual", "day": "2026-01-02", "at": "10:00", "machine": "A machine.", "peak_gflops": 300,
                    "ours": {"tweets_per_s": ours, "flops_share": 0.8, "rss_bytes": 2**30, "others": others}, "peer": {"tweets_per_s": peer, "rss_bytes": 2**31}}

        s.json_write(self.path("work", "results.json"), [result(20, 10), result(24, 8), result(22, 10), result(1, 10, others=0.3)])
        document = self.write("p.md", "before\n<!-- bench/compare writes from here -->\nold\n<!-- to here -->\nbehind\n")
        self.assertEqual(self.compare("--table", "--document", document).returncode, 0)
        with open(document, encoding="utf-8") as file:
            text = file.read()
        self.assertTrue(text.startswith("before\n<!--") and text.endswith("<!-- to here -->\nbehind\n") and "old" not in text, text)
        self.assertIn("| 22 tweets/s | 10 tweets/s (PyTorch) | **2.2** | 2–3, 3 | ≥ 2.3: missed |", text)
        self.assertIn("| 1 GiB | 2 GiB (PyTorch) | **0.5** | 0.5–0.5, 3 | ≤ 0.75: met |", text)
        self.assertIn("Left out: 1 of 4 rounds", text)
        self.refused("marks", more=("--table", "--document", self.write("q.md", "nothing\n")))
        self.refused("no rounds yet", more=("--table", "--document", document, "--results", self.path("none")))
        for text in ("{", "{}", "[1]", '[{"cell": "train-base-usual"}]', '[{"cell": "x", "ours": {}, "peer": {}}]'):
            broken = self.write("broken.json", text)
            self.refused(broken, more=("--table", "--document", document, "--results", broken))

    def test_the_other_programs(self):
        """One line, whatever is wrong."""
        for name, arguments, word in (("cost", ["--program", self.path("none")], "is not built"), ("cost", ["--program", "/bin/true", "--lengths", "8"], "/bin/true ended with 0"),
                                      ("cost", ["--lengths", "x"], "--lengths"), ("cost", ["--lengths", "2"], "--lengths: 2"), ("saving", [self.path("none")], "No such file"),
                                      ("saving", [__file__], "not a run's events.jsonl"), ("saving", ["x", "0"], "every"), ("compare", ["--threads", "0"], "--threads"),
                                      ("compare", ["--rounds", "0"], "--rounds"), ("compare", ["--steps", "x"], "--steps")):
            with self.subTest(name=name, arguments=arguments):
                found = subprocess.run([os.path.join(s.SOURCE, "bench", name), *arguments], capture_output=True, text=True, check=False)
                self.assertNotEqual(found.returncode, 0)
                self.assertNotIn("Traceback", found.stderr)
                self.assertIn(word, found.stderr.splitlines()[-1])


if __name__ == "__main__":
    s.main()
