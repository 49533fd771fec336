# SPDX-License-Identifier: Apache-2.0
"""The same text has the same answer to the last bit, alone, in any batch and order, on any number of threads and every instruction set, from predict and
from eval; and a run the same weights. Nine digits say a float32 in full: equal lines are equal bits."""
import json
import os
import random
import subprocess
import threading

import shim
import support as s

SETS = ("plain", "avx2", "avx512", "avx512bf16")
LENGTHS = (0, 1, 2, 5, 11, 12, 13, 14, 15, 25, 26, 27, 29, 30, 31, 45, 46, 47, 61, 62, 63, 94, 126, 127, 189, 222, 223, 254, 255, 400, 509, 510)


def sets_here():
    """Those that this processor and build have."""
    return [name for name in SETS if s.run("bench", "gemm", "--isa", name, "--shape", "1x1x1", "--ms", 1).rc == 0]


def texts_make():
    """Of 2 … 512 tokens: a letter or sign is one in the test's vocabulary. Each length twice."""
    rng = random.Random(6)
    return ["".join(rng.choice("bcdfgjkmqrsuvwxyz0123456789#@!") for _ in range(n)) for n in LENGTHS for _ in range(2)]


class Bits(s.Case):
    @classmethod
    def setUpClass(cls):
        cls.home = s.tempfile.mkdtemp(prefix="finetuned-test-")
        cls.addClassCleanup(s.shutil.rmtree, cls.home, ignore_errors=True)
        cls.model = s.model_make(os.path.join(cls.home, "m"), s.LABELS, positions=514)
        cls.texts, cls.sets = texts_make(), sets_here()
        cls.alone = cls.answers_alone()

    @classmethod
    def answers_alone(cls):
        """By text: each asked when the one before was answered, by the plain definition on one thread."""
        process = subprocess.Popen(s.command(["predict", "--model", cls.model]), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   env=s.environment(FINETUNED_ISA="plain", **shim.cpus(1)))
        patience = threading.Timer(s.PATIENCE, process.kill)
        patience.start()
        answers = {}
        for text in cls.texts:
            process.stdin.write(text.encode() + b"\n")
            process.stdin.flush()
            answers[text] = process.stdout.readline().decode()
        patience.cancel()
        process.stdin.close()
        process.stdout.close()
        process.wait()
        return answers

    def drawn(self, seed):
        """Some of the texts in another order, and the way they are asked."""
        rng = random.Random(seed)
        texts = rng.sample(self.texts, rng.randint(1, len(self.texts)))
        return texts, {"FINETUNED_ISA": self.sets[seed % len(self.sets)], **shim.cpus(rng.choice((1, 2, 3, 4)))}

    def test_lengths(self):
        self.assertIn("plain", self.sets)
        result = s.run("tokenize", "--model", self.model, stdin="\n".join(self.texts) + "\n")
        self.assertEqual([len(line["ids"]) for line in result.lines()], [n + 2 for n in LENGTHS for _ in range(2)])
        self.assertGreater(len(set(self.alone.values())), len(LENGTHS), "answers that differ")

    def test_predict(self):
        for seed in range(9):
            texts, env = self.drawn(seed)
            with self.subTest(seed=seed, texts=len(texts), cpus=env["CPUS"], isa=env["FINETUNED_ISA"]):
                result = s.run("predict", "--model", self.model, stdin="\n".join(texts) + "\n", env=env)
                self.assertExit(result, 0)
                self.assertEqual(result.out, "".join(self.alone[t] for t in texts))

    def test_eval(self):
        for seed in range(20, 26):
            texts, env = self.drawn(seed)
            path, out = self.write("t.jsonl", "".join(json.dumps({"text": t}) + "\n" for t in texts)), self.path("answers.jsonl")
            with self.subTest(seed=seed, texts=len(texts), cpus=env["CPUS"], isa=env["FINETUNED_ISA"]):
                self.assertExit(s.run("eval", "--model", self.model, "--file", path, "--output", out, env=env), 0)
                for text, line in zip(texts, s.file_lines(out), strict=True):
                    found, want = json.loads(line), json.loads(self.alone[text])
                    self.assertEqual((found["text"], found["label"], found["score"], found["scores"]), (text, want["label"], want["score"], want["scores"]))


class Training(s.Case):
    def test_weights(self):
        """Short and long texts, dropout, four parts: one run for each set and number of threads."""
        data, base = s.task_make(self.path("d"), rows=(24, 6, 6)), s.model_make(self.path("m"), dropout=0.2, positions=514)
        rng = random.Random(7)
        long = ["".join(rng.choice("bcdfgjkm ") for _ in range(n)).strip() + f" {i}" for i, n in enumerate((500, 300, 260, 130, 64, 1))]
        s.split_write(os.path.join(data, "emotion"), "train", s.rows_make(24) + [(text, i % 4) for i, text in enumerate(long)])
        outs = []
        for isa in sets_here():
            for threads in (1, 2, 4):
                outs.append(self.path(f"{isa}-{threads}"))
                self.train("--model.base", base, "--data.dir", data, "--data.task", "emotion", "--data.max_length", 512, "--threads", threads,
                           "--train.batch", 8, "--train.parts", 4, "--train.precision", "fp32", "--train.max_steps", 5,
                           "--train.lr", 1e-3, "--log.every", 1, "--export.to", "[]",
                           "--out", outs[-1], env={"FINETUNED_ISA": isa, **shim.cpus(threads)})
                self.assertEqual([e["threads"] for e in s.events(outs[-1], "start")], [threads])
        for out in outs[1:]:
            with self.subTest(out=os.path.basename(out)):
                self.assertEqual(s.course(out), s.course(outs[0]))
                for group in ("model", "optimizer"):
                    self.assertEqual(s.tensors_differ(s.checkpoint_tensors(s.checkpoint(out), group), s.checkpoint_tensors(s.checkpoint(outs[0]), group)), [])

    def test_rows_a_line_apart(self):
        """Rows of 4 KiB lie a cache line further apart: a model of 1024 features, of which four are nothing, is the one of 1020."""
        data, narrow, wide = s.task_make(self.path("d"), rows=(16, 6, 6)), s.model_make(self.path("narrow"), ffn=1020), s.model_make(self.path("wide"), ffn=1024)
        tensors, full = (s.safetensors_read(f"{base}/model.safetensors") for base in (narrow, wide))
        for name, value in tensors.items():
            full[name] = 0 * full[name]
            full[name][tuple(map(slice, value.shape))] = value
        s.safetensors_write(f"{wide}/model.safetensors", full)
        for precision in ("fp32", "bf16"):
            models = []
            for base in (narrow, wide):
                out = self.path(f"{os.path.basename(base)}-{precision}")
                self.train("--model.base", base, "--data.dir", data, "--data.task", "emotion", "--data.max_length", 40, "--train.batch", 8, "--train.max_steps", 4,
                           "--train.lr", 1e-3, "--train.clip", 0, "--train.precision", precision, "--export.to", "[]", "--out", out)
                models.append(s.safetensors_read(f"{out}/model/model.safetensors"))
            with self.subTest(precision=precision):
                for name, value in models[0].items():
                    whole = models[1][name]
                    self.assertEqual(whole[tuple(map(slice, value.shape))].tobytes(), value.tobytes(), name)
                    self.assertEqual((whole != 0).sum(), (value != 0).sum(), name)
                self.assertNotEqual(models[0]["roberta.encoder.layer.1.output.dense.weight"].tobytes(), tensors["roberta.encoder.layer.1.output.dense.weight"].tobytes())


if __name__ == "__main__":
    s.main()
