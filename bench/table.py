# SPDX-License-Identifier: Apache-2.0
"""The table of docs/performance.md, from the results of bench/compare."""
import os
import statistics

BEGIN, END = "<!-- bench/compare writes from here -->\n", "<!-- to here -->\n"

# What is said, the cell it is of, the peer, the figure on either side, unit, and the target of ours / the peer's (or of ours alone):
# at least (+) or at most (-).
ROWS = [
    ("training, base: usual recipe (longest of the batch)", "train-base-usual", "PyTorch", "tweets_per_s", "tweets/s", "+", 2.3),
    ("training, base: grouped by length", "train-base-grouped", "PyTorch", "tweets_per_s", "tweets/s", "+", None),
    ("training, base: grouped, torch.compile", "train-base-compiled", "PyTorch", "tweets_per_s", "tweets/s", "+", 1.55),
    ("training, base: padded to 128", "train-base-128", "PyTorch", "tweets_per_s", "tweets/s", "+", 7),
    ("training, base: padded to 512 (the reference recipe)", "train-base-512", "PyTorch", "tweets_per_s", "tweets/s", "+", 48),
    ("training, mini: usual recipe", "train-mini-usual", "PyTorch", "tweets_per_s", "tweets/s", "+", 3),
    ("training, mini: grouped by length", "train-mini-grouped", "PyTorch", "tweets_per_s", "tweets/s", "+", 2.1),
    ("training, base: share of the FMA peak", "train-base-usual", None, "flops_share", "", "+", 0.75),
    ("training, mini: share of the FMA peak", "train-mini-usual", None, "flops_share", "", "+", None),
    ("resident memory, training (usual recipe)", "train-base-usual", "PyTorch", "rss_bytes", "GiB", "-", 0.75),
    ("resident memory, ours while it saves checkpoints", "memory-base", "PyTorch", "rss_bytes", "GiB", "-", 0.75),
    ("from exec to the first step", "start-base", "PyTorch", "seconds", "s", "-", 0.15),
    ("from exec to the first answer", "answer-base", "onnxruntime", "seconds", "s", "-", None),
    ("inference, 1 × 32 tokens, p50", "infer-1x32", "onnxruntime", "p50_ms", "ms", "-", 0.7),
    ("inference, 1 × 128 tokens, p50", "infer-1x128", "onnxruntime", "p50_ms", "ms", "-", None),
    ("inference, 512 tweets in the file's order", "infer-512", "onnxruntime", "texts_per_s", "texts/s", "+", 1.9),
]


def short(value, unit):
    value /= 2**30 if unit == "GiB" else 1
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


NOISY = 0.1  # share of the processors that others had while a side ran: such a round is left out


def noise(result):
    return max(result[side].get("others", 0) + result[side].get("stolen", 0) for side in ("ours", "peer"))


def row(rounds, title, peer, key, unit, sign, target):
    ours = [r["ours"][key] for r in rounds]
    cells = [title, f"{short(statistics.median(ours), unit)} {unit}".strip()]
    if peer:
        theirs = [r["peer"][key] for r in rounds]
        values = [a / b for a, b in zip(ours, theirs)]
        cells += [f"{short(statistics.median(theirs), unit)} {unit} ({peer})", f"**{short(statistics.median(values), '')}**"]
    else:
        values = ours
        cells += ["", ""]
    cells.append(f"{short(min(values), '')}–{short(max(values), '')}, {len(rounds)}" if len(rounds) > 1 else "one round")
    if target is None:
        return cells + [""]
    middle = statistics.median(values)
    met = middle >= target if sign == "+" else middle <= target
    return cells + [f"{'≥' if sign == '+' else '≤'} {target:g}: {'met' if met else 'missed'}"]


def markdown(results):
    """The machine, the table, and who else was at work."""
    by_cell, quiet = {}, [r for r in results if noise(r) <= NOISY]
    for r in quiet:
        by_cell.setdefault(r["cell"], []).append(r)
    peaks = [r["peak_gflops"] for r in results]
    lines = [f"{results[-1]['machine']} Fused multiply-adds alone, after each round: {statistics.median(peaks):.0f} GFLOP/s ({min(peaks):.0f}–{max(peaks):.0f}).", "",
             "| what | finetuned | peer | ratio | spread, rounds | target |", "| --- | --- | --- | --- | --- | --- |"]
    lines += ["| " + " | ".join(row(by_cell[cell], title, *rest)) + " |" for title, cell, *rest in ROWS if cell in by_cell]
    days = sorted({r["day"] for r in results})
    lines += ["", f"Measured on {' and '.join(days)}. Left out: {len(results) - len(quiet)} of {len(results)} rounds, in which other programs or other "
              f"machines of the host had more than {100 * NOISY:.0f} % of the processors."]
    return "\n".join(lines) + "\n"


def write(path, results):
    """Replaces what stands between the two marks."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{path}: the marks of bench/compare are not there")
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(head + begin + markdown(results) + end + tail)
    os.replace(path + ".new", path)
