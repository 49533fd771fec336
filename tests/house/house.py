# SPDX-License-Identifier: Apache-2.0
"""What the house tests share: the source tree and how findings are told."""
import os
import sys

ROOT = os.environ.get("FINETUNED_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("FINETUNED_BUILD")

# Reading order = build order = include order (design, section 4).
LAYERS = ["base", "data", "model", "comm", "optim", "checkpoints", "train", "export", "serve", "daemon"]
NOT_SOURCE = {"build", ".git", "runs", ".models", "__pycache__"}


def files(root, folders, endings):
    """Paths relative to `root`, with /, of all files below `folders` with one of the endings, sorted."""
    found = []
    for folder in folders:
        for at, inner, names in os.walk(os.path.join(root, folder)):
            inner[:] = sorted(name for name in inner if name not in NOT_SOURCE)
            found += [os.path.relpath(os.path.join(at, name), root) for name in sorted(names) if name.endswith(endings)]
    return found


def lines(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read().split("\n")


def finish(findings, what):
    """Prints the findings and exits: 1 if there is one."""
    for finding in findings:
        print(finding)
    print(f"{what}: {len(findings)} finding{'s' * (len(findings) != 1)}")
    sys.exit(1 if findings else 0)
