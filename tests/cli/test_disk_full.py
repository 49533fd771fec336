# SPDX-License-Identifier: Apache-2.0
"""Full disks, on small file systems of their own, and locks that fail: exit codes, messages, and that what was there stays."""
import contextlib
import os
import shutil
import signal
import subprocess
import unittest

import shim
import support as s

MIB = 1 << 20


def free(path):
    about = os.statvfs(path)
    return about.f_bavail * about.f_frsize


class Mounted(s.Case):
    """`self.disk`: a file system of `MIBS` MiB."""

    MIBS = 16

    def setUp(self):
        super().setUp()
        self.disk = self.path("disk")
        os.mkdir(self.disk)
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={self.MIBS}m", "tmpfs", self.disk], capture_output=True, text=True)
        if made.returncode != 0:
            s.skip(f"a small file system can't be mounted: {made.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", "-l", self.disk])
        self.out = os.path.join(self.disk, "o")
        s.task_make(self.path("data"))
        self.job = s.job_write(self.path("job.yaml"), self.path("data"), self.out, log__tensorboard=False, log__samples=False)

    def ballast(self, left=0, name="ballast"):
        """Takes all but `left` bytes."""
        with contextlib.suppress(OSError), open(os.path.join(self.disk, name), "wb", buffering=0) as file:
            for _ in range(max(0, free(self.disk) - left) // 4096):
                file.write(bytes(4096))

    def release(self, name="ballast"):
        os.unlink(os.path.join(self.disk, name))

    def whole(self):
        """The course and the weights of a run with room."""
        out = self.path("whole")
        self.train(self.job, "--out", out)
        return s.course(out), s.checkpoint_tensors(s.checkpoint(out))


class Before(Mounted):
    MIBS = 8

    def test_no_inode_left(self):
        """Room there is, and no name for a file more: the message says which of them lacks."""
        made = subprocess.run(["mount", "-o", "remount,nr_inodes=8", self.disk], capture_output=True, text=True)
        self.assertEqual(made.returncode, 0, made.stderr)
        with contextlib.suppress(OSError):
            for i in range(16):
                with open(os.path.join(self.disk, str(i)), "wb"):
                    pass
        self.assertEqual(os.statvfs(self.disk).f_favail, 0)
        for more in ((), ("--dry-run",)):
            self.assertExit(s.run("run", self.job, *more), 74, self.disk, "no inode is left" if not more else "and 0 inodes are left", "df -i")

    def test_few_inodes_left(self):
        """Told before the first step, not at the first save or export."""
        for n in (5, 12, 16, 20, 26, 33, 40, 50, 80):
            with self.subTest(n=n):
                made = subprocess.run(["mount", "-o", f"remount,nr_inodes={n}", self.disk], capture_output=True, text=True)
                self.assertEqual(made.returncode, 0, made.stderr)
                result = s.run("run", self.job, "--checkpoints.keep", 1)
                if n >= 80:
                    self.assertExit(result, 0)
                else:
                    self.assertExit(result, 74, self.disk, "inode", "df -i")
                    self.assertEqual(s.events(self.out, "step") if os.path.exists(f"{self.out}/events.jsonl") else [], [])
                    shutil.rmtree(self.out, ignore_errors=True)

    def inodes_taken(self, process):
        """All but those that are used between two saves; False if one is under way, which could end with what it has."""
        os.kill(process.pid, signal.SIGSTOP)
        try:
            self.assertTrue(s.wait_for(lambda: s.process_state(process.pid) == "T"))
            alone = sum(n.startswith(("step-", ".tmp-")) for n in os.listdir(f"{self.out}/checkpoints")) == 1
            now = os.statvfs(self.disk)
            if alone:
                subprocess.run(["mount", "-o", f"remount,nr_inodes={now.f_files - now.f_ffree}", self.disk], check=True)
            return alone
        finally:
            os.kill(process.pid, signal.SIGCONT)

    def test_no_inode_for_a_save(self):
        """They went while the run went on."""
        process = s.start("run", self.job, "--train.max_steps", 2000, "--checkpoints.every", 100, "--checkpoints.keep", 1, "--data.cache", self.path("cache"))
        self.assertTrue(s.wait_for(lambda: os.path.exists(f"{self.out}/checkpoints/.home"), process))  # written behind the first checkpoint
        self.assertTrue(s.wait_for(lambda: self.inodes_taken(process), process))
        self.assertExit(s.finish(process), 74, "checkpoint of step", "no inode")

    def test_read_only(self):
        made = subprocess.run(["mount", "-o", "remount,ro", self.disk], capture_output=True, text=True)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertExit(s.run("run", self.job), 74, "Read-only file system", "choose another folder")

    def test_too_small_for_the_run(self):
        """Refused before the first step, in the words of --dry-run: folder, needed, free, keys; more keep needs more."""
        for arguments in (("--checkpoints.keep", "3"), ("--checkpoints.dir", os.path.join(self.disk, "c"), "--out", self.path("o"))):
            refused = s.run("run", self.job, "--data.cache", self.path("cache"), *arguments)
            self.assertRefused(refused, 74, self.disk, "needs up to", "is free", "checkpoints.dir", "checkpoints.keep")
            out = self.path("o") if "--out" in arguments else self.out
            self.assertEqual(s.events(out, "step"), [])
            self.assertEqual(s.events(out)[-1]["event"], "stop")
            self.assertEqual(s.events(out)[-1]["exit"], 74)
            self.assertIn("needs up to", s.events(out)[-1]["message"])
            self.assertEqual(s.events(out, "start"), [], "nothing has begun")
        dry = s.run("run", self.job, "--data.cache", self.path("cache"), "--dry-run")
        self.assertExit(dry, 74, "needs up to")
        words = [line.split("error: ")[1].split(" is free")[0] for line in (refused.err + dry.err).split("\n") if "needs up to" in line]
        self.assertEqual(len(words), 2)
        self.assertExit(s.run("doctor", self.job), 74)

    def test_nothing_less_to_keep(self):
        """Where keep is 1 already it is no advice."""
        self.ballast(MIB)
        for verb in (("run",), ("run", "--dry-run"), ("doctor",), ("sweep", "--dry-run", "--sweep.seeds", "1,2")):
            for keep in (1, 2):
                result = s.run(verb[0], self.job, *verb[1:], "--checkpoints.keep", keep, "--data.cache", self.path("cache"))
                self.assertEqual(result.rc, 74, result)
                self.assertEqual("lower checkpoints.keep" in result.out + result.err, keep == 2, result)
                shutil.rmtree(self.out, ignore_errors=True)

    def test_what_is_kept_counts(self):
        """keep 1 fits where keep 3 does not, and the run ends."""
        arguments = ("--data.cache", self.path("cache"), "--checkpoints.keep", "1", "--export.to", "[]")
        self.train(self.job, *arguments)
        self.assertEqual(s.checkpoint_tensors(s.checkpoint(self.out))["classifier.out_proj.weight"].shape, (4, 64))


class While(Mounted):
    def full_in_training(self, every):
        """Others fill the disk while the run goes on: 74, needed and free, the checkpoint before is good; with room again it goes on."""
        course, weights = self.whole()
        log = self.path("log")
        slow = shim.environment(self.disk, "write", at=12, do="delay:40", count="all", log=log)  # events come slowly
        process = s.start("run", self.job, "--checkpoints.every", every, "--checkpoints.keep", 1, env=slow)
        self.assertTrue(s.wait_for(lambda: s.checkpoint_names(self.out), process))
        self.ballast(MIB)
        result = s.finish(process)
        self.release()
        self.assertExit(result, 74, "MiB needed", "MiB free", "No space left on device", self.out, "checkpoints.dir")
        before = s.checkpoint_names(self.out)
        self.assertTrue(before)
        self.assertEqual([n for n in os.listdir(os.path.join(self.out, "checkpoints")) if n.startswith(".tmp")], [])
        self.assertExit(s.run("inspect", "--verify", os.path.join(self.out, "checkpoints", before[-1])), 0)
        self.train(self.job)
        self.assertEqual(s.course(self.out), course)
        self.assertEqual(s.tensors_differ(s.checkpoint_tensors(s.checkpoint(self.out)), weights), [])

    def test_full_in_training(self):
        self.full_in_training(1)

    def test_full_for_events(self):
        """Not a byte is left: the line that can't be written ends the run with 74, and half of it is cut at the next start."""
        process = s.start("run", self.job, "--checkpoints.every", 1,
                          env=shim.environment(self.disk, "write", at=12, do="delay:40", count="all", log=self.path("log")))
        self.assertTrue(s.wait_for(lambda: s.checkpoint_names(self.out), process))
        self.ballast()
        self.assertExit(s.finish(process), 74, self.out)
        self.release()
        self.train(self.job)
        self.assertEqual(s.events(self.out)[-1]["event"], "end")

    def test_full_for_shards(self):
        """Token shards that don't fit: 74, nothing half-made, and the next start makes them."""
        cache = os.path.join(self.disk, "cache")
        os.mkdir(cache)
        arguments = ("--data.dir", self.path("data"), "--data.task", "emotion", "--model.base", "random:tiny", "--out", cache)
        for left in (0, 4096):
            self.ballast(left)
            self.assertRefused(s.run("prepare", *arguments), 74, cache, "No space left on device")
            self.assertEqual([n for n in os.listdir(cache) if not n.endswith(".shard")], [])
            self.release()
        self.assertExit(s.run("prepare", *arguments), 0)
        self.assertEqual(len(os.listdir(cache)), 3)

    def test_full_for_export(self):
        """Neither half a directory nor half an archive; the one before stays."""
        base, old = s.model_make(self.path("m"), list("abcd")), os.path.join(self.disk, "exported")
        other = s.model_make(self.path("m2"), list("abcd"), seed=8)
        self.assertExit(s.run("export", "--from", base, "--to", "hf", "--out", old), 0)
        before = s.safetensors_read(os.path.join(old, "model.safetensors"))
        names = sorted(os.listdir(self.disk))
        size = os.path.getsize(os.path.join(old, "model.safetensors"))
        for left in (0, 8192, size // 2, size + 4096):
            self.ballast(left)
            for kind in ("hf", "sagemaker"):
                out = old if kind == "hf" else os.path.join(self.disk, "archives")
                result = s.run("export", "--from", other, "--to", kind, "--out", out)
                self.assertRefused(result, 74, self.disk, "No space left on device")
            self.release()
            self.assertEqual(sorted(n for n in os.listdir(self.disk) if n != "archives"), names)
            self.assertEqual(os.listdir(os.path.join(self.disk, "archives")) if os.path.isdir(os.path.join(self.disk, "archives")) else [], [])
            self.assertEqual(s.tensors_differ(s.safetensors_read(os.path.join(old, "model.safetensors")), before), [])
        self.assertExit(s.run("export", "--from", other, "--to", "hf", "--out", old), 0)

    def test_full_for_the_end(self):
        """The run has trained and the disk is full for its model: 74, and the next start makes it, without a step more."""
        self.train(self.job, "--train.max_steps", 2, "--checkpoints.keep", 1)
        for name in ("model", "artifacts"):
            subprocess.run(["rm", "-r", os.path.join(self.out, name)], check=True)
        self.ballast(20000)
        arguments = (self.job, "--train.max_steps", 2, "--checkpoints.keep", 1)
        self.assertExit(s.run("run", *arguments), 74, os.path.join(self.out, "model"))
        self.release()
        self.train(*arguments)
        self.assertEqual(len(s.events(self.out, "step")), 2)
        self.assertTrue(os.path.exists(os.path.join(self.out, "model", "model.safetensors")))


class Locks(s.Case):
    def setUp(self):
        super().setUp()
        s.task_make(self.path("data"), rows=(8, 4, 4))
        self.job = s.job_write(self.path("job.yaml"), self.path("data"), self.path("o"), train__epochs=1, log__tensorboard=False)

    def through(self, error):
        """A run that is stopped, gone on with, inspected, exported, evaluated."""
        env = shim.environment(self.folder, "locks", at=1, do=f"fail:{error}", count="all", log=self.path("log"))
        out = self.path(f"o-{error}")
        run = lambda *arguments: self.assertExit(s.run(*arguments, env=env), 0)
        run("run", self.job, "--out", out, "--train.max_steps", 1)
        run("run", self.job, "--out", out, "--train.epochs", 2)
        run("inspect", "--verify", s.checkpoint(out))
        run("export", "--from", s.checkpoint(out), "--to", "sagemaker", "--out", self.path(f"x-{error}"))
        run("eval", "--model", os.path.join(out, "model"), "--data.dir", self.path("data"), "--data.task", "emotion")
        return s.course(out), s.checkpoint_tensors(s.checkpoint(out))

    def test_locks_that_fail_change_nothing(self):
        out = self.path("whole")
        self.train(self.job, "--out", out, "--train.epochs", 2)
        course, weights = s.course(out), s.checkpoint_tensors(s.checkpoint(out))
        for error in ("ENOLCK", "ENOSYS", "524"):
            again, loaded = self.through(error)
            self.assertEqual((again, s.tensors_differ(loaded, weights)), (course, []), error)
            self.assertTrue(shim.hits(self.path("log")), "no lock was taken at all: the test sees nothing")


if __name__ == "__main__":
    s.main()
