# SPDX-License-Identifier: Apache-2.0
"""`bench`: keys and sane values, never speed; nothing left behind; wrong flags."""
import json
import os

import support as s


class Bench(s.Case):
    def bench(self, *arguments, **options):
        """The JSON object that `bench … --json` prints."""
        result = s.run("bench", *arguments, "--json", **options)
        self.assertExit(result, 0)
        lines = result.out.splitlines()
        self.assertEqual(len(lines), 1, "one JSON object and nothing else")
        return json.loads(lines[0])

    def assertPositive(self, found, *keys):
        for key in keys:
            self.assertGreater(found[key], 0, key)

    def refused(self, rc, message, *arguments):
        result = s.run("bench", *arguments)
        self.assertExit(result, rc)
        self.assertIn(message, result.err)
        self.assertEqual(result.out, "")


class Names(Bench):
    def test_help(self):
        result = s.run("bench", "--help")
        self.assertExit(result, 0)
        for name in ("tokenize",):
            self.assertIn(name, result.out)
            self.assertExit(s.run("bench", name, "--help"), 0)

    def test_unknown(self):
        self.refused(64, "did you mean tokenize", "tokenise")
        self.refused(64, "not in this version yet", "comm")
        self.refused(64, "--seconds", "tokenize", "--second", "1")


class Tokenize(Bench):
    KEYS = ("tweets", "tokens", "bytes", "tweets_per_s", "tokens_per_s", "mb_per_s", "first_tweets_per_s", "threads")

    def test_made(self):
        found = self.bench("tokenize", "--seconds", 1)
        self.assertEqual(found["kind"], "bpe")
        self.assertPositive(found, *self.KEYS)
        self.assertEqual(found["tokens"], found["bytes"] + 2 * found["tweets"], "a vocabulary of bytes, and <s> and </s>")

    def test_files(self):
        model = s.model_make(self.path("model"))
        path = self.path("texts.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write("".join(text + "\n" for text, _ in s.rows_make(50)) + "\n")
        for arguments in ([path], ["--file", path]):
            found = self.bench("tokenize", "--model", model, "--seconds", 1, *arguments)
            self.assertPositive(found, *self.KEYS)
            self.assertEqual(found["tweets"], 51, "a blank row is a text")
        self.assertEqual(self.bench("tokenize", path, path, "--seconds", 1)["tweets"], 102)
        data = s.task_make(self.path("data"))
        self.assertEqual(self.bench("tokenize", "--data.dir", data, "--data.task", "emotion", "--seconds", 1)["tweets"], 24)

    def test_table(self):
        result = s.run("bench", "tokenize", "--seconds", 1)
        self.assertExit(result, 0)
        self.assertIn("tweets/s", result.out)

    def test_wrong(self):
        path = self.path("bad.txt")
        with open(path, "wb") as file:
            file.write(b"good\nb\xffad\n")
        self.refused(65, f"{path}:2: byte 2", "tokenize", path)
        self.refused(65, "missing.txt", "tokenize", "--file", self.path("missing.txt"))
        self.refused(64, "go together", "tokenize", "--data.dir", ".")
        self.refused(64, "not both", "tokenize", "--file", path, path)
        self.refused(65, "vocab", "tokenize", "--model", os.path.dirname(path))


if __name__ == "__main__":
    s.main()
