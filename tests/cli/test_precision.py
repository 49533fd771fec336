# SPDX-License-Identifier: Apache-2.0
"""train.precision: what auto comes to and why; bf16 on every instruction set, in every world, micro-batch and after a resume the same bits."""
import json
import os
import shutil

import resume_support as r
import support as s

SETS = ("plain", "avx2", "avx512", "avx512bf16")


def here():
    """The instruction sets of this processor."""
    return [isa for isa in SETS if s.run("bench", "gemm", "--ms", 1, "--shape", "1x1x1", "--isa", isa).rc == 0]


class Precision(r.Runs):
    rows = (20, 6, 4)  # three steps an epoch: without vector instructions each takes long
    keys = {**r.Runs.keys, "train__epochs": 2, "train__lr": 1e-3, "checkpoints__every": 1, "threads": 1, "log__every": 1, "log__samples": True,
            "data__max_length": 20}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.base = s.model_make(os.path.join(cls.root, "m"), hidden=34, heads=2, ffn=43, dropout=0.2)  # an odd number of columns too
        cls.sets = here()

    def go(self, name, precision="bf16", *more, isa=None, **options):
        """A run into a folder of that name; its precision as start event, job.yaml, checkpoint and report have it."""
        out = self.path(name)
        job = s.job_write(self.path(f"{name}.yaml"), self.data, out, **{**self.keys, "model__base": self.base, "train__precision": precision})
        self.last = self.train(job, *more, env={"FINETUNED_ISA": isa} if isa else None, **options)
        found = {s.events(out, "start")[-1]["precision"], s.json_read(f"{out}/report.json")["precision"],
                 s.checkpoint_attributes(s.checkpoint(out))["precision"]}
        with open(f"{out}/job.yaml", encoding="utf-8") as file:
            found |= {line.split()[1] for line in file if line.startswith("  precision:")}
        self.assertEqual(len(found), 1, found)
        self.precision = found.pop()
        return out

    def assertSame(self, one, two):
        self.out = one
        self.assertSameEnd(two)

    def test_bits(self):
        """On every instruction set, thread count, power-of-two world and cut into micro-batches; near fp32, and not the same."""
        one = self.go("one")
        self.assertEqual(self.precision, "bf16")
        for isa in self.sets:
            with self.subTest(isa=isa):
                self.assertSame(self.go(f"isa-{isa}", isa=isa), one)
                if isa != "avx512bf16":
                    self.assertIn("bf16 is slower than fp32 on this processor: no bf16 instructions", self.last.err)
        for name, more, ranks in (("threads", ("--threads", 2), 0), ("ranks", (), 2), ("ranks4", (), 4),
                                  ("micro", ("--train.max_tokens", 100), 0), ("both", ("--train.max_tokens", 100), 2)):
            with self.subTest(name):
                self.assertSame(self.go(name, "bf16", *more, ranks=ranks), one)
        other = self.go("other", "fp32")
        self.assertEqual(self.precision, "fp32")
        self.assertNotIn("precision", self.last.err)
        for step, event in s.steps(other).items():
            self.assertNotEqual(event["loss"], s.steps(one)[step]["loss"])
            self.assertAlmostEqual(event["loss"], s.steps(one)[step]["loss"], delta=0.015)

    def test_auto(self):
        """Without instructions for bf16 it is fp32, and the log says why; the same run as one that asks for fp32."""
        plain = self.go("fp32", "fp32", isa="plain")
        for isa in self.sets:
            out = self.go(f"auto-{isa}", "auto", "--log.level", "info", isa=isa)
            self.assertRegex(self.last.err, f"train.precision: auto is {self.precision}: " +
                             ("this processor's bf16 products are (no )?faster than fp32's" if isa == "avx512bf16" else "no bf16 instructions"))
            if isa != "avx512bf16":
                self.assertEqual(self.precision, "fp32")
            if self.precision == "fp32":
                self.assertSame(out, plain)

    def test_resume(self):
        """A run goes on in what it has: where the job says auto, and where the processor has no bf16; another value is refused."""
        one = self.go("one")
        for name, arguments, isa in (("auto", ("--train.precision", "auto"), None), ("auto on two ranks", ("--train.precision", "auto"), "plain"),
                                     ("bf16", (), "plain")):
            with self.subTest(name):
                self.out = self.path("o")
                self.cut(one, 4)
                result = self.train(os.path.join(one, "job.yaml"), "--out", self.out, *arguments, env={"FINETUNED_ISA": isa} if isa else None,
                                    ranks=2 if "two" in name else 0)
                self.assertIn("bf16 is slower than fp32" if isa else "", result.err)
                self.assertEqual(s.events(self.out, "start")[-1]["precision"], "bf16")
                self.assertSameEnd(one)
        self.cut(one, 4)
        before = r.tree(self.out)
        result = self.train(os.path.join(one, "job.yaml"), "--out", self.out, "--train.precision", "fp32", rc=65)
        self.assertIn("train.precision was bf16, but this job says fp32", result.err)
        self.assertEqual(r.tree(self.out), before)
        shutil.rmtree(self.out)
        self.cut(self.go("other", "fp32"), 4)
        result = self.train(os.path.join(one, "job.yaml"), "--out", self.out, rc=65)
        self.assertIn("train.precision was fp32, but this job says bf16", result.err)

    def test_models_are_scored_in_fp32(self):
        """The run scores its best model in bf16; eval and predict compute in fp32, and are near."""
        out = self.go("one")
        mine = s.events(out, "eval")[-1]
        result = s.run("eval", "--model", f"{out}/model", "--data.dir", self.data, "--data.task", "emotion", "--split", "test", "--json")
        self.assertExit(result, 0)
        theirs = json.loads(result.out)
        self.assertNotEqual(theirs["loss"], mine["loss"])
        self.assertAlmostEqual(theirs["loss"], mine["loss"], delta=0.015)

    def test_dry_run(self):
        """It names the precision, and counts the copy: half of the matrices' bytes."""
        found = {}
        for precision in ("fp32", "bf16"):
            result = s.run("run", "--model.base", self.base, "--data.dir", self.data, "--data.task", "emotion", "--data.max_length", 40,
                           "--out", self.path("dry"), "--train.precision", precision, "--dry-run", "--json")
            self.assertExit(result, 0)
            found[precision] = json.loads(result.out)
            self.assertEqual(found[precision]["precision"], precision)
        more = found["bf16"]["memory"]["weights"] - found["fp32"]["memory"]["weights"]
        blocks = lambda n, k: -(-n // 32) * 32 * (k + k % 2) * 2
        layer = 4 * blocks(34, 34) + blocks(43, 34) + blocks(34, 43)
        self.assertEqual(more, -(-(2 * layer + blocks(34, 34) + blocks(4, 34)) // 64) * 64)


if __name__ == "__main__":
    s.main()
