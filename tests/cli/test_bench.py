# SPDX-License-Identifier: Apache-2.0
"""`bench`: keys and sane values, never speed; nothing left behind; wrong flags."""
import json
import os
import signal

import support as s


class Bench(s.Case):
    def bench(self, *arguments, **options):
        """The JSON object that `bench … --json` prints."""
        result = s.run("bench", *arguments, "--json", **options)
        self.assertExit(result, 0)
        lines = result.out.splitlines()
        self.assertEqual(len(lines), 1, "one JSON object and nothing else")
        return json.loads(lines[0])

    def assertPositive(self, found, *keys):
        for key in keys:
            self.assertGreater(found[key], 0, key)

    def refused(self, rc, message, *arguments):
        result = s.run("bench", *arguments)
        self.assertExit(result, rc)
        self.assertIn(message, result.err)
        self.assertEqual(result.out, "")


class Names(Bench):
    def test_help(self):
        result = s.run("bench", "--help")
        self.assertExit(result, 0)
        for name in ("gemm", "step", "optimizer", "tokenize", "io"):
            self.assertIn(name, result.out)
            self.assertExit(s.run("bench", name, "--help"), 0)

    def test_unknown(self):
        self.refused(64, "did you mean tokenize", "tokenise")
        self.refused(64, "not in this version yet", "comm")
        self.refused(64, "--seconds", "tokenize", "--second", "1")


class Optimizer(Bench):
    def test_figures(self):
        found = self.bench("optimizer", "--parameters", 1, "--runs", 2, "--threads", 1)
        self.assertPositive(found, "update_s", "stream_s", "time", "norm_s", "parameters")
        self.assertAlmostEqual(found["time"], found["update_s"] / found["stream_s"], places=6)
        self.assertTrue(1e6 <= found["parameters"] < 1.5e6)
        self.assertEqual(found["threads"], 1)

    def test_table(self):
        result = s.run("bench", "optimizer", "--parameters", 1, "--runs", 1)
        self.assertExit(result, 0)
        self.assertIn("the same bytes alone", result.out)

    def test_wrong(self):
        self.refused(64, "--runs", "optimizer", "--runs", "0")


class Tokenize(Bench):
    KEYS = ("tweets", "tokens", "bytes", "tweets_per_s", "tokens_per_s", "mb_per_s", "first_tweets_per_s", "threads")

    def test_made(self):
        found = self.bench("tokenize", "--seconds", 1)
        self.assertEqual(found["kind"], "bpe")
        self.assertPositive(found, *self.KEYS)
        self.assertEqual(found["tokens"], found["bytes"] + 2 * found["tweets"], "a vocabulary of bytes, and <s> and </s>")

    def test_files(self):
        model = s.model_make(self.path("model"))
        path = self.path("texts.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write("".join(text + "\n" for text, _ in s.rows_make(50)) + "\n")
        for arguments in ([path], ["--file", path]):
            found = self.bench("tokenize", "--model", model, "--seconds", 1, *arguments)
            self.assertPositive(found, *self.KEYS)
            self.assertEqual(found["tweets"], 51, "a blank row is a text")
        self.assertEqual(self.bench("tokenize", path, path, "--seconds", 1)["tweets"], 102)
        data = s.task_make(self.path("data"))
        self.assertEqual(self.bench("tokenize", "--data.dir", data, "--data.task", "emotion", "--seconds", 1)["tweets"], 24)

    def test_table(self):
        result = s.run("bench", "tokenize", "--seconds", 1)
        self.assertExit(result, 0)
        self.assertIn("tweets/s", result.out)

    def test_wrong(self):
        path = self.path("bad.txt")
        with open(path, "wb") as file:
            file.write(b"good\nb\xffad\n")
        self.refused(65, f"{path}:2: byte 2", "tokenize", path)
        self.refused(65, "missing.txt", "tokenize", "--file", self.path("missing.txt"))
        self.refused(64, "go together", "tokenize", "--data.dir", ".")
        self.refused(64, "not both", "tokenize", "--file", path, path)
        self.refused(65, "vocab", "tokenize", "--model", os.path.dirname(path))


class Gemm(Bench):
    def check(self, found, threads, shapes):
        self.assertEqual(found["threads"], threads)
        self.assertGreater(found["peak_gflops"], 0)
        self.assertEqual({(row["product"], row["parts"]) for row in found["shapes"]},
                         {("forward", 1), ("input", 1), ("weight", 1), ("weight", 16)})
        self.assertEqual(len(found["shapes"]), 4 * shapes)
        for row in found["shapes"]:
            self.assertPositive(row, "m", "n", "k", "gflops", "share")
            self.assertLessEqual(row["share"], 1.5)
            self.assertAlmostEqual(row["share"], row["gflops"] / found["peak_gflops"], places=6)
            name = f"{row['product']} {row['m']}x{row['n']}x{row['k']}" + (" 16 parts" if row["parts"] == 16 else "")
            self.assertEqual(found["gflops"][name], row["gflops"])
        self.assertEqual(len(found["gflops"]), 4 * shapes)
        self.assertEqual(len(found["tree_time"]), shapes)
        self.assertPositive(found["tree_time"], *found["tree_time"])

    def test_usual(self):
        self.check(self.bench("gemm", "--ms", 1, "--threads", 1), 1, 13)

    def test_sets(self):
        """Every instruction set, on a shape whose rows and columns fill no tile."""
        for isa in ("plain", "avx2", "avx512", "avx512bf16"):
            result = s.run("bench", "gemm", "--json", "--ms", 1, "--threads", 1, "--isa", isa, "--shape", "31x33x35")
            if result.rc == 69:
                self.assertIn(isa, result.err)
                continue
            self.assertExit(result, 0)
            found = json.loads(result.out)
            self.assertEqual(found["isa"], isa)
            self.check(found, 1, 1)

    def test_table(self):
        result = s.run("bench", "gemm", "--ms", 1, "--shape", "16x32x32")
        self.assertExit(result, 0)
        self.assertIn("weight grad.", result.out)
        self.assertIn("tree over 16 parts", result.out)

    def test_peer(self):
        """oneDNN's numbers where the library is, else a refusal that names the package."""
        result = s.run("bench", "gemm", "--json", "--ms", 1, "--threads", 1, "--shape", "16x64x32", "--peer")
        if result.rc == 69:
            self.assertIn("libdnnl2", result.err)
            return
        self.assertExit(result, 0)
        found = json.loads(result.out)
        self.check(found, 1, 1)
        self.assertPositive(found["onednn_gflops"], *(f"{product} 16x64x32" for product in ("forward", "input", "weight")))

    def test_wrong(self):
        for shape in ("", "1", "1x2", "0x1x1", "1x1x65537", "1x1x1x1", "ax1x1", "1x-1x1", "1x1x", "99999999999999999999x1x1"):
            self.refused(64, "--shape", "gemm", "--shape", shape)
        self.refused(64, "plain, avx2, avx512, avx512bf16", "gemm", "--isa", "sse")
        self.refused(64, "--threads", "gemm", "--threads", "0")
        self.refused(64, "argument", "gemm", "word")


class Step(Bench):
    KEYS = ("tweets_per_s", "tokens_per_s", "flops_share", "peak_gflops", "gemm_gflops", "step_s", "traced_step_s", "rss_bytes",
            "threads", "batch", "parts", "steps", "tweets", "tokens", "loss")
    STAGES = ["data", "update", "forward", "loss", "backward", "reduce", "norm", "agree"]

    def step(self, *arguments, **options):
        """The object, checked; the folder for temporary files must be empty before and after."""
        spare = self.path("spare")
        os.makedirs(spare, exist_ok=True)
        found = self.bench("step", "--steps", 2, "--threads", 1, *arguments, env={"TMPDIR": spare}, **options)
        self.assertEqual(os.listdir(spare), [])
        self.check(found)
        return found

    def check(self, found):
        self.assertPositive(found, *self.KEYS)
        self.assertLessEqual(found["flops_share"], 1.5)
        self.assertEqual(found["tweets"], found["steps"] * found["batch"])
        self.assertLess(found["loss"], 10)
        self.assertLess(found["rss_bytes"], 1 << 33)
        self.assertEqual(list(found["stages"]), self.STAGES)
        shares = sum(stage["share"] for stage in found["stages"].values())
        self.assertTrue(0 < shares <= 1.001, shares)
        for stage in found["stages"].values():
            self.assertAlmostEqual(stage["share"], stage["s"] / found["traced_step_s"], places=6)
            inside = sum(op["share"] for op in stage["ops"].values())
            self.assertLessEqual(inside, stage["share"] + 1e-6, "one thread's ops are inside its stage")
        for name in ("gemm", "attention", "layernorm", "gelu", "dropout", "embeddings", "bias", "add", "tanh"):
            parts = [stage["ops"][name]["s"] for stage in found["stages"].values() if name in stage["ops"]]
            self.assertAlmostEqual(found["ops"][name]["s"], sum(parts), places=8)
            self.assertTrue(0 < found["ops"][name]["share"] <= 1, name)
        self.assertEqual({stage for stage, value in found["stages"].items() if "gemm" in value["ops"]}, {"forward", "backward"})

    def test_made(self):
        """Texts are made; with the built-in vocabulary they have as many tokens as tweets."""
        found = self.step("--model.base", "random:tiny", "--train.precision", "fp32")
        self.assertEqual((found["base"], found["precision"], found["batch"], found["steps"], found["threads"]),
                         ("random:tiny", "fp32", 16, 2, 1))
        self.assertTrue(15 < found["tokens_per_s"] / found["tweets_per_s"] < 40)

    def test_model(self):
        """A model's own vocabulary, and a thread more."""
        model = s.model_make(self.path("model"))
        result = s.run("bench", "step", "--json", "--steps", 1, "--model.base", model, "--threads", 2, "--data.max_length", 64)
        self.assertExit(result, 0)
        found = json.loads(result.out)
        self.assertPositive(found, *self.KEYS)
        self.assertEqual(found["base"], model)

    def test_job(self):
        """A job file's data and options; neither its folder nor its cache is made."""
        data, out = s.task_make(self.path("data")), self.path("out")
        job = s.job_write(self.path("job.yaml"), data, out, train__batch=8)
        found = self.step(job, "--train.parts", 2)
        self.assertEqual((found["batch"], found["parts"]), (8, 2))
        self.assertFalse(os.path.exists(out))

    def test_trace(self):
        path = self.path("trace.json")
        found = self.step("--model.base", "random:tiny", "--trace", path)
        events = s.json_read(path)
        stages = [e for e in events if e["cat"] == "stage"]
        self.assertEqual({e["name"] for e in stages}, set(self.STAGES))
        self.assertTrue({"gemm", "attention", "layernorm"} <= {e["name"] for e in events if e["cat"] == "op"})
        for e in events:
            self.assertEqual(set(e), {"name", "cat", "ph", "ts", "dur", "pid", "tid"})
            self.assertEqual((e["ph"], e["tid"]), ("X", 0))
            self.assertTrue(e["ts"] >= 0 and e["dur"] >= 0)
        self.nests(events)
        seconds = sum(e["dur"] for e in events if e["name"] == "gemm") / 1e6 / found["steps"]
        self.assertAlmostEqual(seconds, found["ops"]["gemm"]["s"], places=6)

    def nests(self, events):
        """In each thread a span lies inside another one or beside it; ops lie in stages."""
        ns = lambda value: round(value * 1000)
        open_spans = []
        for e in sorted(events, key=lambda e: (ns(e["ts"]), -ns(e["dur"]), e["cat"] == "op")):
            while open_spans and open_spans[-1][1] <= ns(e["ts"]) and open_spans[-1][1] < ns(e["ts"]) + ns(e["dur"]):
                open_spans.pop()
            if e["cat"] == "stage":
                self.assertEqual(open_spans, [])
            else:
                self.assertTrue(open_spans and open_spans[0][0] == "stage", e)
                self.assertLessEqual(ns(e["ts"]) + ns(e["dur"]), open_spans[-1][1])
            open_spans.append((e["cat"], ns(e["ts"]) + ns(e["dur"])))

    def test_table(self):
        result = s.run("bench", "step", "--steps", 1, "--model.base", "random:tiny")
        self.assertExit(result, 0)
        for word in ("tweets/s", "backward", "  gemm", "MiB resident"):
            self.assertIn(word, result.out)

    def test_wrong(self):
        self.refused(64, "--steps", "step", "--steps", "0")
        self.refused(64, "at most", "step", "--steps", "99999999")
        self.refused(64, "train.batch", "step", "--train.batch", "0")
        self.refused(64, "did you mean", "step", "--train.bach", "1")
        self.refused(65, "missing", "step", "--model.base", self.path("missing"))
        self.refused(65, "data.dir", "step", "--model.base", "random:tiny", "--data.dir", self.path("missing"), "--data.task", "emotion")
        result = s.run("bench", "step", "--steps", 1, "--model.base", "random:tiny", "--trace", self.path("no/trace.json"))
        self.assertExit(result, 74)
        result = s.run("bench", "step", env={"TMPDIR": self.path("missing")})
        self.assertExit(result, 74)

    def test_stopped(self):
        spare = self.path("spare")
        os.makedirs(spare)
        process = s.start("bench", "step", "--model.base", "random:tiny", "--steps", 100000, env={"TMPDIR": spare})
        made = lambda: any("train_text.txt" in names for _, _, names in os.walk(spare))
        self.assertTrue(s.wait_for(made, process))
        process.send_signal(signal.SIGTERM)
        self.assertExit(s.finish(process), 75)
        self.assertEqual(os.listdir(spare), [])


class Io(Bench):
    KEYS = ("bytes", "block_bytes", "write_mb_per_s", "write_fsync_mb_per_s", "read_mb_per_s", "commits", "commit_ms", "commit_worst_ms")

    def place(self):
        path = self.path("io")
        os.makedirs(path, exist_ok=True)
        return path

    def test_good(self):
        folder = self.place()
        found = self.bench("io", "--dir", folder, "--size", "3MiB", "--commits", 3)
        self.assertPositive(found, *self.KEYS)
        self.assertGreaterEqual(found["fsync_s"], 0)
        self.assertEqual((found["bytes"], found["commits"], found["dir"]), (3 << 20, 3, folder))
        self.assertLessEqual(found["commit_ms"], found["commit_worst_ms"])
        self.assertEqual(os.listdir(folder), [])
        result = s.run("bench", "io", "--size", "1MiB", "--commits", 1, cwd=folder)
        self.assertExit(result, 0)
        self.assertIn("MB/s", result.out)
        self.assertEqual(os.listdir(folder), [])

    def test_wrong(self):
        for size in ("0", "1MiB2", "1000", "big", "-1MiB"):
            self.refused(64, "--size", "io", "--size", size)
        self.refused(74, "missing", "io", "--dir", self.path("missing"))
        self.refused(74, "No space left", "io", "--dir", self.place(), "--size", "4096TiB")

    def test_full(self):
        """A file-size limit stands in for a disk that fills up while it is written."""
        folder = self.place()
        limit = ("bash", "-c", 'ulimit -f 2048; exec "$@"', "limit")
        result = s.run("bench", "io", "--dir", folder, "--size", "8MiB", before=limit)
        self.assertExit(result, 74)
        self.assertEqual(os.listdir(folder), [])

    def test_stopped(self):
        folder = self.place()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            process = s.start("bench", "io", "--dir", folder, "--size", "1MiB", "--commits", 1000000)
            self.assertTrue(s.wait_for(lambda: os.listdir(folder), process))
            process.send_signal(number)
            result = s.finish(process)
            self.assertExit(result, 75)
            self.assertIn(number.name, result.err)
            self.assertEqual(os.listdir(folder), [])


if __name__ == "__main__":
    s.main()
