# SPDX-License-Identifier: Apache-2.0
"""The committed samples are what their generators make."""
import filecmp
import os
import subprocess
import sys
import tempfile

ROOT = os.environ.get("FINETUNED_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SAMPLES = [  # generator, folder in examples, what it makes in the folder it is given, names
    ("generate.py", "sample/emotion", "emotion",
     ["mapping.txt"] + [f"{s}_{w}.txt" for s in ("train", "val", "test") for w in ("text", "labels")]),
    ("generate.py", "sample/csv", "csv", ["train.csv", "val.csv"]),
    ("generate_squad.py", "squad", "squad", ["train.json", "val.json"]),
]


def sample_check(generator, folder, made, names):
    committed = os.path.join(ROOT, "examples", folder)
    with tempfile.TemporaryDirectory() as temporary:
        subprocess.run([sys.executable, os.path.join(ROOT, "examples", generator), temporary], check=True)
        _, differ, missing = filecmp.cmpfiles(os.path.join(temporary, made), committed, names, shallow=False)
    extra = sorted(set(os.listdir(committed)) - set(names))
    for name in differ + missing + extra:
        print(f"examples/{folder}/{name}: not what examples/{generator} makes; run it and commit the result")
    return len(differ + missing + extra)


def main():
    return 1 if sum(sample_check(*sample) for sample in SAMPLES) else 0


if __name__ == "__main__":
    sys.exit(main())
