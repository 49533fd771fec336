#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/unicode_python.json and tests/golden/squad_metrics.json: what Python's strings do with every code
point, and SQuAD's exact match and F1 of a few hundred answers.

    python3 tests/oracle/squad_metrics.py tests/golden

SQuAD's scripts (evaluate-v1.1.py, evaluate-v2.0.py) are Python, so their scores are what Python's str.lower, str.split
and re say. The definition is written down here anew: an answer is lower-cased, loses ASCII punctuation, then the words
"a", "an" and "the", then its white space becomes single blanks. Exact match compares that; F1 compares the bags of words.
"""
import json
import random
import re
import sys
import unicodedata
from collections import Counter

PUNCTUATION = set("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
CODES = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]


def normalize(text):
    kept = "".join(c for c in text.lower() if c not in PUNCTUATION)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", kept).split())


def f1_of_words(predicted, gold):
    same = sum((Counter(predicted) & Counter(gold)).values())
    if same == 0:
        return 0.0
    precision, recall = same / len(predicted), same / len(gold)
    return 2 * precision * recall / (precision + recall)


def score(version, prediction, golds):
    """(exact, f1): the best over the golds. Version 2 drops golds of which nothing is left, and "" stands in if none
    remains; there two answers of no words agree."""
    if version == 2:
        golds = [g for g in golds if normalize(g)] or [""]
    exact, f1 = 0, 0.0
    for gold in golds:
        ours, theirs = normalize(prediction).split(), normalize(gold).split()
        exact = max(exact, int(ours == theirs))
        empty = version == 2 and (not ours or not theirs)
        f1 = max(f1, float(ours == theirs) if empty else f1_of_words(ours, theirs))
    return exact, f1


def ranges(codes):
    out = []
    for code in codes:
        if out and out[-1][1] == code - 1:
            out[-1][1] = code
        else:
            out.append([code, code])
    return out


def final(text):
    """Whether a sigma behind `text` becomes a final one."""
    return (text + "\u03a3").lower().endswith("\u03c2")


def unicode_facts():
    word = [c for c in CODES if re.match(r"\w", chr(c))]
    space = [c for c in CODES if len(f"x{chr(c)}x".split()) == 2]
    cased = [c for c in CODES if final(chr(c))]
    known = set(cased)
    ignorable = [c for c in CODES if c not in known and final("A" + chr(c))]
    lower = [[c, [ord(l) for l in chr(c).lower()]] for c in CODES if chr(c).lower() != chr(c)]
    return {"unicode": unicodedata.unidata_version, "word": ranges(word), "space": ranges(space),
            "cased": ranges(cased), "ignorable": ranges(ignorable), "lower": lower}


# (prediction, golds)
WRITTEN = [
    ("Denver Broncos", ["Denver Broncos", "Denver Broncos", "Denver Broncos"]),
    ("the Denver Broncos", ["Denver Broncos"]), ("Broncos", ["Denver Broncos", "The Broncos"]),
    ("Santa Clara, California", ["Santa Clara, California", "Levi's Stadium", "San Francisco Bay Area"]),
    ("Levis Stadium in Santa Clara", ["Levi's Stadium in the San Francisco Bay Area at Santa Clara"]),
    ("gold gold gold", ["gold"]), ("gold", ["gold gold gold"]), ("gold gold silver", ["gold silver silver"]),
    ("", [""]), ("", ["x"]), ("x", [""]), ("", []), ("the", []), ("x", []), ("the", ["a"]), ("the", ["an x"]),
    ("!?", ["..."]), ("!?", ["the"]), ("!?", []), ("x", ["...", "the"]), ("", ["...", "x"]), (" ", ["\t"]),
    ("The", ["the cat"]), ("A Cat", ["the cat"]), ("an cat", ["cat"]), ("another cat", ["other cat"]),
    ("theatre", ["atre"]), ("bathe", ["ba"]), ("a.b", ["b"]), ("a b", ["b"]), ("a-b", ["ab", "b"]), ("an-the", ["anthe"]),
    ("U.S.A.", ["USA", "us a"]), ("U S A", ["US"]), ("vitamin A", ["vitamin"]), ("a a a", [""]), ("_a_ b", ["b"]),
    ("a1 b", ["b"]), ("the2", ["2"]), ("2the", ["2"]), ("the\u00b2", ["\u00b2"]), ("the\u0301 x", ["\u0301 x"]),
    ("\u201cthe\u201d", ["\u201c \u201d"]), ("\u2018a\u2019 b", ["\u2018 \u2019 b", "\u2018a\u2019 b"]),
    ("the\u2014end", ["\u2014end", "\u2014 end"]), ("the\u200bcat", ["cat", "\u200bcat"]), ("the\u00adcat", ["\u00adcat"]),
    ("a\u0300 la carte", ["\u00e0 la carte"]), ("\u00c0 la carte", ["\u00e0 la carte"]), ("\u00e1", ["a\u0301"]),
    ("\u0130stanbul", ["istanbul", "i\u0307stanbul", "\u0130STANBUL"]), ("ISTANBUL", ["\u0131stanbul", "istanbul"]),
    ("DI\u015e", ["di\u015f"]), ("I\u0307", ["\u0130"]), ("\u0130\u03a3", ["i\u0307\u03c2"]), ("\u0130", ["i"]),
    ("STRASSE", ["stra\u00dfe", "strasse"]), ("Stra\u00dfe", ["STRA\u1e9eE"]), ("\u1e9e", ["\u00df", "ss"]),
    ("\u039f\u0394\u03a5\u03a3\u03a3\u0395\u03a5\u03a3", ["\u03bf\u03b4\u03c5\u03c3\u03c3\u03b5\u03c5\u03c2"]),
    ("\u039f\u0394\u03a5\u03a3\u03a3\u0395\u03a5\u03a3", ["\u03bf\u03b4\u03c5\u03c3\u03c3\u03b5\u03c5\u03c3"]),
    ("\u03a3", ["\u03c3"]), ("\u03a3", ["\u03c2"]), ("A\u03a3", ["a\u03c2"]), ("A\u03a3B", ["a\u03c3b"]),
    ("A'\u03a3'", ["a\u03c2"]), ("A'\u03a3'B", ["a\u03c3b"]), ("A\u0301\u03a3", ["a\u0301\u03c2"]), ("1\u03a3", ["1\u03c3"]),
    ("A\u03a3\u03a3", ["a\u03c3\u03c2"]), ("A\u03a3.", ["a\u03c2"]), ("A\u03a3 B", ["a\u03c2 b"]), ("A \u03a3", ["\u03c3"]),
    ("A\u03a3\u00ad\u200dB", ["a\u03c3\u00ad\u200db"]), ("A\u03a3\u00ad\u200d", ["a\u03c2\u00ad\u200d"]),
    ("\u02b0\u03a3", ["\u02b0\u03c3", "\u02b0\u03c2"]), ("A\u02b0\u03a3", ["a\u02b0\u03c2"]), ("\u4e2d\u03a3", ["\u4e2d\u03c3"]),
    ("\u2160\u03a3", ["\u2170\u03c2"]), ("\U0001d400\u03a3", ["\U0001d400\u03c2"]), ("\U00010400", ["\U00010428"]),
    ("\u5317\u4eac\u5e02", ["\u5317\u4eac", "\u5317\u4eac\u5e02"]), ("\u5317\u4eac \u4e0a\u6d77", ["\u4e0a\u6d77"]),
    ("\u6771\u4eac\u3001\u5927\u962a", ["\u6771\u4eac\u5927\u962a"]), ("\u6771\u4eac\u3000\u5927\u962a", ["\u6771\u4eac \u5927\u962a"]),
    ("the\u5317", ["\u5317"]), ("\u30ab\u30bf\u30ab\u30ca", ["\uff76\uff80\uff76\uff85"]), ("\ud55c\uad6d", ["\u1112\u1161\u11ab\uad6d"]),
    ("\uff01\uff1f", ["", "!?"]), ("\uff08a\uff09", ["\uff08 \uff09", "a"]), ("\uff34\uff28\uff25", ["\uff54\uff48\uff45"]),
    ("\uff41", [""]), ("100\uff05", ["100%", "100"]), ("a\uff0eb", ["\uff0eb"]), ("the\uff3fx", ["\uff3fx", "the\uff3fx"]),
    ("New\u00a0York", ["New York"]), ("\u00a0the\u00a0x\u00a0", ["x"]), ("x\u2003y\u202fz", ["x y z"]), ("x\u1680y", ["x y"]),
    ("x\u0085y", ["x y"]), ("x\u2028y\u2029z", ["x y z"]), ("x\x1cy\x1dz\x1ew\x1fv", ["x y z w v"]), ("x\x0by\x0cz", ["x y z"]),
    ("x\u200by", ["x y", "xy"]), ("x\ufeffy", ["x y", "xy", "x\ufeffy"]), ("x\u180ey", ["x y"]), ("x\u2060y", ["xy"]),
    ("x\x00y", ["x\x00y", "xy"]), ("a\x00", ["\x00"]), ("\x00the\x00", ["\x00 \x00"]), ("x\x7fy", ["x\x7fy"]),
    ("$5 million", ["5 million", "\u00a35 million"]), ("\u20ac5", ["5"]), ("5\u00a0\u20ac", ["5 \u20ac"]), ("10,000", ["10000"]),
    ("3.14", ["314"]), ("1990\u20131995", ["19901995", "1990\u20131995"]), ("1990-1995", ["19901995"]), ("+1", ["1"]),
    ("don't", ["dont"]), ("don\u2019t", ["dont", "don't"]), ("O'Brien", ["obrien"]), ("rock 'n' roll", ["rock n roll"]),
    ("\U0001f600 the \U0001f600", ["\U0001f600 \U0001f600"]), ("the\U0001f600", ["\U0001f600"]), ("\U0001f468\u200d\U0001f469", ["x"]),
    ("caf\u00e9", ["cafe\u0301", "cafe", "CAF\u00c9"]), ("\u00c5ngstr\u00f6m", ["\u212bngstr\u00f6m"]), ("\u2126", ["\u03c9"]),
    ("\u212a", ["k"]), ("\u01c4", ["\u01c6"]), ("\u01c5", ["\u01c6"]), ("\u00aa", ["a", ""]), ("\u00aa a", ["\u00aa"]), ("\u24b6", ["\u24d0"]),
    ("\u0410 \u0434", ["\u0430 \u0434"]), ("\u0430 a", ["\u0430"]), ("\u0531", ["\u0561"]), ("\u10a0", ["\u2d00"]), ("\u1c90", ["\u10d0"]),
    ("\u13a0", ["\uab70"]), ("\u1e00", ["\u1e01"]), ("\ua64a", ["\ua64b"]), ("\u0391\u0345", ["\u03b1\u0345"]), ("\u1f88", ["\u1f80"]),
    ("\u0660\u0661", ["01"]), ("the\u0661", ["the\u0661", "\u0661"]), ("\u00bd the", ["\u00bd"]), ("an\u2167", ["\u2177"]),
    ("x" * 300, ["x" * 300]), ("a " * 100 + "x", ["x"]), ("x " * 50, ["x " * 60]), ("the the the cat sat", ["cat", "sat"]),
]

LETTERS = ["a", "an", "the", "The", "A", "AN", "cat", "dog", "New", "York", "x1", "\u03a3", "\u0391\u03a3", "\u0130", "\u00df", "\u1e9e",
           "\u4eac", "\u00e9", "e\u0301", "\U0001f600", "7", "\u00bd"]
BETWEEN = [" ", " ", " ", "  ", "\u00a0", "\u3000", "-", ".", "'", "\u2019", "\u201c", "\uff0c", "\t", "\x1f", "\u200b", ""]


def drawn(rng):
    return "".join(rng.choice(LETTERS) + rng.choice(BETWEEN) for _ in range(rng.randint(0, 6)))


def near(rng, text):
    """`text` with a change that may or may not matter."""
    at = rng.randint(0, len(text))
    return rng.choice([text.upper(), text.lower(), text[:at], text[at:], "the " + text, text + ".", text.replace(" ", "\u00a0"),
                       text[:at] + rng.choice(BETWEEN) + text[at:], text + " " + drawn(rng)])


def case(version, prediction, golds):
    exact, f1 = score(version, prediction, golds)
    return {"version": version, "prediction": prediction, "golds": golds, "normalized": normalize(prediction),
            "normalized_golds": [normalize(g) for g in golds], "exact": exact, "f1": f1}


def cases():
    rng = random.Random(20180611)
    pairs = list(WRITTEN)
    for _ in range(250):
        text = drawn(rng)
        golds = [rng.choice([text, near(rng, text), drawn(rng)]) for _ in range(rng.randint(0, 4))]
        pairs.append((rng.choice([text, near(rng, text)]), golds))
    out = []
    for prediction, golds in pairs:
        if golds:  # every question of version 1 has an answer
            out.append(case(1, prediction, golds))
        out.append(case(2, prediction, golds))
    return out


def totals(version, all_cases):
    """In the cases' order: the mean of exact and f1 of all, of those with a gold answer and of those without."""
    mine = [c for c in all_cases if c["version"] == version]
    parts = {"all": mine, "answered": [c for c in mine if c["golds"]], "unanswered": [c for c in mine if not c["golds"]]}
    return {name: {"n": len(part), "exact": sum(c["exact"] for c in part) / len(part), "f1": sum(c["f1"] for c in part) / len(part)}
            for name, part in parts.items() if part}


def main():
    folder = sys.argv[1]
    facts = unicode_facts()
    with open(f"{folder}/unicode_python.json", "w", encoding="ascii") as file:
        lines = [f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in facts.items()]
        file.write("{\n" + ",\n".join(lines) + "\n}\n")
    all_cases = cases()
    with open(f"{folder}/squad_metrics.json", "w", encoding="ascii") as file:
        file.write("{\n" + json.dumps("unicode") + ": " + json.dumps(facts["unicode"]) + ",\n")
        file.write('"totals": ' + json.dumps({str(v): totals(v, all_cases) for v in (1, 2)}) + ",\n")
        file.write('"cases": [\n' + ",\n".join(json.dumps(c) for c in all_cases) + "\n]\n}\n")
    print(f"{len(all_cases)} cases; Unicode {facts['unicode']}; word {len(facts['word'])} ranges, cased "
          f"{len(facts['cased'])}, ignorable {len(facts['ignorable'])}, space {len(facts['space'])}, lower {len(facts['lower'])}")


main()
