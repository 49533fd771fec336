# SPDX-License-Identifier: Apache-2.0
"""finetuned predict: batches that change no bit, answers as soon as no more is there, files of every format, pairs, latencies."""
import json
import os
import subprocess
import threading

import support as s

TEXTS = [s.tweet(i, i % 4) for i in range(75)] + ["", " ", "\U0001f602" * 5]


class Predict(s.Case):
    @classmethod
    def setUpClass(cls):
        cls.home = s.tempfile.mkdtemp(prefix="finetuned-test-")
        cls.addClassCleanup(s.shutil.rmtree, cls.home, ignore_errors=True)
        cls.model = s.model_make(os.path.join(cls.home, "m"), s.LABELS)

    def predict(self, *arguments, **options):
        result = s.run("predict", "--model", self.model, *arguments, **options)
        self.assertExit(result, 0)
        return result.out.split("\n")[:-1]


class Batches(Predict):
    def test_the_same_bytes_whatever_the_batch(self):
        """Nine digits say a float32 in full: equal lines are equal bits."""
        lines = "\n".join(TEXTS) + "\n"
        together = self.predict(stdin=lines)
        self.assertEqual(len(together), len(TEXTS))
        self.assertEqual(self.predict("--", *TEXTS), together)
        self.assertEqual(self.predict("--file", self.write("t.txt", lines)), together)
        self.assertEqual(self.predict(stdin="\n".join(reversed(TEXTS)) + "\n"), together[::-1])
        for i in (0, 31, 32, 74, 77):
            self.assertEqual(self.predict("--", TEXTS[i]), together[i:i + 1])

    def test_threads_do_not_matter(self):
        lines = "\n".join(TEXTS) + "\n"
        self.assertEqual(self.predict(stdin=lines, before=("taskset", "-c", str(min(os.sched_getaffinity(0))))), self.predict(stdin=lines))

    def test_answers_come_at_once(self):
        """A line that stands alone is answered before the next is sent; half a line keeps nobody waiting."""
        process = subprocess.Popen(s.command(["predict", "--model", self.model]), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=s.environment())
        self.addCleanup(process.kill)
        patience = threading.Timer(60, process.kill)
        patience.start()
        self.addCleanup(patience.cancel)
        answers = []
        for text in (b"one\n", b"two\nthree\nfo", b"ur\n"):
            process.stdin.write(text)
            process.stdin.flush()
            answers += [process.stdout.readline() for _ in range(text.count(b"\n"))]
        process.stdin.write(b"five")
        process.stdin.close()
        answers += process.stdout.readlines()
        process.stdout.close()
        self.assertEqual(process.wait(timeout=60), 0)
        self.assertEqual([a.decode()[:-1] for a in answers], self.predict("one", "two", "three", "four", "five"))

    def test_what_came_before_an_error_is_answered(self):
        result = s.run("predict", "--model", self.model, stdin=b"fine\nfine too\nbad \xff\nnever\n")
        self.assertExit(result, 65, "standard input:3", "UTF-8")
        self.assertEqual(result.out.split("\n")[:-1], self.predict("fine", "fine too"))
        long = "very " * 400
        result = s.run("predict", "--model", self.model, "--no-truncation", "--", "fine", long, "never")
        self.assertExit(result, 65, "text 2", "--no-truncation")
        self.assertEqual(result.out.split("\n")[:-1], self.predict("fine"))
        self.assertEqual([json.loads(a).get("truncated") for a in self.predict("fine", long)], [None, True])

    def test_long_lines(self):
        """Longer than what is read at a time, and many of them."""
        long = "so happy " * 20000
        answers = self.predict(stdin=f"{long}\nshort\n{long}")
        self.assertEqual(answers[0], answers[2])
        self.assertEqual(answers[1], self.predict("short")[0])


class Files(Predict):
    PAIRS = [("happy day", "so it was"), ("no, \"never\"", "and\tagain"), ("a\nb", "c"), ("", "alone")]

    def jsonl(self, name, text="text", pair="pair"):
        return self.write(name, "".join(json.dumps({text: a, pair: b}) + "\n" for a, b in self.PAIRS))

    def csv(self, name, mark=","):
        quote = lambda value: '"' + value.replace('"', '""') + '"'
        return self.write(name, f"text{mark}pair\n" + "".join(f"{quote(a)}{mark}{quote(b)}\n" for a, b in self.PAIRS))

    def test_formats(self):
        singles = self.predict("--", *[a for a, _ in self.PAIRS])
        pairs = [self.predict("--pair", b, "--", a)[0] for a, b in self.PAIRS]
        self.assertNotEqual(singles, pairs)
        for path in (self.jsonl("p.jsonl"), self.csv("p.csv")):
            with self.subTest(path=path):
                self.assertEqual(self.predict("--file", path), singles)
                self.assertEqual(self.predict("--file", path, "--data.columns.pair", "pair"), pairs)
        self.assertEqual(self.predict("--file", self.jsonl("q.txt", "a", "b"), "--data.format", "jsonl", "--data.columns.text", "a",
                                      "--data.columns.pair", "b"), pairs)

    def test_tsv(self):
        path = self.write("t.tsv", "label\ttext\njoy\thappy day\n\tno \"day\"\n")
        self.assertEqual(self.predict("--file", path), self.predict("happy day", 'no "day"'))

    def test_more_rows_than_a_batch(self):
        path = self.write("t.jsonl", "".join(json.dumps({"text": t}) + "\n" for t in TEXTS))
        self.assertEqual(self.predict("--file", path), self.predict("--", *TEXTS))

    def test_pair_of_every_line(self):
        self.assertEqual(self.predict("--pair", "x y", stdin="a\nb\n"), self.predict("--pair", "x y", "a", "b"))
        self.assertNotEqual(self.predict("--pair", "x y", "a"), self.predict("a"))
        self.assertNotEqual(self.predict("--pair", "", "a"), self.predict("a"))

    def test_refused(self):
        path = self.jsonl("p.jsonl")
        for arguments, rc, words in ((["--file", path, "a"], 64, ["not both"]), (["--json", "a"], 64, ["--bench"]),
                                     (["--data.columns.pair", "pair", "a"], 64, ["--data.columns"]), (["--data.format", "csv"], 64, ["--file"]),
                                     (["--file", path, "--pair", "x"], 64, ["--data.columns.pair"]), (["--file", path, "--bench"], 64, ["--bench"]),
                                     (["--file", path, "--data.columns.text", "txt"], 65, ["txt"]), (["--file", self.path("none")], 65, ["none"]),
                                     (["--file", self.path("none.csv")], 65, ["none.csv"]), (["--pair", b"\xff", "a"], 65, ["--pair"]),
                                     (["--question", "q"], 64, ["--question"])):
            with self.subTest(arguments=arguments):
                self.assertRefused(s.run("predict", "--model", self.model, *arguments), rc, *words)


class Bench(Predict):
    def test_json(self):
        lines = self.predict("--bench", "--json")
        self.assertEqual(len(lines), 1)
        report = json.loads(lines[0])
        self.assertEqual([b["batch"] for b in report["batches"]], [1, 8, 32])
        for batch in report["batches"]:
            self.assertGreaterEqual(batch["n"], 20)
            self.assertTrue(0 < batch["p50_ms"] <= batch["p95_ms"] <= batch["p99_ms"], batch)
            self.assertGreater(batch["tokens_per_s"], batch["texts_per_s"])
        self.assertEqual(report["texts"], 256)
        self.assertGreaterEqual(report["threads"], 1)

    def test_on_given_texts(self):
        out = self.predict("--bench", "--pair", "so", "one text", "another text")
        self.assertIn("2 texts", out[0])
        self.assertEqual([line.split()[0] for line in out[2:]], ["1", "8", "32"])


class Tokenize(Predict):
    def test_answers_come_at_once(self):
        process = subprocess.Popen(s.command(["tokenize", "--model", self.model]), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=s.environment())
        self.addCleanup(process.kill)
        patience = threading.Timer(60, process.kill)
        patience.start()
        self.addCleanup(patience.cancel)
        for text in (b"one\n", b"two\n"):
            process.stdin.write(text)
            process.stdin.flush()
            self.assertIn("ids", json.loads(process.stdout.readline()))
        process.stdin.close()
        process.stdout.close()
        self.assertEqual(process.wait(timeout=60), 0)


if __name__ == "__main__":
    s.main()
