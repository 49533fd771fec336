# SPDX-License-Identifier: Apache-2.0
"""The peers' side of bench/compare, run by the Python that holds them. Prints JSON objects, one a line.

peer.py train TORCH_TRAIN.py ARGUMENTS…      that program, then what it computed: its last loss, tokens, tweets
peer.py models ORT_INFER.py OUT ARGUMENTS…   that program, which makes OUT/roberta_<config>.onnx; its weights as Hugging Face folders below OUT
peer.py start MODEL DATA TASK                Transformers from its start to the first training step
peer.py answer ONNX MODEL THREADS TEXT       onnxruntime from its start to the first answer
peer.py shape ONNX THREADS BxL SECONDS       onnxruntime on one shape: p50 and p99
peer.py texts ONNX MODEL THREADS FILE OUT    onnxruntime over the lines of FILE in their order, batches of 16 padded to their longest; logits into OUT
"""
import json
import math
import os
import runpy
import shutil
import sys
import time

BATCH = 16
SINCE = float(os.environ.get("BENCH_SINCE") or time.time())  # when this process was started


def say(**facts):
    print(json.dumps(facts), flush=True)


def program(path, arguments):
    """Another's program, as its user starts it; what it left in its globals."""
    sys.argv = [path, *arguments]
    return runpy.run_path(path, run_name="__main__")


def train(path, *arguments):
    left = program(path, arguments)
    loss, a, lengths = left["loss"].item(), left["a"], [len(left["ids"][j]) for j in left["order"]]
    batches = [lengths[first:first + a.batch] for first in range(0, len(lengths), a.batch)]
    computed = sum(len(b) * (a.max_len if a.padding == "max_length" else max(b)) for b in batches)
    say(loss=loss if math.isfinite(loss) else None, tokens=left["real"], tweets=a.batch * len(left["T"]), steps=len(left["T"]),
        mean_tokens=sum(lengths) / len(lengths), mean_computed=computed / len(lengths), parameters=sum(p.numel() for p in left["model"].parameters()),
        dropout=left["conf"].hidden_dropout_prob)


def models(path, out, *arguments):
    left = program(path, ["--out", out, *arguments])
    for name, model in (("classifier", left["model"]), ("encoder", left["model"].roberta)):
        folder = os.path.join(out, name)
        model.save_pretrained(folder)
        for file in ("vocab.json", "merges.txt"):
            shutil.copy(os.path.join(left["a"].vocab, file), folder)
    import onnxruntime
    import transformers
    with open(os.path.join(out, "versions.json"), "w", encoding="utf-8") as file:
        json.dump({"PyTorch": left["torch"].__version__, "Transformers": transformers.__version__, "onnxruntime": onnxruntime.__version__}, file)


def start(model, data, task):
    import torch
    from tokenizers import ByteLevelBPETokenizer
    from transformers import RobertaForSequenceClassification
    imported = time.time()
    tokenizer = ByteLevelBPETokenizer(f"{model}/vocab.json", f"{model}/merges.txt")
    read = lambda name: open(f"{data}/{task}/train_{name}.txt", encoding="utf-8").read().split("\n")[:-1]
    ids = [[0] + e.ids[:126] + [2] for e in tokenizer.encode_batch(read("text"))]
    labels = [int(label) for label in read("labels")]
    net = RobertaForSequenceClassification.from_pretrained(model, num_labels=max(labels) + 1)
    net.train()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-5, weight_decay=0.0, fused=True)
    begun = time.time()
    x, mask = (torch.from_numpy(a) for a in padded(ids[:BATCH]))
    loss = net(input_ids=x, attention_mask=mask, labels=torch.tensor(labels[:BATCH])).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    say(import_s=imported - SINCE, ready_s=begun - SINCE, first_step_s=time.time() - SINCE, loss=loss.item())


def padded(rows):
    import numpy
    x, mask = numpy.ones((len(rows), max(map(len, rows))), "<i8"), numpy.zeros((len(rows), max(map(len, rows))), "<i8")
    for row, ids in enumerate(rows):
        x[row, :len(ids)] = ids
        mask[row, :len(ids)] = 1
    return x, mask


def session(onnx, threads):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(threads)
    opened = onnxruntime.InferenceSession(onnx, options, providers=["CPUExecutionProvider"])
    return lambda x, mask: opened.run(None, {"input_ids": x, "attention_mask": mask})[0]


def encoder(model):
    from tokenizers import ByteLevelBPETokenizer
    tokenizer = ByteLevelBPETokenizer(f"{model}/vocab.json", f"{model}/merges.txt")
    return lambda texts: [[0] + e.ids[:126] + [2] for e in tokenizer.encode_batch(texts)]


def answer(onnx, model, threads, text):
    logits = session(onnx, threads)(*padded(encoder(model)([text])))
    say(answer_s=time.time() - SINCE, logits=logits[0].tolist())


def shape(onnx, threads, size, seconds):
    import numpy
    batch, length = map(int, size.split("x"))
    run, x = session(onnx, threads), numpy.random.default_rng(1).integers(4, 50000, (batch, length))
    mask, times = numpy.ones_like(x), []
    for _ in range(3):
        run(x, mask)
    end = time.time() + float(seconds)
    while time.time() < end or len(times) < 20:
        begun = time.perf_counter()
        run(x, mask)
        times.append(time.perf_counter() - begun)
    times.sort()
    say(p50_ms=1e3 * times[(len(times) - 1) // 2], p99_ms=1e3 * times[math.ceil(0.99 * len(times)) - 1], batches=len(times))


def texts(onnx, model, threads, path, out):
    import numpy
    lines = open(path, encoding="utf-8", newline="\n").read().split("\n")[:-1]
    ids, run, answers = encoder(model)(lines), session(onnx, threads), []
    run(*padded(ids[:BATCH]))
    begun = time.perf_counter()
    for first in range(0, len(ids), BATCH):
        answers.append(run(*padded(ids[first:first + BATCH])))
    seconds = time.perf_counter() - begun
    numpy.savetxt(out, numpy.concatenate(answers), fmt="%.9g")
    say(texts=len(ids), tokens=sum(map(len, ids)), texts_per_s=len(ids) / seconds)


if __name__ == "__main__":
    {f.__name__: f for f in (train, models, start, answer, shape, texts)}[sys.argv[1]](*sys.argv[2:])
