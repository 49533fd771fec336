# SPDX-License-Identifier: Apache-2.0
"""Data of one's own: csv, tsv, jsonl and pairs from train to eval; the same rows in any format give the same weights; data.normalize."""
import csv
import io
import json
import os
import random
import re

import support as s

FORMATS = ("csv", "tsv", "jsonl")
SPLITS = ("train", "val", "test")


def records_text(kind, header, rows, line_end="\n", quoting=csv.QUOTE_MINIMAL):
    """A file of columns as Python's own writers make it."""
    if kind == "jsonl":
        return "".join(json.dumps(dict(zip(header, row)), ensure_ascii=False) + line_end for row in rows)
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter="," if kind == "csv" else "\t", lineterminator=line_end, quoting=quoting)
    writer.writerow(header)
    writer.writerows(rows)
    return file.getvalue()


def text_read(path):
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()


class FormatsCase(s.Case):
    def put(self, folder, split, kind, header, rows, **how):
        return self.write(f"{folder}/{split}.{kind}", records_text(kind, header, rows, **how))

    def own(self, folder, kind, splits=SPLITS, label=lambda i: s.LABELS[i], counts=(24, 12, 12), **how):
        """The rows of support.task_make as files of columns; returns the folder."""
        first = 0
        for split, n in zip(SPLITS, counts):
            if split in splits:
                rows = [(text, label(i)) for text, i in s.rows_make(n, 4, first)]
                self.put(folder, split, kind, ("text", "label"), rows, **how)
            first += n
        return self.path(folder)

    def arguments(self, data, out, kind=None):
        return ["--model.base", "random:tiny", "--data.dir", data, "--out", out, "--threads", 1, "--train.epochs", 1, "--train.batch", 8,
                "--data.max_length", 48, *(["--data.format", kind] if kind else ["--data.task", "emotion"])]

    def weights(self, data, kind=None, *more, **options):
        """The bytes of the trained model's weights, and the hash of its data."""
        out = self.path(f"out{len(os.listdir(self.folder))}")
        self.train(*self.arguments(data, out, kind), *more, **options)
        with open(f"{out}/model/model.safetensors", "rb") as file:
            return file.read(), s.events(out, "start")[0]["data"]["hash"]

    def refused(self, data, kind, rc, *words, more=()):
        """run and prepare refuse, before anything is trained."""
        for verb in ("run", "prepare"):
            out = self.path(f"o-{verb}")
            self.assertRefused(s.run(verb, *self.arguments(data, out, kind), *more), rc, *words)
            self.assertFalse(os.path.exists(os.path.join(out, "model")))


class Same(FormatsCase):
    """One data set in every layout: the same hash of the data, the same weights, bit for bit."""

    def setUp(self):
        super().setUp()
        self.wanted = self.weights(s.task_make(self.path("tweet_eval")))

    def test_names(self):
        for kind in FORMATS:
            with self.subTest(kind=kind):
                self.assertEqual(self.weights(self.own(kind, kind), kind), self.wanted)

    def test_ids_and_names_of_a_mapping(self):
        for kind in FORMATS:
            for name, label in (("ids", str), ("integers", int), ("mixed", lambda i: i if i % 2 else s.LABELS[i])):
                with self.subTest(kind=kind, name=name):
                    data = self.own(f"{kind}-{name}", kind, label=label)
                    s.mapping_write(data, s.LABELS)
                    self.assertEqual(self.weights(data, kind), self.wanted)

    def test_spellings(self):
        """Line ends, quotes and a byte order mark change nothing."""
        data = self.own("crlf", "csv", line_end="\r\n", quoting=csv.QUOTE_ALL)
        path = os.path.join(data, "train.csv")
        with open(path, "rb") as file:
            content = file.read()
        with open(path, "wb") as file:
            file.write(b"\xef\xbb\xbf" + content.rstrip(b"\r\n"))
        self.assertEqual(self.weights(data, "csv"), self.wanted)

    def test_other_columns(self):
        for kind in FORMATS:
            first = 0
            for split, n in zip(SPLITS, (24, 12, 12)):
                rows = [(i, s.LABELS[label], "x,y", text) for i, (text, label) in enumerate(s.rows_make(n, 4, first))]
                self.put(f"columns-{kind}", split, kind, ("id", "feeling", "label", "tweet"), rows)
                first += n
            got = self.weights(self.path(f"columns-{kind}"), kind, "--data.columns.text", "tweet", "--data.columns.label", "feeling")
            self.assertEqual(got, self.wanted)

    def test_two_ranks(self):
        data = self.own("csv", "csv")
        wanted = self.weights(data, "csv", "--train.parts", 4)
        self.assertEqual(self.weights(data, "csv", "--train.parts", 4, ranks=2), wanted)

    def test_complete(self):
        data, out = self.own("csv", "csv"), self.path("o")
        self.train(*self.arguments(data, out, "csv"))
        self.assertIn("already complete", self.train(*self.arguments(data, out, "csv")).err)
        self.assertIn("task: csv", text_read(f"{out}/job.yaml"))
        self.train(f"{out}/job.yaml")  # its paths are absolute, its task is set


class Labels(FormatsCase):
    def labels(self, values, *more):
        """id2label of a model trained on rows with these labels."""
        rows = [(f"text {i} {value}", value) for i, value in enumerate(values)]
        for split in ("train", "val"):
            self.put("d", split, "csv", ("text", "label"), rows)
        out = self.path(f"o{len(os.listdir(self.folder))}")
        self.train(*self.arguments(self.path("d"), out, "csv"), *more)
        config = s.json_read(f"{out}/model/config.json")
        return [config["id2label"][str(i)] for i in range(len(config["id2label"]))]

    def test_order(self):
        self.assertEqual(self.labels(["b", "a", "C", "\u00e9", "b"] * 3), ["C", "a", "b", "\u00e9"])
        self.assertEqual(self.labels([10, 9, -1, 9, 0] * 3), ["-1", "0", "9", "10"])
        self.assertEqual(self.labels(["10", "9", "x"] * 3), ["10", "9", "x"])

    def test_official_metric(self):
        data = self.own("d", "csv", label=lambda i: s.LABELS[i % 2])
        for task, name in (("irony", "f1_of_class_1"), ("sentiment", "macro_recall"), ("mine", "macro_f1")):
            out = self.path(task)
            self.train(*self.arguments(data, out, "csv"), "--data.task", task)
            self.assertEqual(s.events(out, "eval")[-1]["official"]["name"], name)

    def test_refused(self):
        data = self.own("d", "csv")
        val, train = f"{data}/val.csv", f"{data}/train.csv"
        good = text_read(val)
        self.write("d/val.csv", good + '"two\nlines",joyy\n')
        self.refused(data, "csv", 65, f'{val}:14: label "joyy"', "did you mean joy?")
        self.write("d/val.csv", good + "no label,\n")
        self.refused(data, "csv", 65, f"{val}:14: no label")
        self.write("d/val.csv", good + "an id,1\n")
        self.refused(data, "csv", 65, f'{val}:14: label "1"')
        self.write("d/val.csv", good)
        self.write("d/train.csv", "text,label\n" + "".join(f"t{i},l{i}\n" for i in range(30)))
        self.refused(data, "csv", 65, train, "each of the 30 rows has a label of its own", "data.columns.label")
        self.write("d/train.csv", "text,label\n" + "".join(f"t{i},same\n" for i in range(30)))
        self.refused(data, "csv", 65, train, '"same"')
        self.write("d/train.csv", "text,class\na,b\n")
        self.refused(data, "csv", 65, train, 'no column "label"', "data.columns.label", '"class"')

    def test_unlabelled_train(self):
        data = self.own("d", "jsonl")
        self.write("d/train.jsonl", text_read(f"{data}/train.jsonl") + '{"text": "x", "label": null}\n')
        self.refused(data, "jsonl", 65, f"{data}/train.jsonl:25: no label")


class Splits(FormatsCase):
    def test_no_test_split(self):
        for kind in FORMATS:
            with self.subTest(kind=kind):
                data, out = self.own(kind, kind, splits=("train", "val")), self.path(f"o-{kind}")
                result = self.train(*self.arguments(data, out, kind))
                self.assertIn("no test split", result.err)
                self.val_only(out)
                prepared = s.run("prepare", *self.arguments(data, self.path(f"p-{kind}"), kind))
                self.assertExit(prepared, 0)
                self.assertRegex(prepared.out, r"(?m)^val\s+12\b")

    def val_only(self, out):
        self.assertEqual({e["split"] for e in s.events(out, "eval")}, {"val"})
        report = s.json_read(f"{out}/report.json")
        self.assertIsNone(report["test"])
        self.assertIn("macro_f1", report["val"])
        self.assertTrue(os.path.exists(f"{out}/model/model.safetensors"))
        self.assertEqual(s.events(out, "end")[0]["step"], 3)

    def test_test_split_without_labels(self):
        """As competitions give it: no column, or empty cells. It is answered with eval."""
        for name, header, cell in (("column", ("text",), ()), ("cells", ("text", "label"), ("",))):
            data, out = self.own(name, "csv", splits=("train", "val")), self.path(f"o-{name}")
            self.put(name, "test", "csv", header, [(text, *cell) for text, _ in s.rows_make(7, 4, 100)])
            result = self.train(*self.arguments(data, out, "csv"))
            self.assertIn("has no labels", result.err)
            self.val_only(out)

    def test_test_split_partly_labelled(self):
        data, out = self.own("d", "csv"), self.path("o")
        self.write("d/test.csv", text_read(f"{data}/test.csv") + "one more,\n")
        result = self.train(*self.arguments(data, out, "csv"))
        self.assertIn("1 of 13 texts have no label", result.err)
        self.assertEqual(sum(map(sum, s.events(out, "eval")[-1]["confusion"])), 12)

    def test_missing(self):
        data = self.own("d", "csv", splits=("train", "test"))
        self.refused(data, "csv", 65, data, "no val.csv", "train.csv")
        self.refused(self.path("nowhere"), "csv", 65, self.path("nowhere"))
        self.refused(data, "tsv", 65, "no train.tsv", "train.csv")
        self.assertRefused(s.run("run", "--model.base", "random:tiny", "--data.dir", data, "--out", self.path("o")), 64,
                           "data.task", "data.format: csv")


class Refused(FormatsCase):
    """What no file of a format may hold: file, line where the record begins, and the value."""

    CSV = (
        ("a,b,joy\n", 2, ["3 fields", "2"]),
        ("a\n", 2, ["1 field"]),
        ('ok,joy\nsay "hi",joy\n', 3, ['say \\"hi\\"'.replace("\\", ""), "double quote"]),
        ('ok,joy\n"a\nb" c,joy\n', 3, ["closing double quote"]),
        ('ok,joy\n\n"never\nclosed,joy\nx,joy\n', 4, ["never closed"]),
        ("a\rb,joy\n", 2, ["carriage return"]),
    )
    JSONL = (
        ('{"text": "a", "label": "joy"}\n{"text": "a", "text": "b", "label": "joy"}\n', 2, ["duplicate"]),
        ('\n["a", "joy"]\n', 2, ["object"]),
        ('{"text": "a", "label": "joy"\n', 1, ["JSON"]),
        ('{"text": 5, "label": "joy"}\n', 1, ['"text"', "5", "string"]),
        ('{"text": "a", "label": 1.5}\n', 1, ['"label"', "1.5"]),
        ('{"tweet": "a", "label": "joy"}\n', 1, ['"text"', '"tweet"', "data.columns.text"]),
        ('{"text": "\\ud800", "label": "joy"}\n', 1, ["JSON"]),
    )

    def test_csv(self):
        data = self.own("d", "csv")
        for content, line, words in self.CSV:
            with self.subTest(content=content):
                self.write("d/val.csv", "text,label\n" + content)
                self.refused(data, "csv", 65, f"{data}/val.csv:{line}", *words)

    def test_jsonl(self):
        data = self.own("d", "jsonl")
        for content, line, words in self.JSONL:
            with self.subTest(content=content):
                self.write("d/val.jsonl", content)
                self.refused(data, "jsonl", 65, f"{data}/val.jsonl:{line}", *words)

    def test_header(self):
        data = self.own("d", "csv")
        for content, words in (("", ["empty"]), ("tekst,label\na,joy\n", ['"text"', "data.columns.text", "did you mean tekst"]),
                               ("text;label\na;joy\n", ["commas"]), ("text,label,text\n", ["two columns"]),
                               ("text,label\n", ["no rows"]), (b"\xff\xfet\0e\0", ["UTF-16"]), (b"text,label\n\xe9,joy\n", ["val.csv:2", "0xe9"])):
            with self.subTest(content=content):
                self.write("d/val.csv", content)
                self.refused(data, "csv", 65, f"{data}/val.csv", *words)

    def test_one_column_twice(self):
        data = self.own("d", "csv")
        self.refused(data, "csv", 64, "data.columns.text", "data.columns.label", more=["--data.columns.text", "label"])

    def test_label_with_a_control_character(self):
        data = self.own("d", "csv")
        self.write("d/train.csv", 'text,label\na,"j\noy"\nb,anger\n')
        self.refused(data, "csv", 65, f"{data}/train.csv:2", "control character")

    def test_link_that_leads_nowhere(self):
        data = self.own("d", "csv")
        if os.path.exists(f"{data}/test.csv"):
            os.remove(f"{data}/test.csv")
        os.symlink("nowhere.csv", f"{data}/test.csv")
        self.refused(data, "csv", 65, f"{data}/test.csv")

    def test_tabs_take_quotes_inside(self):
        """TSV is mostly written without quoting."""
        data = self.own("d", "tsv")
        self.write("d/val.tsv", 'text\tlabel\nhe said "hi", 5" tall\tjoy\n"quoted\ttab"\tanger\n')
        result = s.run("prepare", *self.arguments(data, self.path("p"), "tsv"))
        self.assertExit(result, 0)
        self.assertRegex(result.out, r"(?m)^val\s+2\b")


class Answers(FormatsCase):
    def setUp(self):
        super().setUp()
        self.model = s.model_make(self.path("m"), s.LABELS)

    def answers(self, *arguments):
        """The lines of --output, and what was said."""
        out = self.path("answers.jsonl")
        result = s.run("eval", "--model", self.model, *arguments, "--output", out)
        self.assertExit(result, 0)
        with open(out, encoding="utf-8") as file:
            return [json.loads(line) for line in file], result


class Eval(Answers):
    def predicted(self, texts, *more):
        return s.run("predict", "--model", self.model, *more, stdin="".join(text + "\n" for text in texts)).lines()

    def test_the_same_in_any_format(self):
        tweets = s.task_make(self.path("t"))
        wanted = s.run("eval", "--model", self.model, "--data.dir", tweets, "--data.task", "emotion", "--json").lines()
        for kind in FORMATS:
            data = self.own(kind, kind)
            for arguments in (["--data.dir", data, "--data.format", kind], ["--data.dir", data, "--data.format", kind, "--split", "test"]):
                self.assertEqual(s.run("eval", "--model", self.model, *arguments, "--json").lines(), wanted)
            one = s.run("eval", "--model", self.model, "--file", f"{data}/test.{kind}", "--json").lines()[0]
            self.assertEqual((one.pop("split"), one.pop("file")), (None, f"{data}/test.{kind}"))
            self.assertEqual(one, {k: v for k, v in wanted[0].items() if k != "split"})

    def test_output(self):
        """Line by line what predict says; gold where there is one."""
        rows = s.rows_make(9, 4)
        path = self.put("x", "some", "csv", ("label", "text"), [("" if i % 3 == 0 else s.LABELS[label], text) for i, (text, label) in enumerate(rows)])
        lines, result = self.answers("--file", path, "--predictions", self.path("ids.txt"), "--json")
        self.assertIn("3 of 9 texts have no label", result.err)
        self.assertEqual(result.lines()[0]["unlabelled"], 3)
        self.assertEqual(sum(map(sum, result.lines()[0]["confusion"])), 6)
        single = self.predicted([text for text, _ in rows])
        for i, line in enumerate(lines):
            self.assertEqual(line["text"], rows[i][0])
            self.assertEqual(line["gold"], None if i % 3 == 0 else s.LABELS[rows[i][1]])
            self.assertEqual({k: line[k] for k in ("label", "score", "scores")}, {k: single[i][k] for k in ("label", "score", "scores")})
            self.assertNotIn("pair", line)
        ids = [int(v) for v in s.file_lines(self.path("ids.txt"))]
        self.assertEqual([s.LABELS[i] for i in ids], [line["label"] for line in lines])
        hits = sum(line["gold"] == line["label"] for line in lines if line["gold"])
        self.assertAlmostEqual(result.lines()[0]["accuracy"], hits / 6, places=8)

    def test_nothing_labelled(self):
        for name, content in (("x.csv", "text\na\nb\n"), ("x.jsonl", '{"text": "a"}\n{"text": "b", "label": null}\n'), ("x.txt", "a\nb\n")):
            path = self.write(name, content)
            self.assertRefused(s.run("eval", "--model", self.model, "--file", path), 65, path, "no text has a label", "--output")
            lines, result = self.answers("--file", path)
            self.assertEqual([(line["text"], line["gold"]) for line in lines], [("a", None), ("b", None)])
            self.assertIn("no metrics", result.err)
            self.assertEqual(result.out, "")
            result = s.run("eval", "--model", self.model, "--file", path, "--json", "--predictions", self.path("p"))
            self.assertEqual((result.lines()[0]["loss"], result.lines()[0]["official"], result.lines()[0]["unlabelled"]), (None, None, 2))
            self.assertEqual(len(s.file_lines(self.path("p"))), 2)

    def test_labels(self):
        """A file's labels are the model's names or ids; unknown ones are refused with their line."""
        path = self.write("x.csv", "text,label\na,joy\nb,3\n")
        lines, _ = self.answers("--file", path)
        self.assertEqual([line["gold"] for line in lines], ["joy", "sadness"])
        for bad in ("4", "Joy", "joyful"):
            path = self.write("x.csv", f"text,label\na,joy\n\"x\ny\",{bad}\n")
            self.assertRefused(s.run("eval", "--model", self.model, "--file", path), 65, f'{path}:3: label "{bad}"')
        self.assertRefused(s.run("eval", "--model", self.model, "--file", path, "--data.columns.label", "gold"), 65, path, '"gold"')

    def test_names_that_are_numbers_are_no_ids(self):
        model = s.model_make(self.path("stars"), ["1", "2", "3"])
        path = self.write("x.csv", "text,label\na,1\nb,2\n")
        out = self.path("o.jsonl")
        self.assertExit(s.run("eval", "--model", model, "--file", path, "--output", out), 0)
        self.assertEqual([json.loads(line)["gold"] for line in s.file_lines(out)], ["1", "2"])
        path = self.write("x.csv", "text,label\na,0\n")
        self.assertRefused(s.run("eval", "--model", model, "--file", path), 65, f'{path}:2: label "0"')

    def test_data_with_fewer_labels(self):
        """Two of the model's four, in another order: ids are the model's."""
        data = self.own("d", "csv", label=lambda i: ("sadness", "joy")[i % 2])
        s.mapping_write(data, ["sadness", "joy"])
        result = s.run("eval", "--model", self.model, "--data.dir", data, "--data.format", "csv", "--json", "--predictions", self.path("p"))
        self.assertExit(result, 0, "2 of the model's 4 labels")
        self.assertEqual([c["label"] for c in result.lines()[0]["per_class"]], s.LABELS)
        self.assertEqual([c["support"] for c in result.lines()[0]["per_class"]], [0, 6, 0, 6])
        tweets = s.task_make(self.path("t"), classes=2)  # anger, joy
        self.assertExit(s.run("eval", "--model", self.model, "--data.dir", tweets, "--data.task", "emotion", "--json"), 0)
        s.mapping_write(data, ["sadness", "boredom"])
        self.assertRefused(s.run("eval", "--model", self.model, "--data.dir", data, "--data.format", "csv"), 65, "boredom")

    def test_mapping_in_another_order(self):
        """TweetEval's rule: predictions are in the data's ids."""
        names = list(reversed(s.LABELS))
        data = self.own("d", "csv", label=lambda i: s.LABELS[i])
        s.mapping_write(data, names)
        lines, result = self.answers("--data.dir", data, "--data.format", "csv", "--predictions", self.path("p"), "--json")
        self.assertEqual([names[int(v)] for v in s.file_lines(self.path("p"))], [line["label"] for line in lines])
        self.assertEqual([c["label"] for c in result.lines()[0]["per_class"]], names)

    def test_usage(self):
        model, data = ["eval", "--model", self.model], self.own("d", "csv")
        self.assertRefused(s.run(*model), 64, "--data.dir", "--file")
        self.assertRefused(s.run(*model, "--data.dir", data, "--file", f"{data}/test.csv"), 64, "not both")
        self.assertRefused(s.run(*model, "--file", f"{data}/test.csv", "--split", "val"), 64, "--split")
        self.assertRefused(s.run(*model, "--data.dir", data), 64, "--data.task", "--data.format csv")
        self.assertRefused(s.run(*model, "--data.dir", data, "--data.format", "xml"), 64, "xml", "jsonl")
        self.assertRefused(s.run(*model, "--file", self.path("none.csv")), 65, "none.csv")
        self.assertRefused(s.run(*model, "--file", self.write("e.csv", "text\n"), "--output", self.path("o")), 65, "e.csv", "no texts")

    def test_texts_too_long_are_cut(self):
        path = self.write("x.txt", "short\n" + "long " * 200 + "\n")
        lines, _ = self.answers("--file", path)
        self.assertEqual([line.get("truncated") for line in lines], [None, True])


class Quoted(Answers):
    """Our csv against Python's, byte for byte, through eval's answers."""

    def texts(self, path, *more):
        lines, _ = self.answers("--file", path, *more)
        return [(line["text"], line["pair"]) for line in lines]

    def test_random_fields(self):
        chance = random.Random(7)
        alphabet = ["a", "b", " ", ",", '"', "\n", "\r\n", "\t", "\u00e9", "\U0001f602", ";", "'", "\\", "\0", "\ufeff"]
        for kind in ("csv", "tsv"):
            for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL):
                rows = [["".join(chance.choice(alphabet) for _ in range(chance.randrange(9))) for _ in range(2)] for _ in range(150)]
                path = self.put("x", "some", kind, ("text", "pair"), rows, quoting=quoting)
                self.assertEqual(self.texts(path, "--data.columns.pair", "pair"), [tuple(row) for row in rows], kind)

    # The grammar as data/csv.h states it.
    FIELD = r'(?:[^,"\r\n]*|"(?:[^"]|"")*")'
    FILE = re.compile(rf"(?:(?:{FIELD}(?:,{FIELD})*)?\r?\n)*(?:{FIELD}(?:,{FIELD})*)?")

    def test_random_bytes(self):
        """We take what the grammar says, and what we take Python takes as the same."""
        chance, counts = random.Random(11), [0, 0]
        for _ in range(150):
            content = "text,pair\n"
            for _ in range(chance.randrange(1, 4)):
                fields = ["".join(chance.choice('ab,"\n') for _ in range(chance.randrange(4))) for _ in range(2)]
                content += ",".join('"' + f.replace('"', '""') + '"' if chance.random() < 0.8 else f for f in fields) + chance.choice(["\n", "\r\n"])
            at = chance.randrange(10, len(content))
            if chance.random() < 0.5:
                content = content[:at] + chance.choice('a,"\n') + content[at + 1:]
            good = self.FILE.fullmatch(content) is not None
            rows = [tuple(row) for row in csv.reader(io.StringIO(content, newline=""), strict=True) if row][1:] if good else []
            good = len(rows) > 0 and all(len(row) == 2 for row in rows)
            path = self.write("x.csv", content)
            result = s.run("eval", "--model", self.model, "--file", path, "--data.columns.pair", "pair", "--output", self.path("o.jsonl"))
            self.assertEqual(result.rc, 0 if good else 65, (content, result.err))
            if good:
                self.assertEqual([(line["text"], line["pair"]) for line in map(json.loads, s.file_lines(self.path("o.jsonl")))], rows, content)
            counts[good] += 1
        self.assertGreater(min(counts), 20, counts)

    def test_text_with_newlines_trains(self):
        rows = [(f'{text}\nsaid "{i}", twice', s.LABELS[label]) for i, (text, label) in enumerate(s.rows_make(24, 4))]
        for split in SPLITS:
            self.put("d", split, "csv", ("text", "label"), rows)
        out = self.path("o")
        self.train(*self.arguments(self.path("d"), out, "csv"))
        self.assertEqual(s.events(out, "start")[0]["data"]["train"], 24)
        lines, _ = self.answers("--file", self.path("d/test.csv"))
        self.assertEqual([line["text"] for line in lines], [text for text, _ in rows])


class Pairs(FormatsCase):
    def pairs(self, kind):
        first = 0
        for split, n in zip(SPLITS, (24, 12, 12)):
            rows = [(text, f"second {label} of {i}" if i % 5 else "", s.LABELS[label]) for i, (text, label) in enumerate(s.rows_make(n, 4, first))]
            self.put(kind, split, kind, ("text", "other", "label"), rows)
            first += n
        return self.path(kind)

    def test_trained_in_any_format(self):
        pair = ("--data.columns.pair", "other")
        wanted = self.weights(self.pairs("csv"), "csv", *pair)
        for kind in ("tsv", "jsonl"):
            self.assertEqual(self.weights(self.pairs(kind), kind, *pair), wanted)
        self.assertNotEqual(self.weights(self.path("csv"), "csv"), wanted, "without the second text it is another model")

    def test_tokens(self):
        """The shard's tokens are those of `tokenize --jsonl`."""
        data, out = self.pairs("jsonl"), self.path("p")
        model = s.model_make(self.path("m"))
        result = s.run("prepare", *self.arguments(data, out, "jsonl"), "--model.base", model, "--data.columns.pair", "other")
        self.assertExit(result, 0)
        lines = "".join(json.dumps({"text": row["text"], "pair": row["other"]}) + "\n"
                        for row in map(json.loads, s.file_lines(f"{data}/train.jsonl")))
        tokens = [line["ids"] for line in s.run("tokenize", "--model", model, "--jsonl", "--max-length", 48, stdin=lines).lines()]
        self.assertRegex(result.out, rf"(?m)^train\s+24\s+{sum(map(len, tokens))}\b")

    def test_eval(self):
        data, model, out = self.pairs("csv"), s.model_make(self.path("m"), s.LABELS), self.path("o.jsonl")
        self.assertExit(s.run("eval", "--model", model, "--data.dir", data, "--data.format", "csv", "--data.columns.pair", "other", "--output", out), 0)
        lines = [json.loads(line) for line in s.file_lines(out)]
        self.assertEqual([line["pair"] for line in lines][:2], ["", f"second {s.LABELS.index(lines[1]['gold'])} of 1"])
        self.assertRefused(s.run("eval", "--model", model, "--data.dir", data, "--data.format", "csv", "--data.columns.pair", "second"), 65,
                           '"second"', '"other"')

    def test_recorded(self):
        """A model trained on pairs says so when it is asked about single texts."""
        data, out, pair = self.pairs("csv"), self.path("r"), ("--data.columns.pair", "other")
        self.assertExit(s.run("run", *self.arguments(data, out, "csv"), *pair), 0)
        model = os.path.join(out, "model")
        for subject in (model, os.path.join(out, "checkpoints", "latest")):
            alone, both = s.run("predict", "--model", subject, "a"), s.run("predict", "--model", subject, "--pair", "b", "a")
            self.assertIn("trained on text pairs", alone.err)
            self.assertNotIn("trained on text pairs", both.err)
        self.assertIn("trained on text pairs", s.run("eval", "--model", model, "--data.dir", data, "--data.format", "csv").err)
        self.assertNotIn("trained on text pairs", s.run("eval", "--model", model, "--data.dir", data, "--data.format", "csv", *pair).err)

    def test_missing_value(self):
        data = self.pairs("jsonl")
        self.write("jsonl/val.jsonl", '{"text": "a", "label": "joy"}\n')
        self.refused(data, "jsonl", 65, f"{data}/val.jsonl:1", '"other"', "data.columns.pair", more=("--data.columns.pair", "other"))


class Normalize(FormatsCase):
    TEXTS = ("@bob  look at https://t.co/x and @ or @eve!", "nothing here", "http", "@a", "mail me@home http")

    def preprocess(self, text):
        """The function of cardiffnlp's model cards."""
        return " ".join("@user" if t.startswith("@") and len(t) > 1 else "http" if t.startswith("http") else t for t in text.split(" "))

    def test_tokenize(self):
        model = s.model_make(self.path("m"))
        stdin = "".join(text + "\n" for text in self.TEXTS)
        tweet = s.run("tokenize", "--model", model, "--normalize", "tweet", stdin=stdin).lines()
        plain = s.run("tokenize", "--model", model, stdin="".join(self.preprocess(t) + "\n" for t in self.TEXTS)).lines()
        self.assertEqual([line["ids"] for line in tweet], [line["ids"] for line in plain])
        for text, line in zip(self.TEXTS, tweet):
            for begin, end in line["offsets"]:
                piece = text.encode()[begin:end].decode().strip()
                if piece.startswith(("@", "http")) and piece != "@":
                    self.assertIn(piece, text.split(" "), "a replaced word is covered whole")
        raw = s.run("tokenize", "--model", model, "--normalize", "none", stdin=stdin).lines()
        self.assertEqual(raw, s.run("tokenize", "--model", model, stdin=stdin).lines())
        self.assertNotEqual(raw[0]["ids"], tweet[0]["ids"])
        self.assertRefused(s.run("tokenize", "--model", model, "--normalize", "tweets", "x"), 64, "tweet")

    def test_trained_and_recorded(self):
        """Weights of normalised training are those of training on the text that Python normalised; the model remembers."""
        rows = [(f"@bob{i} {text} https://t.co/{i}", label) for i, (text, label) in enumerate(s.rows_make(24, 4))]
        for name, change in (("raw", lambda t: t), ("done", self.preprocess)):
            for split in SPLITS:
                self.put(name, split, "csv", ("text", "label"), [(change(text), s.LABELS[label]) for text, label in rows])
        wanted = self.weights(self.path("done"), "csv")[0]
        out = self.path("o")
        self.train(*self.arguments(self.path("raw"), out, "csv"), "--data.normalize", "tweet")
        with open(f"{out}/model/model.safetensors", "rb") as file:
            self.assertEqual(file.read(), wanted)
        self.assertEqual(s.json_read(f"{out}/model/finetuned.json")["normalize"], "tweet")
        answers = [s.run("predict", "--model", model, "@alice hm http://x").lines()[0]["logits"]
                   for model in (f"{out}/model", f"{out}/checkpoints/latest")]
        self.assertEqual(answers, [s.run("predict", "--model", f"{out}/model", "@user hm http").lines()[0]["logits"]] * 2)
        raw, done = (s.run("eval", "--model", f"{out}/model", "--data.dir", self.path(name), "--data.format", "csv", "--json").lines() for name in ("raw", "done"))
        self.assertEqual(raw, done)
        normalized = s.run("tokenize", "--model", f"{out}/model", "@alice").lines()
        self.assertEqual([line["ids"] for line in normalized], [line["ids"] for line in s.run("tokenize", "--model", f"{out}/model", "@user").lines()])

    def test_cache_and_resume(self):
        """Another normalisation is another shard and another run."""
        data, cache, out = self.own("d", "csv"), self.path("cache"), self.path("o")
        for value in ("none", "tweet", "none"):
            self.assertExit(s.run("prepare", *self.arguments(data, cache, "csv"), "--data.normalize", value), 0)
        self.assertEqual(len([n for n in os.listdir(cache) if n.endswith(".shard")]), 6)
        self.train(*self.arguments(data, out, "csv"))
        self.assertRefused(s.run("run", *self.arguments(data, out, "csv"), "--data.normalize", "tweet"), 65, "data.normalize", "none", "tweet")


if __name__ == "__main__":
    s.main()
