# SPDX-License-Identifier: Apache-2.0
"""`score`: the official TweetEval numbers, in both layouts, and what it says of bad files."""
import os
import shutil

import support as s

TARGETS = ["abortion", "atheism", "climate", "feminist", "hillary"]
CLASSES = {"emoji": 20, "emotion": 4, "hate": 2, "irony": 2, "offensive": 2, "sentiment": 3, "stance": 3}
PRINTED = {"emotion": "0.798272", "irony": "0.624776", "offensive": "0.815509", "stance": "0.724363"}


def class_scores(gold, predicted, c):
    """(recall, F1) of class c; 0/0 is 0."""
    hits = sum(g == c and p == c for g, p in zip(gold, predicted))
    is_gold, is_predicted = gold.count(c), predicted.count(c)
    return (hits / is_gold if is_gold else 0.0, 2 * hits / (is_gold + is_predicted) if is_gold + is_predicted else 0.0)


def official(task, gold, predicted):
    """TweetEval's number, written down a second time."""
    seen = sorted(set(gold) | set(predicted))
    mean = lambda values: sum(values) / len(values)
    if task == "sentiment":
        return mean([class_scores(gold, predicted, c)[0] for c in seen])
    if task == "irony":
        return class_scores(gold, predicted, 1)[1]
    if task == "stance":
        return mean([class_scores(gold, predicted, c)[1] for c in (1, 2)])
    return mean([class_scores(gold, predicted, c)[1] for c in seen])


def numbers(path, values):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(f"{v}\n" for v in values))


def made_up(n, classes, seed):
    """Gold and predictions that are right about two times in three."""
    gold = [(i * 7 + i // 3 + seed) % classes for i in range(n)]
    return gold, [g if (i * 5 + seed) % 3 else (g + 1 + i % 2) % classes for i, g in enumerate(gold)]


class Reference(s.Case):
    """The example predictions of the TweetEval repository."""

    def copy(self):
        """In TweetEval's own layout: <D>/<task>/test_labels.txt, <P>/<task>.txt, <P>/stance/<target>.txt."""
        source, data, predictions = s.golden("FINETUNED_GOLDEN", "tweeteval_predictions"), self.path("D"), self.path("P")
        for task in PRINTED:
            for part in [f"stance/{t}" for t in TARGETS] if task == "stance" else [task]:
                os.makedirs(os.path.join(data, part))
                os.makedirs(os.path.dirname(os.path.join(predictions, part)), exist_ok=True)
                shutil.copy(os.path.join(source, part, "gold.txt"), os.path.join(data, part, "test_labels.txt"))
                shutil.copy(os.path.join(source, part, "pred.txt"), os.path.join(predictions, f"{part}.txt"))
            shutil.copy(os.path.join(source, task, "mapping.txt"), os.path.join(data, task, "mapping.txt"))
        return data, predictions

    def check(self, data, predictions):
        wanted = {t["task"]: t["official"] for t in s.json_read(s.golden("FINETUNED_GOLDEN", "tweeteval_predictions", "expected.json"))["tasks"]}
        for task, printed in PRINTED.items():
            with self.subTest(task=task):
                result = s.run("score", "--data.dir", data, "--predictions", predictions, "--task", task)
                self.assertExit(result, 0)
                self.assertRegex(result.out, rf"^{task}\s+{printed}\b")
                self.assertEqual(result.err, "")
                answer = s.run("score", "--data.dir", data, "--predictions", predictions, "--task", task, "--json").lines()[0]
                self.assertEqual(list(answer["tasks"]), [task])
                self.assertAlmostEqual(answer["tasks"][task], wanted[task], delta=1e-9)

    def test_tweeteval_layout(self):
        self.check(*self.copy())

    def test_reference_layout(self):
        folder = s.golden("FINETUNED_GOLDEN", "tweeteval_predictions")
        self.check(folder, folder)

    def test_one_file(self):
        data, predictions = self.copy()
        result = s.run("score", "--data.dir", data, "--predictions", os.path.join(predictions, "irony.txt"), "--task", "irony")
        self.assertExit(result, 0)
        self.assertIn(PRINTED["irony"], result.out)

    def test_one_target(self):
        data, predictions = self.copy()
        result = s.run("score", "--data.dir", data, "--predictions", predictions, "--task", "stance/climate", "--json")
        self.assertExit(result, 0)
        read = lambda path: [int(v) for v in s.file_lines(path)]
        wanted = official("stance", read(f"{data}/stance/climate/test_labels.txt"), read(f"{predictions}/stance/climate.txt"))
        self.assertAlmostEqual(result.lines()[0]["tasks"]["stance/climate"], wanted, delta=1e-9)


class All(s.Case):
    """Without --task: all seven and the total."""

    def setUp(self):
        super().setUp()
        self.data, self.predictions, self.wanted = self.path("D"), self.path("P"), {}
        for k, (task, classes) in enumerate(CLASSES.items()):
            gold, predicted = [], []
            for i, part in enumerate([f"stance/{t}" for t in TARGETS] if task == "stance" else [task]):
                one, two = made_up(60 + 7 * i, classes, k + i)
                numbers(os.path.join(self.data, part, "test_labels.txt"), one)
                numbers(os.path.join(self.predictions, f"{part}.txt"), two)
                gold, predicted = gold + one, predicted + two
            s.mapping_write(os.path.join(self.data, task), [f"name{c}" for c in range(classes)])
            self.wanted[task] = official(task, gold, predicted)

    def score(self, *arguments):
        return s.run("score", "--data.dir", self.data, "--predictions", self.predictions, *arguments)

    def test_text(self):
        result = self.score()
        self.assertExit(result, 0)
        found = dict(line.split()[:2] for line in result.out.splitlines())
        self.assertEqual(found, {**{t: f"{v:.6f}" for t, v in self.wanted.items()}, "total": f"{sum(self.wanted.values()) / 7:.6f}"})

    def test_json(self):
        answer, = self.score("--json").lines()
        self.assertEqual(sorted(answer), ["tasks", "total"])
        for task, value in self.wanted.items():
            self.assertAlmostEqual(answer["tasks"][task], value, delta=1e-8)
        self.assertAlmostEqual(answer["total"], sum(self.wanted.values()) / 7, delta=1e-8)

    def test_absent_classes(self):
        """Means run over the classes that occur in gold or prediction."""
        numbers(f"{self.data}/emotion/test_labels.txt", [0, 0, 1, 1])
        numbers(f"{self.predictions}/emotion.txt", [0, 1, 1, 1])
        answer, = self.score("--task", "emotion", "--json").lines()
        self.assertAlmostEqual(answer["tasks"]["emotion"], (2 / 3 + 4 / 5) / 2, delta=1e-8)

    def test_a_rule_that_has_no_class_to_rule_on(self):
        """The official script fails and reports -1."""
        numbers(f"{self.data}/irony/test_labels.txt", [0, 0])
        numbers(f"{self.predictions}/irony.txt", [0, 0])
        answer, = self.score("--task", "irony", "--json").lines()
        self.assertEqual(answer["tasks"]["irony"], -1)

    def test_no_newline_at_the_end(self):
        self.write("P/irony.txt", b"\n".join(s.file_lines(f"{self.predictions}/irony.txt")))
        answer, = self.score("--task", "irony", "--json").lines()
        self.assertAlmostEqual(answer["tasks"]["irony"], self.wanted["irony"], delta=1e-8)

    def test_lengths_that_differ(self):
        numbers(f"{self.predictions}/hate.txt", [0] * 59)
        for arguments in ([], ["--task", "hate"]):
            self.assertRefused(self.score(*arguments), 65, "hate.txt", "59", "60")
        numbers(f"{self.predictions}/stance/climate.txt", [0])
        self.assertRefused(self.score("--task", "stance"), 65, "climate", "1", "74")

    def test_bad_labels(self):
        for bad in ("3", "-1", "1.0", "", " 1", "1 ", "+1", "01", "one", "99999999999999999999", "0x1", "\u0661"):
            with self.subTest(bad=bad):
                path = self.write("P/sentiment.txt", "0\n1\n" + bad + "\n" + "0\n" * 57)
                self.assertRefused(self.score("--task", "sentiment"), 65, f"{path}:3", bad.strip() if bad.isascii() else "sentiment")

    def test_bad_gold(self):
        path = self.write("D/sentiment/test_labels.txt", "0\n7\n" + "0\n" * 58)
        self.assertRefused(self.score("--task", "sentiment"), 65, f"{path}:2", "7")

    def test_missing(self):
        os.remove(f"{self.predictions}/irony.txt")
        self.assertRefused(self.score(), 65, "irony.txt")
        os.remove(f"{self.data}/hate/test_labels.txt")
        self.assertRefused(self.score("--task", "hate"), 65, "hate", "test_labels.txt")
        self.assertRefused(s.run("score", "--data.dir", "/nowhere", "--predictions", self.predictions, "--task", "hate"), 65, "/nowhere")

    def test_not_there(self):
        """The flag and its path, not what would lie below it."""
        self.assertRefused(s.run("score", "--data.dir", self.folder, "--task", "emotion", "--predictions", self.path("none.txt")), 65,
                           f"--predictions: {self.path('none.txt')} is not there")
        self.assertRefused(s.run("score", "--data.dir", self.path("none"), "--predictions", self.folder), 65, f"--data.dir: {self.path('none')} is not there")

    def test_empty(self):
        self.write("P/irony.txt", "")
        self.assertRefused(self.score("--task", "irony"), 65, "irony.txt", "0", "60")


if __name__ == "__main__":
    s.main()
