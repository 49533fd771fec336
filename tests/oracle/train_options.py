#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains with `finetuned` and again with PyTorch on the same batches, with label smoothing, class weights, layer_decay and freeze.

    train_options.py BASE DATA TASK FINETUNED OUT

BASE: a Hugging Face directory. DATA, TASK: in TweetEval's layout. FINETUNED: the program. OUT: a folder for its runs. Each row of CASES is
one run of some steps without dropout; torch takes the batches from its step events, CrossEntropyLoss(weight, label_smoothing) over
the batch, AdamW with a parameter group a layer, requires_grad false for what is frozen. Compared: every step's loss, learning rate and norm,
and the weights behind the last step. Exit code 0 if everything agrees, 1 if not. Run by hand: README.md says how.
"""
import argparse
import collections
import json
import os
import shutil
import subprocess
import sys

import torch
import transformers

STEPS, BATCH, RATE, DECAY = 20, 16, 5e-5, 0.1
CASES = {
    "plain": {},
    "smoothed": {"label_smoothing": 0.1},
    "balanced": {"class_weights": "balanced"},
    "list": {"class_weights": "list", "label_smoothing": 0.2},
    "layer_decay": {"layer_decay": 0.8},
    "embeddings": {"freeze": "embeddings"},
    "layers": {"freeze": 2, "layer_decay": 0.7},
    "all": {"freeze": 1, "layer_decay": 0.9, "label_smoothing": 0.1, "class_weights": "balanced"},
}


def rows(arguments, part):
    with open(os.path.join(arguments.data, arguments.task, f"train_{part}.txt"), "rb") as file:
        return file.read().split(b"\n")


def ours(arguments, name, options):
    """The step events of our run, and its folder."""
    out = os.path.join(arguments.out, name)
    shutil.rmtree(out, ignore_errors=True)
    more = [f"--train.{key}={value}" for key, value in options.items()]
    subprocess.run([arguments.finetuned, "run", "--model.base", arguments.base, "--data.dir", arguments.data, "--data.task", arguments.task, "--out", out,
                    "--model.dropout", "0", "--train.batch", str(BATCH), "--train.lr", str(RATE), "--train.weight_decay", str(DECAY), "--train.warmup", "4",
                    "--train.max_steps", str(STEPS), "--log.every", "1", "--log.samples", "true", "--log.level", "error", *more],
                   check=True, stdout=subprocess.DEVNULL)
    with open(os.path.join(out, "events.jsonl"), encoding="utf-8") as file:
        events = [json.loads(line) for line in file]
    return [e for e in events if e["event"] == "step"], out


def layer_of(name, layers):
    """0: embeddings, 1 … L: the encoder's layers, L + 1: the head (BERT's pooler with it)."""
    if ".embeddings." in name:
        return 0
    return int(name.split("encoder.layer.")[1].split(".")[0]) + 1 if "encoder.layer." in name else layers + 1


def groups(model, options):
    layers = model.config.num_hidden_layers
    frozen = {"none": 0, "embeddings": 1}.get(options.get("freeze", "none"))
    frozen = options["freeze"] + 1 if frozen is None else frozen
    found = collections.defaultdict(list)
    for name, parameter in model.named_parameters():
        at = layer_of(name, layers)
        parameter.requires_grad = at >= frozen
        decays = not (name.endswith("bias") or "LayerNorm" in name)
        if parameter.requires_grad:
            found[options.get("layer_decay", 1) ** max(layers - at, 0), decays].append(parameter)
    return [{"params": list_, "lr": RATE * share, "weight_decay": DECAY * decays} for (share, decays), list_ in found.items()]


def theirs(arguments, base_out, options, steps, ids, labels):
    """Losses, rates and norms of the same batches, and the model."""
    config = transformers.AutoConfig.from_pretrained(os.path.join(base_out, "model"), hidden_dropout_prob=0, attention_probs_dropout_prob=0, classifier_dropout=0)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(arguments.start, config=config).train()
    counts = [labels.count(c) for c in range(config.num_labels)]
    weights = {"balanced": [len(labels) / (len(counts) * n) for n in counts], "none": [1] * len(counts)}.get(options.get("class_weights", "none"))
    if weights is None:
        weights = [float(w) for w in options["class_weights"].split(",")]
    criterion = torch.nn.CrossEntropyLoss(torch.tensor(weights, dtype=torch.float32), label_smoothing=options.get("label_smoothing", 0))
    optimizer = torch.optim.AdamW(groups(model, options), betas=(0.9, 0.999), eps=1e-8)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, 4, STEPS)
    found = []
    for step in steps:
        batch = [ids[i] for i in step["samples"]]
        longest = max(map(len, batch))
        tokens = torch.tensor([row + [config.pad_token_id] * (longest - len(row)) for row in batch])
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in batch])
        loss = criterion(model(input_ids=tokens, attention_mask=mask).logits, torch.tensor([labels[i] for i in step["samples"]]))
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], 1.0)
        head = optimizer.param_groups[-1]["lr"]
        optimizer.step()
        schedule.step()
        found.append((loss.item(), head, norm.item()))
    return found, model


def compare(name, steps, found, out, model):
    from h5py import File

    worst = [max(abs(step[key] - row[i]) / (abs(row[i]) if i else 1) if row[i] else abs(step[key]) for step, row in zip(steps, found))
             for i, key in enumerate(("loss", "lr", "grad_norm"))]
    far = 0
    with File(os.path.join(out, "checkpoints", "latest", "checkpoint.h5"), "r") as file:
        for key, value in model.state_dict().items():
            if "key.bias" not in key and f"model/{key}" in file:  # its true gradient is 0: noise, blown up by AdamW
                far = max(far, float((torch.from_numpy(file[f"model/{key}"][...]) - value).abs().max()))
    good = worst[0] < 2e-5 and worst[1] < 1e-6 and worst[2] < 2e-4 and far < 4 * RATE
    print(f"{'ok' if good else 'FAILED':7s} {name:12s} loss {worst[0]:.1e}, rate {worst[1]:.1e}, norm {worst[2]:.1e} (relative), weights {far:.1e}")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("base", "data", "task", "finetuned", "out"):
        parser.add_argument(name)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    os.makedirs(arguments.out, exist_ok=True)
    labels = [int(row) for row in rows(arguments, "labels") if row]
    tokens = subprocess.run([arguments.finetuned, "tokenize", "--model", arguments.base, "--max-length", "128", "--file",
                             os.path.join(arguments.data, arguments.task, "train_text.txt")], check=True, stdout=subprocess.PIPE)
    ids = [json.loads(line)["ids"] for line in tokens.stdout.split(b"\n") if line]
    # A step at rate 0 makes the start of every run: the base with our new head.
    start = os.path.join(arguments.out, "start")
    shutil.rmtree(start, ignore_errors=True)
    subprocess.run([arguments.finetuned, "run", "--model.base", arguments.base, "--data.dir", arguments.data, "--data.task", arguments.task, "--out", start,
                    "--train.lr", "0", "--train.max_steps", "1", "--log.level", "error"], check=True, stdout=subprocess.DEVNULL)
    arguments.start = os.path.join(start, "model")
    good = True
    for name, options in CASES.items():
        if options.get("class_weights") == "list":
            options = {**options, "class_weights": ",".join(str(0.5 + c) for c in range(max(labels) + 1))}
        steps, out = ours(arguments, name, options)
        found, model = theirs(arguments, start, options, steps, ids, labels)
        good = compare(name, steps, found, out, model) and good
    sys.exit(not good)


if __name__ == "__main__":
    main()
