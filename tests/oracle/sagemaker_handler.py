#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Unpacks a SageMaker archive of ours, calls its handler as the container does, and compares the answers with those of
`finetuned predict` on the same files.

    sagemaker_handler.py ARCHIVE FINETUNED [TEXTS] [--tolerance 1e-5] [--threads 1]

Of a question answering model TEXTS is a JSON lines file of {"question", "context"}, or a file in SQuAD's format (.json). Exit code 0 if everything agrees, 1 if not.
"""
import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tarfile
import tempfile

import torch
import transformers


def handler_load(folder):
    """code/inference.py, imported under the name that the container gives it."""
    spec = importlib.util.spec_from_file_location("inference", os.path.join(folder, "code", "inference.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def handler_ask(module, model, request):
    """What the toolkit does with a request's body."""
    data = module.input_fn(json.dumps(request), "application/json")
    return json.loads(module.output_fn(module.predict_fn(data, model), "application/json"))


def finetuned_ask(arguments, folder, flags, data=None):
    command = [arguments.finetuned, "predict", "--model", folder, *flags]
    done = subprocess.run(command, input=data, stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in done.stdout.decode("utf-8").split("\n") if line]


def labels_check(arguments, module, model, folder, report):
    with open(arguments.texts, encoding="utf-8", newline="\n") as file:
        texts = file.read().removesuffix("\n").split("\n")
    ours = finetuned_ask(arguments, folder, ["--file", arguments.texts])
    theirs = handler_ask(module, model, {"inputs": texts, "parameters": {"top_k": 0}})
    best = handler_ask(module, model, {"inputs": texts})
    report(len(theirs) == len(best) == len(ours) == len(texts), f"{len(texts)} texts, an answer each")
    report([a[0] for a in theirs] == best, "without top_k the best of its labels")
    off = max(abs(entry["score"] - row["scores"][entry["label"]]) for row, answer in zip(ours, theirs) for entry in answer)
    wrong = sum(row["label"] != answer["label"] for row, answer in zip(ours, best))
    report(off <= arguments.tolerance and not wrong, f"greatest difference of a score {off:.3g} (at most {arguments.tolerance:g}), "
                                                     f"{wrong} labels differ")
    single = handler_ask(module, model, {"inputs": texts[0]})
    report(len(single) == 1 and single[0]["label"] == best[0]["label"], "a single text")


def questions_read(path):
    with open(path, encoding="utf-8") as file:
        if path.endswith(".json"):
            return [{"question": q["question"], "context": p["context"]} for a in json.load(file)["data"] for p in a["paragraphs"] for q in p["qas"]]
        return [json.loads(line) for line in file if line.strip()]


def answers_check(arguments, module, model, folder, report):
    rows = questions_read(arguments.texts)
    for choice, parameters in (("model", {}), ("yes", {"handle_impossible_answer": True}), ("no", {"handle_impossible_answer": False})):
        wrong, off, empty = 0, 0.0, 0
        theirs = handler_ask(module, model, {"inputs": rows, "parameters": parameters})
        ours = finetuned_ask(arguments, folder, ["--file", arguments.texts, "--no-answer", choice])
        for row, one, two in zip(rows, ours, theirs, strict=True):
            context = row["context"]
            begin, end = (len(context[:two[key]].encode()) for key in ("start", "end"))
            wrong += (one["answer"], one["start"], one["end"]) != (two["answer"], begin, end)
            off = max(off, abs(one["score"] - two["score"]))
            empty += not two["answer"]
        report(rows and not wrong and off <= arguments.tolerance,
               f"no answer: {choice}: {len(rows)} questions, {empty} without an answer, {wrong} answers differ, greatest difference of a score "
               f"{off:.3g} (at most {arguments.tolerance:g})")


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive")
    parser.add_argument("finetuned")
    parser.add_argument("texts", nargs="?", default=os.path.join(here, "texts.txt"))
    parser.add_argument("--tolerance", type=float, default=1e-5, help="greatest difference of a score")
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    transformers.logging.set_verbosity_error()
    failed = []

    def report(good, what):
        failed.extend([] if good else [what])
        print(("ok      " if good else "FAILED  ") + what)

    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(arguments.archive) as archive:
            archive.extractall(folder)
        module = handler_load(folder)
        model = module.model_fn(folder)
        print(f"{arguments.archive}: torch {torch.__version__}, transformers {transformers.__version__}, {type(model.network).__name__}")
        (answers_check if model.answers else labels_check)(arguments, module, model, folder, report)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
