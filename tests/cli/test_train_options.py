# SPDX-License-Identifier: Apache-2.0
"""Training options against values made here: label smoothing, class weights, max_time, layer_decay, freeze, eval_every in steps, and runs
that are extended. The formulas are those of docs/numerics.md."""
import math
import os

import support as s


class OptionsCase(s.Case):
    """38 rows in batches of 8 (the last of an epoch has 6), two epochs of five steps; a model with a head, two layers."""

    ROWS = (38, 10, 9)
    EPOCHS = 2

    def setUp(self):
        super().setUp()
        self.data = s.task_make(self.path("d"), rows=self.ROWS)
        self.base = s.model_make(self.path("m"), labels=s.LABELS, dropout=0.2)

    def arguments(self, name, *more):
        return ["--model.base", self.base, "--data.dir", self.data, "--data.task", "emotion", "--data.max_length", 40, "--threads", 1,
                "--train.batch", 8, "--train.parts", 4, "--train.epochs", self.EPOCHS, "--train.lr", 1e-3, "--log.every", 1, "--log.samples", "true",
                "--out", self.path(name), *more]

    def go(self, name, *more, rc=0, **options):
        self.last = self.train(*self.arguments(name, *more), rc=rc, **options)
        return self.path(name)

    def refuse(self, rc, words, *more):
        self.assertRefused(s.run("run", *self.arguments("refused", *more)), rc, *words)
        self.assertFalse(os.path.exists(self.path("refused/model")))
        self.assertEqual(s.events(self.path("refused")) if os.path.exists(self.path("refused/events.jsonl")) else [], [])

    def same(self, one, two, splits=("val", "test")):
        self.assertEqual(s.course(two), s.course(one))
        strip = lambda out: {(e["split"], e["step"]): {k: v for k, v in e.items() if k != "time"} for e in s.events(out, "eval") if e["split"] in splits}
        self.assertEqual(strip(two), strip(one))
        for group in ("model", "optimizer"):
            self.assertEqual(s.tensors_differ(s.checkpoint_tensors(s.checkpoint(two), group), s.checkpoint_tensors(s.checkpoint(one), group)), [])
        keep = ("step", "cursor", "epoch", "best_step", "best_metric", "evaluations_without_gain", "config_hash")
        attributes = [[s.checkpoint_attributes(s.checkpoint(out))[k] for k in keep] for out in (one, two)]
        self.assertEqual(attributes[0], attributes[1])

    def in_pieces(self, name, *more, starts=60):
        """The run stopped after every step: each start makes one and finds its time over. The number of starts."""
        for start in range(starts):
            result = s.run("run", *self.arguments(name, "--train.max_time", 1e-6, *more))
            if result.rc == 0:
                return start + 1
            self.assertExit(result, 75, "train.max_time")
        return self.fail(f"not at its end after {starts} starts")


class Loss(OptionsCase):
    def gold(self, split="train"):
        return [int(v) for v in s.file_lines(f"{self.data}/emotion/{split}_labels.txt")]

    def log_probabilities(self, out, split="train"):
        with open(f"{self.data}/emotion/{split}_text.txt", "rb") as file:
            answers = s.run("predict", "--model", f"{out}/model", stdin=file.read()).lines()
        return [[v - math.log(sum(math.exp(x) for x in a["logits"])) for v in a["logits"]] for a in answers]

    def check(self, smoothing, weights, *more):
        """At learning rate 0 and without dropout each step's loss follows from the logits that predict gives:
        torch.nn.CrossEntropyLoss(weight, label_smoothing), its mean taken over the global batch."""
        out = self.go("o", "--train.lr", 0, "--model.dropout", 0, *more)
        logs, gold, n = self.log_probabilities(out), self.gold(), len(weights)
        loss = lambda i: ((1 - smoothing) * weights[gold[i]] * -logs[i][gold[i]] + smoothing / n * sum(w * -v for w, v in zip(weights, logs[i])))
        found = s.events(out, "step")
        self.assertEqual(len(found), 10)
        for event in found:
            wanted = sum(loss(i) for i in event["samples"]) / sum(weights[gold[i]] for i in event["samples"])
            self.assertAlmostEqual(event["loss"], wanted, delta=2e-6)
        for event in s.events(out, "eval"):  # the plain cross entropy
            logs, gold = self.log_probabilities(out, event["split"]), self.gold(event["split"])
            self.assertAlmostEqual(event["loss"], -sum(row[label] for row, label in zip(logs, gold)) / len(gold), delta=2e-6)

    def test_smoothing(self):
        self.check(0.1, [1, 1, 1, 1], "--train.label_smoothing", 0.1)

    def test_weights(self):
        self.check(0, [0.5, 2, 1.25, 3], "--train.class_weights", "0.5,2,1.25,3")
        self.assertIn("class weights: anger 0.5, joy 2, optimism 1.25, sadness 3", self.last.err)

    def test_both(self):
        self.check(0.25, [0.5, 2, 1.25, 3], "--train.class_weights", "[0.5, 2, 1.25, 3]", "--train.label_smoothing", 0.25)

    def test_balanced(self):
        rows = [row for i, row in enumerate(s.rows_make(76)) if row[1] != 2 or i % 4 == 0][:38]
        s.split_write(f"{self.data}/emotion", "train", rows)
        counts = [sum(label == c for _, label in rows) for c in range(4)]
        self.assertGreater(len(set(counts)), 1)
        self.check(0, [38 / (4 * n) for n in counts], "--train.class_weights", "balanced")

    def test_equal_weights_are_none(self):
        """Loss and gradient are divided by the weights' sum, so weights that are all 2 give what no weights give."""
        one, two = s.steps(self.go("a")), s.steps(self.go("b", "--train.class_weights", "2,2,2,2"))
        for step, event in one.items():
            self.assertAlmostEqual(two[step]["loss"], event["loss"], delta=1e-5)
            self.assertAlmostEqual(two[step]["grad_norm"] / event["grad_norm"], 1, delta=1e-4)

    def test_off_changes_no_bit(self):
        plain = self.go("a")
        self.same(plain, self.go("b", "--train.label_smoothing", "0.0", "--train.class_weights", "none"))
        self.assertNotEqual(s.course(plain), s.course(self.go("c", "--train.label_smoothing", 0.1)))

    def test_ranks_and_micro_batches(self):
        """The sum of the weights is the global batch's, wherever its parts run."""
        more = ("--train.class_weights", "balanced", "--train.label_smoothing", 0.1)
        one = self.go("one", *more)
        self.same(one, self.go("micro", *more, "--train.max_tokens", 85))
        for ranks in (2, 4):
            self.same(one, self.go(f"ranks{ranks}", *more, ranks=ranks))

    def test_resume(self):
        more = ("--train.class_weights", "balanced", "--train.label_smoothing", 0.1)
        one = self.go("one", *more)
        self.in_pieces("two", *more)
        self.same(one, self.path("two"))
        for key, value, was in (("train.label_smoothing", "0.2", "0.1"), ("train.class_weights", "[1.0, 1.0, 1.0, 2.0]", "balanced")):
            result = s.run("run", *self.arguments("one", *more, f"--{key}", value))
            self.assertRefused(result, 65, key, value, was)

    def test_length_of_the_list(self):
        self.refuse(64, ["train.class_weights", "[1.0, 2.0]", "2 numbers", "4 classes"], "--train.class_weights", "1,2")
        self.refuse(64, ["train.class_weights", "5 numbers", "4 classes"], "--train.class_weights", "[1, 2, 3, 4, 5]")

    def test_balanced_needs_every_class(self):
        s.split_write(f"{self.data}/emotion", "train", [row for row in s.rows_make(38) if row[1] != 2])
        self.refuse(65, ["train.class_weights", "balanced", "optimism"], "--train.class_weights", "balanced")
        self.go("list", "--train.class_weights", "1,1,1,1")


class Time(OptionsCase):
    EPOCHS = 3

    def test_stop_and_resume(self):
        one = self.go("one")
        starts = self.in_pieces("two")
        self.assertEqual(starts, 16, "one step a start, and one that finds the run at its end")
        self.same(one, self.path("two"))
        found = s.events(self.path("two"))
        stops = [e for e in found if e["event"] == "stop"]
        self.assertEqual([(e["step"], e["reason"], e["exit"]) for e in stops], [(n, "time", 75) for n in range(1, 16)])
        self.assertNotIn("signal", stops[0])
        self.assertEqual([e["previous"]["ended"] for e in found if e["event"] == "resume"], ["stop: time"] * 15)
        self.assertEqual(len([e for e in found if e["event"] == "checkpoint" and e["step"] == 7]), 1, "one checkpoint")

    def test_anew_at_each_start(self):
        """Counted from when training starts: so it is not over before a step is done, and a second start has as much again."""
        more = ("--train.max_time", 0.4, "--train.epochs", 4000, "--checkpoints.every", 0, "--checkpoints.keep", 1)
        steps = []
        for _ in range(2):
            self.go("o", *more, rc=75)
            steps.append(s.events(self.path("o"), "stop")[-1]["step"])
            start, stop = ([e["time"] for e in s.events(self.path("o"), kind)][-1] for kind in ("start", "stop"))
            self.assertGreaterEqual(stop - start, 0.399)
        self.assertGreater(steps[1], steps[0] + 1)

    def test_ranks(self):
        """Rank 0's clock decides, and all stop at the same step."""
        self.go("o", "--train.max_time", 1e-6, rc=75, ranks=2)
        self.assertEqual([(e["step"], e["reason"]) for e in s.events(self.path("o"), "stop")], [(1, "time")])
        self.go("o", ranks=2)
        self.same(self.go("one"), self.path("o"))

    def test_long_enough(self):
        self.same(self.go("one"), self.go("two", "--train.max_time", 3600))


class LayerDecay(OptionsCase):
    def test_first_update(self):
        """AdamW's first update moves an element by the learning rate, where its gradient is far above eps: so a tensor's largest step is
        its layer's rate."""
        names = {"embeddings": 2, "layer.0": 1, "layer.1": 0}
        for decay in (1, 0.5):
            out = self.go(f"o{decay}", "--train.layer_decay", decay, "--train.max_steps", 1, "--train.schedule", "constant", "--train.clip", 0)
            self.assertEqual([e["lr"] for e in s.events(out, "step")], [1e-3], "the base rate")
            before, after = s.safetensors_read(f"{self.base}/model.safetensors"), s.checkpoint_tensors(s.checkpoint(out))
            seen = set()
            for name, value in after.items():
                if "key.bias" in name:  # its gradient is noise around 0
                    continue
                power = next((power for part, power in names.items() if part in name), 0)
                seen.add(power)
                self.assertAlmostEqual(float(abs(value - before[name]).max()) / (1e-3 * decay ** power), 1, delta=2e-3, msg=name)
            self.assertEqual(seen, {0, 1, 2})

    def test_decay_uses_the_layers_rate(self):
        """As torch's parameter groups: weights shrink by lr · decay^(L - l) · weight decay. Rows of words that no text holds have no
        gradient: they shrink and do nothing else."""
        import numpy

        out = self.go("o", "--train.layer_decay", 0.5, "--train.max_steps", 1, "--train.schedule", "constant", "--train.weight_decay", 0.1)
        name = "roberta.embeddings.word_embeddings.weight"
        before, after = s.safetensors_read(f"{self.base}/model.safetensors")[name], s.checkpoint_tensors(s.checkpoint(out))[name]
        wanted = before[-1] * numpy.float32(1 - 1e-3 * 0.25 * 0.1)  # <mask>
        self.assertEqual(after[-1].tobytes(), wanted.tobytes())

    def test_ranks_and_resume(self):
        one = self.go("one", "--train.layer_decay", 0.8)
        self.same(one, self.go("two", "--train.layer_decay", 0.8, ranks=2))
        self.in_pieces("three", "--train.layer_decay", 0.8)
        self.same(one, self.path("three"))
        self.assertRefused(s.run("run", *self.arguments("one", "--train.layer_decay", 0.9)), 65, "train.layer_decay", "0.8", "0.9")


class Freeze(OptionsCase):
    FROZEN = {"embeddings": ["embeddings"], "1": ["embeddings", "layer.0."], "2": ["embeddings", "layer.0.", "layer.1."]}

    def frozen(self, name, freeze):
        return any(part in name for part in self.FROZEN[freeze])

    def norm(self, out):
        """The first step's gradient norm from its first moments, which are 0.1 of the gradient (no clipping)."""
        found = s.checkpoint_tensors(s.checkpoint(out, 1), "optimizer/exp_avg")
        return math.sqrt(sum(float((v.astype("f8") ** 2).sum()) for v in found.values())) / 0.1

    def test_weights_moments_and_norm(self):
        more = ("--train.clip", 0, "--train.weight_decay", 0.1, "--checkpoints.every", 1, "--checkpoints.keep", 50)
        full = self.go("full", *more)
        moments = s.checkpoint_tensors(s.checkpoint(full, 1), "optimizer")
        before = s.safetensors_read(f"{self.base}/model.safetensors")
        for freeze in self.FROZEN:
            with self.subTest(freeze=freeze):
                out = self.go(f"freeze-{freeze}", *more, "--train.freeze", freeze)
                self.assertRegex(self.last.err, r"train.freeze: \d+ of \d+ parameters are trained")
                for name, value in s.checkpoint_tensors(s.checkpoint(out)).items():
                    self.assertEqual(value.tobytes() == before[name].tobytes(), self.frozen(name, freeze), name)
                for name, value in s.checkpoint_tensors(s.checkpoint(out), "optimizer").items():
                    self.assertEqual(bool(value.any()), not self.frozen(name, freeze), name)
                # The first step's gradients of what is trained are those of the full run: only the way down is shorter.
                for name, value in s.checkpoint_tensors(s.checkpoint(out, 1), "optimizer").items():
                    if not self.frozen(name, freeze):
                        self.assertEqual(value.tobytes(), moments[name].tobytes(), name)
                one, two = s.steps(full)[1], s.steps(out)[1]
                self.assertEqual(two["loss"], one["loss"])
                self.assertLess(two["grad_norm"], one["grad_norm"])
                self.assertAlmostEqual(two["grad_norm"] / self.norm(out), 1, delta=1e-6)

    def test_ranks_micro_batches_and_resume(self):
        for freeze in ("embeddings", "1"):
            one = self.go(f"one{freeze}", "--train.freeze", freeze)
            self.same(one, self.go(f"two{freeze}", "--train.freeze", freeze, ranks=2))
            self.same(one, self.go(f"micro{freeze}", "--train.freeze", freeze, "--train.max_tokens", 85))
            self.in_pieces(f"three{freeze}", "--train.freeze", freeze)
            self.same(one, self.path(f"three{freeze}"))

    def test_another_one_on_resume(self):
        self.go("o", "--train.freeze", 1)
        self.assertRefused(s.run("run", *self.arguments("o", "--train.freeze", "embeddings")), 65, "train.freeze", "1", "embeddings")

    def test_more_layers_than_there_are(self):
        self.refuse(64, ["train.freeze", "3", "2 layers"], "--train.freeze", 3)


class EvalEvery(OptionsCase):
    EPOCHS = 3  # steps 5, 10, 15

    def evaluations(self, out):
        return [e["step"] for e in s.events(out, "eval") if e["split"] == "val"]

    def test_by_steps(self):
        """Every 4 steps and at the end; no longer at an epoch's end, where a checkpoint is still made."""
        out = self.go("o", "--train.eval_every", 4, "--checkpoints.every", 0, "--checkpoints.keep", 50)
        self.assertEqual(self.evaluations(out), [4, 8, 12, 15])
        self.assertEqual([e["epoch"] for e in s.events(out, "eval")][:4], [1, 2, 3, 3])
        made = [e["step"] for e in s.events(out, "checkpoint")]
        self.assertEqual([n for n in (5, 10, 15) if n not in made], [])
        scores = [(e["step"], e["official"]["value"]) for e in s.events(out, "eval") if e["split"] == "val"]
        best = None
        for step, score in scores:  # at each new best; ties: the earlier
            if best is None or score > best[1]:
                best = (step, score)
                self.assertIn(step, made)
        self.assertEqual(set(made), {5, 10, 15} | {n for i, (n, v) in enumerate(scores) if all(v > w for _, w in scores[:i])})
        self.assertEqual(s.events(out, "end")[0]["best"]["step"], best[0])
        self.assertEqual(os.path.basename(os.path.realpath(s.checkpoint(out, "best"))), f"step-{best[0]:08d}")

    def test_the_course_is_the_same(self):
        self.assertEqual(s.course(self.go("a")), s.course(self.go("b", "--train.eval_every", 4)))

    def test_beyond_the_end(self):
        self.assertEqual(self.evaluations(self.go("o", "--train.eval_every", 1000)), [15])

    def test_at_the_end_once(self):
        self.assertEqual(self.evaluations(self.go("o", "--train.eval_every", 5)), [5, 10, 15])

    def test_max_steps(self):
        self.assertEqual(self.evaluations(self.go("o", "--train.eval_every", 4, "--train.max_steps", 7)), [4, 7])

    def test_early_stopping(self):
        out = self.go("o", "--train.eval_every", 2, "--train.early_stopping", 2, "--train.lr", 0)
        self.assertEqual(self.evaluations(out), [2, 4, 6], "the first is the best, two more without gain")
        self.assertEqual((s.events(out, "end")[0]["step"], s.events(out, "end")[0]["best"]["step"]), (6, 2))
        self.assertEqual(s.checkpoint_names(out)[-1], "step-00000006")
        self.assertIn("already complete", s.run("run", *self.arguments("o", "--train.eval_every", 2, "--train.early_stopping", 2, "--train.lr", 0)).err)

    def test_resume_in_between(self):
        one = self.go("one", "--train.eval_every", 4)
        self.in_pieces("two", "--train.eval_every", 4)
        self.same(one, self.path("two"))
        self.assertEqual(self.evaluations(self.path("two")), [4, 8, 12, 15])

    def test_ranks(self):
        self.same(self.go("one", "--train.eval_every", 4), self.go("two", "--train.eval_every", 4, ranks=2))

    def test_skipped_batches(self):
        """A batch that is skipped after an evaluation does not evaluate the same weights again; at the end neither."""
        fault = {"FINETUNED_FAULT": "nan:rank=0,cursor=4;nan:rank=0,cursor=14"}
        out = self.go("o", "--train.eval_every", 4, env=fault)
        self.assertEqual(max(s.steps(out)), 13)
        self.assertEqual(self.evaluations(out), [4, 8, 12, 13])
        out = self.go("p", "--train.eval_every", 13, env=fault)
        self.assertEqual(self.evaluations(out), [13])

    def test_told_to_end_where_it_was_stopped(self):
        """Stopped before its first evaluation, then given max_steps of just that step: it is evaluated all the same."""
        self.go("o", "--train.max_time", 1e-6, rc=75)
        out = self.go("o", "--train.max_steps", 1)
        self.assertEqual(self.evaluations(out), [1])
        self.assertEqual(s.events(out, "end")[0]["best"]["step"], 1)
        self.assertTrue(os.path.exists(f"{out}/model/model.safetensors"))
        self.assertTrue(os.path.exists(s.checkpoint(out, "best")))
        self.assertIn("already complete", s.run("run", *self.arguments("o", "--train.max_steps", 1)).err)


class Extend(OptionsCase):
    """A finished run goes on when it is asked for more."""

    def finished(self, *more):
        out = self.go("o", "--train.schedule", "linear", "--train.best_metric", "loss", *more)
        self.assertEqual(s.events(out)[-1]["event"], "end")
        return out

    def made(self, out):
        return {n: os.stat(os.path.join(out, n)).st_mtime_ns for n in ("report.json", "report.md", "model/model.safetensors", "artifacts/job-hf.tar.gz")}

    def check(self, before, *more, first=11, last=20):
        made = self.made(before)
        out = self.go("o", "--train.best_metric", "loss", *more)
        self.assertRegex(self.last.err, rf"{last} steps in all now, {first - 1} before: the schedule is computed anew")
        self.assertEqual(sorted(s.steps(out)), list(range(1, last + 1)))
        for step in range(first, last + 1):
            self.assertAlmostEqual(s.steps(out)[step]["lr"], 1e-3 * (last - step + 1) / last, delta=1e-11)
        resume, = s.events(out, "resume")
        self.assertEqual((resume["step"], resume["previous"]), (first - 1, {"step": first - 1, "ended": "end"}))
        self.assertEqual([e["step"] for e in s.events(out, "end")], [first - 1, last])
        self.assertEqual([e["steps_total"] for e in s.events(out, "start")], [first - 1, last])
        for name, stamp in self.made(out).items():
            self.assertGreater(stamp, made[name], f"{name} is made again")
        losses = {e["step"]: e["loss"] for e in s.events(out, "eval") if e["split"] == "val"}
        best = s.events(out, "end")[-1]["best"]["step"]
        self.assertEqual(best, min(losses, key=lambda step: (losses[step], step)), "of all epochs, those before the extension too")
        self.assertEqual(s.tensors_differ(s.safetensors_read(f"{out}/model/model.safetensors"), s.checkpoint_tensors(s.checkpoint(out, best))), [])
        report = s.json_read(f"{out}/report.json")
        self.assertEqual((report["steps"], report["best_step"]), (last, best))
        self.assertEqual(s.checkpoint_attributes(s.checkpoint(out))["steps_total"], last)
        return out

    def test_epochs(self):
        self.check(self.finished(), "--train.epochs", 4)

    def test_the_best_may_be_from_before(self):
        """With nothing to gain the best stays the first epoch's, and its checkpoint is kept."""
        out = self.go("o", "--train.lr", 0)
        best = s.events(out, "end")[0]["best"]["step"]
        self.assertEqual(best, 5)
        self.go("o", "--train.lr", 0, "--train.epochs", 6, "--checkpoints.keep", 1)
        self.assertEqual(s.events(out, "end")[-1]["best"]["step"], 5)
        self.assertEqual(s.checkpoint_names(out), ["step-00000005", "step-00000030"])

    def test_max_steps(self):
        self.check(self.finished("--train.max_steps", 7), "--train.max_steps", 12, first=8, last=12)

    def test_from_max_steps_to_epochs(self):
        self.check(self.finished("--train.max_steps", 7), "--train.epochs", 2, first=8, last=10)

    def test_ranks(self):
        out = self.finished()
        self.go("o", "--train.best_metric", "loss", "--train.epochs", 3, ranks=2)
        self.assertEqual(max(s.steps(out)), 15)

    def test_as_one_that_was_stopped_there(self):
        """Extending is resuming: the same as a run that was stopped at that step and given the new number of epochs."""
        one = self.finished()
        self.go("o", "--train.best_metric", "loss", "--train.epochs", 3)
        two = self.path("two")
        for _ in range(10):
            s.run("run", *self.arguments("two", "--train.best_metric", "loss", "--train.max_time", 1e-6))
        self.go("two", "--train.best_metric", "loss", "--train.epochs", 3)
        self.same(one, two, ["val"])  # the finished one had its test split evaluated in between

    def test_fewer_epochs_than_done(self):
        out = self.finished()
        made, lines = self.made(out), len(s.events(out))
        for more in (["--train.epochs", 1], ["--train.max_steps", 3]):
            result = self.train(*self.arguments("o", "--train.best_metric", "loss", *more))
            self.assertIn("already complete at step 10", result.err)
            self.assertNotIn("schedule", result.err)
            self.assertEqual(self.made(out), made)
            self.assertEqual(len(s.events(out)), lines)


if __name__ == "__main__":
    s.main()
