# SPDX-License-Identifier: Apache-2.0
"""The committed sample is what its generator makes."""
import filecmp
import os
import subprocess
import sys
import tempfile

ROOT = os.environ.get("FINETUNED_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NAMES = ["mapping.txt"] + [f"{s}_{w}.txt" for s in ("train", "val", "test") for w in ("text", "labels")]


def main():
    committed = os.path.join(ROOT, "examples", "sample", "emotion")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, os.path.join(ROOT, "examples", "generate.py"), folder], check=True)
        made = os.path.join(folder, "emotion")
        _, differ, missing = filecmp.cmpfiles(made, committed, NAMES, shallow=False)
    extra = sorted(set(os.listdir(committed)) - set(NAMES))
    for name in differ + missing + extra:
        print(f"examples/sample/emotion/{name}: not what examples/generate.py makes; run it and commit the result")
    return 1 if differ or missing or extra else 0


if __name__ == "__main__":
    sys.exit(main())
