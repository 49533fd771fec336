#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes data/unicode_tables.c from golden/unicode_roberta.json and golden/unicode_bert.json.

    python3 data/unicode_generate.py GOLDEN_FOLDER > data/unicode_tables.c

The two files hold what the reference tokenizers do with every code point. They say "removed" of controls and of combining
marks alike; cased BERT removes only the former, so the marks are told apart by their general category (M*), which never
changes from a mark to a control between Unicode versions.
"""
import json
import sys
import unicodedata

BLOCK = 128
CODES = 0x110000
LETTER, NUMBER, SPACE, CONTROL, MARK, BLANK, CJK, PUNCTUATION = (1 << i for i in range(8))


def codes(ranges):
    for first, last in ranges:
        yield from range(first, last + 1)


def blocks(values):
    """Cuts a list of CODES values into blocks of 128; equal blocks are kept once. Returns (index by block, blocks)."""
    seen, index, kept = {}, [], []
    for at in range(0, CODES, BLOCK):
        block = tuple(values[at:at + BLOCK])
        if block not in seen:
            seen[block] = len(kept)
            kept.append(block)
        index.append(seen[block])
    return index, kept


def table(kind, name, rows):
    print(f"const {kind} {name} = {{")
    line = "   "
    for row in rows:
        if len(line) + len(row) + 2 > 118:
            print(line)
            line = "   "
        line += f" {row},"
    print(line + "\n};\n")


def main():
    folder = sys.argv[1]
    with open(f"{folder}/unicode_roberta.json", encoding="utf-8") as file:
        roberta = json.load(file)
    with open(f"{folder}/unicode_bert.json", encoding="utf-8") as file:
        bert = json.load(file)

    flags = [0] * CODES
    for flag, ranges in ((LETTER, roberta["letter"]), (NUMBER, roberta["number"]), (SPACE, roberta["space"]),
                         (BLANK, bert["space"]), (CJK, bert["cjk"]), (PUNCTUATION, bert["punct"])):
        for code in codes(ranges):
            flags[code] |= flag
    for code in codes(bert["removed"]):
        flags[code] |= MARK if unicodedata.category(chr(code)).startswith("M") else CONTROL

    lower, results = [0] * CODES, ["{0, 0, 0}"]
    for code, result in bert["map"]:
        if not 1 <= len(result) <= 3:
            sys.exit(f"U+{code:04X} maps to {len(result)} code points")
        lower[code] = len(results)
        results.append("{" + ", ".join(f"0x{c:x}" for c in (result + [0, 0])[:3]) + "}")

    flag_index, flag_blocks = blocks(flags)
    lower_index, lower_blocks = blocks(lower)
    print("// SPDX-License-Identifier: Apache-2.0")
    print("// Written by data/unicode_generate.py from the reference tokenizers' own answers. Don't edit.")
    print("// clang-format off")
    print('#include "data/unicode.h"\n')
    table("uint16_t", f"unicode_flag_index[{len(flag_index)}]", map(str, flag_index))
    table("uint8_t", f"unicode_flag_blocks[{len(flag_blocks)} * 128]", (str(v) for b in flag_blocks for v in b))
    table("uint16_t", f"unicode_lower_index[{len(lower_index)}]", map(str, lower_index))
    table("uint16_t", f"unicode_lower_blocks[{len(lower_blocks)} * 128]", (str(v) for b in lower_blocks for v in b))
    table("uint32_t", f"unicode_lower_results[{len(results)}][3]", results)


main()
