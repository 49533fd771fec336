# SPDX-License-Identifier: Apache-2.0
"""Checkpoints as h5py reads them, what is kept, links, and what `inspect --verify` says of a file with a flipped byte."""
import json
import os
import shutil
import subprocess

import support as s

ATTRIBUTES = {"step": 12, "cursor": 12, "epoch": 3, "seed": 42, "world": 1, "batch": 8, "parts": 4, "precision": "fp32", "steps_total": 12,
              "skips_in_a_row": 0, "format": 2, "evaluation_due": 0}


class CheckpointCase(s.Case):
    @classmethod
    def setUpClass(cls):
        cls.root = s.tempfile.mkdtemp(prefix="finetuned-test-")
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        cls.data, cls.out = s.task_make(os.path.join(cls.root, "d"), rows=(30, 9, 9)), os.path.join(cls.root, "o")
        # Sizes that are no multiple of a block of 32 rows or of 4 KiB.
        cls.base = s.model_make(os.path.join(cls.root, "m"), hidden=36, heads=3, ffn=75)
        cls.job = s.job_write(os.path.join(cls.root, "job.yaml"), cls.data, cls.out, model__base=cls.base, train__epochs=3, train__lr=1e-5)
        result = s.run("run", cls.job)
        if result.rc:
            raise AssertionError(str(result))
        cls.latest, cls.best = s.checkpoint(cls.out), s.checkpoint(cls.out, "best")

    def copy(self):
        path = self.path("step-00000012")
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self.latest, path)
        return path


class Layout(CheckpointCase):
    def test_whole_tensors_by_name(self):
        """The best step's tensors are those of the exported model, bit for bit."""
        exported = s.safetensors_read(f"{self.out}/model/model.safetensors")
        found = s.checkpoint_tensors(self.best)
        self.assertEqual(s.tensors_differ(found, exported), [])
        self.assertEqual({n: v.shape for n, v in found.items()}, s.model_shapes(36, 2, 75, found["roberta.embeddings.word_embeddings.weight"].shape[0], 130, 4))

    def test_moments(self):
        import h5py

        with h5py.File(f"{self.latest}/checkpoint.h5", "r") as file:
            self.assertEqual(sorted(file), ["model", "optimizer", "trainer"])
            self.assertEqual(sorted(file["optimizer"]), ["exp_avg", "exp_avg_sq"])
            for kind in ("exp_avg", "exp_avg_sq"):
                self.assertEqual(sorted(file["optimizer"][kind]), sorted(file["model"]))
                for name, value in file["optimizer"][kind].items():
                    self.assertEqual(value.shape, file["model"][name].shape)
                    self.assertTrue((value[...] >= 0).all() or kind == "exp_avg", name)
            self.assertGreater(float(abs(file["optimizer"]["exp_avg"]["classifier.out_proj.weight"][...]).max()), 0)

    def test_datasets_are_plain(self):
        import h5py

        with h5py.File(f"{self.latest}/checkpoint.h5", "r") as file:
            for group in (file["model"], file["optimizer/exp_avg"], file["optimizer/exp_avg_sq"]):
                for name, value in group.items():
                    self.assertEqual((value.dtype.str, value.chunks, value.compression), ("<f4", None, None), name)
                    self.assertIsNotNone(value.id.get_offset(), name)
                    self.assertEqual(value.id.get_storage_size(), value.size * 4)

    def test_attributes(self):
        found = s.checkpoint_attributes(self.latest)
        self.assertEqual({k: found.get(k) for k in ATTRIBUTES}, ATTRIBUTES)
        start, end = s.events(self.out, "start")[0], s.events(self.out, "end")[0]
        self.assertEqual((found["config_hash"], found["data_hash"]), (start["config_hash"], start["data"]["hash"]))
        self.assertEqual(found["best_step"], end["best"]["step"])
        self.assertAlmostEqual(found["best_metric"], end["best"]["official"], places=8)
        self.assertEqual(found["evaluations_without_gain"], 3 - end["best"]["step"] // 4)
        self.assertTrue(found["base_hash"])

    def test_manifest(self):
        manifest = s.json_read(f"{self.latest}/MANIFEST.json")
        self.assertEqual(manifest["size"], os.path.getsize(f"{self.latest}/checkpoint.h5"))
        self.assertEqual(sorted(os.listdir(self.latest)), ["MANIFEST.json", "checkpoint.h5"])
        self.assertTrue(manifest["run_id"])
        self.assertIn("step-00000008", json.dumps(manifest["parent"]))

    def test_h5dump(self):
        if not shutil.which("h5dump"):
            s.skip("needs h5dump")
        shown = subprocess.run(["h5dump", "-d", "/model/classifier.out_proj.bias", f"{self.latest}/checkpoint.h5"], capture_output=True, check=True)
        self.assertIn(b"( 4 )", shown.stdout)

    def test_two_ranks_write_the_same_tensors(self):
        out = self.path("two")
        self.train(self.job, "--out", out, ranks=2)
        for group in ("model", "optimizer"):
            self.assertEqual(s.tensors_differ(s.checkpoint_tensors(s.checkpoint(out), group), s.checkpoint_tensors(self.latest, group)), [])
        self.assertEqual(s.checkpoint_attributes(s.checkpoint(out))["world"], 2)
        self.assertExit(s.run("inspect", "--verify", s.checkpoint(out)), 0)


class Kept(CheckpointCase):
    def test_links(self):
        for name, step in (("latest", 12), ("best", s.events(self.out, "end")[0]["best"]["step"])):
            self.assertEqual(os.readlink(os.path.join(self.out, "checkpoints", name)), f"step-{step:08d}")

    def test_keep(self):
        """The newest `keep`, and the best beside them."""
        for keep in (1, 2):
            out = self.path(f"keep{keep}")
            self.train(self.job, "--out", out, "--checkpoints.every", 1, "--checkpoints.keep", keep)
            best = s.events(out, "end")[0]["best"]["step"]
            self.assertEqual(best, 4, "the test needs a best one that is old")
            wanted = {best, *range(13 - keep, 13)}
            self.assertEqual(s.checkpoint_names(out), [f"step-{n:08d}" for n in sorted(wanted)])
            self.assertEqual(sorted(os.listdir(f"{out}/checkpoints")), sorted([f"step-{n:08d}" for n in wanted] + [".home", "best", "latest"]))
            self.assertEqual([e["step"] for e in s.events(out, "checkpoint")], list(range(1, 13)))

    def test_every_zero(self):
        out = self.path("o")
        self.train(self.job, "--out", out, "--checkpoints.every", 0, "--checkpoints.keep", 9)
        self.assertEqual([e["step"] for e in s.events(out, "checkpoint")], [4, 8, 12])

    def test_another_folder(self):
        out, folder = self.path("o"), self.path("elsewhere")
        self.train(self.job, "--out", out, "--checkpoints.dir", folder)
        self.assertFalse(os.path.exists(f"{out}/checkpoints"))
        self.assertTrue(os.path.exists(f"{folder}/latest/checkpoint.h5"))
        result = s.run("predict", "--model", f"{folder}/latest", "--job", f"{out}/job.yaml", "happy")
        self.assertExit(result, 0)
        self.assertExit(s.run("predict", "--model", f"{folder}/latest", "happy"), 65, "job.yaml", "--job")


class Verify(CheckpointCase):
    def flip(self, path, at, bit=1):
        with open(path, "r+b") as file:
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ bit]))

    def verify(self, path):
        return s.run("inspect", "--verify", path)

    def test_intact(self):
        for path in (self.latest, self.best, f"{self.latest}/checkpoint.h5", self.copy()):
            result = self.verify(path)
            self.assertExit(result, 0)
            self.assertIn("intact", result.out)

    def test_flipped_byte_of_a_tensor(self):
        """Every kind of tensor, first and last byte: the message names the dataset."""
        import h5py

        path = self.copy()
        with h5py.File(f"{path}/checkpoint.h5", "r") as file:
            places = {}
            for group in ("model", "optimizer/exp_avg", "optimizer/exp_avg_sq"):
                for name, value in file[group].items():
                    places[f"/{group}/{name}"] = (value.id.get_offset(), value.size * 4)
        names = sorted(places)
        for name in names[::7] + [n for n in names if "word_embeddings" in n]:
            for at in (0, places[name][1] - 1):
                with self.subTest(name=name, at=at):
                    self.flip(f"{path}/checkpoint.h5", places[name][0] + at)
                    self.assertRefused(self.verify(path), 65, name)
                    self.flip(f"{path}/checkpoint.h5", places[name][0] + at)
        self.assertExit(self.verify(path), 0)

    def test_every_byte_is_covered(self):
        """Bytes all over the file, HDF5's own and gaps among them."""
        path = self.copy()
        size = os.path.getsize(f"{path}/checkpoint.h5")
        for at in sorted({0, 8, 95, 96, 500, 3000, size - 1, *range(4096 * 3 + 17, size, size // 40)}):
            with self.subTest(at=at):
                self.flip(f"{path}/checkpoint.h5", at, 0x40)
                self.assertRefused(self.verify(path), 65, "checkpoint.h5")
                self.flip(f"{path}/checkpoint.h5", at, 0x40)
        self.assertExit(self.verify(path), 0)

    def test_flipped_byte_of_the_manifest(self):
        path = self.copy()
        size = os.path.getsize(f"{path}/MANIFEST.json")
        for at in range(1, size, size // 30):
            with self.subTest(at=at):
                self.flip(f"{path}/MANIFEST.json", at)
                self.assertRefused(self.verify(path), 65, path)
                self.flip(f"{path}/MANIFEST.json", at)

    def test_lengths(self):
        for change in (-1, -5000, 1):
            path = self.copy()
            os.truncate(f"{path}/checkpoint.h5", os.path.getsize(f"{path}/checkpoint.h5") + change)
            self.assertRefused(self.verify(path), 65, "checkpoint.h5")
        path = self.copy()
        os.remove(f"{path}/checkpoint.h5")
        self.assertRefused(self.verify(path), 65, "checkpoint.h5")
        path = self.copy()
        os.remove(f"{path}/MANIFEST.json")
        self.assertRefused(self.verify(path), 65, "MANIFEST.json")

    def test_a_copy_may_have_any_name(self):
        shutil.copytree(self.latest, self.path("backup"))
        self.assertExit(self.verify(self.path("backup")), 0)

    def test_newer_format(self):
        """A format newer than ours: 65, and it says so."""
        path = self.copy()
        manifest = s.json_read(f"{path}/MANIFEST.json")
        with open(f"{path}/MANIFEST.json", encoding="utf-8") as file:
            text = file.read()
        with open(f"{path}/MANIFEST.json", "w", encoding="utf-8") as file:
            file.write(text.replace(f'"format": {manifest["format"]}', '"format": 99', 1))
        self.assertRefused(self.verify(path), 65, path)

    def test_describe(self):
        result = s.run("inspect", self.latest)
        self.assertExit(result, 0)
        for word in ("12", "config_hash", "roberta.encoder.layer.0.attention.self.query.weight"):
            self.assertIn(word, result.out)
        answer, = s.run("inspect", "--json", self.latest).lines()
        self.assertEqual(answer["step"] if "step" in answer else answer["trainer"]["step"], 12)


class Models(CheckpointCase):
    def test_eval_of_every_checkpoint(self):
        """eval on a checkpoint gives what the run found at that step."""
        for event in [e for e in s.events(self.out, "eval") if e["split"] == "val"]:
            path = s.checkpoint(self.out, event["step"])
            result = s.run("eval", "--model", path, "--data.dir", self.data, "--data.task", "emotion", "--split", "val", "--json")
            self.assertExit(result, 0)
            answer = result.lines()[0]
            for key in ("confusion", "accuracy", "macro_f1"):
                self.assertEqual(answer[key], event[key])
            self.assertAlmostEqual(answer["loss"], event["loss"], places=6)

    def test_export_of_any_checkpoint(self):
        out = self.path("e")
        self.assertExit(s.run("export", "--from", self.latest, "--to", "hf", "--out", out), 0)
        self.assertEqual(s.tensors_differ(s.safetensors_read(f"{out}/model.safetensors"), s.checkpoint_tensors(self.latest)), [])

    def test_a_broken_checkpoint_is_no_model(self):
        shutil.copytree(self.out, self.path("o"), symlinks=True)
        path = s.checkpoint(self.path("o"))
        with open(f"{path}/checkpoint.h5", "r+b") as file:
            file.seek(os.path.getsize(f"{path}/checkpoint.h5") // 4)
            file.write(b"\xff\xff\xff\xff")
        for arguments in (["predict", "--model", path, "x"], ["export", "--from", path, "--to", "hf", "--out", self.path("e")]):
            self.assertRefused(s.run(*arguments), 65, "checkpoint.h5")


if __name__ == "__main__":
    s.main()
