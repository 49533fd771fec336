# SPDX-License-Identifier: Apache-2.0
"""`inspect --verify` of every kind of thing that the program writes: intact, or what is wrong where; a flipped bit and a
cut are found wherever a checksum exists."""
import json
import os
import random
import shutil

import support as s


def flip(path, at, bit=0):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1 << bit]))


def cut(path, size):
    os.truncate(path, size)


def append(path, data):
    with open(path, "ab") as file:
        file.write(data)


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 5\n"


class Verify(s.Case):
    @classmethod
    def setUpClass(cls):
        cls.root = s.tempfile.mkdtemp(prefix="finetuned-test-")
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        data = s.task_make(os.path.join(cls.root, "d"))
        cls.base = s.model_make(os.path.join(cls.root, "m"))
        cls.out = os.path.join(cls.root, "o")
        result = s.run("run", "--model.base", cls.base, "--data.dir", data, "--data.task", "emotion", "--data.max_length", 40, "--out", cls.out,
                       "--train.epochs", 2, "--checkpoints.every", 2, "--threads", 1, "--export.to", "hf,sagemaker", "--log.level", "error")
        if result.rc:
            raise AssertionError(str(result))
        cls.random = random.Random(5)

    def copy(self):
        """The run's folder anew, to be damaged."""
        path = self.path("o")
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self.out, path, symlinks=True)
        return path

    def verify(self, path, *more):
        return s.run("inspect", "--verify", *more, path)

    def intact(self, path, *words):
        result = self.verify(path)
        self.assertExit(result, 0)
        for word in words:
            self.assertIn(word, result.out)
        return result

    def wrong(self, path, *words):
        """Refused in one line that names `words`, as text and as JSON."""
        self.assertRefused(self.verify(path), 65, *words)
        result = self.verify(path, "--json")
        self.assertExit(result, 65)
        answer, = result.lines()
        self.assertIs(answer["intact"], False)
        for word in words:
            self.assertIn(word, answer["why"])

    def found(self, path, name, whole):
        """Flips and cuts of `name` below the folder (or file) `path` are found, and its name is said. `whole`: the run's own copy."""
        file = os.path.join(path, name) if name else path
        size = os.path.getsize(whole)
        places = {0, size - 1, size // 2, *(self.random.randrange(size) for _ in range(3))}
        for at in sorted(places):
            with self.subTest(file=file, flipped=at):
                flip(file, at, self.random.randrange(8))
                self.assertRefused(self.verify(path), 65, os.path.basename(file))
                shutil.copyfile(whole, file)
        for length in (0, size // 3, size - 1):
            with self.subTest(file=file, cut=length):
                cut(file, length)
                self.assertRefused(self.verify(path), 65, os.path.basename(file))
                shutil.copyfile(whole, file)
        with self.subTest(file=file, longer=True):
            append(file, b"\0")
            self.assertRefused(self.verify(path), 65, os.path.basename(file))
            shutil.copyfile(whole, file)

    # ---- one thing

    def test_model(self):
        model = os.path.join(self.copy(), "model")
        self.intact(model, "intact: every hash agrees")
        for name in sorted(os.listdir(model)):
            self.found(model, name, os.path.join(self.out, "model", name))
        self.write("o/model/notes.txt", "of the user")  # no file of ours: not looked at
        self.intact(model, "intact: every hash agrees")
        os.remove(os.path.join(model, "merges.txt"))
        self.wrong(model, "merges.txt", "No such file")
        os.mkfifo(os.path.join(model, "merges.txt"))
        self.wrong(model, "merges.txt", "not a regular file")

    def test_model_without_list(self):
        """A directory of others: its structure, and it is said that there is no more."""
        self.intact(self.base, "well-formed", "no checksums are recorded")
        answer, = self.verify(self.base, "--json").lines()
        self.assertEqual((answer["intact"], answer["checked"]), (True, "structure"))
        folder = self.path("m")
        shutil.copytree(self.base, folder)
        cut(os.path.join(folder, "model.safetensors"), os.path.getsize(os.path.join(folder, "model.safetensors")) - 1)
        self.wrong(folder, "model.safetensors")
        shutil.copyfile(os.path.join(self.base, "model.safetensors"), os.path.join(folder, "model.safetensors"))
        cut(os.path.join(folder, "merges.txt"), 1)  # an encoder's tokenizer is looked at too
        self.wrong(folder, "merges.txt")

    def test_file_of_a_model(self):
        path = os.path.join(self.copy(), "model", "model.safetensors")
        self.intact(path, "intact: every hash agrees")
        flip(path, os.path.getsize(path) - 5)
        self.wrong(path, "model.safetensors", "finetuned.sha256")
        shutil.move(path, self.path("model.safetensors"))  # away from its list
        self.intact(self.path("model.safetensors"), "no checksums are recorded")

    def test_sharded_model(self):
        folder = self.path("m")
        shutil.copytree(self.base, folder)
        tensors = s.safetensors_read(os.path.join(folder, "model.safetensors"))
        os.remove(os.path.join(folder, "model.safetensors"))
        names = sorted(tensors)
        parts = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
        for name, held in parts.items():
            s.safetensors_write(os.path.join(folder, name), {key: tensors[key] for key in held})
        s.json_write(os.path.join(folder, "model.safetensors.index.json"), {"weight_map": {key: name for name, held in parts.items() for key in held}})
        self.intact(folder, "2 files", "no checksums are recorded")
        cut(os.path.join(folder, "b.safetensors"), 400)
        self.wrong(folder, "b.safetensors")
        os.remove(os.path.join(folder, "b.safetensors"))
        self.wrong(folder, "b.safetensors")

    def test_shard(self):
        shards = os.path.join(self.copy(), "shards")
        name = next(n for n in sorted(os.listdir(shards)) if n.endswith(".shard"))
        self.intact(os.path.join(shards, name), "intact: every hash agrees")
        self.found(os.path.join(shards, name), "", os.path.join(self.out, "shards", name))

    def test_archives(self):
        folder = os.path.join(self.copy(), "artifacts")
        for name in sorted(os.listdir(folder)):
            path = os.path.join(folder, name)
            self.intact(path, "intact: every hash agrees", "with their SHA-256")
            self.found(path, "", os.path.join(self.out, "artifacts", name))

    def test_checkpoint(self):
        path = os.path.join(self.copy(), "checkpoints", "step-00000004")
        self.intact(path, "intact: every hash agrees")
        for name in ("checkpoint.h5", "MANIFEST.json"):
            self.found(path, name, os.path.join(self.out, "checkpoints", "step-00000004", name))
        answer, = self.verify(path, "--json").lines()
        self.assertEqual((answer["kind"], answer["step"], answer["intact"], answer["checked"]), ("checkpoint", 4, True, "hashes"))

    # ---- a run's folder

    def items(self, out, rc=65):
        result = self.verify(out, "--json")
        self.assertExit(result, rc)
        answer, = result.lines()
        self.assertIs(answer["intact"], rc == 0)
        return {e["path"]: e for e in answer["items"]}, {e["path"]: e["note"] for e in answer["notes"]}

    def test_run(self):
        items, notes = self.items(self.out, 0)
        self.assertEqual(notes, {})
        shards = [n for n in sorted(os.listdir(os.path.join(self.out, "shards"))) if n.endswith(".shard")]
        self.assertEqual(sorted(items), sorted(["job.yaml", "events.jsonl", "report.json", "report.md", "model", "checkpoints/latest", "checkpoints/best",
                                                *(f"checkpoints/step-{n:08d}" for n in (2, 4, 6) if os.path.isdir(f"{self.out}/checkpoints/step-{n:08d}")),
                                                *(f"shards/{n}" for n in shards), *(f"artifacts/{n}" for n in os.listdir(f"{self.out}/artifacts"))]))
        hashed = {path for path, e in items.items() if e["checked"] == "hashes"}
        self.assertEqual(hashed, {path for path in items if path.startswith(("shards/", "artifacts/", "checkpoints/step-", "model", "report."))})
        self.intact(self.out, "intact: ")
        self.intact(os.path.join(self.out, "checkpoints"), "step-00000004")

    def test_damaged_run(self):
        out = self.copy()
        events = f"{out}/events.jsonl"
        lines = s.file_lines(events)
        shard = next(n for n in sorted(os.listdir(f"{out}/shards")) if n.endswith(".shard"))
        size = os.path.getsize(f"{out}/checkpoints/step-00000004/checkpoint.h5")
        damage = {"checkpoints/step-00000004": lambda: flip(f"{out}/checkpoints/step-00000004/checkpoint.h5", size - 1000),
                  "model": lambda: flip(f"{out}/model/vocab.json", 300),
                  "artifacts/job-hf.tar.gz": lambda: flip(f"{out}/artifacts/job-hf.tar.gz", 5000),
                  f"shards/{shard}": lambda: flip(f"{out}/shards/{shard}", 200),
                  "events.jsonl": lambda: self.write("o/events.jsonl", b"\n".join([lines[0], lines[1][:-3], *lines[2:]]) + b"\n"),
                  "report.json": lambda: cut(f"{out}/report.json", 100),
                  "job.yaml": lambda: append(f"{out}/job.yaml", b"no such key: 1\n"),
                  "checkpoints/best": lambda: (os.remove(f"{out}/checkpoints/best"), os.symlink("step-00000099", f"{out}/checkpoints/best"))}
        for n, (name, breaks) in enumerate(damage.items(), 1):
            breaks()
            items, _ = self.items(out)
            self.assertEqual({path for path, e in items.items() if not e["intact"]}, set(list(damage)[:n]), name)
            self.assertIn(os.path.basename(name), items[name]["why"])
        self.assertIn("events.jsonl:2", items["events.jsonl"]["why"])
        self.assertIn("to mend the file, remove it", items["events.jsonl"]["why"])
        result = self.verify(out)
        self.assertExit(result, 65, f"{len(damage)} of {len(items)} things are not intact")
        self.assertEqual(len([line for line in result.out.splitlines() if line.startswith("WRONG")]), len(damage))

    def test_damaged_model_is_made_again(self):
        """By the same start, from the best checkpoint, the same bytes; a whole one is left alone."""
        out = self.copy()
        before = os.stat(f"{out}/model").st_ino
        again = lambda: s.run("run", f"{out}/job.yaml", "--out", out, "--log.level", "warn")
        self.assertExit(again(), 0)
        self.assertEqual(os.stat(f"{out}/model").st_ino, before)
        append(f"{out}/model/README.md", b"my words\n")  # the card may be edited: verify says so, the start leaves it
        self.assertExit(s.run("inspect", "--verify", out), 65, "README.md", "damaged or edited")
        self.assertExit(again(), 0)
        self.assertEqual(s.file_lines(f"{out}/model/README.md")[-1], b"my words")
        flip(f"{out}/model/model.safetensors", os.path.getsize(f"{out}/model/model.safetensors") - 100)
        self.assertExit(again(), 0, "model.safetensors", "made again", f"README.md was edited: set aside as {out}/model.README.md.aside-1")
        self.intact(out, "intact: ")
        self.assertEqual(s.file_lines(f"{out}/model.README.md.aside-1")[-1], b"my words")
        for name in ("config.json", "README.md", "merges.txt", "finetuned.sha256"):  # each time it is said
            os.remove(f"{out}/model/{name}")
            self.assertExit(again(), 0, name, f"{out}/model is made again")
            self.intact(out, "intact: ")
        self.assertFalse(os.path.exists(f"{out}/model.README.md.aside-2"))  # the run's own card goes with its model
        append(f"{out}/model/README.md", b"more words\n")  # without a list it is compared with the new one
        os.remove(f"{out}/model/finetuned.sha256")
        self.assertExit(again(), 0, f"{out}/model is made again", f"set aside as {out}/model.README.md.aside-2")
        self.assertEqual(s.file_lines(f"{out}/model.README.md.aside-2")[-1], b"more words")

    def list_write(self, out, lines):
        with open(f"{out}/model/finetuned.sha256", "wb") as file:
            file.write(b"".join(lines))

    def test_cut_list(self):
        """A list that ends too early, or lacks a file that a model always has, is itself what is damaged."""
        out = self.copy()
        with open(f"{out}/model/finetuned.sha256", "rb") as file:
            whole = file.readlines()
        again = lambda: s.run("run", f"{out}/job.yaml", "--out", out, "--log.level", "warn")
        for n in range(1, len(whole)):
            self.list_write(out, whole[:n])
            self.wrong(f"{out}/model", "finetuned.sha256: does not name")
        for gone in range(len(whole)):
            self.list_write(out, whole[:gone] + whole[gone + 1:])
            self.wrong(f"{out}/model", "finetuned.sha256: does not name " + whole[gone].split()[1].decode())
        for lines in (whole[:3], whole[:-1], whole[1:]):
            self.list_write(out, lines)
            items, _ = self.items(out)
            self.assertIn("finetuned.sha256: does not name", items["model"]["why"])
            self.assertExit(again(), 0, "finetuned.sha256: does not name", f"{out}/model is made again")
            self.intact(out, "intact: ")
        self.list_write(out, whole[:3])
        self.assertRefused(s.run("export", "--from", f"{out}/model", "--to", "hf", "--out", self.path("e")), 65, "finetuned.sha256: does not name")
        self.write("o/model/thesis.txt", "of the user")
        self.assertRefused(again(), 64, "thesis.txt", "not of a model that this program wrote")
        self.list_write(out, whole)
        self.write("o/model/added_tokens.json", "{}")  # one of our names, but not in the way of a whole list
        self.intact(f"{out}/model", "intact: every hash agrees")
        os.remove(f"{out}/model/merges.txt")
        self.assertRefused(again(), 64, "added_tokens.json", "not of a model that this program wrote")

    def test_list_of_another_system(self):
        """Lines that end in CR LF and upper-case digits are as good, as sha256sum -c has it; a byte order mark is named."""
        out = self.copy()
        with open(f"{out}/model/finetuned.sha256", "rb") as file:
            whole = file.readlines()
        upper = [line[:64].upper() + line[64:] for line in whole]
        for lines in (upper, [line.replace(b"\n", b"\r\n") for line in whole], [line.replace(b"\n", b"\r\n") for line in upper]):
            self.list_write(out, lines)
            self.intact(out, "intact: ")
            self.assertExit(s.run("export", "--from", f"{out}/model", "--to", "hf", "--out", self.path("e")), 0)
        before = os.stat(f"{out}/model").st_ino
        self.assertExit(s.run("run", f"{out}/job.yaml", "--out", out), 0)
        self.assertEqual(os.stat(f"{out}/model").st_ino, before)
        self.list_write(out, [b"\xef\xbb\xbf"] + whole)
        self.wrong(f"{out}/model", "finetuned.sha256:1", "byte order mark")

    def test_pointers(self):
        """What a clone without Git LFS leaves is named as that, whatever file it is, and no list is to be removed."""
        out = self.copy()
        step = os.path.realpath(f"{out}/checkpoints/latest")
        files = [f"{out}/model/{name}" for name in sorted(os.listdir(f"{out}/model"))] + [f"{step}/checkpoint.h5", f"{step}/MANIFEST.json"]
        for path in files + [f"{out}/artifacts/{name}" for name in sorted(os.listdir(f"{out}/artifacts"))]:
            with self.subTest(path=path), open(path, "rb") as file:
                before = file.read()
                with open(path, "wb") as file:
                    file.write(POINTER)
                name = os.path.basename(path)
                self.wrong(path if "artifacts" in path else os.path.dirname(path), f"{name}: a Git LFS pointer")
                if "/model/" in path:
                    self.check_pointer(f"{out}/model", name, listed=True)
                    os.rename(f"{out}/model/finetuned.sha256", self.path("list"))
                    if name != "finetuned.sha256":
                        self.check_pointer(f"{out}/model", name, listed=False)
                    os.rename(self.path("list"), f"{out}/model/finetuned.sha256")
                with open(path, "wb") as file:
                    file.write(before)
        self.intact(out, "intact: ")

    def check_pointer(self, model, name, listed):
        pointer = f"{name}: a Git LFS pointer"
        self.assertRefused(s.run("export", "--from", model, "--to", "hf", "--out", self.path("e")), 65, pointer)
        for result in ([s.run("predict", "--model", model, "a text")] if name not in ("README.md", "finetuned.sha256") else []) + (
                [s.run("run", "--dry-run", f"{self.out}/job.yaml", "--model.base", model, "--out", self.path("n"))] if listed and name != "README.md" else []):
            self.assertRefused(result, 65, pointer)
            self.assertNotIn("remove finetuned.sha256", result.err)

    # ---- a run whose events and checkpoints are both gone

    def test_events_and_checkpoints_that_are_gone(self):
        """A model or report beside the job file of a run tells that one was here: neither is replaced without a word."""
        job = f"{self.out}/job.yaml"
        for gone, rc in (((), 65), (("report.json", "report.md"), 65), (("model",), 65), (("model", "report.json"), 64), (("job.yaml",), 64)):
            with self.subTest(gone=gone):
                out = self.copy()
                for name in ("events.jsonl", "checkpoints", *gone):
                    (shutil.rmtree if os.path.isdir(f"{out}/{name}") else os.remove)(f"{out}/{name}")
                if rc == 64 and "model" in gone:  # what is left tells of no end: the job file is a run's, and it begins anew
                    self.assertExit(s.run("run", job, "--out", out), 0)
                    continue
                for more in (["--dry-run"], []):
                    words = ["holds no checkpoint", "its events.jsonl is gone", "resume: never"] if rc == 65 else ["report."]
                    self.assertRefused(s.run("run", job, "--out", out, *more), rc, *words)
                self.assertFalse(os.path.exists(f"{out}/checkpoints"))
        out = self.copy()
        os.remove(f"{out}/events.jsonl")
        shutil.rmtree(f"{out}/checkpoints")
        self.assertExit(s.run("run", job, "--out", out, "--checkpoints.resume", "never"), 0)
        self.intact(out, "intact: ")
        shutil.copytree(f"{out}/model", self.path("n", "model"))  # a copy alone tells of no run
        self.assertExit(s.run("run", job, "--out", self.path("n")), 0)

    def test_damaged_model_is_no_source(self):
        """Nothing makes a model, with hashes of its own, of one that its list says is damaged."""
        out = self.copy()
        model, job, whole = f"{out}/model", f"{out}/job.yaml", self.path("whole")
        shutil.copytree(model, whole)
        flip(f"{model}/model.safetensors", os.path.getsize(f"{model}/model.safetensors") - 100)
        made = self.path("made")
        base = ("--model.base", model, "--out", made)
        for kind in ("hf", "sagemaker"):
            self.assertRefused(s.run("export", "--from", model, "--to", kind, "--out", made), 65, "--from", "model.safetensors", "finetuned.sha256")
        for ranks in (0, 2):
            for verb in (("run",), ("run", "--dry-run"), ("sweep",)):
                self.assertRefused(s.run(*verb, job, *base, ranks=ranks), 65, "model.base", "model.safetensors", "finetuned.sha256")
        self.assertFalse(os.path.exists(made))
        with open(f"{model}/model.safetensors", "wb") as file:
            file.write(POINTER)
        self.assertRefused(s.run("export", "--from", model, "--to", "hf", "--out", made), 65, "--from", "model.safetensors", "Git LFS pointer")
        shutil.copy(f"{whole}/model.safetensors", model)
        flip(f"{model}/model.safetensors", os.path.getsize(f"{model}/model.safetensors") - 100)
        os.remove(f"{model}/finetuned.sha256")  # what was meant is taken
        self.assertExit(s.run("export", "--from", model, "--to", "hf", "--out", made), 0)
        self.assertExit(s.run("run", job, "--model.base", model, "--out", self.path("made-of-it"), "--train.max_steps", 1), 0)
        self.assertExit(s.run("run", job, "--out", out, "--log.level", "warn"), 0, "finetuned.sha256: is missing", "made again")
        self.intact(out, "intact: ")

    def test_edited_report(self):
        """Other numbers in good JSON, a line more for people: found, and made again with the run's own."""
        out = self.copy()
        again = lambda: s.run("run", f"{out}/job.yaml", "--out", out, "--log.level", "warn")
        report = s.json_read(f"{out}/report.json")
        before = report["test"]["accuracy"]
        for name in ("report.json", "report.md"):
            with self.subTest(name=name):
                report["test"]["accuracy"] = 1.0
                if name == "report.json":
                    s.json_write(f"{out}/{name}", report)
                else:
                    append(f"{out}/{name}", b"junk\n")
                items, _ = self.items(out)
                self.assertEqual([path for path, e in items.items() if not e["intact"]], [name])
                self.assertIn("end event", items[name]["why"])
                self.assertExit(s.run("report", out), 0, f"{name}: its SHA-256 is not")
                self.assertExit(again(), 0, f"{name}: its SHA-256 is not", "made again")
                self.assertEqual(s.json_read(f"{out}/report.json")["test"]["accuracy"], before)
                self.intact(out, "intact: ")
        self.assertEqual(again().err, "")

    def untold(self, out):
        """As a run whose end event tells of no report."""
        with open(f"{out}/events.jsonl", encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        for event in lines:
            event.pop("report", None)
        self.write("o/events.jsonl", "".join(json.dumps(event) + "\n" for event in lines))

    def test_report_of_an_older_run(self):
        """Its events tell of no hash: its report is as good as its JSON."""
        out = self.copy()
        self.untold(out)
        append(f"{out}/report.json", b"\n")
        items, _ = self.items(out, 0)
        self.assertEqual(items["report.json"]["checked"], "structure")
        self.assertEqual(items["report.md"]["checked"], "structure")
        self.assertEqual(s.run("run", f"{out}/job.yaml", "--out", out, "--log.level", "warn").err, "")

    def test_run_that_was_killed(self):
        """What a crash leaves is no damage, but said."""
        out = self.copy()
        append(f"{out}/events.jsonl", b'{"event": "step", "ti')
        os.makedirs(f"{out}/checkpoints/.tmp-step-00000009-0123456789abcdef")
        os.makedirs(f"{out}/checkpoints/step-00000007.aside-1")
        _, notes = self.items(out, 0)
        self.assertEqual(set(notes), {"events.jsonl", "checkpoints/.tmp-step-00000009-0123456789abcdef", "checkpoints/step-00000007.aside-1"})

    def test_run_with_anothers_archive(self):
        """Intact in itself, but not what this run published."""
        out = self.copy()
        shutil.copyfile(f"{out}/artifacts/job-sagemaker.tar.gz", f"{out}/artifacts/job-hf.tar.gz")
        items, _ = self.items(out)
        self.assertIn("export event", items["artifacts/job-hf.tar.gz"]["why"])

    def test_results_of_another_run_are_made_again(self):
        """Whole in themselves, of another run or of another checkpoint: found, and the same start makes this run's."""
        other = self.path("other")
        job = f"{self.out}/job.yaml"
        self.assertExit(s.run("run", job, "--out", other, "--train.seed", 7, "--train.max_steps", 2, "--log.level", "error"), 0)
        exported = self.path("exported")
        self.assertExit(s.run("export", "--from", f"{other}/checkpoints/latest", "--to", "hf", "--out", exported), 0)

        def model(out):
            shutil.rmtree(f"{out}/model")
            shutil.copytree(f"{other}/model", f"{out}/model")

        def step(out):
            shutil.rmtree(f"{out}/model")
            shutil.copytree(exported, f"{out}/model")

        def archive(out, kind="hf"):
            shutil.copyfile(f"{other}/artifacts/job-{kind}.tar.gz", f"{out}/artifacts/job-{kind}.tar.gz")
        for name, breaks in (("model", model), ("model", step), ("artifacts/job-hf.tar.gz", archive),
                             ("artifacts/job-sagemaker.tar.gz", lambda out: archive(out, "sagemaker")),
                             ("report.json", lambda out: shutil.copyfile(f"{other}/report.json", f"{out}/report.json"))):
            with self.subTest(name=name, breaks=breaks.__name__):
                out = self.copy()
                breaks(out)
                items, _ = self.items(out)
                self.assertEqual([path for path, e in items.items() if not e["intact"]], [name])
                self.assertIn("another's", items[name]["why"])
                self.assertExit(s.run("run", job, "--out", out, "--log.level", "warn"), 0, os.path.basename(name), "made again")
                self.intact(out, "intact: ")
                self.assertEqual(s.run("run", job, "--out", out, "--log.level", "warn").err, "")

    def test_archive_that_is_not_asked_for_now(self):
        """It may be gone; if it is another it is damage, and the start that does not make it says so."""
        out = self.copy()
        again = lambda *more: s.run("run", f"{out}/job.yaml", "--out", out, "--log.level", "warn", *more)
        self.assertEqual(again("--export.to=sagemaker").err, "")
        self.intact(out, "intact: ")
        os.remove(f"{out}/artifacts/job-hf.tar.gz")
        _, notes = self.items(out, 0)
        self.assertIn("does not ask for it now", notes["artifacts/job-hf.tar.gz"])
        shutil.copyfile(f"{out}/artifacts/job-sagemaker.tar.gz", f"{out}/artifacts/job-hf.tar.gz")
        items, _ = self.items(out)
        self.assertIn("remove it, or set export.to", items["artifacts/job-hf.tar.gz"]["why"])
        self.assertExit(again(), 0, "job-hf.tar.gz: its SHA-256 is not", "remove it, or ask for it")
        self.assertExit(again("--export.to=hf,sagemaker"), 0, "job-hf.tar.gz: its SHA-256 is not", "made again")
        self.intact(out, "intact: ")

    def test_things_of_the_user_in_artifacts(self):
        """Noted, whatever they are; what is whole is a line."""
        out = self.copy()
        shutil.copytree(f"{out}/checkpoints/step-00000004", f"{out}/artifacts/ck")
        shutil.copytree(f"{out}/model", f"{out}/artifacts/bf16")
        shutil.copytree(self.out, f"{out}/artifacts/b", symlinks=True)
        os.mkdir(f"{out}/artifacts/folder")
        for name in ("notes.txt", "mine.tar.gz", "mine.safetensors", "mine-hf.tar.gz", "mine.shard"):
            self.write(f"o/artifacts/{name}", "mine")
        os.mkfifo(f"{out}/artifacts/pipe.tar.gz")
        shutil.copyfile(f"{out}/artifacts/job-hf.tar.gz", f"{out}/artifacts/whole-hf.tar.gz")
        items, notes = self.items(out, 0)
        self.assertEqual(set(notes), {f"artifacts/{name}" for name in ("ck", "bf16", "b", "folder", "notes.txt", "mine.tar.gz", "mine.safetensors",
                                                                      "mine-hf.tar.gz", "mine.shard", "pipe.tar.gz")})
        self.assertIn("artifacts/whole-hf.tar.gz", items)
        self.assertIn("a checkpoint that this run did not make", notes["artifacts/ck"])
        self.assertIn("not a tar.gz", notes["artifacts/mine.tar.gz"])
        events = [line for line in s.file_lines(f"{out}/events.jsonl") if b'"hf"' not in line]
        self.write("o/events.jsonl", b"\n".join(events) + b"\n")
        self.write("o/artifacts/job-hf.tar.gz", "damaged")  # no event tells of it, but the run gives that name
        items, _ = self.items(out)
        self.assertEqual([path for path, e in items.items() if not e["intact"]], ["artifacts/job-hf.tar.gz"])

    # ---- checkpoints of others, or elsewhere

    def test_checkpoints_of_another_run(self):
        """All of them, or an older one; a job.yaml; links of a finished run that lead to other steps."""
        other, job = self.path("other"), f"{self.out}/job.yaml"
        self.assertExit(s.run("run", job, "--out", other, "--train.seed", 7, "--log.level", "error"), 0)
        wrong = lambda items: {path for path, e in items.items() if not e["intact"]}
        again = lambda out: s.run("run", job, "--out", out, "--log.level", "warn")
        out = self.copy()
        shutil.rmtree(f"{out}/checkpoints")
        shutil.copytree(f"{other}/checkpoints", f"{out}/checkpoints", symlinks=True)
        items, _ = self.items(out)
        steps = {f"checkpoints/{name}" for name in os.listdir(f"{out}/checkpoints") if name.startswith("step-")}
        self.assertEqual(wrong(items), steps)
        self.assertIn("is of another run", items[min(steps)]["why"])
        self.assertRefused(again(out), 65, "is of another run", "train.seed")
        out = self.copy()
        old = min(name for name in os.listdir(f"{out}/checkpoints") if name.startswith("step-"))
        self.assertNotIn(old, map(lambda name: os.readlink(f"{out}/checkpoints/{name}"), ("latest", "best")))
        source = next(name for name in sorted(os.listdir(f"{other}/checkpoints")) if name.startswith("step-"))
        shutil.rmtree(f"{out}/checkpoints/{old}")
        shutil.copytree(f"{other}/checkpoints/{source}", f"{out}/checkpoints/{source}", dirs_exist_ok=True)
        items, _ = self.items(out)
        self.assertEqual(wrong(items), {f"checkpoints/{source}"})
        self.assertExit(again(out), 0, f"{source} is of another run", "it can't be made again; remove it")
        out = self.copy()
        shutil.copyfile(f"{other}/job.yaml", f"{out}/job.yaml")
        items, _ = self.items(out)
        self.assertEqual(wrong(items), {"job.yaml"})
        self.assertIn("train.seed is 7", items["job.yaml"]["why"])
        self.assertEqual(again(out).err, "")
        self.intact(out, "intact: ")

    def test_links_of_a_finished_run(self):
        out = self.copy()
        names = sorted(name for name in os.listdir(f"{out}/checkpoints") if name.startswith("step-"))
        for link in ("latest", "best"):
            right = os.readlink(f"{out}/checkpoints/{link}")
            for name in names:
                if name == right:
                    continue
                os.remove(f"{out}/checkpoints/{link}")
                os.symlink(name, f"{out}/checkpoints/{link}")
                items, _ = self.items(out)
                self.assertEqual([path for path, e in items.items() if not e["intact"]], [f"checkpoints/{link}"])
                self.assertIn(f"leads to step {int(name[5:])}, but a finished run's leads to step {int(right[5:])}", items[f"checkpoints/{link}"]["why"])
                self.assertExit(s.run("run", f"{out}/job.yaml", "--out", out, "--log.level", "warn"), 0)
                self.intact(out, "intact: ")
        last = os.readlink(f"{out}/checkpoints/latest")
        shutil.rmtree(f"{out}/checkpoints/{last}")
        items, _ = self.items(out)
        self.assertIn("the run ended there", items[f"checkpoints/{last}"]["why"])

    def test_backup_without_checkpoints(self):
        """The folder that job.yaml names is the original's: it is no part of the copy."""
        out = self.copy()
        self.intact(out, "intact: ")
        shutil.rmtree(f"{out}/checkpoints")
        with open(f"{out}/job.yaml", encoding="utf-8") as file:
            job = file.read()
        self.assertIn("dir: <out>/checkpoints", job)
        for _ in range(2):  # as the program writes it, and as a user may
            items, _ = self.items(out)
            self.assertEqual([path for path, e in items.items() if not e["intact"]], ["checkpoints"])
            self.assertIn("is missing", items["checkpoints"]["why"])
            self.assertFalse(any(path.startswith("/") for path in items), items)
            self.write("o/job.yaml", job.replace("dir: <out>/checkpoints", f"dir: {self.root}/./o/checkpoints"))
        events = [line for line in s.file_lines(f"{out}/events.jsonl") if not any(word in line for word in (b'"export"', b'"end"'))]
        self.write("o/events.jsonl", b"\n".join(events) + b"\n")  # under way
        os.mkdir(f"{out}/checkpoints")
        items, _ = self.items(out)
        self.assertIn("holds no checkpoint, but the run's events tell of one of step", items["checkpoints"]["why"])

    def test_checkpoints_elsewhere(self):
        out, elsewhere = self.path("e"), self.path("elsewhere")
        self.assertExit(s.run("run", f"{self.out}/job.yaml", "--out", out, "--checkpoints.dir", elsewhere, "--train.max_steps", 2, "--log.level", "error"), 0)
        _, notes = self.items(out, 0)
        self.assertEqual(notes, {})
        os.mkdir(f"{out}/checkpoints")
        items, notes = self.items(out, 0)
        self.assertIn(f"{elsewhere}/step-00000002", items)
        self.assertIn("is another folder", notes["checkpoints"])
        os.rename(elsewhere, self.path("gone"))
        items, _ = self.items(out)
        self.assertIn("is missing", items[elsewhere]["why"])
        os.rmdir(f"{out}/checkpoints")
        shutil.copytree(self.path("gone"), f"{out}/checkpoints", symlinks=True)  # a backup that took them along
        items, _ = self.items(out, 0)
        self.assertIn("checkpoints/step-00000002", items)

    def test_report_that_is_no_file(self):
        for name in ("report.json", "report.md"):
            for make in (os.mkfifo, lambda p: os.symlink("/dev/zero", p), os.mkdir, lambda p: os.symlink(os.path.basename(p), p)):
                for told in (True, False):
                    out = self.copy()
                    if not told:
                        self.untold(out)
                    os.remove(f"{out}/{name}")
                    make(f"{out}/{name}")
                    items, _ = self.items(out)
                    self.assertEqual([path for path, e in items.items() if not e["intact"]], [name])

    def test_report_without_facts(self):
        """Of an older run, whose events tell of no hash."""
        for text, why in (("{}", "no report of a run"), ('{"val": {}}', "no report of a run"), ('{"val": {}, "run_id": "0123"}', "is of another run")):
            out = self.copy()
            self.untold(out)
            self.write("o/report.json", text)
            items, _ = self.items(out)
            self.assertTrue(any(why in e.get("why", "") for e in items.values()), items)
            self.assertExit(s.run("run", f"{out}/job.yaml", "--out", out, "--log.level", "warn"), 0, "no report of this run", "made again")
            self.intact(out, "intact: ")

    def test_artifact_that_has_no_end(self):
        """Refused at once, with and without --verify."""
        out = self.copy()
        path = f"{out}/artifacts/job-hf.tar.gz"
        for make in (os.mkfifo, lambda p: os.symlink("/dev/zero", p)):
            os.remove(path)
            make(path)
            for flags in (("--verify",), ()):
                self.assertExit(s.run("inspect", *flags, out, timeout=60), 65, "job-hf.tar.gz", "not a regular file")

    def test_artifact_that_is_gone(self):
        """An export event tells of it: its loss, or another thing of its name, is damage."""
        for make in (None, os.mkdir, lambda p: os.symlink("nowhere", p), lambda p: os.symlink(os.path.basename(p), p), os.mkfifo):
            out = self.copy()
            path = f"{out}/artifacts/job-hf.tar.gz"
            os.remove(path)
            if make:
                make(path)
            items, _ = self.items(out)
            self.assertEqual([name for name, e in items.items() if not e["intact"]], ["artifacts/job-hf.tar.gz"])
        shutil.rmtree(f"{out}/artifacts")
        items, _ = self.items(out)
        self.assertEqual(sorted(name for name, e in items.items() if not e["intact"]), ["artifacts/job-hf.tar.gz", "artifacts/job-sagemaker.tar.gz"])

    def test_finished_run_lacks(self):
        """What a run has that came to its end; one that did not may lack it."""
        names = ["job.yaml", "report.json", "report.md", "checkpoints/latest", "checkpoints/best"]
        for name in names:
            out = self.copy()
            os.remove(f"{out}/{name}")
            items, _ = self.items(out)
            self.assertEqual([path for path, e in items.items() if not e["intact"]], [name])
            self.assertIn(f"{name}: is missing: a finished run has it", items[name]["why"])
        out = self.copy()
        shutil.rmtree(f"{out}/model")
        items, _ = self.items(out)
        self.assertIn("is missing", items["model"]["why"])
        out = self.copy()
        with open(f"{out}/events.jsonl", encoding="utf-8") as file:
            lines = [line for line in file if json.loads(line)["event"] not in ("export", "end")]
        self.write("o/events.jsonl", "".join(lines))
        for name in names[1:]:
            os.remove(f"{out}/{name}")
        shutil.rmtree(f"{out}/artifacts")
        self.items(out, 0)

    def test_job_file_that_is_none(self):
        def empty(path):
            self.write("o/job.yaml", "")
        for make in (empty, os.mkfifo, lambda p: os.symlink("/dev/null", p), os.mkdir, lambda p: os.symlink("job.yaml", p)):
            out = self.copy()
            os.remove(f"{out}/job.yaml")
            make(f"{out}/job.yaml")
            items, _ = self.items(out)
            self.assertEqual([path for path, e in items.items() if not e["intact"]], ["job.yaml"])
            self.assertIn("job.yaml", items["job.yaml"]["why"])

    def test_list_that_is_gone(self):
        """A model of a run has one: without it a change could not be seen."""
        out = self.copy()
        os.remove(f"{out}/model/finetuned.sha256")
        append(f"{out}/model/README.md", b"y\n")
        items, _ = self.items(out)
        self.assertIn("finetuned.sha256: is missing", items["model"]["why"])

    def test_damaged_outputs_are_made_again(self):
        """By the same start, and it says so."""
        out = self.copy()
        again = lambda: s.run("run", f"{out}/job.yaml", "--out", out, "--log.level", "warn")
        with open(f"{out}/report.json", "rb") as file:
            before = s.json.loads(file.read())["val"]
        self.write("o/artifacts/job-hf.tar.gz", "x")
        self.assertExit(again(), 0, "job-hf.tar.gz: its SHA-256 is not", "made again")
        self.intact(out, "intact: ")
        for text in ("garbage", "", "[]", "{}", '{"val": 5}'):
            self.write("o/report.json", text)
            self.assertExit(again(), 0, "report.json: damaged", "made again")
            self.assertEqual(s.json_read(f"{out}/report.json")["val"], before)
        os.remove(f"{out}/report.md")
        self.assertExit(again(), 0)
        self.intact(out, "intact: ")

    def test_lost_parts_are_made_again(self):
        """Whatever of a finished run is gone: the same start brings the folder back."""
        for name in ("events.jsonl", "job.yaml", "report.json", "report.md", "model", "artifacts", "shards", "checkpoints/latest", "checkpoints/best",
                     "model/config.json", "artifacts/job-hf.tar.gz", "checkpoints/step-00000004"):
            with self.subTest(name=name):
                out = self.copy()
                path = f"{out}/{name}"
                if os.path.isdir(path) and not os.path.islink(path):
                    shutil.rmtree(path)
                else:
                    os.remove(path)
                self.assertEqual(self.verify(out).rc, 0 if name == "shards" else 65)
                self.assertExit(s.run("run", f"{self.out}/job.yaml", "--out", out, "--log.level", "error"), 0)
                self.intact(out, "intact: ")

    def test_copied_step(self):
        """A whole checkpoint under another step's name."""
        out = self.copy()
        shutil.copytree(f"{out}/checkpoints/step-00000004", f"{out}/checkpoints/step-00000005")
        self.wrong(f"{out}/checkpoints/step-00000005", "holds step 4, which its name does not say")
        self.wrong(f"{out}/checkpoints/step-00000005/checkpoint.h5", "holds step 4, which its name does not say")
        items, _ = self.items(out)
        self.assertIn("holds step 4", items["checkpoints/step-00000005"]["why"])

    # ---- what is nothing of ours

    def test_odd_paths(self):
        os.symlink("nowhere", self.path("dangling"))
        os.symlink("loop", self.path("loop"))
        for name in ("dangling", "loop"):
            self.assertRefused(self.verify(self.path(name)), 65, name, "leads nowhere")
        for name in ("a.shard", "a.tar.gz", "a.safetensors", "a.bin"):
            os.mkfifo(self.path(name))
            self.assertRefused(self.verify(self.path(name)), 65, name)
        os.makedirs(self.path("empty"))
        self.assertRefused(self.verify(self.path("empty")), 65, "none of")

    def test_help(self):
        self.assertIn("out folder", s.run("help", "inspect").out)


if __name__ == "__main__":
    s.main()
