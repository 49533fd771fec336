#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Loads a model directory of ours with Transformers and compares: tensors, token ids, logits, labels.

    hf_directory.py MODEL FINETUNED [TEXTS] [--tolerance 1e-4] [--threads 1]

MODEL: <out>/model of a run. FINETUNED: the program. TEXTS: a file of texts, one a line (default: texts.txt beside this
script). Prints what was measured; exit code 0 if everything agrees, 1 if not. Run by hand: README.md says how.
"""
import argparse
import json
import os
import subprocess
import sys

import torch
import transformers

BATCH = 16


def finetuned(arguments, verb, *flags):
    """The JSON lines that a verb prints for the texts."""
    command = [arguments.finetuned, verb, "--model", arguments.model, "--file", arguments.texts, *flags]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in done.stdout.decode("utf-8").split("\n") if line]


class Checks:
    """Prints a line for each check and remembers whether one failed."""

    def __init__(self):
        self.failed = 0

    def line(self, good, what):
        self.failed += not good
        print(("ok      " if good else "FAILED  ") + what)


def model_load(arguments, checks):
    model, info = transformers.AutoModelForSequenceClassification.from_pretrained(
        arguments.model, dtype=torch.float32, output_loading_info=True)
    odd = {key: sorted(map(str, value)) for key, value in info.items() if value}
    checks.line(not odd, f"keys: {len(model.state_dict())} tensors of {type(model).__name__}, "
                         f"missing, unexpected or mismatched: {odd or 'none'}")
    return model.eval()


def tokenizer_load(arguments, literal):
    return transformers.AutoTokenizer.from_pretrained(arguments.model, split_special_tokens=literal)


def ids_check(arguments, checks, texts, mode, length):
    """`length` None: not cut."""
    tokenizer = tokenizer_load(arguments, mode == "literal")
    flags = ["--special", mode] + (["--max-length", str(length)] if length else [])
    ours = [row["ids"] for row in finetuned(arguments, "tokenize", *flags)]
    cut = {"truncation": True, "max_length": length} if length else {}
    theirs = [tokenizer(text, **cut)["input_ids"] for text in texts]
    differ = [i for i in range(len(texts)) if ours[i] != theirs[i]]
    checks.line(len(ours) == len(texts) and not differ,
                f"ids, special tokens {mode}, {f'cut to {length}' if length else 'not cut'}: {len(texts)} texts, "
                f"{sum(map(len, theirs))} tokens, {len(differ)} texts differ"
                + (f", the first is line {differ[0] + 1}" if differ else ""))
    return tokenizer


def logits_of(model, tokenizer, texts, length):
    rows = []
    for i in range(0, len(texts), BATCH):
        batch = tokenizer(texts[i:i + BATCH], truncation=True, max_length=length, padding=True, return_tensors="pt")
        with torch.no_grad():
            rows += model(**batch).logits.double().tolist()
    return rows


def logits_check(arguments, checks, model, tokenizer, texts, length):
    """Theirs runs in padded batches, ours one packed text at a time."""
    ours, theirs = finetuned(arguments, "predict"), logits_of(model, tokenizer, texts, length)
    off = max(abs(a - b) for row, them in zip(ours, theirs) for a, b in zip(row["logits"], them))
    largest = max(abs(value) for row in theirs for value in row)
    checks.line(len(ours) == len(texts) and off <= arguments.tolerance,
                f"logits: {len(texts)} texts, greatest difference {off:.3g} (at most {arguments.tolerance:g}; "
                f"greatest logit {largest:.3g})")
    names = [model.config.id2label[max(range(len(row)), key=row.__getitem__)] for row in theirs]
    wrong = [i for i, name in enumerate(names) if ours[i]["label"] != name]
    checks.line(not wrong, f"labels: {len(set(names))} of {len(model.config.id2label)} names occur, {len(wrong)} texts differ")
    return ours


def pipeline_check(arguments, checks, ours, texts, length):
    """As a user would call it; texts that it would tokenise in another way (special tokens, cut ones) are left out."""
    pipe = transformers.pipeline("text-classification", model=arguments.model, device="cpu", dtype=torch.float32)
    plain = [i for i, text in enumerate(texts)
             if not any(token in text for token in pipe.tokenizer.all_special_tokens)
             and len(pipe.tokenizer(text)["input_ids"]) <= length]
    got = [pipe(texts[i])[0] for i in plain]
    off = max(abs(g["score"] - ours[i]["score"]) for g, i in zip(got, plain))
    wrong = sum(g["label"] != ours[i]["label"] for g, i in zip(got, plain))
    checks.line(not wrong and off <= arguments.tolerance,
                f"pipeline: {len(plain)} texts, {wrong} labels differ, greatest difference of a score {off:.3g}")


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("finetuned")
    parser.add_argument("texts", nargs="?", default=os.path.join(here, "texts.txt"))
    parser.add_argument("--tolerance", type=float, default=1e-4, help="greatest difference of a logit")
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    transformers.logging.set_verbosity_error()
    with open(arguments.texts, encoding="utf-8", newline="\n") as file:
        texts = file.read().removesuffix("\n").split("\n")
    with open(os.path.join(arguments.model, "finetuned.json"), encoding="utf-8") as file:
        settings = json.load(file)
    length = settings["max_length"]
    print(f"{arguments.model}: torch {torch.__version__}, transformers {transformers.__version__}, "
          f"max_length {length}, special tokens {settings['special_tokens']}")
    checks = Checks()
    model = model_load(arguments, checks)
    for mode in ("literal", "parse"):
        ids_check(arguments, checks, texts, mode, None)
    tokenizer = ids_check(arguments, checks, texts, settings["special_tokens"], length)
    ours = logits_check(arguments, checks, model, tokenizer, texts, length)
    pipeline_check(arguments, checks, ours, texts, length)
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
