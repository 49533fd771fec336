#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes model/squad_tables.c from unicode_python.json, which says what Python's strings do with every code point.

    python3 model/squad_generate.py tests/golden > model/squad_tables.c

Lower case is cut into runs of code points, `step` (1 or 2) apart, that move by one and the same distance.
"""
import json
import sys


def table(head, rows):
    print(head + " = {")
    line = "   "
    for row in rows:
        if len(line) + len(row) + 2 > 118:
            print(line)
            line = "   "
        line += f" {row},"
    print(line + "\n};\n")


def runs(pairs):
    """[(code, lower)] in order -> [first, last, step, distance]"""
    out = []
    for code, lower in pairs:
        distance = lower - code
        if out and out[-1][3] == distance:
            first, last, step, _ = out[-1]
            if code - last in ((1, 2) if first == last else (step,)):
                out[-1][1:3] = code, code - last
                continue
        out.append([code, code, 1, distance])
    return out


def main():
    with open(f"{sys.argv[1]}/unicode_python.json", encoding="ascii") as file:
        facts = json.load(file)
    longer = [(code, lower) for code, lower in facts["lower"] if len(lower) != 1]
    if longer != [(0x130, [0x69, 0x307])]:
        sys.exit(f"more than one code point: {longer}; model/squad_text.c knows U+0130 alone")
    lower = runs([(code, lower[0]) for code, lower in facts["lower"] if len(lower) == 1])
    print("// SPDX-License-Identifier: Apache-2.0")
    print(f"// Written by model/squad_generate.py from Python's own answers (Unicode {facts['unicode']}). Don't edit.")
    print("// clang-format off")
    print('#include "model/squad_tables.h"\n')
    for name in ("word", "space", "cased", "ignorable"):
        rows = [f"{{0x{first:x}, 0x{last:x}}}" for first, last in facts[name]]
        print(f"const size_t squad_{name}_n = {len(rows)};")
        table(f"const struct squad_range squad_{name}[{len(rows)}]", rows)
    rows = [f"{{0x{first:x}, 0x{last:x}, {step}, {distance}}}" for first, last, step, distance in lower]
    print(f"const size_t squad_lower_n = {len(rows)};")
    table(f"const struct squad_lower squad_lower[{len(rows)}]", rows)


main()
