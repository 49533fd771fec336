# SPDX-License-Identifier: Apache-2.0
"""Each header compiles alone with the project's flags and has its include guard; each source says its licence.
Flags come from the build's compile_commands.json: those of a source of the header's own folder."""
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from house import BUILD, LAYERS, ROOT, files, finish, lines

SPDX = "SPDX-License-Identifier: Apache-2.0"


def guard_check(root, path):
    guard = re.sub(r"[^A-Z0-9]", "_", "FINETUNED_" + path.upper())
    code = [line for line in lines(root, path) if line and not line.startswith("//")]
    if code[:2] != [f"#ifndef {guard}", f"#define {guard}"] or code[-1] != "#endif":
        return [f"{path}: wanted the include guard {guard} around everything but the first comments"]
    return []


def spdx_check(root, path):
    """On the first line, or the second behind #!."""
    top = lines(root, path)[:2]
    line = top[1] if len(top) > 1 and top[0].startswith("#!") else top[0]
    return [] if SPDX in line else [f"{path}: the first line is not the licence ({SPDX})"]


def flags_read(build):
    """A compiler's command by folder, without source and output."""
    commands = {}
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        entries = json.load(file)
    for entry in entries:
        path = os.path.relpath(entry["file"], ROOT)
        words = shlex.split(entry["command"])
        for option in ("-o", "-MF", "-MT", "-c"):
            if option in words:
                del words[words.index(option):words.index(option) + 2]
        words = [word for word in words if word != "-MD" and os.path.basename(word) != "ccache"]
        commands.setdefault(os.path.dirname(path), words)
    return commands


def compile_alone(command, directory, path):
    run = subprocess.run(command + ["-fsyntax-only", "-x", "c", path], cwd=directory, capture_output=True, text=True)
    return [] if run.returncode == 0 else [f"{path}: does not compile alone:\n{run.stderr.strip()}"]


def command_for(commands, path):
    """Of the header's folder, else of the nearest above it, else of any folder (a header without sources beside it)."""
    folder = os.path.dirname(path)
    while folder and folder not in commands:
        folder = os.path.dirname(folder)
    return commands.get(folder) or next(iter(commands.values()))


def headers_compile(headers):
    commands = flags_read(BUILD)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(lambda path: compile_alone(command_for(commands, path), BUILD, os.path.join(ROOT, path)),
                           headers)
    return [finding for result in results for finding in result]


def self_check():
    """A header without guard, licence and includes is found by each check."""
    with tempfile.TemporaryDirectory() as root:
        path = os.path.join(root, "bad.h")
        with open(path, "w", encoding="utf-8") as file:
            file.write("uint32_t missing(void);\n")
        checks = [guard_check(root, "bad.h"), spdx_check(root, "bad.h"), compile_alone(["cc"], root, path)]
    return [f"the test itself: check {i} saw nothing" for i, check in enumerate(checks) if not check]


def main():
    headers = files(ROOT, LAYERS + ["tests"], (".h", ".cuh"))
    # Compiled by the build as they are forced into every source.
    alone = [path for path in headers if path.endswith(".h") and path != "base/banned.h"]
    sources = headers + files(ROOT, LAYERS + ["tests", "bench", "cmake", "examples"], (".c", ".cu", ".py", ".cmake"))
    findings = self_check()
    findings += [finding for path in headers for finding in guard_check(ROOT, path)]
    findings += [finding for path in sorted(set(sources)) for finding in spdx_check(ROOT, path)]
    if not BUILD or not os.path.exists(os.path.join(BUILD, "compile_commands.json")):
        print("SKIPPED: headers alone: FINETUNED_BUILD names no build folder")
        if not findings:
            sys.exit(77)
    else:
        findings += headers_compile(alone)
    finish(findings, f"{len(headers)} headers")


if __name__ == "__main__":
    main()
