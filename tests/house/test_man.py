# SPDX-License-Identifier: Apache-2.0
"""The man pages: one a verb, whole, without a warning of man or groff where they are installed, and those of the build up to date."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

from house import BUILD, finish

SECTIONS = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "SEE ALSO"]
REQUESTS = {"TH", "SH", "TP", "PP", "B", "BR", "I", "br", "nf", "fi", "nh", "ad"}


def page_check(name, text):
    """What any reader of man(7) needs."""
    findings = []
    lines = text.split("\n")
    title = re.match(r'^\.TH "([^"]+)" "(\d)" ', lines[0])
    stem, _, section = name.rpartition(".")
    if not title or title.group(1).replace("\\-", "-").lower() != stem or title.group(2) != section:
        findings.append(f"{name}:1: {lines[0]!r} is not this page's title")
    found = re.findall(r'^\.SH "?([^"\n]+)"?$', text, re.M)
    wanted = [s for s in SECTIONS if section == "1" and (stem != "finetuned" or s != "OPTIONS")] or ["NAME", "DESCRIPTION", "KEYS", "SEE ALSO"]
    if [s for s in found if s in wanted] != wanted:
        findings.append(f"{name}: sections {found}, wanted {wanted}")
    for number, line in enumerate(lines, 1):
        request = re.match(r"^[.']\s*(\S*)", line)
        if request and request.group(1) not in REQUESTS:
            findings.append(f"{name}:{number}: {line!r} is no request that we use")
        if re.search(r"\\(?![-&efR])", line):
            findings.append(f"{name}:{number}: {line!r} has a strange escape")
        if re.search(r"(?<!\\)-", line) and not line.startswith('.TH'):
            findings.append(f"{name}:{number}: {line!r} has a hyphen that can't be copied")
    return findings


def reader():
    """man's, or groff's, command line that says warnings; None if neither is here."""
    if shutil.which("man") and shutil.which("groff"):
        return ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z"]
    return ["groff", "-man", "-ww", "-Kutf8", "-Tutf8", "-Z"] if shutil.which("groff") else None


def page_read(command, path):
    env = dict(os.environ, MANWIDTH="80", LC_ALL="C.UTF-8")
    run = subprocess.run(command + [path], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", check=False)
    findings = [f"{os.path.basename(path)}: {line}" for line in run.stderr.split("\n") if line]
    return findings if run.returncode == 0 else findings + [f"{path}: {command[0]} ended with {run.returncode}"]


def self_check():
    bad = page_check("finetuned-x.1", '.TH "FINETUNED\\-Y" "1" ""\n.SH NAME\n.xx\na-b \\q\n')
    return [] if len(bad) >= 5 else [f"the test itself: only {bad} was found"]


def main():
    program = os.path.join(BUILD, "finetuned") if BUILD else ""
    if not os.path.exists(program):
        print("SKIPPED: FINETUNED_BUILD names no build folder with the program")
        sys.exit(77)
    findings, command = self_check(), reader()
    verbs = re.findall(r"^  (\w+) +\S", subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout.split("\n\n")[2], re.M)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "man", "--out", folder], check=True)
        names = sorted(os.listdir(folder))
        wanted = sorted(["finetuned.1", "finetuned-job.5"] + [f"finetuned-{verb}.1" for verb in verbs])
        if names != wanted:
            findings.append(f"pages {names}, wanted {wanted}")
        for name in names:
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                text = file.read()
            findings += page_check(name, text)
            findings += page_read(command, os.path.join(folder, name)) if command else []
            kept = os.path.join(BUILD, "man", name)
            if os.path.exists(os.path.join(BUILD, "man")):
                with open(kept, encoding="utf-8") as file:
                    findings += [] if file.read() == text else [f"{kept} is not what the program writes now"]
    if not command:
        print("man and groff are not here: the pages' structure alone was checked")
    finish(findings, f"{len(names)} man pages")


if __name__ == "__main__":
    main()
