# SPDX-License-Identifier: Apache-2.0
"""Base models as they are published: pytorch_model.bin, shards with an index, and our own model directories. Hostile and
broken files are refused by name, and nothing in them is ever run."""
import io
import json
import os
import pickle
import shutil
import struct
import zipfile

import support as s
import torch_files as t

HEAD = ("classifier.out_proj.weight", "classifier.out_proj.bias")
TEXTS = ["happy day", "so alone \U0001f602", "@user rage http://t.co/a", ""]


class Unseekable(io.RawIOBase):
    """A file that can't be rewound: sizes then stand behind the data, as in torch's own archives."""

    def __init__(self, file):
        self.file = file

    def writable(self):
        return True

    def write(self, data):
        return self.file.write(data)


class BaseCase(s.Case):
    def setUp(self):
        super().setUp()
        self.model = s.model_make(self.path("m"), s.LABELS)
        self.tensors = s.safetensors_read(f"{self.model}/model.safetensors")

    def bare(self, name):
        """The model's directory without its weights."""
        shutil.rmtree(self.path(name), ignore_errors=True)
        return shutil.copytree(self.model, self.path(name), ignore=shutil.ignore_patterns("*.safetensors"))

    def bin(self, name, value, **options):
        """A directory whose pytorch_model.bin holds `value`."""
        folder = self.bare(name)
        t.torch_save(f"{folder}/pytorch_model.bin", value, **options)
        return folder

    def plain(self, name="b", **options):
        return self.bin(name, t.state_dict({k: t.whole(v) for k, v in self.tensors.items()}), **options)

    def shards(self, name, torch, parts=3):
        folder, names = self.bare(name), sorted(self.tensors)
        stem, end = ("pytorch_model", "bin") if torch else ("model", "safetensors")
        where = {n: f"{stem}-{i % parts + 1:05d}-of-{parts:05d}.{end}" for i, n in enumerate(names)}
        for file in sorted(set(where.values())):
            part = {n: self.tensors[n] for n in names if where[n] == file}
            if torch:
                t.torch_save(f"{folder}/{file}", t.state_dict({n: t.whole(v) for n, v in part.items()}))
            else:
                s.safetensors_write(f"{folder}/{file}", part)
        s.json_write(f"{folder}/{stem}.{end}.index.json", {"metadata": {"total_size": 1}, "weight_map": where})
        return folder

    def answers(self, folder):
        result = s.run("predict", "--model", folder, "--", *TEXTS)
        self.assertExit(result, 0)
        return result.out

    def refuse(self, folder, *words):
        """Everything that reads the weights refuses them alike."""
        for verb in (("predict", "--model", folder, "x"), ("inspect", folder)):
            self.assertRefused(s.run(*verb), 65, *words)


class Forms(BaseCase):
    """The same weights in every form give the same bits."""

    def setUp(self):
        super().setUp()
        self.wanted = self.answers(self.model)
        self.assertGreater(len({json.dumps(json.loads(line)["logits"]) for line in self.wanted.splitlines()}), 3, "the texts must differ")

    def test_protocols(self):
        for protocol in (2, 3, 4, 5):
            with self.subTest(protocol=protocol):
                self.assertEqual(self.answers(self.plain(protocol=protocol)), self.wanted)

    def test_plain_dict_and_names(self):
        """No OrderedDict, no _metadata; another folder in the archive."""
        self.assertEqual(self.answers(self.bin("b", {k: t.whole(v) for k, v in self.tensors.items()}, folder="caf\u00e9 2")), self.wanted)

    def test_what_else_such_files_hold(self):
        import numpy

        more = {k: t.whole(v) for k, v in self.tensors.items()}
        more["roberta.embeddings.position_ids"] = t.whole(numpy.arange(130).reshape(1, 130), "LongStorage")
        more["lm_head.decoder.weight"] = more["roberta.embeddings.word_embeddings.weight"]  # tied: the same object
        more.update(version=3, note="x", nothing=None, flag=True, rate=0.5)
        self.assertEqual(self.answers(self.bin("b", t.state_dict(more))), self.wanted)

    def test_views(self):
        """Every tensor a view: transposed, part of one shared storage, a column, expanded."""
        import numpy

        flat, views, offset = numpy.concatenate([v.T.reshape(-1) for v in self.tensors.values()]), {}, 7
        shared = t.Storage(numpy.concatenate([numpy.full(7, 9, "f4"), flat, numpy.full(5, 9, "f4")]))
        for name, value in self.tensors.items():
            views[name] = t.Tensor(shared, value.shape, t.strides(value.shape[::-1])[::-1], offset)
            offset += value.size
        self.assertEqual(self.answers(self.bin("b", t.state_dict(views))), self.wanted)
        for name, value in self.tensors.items():  # each element three apart
            wide = numpy.full((value.size, 3), numpy.nan, "f4")
            wide[:, 1] = value.reshape(-1)
            views[name] = t.Tensor(t.Storage(wide), value.shape, [3 * n for n in t.strides(value.shape)], 1)
        self.assertEqual(self.answers(self.bin("b", t.state_dict(views))), self.wanted)

    def test_expanded(self):
        """A bias that is one number, stride 0."""
        import numpy

        name, one = "roberta.encoder.layer.0.output.dense.bias", numpy.array([0.25], "f4")
        tensors = {**self.tensors, name: numpy.full(32, 0.25, "f4")}
        s.safetensors_write(f"{self.model}/model.safetensors", tensors)
        views = {k: t.whole(v) for k, v in tensors.items()}
        views[name] = t.Tensor(t.Storage(one), (32,), (0,))
        self.assertEqual(self.answers(self.bin("b", t.state_dict(views))), self.answers(self.model))

    def test_half_and_bfloat16(self):
        for kind in ("HalfStorage", "BFloat16Storage"):
            with self.subTest(kind=kind):
                rounded, views = {}, {}
                for name, value in self.tensors.items():
                    bits = t.bf16_bits(value) if kind == "BFloat16Storage" else value.astype("<f2")
                    views[name] = t.whole(bits, kind)
                    rounded[name] = (bits.astype("<u4") << 16).view("<f4") if kind == "BFloat16Storage" else bits.astype("<f4")
                s.safetensors_write(f"{self.model}/model.safetensors", rounded)
                wanted = self.answers(self.model)
                self.assertNotEqual(wanted, self.wanted)
                self.assertEqual(self.answers(self.bin("b", t.state_dict(views))), wanted)

    def test_archives(self):
        """zip64 records; sizes behind the data; entries in another order; no byteorder entry (before torch 2.1)."""
        entries = t.entries_make(t.state_dict({k: t.whole(v) for k, v in self.tensors.items()}))
        folder = self.bare("b")
        path = f"{folder}/pytorch_model.bin"
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in entries.items():
                with archive.open(name, "w", force_zip64=True) as entry:
                    entry.write(content)
        self.assertEqual(self.answers(folder), self.wanted)
        with open(path, "wb") as file, zipfile.ZipFile(Unseekable(file), "w") as archive:
            for name, content in entries.items():
                archive.writestr(name, content)
        self.assertEqual(self.answers(folder), self.wanted)
        t.archive_write(path, dict(reversed([e for e in entries.items() if "byteorder" not in e[0]])))
        self.assertEqual(self.answers(folder), self.wanted)

    def test_shards(self):
        for torch in (False, True):
            with self.subTest(torch=torch):
                folder = self.shards("b", torch)
                self.assertEqual(self.answers(folder), self.wanted)
                found = s.run("inspect", "--json", folder)
                self.assertExit(found, 0)
                found = found.lines()[0]
                self.assertEqual((found["kind"], found["files"], found["tensors_n"]), ("pytorch" if torch else "safetensors", 3, len(self.tensors)))
                self.assertEqual(found["parameters"], sum(v.size for v in self.tensors.values()))

    def test_shards_refused(self):
        folder = self.shards("b", False)
        index = f"{folder}/model.safetensors.index.json"
        where = s.json_read(index)
        name = "roberta.encoder.layer.0.output.dense.bias"
        for wrong, word in (("../m/model.safetensors", "not the name of a file"), ("model-00009-of-00003.safetensors", "00009"),
                            (f"{self.model}/model.safetensors", "not the name of a file"), (5, "not the name of a file")):
            s.json_write(index, {"weight_map": {**where["weight_map"], name: wrong}})
            self.refuse(folder, word)
        s.json_write(index, {"weight_map": {k: v for k, v in where["weight_map"].items() if k != name}})
        self.refuse(folder, name, "no file")
        s.json_write(index, where)
        os.truncate(f"{folder}/model-00002-of-00003.safetensors", 999)
        self.refuse(folder, "model-00002-of-00003.safetensors")

    def test_safetensors_are_preferred(self):
        shutil.copytree(self.model, self.path("both"))
        self.write("both/pytorch_model.bin", "no weights at all")
        self.assertEqual(self.answers(self.path("both")), self.wanted)

    def test_inspect(self):
        path = f"{self.plain()}/pytorch_model.bin"
        result = s.run("inspect", "--verify", path)
        self.assertExit(result, 0)
        self.assertEqual(result.out.splitlines()[0], f"pytorch: 1 file, {len(self.tensors)} tensors, {sum(v.size for v in self.tensors.values())} elements")
        self.assertIn("F32   [4, 32] classifier.out_proj.weight", result.out)
        found = s.run("inspect", "--json", path).lines()[0]
        self.assertEqual({e["name"]: tuple(e["shape"]) for e in found["tensors"]}, {k: v.shape for k, v in self.tensors.items()})


class Training(BaseCase):
    """A run from each form, and from what a run made."""

    def setUp(self):
        super().setUp()
        self.data = s.task_make(self.path("d"))
        s.task_make(self.path("d"), task="irony", classes=2)

    def go(self, base, out, *arguments, task="emotion", rc=0):
        return self.train("--model.base", base, "--data.dir", self.data, "--data.task", task, "--data.max_length", 40, "--out", self.path(out),
                          "--threads", 1, "--train.batch", 8, "--train.epochs", 1, "--log.every", 1, *arguments, rc=rc)

    def weights(self, out):
        return s.safetensors_read(self.path(out, "model", "model.safetensors"))

    def test_same_run(self):
        self.go(self.model, "a")
        self.go(self.plain(), "b")
        self.assertEqual(s.course(self.path("a")), s.course(self.path("b")))
        self.assertEqual(s.tensors_differ(self.weights("a"), self.weights("b")), [])

    def test_base_by_content(self):
        """The base may move, but not change, while a run goes on."""
        folder = self.shards("b", True)
        self.go(folder, "a")
        shutil.move(folder, self.path("moved"))
        self.go(self.path("moved"), "a", "--train.epochs", 2)
        name = sorted(self.tensors)[1]
        file = s.json_read(self.path("moved/pytorch_model.bin.index.json"))["weight_map"][name]
        part = sorted(n for n, f in s.json_read(self.path("moved/pytorch_model.bin.index.json"))["weight_map"].items() if f == file)
        changed = {n: self.tensors[n] + (n == name) for n in part}
        t.torch_save(self.path("moved", file), t.state_dict({n: t.whole(v) for n, v in changed.items()}))
        result = self.go(self.path("moved"), "a", "--train.epochs", 3, rc=65)
        self.assertIn("model.base", result.err)

    def test_own_model_on_another_task(self):
        """A run's model as the base of a task with other labels: its encoder goes on, the head is new and that is said."""
        self.go(self.model, "a")
        result = self.go(self.path("a/model"), "b", "--train.lr", 0, task="irony")
        self.assertRegex(result.err, "head has another shape or label count: a new one")
        before, after = self.weights("a"), self.weights("b")
        self.assertEqual(s.tensors_differ({k: v for k, v in before.items() if k.startswith("roberta.")},
                                          {k: v for k, v in after.items() if k.startswith("roberta.")}), [])
        self.assertEqual(after[HEAD[0]].shape, (2, 32))
        self.assertEqual(list(s.json_read(self.path("b/model/config.json"))["id2label"].values()), s.LABELS[:2])
        self.assertEqual(len(s.run("predict", "--model", self.path("b/model"), "x").lines()), 1)
        # and back again, the third of a chain
        result = self.go(self.path("b/model"), "c", task="emotion")
        self.assertRegex(result.err, "a new one")
        self.assertEqual(self.weights("c")[HEAD[0]].shape, (4, 32))

    def test_other_label_names(self):
        self.go(self.model, "a")
        s.mapping_write(f"{self.data}/emotion", ["w", "x", "y", "z"])
        result = self.go(self.path("a/model"), "b", "--train.lr", 0)
        self.assertRegex(result.err, "labels of other names: a new one")
        self.assertEqual(s.tensors_differ({HEAD[0]: self.weights("a")[HEAD[0]]}, {HEAD[0]: self.weights("b")[HEAD[0]]}), [HEAD[0]])

    def test_settings_of_the_base(self):
        """How the base's texts were read is said where this job reads them otherwise, a line for each key."""
        self.go(self.model, "a", "--data.normalize", "tweet", "--data.special_tokens", "parse")
        lines = [line for line in self.go(self.path("a/model"), "b").err.splitlines() if "the base was trained with" in line]
        self.assertEqual(len(lines), 2, lines)
        for key, mine, its in (("data.normalize", "none", "tweet"), ("data.special_tokens", "literal", "parse")):
            self.assertTrue(any(f"{key}: {mine}, " in line and f"with {its}" in line for line in lines), lines)
        same = self.go(self.path("a/model"), "c", "--data.normalize", "tweet", "--data.special_tokens", "parse")
        self.assertNotIn("the base was trained with", same.err)
        for name in ("finetuned.json", "finetuned.sha256"):
            os.remove(self.path(f"a/model/{name}"))
        self.assertNotIn("the base was trained with", self.go(self.path("a/model"), "e").err)


class Evil:
    """What pickle.loads would run."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def text(string):
    data = string.encode()
    return b"X" + struct.pack("<I", len(data)) + data


class Hostile(BaseCase):
    def setUp(self):
        super().setUp()
        self.marker = self.path("marker")
        self.shell = f"touch {self.marker}"

    def refuse_pickle(self, data, *words):
        folder = self.bare("b")
        t.archive_write(f"{folder}/pytorch_model.bin", {"x/data.pkl": data, "x/data/0": bytes(16)})
        self.refuse(folder, "pytorch_model.bin", *words)
        self.assertFalse(os.path.exists(self.marker), "something was run")

    def test_calls(self):
        evil = pickle.dumps(Evil(os.system, self.shell), 2)
        pickle.loads(evil)
        self.assertTrue(os.path.exists(self.marker), "Python runs it, or the test shows nothing")
        os.remove(self.marker)
        for protocol in (2, 3, 4, 5):
            with self.subTest(protocol=protocol):
                self.refuse_pickle(pickle.dumps(Evil(os.system, self.shell), protocol), "pickle imports posix.system:")
        self.refuse_pickle(pickle.dumps(Evil(eval, f"__import__('os').system('{self.shell}')"), 2), "pickle imports __builtin__.eval:")
        self.refuse_pickle(pickle.dumps(Evil(exec, f"import os; os.system('{self.shell}')"), 4), "pickle imports builtins.exec:")

    def test_hidden_in_a_state_dict(self):
        """The call comes last, behind tensors, as a hook, as an attribute."""
        import collections

        evil, weights = Evil(os.system, self.shell), {k: t.whole(v) for k, v in self.tensors.items()}
        self.refuse_pickle(t.pickled(t.state_dict({**weights, "z": evil}))[0], "posix.system")
        self.refuse_pickle(t.pickled({"z": [evil]})[0], "posix.system")
        attribute = collections.OrderedDict()
        attribute._metadata = evil
        self.refuse_pickle(t.pickled(attribute)[0], "posix.system")
        other = collections.OrderedDict()
        other._hidden = 1
        self.refuse_pickle(t.pickled(other)[0], "_hidden")

    def test_opcodes(self):
        """Every other way that pickle has to import, make or call."""
        head, command = b"\x80\x02", text(self.shell)
        cases = {
            "INST": (head + b"(" + command + b"iposix\nsystem\n.", "posix.system"),
            "OBJ": (head + b"(cposix\nsystem\n" + command + b"o.", "posix.system"),
            "OBJ of an allowed name": (head + b"(ccollections\nOrderedDict\no.", "opcode OBJ"),
            "NEWOBJ": (head + b"csubprocess\nPopen\n" + command + b"\x85\x81.", "subprocess.Popen"),
            "NEWOBJ of an allowed name": (head + b"ccollections\nOrderedDict\n)\x81.", "opcode NEWOBJ"),
            "NEWOBJ_EX": (head + b"ccollections\nOrderedDict\n)}\x92.", "opcode NEWOBJ_EX"),
            "STACK_GLOBAL": (b"\x80\x04\x8c\x05posix\x8c\x06system\x93" + command + b"\x85R.", "posix.system"),
            "EXT1": (head + b"\x82\x01.", "opcode EXT1"),
            "EXT2": (head + b"\x83\x01\x00.", "opcode EXT2"),
            "EXT4": (head + b"\x84\x01\x00\x00\x00.", "opcode EXT4"),
            "PERSID": (head + b"Pstorage\n.", "opcode PERSID"),
            "BUILD of a tuple": (head + b"ccollections\nOrderedDict\n)RN}\x86b.", "BUILD"),
            "BUILD of attributes": (head + b"ccollections\nOrderedDict\n)R}" + text("__dict__") + b"}sb.", "__dict__"),
            "BUILD of a dict": (head + b"}}b.", "BUILD"),
            "BUILD of a function": (head + b"ctorch._utils\n_rebuild_tensor_v2\n}b.", "BUILD"),
            "REDUCE of a number": (head + b"K\x01)R.", "REDUCE"),
            "a dotted name": (b"\x80\x04\x8c\x0bcollections\x8c\x14OrderedDict.__init__\x93.", "OrderedDict.__init__"),
            "terminal": (head + b"c\x1b[31mred\nx\n.", "?[31mred.x"),
        }
        for name, (data, word) in cases.items():
            with self.subTest(name=name):
                self.refuse_pickle(data, word)

    def test_names_of_torch(self):
        """Names that are torch's own, but none of the six."""
        for module, name in (("torch._utils", "_rebuild_parameter"), ("torch._utils", "_rebuild_tensor"), ("torch", "DoubleStorage"),
                             ("torch.storage", "_load_from_bytes"), ("torch._tensor", "_rebuild_from_type_v2"), ("torch", "Size"),
                             ("numpy.core.multiarray", "scalar"), ("collections", "defaultdict"), ("torch.nn.modules.linear", "Linear")):
            with self.subTest(name=name):
                self.refuse_pickle(b"\x80\x02c" + f"{module}\n{name}\n.".encode(), f"pickle imports {module}.{name}:", "OrderedDict", "_rebuild_tensor_v2")

    def test_counts(self):
        """Lengths and places that no such file can hold."""
        head = b"\x80\x02"
        for data in (head + b"X\xff\xff\xff\xffabc.", b"\x80\x04\x8d" + b"\xff" * 8 + b"abc.", head + b"Nr\xff\xff\xff\xff.", head + b"j\xff\xff\xff\xff.",
                     head + b"(" * 2000000 + b".", head + b"N" * 2000000 + b".", b"\x80\x04\x95" + b"\xff" * 8 + b"N.", head + b"N" * (17 << 20)):
            self.refuse_pickle(data, "pickle")

    def test_deep(self):
        """Nesting is no recursion."""
        self.refuse_pickle(b"\x80\x02N" + b"\x85" * 500000 + b".", "not a state_dict")


class Broken(BaseCase):
    def entries(self, **changes):
        entries = t.entries_make(t.state_dict({k: t.whole(v) for k, v in self.tensors.items()}))
        return {**entries, **{f"pytorch_model/{k}": v for k, v in changes.items()}}

    def refuse_entries(self, entries, *words, **options):
        folder = self.bare("b")
        t.archive_write(f"{folder}/pytorch_model.bin", entries, **options)
        self.refuse(folder, "pytorch_model.bin", *words)

    def test_truncated(self):
        folder = self.plain()
        path = f"{folder}/pytorch_model.bin"
        size = os.path.getsize(path)
        for keep in (0, 1, 3, 4, 30, 1000, size // 2, size - 22, size - 1):
            with self.subTest(keep=keep):
                self.plain()
                os.truncate(path, keep)
                self.refuse(folder, "pytorch_model.bin")

    def test_flipped(self):
        """A changed byte in a tensor is found by the archive's checksum."""
        folder = self.plain()
        path = f"{folder}/pytorch_model.bin"
        with zipfile.ZipFile(path) as archive:
            at = archive.getinfo("pytorch_model/data/3").header_offset + 100
        with open(path, "r+b") as file:
            file.seek(at)
            byte = file.read(1)
            file.seek(at)
            file.write(bytes([byte[0] ^ 16]))
        self.refuse(folder, "pytorch_model/data/3")

    def test_entries(self):
        entries = self.entries()
        self.refuse_entries({k: v for k, v in entries.items() if k != "pytorch_model/data/4"}, "data/4 is missing")
        self.refuse_entries({k: v for k, v in entries.items() if not k.endswith("data.pkl")}, "data.pkl")
        self.refuse_entries(self.entries(**{"data/4": b"1234"}), "data/4 has 4 bytes")
        self.refuse_entries(self.entries(byteorder=b"big"), "byteorder")
        self.refuse_entries({**entries, "other/data.pkl": b"x"}, "two data.pkl")
        self.refuse_entries(entries, "not stored", "deflat", compression=zipfile.ZIP_DEFLATED)
        self.refuse_entries({"readme.txt": b"x"}, "data.pkl")

    def test_views(self):
        import numpy

        name = "roberta.encoder.layer.0.output.dense.bias"
        weights = {k: t.whole(v) for k, v in self.tensors.items()}
        for tensor, word in ((t.Tensor(t.Storage(numpy.ones(31, "f4")), (32,), (1,)), "reaches element 31 of a storage of 31"),
                             (t.Tensor(t.Storage(numpy.ones(32, "f4")), (32,), (1,), 1), "reaches element 32"),
                             (t.Tensor(t.Storage(numpy.ones(32, "f4")), (32,), (2**62,)), "overflow"),
                             (t.Tensor(t.Storage(numpy.ones(32, "f4")), (2**32, 2**32), (0, 0)), "overflow"),
                             (t.Tensor(t.Storage(numpy.ones(32, "f4")), (32,), (-1,)), "pickle"),
                             (t.Tensor(t.Storage(numpy.ones(32, "f4")), (32,), (1,), -1), "pickle"),
                             (t.Tensor(t.Storage(numpy.ones(32, "f4")), (32,), ()), "pickle"),
                             (t.Tensor(t.Storage(numpy.ones(32, "f4")), (2, 2, 2, 2, 2), (16, 8, 4, 2, 1)), "pickle"),
                             (t.Tensor(t.Storage(numpy.ones(32, "f4"), elements=31), (31,), (1,)), "31 elements"),
                             (t.Tensor(t.Storage(numpy.ones(32, "f4"), elements=2**61), (32,), (1,)), "elements of F32 are said"),
                             (t.Tensor(t.Storage(numpy.ones(32, "f4"), elements=2**70), (32,), (1,)), "64 bits"),
                             (t.Tensor(t.Storage(numpy.ones(33, "f4")), (33,), (1,)), "[33]"),
                             (t.whole(numpy.arange(32), "LongStorage"), "I64"),
                             (t.whole(numpy.full(32, numpy.nan, "f4")), "not finite"),
                             (t.whole(numpy.ones(32, "f8"), "DoubleStorage"), "torch.DoubleStorage")):
            with self.subTest(word=word):
                folder = self.bin("b", t.state_dict({**weights, name: tensor}))
                self.refuse(folder, word)

    def test_not_a_state_dict(self):
        weights = {k: t.whole(v) for k, v in self.tensors.items()}
        self.refuse(self.bin("b", {"epoch": 3, "model": t.state_dict(weights)}), "model is not a tensor (OrderedDict)", "state_dict")
        self.refuse(self.bin("b", list(weights.values())), "not a state_dict (list)")
        self.refuse(self.bin("b", {k: v for k, v in weights.items() if "key" not in k}), "key", "missing")

    def test_old_forms(self):
        folder = self.bare("b")
        self.write("b/pytorch_model.bin", pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(1001, 2))
        self.refuse(folder, "before torch 1.6", "save it again")
        self.write("b/pytorch_model.bin", b"version https://git-lfs.github.com/spec/v1\n")
        self.refuse(folder, "Git LFS pointer")
        os.remove(self.path("b/pytorch_model.bin"))
        self.refuse(folder, "none of model.safetensors, pytorch_model.bin")


if __name__ == "__main__":
    s.main()
