# SPDX-License-Identifier: Apache-2.0
"""Damaged checkpoints, from the outside: the run goes on from the one before and ends as if nothing had happened; where
none is left it says so and does not start anew; whoever is given such a path refuses it, at once."""
import os
import shutil
import socket
import subprocess

import support as s

OLDER, NEWEST = "step-00000009", "step-00000012"


def flip(path, at):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 16]))


def link(path, target):
    shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.remove(path)
    os.symlink(target, path)


def pipe(path):
    os.remove(path)
    os.mkfifo(path)


def listen(path):
    os.remove(path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)


# what it does to the newest checkpoint's folder, and words of why
DAMAGE = {
    "data": (lambda p: flip(f"{p}/checkpoint.h5", os.path.getsize(f"{p}/checkpoint.h5") // 2), "damaged: bytes"),
    "superblock": (lambda p: flip(f"{p}/checkpoint.h5", 9), "HDF5's own"),
    "cut": (lambda p: os.truncate(f"{p}/checkpoint.h5", 100000), "cut off"),
    "empty": (lambda p: os.truncate(f"{p}/checkpoint.h5", 0), "0 bytes"),
    "other step": (lambda p: shutil.copyfile(f"{p}/../{OLDER}/checkpoint.h5", f"{p}/checkpoint.h5"), "checkpoint.h5"),
    "both of another step": (lambda p: [shutil.copyfile(f"{p}/../{OLDER}/{n}", f"{p}/{n}") for n in ("checkpoint.h5", "MANIFEST.json")], "holds step 9"),
    "no manifest": (lambda p: os.remove(f"{p}/MANIFEST.json"), "MANIFEST.json"),
    "manifest": (lambda p: flip(f"{p}/MANIFEST.json", 500), "MANIFEST.json"),
    "no file": (lambda p: os.remove(f"{p}/checkpoint.h5"), "checkpoint.h5"),
    "nothing": (lambda p: (shutil.rmtree(p), os.mkdir(p)), "MANIFEST.json"),
    "dangling": (lambda p: link(p, "nowhere"), NEWEST),
    "loop": (lambda p: link(p, NEWEST), NEWEST),
    "pipe": (lambda p: pipe(f"{p}/MANIFEST.json"), "not a regular file"),
    "socket": (lambda p: listen(f"{p}/checkpoint.h5"), "checkpoint.h5"),
    "zeros without end": (lambda p: link(f"{p}/MANIFEST.json", "/dev/zero"), "not a regular file"),
    "folder": (lambda p: (os.remove(f"{p}/checkpoint.h5"), os.mkdir(f"{p}/checkpoint.h5")), "checkpoint.h5"),
}
RESUMED = ("data", "both of another step", "nothing", "loop", "pipe")  # those that a whole run is made with; the rest of them looks only


class Broken(s.Case):
    @classmethod
    def setUpClass(cls):
        cls.root = s.tempfile.mkdtemp(prefix="finetuned-test-")
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        cls.data = s.task_make(os.path.join(cls.root, "d"))
        cls.base = s.model_make(os.path.join(cls.root, "m"))
        cls.whole = os.path.join(cls.root, "whole")
        result = s.run("run", *cls.keys(cls.whole))
        if result.rc:
            raise AssertionError(str(result))

    @classmethod
    def keys(cls, out):
        """12 steps; a checkpoint every 3, all kept."""
        return ("--model.base", cls.base, "--data.dir", cls.data, "--data.task", "emotion", "--data.max_length", 40, "--out", out, "--train.epochs", 4,
                "--train.batch", 8, "--checkpoints.every", 3, "--checkpoints.keep", 9, "--threads", 1, "--log.level", "warn", "--log.every", 1)

    def copy(self):
        out = self.path("o")
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(self.whole, out, symlinks=True)
        return out, os.path.join(out, "checkpoints", NEWEST)

    def test_there_is_something_to_damage(self):
        self.assertEqual(s.checkpoint_names(self.whole), ["step-00000003", "step-00000006", OLDER, NEWEST])

    def test_one_before(self):
        for name in RESUMED:
            with self.subTest(damage=name):
                out, newest = self.copy()
                breaks, why = DAMAGE[name]
                breaks(newest)
                result = self.train(*self.keys(out), timeout=60)
                self.assertIn(f"skipped {newest}", result.err)
                self.assertIn(why, result.err)
                resume, = [e for e in s.events(out, "resume") if e["step"] == 9]
                self.assertEqual([e["path"] for e in resume["skipped"]], [newest])
                self.assertIn(why, resume["skipped"][0]["why"])
                self.assertEqual(s.course(out, ("loss", "lr", "grad_norm")), s.course(self.whole, ("loss", "lr", "grad_norm")))
                for group in ("model", "optimizer"):
                    self.assertEqual(s.tensors_differ(s.checkpoint_tensors(s.checkpoint(out), group), s.checkpoint_tensors(s.checkpoint(self.whole), group)), [])
                self.assertEqual(os.readlink(s.checkpoint(out)), NEWEST)

    def test_each_damage_is_seen(self):
        """By a start that only looks: nothing is written, the step before is named."""
        for name, (breaks, why) in DAMAGE.items():
            if name in RESUMED:
                continue
            with self.subTest(damage=name):
                out, newest = self.copy()
                breaks(newest)
                result = s.run("run", *self.keys(out), "--dry-run", "--json", timeout=60)
                self.assertExit(result, 0)
                answer, = result.lines()
                self.assertEqual((answer["start"], answer["step"]), ("resume", 9))
                self.assertIn(why, result.err)

    def test_who_is_given_the_path(self):
        data = ("--data.dir", self.data, "--data.task", "emotion")
        for name in ("data", "cut", "no manifest", "manifest", "loop", "pipe", "folder", "socket"):
            out, newest = self.copy()
            breaks, _ = DAMAGE[name]
            breaks(newest)
            for verb in (("eval", "--model", newest, *data), ("predict", "--model", newest, "a text"), ("inspect", "--verify", newest),
                         ("export", "--from", newest, "--to", "hf", "--out", self.path("e")), ("run", *self.keys(out), "--checkpoints.resume", newest)):
                with self.subTest(damage=name, verb=verb[0]):
                    result = s.run(*verb, timeout=60)
                    self.assertIn(result.rc, (65, 74) if name == "socket" and verb[0] != "run" else (65,), result)
                    self.assertRefused(result, result.rc, NEWEST)
            self.assertFalse(os.path.exists(self.path("e")))
            self.assertFalse([n for n in os.listdir(os.path.join(out, "checkpoints")) if "aside" in n], "a refusal changes nothing")

    def test_none_left(self):
        out, _ = self.copy()
        for name in s.checkpoint_names(out):
            flip(os.path.join(out, "checkpoints", name, "checkpoint.h5"), 5000)
        before = sorted(os.listdir(os.path.join(out, "checkpoints")))
        result = s.run("run", *self.keys(out))
        self.assertExit(result, 65, "none of 4 can be used", "checkpoints.resume never", NEWEST, OLDER)
        self.assertEqual(sorted(os.listdir(os.path.join(out, "checkpoints"))), before)
        self.assertEqual(len(s.events(out, "start")), 1)

    def test_folder_that_is_not_mounted(self):
        out, _ = self.copy()
        shutil.rmtree(os.path.join(out, "checkpoints"))
        os.symlink("/nowhere/at/all", os.path.join(out, "checkpoints"))
        result = s.run("run", *self.keys(out))
        self.assertIn(result.rc, (65, 74), result)
        self.assertIn(os.path.join(out, "checkpoints"), result.err)
        self.assertEqual(len(s.events(out, "start")), 1)

    def test_not_readable(self):
        """As a user who may not read them; root may read everything."""
        if os.geteuid() or not shutil.which("setpriv"):
            s.skip("setpriv, run by root, is needed to become somebody else")
        out, newest = self.copy()
        nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        subprocess.run(["chown", "-R", "65534:65534", self.folder], check=True)
        os.chmod(self.root, 0o755)
        for folder, _, names in os.walk(self.root):
            os.chmod(folder, 0o755)
            for name in names:
                os.chmod(os.path.join(folder, name), 0o644)
        for path in (os.path.join(newest, "checkpoint.h5"), os.path.join(newest, "MANIFEST.json"), newest):
            with self.subTest(path=path):
                mode = os.stat(path).st_mode & 0o777
                os.chmod(path, 0)
                command = [*nobody, s.BINARY, *map(str, ("run", *self.keys(out), "--dry-run", "--json"))]
                result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
                verified = subprocess.run([*nobody, s.BINARY, "inspect", "--verify", newest], capture_output=True, text=True, timeout=60, check=False)
                os.chmod(path, mode)
                if result.returncode == 126 or "failed to execute" in result.stderr:
                    s.skip("the program lies where others may not go")
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn('"step": 9', result.stdout.replace('":', '": ').replace(":  ", ": "))
                self.assertIn("Permission denied", result.stderr)
                self.assertIn(verified.returncode, (65, 74), verified)

    def test_names_that_are_not_ours(self):
        out, newest = self.copy()
        for name in ("step-0000013", "step-000000013", "step-00000013.aside-1", "Step-00000013", "step-00000013~"):
            shutil.copytree(newest, os.path.join(out, "checkpoints", name))
        answer, = s.run("run", *self.keys(out), "--dry-run", "--json").lines()
        self.assertEqual((answer["start"], answer["step"]), ("complete", 12))


if __name__ == "__main__":
    s.main()
