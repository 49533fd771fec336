# SPDX-License-Identifier: Apache-2.0
"""`tokenize`: the reference's ids and byte offsets through the program, pairs, truncation, special tokens, bad input."""
import collections
import json
import os
import shutil

import support as s


class Golden(s.Case):
    """Every line of the reference, grouped by the options that it needs."""

    def groups(self, name):
        groups = collections.defaultdict(list)
        with open(s.golden("FINETUNED_GOLDEN", name), "rb") as file:
            for line in file.read().split(b"\n")[:-1]:
                item = json.loads(line)
                groups[item["special"], item.get("max_length"), item.get("add_prefix_space", False)].append(item)
        return groups

    def vocabulary(self, vocabulary, prefix):
        """The vocabulary's files, and a tokenizer_config.json that says add_prefix_space."""
        folder = self.path(f"{vocabulary}-{prefix}")
        if not os.path.exists(folder):
            shutil.copytree(s.golden("FINETUNED_VOCAB", vocabulary), folder)
            os.chmod(folder, 0o755)
            s.json_write(os.path.join(folder, "tokenizer_config.json"), {"add_prefix_space": prefix} if "roberta" in vocabulary else {"do_lower_case": True})
        return folder

    def compare(self, item, got):
        self.assertEqual(got["ids"], item["ids"], item)
        self.assertEqual(len(got["tokens"]), len(got["ids"]), item)
        if "offsets" in item:
            self.assertEqual(got["offsets"], item["offsets"], item)

    def check(self, name, vocabulary):
        lines = 0
        for (special, length, prefix), items in sorted(self.groups(name).items(), key=str):
            options = ["--special", special, *(["--max-length", length] if length else [])]
            keep = [{k: item[k] for k in ("text", "pair") if k in item} for item in items]
            stdin = "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in keep)
            result = s.run("tokenize", "--model", self.vocabulary(vocabulary, prefix), *options, "--jsonl", stdin=stdin)
            self.assertExit(result, 0)
            got = result.lines()
            self.assertEqual(len(got), len(items))
            for item, answer in zip(items, got):
                self.compare(item, answer)
            lines += len(items)
        print(f"{name}: {lines} lines")
        self.assertGreater(lines, 100)

    def test_roberta(self):
        self.check("tokenizer_roberta.jsonl", "roberta-base")

    def test_bert(self):
        self.check("tokenizer_bert.jsonl", "bert-base-uncased")


class Own(s.Case):
    """Needs no reference: a byte-level tokenizer of ours, whose ids can be told by hand."""

    def setUp(self):
        super().setUp()
        self.model = s.model_make(self.path("m"), s.LABELS)
        self.ids = s.json_read(os.path.join(self.model, "vocab.json"))

    def tokenize(self, *arguments, **options):
        result = s.run("tokenize", "--model", self.model, *arguments, **options)
        self.assertExit(result, 0)
        return result.lines()

    def spell(self, *names):
        return [self.ids[name] for name in names]

    def test_arguments(self):
        one, two = self.tokenize("happy", "the happy")
        self.assertEqual(one["ids"], self.spell("<s>", "happ", "y", "</s>"))
        self.assertEqual(one["tokens"], ["<s>", "happ", "y", "</s>"])
        self.assertEqual(one["offsets"], [[0, 0], [0, 4], [4, 5], [0, 0]])
        self.assertEqual(two["ids"], self.spell("<s>", "the", "\u0120", "happ", "y", "</s>"))

    def test_offsets_are_bytes(self):
        answer, = self.tokenize("\u00e9\U0001f602a")
        self.assertEqual(answer["offsets"][1:-1], [[0, 2], [0, 2], [2, 6], [2, 6], [2, 6], [2, 6], [6, 7]])

    def test_lines_of_standard_input(self):
        text = "happy\n\nthe\r\nlast without newline"
        answers = self.tokenize(stdin=text)
        self.assertEqual(len(answers), 4)
        self.assertEqual(answers[1]["ids"], self.spell("<s>", "</s>"), "a blank line is a text")
        self.assertEqual(answers[2]["offsets"][-2], [3, 4], "a carriage return belongs to the text")
        path = self.write("texts.txt", text)
        self.assertEqual(self.tokenize("--file", path), answers)

    def test_separators_that_are_no_newline(self):
        for odd in ("\u2028", "\u0085", "\x0b", "\x0c", "\x1c"):
            self.assertEqual(len(self.tokenize(stdin=f"a{odd}b\n")), 1)

    def test_pair(self):
        answer, = self.tokenize("--pair", "and", "the")
        self.assertEqual(answer["ids"], self.spell("<s>", "the", "</s>", "</s>", "and", "</s>"))
        self.assertEqual(answer["offsets"], [[0, 0], [0, 3], [0, 0], [0, 0], [0, 3], [0, 0]])
        lines = self.tokenize("--jsonl", stdin='{"text": "the", "pair": "and"}\n{"text": "the", "pair": null}\n{"text": "the"}\n')
        self.assertEqual(lines[0], answer)
        self.assertEqual(lines[1], lines[2])

    def test_max_length(self):
        full, = self.tokenize("the happy the happy")
        cut, = self.tokenize("--max-length", 5, "the happy the happy")
        self.assertEqual(cut["ids"], full["ids"][:4] + full["ids"][-1:])
        self.assertEqual(len(full["ids"]), 2 + len(["the", " ", "happ", "y", " t", "h", "e", " ", "happ", "y"]), "not cut unless told to")
        long, = self.tokenize("a" * 5000)
        self.assertEqual(len(long["ids"]), 5002, "not cut to the model's length either")

    def test_special(self):
        literal, = self.tokenize("--special", "literal", "</s>the")
        parsed, = self.tokenize("--special", "parse", "</s>the")
        self.assertEqual(parsed["ids"], self.spell("<s>", "</s>", "the", "</s>"))
        self.assertNotIn(self.ids["</s>"], literal["ids"][1:-1])
        self.assertEqual(self.tokenize("</s>the"), [literal], "user text injects nothing unless told to")

    def test_special_recorded_with_the_model(self):
        s.json_write(os.path.join(self.model, "finetuned.json"), {"format": 1, "special_tokens": "parse"})
        answer, = self.tokenize("</s>")
        self.assertEqual(answer["ids"], self.spell("<s>", "</s>", "</s>"))

    def test_nul(self):
        answer, = self.tokenize("--jsonl", stdin='{"text": "a\\u0000b"}\n')
        self.assertEqual(answer["ids"], self.spell("<s>", "a", "\u0100", "b", "</s>"))
        answer, = self.tokenize(stdin=b"a\0b\n")
        self.assertEqual(answer["ids"], self.spell("<s>", "a", "\u0100", "b", "</s>"))

    def test_nothing(self):
        self.assertEqual(self.tokenize(stdin=b""), [])
        self.assertEqual(self.tokenize("")[0]["ids"], self.spell("<s>", "</s>"))

    def test_invalid_utf8(self):
        for bad in (b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82"):
            with self.subTest(bad=bad):
                result = s.run("tokenize", "--model", self.model, stdin=b"fine\nab" + bad + b"\n")
                self.assertExit(result, 65, "standard input:2", f"0x{bad[0]:02x}")
                path = self.write("bad.txt", b"fine\nab" + bad + b"\n")
                self.assertExit(s.run("tokenize", "--model", self.model, "--file", path), 65, f"{path}:2")
        self.assertExit(s.run("tokenize", "--model", self.model, b"a\xff"), 65, "0xff")
        self.assertExit(s.run("tokenize", "--model", self.model, "--jsonl", stdin=b'{"text": "\xff"}\n'), 65, "standard input:1")
        self.assertExit(s.run("tokenize", "--model", self.model, "--pair", b"\xff", "a"), 65, "UTF-8")

    def test_bad_jsonl(self):
        for bad in ("[]", "{}", '{"text": 1}', '{"text": "a", "pair": 2}', '{"text": "a"', "text", '{"text": "\\ud800"}', ""):
            with self.subTest(bad=bad):
                result = s.run("tokenize", "--model", self.model, "--jsonl", stdin='{"text": "a"}\n' + bad + "\n")
                self.assertExit(result, 65, "standard input:2")
        self.assertRefused(s.run("tokenize", "--model", self.model, "--jsonl", "text"), 64)

    def test_bad_tokenizer_files(self):
        for name, content in (("vocab.json", "{"), ("vocab.json", '{"a": "b"}'), ("vocab.json", '{"<s>": 0, "a": 0}'), ("vocab.json", None),
                              ("merges.txt", "#version: 0.2\nonly\n"), ("merges.txt", None), ("tokenizer_config.json", "[")):
            with self.subTest(name=name, content=content):
                folder = self.path("broken")
                shutil.rmtree(folder, ignore_errors=True)
                shutil.copytree(self.model, folder)
                if content is None:
                    os.remove(os.path.join(folder, name))
                else:
                    self.write(f"broken/{name}", content)
                self.assertRefused(s.run("tokenize", "--model", folder, "a"), 65, folder)


if __name__ == "__main__":
    s.main()
