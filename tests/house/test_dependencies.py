# SPDX-License-Identifier: Apache-2.0
"""The programs load what deploy/dt-needed.txt names and nothing else; every package that CMake asks for is brought by one of
deploy/debian-packages.txt."""
import os
import re
import shutil
import subprocess
import sys

from house import BUILD, ROOT, files, finish, lines

PACKAGES = "deploy/debian-packages.txt"
NEEDED = "deploy/dt-needed.txt"
NO_MPI = {"finetunectl", "finetune-serve"}  # programs that run where neither MPI nor HDF5 is
# Not ours to list: what a sanitizer build adds, and the loader itself.
COMPILERS = re.compile(r"^(lib(a|ub|t)san\.so|libgcc_s\.so|ld-linux)")


def table_read(path):
    """(line number, words before #, comment) of each line that says something."""
    for number, line in enumerate(lines(ROOT, path), 1):
        code, _, comment = line.partition("#")
        if code.strip():
            yield number, code.split(), comment


def cmake_packages():
    """pkg-config names that the CMake files ask for."""
    names = set()
    for path in ["CMakeLists.txt"] + files(ROOT, ["cmake", "tests", "bench"], (".cmake", "CMakeLists.txt")):
        text = re.sub(r"#.*", "", "\n".join(lines(ROOT, path)))
        for call in re.findall(r"finetuned_library\(([^)]*)\)", text):
            words = call.split()
            if "PACKAGES" in words:
                rest = words[words.index("PACKAGES") + 1:]
                names.update(rest[:rest.index("ISA_SOURCES")] if "ISA_SOURCES" in rest else rest)
        for call in re.findall(r"pkg_check_modules\(([^)]*)\)", text):
            options = {"REQUIRED", "IMPORTED_TARGET", "GLOBAL", "QUIET"}
            names.update(word for word in call.split()[1:] if word not in options and "$" not in word)
    return names


def pc_owner(name):
    """The Debian package that the .pc file comes from; None where it can't be asked."""
    if not shutil.which("dpkg") or not shutil.which("pkg-config"):
        return None
    folder = subprocess.run(["pkg-config", "--variable=pcfiledir", name], capture_output=True, text=True).stdout.strip()
    owner = subprocess.run(["dpkg", "-S", f"{folder}/{name}.pc"], capture_output=True, text=True)
    return owner.stdout.split(":")[0] if folder and owner.returncode == 0 else None


def packages_check():
    findings, brought = [], {}
    listed = set()
    for number, words, comment in table_read(PACKAGES):
        if len(words) != 1 or words[0] in listed:
            findings.append(f"{PACKAGES}:{number}: one package a line, each once")
        listed.add(words[0])
        for name in re.findall(r"pkg-config: ([^\s;]+)", comment):
            brought[name] = words[0]
    asked = cmake_packages()
    if not asked:
        findings.append("CMakeLists.txt: no package found; this test no longer understands the file")
    findings += [f"{PACKAGES}: CMake asks for {name}, no line says \"pkg-config: {name}\"" for name in asked - set(brought)]
    findings += [f"{PACKAGES}: pkg-config {name} is no longer asked for" for name in set(brought) - asked]
    for name in sorted(asked & set(brought)):
        owner = pc_owner(name)
        if owner and owner != brought[name]:
            findings.append(f"{PACKAGES}: pkg-config {name} comes from {owner}, not from {brought[name]}")
    return findings


def program_needs(path):
    output = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
    return {name for name in re.findall(r"\(NEEDED\).*\[(.*)\]", output) if not COMPILERS.match(name)}


def sanitized():
    with open(os.path.join(BUILD, "CMakeCache.txt"), encoding="utf-8") as file:
        return bool(re.search(r"^FINETUNED_SANITIZE:\w+=.+$", file.read(), re.M))


def needed_check():
    findings, allowed = [], {}
    for number, words, _ in table_read(NEEDED):
        if len(words) != 3 or not words[0].endswith(":"):
            findings.append(f"{NEEDED}:{number}: wanted \"program: library package\"")
        else:
            allowed.setdefault(words[0][:-1], set()).add(words[1])
    for program, libraries in allowed.items():
        path = os.path.join(BUILD, program)
        if not os.path.exists(path):
            findings.append(f"{path}: not built")
            continue
        needs = program_needs(path)
        findings += [f"{path}: needs {name}, which {NEEDED} does not name" for name in sorted(needs - libraries)]
        # A sanitizer keeps some libraries out or in; what is listed for nothing is judged without one.
        if not sanitized():
            findings += [f"{NEEDED}: {program} does not need {name}" for name in sorted(libraries - needs)]
        if program in NO_MPI:
            findings += [f"{path}: needs {name}" for name in needs if re.match(r"lib(mpi|hdf5|open-)", name)]
    return findings


def main():
    findings = packages_check()
    if BUILD and os.path.exists(os.path.join(BUILD, "CMakeCache.txt")):
        findings += needed_check()
    elif not findings:
        print("SKIPPED: programs: FINETUNED_BUILD names no build folder")
        sys.exit(77)
    finish(findings, "dependencies")


if __name__ == "__main__":
    main()
