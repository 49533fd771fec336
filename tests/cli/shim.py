# SPDX-License-Identifier: Apache-2.0
"""The preloaded shim (tests/shim/shim.h) as a test drives it: environment(...) for support.run(env=…), and its log read back."""
import os
import re
import subprocess

import support

OBJECT = os.path.join(support.BUILD, "tests", "libfinetuned_shim.so")
CPUS = os.path.join(support.BUILD, "tests", "libfinetuned_cpus.so")


def sanitizer():
    """The sanitizer's library that the program is linked with, "" without one: it must be preloaded first, and memory calls are its own."""
    listed = subprocess.run(["ldd", support.BINARY], capture_output=True, text=True, check=True).stdout
    found = re.search(r"=> (\S*lib[at]san\.so\S*)", listed)
    return found.group(1) if found else ""


def preload(path):
    first = sanitizer()
    return {"LD_PRELOAD": f"{first}:{path}" if first else path}


def cpus(n):
    """The environment of a process that may use n CPUs, so n threads, whatever this host has."""
    return {**preload(CPUS), "CPUS": n}


def environment(under, calls, at=0, do=None, count=None, rank=None, log=None, program="finetuned"):
    """Calls of the kinds `calls` below `under` are counted; from the `at`-th on, `count` (a number or "all") of them meet `do`."""
    env = {**preload(OBJECT), "SHIM_UNDER": os.path.realpath(under), "SHIM_CALLS": calls,
           "SHIM_PROGRAM": program}
    optional = {"SHIM_AT": at or None, "SHIM_DO": do, "SHIM_FOR": count, "SHIM_RANK": rank, "SHIM_LOG": log}
    env.update({key: str(value) for key, value in optional.items() if value is not None})
    return env


def counts(log):
    """How many calls of each kind a process made; the last one's where several shared the log."""
    with open(log, encoding="utf-8") as file:
        return {line.split()[1]: int(line.split()[2]) for line in file if line.startswith("count ")}


def hits(log):
    """(n, kind, path) of every call that was hit."""
    if not os.path.exists(log):
        return []
    with open(log, encoding="utf-8", errors="replace") as file:
        found = [line.rstrip("\n").split(" ", 3)[1:] for line in file if line.startswith("hit ")]
    return [(int(n), kind, path) for n, kind, path in found]
