#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Loads a question answering model of ours with Transformers and compares: tensors, token ids, spans' scores, loss, answers.

    hf_answers.py MODEL FINETUNED DATA [--utils utils_qa.py] [--tolerance 1e-4] [--threads 1]

MODEL: <out>/model of a run. DATA: a file in SQuAD's format, with golds. utils_qa.py: of Transformers' repository, in
examples/pytorch/question-answering; its post-processing must give the answers of `finetuned eval`. Exit code 0 if everything
agrees, 1 if not. Run by hand: README.md says how.
"""
import argparse
import collections
import importlib.util
import json
import math
import os
import re
import subprocess
import sys
import tempfile

import torch
import transformers

BATCH = 16
CARD = 20  # questions that the model card's code is tried with


class Checks:
    """Prints a line for each check and remembers whether one failed."""

    def __init__(self):
        self.failed = 0

    def line(self, good, what):
        self.failed += not good
        print(("ok      " if good else "FAILED  ") + what)


def finetuned(arguments, verb, *flags, data=None):
    """The JSON lines that a verb prints."""
    command = [arguments.finetuned, verb, "--model", arguments.model, *flags]
    done = subprocess.run(command, input=data, stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in done.stdout.decode("utf-8").split("\n") if line]


def questions_read(path):
    with open(path, encoding="utf-8") as file:
        data = json.load(file)["data"]
    return [{"id": q["id"], "question": q["question"], "context": p["context"], "answers": q["answers"]}
            for article in data for p in article["paragraphs"] for q in p["qas"]]


def model_load(arguments, checks):
    model, info = transformers.AutoModelForQuestionAnswering.from_pretrained(arguments.model, dtype=torch.float32, output_loading_info=True)
    odd = {key: sorted(map(str, value)) for key, value in info.items() if value}
    checks.line(not odd, f"keys: {len(model.state_dict())} tensors of {type(model).__name__}, missing, unexpected or mismatched: {odd or 'none'}")
    return model.eval()


def ids_check(arguments, checks, tokenizer, questions):
    """Question and context uncut."""
    pairs = "".join(json.dumps({"text": q["question"].lstrip(), "pair": q["context"]}) + "\n" for q in questions)
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        file.write(pairs)
        file.flush()
        ours = [row["ids"] for row in finetuned(arguments, "tokenize", "--jsonl", "--file", file.name)]
    theirs = tokenizer([q["question"].lstrip() for q in questions], [q["context"] for q in questions], verbose=False)["input_ids"]
    differ = sum(a != b for a, b in zip(ours, theirs))
    checks.line(len(ours) == len(questions) and not differ, f"ids: {len(questions)} questions with their contexts, {sum(map(len, theirs))} tokens, "
                                                            f"{differ} differ")


def windows_make(tokenizer, questions, settings):
    """run_qa.py's features for evaluation: offsets outside of the context are None."""
    windows = []
    for q in questions:
        encoded = tokenizer([q["question"].lstrip()], [q["context"]], truncation="only_second", max_length=settings["max_length"],
                            stride=settings["doc_stride"], return_overflowing_tokens=True, return_offsets_mapping=True)  # lists: "" is a context
        for i, ids in enumerate(encoded["input_ids"]):
            own = encoded.sequence_ids(i)
            window = {"example_id": q["id"], "length": len(ids), "all_offsets": encoded["offset_mapping"][i], "own": own,
                      "offset_mapping": [o if s == 1 else None for o, s in zip(encoded["offset_mapping"][i], own)]}
            windows.append({**window, **{key: encoded[key][i] for key in ("input_ids", "attention_mask", "token_type_ids") if key in encoded}})
    return windows


def logits_add(model, tokenizer, windows):
    """Start and end logits of each window, in padded batches."""
    names = [key for key in ("input_ids", "attention_mask", "token_type_ids") if key in windows[0]]
    for at in range(0, len(windows), BATCH):
        piece = windows[at:at + BATCH]
        batch = tokenizer.pad({name: [w[name] for w in piece] for name in names}, return_tensors="pt")
        with torch.no_grad():
            out = model(**batch)
        for w, starts, ends in zip(piece, out.start_logits, out.end_logits):
            w["starts"], w["ends"] = starts[:w["length"]].double(), ends[:w["length"]].double()


def scores_check(arguments, checks, questions, windows):
    """A span's share of 1000 against the best one's says by how much their sums of logits differ."""
    ours = {row["id"]: row for row in finetuned(arguments, "predict", "--file", arguments.data, "--n-best", "1000", "--no-answer", "yes")}
    most, spans, missing = 0.0, 0, 0
    for q in questions:
        theirs, none = collections.defaultdict(list), math.inf
        for w in windows:
            if w["example_id"] != q["id"]:
                continue
            none = min(none, float(w["starts"][0] + w["ends"][0]))
            tokens = [i for i, s in enumerate(w["own"]) if s == 1]
            starts, ends = w["starts"].tolist(), w["ends"].tolist()
            for i in tokens:
                for j in range(i, min(i + 30, tokens[-1] + 1)):
                    theirs[w["all_offsets"][i][0], w["all_offsets"][j][1]].append(starts[i] + ends[j])
        of = q["context"].encode()
        answers = ours[q["id"]]["nbest"]
        place = lambda a: (len(of[:a["start"]].decode()), len(of[:a["end"]].decode()))
        base = None
        seen = collections.Counter()
        for answer in answers:
            if answer["score"] < 1e-30:
                continue
            at = place(answer)
            values = [none] if at == (0, 0) else sorted(theirs.get(at, []), reverse=True)
            if not values:
                missing += 1
                continue
            log = math.log(answer["score"])
            if base is None:
                base = log - values[0]
            # the same bytes may be a span more than once: the nearest value is meant
            most = max(most, min(abs(log - base - value) for value in values))
            seen[at] += 1
            spans += 1
    checks.line(not missing and spans and most <= arguments.tolerance,
                f"scores: {spans} spans of {len(questions)} questions, {missing} unknown, greatest difference of a sum of logits {most:.3g} (at most "
                f"{arguments.tolerance:g})")


def answer_tokens(w, begin, end):
    """run_qa.py's rule for a window's target."""
    own = [i for i, s in enumerate(w["own"]) if s == 1]
    offsets = w["all_offsets"]
    if not own or begin is None or not (offsets[own[0]][0] <= begin and offsets[own[-1]][1] >= end):
        return 0, 0
    first = max(i for i in own if offsets[i][0] <= begin)
    last = min(i for i in own if offsets[i][1] >= end)
    return min(first, last), max(first, last)


def loss_check(arguments, checks, questions, windows, evaluated):
    """The library's own loss of each window alone, so without padding: a mean over windows."""
    golds = {q["id"]: q["answers"] for q in questions}
    total = 0.0
    for w in windows:
        answer = (golds[w["example_id"]] or [None])[0]
        begin = answer and answer["answer_start"]
        first, last = answer_tokens(w, begin, answer and begin + len(answer["text"]))
        total -= float(torch.log_softmax(w["starts"], 0)[first] + torch.log_softmax(w["ends"], 0)[last]) / 2
    off = abs(total / len(windows) - evaluated["loss"])
    checks.line(off <= arguments.tolerance, f"loss: {evaluated['loss']:.6f} over {len(windows)} windows, difference {off:.3g}")


def answers_check(arguments, checks, questions, windows, settings, predictions):
    if not arguments.utils:
        print("not checked: answers of utils_qa.py (--utils)")
        return
    spec = importlib.util.spec_from_file_location("utils_qa", arguments.utils)
    utils = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(utils)

    class Examples(list):
        def __getitem__(self, key):
            return [row[key] for row in self] if isinstance(key, str) else list.__getitem__(self, key)

    logits = [w["starts"].float().numpy() for w in windows], [w["ends"].float().numpy() for w in windows]
    theirs = utils.postprocess_qa_predictions(Examples(questions), windows, logits, version_2_with_negative=settings["no_answer"])
    differ = [q["id"] for q in questions if theirs[q["id"]] != predictions[q["id"]]]
    checks.line(not differ, f"answers: {len(questions)} questions by utils_qa.py, {sum(a == '' for a in theirs.values())} of them without an answer, "
                            f"{len(differ)} differ" + (f": {[(i, theirs[i], predictions[i]) for i in differ[:5]]}" if differ else ""))


def card_check(arguments, checks, questions, windows, predictions):
    """The model card's code, with its three texts replaced."""
    with open(os.path.join(arguments.model, "README.md"), encoding="utf-8") as file:
        code = re.search(r"(?s)```python\n(.*?)```", file.read()).group(1)
    counts = collections.Counter(w["example_id"] for w in windows)
    tried = [q for q in questions if counts[q["id"]] == 1][:CARD]
    wrong = []
    for q in tried:
        printed = []
        text = code.replace('"path/to/this/folder"', repr(arguments.model)).replace('"a question"', repr(q["question"]))
        exec(compile(text.replace('"a context"', repr(q["context"])), "README.md", "exec"), {"print": printed.append})  # our own file
        wrong += [q["id"]] if printed != [predictions[q["id"]]] else []
    checks.line(tried and not wrong, f"the card's code: {len(tried)} questions of one window, {len(wrong)} answers differ {wrong or ''}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("finetuned")
    parser.add_argument("data")
    parser.add_argument("--utils", help="utils_qa.py of Transformers' examples")
    parser.add_argument("--tolerance", type=float, default=1e-4, help="greatest difference of a score or loss")
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    transformers.logging.set_verbosity_error()
    with open(os.path.join(arguments.model, "finetuned.json"), encoding="utf-8") as file:
        settings = json.load(file)
    literal = settings["special_tokens"] == "literal"
    print(f"{arguments.model}: torch {torch.__version__}, transformers {transformers.__version__}, max_length {settings['max_length']}, doc_stride "
          f"{settings['doc_stride']}")
    checks, questions = Checks(), questions_read(arguments.data)
    model = model_load(arguments, checks)
    tokenizer = transformers.AutoTokenizer.from_pretrained(arguments.model, split_special_tokens=literal)
    ids_check(arguments, checks, tokenizer, questions)
    windows = windows_make(tokenizer, questions, settings)
    logits_add(model, tokenizer, windows)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "predictions.json")
        evaluated, = finetuned(arguments, "eval", "--data.format", "squad", "--file", arguments.data, "--json", "--predictions", path)
        with open(path, encoding="utf-8") as file:
            predictions = json.load(file)
    loss_check(arguments, checks, questions, windows, evaluated)
    scores_check(arguments, checks, questions, windows)
    answers_check(arguments, checks, questions, windows, settings, predictions)
    card_check(arguments, checks, questions, windows, predictions)
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
