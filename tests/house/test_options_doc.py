# SPDX-License-Identifier: Apache-2.0
"""docs/options.md is what the built program prints."""
import os
import subprocess
import sys

source = os.environ["FINETUNED_SOURCE"]
program = os.path.join(os.environ["FINETUNED_BUILD"], "finetuned")
document = os.path.join(source, "docs", "options.md")
made = subprocess.run([program, "config", "--markdown"], check=True, capture_output=True, text=True).stdout
with open(document, encoding="utf-8") as file:
    kept = file.read()
if kept != made:
    for number, (a, b) in enumerate(zip(kept.splitlines() + [""], made.splitlines() + [""]), 1):
        if a != b:
            print(f"docs/options.md:{number}: {a!r}, but the program says {b!r}")
            break
    sys.exit("docs/options.md is not up to date; make it again: finetuned config --markdown > docs/options.md")
print("docs/options.md is up to date")
