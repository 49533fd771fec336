# SPDX-License-Identifier: Apache-2.0
"""Makes tests/golden/windows/{bert,roberta}.jsonl: windows of questions and contexts, and their answers' tokens, as the
preprocessing of Hugging Face's run_qa.py gives them with fast tokenizers. All texts are made up for the purpose.

    python3 tests/oracle/windows.py VOCAB OUT     # VOCAB holds bert-base-uncased/ and roberta-base/; needs transformers
"""
import json
import os
import sys

from transformers import BertTokenizerFast, RobertaTokenizerFast

# (question, context, answer or None, which occurrence of it)
TEXTS = [
    ("Where does Mirela live?", "Mirela lives in Torvik. Her brother lives in Sanhaven, near the old lighthouse.", "Torvik", 0),
    ("Where does Mirela's brother live?", "Mirela lives in Torvik. Her brother lives in Sanhaven, near the old lighthouse.", "Sanhaven", 0),
    ("What is near her brother?", "Mirela lives in Torvik. Her brother lives in Sanhaven, near the old lighthouse", "the old lighthouse", 0),
    ("Who?", "Mirela", "Mirela", 0),
    ("How tall is the tower?", "Mirela lives in Torvik. Her brother lives in Sanhaven.", None, 0),
    ("Was kostet der Käse im Café?", "Im Café „Größe“ kostet der Käse 3,50 €, der Crêpe 4 € und naïve Gäste zahlen das Doppelte.", "3,50 €", 0),
    ("Wer zahlt mehr?", "Im Café „Größe“ kostet der Käse 3,50 €, der Crêpe 4 € und naïve Gäste zahlen das Doppelte.", "naïve Gäste", 0),
    ("Which mood? 😀", "Monday 😢😢, Tuesday 😀, Wednesday 👩‍👩‍👧‍👦 day out 🏳️‍🌈, Thursday 🤷🏽‍♀️ and then 🎉!", "😀", 0),
    ("Who went out on Wednesday?", "Monday 😢😢, Tuesday 😀, Wednesday 👩‍👩‍👧‍👦 day out 🏳️‍🌈, Thursday 🤷🏽‍♀️ and then 🎉!", "👩‍👩‍👧‍👦", 0),
    ("What came last?", "Monday 😢😢, Tuesday 😀, Wednesday 👩‍👩‍👧‍👦 day out 🏳️‍🌈, Thursday 🤷🏽‍♀️ and then 🎉", "🎉", 0),
    ("川の名前は何ですか", "山田さんは青葉川のそばに住んでいます。毎朝、川の橋を渡って学校へ行きます。", "青葉川", 0),
    ("他们住在哪里？", "李娜住在南湖边，王明住在北山上，他们每个星期天一起喝茶。", "南湖边", 0),
    ("누가 노래를 부릅니까?", "민수는 기타를 치고 지은이는 노래를 부릅니다. 청중은 박수를 칩니다.", "지은이", 0),
    ("ما اسم القطة؟", "اسم القطة لولو، وتنام القطة قرب النافذة كل يوم.", "لولو", 0),
    ("   \t What   is   blank?", "two  spaces   three spaces\tone tab\nnew line   and   the   end", "three spaces", 0),
    ("\u00a0\u2003\u001f Where does it begin?", "  Leading blanks, then words, then more and more words until it is cut", "Leading blanks", 0),
    ("", "An empty question still has a context that goes on for a while, and then some", "a context", 0),
    ("An empty context?", "", None, 0),
    ("Which part?", "unbelievablelongwordwithoutanyblankinsideit andanotherlongwordthatfollowsit", "longword", 0),
    ("How does it sound?", "cafe\u0301 re\u0301sume\u0301 e\u0301\u0301\u0301 o\u0308\u0323 and na\u0131\u0308ve \u0130stanbul, \ufb01nd \u00bd", "re\u0301sume\u0301", 0),
    ("Is </s> or [SEP] ordinary?", "In a text </s></s> or [SEP] [CLS] <s> may stand, and then <pad> [PAD] or [MASK] too", "[CLS] <s>", 0),
    ("Which number is named twice in the long list of numbers here?",
     "one two three four five six seven eight nine ten eleven twelve two thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty",
     "two", 1),
    ("Which is the last number of the list?",
     "one two three four five six seven eight nine ten eleven twelve two thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty",
     "nineteen twenty", 0),
    ("What is asked?", "a b c d e f g h i j k l m n o p q r s t u v w x y z a b c d e f g h i j k l m n o p q r s t u v w x y z", "m n o p", 1),
]
SETTINGS = [(18, 2), (23, 8), (36, 12), (384, 128)]


def answer_at(context, answer, occurrence):
    at = -1
    for _ in range(occurrence + 1):
        at = context.index(answer, at + 1)
    return at


def byte_offsets(text, offsets):
    return [[len(text[:a].encode()), len(text[:b].encode())] for a, b in offsets]


def label(offsets, sequence, answer):
    """run_qa.py's rule. Two differences, see data/window.h: `start` stays in the context; start and end change places where
    a character has several tokens. Returns that, and what run_qa.py itself gives in a window without padding."""
    context = [i for i, s in enumerate(sequence) if s == 1]
    if answer is None or not context:
        return [0, 0], [0, 0]
    begin, end = answer
    first, last = context[0], context[-1]
    if not (offsets[first][0] <= begin and offsets[last][1] >= end):
        return [0, 0], [0, 0]
    theirs = first
    while theirs < len(offsets) and offsets[theirs][0] <= begin:
        theirs += 1
    theirs -= 1
    while offsets[last][1] >= end:
        last -= 1
    last += 1
    start = min(theirs, context[-1])
    return sorted([start, last]), [theirs, last]


def windows(tokenizer, question, context, answer, max_length, doc_stride, literal):
    encoded = tokenizer([question.lstrip()], [context], truncation="only_second", max_length=max_length, stride=doc_stride,
                        return_overflowing_tokens=True, return_offsets_mapping=True, return_token_type_ids=True,
                        split_special_tokens=literal)
    cut = question[:len(question) - len(question.lstrip())]
    out = []
    for i, ids in enumerate(encoded["input_ids"]):
        sequence, offsets = encoded.sequence_ids(i), encoded["offset_mapping"][i]
        ours, theirs = label(offsets, sequence, answer)
        in_question = byte_offsets(question, [(a + len(cut), b + len(cut)) for a, b in offsets])
        in_context = byte_offsets(context, offsets)
        bytes_ = [in_question[j] if s == 0 else in_context[j] if s == 1 else [0, 0] for j, s in enumerate(sequence)]
        window = {"ids": ids, "ones": sum(encoded["token_type_ids"][i]), "offsets": sum(bytes_, []), "context": len(ids) - 1 - sequence.count(1),
                  "answer": ours}
        if ours != theirs:
            window["run_qa"] = theirs
        assert encoded["token_type_ids"][i] == sorted(encoded["token_type_ids"][i])
        out.append(window)
    return out


def case(tokenizer, text, max_length, doc_stride, literal):
    question, context, answer, occurrence = text
    at = None if answer is None else answer_at(context, answer, occurrence)
    fact = {"question": question, "context": context, "max_length": max_length, "doc_stride": doc_stride,
            "special": "literal" if literal else "parse", "answer": None, "answer_start": at}
    if at is not None:
        fact["answer"] = answer
    span = None if at is None else (at, at + len(answer))
    try:
        fact["windows"] = windows(tokenizer, question, context, span, max_length, doc_stride, literal)
    except BaseException as error:  # a Rust panic is no Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        fact["error"] = str(error).split("\n")[0][:120]
    return fact


def main():
    vocab, out = sys.argv[1:3]
    os.makedirs(out, exist_ok=True)
    for name, folder, make in (("bert", "bert-base-uncased", BertTokenizerFast), ("roberta", "roberta-base", RobertaTokenizerFast)):
        tokenizer = make.from_pretrained(os.path.join(vocab, folder))
        facts = [case(tokenizer, text, m, s, True) for text in TEXTS for m, s in SETTINGS]
        facts += [case(tokenizer, text, 40, 4, False) for text in TEXTS if "[SEP]" in text[1]]
        with open(os.path.join(out, name + ".jsonl"), "w", encoding="utf-8") as file:
            for fact in facts:
                file.write(json.dumps(fact, ensure_ascii=False, separators=(",", ":")) + "\n")
        n = sum(len(f.get("windows", [])) for f in facts)
        print(name, len(facts), "cases,", n, "windows,", sum("error" in f for f in facts), "refused,",
              sum("run_qa" in w for f in facts for w in f.get("windows", [])), "labels corrected")


if __name__ == "__main__":
    main()
