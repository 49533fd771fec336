# SPDX-License-Identifier: Apache-2.0
"""Includes point one way: a folder includes only headers of itself and of folders before it; MPI stays in comm, HDF5 in
checkpoints, so that what a server needs never pulls them in. Also tries itself on a tree with violations."""
import os
import re
import tempfile

from house import LAYERS, ROOT, files, finish, lines

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
# System headers that only one folder may include (and the daemon's doctor may ask after all of them).
OWNED = {"mpi.h": {"comm", "daemon"}, "hdf5.h": {"checkpoints", "daemon"}}


def quoted_check(root, path, number, name):
    own = path.split("/")[0]
    folder = name.split("/")[0]
    where = f"{path}:{number}"
    if "/" not in name or folder not in LAYERS:
        return [f'{where}: "{name}" is not written from the root ("folder/file.h")']
    if not os.path.exists(os.path.join(root, name)):
        return [f'{where}: "{name}" does not exist']
    if LAYERS.index(folder) > LAYERS.index(own):
        return [f'{where}: {own} includes "{name}", but {folder} comes after {own}']
    return []


def file_check(root, path):
    findings = []
    own = path.split("/")[0]
    for number, line in enumerate(lines(root, path), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        quoted, system = match.groups()
        if quoted:
            findings += quoted_check(root, path, number, quoted)
        elif own not in OWNED.get(system, {own}):
            findings.append(f"{path}:{number}: <{system}> belongs to {'/'.join(sorted(OWNED[system]))}, not to {own}")
    return findings


def tree_check(root):
    return [finding for path in files(root, LAYERS, (".c", ".h", ".cu", ".cuh")) for finding in file_check(root, path)]


def cmake_check(root):
    """CMake builds the folders in the same order."""
    text = "\n".join(lines(root, "CMakeLists.txt"))
    built = re.findall(r"^finetuned_library\((\w+)", text, re.M)
    wanted = [layer for layer in LAYERS if layer in built]
    return [] if built == wanted else [f"CMakeLists.txt: libraries in the order {built}, wanted {wanted}"]


def self_check():
    """Each of these must be found, and nothing else."""
    tree = {
        "base/a.h": "",
        "model/ops/b.h": "",
        "base/good.c": '#include "base/a.h"\n#include <stdio.h>\n',
        "data/up.c": '#include "base/a.h"\n#  include "model/ops/b.h"\n',
        "model/near.c": '#include "b.h"\n',
        "model/gone.c": '#include "base/gone.h"\n',
        "model/mpi.c": "#include <mpi.h>\n",
        "comm/mpi.c": "#include <mpi.h>\n",
        "serve/h5.h": "#include <hdf5.h>\n",
    }
    with tempfile.TemporaryDirectory() as root:
        for path, text in tree.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
        found = sorted(finding.split(": ")[0] for finding in tree_check(root))
    wanted = ["data/up.c:2", "model/gone.c:1", "model/mpi.c:1", "model/near.c:1", "serve/h5.h:1"]
    return [] if found == wanted else [f"the test itself: found {found}, wanted {wanted}"]


if __name__ == "__main__":
    finish(self_check() + tree_check(ROOT) + cmake_check(ROOT), "layers")
