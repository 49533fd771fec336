# SPDX-License-Identifier: Apache-2.0
"""<out>/tensorboard, read with a small reader of our own: framing, checksums, messages, and what stands in them beside
events.jsonl. The real reader: tests/oracle/tensorboard_read.py."""
import glob
import os
import signal
import struct

import support as s


def crc_table():
    table = []
    for i in range(256):
        for _ in range(8):
            i = (i >> 1) ^ (0x82F63B78 if i & 1 else 0)
        table.append(i)
    return table


CRC = crc_table()


def checksum(data):
    """CRC-32C, masked."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ CRC[(crc ^ byte) & 255]
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def records(path):
    """The data of each record of a TFRecord file; checksums are compared, no byte may be left over."""
    with open(path, "rb") as file:
        data = file.read()
    while data:
        size, = struct.unpack("<Q", data[:8])
        assert struct.unpack("<I", data[8:12])[0] == checksum(data[:8]), "checksum of the length"
        body = data[12:12 + size]
        assert len(body) == size and struct.unpack("<I", data[12 + size:16 + size])[0] == checksum(body), "checksum of the data"
        yield body
        data = data[16 + size:]


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value, at


def message(data):
    """[(field number, value)] of a protobuf message: int, 8 or 4 bytes, or bytes."""
    found, at = [], 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        else:
            size, at = {1: (8, at), 5: (4, at)}.get(kind) or varint(data, at)
            value, at = data[at:at + size], at + size
            assert len(value) == size and kind in (1, 2, 5)
        found.append((key >> 3, value))
    return found


def event(data):
    """wall_time, step, and file_version, session status or {tag: value}."""
    fields = dict(message(data))
    step = fields.get(2, 0)
    out = {"time": struct.unpack("<d", fields[1])[0], "step": step}
    if 3 in fields:
        out["version"] = fields[3].decode()
    if 5 in fields:
        values = [dict(message(value)) for number, value in message(fields[5]) if number == 1]
        out["scalars"] = {v[1].decode(): struct.unpack("<f", v[2])[0] for v in values}
    if 7 in fields:
        out["session"] = dict(message(fields[7]))[1]
    return out


def files(out):
    return sorted(glob.glob(os.path.join(out, "tensorboard", "*")))


def events(path):
    return [event(data) for data in records(path)]


def single(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


class Tensorboard(s.Case):
    def setUp(self):
        super().setUp()
        self.data, self.out = s.task_make(self.path("d")), self.path("o")
        self.job = s.job_write(self.path("job.yaml"), self.data, self.out)

    def same_as_events(self, found, out):
        """Every step and eval event of this start has its scalars, in order, and nothing else has."""
        wanted = []
        for e in s.events(out):
            if e["event"] in ("resume", "start"):
                wanted = [] if e["event"] == "resume" else wanted
            elif e["event"] == "step":
                wanted.append((e["step"], {f"train/{key}": single(e[key]) for key in
                                           ("loss", "lr", "grad_norm", "tweets_per_s", "tokens_per_s", "flops_share")}))
            elif e["event"] == "eval":
                keys = {key: e[key] for key in ("loss", "accuracy", "macro_f1", "macro_recall", "em") if key in e}
                keys[e["official"]["name"]] = e["official"]["value"]
                wanted.append((e["step"], {f"eval/{e['split']}/{key}": single(value) for key, value in keys.items()}))
        got = [(e["step"], e["scalars"]) for e in found if "scalars" in e]
        self.assertEqual([(step, sorted(values)) for step, values in got], [(step, sorted(values)) for step, values in wanted])
        for (_, values), (_, want) in zip(got, wanted):
            for tag, value in want.items():  # events.jsonl has nine digits
                self.assertAlmostEqual(values[tag], value, delta=2.5e-7 * max(1, abs(value)), msg=tag)

    def test_a_run(self):
        self.train(self.job)
        path, = files(self.out)
        self.assertRegex(os.path.basename(path), r"^events\.out\.tfevents\.\d{10}\.")
        found = events(path)
        self.assertEqual(found[0]["version"], "brain.Event:2")
        self.assertEqual((found[1]["session"], found[1]["step"]), (1, 1))
        self.same_as_events(found, self.out)
        times = [e["time"] for e in found]
        self.assertEqual(times, sorted(times))
        for one, e in zip([x for x in found if "scalars" in x], [e for e in s.events(self.out) if e["event"] in ("step", "eval")]):
            self.assertAlmostEqual(one["time"], e["time"], delta=0.5)

    def test_an_official_metric_of_its_own(self):
        s.task_make(self.path("d"), task="irony", classes=2)
        self.train(self.job, "--data.task", "irony", "--train.epochs", 1)
        path, = files(self.out)
        tags = {tag for e in events(path) for tag in e.get("scalars", {})}
        self.assertIn("eval/val/f1_of_class_1", tags)
        self.same_as_events(events(path), self.out)

    def test_question_answering(self):
        folder = self.path("squad")
        rows = [{"id": str(n), "question": f"where is the {name}?", "answers": [{"text": f"place {n}", "answer_start": len(f"the {name} is in ")}]}
                for n, name in enumerate(("house", "boat", "tree", "car"))]
        paragraphs = [{"context": f"the {row['question'][13:-1]} is in {row['answers'][0]['text']}.", "qas": [row]} for row in rows]
        os.makedirs(folder)
        for split in ("train", "val"):
            s.json_write(os.path.join(folder, f"{split}.json"), {"version": "1.1", "data": [{"title": "x", "paragraphs": paragraphs}]})
        self.train("--model.base", "random:tiny", "--model.head", "question_answering", "--data.format", "squad", "--data.dir", folder,
                   "--data.task", "mine", "--out", self.out, "--threads", 1, "--train.epochs", 2, "--log.every", 1)
        path, = files(self.out)
        self.same_as_events(events(path), self.out)
        tags = {tag for e in events(path) for tag in e.get("scalars", {}) if tag.startswith("eval")}
        self.assertEqual(tags, {"eval/val/loss", "eval/val/em", "eval/val/f1"})

    def test_off(self):
        self.train(self.job, "--log.tensorboard", "false")
        self.assertFalse(os.path.exists(os.path.join(self.out, "tensorboard")))

    def test_complete(self):
        """A start that trains nothing writes no file."""
        self.train(self.job)
        before = files(self.out)
        os.remove(os.path.join(self.out, "report.md"))
        self.train(self.job)
        self.assertEqual(files(self.out), before)

    def test_ranks(self):
        self.train(self.job, ranks=2)
        self.assertEqual(len(files(self.out)), 1)
        self.same_as_events(events(files(self.out)[0]), self.out)

    def test_resume(self):
        """A run that is stopped and goes on: a new file, that says from which step on it counts."""
        arguments = [self.job, "--train.epochs", 400, "--checkpoints.every", 0]
        process = s.start("run", *arguments)
        self.assertTrue(s.wait_for(s.step_reached(self.out, 4), process))
        process.send_signal(signal.SIGTERM)
        self.assertExit(s.finish(process), 75)
        stopped = s.events(self.out, "stop")[0]["step"]
        self.train(self.job, "--train.epochs", 400, "--train.max_steps", stopped + 3)
        first, second = files(self.out)
        self.assertEqual(max(e["step"] for e in events(first)), stopped)
        found = events(second)
        self.assertEqual((found[0]["version"], found[1]["session"], found[1]["step"]), ("brain.Event:2", 1, stopped + 1))
        self.same_as_events(found, self.out)
        steps = [e["step"] for e in found if "train/loss" in e.get("scalars", {})]
        self.assertEqual(steps, [stopped + 1, stopped + 2, stopped + 3])

    def test_a_crash_loses_one_record_at_most(self):
        process = s.start("run", self.job, "--train.epochs", 1000)
        self.assertTrue(s.wait_for(s.step_reached(self.out, 6), process))
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()
        path, = files(self.out)
        written = {e["step"] for e in events(path) if "train/loss" in e.get("scalars", {})}
        said = {e["step"] for e in s.events(self.out, "step")}
        self.assertLessEqual(len(said ^ written), 1)
        self.assertGreaterEqual(len(written), 5)

    def test_not_writable(self):
        os.makedirs(self.out)
        self.write("o/tensorboard", "in the way")
        result = s.run("run", self.job)
        self.assertExit(result, 64, "tensorboard is a file")


if __name__ == "__main__":
    s.main()
