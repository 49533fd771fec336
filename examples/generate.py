#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the sample in TweetEval's layout, examples/sample/emotion, and its train and val as csv: examples/sample/csv.

Short lines in the manner of tweets, put together from templates and word lists of our own: no real tweets, no real people.
Four classes, with emoji, mentions, links and hashtags; about one line in six is ambiguous (a mild word, a borrowed
opening, no emoji), so that a model learns it but is not perfect for nothing. The same bytes on every run and machine:

    python3 examples/generate.py [FOLDER]      # default: the folder "sample" beside this file
"""
import csv
import io
import os
import sys

LABELS = ["anger", "joy", "optimism", "sadness"]
SPLITS = [("train", 480), ("val", 120), ("test", 160)]

# (what happened, feeling) by class. {t} is a topic.
FEELINGS = {
    "anger": [
        "so done with {t}", "{t} makes my blood boil", "absolutely furious about {t}", "who thought {t} was acceptable",
        "I could scream at {t}", "{t} is an outrage", "fuming because of {t}", "sick and tired of {t}",
        "the nerve of {t}, honestly", "stop lying to us about {t}", "{t} ruined my whole day and nobody apologised",
        "if {t} happens once more I will lose it", "what a disgrace, {t}", "livid. {t} again",
        "third complaint about {t} and still no answer", "don't you dare defend {t}", "seething over {t}",
    ],
    "joy": [
        "can't stop smiling about {t}", "{t} made my day", "best news ever: {t}", "dancing in the kitchen thanks to {t}",
        "so happy with {t}", "{t} is pure bliss", "laughing out loud at {t}", "what a wonderful evening with {t}",
        "over the moon about {t}", "{t} and cake, life is good", "still giggling because of {t}",
        "I love {t} so much", "we won!! {t} was perfect", "grinning from ear to ear, {t}",
        "this weekend of {t} was a delight", "cheers to {t}", "thrilled that {t} worked out",
    ],
    "optimism": [
        "{t} will get better, I am sure", "keep going, {t} is worth it", "one step at a time with {t}",
        "believe in {t} and the rest will follow", "tomorrow is a new chance for {t}", "I have hope for {t}",
        "hard times with {t} make us stronger", "don't give up on {t}", "good things are coming for {t}",
        "trust the process, even with {t}", "we can fix {t} together", "looking forward to what {t} becomes",
        "every storm ends, so will {t}", "small progress on {t} is still progress",
        "the future of {t} is bright", "you've got this, {t} won't beat you", "ready to start over with {t}",
    ],
    "sadness": [
        "crying over {t} again", "{t} broke my heart", "I miss {t} so much", "feeling empty since {t}",
        "can't sleep, thinking of {t}", "goodbye, {t}", "nobody asked how I am after {t}",
        "{t} is gone and the house is quiet", "so lonely without {t}", "lost all my energy for {t}",
        "it hurts to see {t} like this", "grieving {t} today", "wish I had said sorry about {t}",
        "tears all day because of {t}", "gutted about {t}", "everything reminds me of {t}", "so down about {t}",
    ],
}

# Lines that more than one class could say.
MILD = {
    "anger": ["I can't believe {t}", "really, {t}?", "nobody told me about {t}", "enough about {t} for today"],
    "joy": ["I can't believe {t}", "finally, {t}", "look at {t}", "so this is {t}"],
    "optimism": ["finally some movement on {t}", "so this is {t}, let's see", "maybe {t} this time", "waiting for {t}"],
    "sadness": ["so, without {t} then", "nobody told me about {t}", "maybe without {t} this time", "so this was {t}"],
}

TOPICS = [
    "the late bus", "my exam results", "the new stadium", "our old dog", "the morning shift", "the phone update",
    "my little sister", "the rain in June", "the team's last match", "the parking fees", "our neighbours' party",
    "grandma's recipe", "the election", "my broken laptop", "the concert", "the night train", "the group project",
    "the job interview", "this heat wave", "the holiday plan", "the referee", "the garden", "the choir",
    "the lost parcel", "my first marathon", "the school play", "the customer service line", "the movie ending",
    "the empty fridge", "the budget cuts", "our road trip", "the landlord", "physio", "the book club",
    "the cancelled flight", "my new job", "the power cut", "the bakery on the corner", "the winter term",
    "the charity run", "Monday", "the old photos", "the northern lights", "the training plan",
]

OPENINGS = ["", "", "", "", "@user ", "@user @user ", "honestly, ", "ok, ", "Today: ", "RT @user: ", "lol ", "well... ", "\"Calm down\" they say. "]
OTHER_OPENINGS = {
    "anger": ["haha sure, ", "great, "],
    "joy": ["no tears today: ", "stop everything, "],
    "optimism": ["tired and sad, but ", "angry yesterday, today: "],
    "sadness": ["everyone is happy, ", "smiling outside. "],
}

ENDINGS = {
    "anger": ["!!!", " 😡", " 🤬", " 😤😤", " #rage", " #fedup", " #unacceptable", ". Shame.", " ?!"],
    "joy": ["!", " 😂", " 🎉", " 😄❤️", " #happy", " #bestday", " #grateful", " 🥳🥳", " :)"],
    "optimism": [".", " 🌱", " 💪", " 🌞", " #hope", " #keepgoing", " #believe", " 🙏", " ✨"],
    "sadness": ["...", " 😢", " 💔", " 😞", " #heartbroken", " #lonely", " #missyou", " 🥀", " :("],
}
PLAIN_ENDINGS = ["", ".", "...", "!", " #life", " #today", " 🙃", " http", " tbh"]
TAILS = ["", "", "", "", "", " http", " @user", " #mood", " (part 2)", " &amp; more", "  "]


class Numbers:
    """SplitMix64 (Steele, Lea and Flood 2014): the same on every version of Python."""

    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state + 0x9E3779B97F4A7C15) % 2**64
        z = self.state
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        return (z ^ (z >> 31)) % n

    def choice(self, items):
        return items[self.below(len(items))]

    def shuffle(self, items):
        for i in range(len(items) - 1, 0, -1):
            j = self.below(i + 1)
            items[i], items[j] = items[j], items[i]


def line_make(numbers, label):
    kind = numbers.below(12)
    topic = numbers.choice(TOPICS)
    if kind < 2:  # ambiguous
        text = numbers.choice(OPENINGS) + numbers.choice(MILD[label]).format(t=topic)
        text += numbers.choice(ENDINGS[label] if numbers.below(3) == 0 else PLAIN_ENDINGS)
    elif kind < 4:  # an opening that belongs to another feeling
        text = numbers.choice(OTHER_OPENINGS[label]) + numbers.choice(FEELINGS[label]).format(t=topic)
        text += numbers.choice(PLAIN_ENDINGS)
    else:
        text = numbers.choice(OPENINGS) + numbers.choice(FEELINGS[label]).format(t=topic)
        text += numbers.choice(ENDINGS[label])
    return text + numbers.choice(TAILS)


def lines_make(numbers, n):
    """All splits together: n lines, none twice, the classes as even as n allows."""
    seen, lines = set(), []
    while len(lines) < n:
        label = len(lines) % len(LABELS)
        text = line_make(numbers, LABELS[label])
        if text.strip() not in seen:
            seen.add(text.strip())
            lines.append((text, label))
    numbers.shuffle(lines)
    return lines


def file_write(folder, name, text):
    with open(os.path.join(folder, name), "wb") as out:
        out.write(text.encode())


def csv_text(lines):
    """The header and a record a line, quoted where it must be; a column more than finetuned asks for."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["id", "text", "label"])
    writer.writerows((i, text, LABELS[label]) for i, (text, label) in enumerate(lines, 1))
    return out.getvalue()


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "sample")
    folder, columns = os.path.join(root, "emotion"), os.path.join(root, "csv")
    os.makedirs(folder, exist_ok=True)
    os.makedirs(columns, exist_ok=True)
    lines = lines_make(Numbers(2022), sum(n for _, n in SPLITS))
    for split, n in SPLITS:
        part, lines = lines[:n], lines[n:]
        file_write(folder, split + "_text.txt", "".join(text + "\n" for text, _ in part))
        file_write(folder, split + "_labels.txt", "".join("%d\n" % label for _, label in part))
        if split != "test":
            file_write(columns, split + ".csv", csv_text(part))
    file_write(folder, "mapping.txt", "".join("%d\t%s\n" % pair for pair in enumerate(LABELS)))


if __name__ == "__main__":
    main()
