# SPDX-License-Identifier: Apache-2.0
"""Files of more than 2 and 4 GiB, through the whole program (label long; 14 GB of memory, 25 GB of disk below TMPDIR): a model
whose embeddings are, trained, saved, resumed, exported and verified; a text file and its token shard; a pytorch_model.bin."""
import os
import shutil
import struct
import zipfile

import support as s

GIB = 1 << 30
VOCAB, HIDDEN = 300_000, 2048  # 2.46 GB of float32, three times in a checkpoint


def needs(memory, disk):
    with open("/proc/meminfo", encoding="ascii") as file:
        found = {line.split(":")[0]: int(line.split()[1]) << 10 for line in file}
    if found["MemAvailable"] < memory or shutil.disk_usage(s.tempfile.gettempdir()).free < disk:
        s.skip(f"{memory >> 30} GiB of memory and {disk >> 30} GiB of disk are needed")


def model_make(folder):
    """A small encoder under large embeddings, which are a hole in the file: zeros."""
    import numpy

    s.model_make(folder, hidden=HIDDEN, layers=1, heads=32, ffn=64)
    path = os.path.join(folder, "model.safetensors")
    tensors = s.safetensors_read(path)
    name = "roberta.embeddings.word_embeddings.weight"
    small = {key: value for key, value in tensors.items() if key != name}
    header, offset = {}, 0
    for key, value in small.items():
        header[key] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [offset, offset + value.nbytes]}
        offset += value.nbytes
    header[name] = {"dtype": "F32", "shape": [VOCAB, HIDDEN], "data_offsets": [offset, offset + VOCAB * HIDDEN * 4]}
    text = s.json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for value in small.values():
            file.write(numpy.ascontiguousarray(value).tobytes())
        file.truncate(file.tell() + VOCAB * HIDDEN * 4)
    config = s.json_read(os.path.join(folder, "config.json"))
    config["vocab_size"] = VOCAB
    s.json_write(os.path.join(folder, "config.json"), config)
    return folder


class Large(s.Case):
    def test_run(self):
        needs(15 * GIB, 25 * GIB)
        data, base, out = s.task_make(self.path("d"), rows=(16, 8, 8)), model_make(self.path("m")), self.path("o")
        keys = ("--model.base", base, "--data.dir", data, "--data.task", "emotion", "--data.max_length", 40, "--out", out, "--train.batch", 8,
                "--train.epochs", 1, "--checkpoints.keep", 1, "--log.level", "warn")
        self.train(*keys, "--train.max_steps", 1, timeout=1800)
        self.assertGreater(os.path.getsize(os.path.join(s.checkpoint(out), "checkpoint.h5")), 6 * GIB)
        self.assertGreater(os.path.getsize(f"{out}/model/model.safetensors"), 2 * GIB)
        verified = s.run("inspect", "--verify", out, timeout=1800)
        self.assertExit(verified, 0)
        shutil.rmtree(f"{out}/model")
        self.train(*keys, "--train.max_steps", 2, timeout=1800)
        self.assertEqual(s.events(out, "resume")[-1]["step"], 1)
        self.assertEqual(s.events(out, "end")[-1]["step"], 2)
        path = os.path.join(s.checkpoint(out), "checkpoint.h5")
        with open(path, "r+b") as file:  # behind 4 GiB, in the moments
            file.seek(5 * GIB)
            byte = file.read(1)[0]
            file.seek(5 * GIB)
            file.write(bytes([byte ^ 1]))
        self.assertRefused(s.run("inspect", "--verify", s.checkpoint(out), timeout=1800), 65, "damaged: bytes", "word_embeddings")

    def test_text_and_shard(self):
        """3.7 million texts of 640 bytes, cut at 128 tokens of a byte: 2.4 GB of text, 2.4 GB of shard."""
        needs(8 * GIB, 8 * GIB)
        rows = 3_700_000
        data, base = s.task_make(self.path("d")), s.model_make(self.path("m"))
        folder = os.path.join(data, "emotion")
        with open(f"{folder}/train_text.txt", "wb") as text, open(f"{folder}/train_labels.txt", "wb") as labels:
            line = b"zq " * 210
            for first in range(0, rows, 1000):
                text.write(b"".join(b"%08d " % i + line[:630] + b"\n" for i in range(first, first + 1000)))
                labels.write(b"1\n" * 1000)
        self.assertGreater(os.path.getsize(f"{folder}/train_text.txt"), 2 * GIB)
        result = s.run("prepare", "--data.dir", data, "--data.task", "emotion", "--model.base", base, "--data.max_length", 128, "--out", self.path("s"),
                       timeout=3600)
        self.assertExit(result, 0)
        name = next(n for n in os.listdir(self.path("s")) if "train" in n and n.endswith(".shard"))
        shard = self.path("s", name)
        self.assertGreater(os.path.getsize(shard), 2 * GIB)
        answer, = s.run("inspect", "--verify", "--json", shard, timeout=1800).lines()
        self.assertEqual((answer["texts"], answer["intact"]), (rows, True))
        ids = s.run("tokenize", "--model", base, "--max-length", 128, "%08d " % (rows - 1) + ("zq " * 210)[:630]).lines()[0]["ids"]
        with open(shard, "rb") as file:  # the last text's tokens, where the layout says (data/shard.h)
            head = file.read(128)
            n, tokens = struct.unpack("<QQ", head[16:32])
            file.seek(128 + 8 * (n + 1) + 4 * (tokens - len(ids)))
            self.assertEqual(list(struct.unpack(f"<{len(ids)}i", file.read(4 * len(ids)))), ids)

    def test_torch_file(self):
        """zip64: an entry of more than 4 GiB."""
        needs(6 * GIB, 12 * GIB)
        import torch_files as t

        folder = s.model_make(self.path("m"))
        tensors = s.safetensors_read(os.path.join(folder, "model.safetensors"))
        os.remove(os.path.join(folder, "model.safetensors"))
        path = os.path.join(folder, "pytorch_model.bin")
        t.archive_write(path, t.entries_make(t.state_dict({key: t.whole(value) for key, value in tensors.items()})))
        want = s.run("inspect", "--json", path)
        self.assertExit(want, 0)
        small = self.path("small.bin")
        shutil.move(path, small)
        with zipfile.ZipFile(small) as before, zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as after:
            folder_name = before.namelist()[0].split("/")[0]
            with after.open(f"{folder_name}/data/huge", "w", force_zip64=True) as entry:  # in front: all others lie behind 4 GiB
                block = bytes(1 << 26)
                for _ in range(66):
                    entry.write(block)
            for info in before.infolist():
                after.writestr(info.filename, before.read(info))
        self.assertGreater(os.path.getsize(path), 4 * GIB)
        found = s.run("inspect", "--json", path, timeout=1800)
        self.assertExit(found, 0)
        self.assertEqual(found.out, want.out)


if __name__ == "__main__":
    s.main()
