# SPDX-License-Identifier: Apache-2.0
"""Data that is refused before any step, with file:line and value; odd characters that break nothing; the cache of token shards."""
import os
import shutil
import time

import support as s

VERBS = ("run", "prepare")


class DataCase(s.Case):
    def setUp(self):
        super().setUp()
        self.data = s.task_make(self.path("d"), classes=3)

    def file(self, name, task="emotion"):
        return os.path.join(self.data, task, name)

    def arguments(self, out, task="emotion"):
        return ["--model.base", "random:tiny", "--data.dir", self.data, "--data.task", task, "--data.max_length", 40,
                "--out", out, "--threads", 1, "--train.epochs", 1, "--train.batch", 8]

    def refused(self, rc, *words, task="emotion"):
        """Both verbs refuse, no step is made, and no shard of it stays."""
        for verb in VERBS:
            out = self.path(f"o-{verb}")
            shutil.rmtree(out, ignore_errors=True)
            self.assertRefused(s.run(verb, *self.arguments(out, task)), rc, *words)
            if os.path.exists(os.path.join(out, "events.jsonl")):
                self.assertEqual(s.events(out, "start") + s.events(out, "step"), [])
            self.assertFalse(os.path.exists(os.path.join(out, "model")))


class OwnTask(DataCase):
    """A folder in TweetEval's layout with a name that is none of its tasks; a slip of that name finds it."""

    def test_own_name(self):
        os.rename(os.path.join(self.data, "emotion"), os.path.join(self.data, "support"))
        out = self.path("o")
        self.assertEqual(s.run("run", *self.arguments(out, "support")).rc, 0)
        self.assertEqual(s.events(out, "eval")[-1]["official"]["name"], "macro_f1")
        self.refused(64, "data.task", "suport", "did you mean support", task="suport")


class Refused(DataCase):
    def test_labels(self):
        for bad in ("3", "-1", "1.0", "", "+1", "01", " 1", "1 ", "joy", "1e0", "4294967296", "18446744073709551617"):
            for split, line in (("train", 5), ("val", 2), ("test", 12)):
                with self.subTest(bad=bad, split=split):
                    path = self.file(f"{split}_labels.txt")
                    rows = good = s.file_lines(path)
                    rows = rows[:line - 1] + [bad.encode()] + rows[line:]
                    self.write(path, b"\n".join(rows) + b"\n")
                    self.refused(65, f"{path}:{line}", f'"{bad}"')
                    self.write(path, b"\n".join(good) + b"\n")

    def write(self, name, content):
        with open(name, "wb") as file:
            file.write(content)
        return name

    def test_lengths(self):
        for part in ("text", "labels"):
            path = self.file(f"train_{part}.txt")
            rows = s.file_lines(path)
            self.write(path, b"\n".join(rows[:-1]) + b"\n")
            self.refused(65, "train_text.txt", "train_labels.txt", "23", "24")
            self.write(path, b"\n".join(rows) + b"\n")

    def test_a_blank_row_more_counts(self):
        path = self.file("val_text.txt")
        self.write(path, b"\n".join(s.file_lines(path)) + b"\n\n")
        self.refused(65, "val_text.txt", "13", "12")

    def test_missing_split(self):
        for name in ("train_text.txt", "val_labels.txt", "test_text.txt", "mapping.txt"):
            with self.subTest(name=name):
                path = self.file(name)
                os.rename(path, path + ".away")
                self.refused(65, name)
                os.rename(path + ".away", path)

    def test_empty_split(self):
        for name in ("train_text.txt", "train_labels.txt"):
            self.write(self.file(name), b"")
        self.refused(65, "train")

    def test_missing_task(self):
        self.refused(65, "hate", task="hate")

    def test_folder_of_the_task_itself(self):
        self.data = os.path.join(self.data, "emotion")
        self.refused(65, self.data)

    def test_invalid_utf8(self):
        for bad in (b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\x80"):
            with self.subTest(bad=bad):
                path = self.file("test_text.txt")
                good = s.file_lines(path)
                self.write(path, b"\n".join(good[:6] + [b"caf" + bad + b" end"] + good[7:]) + b"\n")
                self.refused(65, f"{path}:7", f"0x{bad[0]:02x}")
                self.write(path, b"\n".join(good) + b"\n")

    def test_bad_mapping(self):
        for content in (b"", b"0\tanger\n0\tjoy\n", b"0\tanger\n2\tjoy\n", b"anger\njoy\n", b"0\tanger\n1\tanger\n2\tjoy\n", b"0\t\n", b"x\tanger\n",
                        b"0\tanger\n1\t\xff\n"):
            with self.subTest(content=content):
                self.write(self.file("mapping.txt"), content)
                self.refused(65, self.file("mapping.txt"))

    def test_too_long_without_truncation(self):
        path = self.file("train_text.txt")
        rows = s.file_lines(path)
        self.write(path, b"\n".join(rows[:3] + [b"word " * 60] + rows[4:]) + b"\n")
        for verb in VERBS:
            out = self.path("o")
            result = s.run(verb, *self.arguments(out), "--data.truncation", "false", "--data.max_length", 200)
            self.assertRefused(result, 65, f"{path}:4", "200")


class Odd(DataCase):
    """Characters that other readers split at or strip."""

    TEXTS = ['a "quoted" tweet', 'one " quote', "a\ttab", "carriage\rreturn", "ends in return\r", "\u2028line\u2028separator", "\u0085next line",
             "trailing blank ", " leading", "", "   ", "\x0bvertical\x0cform", "\x1c\x1d\x1e\x1f", "nul\0inside", "\ufeffbom", "</s><s><mask><pad>",
             "\U0001f468\u200d\U0001f469\u200d\U0001f467", "comma, semicolon; 'quote'", "\\n \\t \\", "e\u0301", "\u202eright to left", "&amp; <b>", "#"]

    def rows(self):
        return [(text.encode(), i % 3) for i, text in enumerate(self.TEXTS)]

    def test_break_nothing(self):
        rows = self.rows()
        for split in ("train", "val", "test"):
            s.split_write(os.path.join(self.data, "emotion"), split, rows)
        out = self.path("o")
        self.train(*self.arguments(out))
        start, = s.events(out, "start")
        self.assertEqual([start["data"][k] for k in ("train", "val", "test")], [len(rows)] * 3)
        # The predictions of the file and of the texts one by one are the same, so the rows are the same.
        predictions = self.path("p.txt")
        self.assertExit(s.run("eval", "--model", f"{out}/model", "--data.dir", self.data, "--data.task", "emotion", "--predictions", predictions), 0)
        answers = s.run("predict", "--model", f"{out}/model", stdin=b"".join(text + b"\n" for text, _ in rows)).lines()
        labels = {name: i for i, name in enumerate(s.LABELS[:3])}
        self.assertEqual([int(v) for v in s.file_lines(predictions)], [labels[a["label"]] for a in answers])

    def test_shards_hold_the_same_tokens(self):
        """The report of lengths is that of `tokenize`."""
        rows = self.rows()
        s.split_write(os.path.join(self.data, "emotion"), "train", rows)
        out = self.path("shards")
        result = s.run("prepare", *self.arguments(out), "--model.base", s.model_make(self.path("m")), "--data.max_length", 12)
        self.assertExit(result, 0)
        lines = s.run("tokenize", "--model", self.path("m"), stdin=b"".join(text + b"\n" for text, _ in rows)).lines()
        full = [len(line["ids"]) for line in lines]
        kept = [min(n, 12) for n in full]
        train = next(line for line in result.out.splitlines() if line.startswith("train")).split()
        self.assertEqual([int(train[1]), int(train[2])], [len(rows), sum(kept)])
        self.assertEqual([int(train[-2]), int(train[-1])], [sum(n > 12 for n in full), sum(full) - sum(kept)], result.out)

    def test_without_a_newline_at_the_end(self):
        for part in ("text", "labels"):
            path = self.file(f"train_{part}.txt")
            rows = s.file_lines(path)
            with open(path, "wb") as file:
                file.write(b"\n".join(rows))
        result = s.run("prepare", *self.arguments(self.path("o")))
        self.assertExit(result, 0)
        self.assertRegex(result.out, r"(?m)^train\s+24\b")

    def test_mapping_with_a_third_column(self):
        with open(self.file("mapping.txt"), "wb") as file:
            file.write(b"0\tanger\tx\n1\tjoy\t:)\n2\tsadness\t\xf0\x9f\x98\xa2")
        out = self.path("o")
        self.train(*self.arguments(out))
        self.assertEqual(list(s.json_read(f"{out}/model/config.json")["id2label"].values()), ["anger", "joy", "sadness"])


class Notices(DataCase):
    def test_lengths_and_cuts_are_told(self):
        result = s.run("run", *self.arguments(self.path("o")), "--data.max_length", 20, "--train.max_steps", 1)
        self.assertExit(result, 0)
        for split in ("train", "val", "test"):
            self.assertRegex(result.err, rf"data: {split}: \d+ texts, .*tokens.*truncation cuts \d+ texts")

    def test_texts_that_train_and_test_share(self):
        rows = s.rows_make(24, 3)
        s.split_write(os.path.join(self.data, "emotion"), "test", rows[:5])
        result = self.train(*self.arguments(self.path("o")), "--train.max_steps", 1)
        said = [line for line in result.err.splitlines() if "5 of 5 test texts" in line]
        self.assertEqual(len(said), 1, result)

    def test_uneven_labels(self):
        rows = [(text, 0 if i else 1) for i, (text, _) in enumerate(s.rows_make(200, 3))] + [("last", 2)]
        s.split_write(os.path.join(self.data, "emotion"), "train", rows)
        result = self.train(*self.arguments(self.path("o")), "--train.max_steps", 1)
        said = [line for line in result.err.splitlines() if "uneven" in line]
        self.assertEqual(len(said), 1, result)

    def test_labels_that_look_alike(self):
        header = "text,label\n"
        rows = [f"{text},{label}\n" for i, (text, _) in enumerate(s.rows_make(8)) for label in [["joy", " Joy", "anger"][i % 3]]]
        for split in ("train", "val"):
            self.write(f"csv/{split}.csv", header + "".join(rows))
        result = self.train("--model.base", "random:tiny", "--data.format", "csv", "--data.dir", self.path("csv"), "--out", self.path("o"), "--train.max_steps", 1)
        self.assertIn('3 labels: " Joy" anger joy', result.err)
        self.assertIn('" Joy" and "joy" differ in blanks or case only', result.err)


class Stance(DataCase):
    TARGETS = ["abortion", "atheism", "climate", "feminist", "hillary"]

    def setUp(self):
        super().setUp()
        folder = os.path.join(self.data, "stance")
        first = 0
        for n, target in enumerate(self.TARGETS):
            os.makedirs(os.path.join(folder, target))
            for split, rows in (("train", 4 + n), ("val", 3), ("test", 2 + n)):
                s.split_write(os.path.join(folder, target), split, s.rows_make(rows, 3, first))
                first += rows
        s.mapping_write(folder, ["none", "against", "favor"])

    def test_joined_and_single(self):
        result = s.run("prepare", *self.arguments(self.path("joined"), "stance"))
        self.assertExit(result, 0)
        self.assertRegex(result.out, r"(?m)^train\s+30\b")
        self.assertRegex(result.out, r"(?m)^val\s+15\b")
        self.assertRegex(result.out, r"(?m)^test\s+20\b")
        result = s.run("prepare", *self.arguments(self.path("one"), "stance/climate"))
        self.assertExit(result, 0)
        self.assertRegex(result.out, r"(?m)^train\s+6\b")

    def test_run(self):
        out = self.path("o")
        self.train(*self.arguments(out, "stance"))
        event = s.events(out, "eval")[-1]
        f1 = [c["f1"] for c in event["per_class"]]
        self.assertAlmostEqual(event["official"]["value"], (f1[1] + f1[2]) / 2, places=6)
        self.assertEqual(sum(map(sum, event["confusion"])), 20)

    def test_predictions_can_be_scored(self):
        """What eval writes for the five targets is what score reads: TweetEval's files."""
        out, predictions = self.path("o"), self.path("p")
        os.makedirs(predictions)
        self.train(*self.arguments(out, "stance"))
        result = s.run("eval", "--model", f"{out}/model", "--data.dir", self.data, "--data.task", "stance",
                       "--predictions", os.path.join(predictions, "stance"), "--json")
        self.assertExit(result, 0)
        score = s.run("score", "--data.dir", self.data, "--predictions", predictions, "--task", "stance", "--json")
        self.assertExit(score, 0)
        self.assertAlmostEqual(score.lines()[0]["tasks"]["stance"], result.lines()[0]["official"]["value"], places=8)

    def test_bad_row_names_the_targets_file(self):
        path = self.file("feminist/train_labels.txt", "stance")
        rows = s.file_lines(path)
        with open(path, "wb") as file:
            file.write(b"\n".join(rows[:2] + [b"5"] + rows[3:]) + b"\n")
        self.refused(65, f"{path}:3", '"5"', task="stance")


class Real(s.Case):
    """TweetEval itself."""

    def prepare(self, task, *more):
        folder, cache = s.golden("FINETUNED_DATA", "tweet_eval"), self.path("cache")
        return folder, s.run("prepare", "--model.base", "random:tiny", "--data.dir", folder, "--data.task", task, "--out", cache, *more)

    def test_every_row_is_there(self):
        for task in ("emotion", "irony", "offensive", "stance", "stance/hillary"):
            with self.subTest(task=task):
                folder, result = self.prepare(task)
                self.assertExit(result, 0)
                for split in ("train", "val", "test"):
                    targets = [task] if task != "stance" else [f"stance/{t}" for t in Stance.TARGETS]
                    rows = sum(len(s.file_lines(os.path.join(folder, t, f"{split}_labels.txt"))) for t in targets)
                    self.assertRegex(result.out, rf"(?m)^{split}\s+{rows}\b")

    def test_a_split_that_is_not_there(self):
        folder, result = self.prepare("sentiment")
        if os.path.exists(os.path.join(folder, "sentiment", "train_text.txt")):
            s.skip("this copy of TweetEval has a train split for sentiment")
        self.assertRefused(result, 65, "sentiment", "train_text.txt")


class Cache(DataCase):
    def setUp(self):
        super().setUp()
        self.base = s.model_make(self.path("m"))

    def prepare(self, *more):
        result = s.run("prepare", *self.arguments(self.path("cache")), "--model.base", self.base, *more)
        self.assertExit(result, 0)
        return result

    def shards(self):
        """name -> (inode, time of last write) of what is in the cache."""
        folder = self.path("cache")
        return {name: (os.stat(os.path.join(folder, name)).st_ino, os.stat(os.path.join(folder, name)).st_mtime_ns)
                for name in os.listdir(folder) if name.endswith(".shard")}

    def test_reused(self):
        self.prepare()
        before = self.shards()
        self.assertEqual(len(before), 3)
        self.prepare()
        self.assertEqual(self.shards(), before, "nothing changed: nothing is written")
        out = self.path("o")
        self.train(*self.arguments(out), "--model.base", self.base, "--data.cache", self.path("cache"))
        self.assertEqual(self.shards(), before, "a run finds them")
        self.assertFalse(os.path.exists(os.path.join(out, "shards")))

    def test_touched_only(self):
        self.prepare()
        before = self.shards()
        now = time.time()
        os.utime(self.file("train_text.txt"), (now + 5, now + 5))
        self.prepare()
        self.assertEqual(set(self.shards()), set(before), "content counts, not time")

    def changed(self, split="train"):
        """Some shard of `split` was made anew and is used."""
        before = self.shards()
        result = self.prepare()
        made = {name for name, stat in self.shards().items() if before.get(name) != stat}
        self.assertTrue(any(split in name for name in made), f"{made}: {result}")
        return result

    def test_rebuilt_for_a_text(self):
        self.prepare()
        path = self.file("train_text.txt")
        rows = s.file_lines(path)
        with open(path, "wb") as file:  # the same length, the same time
            file.write(b"\n".join([rows[0][:-1] + b"!"] + rows[1:]) + b"\n")
        self.changed()

    def test_rebuilt_for_a_label(self):
        self.prepare()
        path, stat = self.file("val_labels.txt"), os.stat(self.file("val_labels.txt"))
        rows = s.file_lines(path)
        with open(path, "wb") as file:
            file.write(b"\n".join([b"%d" % ((int(rows[0]) + 1) % 3)] + rows[1:]) + b"\n")
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        self.changed("val")

    def test_rebuilt_for_an_option(self):
        self.prepare()
        before = self.shards()
        self.prepare("--data.max_length", 30)
        self.assertEqual(len(set(self.shards()) - set(before)), 3)
        self.prepare("--data.special_tokens", "parse")
        self.assertEqual(len(set(self.shards()) - set(before)), 6)

    def test_rebuilt_for_a_tokenizer(self):
        self.prepare()
        path = os.path.join(self.base, "merges.txt")
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(line for line in lines if line != "i n"))
        self.changed()

    def test_broken_shard_is_rebuilt(self):
        self.prepare()
        folder = self.path("cache")
        name = next(n for n in sorted(os.listdir(folder)) if "train" in n and n.endswith(".shard"))
        path = os.path.join(folder, name)
        with open(path, "rb") as file:
            good = file.read()
        for broken in (b"", good[:100], good[:-1], good[:len(good) // 2] + bytes([good[len(good) // 2] ^ 1]) + good[len(good) // 2 + 1:], b"x" * len(good)):
            with open(path, "wb") as file:
                file.write(broken)
            self.prepare()
            with open(path, "rb") as file:
                self.assertEqual(file.read(), good)

    def test_inspect(self):
        self.prepare()
        name = next(n for n in os.listdir(self.path("cache")) if "train" in n and n.endswith(".shard"))
        result = s.run("inspect", "--verify", self.path("cache", name))
        self.assertExit(result, 0)
        self.assertIn("24", result.out)
        with open(self.path("cache", name), "r+b") as file:
            file.truncate(200)
        self.assertRefused(s.run("inspect", "--verify", self.path("cache", name)), 65, name)

    def test_several_at_once(self):
        """Six processes make the same shards at the same time."""
        arguments = [*self.arguments(self.path("cache")), "--model.base", self.base]
        results = [s.finish(p) for p in [s.start("prepare", *arguments) for _ in range(6)]]
        for result in results:
            self.assertExit(result, 0)
            self.assertEqual(result.out, results[0].out)
        self.assertEqual(len(self.shards()), 3)
        self.assertEqual([n for n in os.listdir(self.path("cache")) if "tmp" in n], [])

    def test_ranks_at_once(self):
        out = self.path("o")
        self.train(*self.arguments(out), "--model.base", self.base, ranks=2)
        self.assertEqual(len([n for n in os.listdir(os.path.join(out, "shards")) if n.endswith(".shard")]), 3)


if __name__ == "__main__":
    s.main()
