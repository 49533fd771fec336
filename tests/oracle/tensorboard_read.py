#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads <out>/tensorboard with TensorBoard's own reader and compares with <out>/events.jsonl: every tag, every step that counts
after resumes, every value in 32 bits. Exit code 0 if all agree, 1 if not.

    tensorboard_read.py OUT
"""
import json
import os
import sys

import numpy
import tensorboard
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def wanted_read(path):
    """{tag: {step: value}} from the events, superseded ones left out."""
    found = {}
    with open(path, encoding="utf-8") as file:
        for event in map(json.loads, file):
            if event["event"] == "resume":
                found = {tag: {step: v for step, v in of.items() if step <= event["step"]} for tag, of in found.items()}
            elif event["event"] == "step":
                for key in ("loss", "lr", "grad_norm", "tweets_per_s", "tokens_per_s", "flops_share"):
                    found.setdefault(f"train/{key}", {})[event["step"]] = event[key]
            elif event["event"] == "eval":
                keys = {key: event[key] for key in ("loss", "accuracy", "macro_f1", "macro_recall", "em") if key in event}
                keys[event["official"]["name"]] = event["official"]["value"]
                for key, value in keys.items():
                    found.setdefault(f"eval/{event['split']}/{key}", {})[event["step"]] = value
    return {tag: of for tag, of in found.items() if of}


def main():
    out, = sys.argv[1:]
    reader = EventAccumulator(os.path.join(out, "tensorboard"), size_guidance={"scalars": 0, "tensors": 0})
    reader.Reload()
    got = {tag: {e.step: e.value for e in reader.Scalars(tag)} for tag in reader.Tags()["scalars"]}
    wanted = wanted_read(os.path.join(out, "events.jsonl"))
    files = len(os.listdir(os.path.join(out, "tensorboard")))
    print(f"{out}: tensorboard {tensorboard.__version__}, {files} file{'s' * (files != 1)}, {len(got)} tags, "
          f"{sum(map(len, got.values()))} values")
    failed = []
    if set(got) != set(wanted):
        failed.append(f"tags differ: {sorted(set(got) ^ set(wanted))}")
    for tag in sorted(set(got) & set(wanted)):
        if sorted(got[tag]) != sorted(wanted[tag]):
            failed.append(f"{tag}: steps differ: {sorted(set(got[tag]) ^ set(wanted[tag]))[:10]}")
        # nine digits of a number that was rounded to 32 bits after it was printed, and before
        off = [step for step in set(got[tag]) & set(wanted[tag])
               if not numpy.isclose(got[tag][step], numpy.float32(wanted[tag][step]), rtol=1e-6, atol=0)]
        if off:
            failed.append(f"{tag}: values differ at steps {sorted(off)[:10]}")
    for line in failed:
        print("FAILED  " + line)
    if not failed:
        print("ok      all tags, steps and values agree")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
