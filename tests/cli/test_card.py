# SPDX-License-Identifier: Apache-2.0
"""The model card: metadata, scores as in the report, settings; the same bytes for the same run; what export makes of it."""
import os
import re
import shutil

import support as s


def card(folder):
    with open(os.path.join(folder, "README.md"), encoding="utf-8") as file:
        return file.read()


def metadata(text):
    """The block of YAML at the top: scalars and lists of scalars."""
    block = re.match(r"---\n(.*?\n)---\n", text, re.S)[1]
    found, key = {}, None
    for line in block.splitlines():
        if line.startswith("- "):
            found[key].append(line[2:])
        else:
            key, _, value = line.partition(":")
            found[key] = value.strip().strip('"') or []
    return found


class Card(s.Case):
    @classmethod
    def setUpClass(cls):
        cls.root = s.tempfile.mkdtemp(prefix="finetuned-test-")
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        cls.data, cls.out = s.task_make(os.path.join(cls.root, "d")), os.path.join(cls.root, "o")
        cls.base = s.model_make(os.path.join(cls.root, "a base"))
        cls.job = s.job_write(os.path.join(cls.root, "small.yaml"), cls.data, cls.out, model__base=f'"{cls.base}/"')
        result = s.run("run", cls.job)
        if result.rc:
            raise AssertionError(str(result))
        cls.model = os.path.join(cls.out, "model")

    def test_metadata(self):
        self.assertEqual(metadata(card(self.model)), {
            "library_name": "transformers", "pipeline_tag": "text-classification", "base_model": "a base",
            "tags": ["roberta", "text-classification", "finetuned"], "metrics": ["accuracy", "f1", "recall"]})

    def test_content(self):
        text, report = card(self.model), s.json_read(os.path.join(self.out, "report.json"))
        for split in ("test", "val"):
            official = report[split]["official"]
            self.assertIn(f"### {split}: {official['name']} {official['value']:.4f}\n", text)
            for c in report[split]["per_class"]:
                self.assertIn(f"| {c['label']} | {c['precision']:.4f} | {c['recall']:.4f} | {c['f1']:.4f} | {c['support']} |\n", text)
        for word in (report["data_hash"], report["base_hash"], report["config_hash"], f"finetuned {report['version']}", "| train.lr | 0.001 |",
                     "max_length=40", "split_special_tokens=True", "AutoModelForSequenceClassification", "finetuned predict",
                     f"step {report['best_step']} "):
            self.assertIn(word, text)
        self.assertNotIn(self.root, text)
        self.assertNotRegex(text, r"\b20\d\d-\d\d")

    def test_same_bytes(self):
        """Whatever ranks, threads and place."""
        twin = os.path.join(self.root, "twin")
        self.train(self.job, "--out", twin, "--threads", 2, ranks=2)
        self.assertEqual(card(os.path.join(twin, "model")), card(self.model))

    def test_made_again(self):
        out = os.path.join(self.root, "again")
        shutil.copytree(self.out, out, symlinks=True)
        os.remove(os.path.join(out, "model", "README.md"))
        events = len(s.events(out, "eval"))
        self.train(self.job, "--out", out)
        self.assertEqual(card(os.path.join(out, "model")), card(self.model))
        self.assertEqual(len(s.events(out, "eval")), events)

    def edit(self, folder, words="And a word of mine."):
        with open(os.path.join(folder, "README.md"), "a", encoding="utf-8") as file:
            file.write(words)
        return card(folder)

    def test_edited_card_is_set_aside(self):
        """Whatever replaces the directory: its own words are beside it, and one line says where."""
        out = os.path.join(self.root, "words")
        shutil.copytree(self.out, out, symlinks=True)
        model = os.path.join(out, "model")
        mine = self.edit(model)
        result = self.train(self.job, "--out", out, "--export.to", "hf,sagemaker")  # the model stays as it is
        self.assertEqual(card(model), mine)
        self.assertIn(f"{model}/README.md was edited: the archive holds the run's own", result.err)
        result = self.train(self.job, "--out", out, "--train.epochs", 3)
        self.assertIn(f"{model}/README.md was edited: set aside as {model}.README.md.aside-1\n", result.err)
        self.assertEqual(result.err.count("README.md was edited"), 1)
        with open(f"{model}.README.md.aside-1", encoding="utf-8") as file:
            self.assertEqual(file.read(), mine)
        self.assertNotIn("word of mine", card(model))
        self.assertExit(s.run("inspect", "--verify", out), 0)
        result = self.train(self.job, "--out", out, "--train.epochs", 4)  # the run's own card is no one's words
        self.assertNotIn("aside", result.err)
        for k in (1, 2):
            self.export(s.checkpoint(self.out), "e")
            mine = self.edit(self.path("e"), f"{k}\n")
            result = s.run("export", "--from", s.checkpoint(self.out), "--to", "hf", "--out", self.path("e"))
            self.assertExit(result, 0, f"set aside as {self.path('e')}.README.md.aside-{k}")
            with open(f"{self.path('e')}.README.md.aside-{k}", encoding="utf-8") as file:
                self.assertEqual(file.read(), mine)

    def export(self, source, name):
        self.assertExit(s.run("export", "--from", source, "--to", "hf", "--out", self.path(name)), 0)
        return card(self.path(name))

    def test_goes_with_the_model(self):
        """The card of a model directory is its owner's."""
        shutil.copytree(self.model, self.path("m"))
        with open(self.path("m", "README.md"), "a", encoding="utf-8") as file:
            file.write("\nAnd a word of mine: \u00e9.\n")
        self.assertEqual(self.export(self.path("m"), "e"), card(self.path("m")))

    def test_of_a_checkpoint(self):
        text = self.export(s.checkpoint(self.out), "e")
        self.assertIn("step 6 ", text)
        self.assertIn("not scored", text)
        self.assertIn("| train.lr | 0.001 |", text)

    def test_of_a_bare_model(self):
        text = self.export(s.model_make(self.path("m"), s.LABELS), "e")
        self.assertIn("not recorded", text)
        self.assertIn("4 labels: anger, joy, optimism, sadness.", text)
        self.assertIn("max_length=128", text)
        self.assertNotIn("base_model", metadata(text))

    def test_settings_of_the_texts(self):
        out = self.path("o")
        self.train(self.job, "--out", out, "--data.special_tokens", "parse", "--data.normalize", "tweet", "--train.epochs", 1, "--model.base", "random:tiny")
        text = card(os.path.join(out, "model"))
        self.assertNotIn("split_special_tokens", text)
        self.assertIn("`@user`", text)
        self.assertNotIn("base_model", metadata(text))


if __name__ == "__main__":
    s.main()
