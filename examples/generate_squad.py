#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the sample for question answering in SQuAD's format (version 2.0): examples/squad/{train,val}.json.

Short paragraphs about invented people in invented towns, and questions about them, from templates and word lists of our own.
A paragraph tells several things of several people, so that a question must be read; about one in five has no answer in its
paragraph ("is_impossible"). One paragraph in sixteen is long: more than one window at data.max_length 128. The same bytes on
every run and machine:

    python3 examples/generate_squad.py [FOLDER]      # default: the folder "squad" beside this file
"""
import json
import os
import sys

from generate import Numbers

SPLITS = [("train", 400), ("val", 80)]  # paragraphs

NAMES = """Mirela Odo Tamsin Brannoc Ysolde Kaspar Linnea Zoë Fenwick Anouk Rurik Saskia Jory Elowen Matteus Petra Iñigo
Vesna Corwin Halima Björn Noor Edda Lazlo Maïté Tobin Ondine Rafe Sunniva Emrys""".split()
TOWNS = ["Torvik", "Sanhaven", "Löwenstadt", "Brackwater", "Ostermoor", "Pinehollow", "Calmera", "Vesterby", "Dunmarch",
         "Sålund", "Redbridge", "Altamira-Sur", "Quillfort", "Mossdale", "Élincourt", "Nim", "Sandrigo", "Kestrelton",
         "Upper Wexley", "Port Amalie"]
JOBS = ["baker", "bridge keeper", "glass painter", "night nurse", "map maker", "tram driver", "clock mender", "beekeeper",
        "ferry pilot", "school cook", "stage carpenter", "tide reader"]
PETS = ["cat", "heron", "terrier", "tortoise", "goat", "parrot"]
PET_NAMES = ["Pickle", "Señor Bun", "Moss", "Käthe", "Button", "Ziggy 😺", "Old Tom", "Marble", "Pip", "Rosette"]
COLOURS = ["dark green", "pale blue", "bright orange", "white and red", "silver", "black", "lemon yellow"]
DRINKS = ["barley coffee", "plum juice", "hot milk", "nettle tea", "rosehip tea", "ginger water", "crème de cacao"]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
THINGS = ["a brass telescope", "an old violin", "two silver spoons", "a box of letters", "a paper lantern", "a broken radio",
          "a map of the coast", "three blue buttons"]

# kind: (what it tells, questions, words); {n} the person, {w} the answer.
KINDS = {
    "town": (["{n} lives in {w}.", "{n} has a small house in {w}.", "The home of {n} is {w}."],
             ["Where does {n} live?", "In which town does {n} live?"], TOWNS),
    "job": (["{n} works as a {w}.", "{n} earns a living as a {w}.", "{n} has long been a {w}."],
            ["What does {n} work as?", "What is the job of {n}?"], JOBS),
    "pet": (["{n} keeps a " + pet + " called {w}." for pet in PETS],
            ["What is the pet of {n} called?", "What do people call {n}'s animal?"], PET_NAMES),
    "colour": (["The boat of {n} is {w}.", "{n} owns a boat that is {w}.", "{n} painted the boat {w}."],
               ["Which colour is the boat of {n}?", "What colour is {n}'s boat?"], COLOURS),
    "drink": (["For breakfast {n} drinks {w}.", "{n} begins the day with {w}.", "In the morning {n} wants nothing but {w}."],
              ["What does {n} drink in the morning?", "What does {n} have for breakfast?"], DRINKS),
    "day": (["{n} plays chess every {w}.", "On {w} the chess club waits for {n}."],
            ["On which day does {n} play chess?", "When does {n} play chess?"], DAYS),
    "year": (["{n} was born in {w}.", "{n} came into the world in {w}."],
             ["When was {n} born?", "In which year was {n} born?"], [str(year) for year in range(1931, 2005)]),
    "find": (["Last winter {n} found {w} in the attic.", "{n} once found {w} under the floor."],
             ["What did {n} find?", "Which thing did {n} find?"], THINGS),
}
FILLERS = ["The rain did not stop for days.", "Nobody was in a hurry.", "The market opens at eight 🌧️.", "That is well known.",
           "The old mill still turns.", "“So it goes,” people say.", "Trains are rare here.", "It was a quiet year."]


def fact_make(numbers, person, kind):
    tells, asks, words = KINDS[kind]
    word = numbers.choice(words)
    text = numbers.choice(tells).format(n=person, w="\0")
    return {"person": person, "kind": kind, "word": word, "before": text.index("\0"), "text": text.replace("\0", word),
            "question": numbers.choice(asks).format(n=person)}


def facts_make(numbers, n):
    """n facts of different (person, kind), of few people."""
    people, facts, seen = [numbers.choice(NAMES) for _ in range(2 + n // 4)], [], set()
    while len(facts) < n:
        fact = fact_make(numbers, numbers.choice(people), numbers.choice(sorted(KINDS)))
        if (fact["person"], fact["kind"]) not in seen:
            seen.add((fact["person"], fact["kind"]))
            facts.append(fact)
    return facts, people, seen


def context_make(numbers, facts):
    """The facts' sentences, now and then another between them; where each answer begins (code points)."""
    context = ""
    for fact in facts:
        if numbers.below(4) == 0:
            context += numbers.choice(FILLERS) + " "
        fact["start"] = len(context) + fact["before"]
        context += fact["text"] + " "
    return context.rstrip()


def answers_make(fact, split):
    answers = [{"text": fact["word"], "answer_start": fact["start"]}]
    article, _, rest = fact["word"].partition(" ")
    if split != "train" and article in ("a", "an"):  # as in SQuAD's own dev set, more than one is right
        answers.append({"text": rest, "answer_start": fact["start"] + len(article) + 1})
    return answers


def missing_make(numbers, people, seen):
    """A question of the same kind that the paragraph does not answer."""
    while True:
        person, kind = numbers.choice(people + [numbers.choice(NAMES)]), numbers.choice(sorted(KINDS))
        if (person, kind) not in seen:
            return numbers.choice(KINDS[kind][1]).format(n=person)


def paragraph_make(numbers, split, index):
    n = 14 + numbers.below(6) if index % 16 == 15 else 3 + numbers.below(3)
    facts, people, seen = facts_make(numbers, n)
    context = context_make(numbers, facts)
    questions, asked = [], facts[:]
    numbers.shuffle(asked)
    for fact in asked[:2]:
        questions.append({"question": fact["question"], "answers": answers_make(fact, split), "is_impossible": False})
    if numbers.below(2) == 0:
        questions.append({"question": missing_make(numbers, people, seen), "answers": [], "is_impossible": True})
    for i, question in enumerate(questions):
        question["id"] = "%s-%03d-%d" % (split, index, i)
    return {"context": context, "qas": questions}


def split_text(numbers, split, n):
    paragraphs = [paragraph_make(numbers, split, i) for i in range(n)]
    lines = ",\n".join(json.dumps(p, ensure_ascii=False) for p in paragraphs)
    return '{"version": "v2.0", "data": [{"title": "Invented people", "paragraphs": [\n' + lines + "\n]}]}\n"


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    folder = os.path.join(sys.argv[1], "squad") if len(sys.argv) > 1 else os.path.join(here, "squad")
    os.makedirs(folder, exist_ok=True)
    numbers = Numbers(2018)
    for split, n in SPLITS:
        with open(os.path.join(folder, split + ".json"), "wb") as out:
            out.write(split_text(numbers, split, n).encode())


if __name__ == "__main__":
    main()
