# SPDX-License-Identifier: Apache-2.0
"""What is not finite, at each place where it can arise: the batch is skipped before the update, every rank takes the same way, three in a row
are 65, and nothing that is not finite is ever saved, chosen or published. In worlds of 1, 2 and 4 with equal bits."""
import glob
import os
import shutil

import support as s

WORLDS = (0, 2, 4)  # ranks; 0: the program alone
HUGE = "Z"          # a letter whose embedding is so large that its LayerNorm overflows: the text has no finite answer


class NonFinite(s.Case):
    def setUp(self):
        super().setUp()
        self.data = s.task_make(self.path("d"), rows=(24, 8, 8))

    def row(self, split, number, text):
        """A text of the data in the place of another."""
        path = os.path.join(self.data, "emotion", f"{split}_text.txt")
        lines = s.file_lines(path)
        lines[number] = text.encode()
        with open(path, "wb") as file:
            file.write(b"\n".join(lines) + b"\n")

    def base(self, name="m", **changes):
        """A small model with weights changed: tensor -> function of its values."""
        import numpy

        folder = s.model_make(self.path(name), hidden=16, layers=1, ffn=16, positions=60, dropout=0.0)
        path = f"{folder}/model.safetensors"
        tensors = {k: v.copy() for k, v in s.safetensors_read(path).items()}
        sign = numpy.where(numpy.arange(16) % 2, 1, -1).astype("f4")
        tensors["roberta.embeddings.word_embeddings.weight"][s.json_read(f"{folder}/vocab.json")[HUGE]] = 3e38 * sign
        for tensor, change in changes.items():
            tensors[tensor.replace("__", ".")] = change(tensors[tensor.replace("__", ".")]).astype("<f4")
        s.safetensors_write(path, tensors)
        return folder

    def go(self, out, base, *arguments, ranks=0, rc=0, env=None):
        out = self.path(out)
        self.last = s.run("run", "--model.base", base, "--data.dir", self.data, "--data.task", "emotion", "--out", out, "--threads", 1, "--data.max_length", 40,
                          "--train.batch", 8, "--train.parts", 4, "--train.epochs", 2, "--train.lr", 1e-3, "--log.every", 1, "--log.level", "warn",
                          "--log.tensorboard", "false", *arguments, ranks=ranks, env=env)
        self.assertExit(self.last, rc)
        self.saved_are_finite(out)
        return out

    def saved_are_finite(self, out):
        import numpy

        files = [s.safetensors_read(path) for path in glob.glob(f"{out}/model/*.safetensors")]
        for folder in glob.glob(f"{out}/checkpoints/step-*"):
            files += [s.checkpoint_tensors(folder, group) for group in ("model", "optimizer/exp_avg", "optimizer/exp_avg_sq")]
        for tensors in files:
            for name, value in tensors.items():
                self.assertTrue(numpy.isfinite(value).all(), f"{out}: {name}")

    def way(self, out):
        """What every world must tell alike."""
        keys = ("event", "step", "cursor", "reason", "exit", "epoch", "loss", "grad_norm", "lr", "official")
        return [{k: e[k] for k in keys if k in e and not (k == "reason" and e["event"] == "skip")} for e in s.events(out)
                if e["event"] in ("step", "skip", "eval", "stop", "end")]

    def in_all_worlds(self, name, base, *arguments, rc=0, env=None):
        """The same events in each world and, where it ends well, the same weights; the first world's folder."""
        outs = []
        for ranks in WORLDS:
            outs.append(self.go(f"{name}{ranks}", base, *arguments, ranks=ranks, rc=rc, env=env and env(ranks)))
            self.assertEqual(self.way(outs[-1]), self.way(outs[0]), f"{ranks} ranks: {self.last}")
            if rc:
                errors = [line for line in self.last.err.splitlines() if "error:" in line]
                self.assertEqual(len(errors), 1, f"said once: {self.last}")
                self.assertFalse(os.path.exists(f"{outs[-1]}/model"))
            else:
                weights = [s.safetensors_read(f"{out}/model/model.safetensors") for out in (outs[0], outs[-1])]
                self.assertEqual(s.tensors_differ(*weights), [], f"{ranks} ranks")
        return outs[0]

    def test_loss(self):
        """One text of one rank has no finite loss: its batch is skipped, in both epochs, by all ranks."""
        self.row("train", 5, f"a {HUGE} b")
        out = self.in_all_worlds("o", self.base())
        self.assertEqual(len(s.events(out, "skip")), 2)
        self.assertEqual(max(s.steps(out)), 4, "six batches, two of them skipped")

    def test_one_gradient(self):
        """One element of one rank's gradient."""
        out = self.in_all_worlds("o", self.base(), env=lambda ranks: {"FINETUNED_FAULT": f"nan:rank={max(ranks, 1) - 1},cursor=2"})
        skip, = s.events(out, "skip")
        self.assertEqual((skip["step"], skip["cursor"]), (2, 2))

    def test_three_in_a_row(self):
        out = self.in_all_worlds("o", self.base(), "--checkpoints.every", 1, rc=65,
                                 env=lambda ranks: {"FINETUNED_FAULT": f"nan:rank={max(ranks, 1) - 1},cursor=1,count=3"})
        self.assertEqual(len(s.events(out, "skip")), 3)
        self.assertEqual(s.events(out)[-1]["reason"], "nonfinite")
        self.assertEqual(s.checkpoint_names(out), ["step-00000001"], "what was saved before stays")

    def test_norm(self):
        """A gradient that is finite, but whose squares no second moment can hold: skipped, unless clipping makes it small."""
        base = self.head_of(1e30)
        out = self.go("o", base, "--train.clip", 0, rc=65)
        self.assertEqual([e["cursor"] for e in s.events(out, "skip")], [0, 1, 2])
        self.assertRegex(s.events(out, "skip")[0]["reason"], r"gradient norm \d\S*e\+\d\d$")
        self.go("clipped", base)
        self.assertEqual(s.events(self.path("clipped"), "skip"), [])

    def head_of(self, scale):
        """A fine-tuned model whose last layer is so much larger."""
        folder = s.model_make(self.path("head"), s.LABELS, hidden=16, layers=1, ffn=16, positions=60, dropout=0.0)
        path = f"{folder}/model.safetensors"
        tensors = {k: v.copy() for k, v in s.safetensors_read(path).items()}
        tensors["classifier.out_proj.weight"] *= scale
        s.safetensors_write(path, tensors)
        return folder

    def test_weights(self):
        """Weights that the updates themselves drive out of range: never saved, and said to have diverged."""
        out = self.in_all_worlds("o", self.base(), "--train.lr", 1e6, "--train.weight_decay", 1000, "--train.schedule", "constant", "--train.epochs", 20,
                                 "--checkpoints.every", 1, rc=65)
        self.assertEqual(s.events(out)[-1]["reason"], "nonfinite")
        self.assertIn("diverged", self.last.err)

    def test_weight_file(self):
        """Refused before the first step, naming file and tensor, by one rank for all."""
        name = "roberta.encoder.layer.0.output.dense.bias"
        for bad in (float("nan"), float("inf")):
            base = self.base("w", **{name.replace(".", "__"): lambda v: v * 0 + bad})
            for ranks in WORLDS:
                shutil.rmtree(self.path("o"), ignore_errors=True)
                self.go("o", base, ranks=ranks, rc=65)
                self.assertIn(f"{base}/model.safetensors: tensor {name} holds a value that is not finite", self.last.err)
                self.assertEqual(s.events(self.path("o"), "step") if os.path.exists(self.path("o/events.jsonl")) else [], [])

    def test_evaluation(self):
        """A text of val without a finite answer: no such evaluation is the best, and a run with no other has no best model."""
        self.row("val", 3, f"a {HUGE} b")
        base = self.base()
        out = self.in_all_worlds("o", base, rc=65)
        self.assertEqual([e["loss"] for e in s.events(out, "eval")], [None, None])
        self.assertEqual(s.events(out)[-1]["reason"], "nonfinite")
        self.assertEqual(s.checkpoint_attributes(s.checkpoint(out))["best_step"], 0)
        self.assertEqual(len(s.checkpoint_names(out)), 2, "its checkpoints are there to look at")
        result = s.run("eval", "--model", s.checkpoint(out), "--data.dir", self.data, "--data.task", "emotion", "--split", "val", "--json")
        self.assertExit(result, 0, "not finite")
        self.assertIsNone(result.lines()[0]["loss"])

    def test_answers(self):
        """predict gives no label that was chosen by numbers that are none; export does not publish such a model."""
        folder = s.model_make(self.path("a"), s.LABELS, hidden=16, layers=1, ffn=16, positions=60)
        path = f"{folder}/model.safetensors"
        tensors = {k: v.copy() for k, v in s.safetensors_read(path).items()}
        tensors["roberta.embeddings.word_embeddings.weight"][s.json_read(f"{folder}/vocab.json")["a"]] = [3e38, -3e38] * 8
        s.safetensors_write(path, tensors)
        result = s.run("predict", "--model", folder, "b", "a", "b")
        self.assertExit(result, 65, "text 2", "not finite")
        self.assertExit(s.run("export", "--from", folder, "--to", "hf", "--out", self.path("e")), 65, "not finite")
        self.assertFalse(os.path.exists(self.path("e")))


if __name__ == "__main__":
    s.main()
