# SPDX-License-Identifier: Apache-2.0
"""Question answering, driven as a user does: training on squad files, eval, predict, resume, ranks, exports, refusals."""
import collections
import csv
import json
import os
import re
import shutil
import string
import tarfile

import support as s
import test_tensorboard as board

FILLERS = ["the", "day", "so", "caf\u00e9", "and", "monday", "#wow", "it's", "again", "\U0001f602", "tea", "she"]
COLOURS = ["red", "green", "blue", "grau", "\U0001f389 gold", "black"]
QUESTION = "what is it?"


# ---- data

def context_make(row, colour, words=0):
    """A few words and, somewhere among them, "is <colour>"."""
    names = [FILLERS[(row * 7 + i * i + i * row) % len(FILLERS)] for i in range(words or 3 + row * 5 % 7)]
    if colour:
        names.insert(row * 3 % len(names) + 1, "is " + colour)
    return " ".join(names) + f" {row}"


def question_make(row, version):
    """A paragraph of one question; of version 2 each fourth has no answer."""
    none = version == 2 and row % 4 == 3
    colour = None if none else COLOURS[row * 5 % len(COLOURS)]
    context = context_make(row, colour)
    answers = [] if none else [{"text": colour, "answer_start": context.index("is " + colour) + 3}]
    question = {"id": f"q{row}", "question": QUESTION, "answers": answers}
    return {"context": context, "qas": [{**question, "is_impossible": none} if version == 2 else question]}


def split_make(rows, version=2):
    return {"version": f"{version}.0", "data": [{"title": "colours", "paragraphs": [question_make(row, version) for row in rows]}]}


def questions_of(split):
    """[(question, context)]"""
    return [(q, p["context"]) for article in split["data"] for p in article["paragraphs"] for q in p["qas"]]


def squad_make(folder, version=2, train=32, val=12, test=12):
    """<folder>/{train,val,test}.json; 0 rows: no such file."""
    os.makedirs(folder, exist_ok=True)
    for name, first, n in (("train", 0, train), ("val", 100, val), ("test", 200, test)):
        if n:
            s.json_write(os.path.join(folder, f"{name}.json"), split_make(range(first, first + n), version))
    return folder


def arguments(data, out, *more):
    return ["--model.base", "random:tiny", "--model.head", "question_answering", "--data.format", "squad", "--data.dir", data,
            "--data.max_length", 64, "--data.doc_stride", 16, "--threads", 1, "--train.batch", 8, "--train.parts", 4,
            "--train.lr", 5e-3, "--log.every", 1, "--log.samples", "true", "--job", "job", "--out", out, *more]


# ---- SQuAD's metrics, for texts whose letters are ASCII

def words_of(text):
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", text).split()


def score(answer, golds):
    """(exact match, F1) of an answer, the better of the golds each; no golds: no answer."""
    def one(gold):
        ours, theirs = words_of(answer), words_of(gold)
        if not ours or not theirs:
            return float(ours == theirs), float(ours == theirs)
        common = sum((collections.Counter(ours) & collections.Counter(theirs)).values())
        return float(ours == theirs), 2 * common / (len(ours) + len(theirs))
    scores = [one(gold) for gold in golds or [""]]
    return max(exact for exact, _ in scores), max(f1 for _, f1 in scores)


def scores(predictions, questions):
    """The keys of an eval event from predictions {id: answer}; questions [(question, context)]."""
    def mean(rows):
        return {"em": sum(e for e, _ in rows) / len(rows), "f1": sum(f for _, f in rows) / len(rows), "questions": len(rows)}
    every = [(bool(q["answers"]), score(predictions[q["id"]], [a["text"] for a in q["answers"]])) for q, _ in questions]
    out = mean([pair for _, pair in every])
    if not all(has for has, _ in every):
        out["has_answer"] = mean([pair for has, pair in every if has])
        out["no_answer"] = mean([pair for has, pair in every if not has])
    return out


class Questions(s.Case):
    def near(self, got, wanted):
        """`wanted`'s numbers, nine digits of them."""
        for key, value in wanted.items():
            if isinstance(value, dict):
                self.near(got[key], value)
            else:
                self.assertAlmostEqual(got[key], value, delta=1e-8, msg=key)

    def sliced(self, line, context):
        """Offsets of an answer line, and of its list, are bytes of the context and give the answer exactly."""
        data = context.encode()
        for answer in (line, *line.get("nbest", [])):
            self.assertLessEqual(0, answer["start"])
            self.assertLessEqual(answer["start"], answer["end"])
            self.assertEqual(data[answer["start"]:answer["end"]].decode(), answer["answer"])

    def predict(self, model, *more, rc=0, **options):
        result = s.run("predict", "--model", model, *more, **options)
        self.assertExit(result, rc)
        return result.lines()

    def ask(self, model, question, context, *more):
        line, = self.predict(model, "--question", question, "--context", context, *more)
        self.sliced(line, context)
        return line

    def evaluate(self, model, *more):
        result = s.run("eval", "--model", model, "--json", *more)
        self.assertExit(result, 0)
        line, = result.lines()
        return line


class Trained(Questions):
    """One run of version 2, looked at from all sides."""

    @classmethod
    def setUpClass(cls):
        cls.root = s.tempfile.mkdtemp(prefix="finetuned-test-")
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        cls.data, cls.out = squad_make(os.path.join(cls.root, "d")), os.path.join(cls.root, "o")
        cls.model = os.path.join(cls.out, "model")
        cls.last = s.run("run", *arguments(cls.data, cls.out, "--train.epochs", 10, "--export.to", "[hf, sagemaker]"))
        if cls.last.rc:
            raise AssertionError(str(cls.last))

    def split(self, name):
        return s.json_read(os.path.join(self.data, f"{name}.json"))

    # -- the run

    def test_learns(self):
        losses = [event["loss"] for event in s.events(self.out, "step")]
        self.assertLess(sum(losses[-5:]), 0.5 * sum(losses[:5]))
        test = s.events(self.out, "eval")[-1]
        self.assertGreater(test["f1"], 0.5)

    def test_events(self):
        start, = s.events(self.out, "start")
        examples = {sample for event in s.events(self.out, "step") for sample in event["samples"]}
        self.assertEqual(examples, set(range(start["data"]["train"])), "a sample is a window")
        self.assertGreater(start["data"]["train"], 32, "some contexts have two windows")
        found = s.events(self.out, "eval")
        self.assertEqual([event["split"] for event in found], ["val"] * 10 + ["test"])
        for event in found:
            self.assertEqual(list(event), ["event", "time", "split", "epoch", "step", "loss", "official", "em", "f1", "questions",
                                           "has_answer", "no_answer"])
            self.assertEqual(event["official"], {"name": "f1", "value": event["f1"]})
            self.assertEqual([event[key]["questions"] for key in ("has_answer", "no_answer")], [9, 3])
            self.assertEqual(event["questions"], 12)
        best = max((event for event in found[:-1]), key=lambda event: (event["f1"], -event["step"]))
        self.assertEqual(found[-1]["step"], best["step"])
        self.assertEqual(s.events(self.out, "end")[0]["best"], {"step": best["step"], "official": best["f1"]})

    def test_words_at_the_end(self):
        best = s.events(self.out, "eval")[-1]
        self.assertRegex(self.last.out, rf"(?m)^test +f1 {best['f1']:.4f}, em {best['em']:.4f} ")
        self.assertNotIn("accuracy", self.last.out + self.last.err)

    def test_settings(self):
        settings = s.json_read(os.path.join(self.model, "finetuned.json"))
        self.assertEqual({key: settings[key] for key in ("max_length", "doc_stride", "no_answer", "normalize", "special_tokens")},
                         {"max_length": 64, "doc_stride": 16, "no_answer": True, "normalize": "none", "special_tokens": "literal"})
        config = s.json_read(os.path.join(self.model, "config.json"))
        self.assertEqual(config["architectures"], ["RobertaForQuestionAnswering"])
        names = s.safetensors_read(os.path.join(self.model, "model.safetensors"))
        self.assertEqual(names["qa_outputs.weight"].shape[0], 2)
        self.assertFalse([name for name in names if "classifier" in name or "pooler" in name])

    def test_report(self):
        report = s.json_read(os.path.join(self.out, "report.json"))
        best = {event["split"]: event for event in s.events(self.out, "eval") if event["step"] == report["best_step"]}
        for split in ("val", "test"):
            wanted = {key: value for key, value in best[split].items() if key not in ("event", "time", "split", "epoch", "step")}
            self.assertEqual({key: value for key, value in report[split].items() if key != "examples"}, wanted)
        data = s.events(self.out, "start")[0]["data"]
        self.assertEqual(report["examples"], {split: data[split] for split in ("train", "val", "test")})
        self.assertEqual([e["official"]["name"] for e in report["history"]], ["f1"] * 10)
        with open(os.path.join(self.out, "report.md"), encoding="utf-8") as file:
            text = file.read()
        for wanted in (f"## test: f1 {report['test']['f1']:.4f}", f"em {report['test']['em']:.4f}", "12 questions", "| with an answer |",
                       "| without |", "windows", f"| val em | {report['val']['em']:.4f} |"):
            self.assertIn(wanted, text)
        for unwanted in ("precision", "Confusion", "accuracy", "macro", "nan", " examples,"):
            self.assertNotIn(unwanted, text)
        result = s.run("report", self.out)
        self.assertExit(result, 0)
        self.assertIn(f"f1 {report['test']['f1']:.4f}", result.out)

    def test_tensorboard(self):
        path, = (os.path.join(self.out, "tensorboard", name) for name in os.listdir(os.path.join(self.out, "tensorboard")))
        found = collections.defaultdict(dict)
        for data in board.records(path):
            event = board.event(data)
            for tag, value in event.get("scalars", {}).items():
                found[tag][event["step"]] = value
        tags = sorted(tag for tag in found if tag.startswith("eval/"))
        self.assertEqual(tags, [f"eval/{split}/{key}" for split in ("test", "val") for key in ("em", "f1", "loss")])
        for event in s.events(self.out, "eval"):
            for key in ("em", "f1", "loss"):
                self.assertAlmostEqual(found[f"eval/{event['split']}/{key}"][event["step"]], event[key], delta=1e-6)

    def test_card(self):
        with open(os.path.join(self.model, "README.md"), encoding="utf-8") as file:
            text = file.read()
        test = s.events(self.out, "eval")[-1]
        for wanted in ("pipeline_tag: question-answering\n", "metrics:\n- exact_match\n- f1\n---", f"### test: f1 {test['f1']:.4f}",
                       f"em {test['em']:.4f}", "windows of at most 64 tokens", "share 16 ", "AutoModelForQuestionAnswering",
                       "max_length=64", "# no answer", "They are windows of 32, 12 and 12 questions."):
            self.assertIn(wanted, text)
        for unwanted in ("text-classification", "accuracy", "recall", "labels", "cut to"):
            self.assertNotIn(unwanted, text.split("## Settings")[0])
        code = re.search(r"(?s)```python\n(.*?)```", text).group(1)
        compile(code, "README.md", "exec")

    def test_again(self):
        """A complete run says so and trains nothing."""
        copy = self.path("o")
        shutil.copytree(self.out, copy, symlinks=True)
        self.train(*arguments(self.data, copy, "--train.epochs", 10, "--export.to", "[hf, sagemaker]"))
        self.assertEqual(s.events(copy, "eval"), s.events(self.out, "eval"))
        os.remove(os.path.join(copy, "report.json"))
        self.train(*arguments(self.data, copy, "--train.epochs", 10, "--export.to", "[hf, sagemaker]"))
        one, two = (s.json_read(os.path.join(out, "report.json")) for out in (self.out, copy))
        for key in ("val", "test", "last", "examples", "best_step"):
            self.assertEqual(two[key], one[key])

    def test_inspect(self):
        result = s.run("inspect", self.model)
        self.assertExit(result, 0)
        self.assertIn("question answering", result.out)
        self.assertExit(s.run("inspect", "--verify", s.checkpoint(self.out)), 0)
        shards = sorted(os.listdir(os.path.join(self.out, "shards")))
        for name in (name for name in shards if name.endswith(".shard")):
            self.assertExit(s.run("inspect", "--verify", os.path.join(self.out, "shards", name)), 0)

    # -- eval

    def test_metrics(self):
        """The numbers of the event, of eval, and Python's from the prediction file."""
        for split in ("val", "test"):
            questions, path, output = questions_of(self.split(split)), self.path("p.json"), self.path("o.jsonl")
            got = self.evaluate(self.model, "--data.format", "squad", "--data.dir", self.data, "--split", split, "--predictions", path,
                                "--output", output)
            predictions = s.json_read(path)
            self.assertEqual(list(predictions), [q["id"] for q, _ in questions])
            self.near(got, scores(predictions, questions))
            self.assertEqual((got["split"], got["epoch"], got["step"]), (split, None, None))
            event = [e for e in s.events(self.out, "eval") if e["split"] == split and e["step"] == s.events(self.out, "eval")[-1]["step"]][0]
            for key in ("loss", "official", "em", "f1", "questions", "has_answer", "no_answer"):
                self.assertEqual(got[key], event[key], key)
            with open(output, encoding="utf-8") as file:
                lines = [json.loads(line) for line in file]
            for line, (q, context) in zip(lines, questions, strict=True):
                self.assertEqual(list(line), ["id", "question", "gold", "answer", "score", "start", "end"])
                self.assertEqual((line["id"], line["question"], line["gold"]), (q["id"], QUESTION, [a["text"] for a in q["answers"]]))
                self.assertEqual(line["answer"], predictions[q["id"]])
                self.sliced(line, context)

    def test_several_golds(self):
        """The better of the golds for either number; articles and punctuation don't count."""
        split = self.split("test")
        questions = questions_of(split)
        self.evaluate(self.model, "--file", os.path.join(self.data, "test.json"), "--predictions", self.path("p.json"))
        predictions = s.json_read(self.path("p.json"))
        for i, (q, context) in enumerate(questions):
            answer = predictions[q["id"]]
            if not q["answers"] or not answer:
                continue
            words = [w for w in context.split(" ") if w]
            q["answers"] = [{"text": text, "answer_start": context.index(text)} for text in (words[i % len(words)], " ".join(words[:2]), answer)[:1 + i % 3]]
        s.json_write(self.path("golds.json"), split)
        got = self.evaluate(self.model, "--file", self.path("golds.json"))
        self.near(got, scores(predictions, questions))
        self.assertLess(got["em"], 1)

    def test_table(self):
        result = s.run("eval", "--model", self.model, "--data.format", "squad", "--data.dir", self.data)
        self.assertExit(result, 0)
        test = s.events(self.out, "eval")[-1]
        self.assertIn(f"test: f1 {test['f1']:.6f}", result.out)
        self.assertRegex(result.out, rf"(?m)^with an answer +{test['has_answer']['em']:.6f} +{test['has_answer']['f1']:.6f} +9$")
        self.assertRegex(result.out, rf"(?m)^without +{test['no_answer']['em']:.6f} +{test['no_answer']['f1']:.6f} +3$")

    def test_unlabelled(self):
        """Questions without answers: predictions are written, nothing is scored; some of them: a warning."""
        split = self.split("test")
        for q, _ in questions_of(split):
            q["answers"] = []
            q.pop("is_impossible")
        path = self.path("test.json")
        s.json_write(path, split)
        self.assertRefused(s.run("eval", "--model", self.model, "--file", path), 65, path, "nothing to score", "--output")
        got = self.evaluate(self.model, "--file", path, "--predictions", self.path("p.json"), "--output", self.path("o.jsonl"))
        self.assertEqual({key: got[key] for key in ("loss", "official", "unlabelled")}, {"loss": None, "official": None, "unlabelled": 12})
        self.assertNotIn("em", got)
        with open(self.path("o.jsonl"), encoding="utf-8") as file:
            self.assertEqual([json.loads(line)["gold"] for line in file], [None] * 12)
        self.evaluate(self.model, "--data.format", "squad", "--data.dir", self.data, "--predictions", self.path("q.json"))
        with open(self.path("p.json"), "rb") as one, open(self.path("q.json"), "rb") as two:
            self.assertEqual(one.read(), two.read(), "golds don't change answers")
        q, _ = questions_of(split)[0]
        q["is_impossible"] = True
        s.json_write(path, split)
        result = s.run("eval", "--model", self.model, "--file", path, "--json")
        self.assertExit(result, 0, "11 of 12 questions are unlabelled")
        self.assertEqual((result.lines()[0]["questions"], result.lines()[0]["unlabelled"]), (1, 11))

    # -- predict

    def test_predict_is_eval(self):
        """The same answers, scores and offsets, whatever the file and beside what."""
        questions = questions_of(self.split("test"))
        self.evaluate(self.model, "--file", os.path.join(self.data, "test.json"), "--output", self.path("o.jsonl"))
        with open(self.path("o.jsonl"), encoding="utf-8") as file:
            wanted = [{key: json.loads(line)[key] for key in ("answer", "score", "start", "end")} for line in file]
        self.write("q.jsonl", "".join(json.dumps({"question": q["question"], "context": c, "more": 1}) + "\n" for q, c in questions))
        for name, delimiter in (("q.csv", ","), ("q.tsv", "\t")):
            with open(self.path(name), "w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file, delimiter=delimiter)
                writer.writerows([["context", "question"], *([c, q["question"]] for q, c in questions)])
        by_file = {name: self.predict(self.model, "--file", name) for name in
                   (os.path.join(self.data, "test.json"), self.path("q.jsonl"), self.path("q.csv"), self.path("q.tsv"))}
        for name, lines in by_file.items():
            ids = [line.pop("id") for line in lines if "id" in line]
            self.assertEqual(ids, [q["id"] for q, _ in questions] if name.endswith(".json") else [])
            self.assertEqual(lines, by_file[self.path("q.jsonl")], name)
            for line, row, (_, context) in zip(lines, wanted, questions, strict=True):
                self.assertEqual({key: line[key] for key in row}, row)
                self.assertEqual(list(line), ["answer", "score", "start", "end", "nbest"])
                self.sliced(line, context)
        alone = self.ask(self.model, *[questions[3][0]["question"], questions[3][1]])
        self.assertEqual(alone, by_file[self.path("q.jsonl")][3])
        os.rename(self.path("q.csv"), self.path("named"))
        self.assertEqual(self.predict(self.model, "--file", self.path("named"), "--data.format", "csv"), by_file[self.path("q.csv")])

    def test_columns(self):
        self.write("q.csv", f"ask,where\n{QUESTION},so is red day\n")
        line, = self.predict(self.model, "--file", self.path("q.csv"), "--data.columns.text", "ask", "--data.columns.pair", "where")
        self.assertEqual(line, self.ask(self.model, QUESTION, "so is red day"))
        self.assertExit(s.run("predict", "--model", self.model, "--file", self.path("q.csv")), 65, "q.csv", '"question"', '"ask" "where"')

    def test_checkpoint_and_directory(self):
        test = ("--file", os.path.join(self.data, "test.json"))
        best = s.checkpoint(self.out, "best")
        self.assertEqual(self.predict(best, *test), self.predict(self.model, *test))
        strip = lambda got: {key: value for key, value in got.items() if key not in ("epoch", "step")}
        one, two = self.evaluate(best, *test), self.evaluate(self.model, *test)
        self.assertEqual(strip(one), strip(two))
        self.assertEqual(one["step"], s.events(self.out, "eval")[-1]["step"])

    def test_odd_texts(self):
        """Bytes of several, combining marks, joined emoji, NUL, special tokens as text: every offset is exact."""
        contexts = ["\U0001f602\U0001f602 is \U0001f389 gold \U0001f469\u200d\U0001f469\u200d\U0001f467 e\u0301 caf\u00e9", "a\u0000b is red\u0000 so",
                    "<s> is </s> <mask> red", "\u00a0\u2003 is\u2028red\n\r\n", "is", "\u5c71\u7530\u3055\u3093 is \u9752", "\ufeffis red"]
        self.write("q.jsonl", "".join(json.dumps({"question": QUESTION + "\u0000\u00e9", "context": c}) + "\n" for c in contexts))
        for choice in ("model", "yes", "no"):
            lines = self.predict(self.model, "--file", self.path("q.jsonl"), "--n-best", 1000, "--no-answer", choice)
            for line, context in zip(lines, contexts, strict=True):
                self.sliced(line, context)
                self.assertAlmostEqual(sum(answer["score"] for answer in line["nbest"]), 1, delta=1e-6)
                self.assertGreater(len(line["nbest"]), 1)

    def test_windows(self):
        """A context of many windows: all of them are searched, and offsets are those of the whole."""
        model = self.model
        for front, behind in ((1, 90), (45, 45), (90, 1)):
            context = context_make(3, None, front) + " is red " + context_make(5, None, behind)
            line = self.ask(model, QUESTION, context, "--no-answer", "no", "--n-best", 1000)
            self.assertEqual(len(line["nbest"]), 1000)
            places = [answer["start"] for answer in line["nbest"]]
            self.assertGreater(max(places) - min(places), 200, "all windows are searched")

    def test_windows_overlap(self):
        """What two windows see counts once. Letters alone: a token each, so no two spans of a window have the same bytes."""
        line = self.ask(self.model, QUESTION, "abcdefghij" * 12, "--no-answer", "no", "--n-best", 1000)
        keys = [(answer["start"], answer["end"]) for answer in line["nbest"]]
        self.assertEqual((len(keys), len(set(keys))), (1000, 1000))
        values = [answer["score"] for answer in line["nbest"]]
        self.assertEqual(values, sorted(values, reverse=True))

    def test_stride(self):
        """Given, another number of tokens is shared: other windows, the same rules."""
        context = context_make(3, None, 40) + " is red " + context_make(5, None, 40)
        found = {stride: self.ask(self.model, QUESTION, context, "--data.doc_stride", stride) for stride in (1, 16, 40)}
        self.assertEqual(found[16], self.ask(self.model, QUESTION, context))
        self.assertNotEqual(found[1]["nbest"], found[40]["nbest"])
        result = s.run("predict", "--model", self.model, "--question", QUESTION, "--context", context, "--data.doc_stride", 60)
        self.assertRefused(result, 64, "data.doc_stride, 60")
        got = self.evaluate(self.model, "--file", os.path.join(self.data, "val.json"), "--data.doc_stride", 40)
        self.assertEqual(got["questions"], 12)

    def test_empty(self):
        none = {"answer": "", "start": 0, "end": 0}
        for choice, score_, n in (("model", 1, 1), ("yes", 1, 1), ("no", 0, 0)):
            line = self.ask(self.model, QUESTION, "", "--no-answer", choice)
            self.assertEqual(line, {**none, "score": score_, "nbest": [{**none, "score": score_}] * n})
        self.assertTrue(self.ask(self.model, "", "the day is red", "--no-answer", "no")["answer"])
        self.ask(self.model, "", "")
        self.assertEqual(self.ask(self.model, " \n " + QUESTION, "so is red")["answer"], self.ask(self.model, QUESTION, "so is red")["answer"])

    def test_n_best(self):
        context = "the day is red and so on"
        full = self.ask(self.model, QUESTION, context, "--n-best", 21)["nbest"]
        self.assertEqual(len(full), 21)
        values = [answer["score"] for answer in full]
        self.assertEqual(values, sorted(values, reverse=True))
        for n in (1, 3, 5):
            line = self.ask(self.model, QUESTION, context, "--n-best", n)
            self.assertEqual([(a["start"], a["end"]) for a in line["nbest"]], [(a["start"], a["end"]) for a in full[:n]])
            self.assertEqual(line["nbest"], self.ask(self.model, QUESTION, context)["nbest"][:n], "scores are shares of the 20 best")
        self.assertEqual(len(self.ask(self.model, QUESTION, context)["nbest"]), 5)
        for n in (0, 1001, "x"):
            result = s.run("predict", "--model", self.model, "--question", QUESTION, "--context", context, "--n-best", n)
            self.assertRefused(result, 64, "--n-best")

    def test_no_answer(self):
        """The model's own rule, and what it says when it must or may not."""
        none, some = context_make(203, None), context_make(202, "red")
        self.assertEqual(self.ask(self.model, QUESTION, none)["answer"], "")
        self.assertEqual(self.ask(self.model, QUESTION, none, "--no-answer", "yes"), self.ask(self.model, QUESTION, none))
        never = self.ask(self.model, QUESTION, none, "--no-answer", "no", "--n-best", 20)
        self.assertNotIn("", [answer["answer"] for answer in never["nbest"]])
        self.assertTrue(never["answer"])
        self.assertIn("", [a["answer"] for a in self.ask(self.model, QUESTION, some, "--n-best", 1000)["nbest"]])

    def test_stops_at_a_bad_one(self):
        """What came before is answered; the message says where."""
        self.write("q.jsonl", json.dumps({"question": QUESTION, "context": "is red"}) + "\n"
                   + json.dumps({"question": "why " * 40, "context": "is red " * 40}) + "\n")
        result = s.run("predict", "--model", self.model, "--file", self.path("q.jsonl"))
        self.assertExit(result, 65, "q.jsonl:2", "question of")
        self.assertEqual(len(result.lines()), 1)

    def test_bench(self):
        for more, n in (((), 64), (("--question", QUESTION, "--context", "so is red"), 1), (("--file", os.path.join(self.data, "val.json")), 12)):
            line, = self.predict(self.model, "--bench", "--json", *more)
            self.assertEqual(line["questions"], n)
            row, = line["batches"]
            self.assertEqual(row["batch"], 1)
            self.assertGreaterEqual(row["n"], 20)
            self.assertTrue(0 < row["p50_ms"] <= row["p95_ms"] <= row["p99_ms"])
            self.assertGreater(row["questions_per_s"], 0)
            self.assertGreater(row["tokens_per_s"], row["questions_per_s"])
        result = s.run("predict", "--model", self.model, "--bench", "--question", QUESTION, "--context", "so is red")
        self.assertExit(result, 0)
        self.assertIn("questions/s", result.out)
        self.write("q.json", '{"data": []}')
        self.assertRefused(s.run("predict", "--model", self.model, "--bench", "--file", self.path("q.json")), 65, "no questions")

    # -- exports

    def test_archives(self):
        for name, odd in (("job-hf.tar.gz", []), ("job-sagemaker.tar.gz", ["code/inference.py"])):
            with tarfile.open(os.path.join(self.out, "artifacts", name)) as archive:
                self.assertEqual(sorted(archive.getnames()), sorted(os.listdir(self.model) + odd))
                archive.extractall(self.path(name))
            self.assertEqual(self.ask(self.path(name), QUESTION, "so is red"), self.ask(self.model, QUESTION, "so is red"))

    def test_export_verb(self):
        for source in (self.model, s.checkpoint(self.out, "best")):
            result = s.run("export", "--from", source, "--to", "hf", "--out", self.path("e"))
            self.assertExit(result, 0)
            for name in ("model.safetensors", "config.json", "finetuned.json"):
                with open(self.path("e", name), "rb") as one, open(os.path.join(self.model, name), "rb") as two:
                    self.assertEqual(one.read(), two.read(), name)
        self.assertExit(s.run("export", "--from", self.model, "--to", "hf", "--out", self.path("e"), "--dtype", "bf16"), 0)
        self.ask(self.path("e"), QUESTION, "so is red")

    def test_is_a_base(self):
        """Our own directory with its head, for questions and for classes."""
        self.train(*arguments(self.data, self.path("q"), "--model.base", self.model, "--train.max_steps", 1, "--train.lr", 1e-9))
        val = [e for e in s.events(self.out, "eval") if e["split"] == "val" and e["step"] == s.events(self.out, "eval")[-1]["step"]][0]
        self.assertAlmostEqual(s.events(self.path("q"), "eval")[0]["loss"], val["loss"], delta=1e-4)
        result = self.train("--model.base", self.model, "--data.dir", s.task_make(self.path("d")), "--data.task", "emotion", "--data.max_length", 64,
                            "--train.max_steps", 1, "--out", self.path("c"))
        self.assertRegex(result.err, "(?i)new")
        self.assertEqual(s.json_read(self.path("c/model/config.json"))["architectures"], ["RobertaForSequenceClassification"])

    # -- refusals of a model that answers questions

    def test_predict_refusals(self):
        question, context = ("--question", QUESTION), ("--context", "so is red")
        for more, words in (((*question,), ["--context"]), ((*context,), ["--question"]), ((), ["--question", "--file"]),
                            ((*question, *context, "--file", "x.json"), ["--file"]), (("some text",), ["--question", "--context"]),
                            ((*question, *context, "--pair", "x"), ["--pair"]), ((*question, *context, "--no-truncation"), ["--no-truncation"]),
                            ((*question, *context, "--data.format", "csv"), ["--data.format"]), ((*question, *context, "--json"), ["--bench"]),
                            (("--bench", *question), ["--context"]), ((*question, *context, "--no-answer", "perhaps"), ["--no-answer"]),
                            (("--file", os.path.join(self.data, "test.json"), "--data.columns.text", "x"), ["--data.columns"]),
                            (("--file", self.write("q.txt", "a line\n")), ["q.txt", "lines of text"])):
            with self.subTest(more=more):
                self.assertRefused(s.run("predict", "--model", self.model, *more), 64, *words)
        for question, context in ((b"\xff", b"x"), (b"x", b"\xff")):
            result = s.run("predict", "--model", self.model, "--question", question, "--context", context)
            self.assertRefused(result, 65, "UTF-8", "--context" if question == b"x" else "--question")

    def test_eval_refusals(self):
        tweets = s.task_make(self.path("t"))
        for more, words in ((("--data.dir", tweets, "--data.task", "emotion"), ["squad"]), (("--data.dir", self.data), ["--data.format squad"]),
                            (("--data.dir", self.data, "--data.format", "csv"), ["squad"]),
                            (("--file", self.write("q.csv", "question,context\na,b\n")), [".json", "predict"]),
                            (("--file", self.write("q.txt", "a\n")), [".json"]),
                            (("--data.dir", self.data, "--data.format", "squad", "--data.task", "emotion"), ["--data.task"]),
                            (("--data.dir", self.data, "--data.format", "squad", "--data.columns.text", "x"), ["--data.columns"])):
            with self.subTest(more=more):
                self.assertRefused(s.run("eval", "--model", self.model, *more), 64, *words)
        self.assertRefused(s.run("eval", "--model", self.model, "--data.dir", tweets, "--data.format", "squad"), 65, "test.json")
        self.write("e.json", '{"data": []}')
        self.assertRefused(s.run("eval", "--model", self.model, "--file", self.path("e.json")), 65, "no questions")
        os.rename(self.write("bare.json", json.dumps(split_make(range(3)))), self.path("bare"))
        self.assertEqual(self.evaluate(self.model, "--file", self.path("bare"), "--data.format", "squad")["questions"], 3)


class Refusals(Questions):
    def setUp(self):
        super().setUp()
        self.data = squad_make(self.path("d"))

    def refused(self, rc, words, *more):
        result = s.run("run", *arguments(self.data, self.path("o"), *more))
        self.assertRefused(result, rc, *words)
        self.assertFalse(os.path.exists(self.path("o/events.jsonl")))

    def test_run(self):
        for more, words in ((("--model.head", "classification"), ["data.format", "squad", "model.head", "question_answering"]),
                            (("--data.format", "csv"), ["model.head", "question_answering", "squad"]),
                            (("--train.best_metric", "accuracy"), ["train.best_metric", "accuracy", "model.head", "em or f1"]),
                            (("--train.best_metric", "macro_f1"), ["train.best_metric"]),
                            (("--train.label_smoothing", 0.1), ["train.label_smoothing", "model.head", "question_answering"]),
                            (("--train.class_weights", "balanced"), ["train.class_weights", "model.head", "question_answering"]),
                            (("--train.class_weights", "[1, 2]"), ["train.class_weights", "model.head"]),
                            (("--data.doc_stride", 60), ["data.doc_stride", "data.max_length"]),
                            (("--data.doc_stride", 0), ["data.doc_stride"]), (("--data.max_length", 513), ["512"]),
                            (("--data.format", "tweet_eval"), ["train.json", "data.format: squad", "question_answering"])):
            with self.subTest(more=more):
                self.refused(64, words, *more)

    def test_metric_of_questions_on_classes(self):
        tweets = s.task_make(self.path("t"))
        for metric in ("em", "f1"):
            result = s.run("run", "--model.base", "random:tiny", "--data.dir", tweets, "--data.task", "emotion", "--data.max_length", 40,
                           "--train.best_metric", metric, "--out", self.path("o"))
            self.assertRefused(result, 64, "train.best_metric", metric, "model.head", "accuracy")

    def test_data(self):
        self.refused(65, ["train.json", "question q", "data.truncation"], "--data.truncation", "false")
        long = split_make(range(4))
        long["data"][0]["paragraphs"][1]["qas"][0]["question"] = "why " * 20
        s.json_write(os.path.join(self.data, "train.json"), long)
        self.refused(65, ["train.json", "question q1", "data.doc_stride"])
        wrong = split_make(range(4))
        wrong["data"][0]["paragraphs"][2]["qas"][0]["answers"][0]["answer_start"] += 1
        s.json_write(os.path.join(self.data, "train.json"), wrong)
        self.refused(65, ["train.json", "q2", "answer_start"])
        os.remove(os.path.join(self.data, "val.json"))
        self.refused(65, ["val.json"])

    def test_one_metric_of_either(self):
        """What the head has is taken, and chooses the best."""
        for metric, key, sign in (("em", "em", 1), ("f1", "f1", 1), ("loss", "loss", -1)):
            out = self.path(metric)
            self.train(*arguments(self.data, out, "--train.epochs", 3, "--train.best_metric", metric))
            found = [e for e in s.events(out, "eval") if e["split"] == "val"]
            best = max(found, key=lambda e: (sign * e[key], -e["step"]))
            self.assertEqual(s.events(out, "end")[0]["best"]["step"], best["step"])

    def test_classifier(self):
        model = s.model_make(self.path("m"), labels=["no", "yes"])
        context = ("--question", QUESTION, "--context", "x")
        for more, words in ((context, ["--question", "classifier"]), (("--n-best", 3, "text"), ["--n-best"]),
                            (("--no-answer", "yes", "text"), ["--no-answer"]), (("--data.doc_stride", 3, "text"), ["--data.doc_stride"]),
                            (("--file", os.path.join(self.data, "test.json")), ["questions", "classifier"]),
                            (("--file", os.path.join(self.data, "test.json"), "--data.format", "squad"), ["questions", "classifier"])):
            with self.subTest(more=more):
                self.assertRefused(s.run("predict", "--model", model, *more), 64, *words)
        self.assertRefused(s.run("eval", "--model", model, "--data.dir", self.data, "--data.format", "squad"), 64, "squad", "classifier")
        self.assertRefused(s.run("eval", "--model", model, "--data.dir", self.data), 64, "--data.task", "--data.format squad")
        self.assertRefused(s.run("eval", "--model", model, "--file", os.path.join(self.data, "test.json")), 65, "questions")

    def test_no_room_for_longer_ones(self):
        """Contexts that all fit need no windows: it trains, says what the model can't do, and predict says how it can."""
        result = self.train(*arguments(squad_make(self.path("s"), train=8, val=4, test=0), self.path("o"), "--data.max_length", 128,
                                       "--data.doc_stride", 128, "--train.max_steps", 1))
        self.assertIn("data.doc_stride 128 leaves no room in windows of data.max_length 128", result.err)
        model, context = self.path("o/model"), "so is red " * 30
        self.ask(model, QUESTION, "so is red")
        result = s.run("predict", "--model", model, "--question", QUESTION, "--context", context)
        self.assertRefused(result, 64, "data.doc_stride")
        self.ask(model, QUESTION, context, "--data.doc_stride", 32)


class Course(Questions):
    """Stops, ranks, versions and splits."""

    def go(self, name, *more, **options):
        self.last = self.train(*arguments(self.data, self.path(name), "--train.epochs", 3, "--model.dropout", 0.1, *more), **options)
        return self.path(name)

    def same(self, one, two):
        self.assertEqual(s.course(two), s.course(one))
        strip = lambda out: [{k: v for k, v in e.items() if k != "time"} for e in s.events(out, "eval")]
        self.assertEqual(strip(two), strip(one))
        for group in ("model", "optimizer"):
            self.assertEqual(s.tensors_differ(s.checkpoint_tensors(s.checkpoint(two), group), s.checkpoint_tensors(s.checkpoint(one), group)), [])
        for name in ("model.safetensors", "config.json", "finetuned.json", "README.md"):
            with open(os.path.join(one, "model", name), "rb") as a, open(os.path.join(two, "model", name), "rb") as b:
                self.assertEqual(a.read(), b.read(), name)

    def test_ranks_micro_batches_and_resume(self):
        """21 + 3 questions, batch 8 in 4 parts, last batches that are not full; with dropout, evaluations in the middle of an epoch."""
        self.data = squad_make(self.path("d"), train=21, val=7, test=5)
        one = self.go("one", "--train.eval_every", 2)
        self.same(one, self.go("micro", "--train.eval_every", 2, "--train.max_tokens", 128))
        for ranks in (2, 4):
            two = self.go(f"ranks{ranks}", "--train.eval_every", 2, ranks=ranks)
            self.assertEqual(s.events(two, "start")[0]["world"], ranks)
            self.same(one, two)
        stopped = self.path("stopped")
        process = s.start("run", *arguments(self.data, stopped, "--train.epochs", 3, "--model.dropout", 0.1, "--train.eval_every", 2), ranks=2)
        self.assertTrue(s.wait_for(s.step_reached(stopped, 3), process))
        os.kill(s.ranks_of(process, 2)[1], s.signal.SIGTERM)
        self.assertEqual(s.finish(process).rc, 75)
        step = s.events(stopped, "stop")[0]["step"]
        self.assertLess(step, max(s.steps(one)))
        self.go("stopped", "--train.eval_every", 2)
        self.assertEqual(s.events(stopped, "resume")[0]["step"], step)
        self.same(one, stopped)

    def test_version_1(self):
        """All questions have answers: "" is none of them, and the events have no halves."""
        self.data = squad_make(self.path("d"), version=1, train=12, val=5, test=5)
        out = self.go("o")
        test = s.events(out, "eval")[-1]
        self.assertEqual(list(test)[2:], ["split", "epoch", "step", "loss", "official", "em", "f1", "questions"])
        self.assertIs(s.json_read(os.path.join(out, "model", "finetuned.json"))["no_answer"], False)
        got = self.evaluate(os.path.join(out, "model"), "--file", os.path.join(self.data, "test.json"), "--predictions", self.path("p.json"))
        self.near(got, scores(s.json_read(self.path("p.json")), questions_of(s.json_read(os.path.join(self.data, "test.json")))))
        self.assertEqual(got["f1"], test["f1"])
        line = self.ask(os.path.join(out, "model"), QUESTION, "so is red", "--n-best", 1000)
        self.assertNotIn((0, 0), [(a["start"], a["end"]) for a in line["nbest"]])
        with open(os.path.join(out, "model", "README.md"), encoding="utf-8") as file:
            self.assertNotIn("# no answer", file.read())
        checkpoint = self.ask(s.checkpoint(out, "best"), QUESTION, "so is red", "--n-best", 1000)
        self.assertEqual(checkpoint, line)

    def test_splits(self):
        """Without test, with an unlabelled one, with one that is labelled in part and stands in train in part."""
        self.data = squad_make(self.path("d"), train=12, val=5, test=0)
        out = self.go("none")
        self.assertEqual({e["split"] for e in s.events(out, "eval")}, {"val"})
        self.assertIsNone(s.json_read(os.path.join(out, "report.json"))["test"])
        test = split_make(range(200, 204))
        for q, _ in questions_of(test):
            q["answers"] = []
            q.pop("is_impossible")
        s.json_write(os.path.join(self.data, "test.json"), test)
        out = self.go("unlabelled")
        self.assertIn("has no answers", self.last.err)
        self.assertEqual({e["split"] for e in s.events(out, "eval")}, {"val"})
        test = split_make([2, *range(200, 204)])
        questions_of(test)[1][0].update(answers=[], is_impossible=False)
        s.json_write(os.path.join(self.data, "test.json"), test)
        out = self.go("part")
        self.assertIn("1 of 5 test questions stand with their contexts in train too", self.last.err)
        self.assertEqual(s.events(out, "eval")[-1]["questions"], 4)
        self.assertEqual(s.json_read(os.path.join(out, "report.json"))["shared_texts"], 1)
        with open(os.path.join(out, "report.md"), encoding="utf-8") as file:
            self.assertIn("1 questions of test stand in train too", file.read())

    def test_dry_run_and_prepare(self):
        self.data = squad_make(self.path("d"), train=12, val=5, test=5)
        result = s.run("run", *arguments(self.data, self.path("o"), "--dry-run"))
        self.assertExit(result, 0)
        self.assertIn("windows", result.out)
        self.assertFalse(os.path.exists(self.path("o")))
        result = s.run("prepare", "--model.base", "random:tiny", "--model.head", "question_answering", "--data.format", "squad", "--data.dir", self.data,
                       "--data.max_length", 64, "--data.doc_stride", 16, "--out", self.path("shards"))
        self.assertExit(result, 0)
        out = self.go("o", "--data.cache", self.path("shards"))
        self.assertEqual(self.last.err.count("(cached)"), 3)
        self.assertTrue(os.path.exists(os.path.join(out, "model")))


if __name__ == "__main__":
    s.main()
