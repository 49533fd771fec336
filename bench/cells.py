# SPDX-License-Identifier: Apache-2.0
"""The cells of bench/compare: what is run on either side, and the check that both did the same work. ours(c) and peer(c) return facts by name."""
import math
import os
import shutil
import tempfile
import time

import measure
from measure import Failed

PEER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peer.py")
BATCH = 16
TEXTS = 512


class Comparison:
    """The paths, the processors and the lengths of measurements."""

    def __init__(self, arguments):
        self.__dict__.update(vars(arguments))
        self.cpus = sorted(os.sched_getaffinity(0))[:self.threads]
        self.env = measure.environment(self.threads, self.work, self.wait)

    def at(self, *names):
        return os.path.join(self.work, *names)

    def ours(self, *arguments):
        return [self.program, *map(str, arguments)]

    def theirs(self, *arguments):
        return [self.python, PEER, *map(str, arguments)]

    def run(self, command):
        return measure.objects(command, self.cpus, self.env)


def same(what, ours, theirs, within):
    if not abs(ours / theirs - 1) <= within:
        raise Failed(f"the two sides did not do the same: {what} is {ours:.6g} here, {theirs:.6g} there")


# ---- training

RECIPES = {
    "usual": ["--padding", "longest"],
    "grouped": ["--padding", "grouped"],
    "compiled": ["--padding", "grouped", "--compile"],
    "128": ["--padding", "max_length"],
    "512": ["--padding", "max_length", "--max-len", "512"],
}


def torch_train(c, model, recipe, steps, warm):
    return c.theirs("train", os.path.join(c.peers, "torch_train.py"), "--vocab", c.vocab, "--data", c.work, "--task", c.task, "--config", model, "--fused",
                    "--batch", BATCH, "--steps", steps, "--warm", warm, *RECIPES[recipe])


class Train:
    """Steps of a model with random weights on a task's own tweets, batch 16, everything on. A few batches are a sample, and another one on each side:
    rates are by the tokens that a side computes (ours: the real ones, the peer's: padding too), over those that it computes for a tweet on the average of
    an epoch."""

    def __init__(self, model, recipe):
        self.model, self.recipe = model, recipe
        self.slow = {"128": (4, 1), "512": (1, 1)}.get(recipe)  # the peer's counted and uncounted steps, of 6 and 40 seconds

    def ours(self, c):
        return c.run(c.ours("bench", "step", "--json", "--steps", c.steps, "--threads", c.threads, "--model.base", f"random:{self.model}", "--model.vocab",
                            c.vocab, "--data.dir", c.data, "--data.task", c.task, "--data.max_length", 512 if self.recipe == "512" else 128, "--train.batch", BATCH, "--train.precision", "fp32"))

    def peer(self, c):
        facts = c.run(torch_train(c, self.model, self.recipe, *(self.slow or (c.steps, 3))))
        if self.recipe == "compiled":
            del facts["others"]  # the compiler's processes, which it leaves behind, are its own
        return facts

    def check(self, ours, peer):
        for side in (ours, peer):
            if side["loss"] is None or not 0 < side["loss"] < 10:
                raise Failed(f"a loss is {side['loss']}")
            if side["tweets"] != BATCH * side["steps"]:
                raise Failed(f"{side['steps']} steps of {BATCH} are {side['tweets']} tweets?")
        same("threads", ours["threads"], peer["threads"], 0)
        same("dropout", 0.1, peer["dropout"], 0)
        for side in (ours, peer):  # a sample of the same texts: within four of its standard errors
            same("tokens of a tweet", side["tokens"] / side["tweets"], peer["mean_tokens"], 1.6 / math.sqrt(min(side["steps"], 16)))
        ours["tweets_per_s"] = ours["tokens_per_s"] / peer["mean_tokens"]
        peer["tweets_per_s"] = peer["real_tokens_per_s"] / (1 - peer["padding_share"]) / peer["mean_computed"]


def run_job(c, out, *more):
    """A job on all of train, and little of val and test."""
    return c.ours("run", "--model.base", c.at("encoder"), "--data.dir", c.at("small"), "--data.task", c.task, "--data.cache", c.at("shards"), "--threads",
                  c.threads, "--train.batch", BATCH, "--train.precision", "fp32", "--export.to", "[]", "--out", out, *more)


class Memory:
    """The most that is resident of a whole run which saves checkpoints while it trains; of the peer: of training alone."""

    def ours(self, c):
        with tempfile.TemporaryDirectory(dir=c.work) as folder:
            return c.run(run_job(c, os.path.join(folder, "run"), "--train.max_steps", c.steps + 3, "--checkpoints.every", 5))

    def peer(self, c):
        return c.run(torch_train(c, "base", "usual", c.steps, 3))

    def check(self, ours, peer):
        pass


def second(start):
    """Of two starts the second one's facts: programs, libraries, weights and shards lie in the page cache by then."""
    start()
    return start()


class Start:
    """From exec to the point where the first step begins."""

    def ours(self, c):
        return second(lambda: self.start(c))

    def start(self, c):
        with tempfile.TemporaryDirectory(dir=c.work) as folder:
            out = os.path.join(folder, "run")
            return measure.until_event(run_job(c, out, "--train.max_steps", 1), c.cpus, c.env, os.path.join(out, "events.jsonl"), "start")

    def peer(self, c):
        facts = second(lambda: c.run(c.theirs("start", c.at("encoder"), c.data, c.task)))
        return {**facts, "seconds": facts["ready_s"]}

    def check(self, ours, peer):
        pass


# ---- inference, both sides with the same weights

TEXT = "what a lovely morning, isn't it?"


def near(ours, theirs):
    furthest = max(abs(a - b) for x, y in zip(ours, theirs, strict=True) for a, b in zip(x, y, strict=True))
    if not furthest < 1e-4:
        raise Failed(f"the two sides did not do the same: logits are {furthest:.3g} apart")


class Answer:
    """From exec to the first answer."""

    def ours(self, c):
        return second(lambda: self.answer(c))

    def answer(self, c):
        asked = measure.Asked(c.ours("predict", "--model", c.at("classifier")), c.cpus, c.env)
        answers, _ = asked.answer([TEXT])
        seconds = time.time() - asked.running.since
        return {**asked.end(), "seconds": seconds, "logits": answers[0]["logits"]}

    def peer(self, c):
        facts = second(lambda: c.run(c.theirs("answer", c.at("roberta_base.onnx"), c.at("classifier"), c.threads, TEXT)))
        return {**facts, "seconds": facts["answer_s"]}

    def check(self, ours, peer):
        near([ours["logits"]], [peer["logits"]])


class Shape:
    """One text of so many tokens at a time."""

    def __init__(self, length):
        self.length = length

    def ours(self, c):
        text = " the" * (self.length - 2)
        tokens = c.run(c.ours("tokenize", "--model", c.at("classifier"), text))
        if len(tokens["ids"]) != self.length:
            raise Failed(f"a text of {len(tokens['ids'])} tokens, not {self.length}: is this another vocabulary?")
        asked = measure.Asked(c.ours("predict", "--model", c.at("classifier")), c.cpus, c.env)
        times = []
        for i in range(-3, 2000):
            seconds = asked.answer([text])[1]
            times += [seconds] if i >= 0 else []
            if sum(times) > c.seconds and len(times) >= 20:
                break
        times.sort()
        return {**asked.end(), "p50_ms": 1e3 * times[(len(times) - 1) // 2], "p99_ms": 1e3 * times[math.ceil(0.99 * len(times)) - 1], "batches": len(times)}

    def peer(self, c):
        return c.run(c.theirs("shape", c.at("roberta_base.onnx"), c.threads, f"1x{self.length}", c.seconds))

    def check(self, ours, peer):
        pass


class Texts:
    """The first 512 tweets in the order of the file, as many together as a user gets: tokenizer and all on our side, the model alone on the peer's."""

    def ours(self, c):
        with open(c.at("texts.txt"), encoding="utf-8", newline="\n") as file:
            lines = file.read().split("\n")[:-1]
        asked = measure.Asked(c.ours("predict", "--model", c.at("classifier")), c.cpus, c.env)
        asked.answer(lines[:BATCH])
        answers, seconds = asked.answer(lines)
        self.logits = [a["logits"] for a in answers]
        return {**asked.end(), "texts": len(lines), "texts_per_s": len(lines) / seconds}

    def peer(self, c):
        out = c.at("logits.txt")
        facts = c.run(c.theirs("texts", c.at("roberta_base.onnx"), c.at("classifier"), c.threads, c.at("texts.txt"), out))
        with open(out, encoding="utf-8") as file:
            self.peer_logits = [[float(x) for x in line.split()] for line in file]
        return facts

    def check(self, ours, peer):
        near(self.logits, self.peer_logits)


CELLS = {
    **{f"train-base-{recipe}": Train("base", recipe) for recipe in RECIPES},
    **{f"train-mini-{recipe}": Train("mini", recipe) for recipe in ("usual", "grouped")},
    "memory-base": Memory(),
    "start-base": Start(),
    "answer-base": Answer(),
    "infer-1x32": Shape(32),
    "infer-1x128": Shape(128),
    "infer-512": Texts(),
}


# ---- what both sides need before the first round

def data_prepare(c):
    """The peers look for <data>/datasets/<task>; our own jobs get a small val and test; the texts of infer-512."""
    if not os.path.lexists(c.at("datasets")):
        os.symlink(os.path.abspath(c.data), c.at("datasets"))
    source, small = os.path.join(c.data, c.task), c.at("small", c.task)
    os.makedirs(small, exist_ok=True)
    shutil.copy(os.path.join(source, "mapping.txt"), small)
    for split, rows in (("train", 1 << 30), ("val", 16), ("test", 16)):
        for part in ("text", "labels"):
            with open(os.path.join(source, f"{split}_{part}.txt"), "rb") as file, open(os.path.join(small, f"{split}_{part}.txt"), "wb") as out:
                out.writelines(file.readlines()[:rows])
    with open(os.path.join(source, "train_text.txt"), "rb") as file, open(c.at("texts.txt"), "wb") as out:
        out.writelines(file.readlines()[:TEXTS])


def prepare(c):
    """Once, minutes: the peers' models by their own program, our shards, the code that torch.compile makes."""
    os.makedirs(c.work, exist_ok=True)
    data_prepare(c)
    if os.path.exists(c.at("versions.json")):
        return
    print("bench/compare: making the peers' models and what torch.compile keeps, some minutes", flush=True)
    c.run(torch_train(c, "base", "compiled", 4, 3))
    c.run(c.theirs("models", os.path.join(c.peers, "ort_infer.py"), c.work, "--config", "base", "--vocab", c.vocab))
    Start().start(c)
