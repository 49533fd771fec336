# SPDX-License-Identifier: Apache-2.0
"""Whose folder it is: ranks that see different ones, many starts at once, owners that are gone, formats and kinds that don't fit."""
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time

import resume_support as r
import support as s


class Seen(r.Runs):
    """Rank 1 sees another directory than rank 0."""

    def world(self, job, wrapper, cwd=None):
        """Two ranks, the second one started by `wrapper`, a script that ends in exec "$@"."""
        script = self.write("wrapper.sh", "#!/bin/sh\n" + wrapper + '\nexec "$@"\n')
        os.chmod(script, 0o755)
        program = [s.BINARY, "run", job]
        line = [*s.mpirun(1, "--bind-to", "none"), *program, ":", "-np", "1", script, *program]
        process = subprocess.Popen(line, env=s.environment(**s.MPI_ENVIRONMENT), cwd=cwd or self.folder, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        self.addCleanup(lambda: process.poll() is None and r.kill_all(process))
        return s.finish(process)

    def check_refused(self, result):
        self.assertExit(result, 74, "rank 1", "checkpoints.dir", "share")
        self.assertEqual(result.err.count("finetuned:"), 1, f"one clear line: {result}")
        self.assertEqual(r.left_over(self.out), [])

    def test_another_working_directory(self):
        """A relative `out` below two working directories."""
        job = self.job()
        with open(job, encoding="utf-8") as file:
            text = file.read()
        self.write("job.yaml", text.replace(f"out: {self.out}\n", "out: o\n"))
        os.makedirs(self.path("elsewhere"))
        self.check_refused(self.world(job, f"cd '{self.path('elsewhere')}'"))
        self.assertEqual(os.listdir(self.path("elsewhere")), [])
        self.assertFalse(os.path.exists(f"{self.out}/events.jsonl"))

    def test_another_file_system(self):
        """The same path, but empty on rank 1; then with older checkpoints than rank 0's."""
        if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
            s.skip("needs the right to make a mount namespace")
        job = self.job()
        unbroken = self.unbroken(job)
        self.cut(unbroken, 7)
        before = r.tree(self.out)
        hide = f"mount -t tmpfs none '{self.out}/checkpoints'"
        for fill in ("true", f"cp -r '{unbroken}/checkpoints/step-00000005' '{self.out}/checkpoints'"):
            self.check_refused(self.world(job, f"unshare -m sh -c '{hide.replace(chr(39), '')} && {fill.replace(chr(39), '')} && exec \"$@\"' sh \"$@\"; exit $?"))
            self.assertEqual(r.tree(self.out), before)
        self.train(job, ranks=2)
        self.assertSameEnd(unbroken)


class Many(r.Runs):
    """One job started many times at once."""

    def winner_of(self, starts):
        """Waits until all but one have been refused, by 75 naming host and pid of that one."""
        deadline = time.monotonic() + s.PATIENCE
        while sum(p.poll() is None for p in starts) > 1 and time.monotonic() < deadline:
            time.sleep(0.02)
        running = [p for p in starts if p.poll() is None]
        self.assertEqual(len(running), 1, [p.returncode for p in starts])
        winner = running[0]
        owner = s.json_read(f"{self.out}/.owner")
        self.assertIn(owner["pid"], r.session(winner.pid))
        for process in starts:
            if process is not winner:
                self.assertExit(s.finish(process), 75, f"in use by pid {owner['pid']} on host {socket.gethostname()}")
        return winner

    def check(self, stale):
        job = self.job(train__epochs=100000, checkpoints__every=0, checkpoints__keep=1)
        if stale:
            process = self.begin(job)
            self.assertTrue(s.wait_for(s.step_reached(self.out, 3), process))
            r.kill_all(process)
        starts = [self.begin(job, ranks=2 if i == 3 else 0) for i in range(8)]
        winner = self.winner_of(starts)
        self.assertTrue(s.wait_for(s.step_reached(self.out, 3), winner))
        winner.send_signal(signal.SIGUSR1)
        self.assertExit(s.finish(winner), 75)
        self.assertEqual(len(s.events(self.out, "start")), 2 if stale else 1)
        self.assertEqual([n for n in os.listdir(self.out) if n.startswith(".owner")], [])

    def test_fresh(self):
        self.check(False)

    def test_over_a_dead_one(self):
        self.check(True)

    def test_run_and_sweep(self):
        """A run is refused in a sweep's folder and the other way round, and nothing has changed."""
        job = self.job()
        self.train(job, "--train.max_steps", 2)
        before = r.tree(self.out)
        self.assertRefused(s.run("sweep", job, "--out", self.out, "--sweep.seeds", "1,2"), 64, "run's folder", self.out)
        self.assertRefused(s.run("sweep", job, "--out", self.out, "--sweep.seeds", "1,2", "--dry-run"), 64, "run's folder")
        self.assertEqual(r.tree(self.out), before)
        sweep = self.path("sweep")
        self.assertExit(s.run("sweep", job, "--out", sweep, "--sweep.seeds", "1,2", "--train.max_steps", 1), 0)
        before = r.tree(sweep)
        for ranks in (0, 2):
            self.assertExit(s.run("run", job, "--out", sweep, ranks=ranks), 64, "sweep's folder", sweep)
        self.assertEqual(r.tree(sweep), before)


class Links(r.Runs):
    """What `best` and `latest` should be is known from the checkpoints: whatever stands there, the next start mends it."""

    def test_broken(self):
        job = self.job()
        unbroken = self.unbroken(job)
        rows = {"nowhere": lambda p: os.symlink("step-00000099", p), "a loop": lambda p: os.symlink(os.path.basename(p), p), "a folder": os.mkdir,
                "a pipe": os.mkfifo, "nothing": lambda p: None}
        for kind, make in rows.items():
            with self.subTest(kind=kind):
                self.cut(unbroken, 12)
                for name in ("best", "latest"):
                    path = f"{self.out}/checkpoints/{name}"
                    if os.path.lexists(path):
                        os.remove(path)
                    make(path)
                result = self.train(job, "--log.level", "warn")
                self.assertIn(f"{self.out}/checkpoints/latest", result.err)
                self.assertSameEnd(unbroken)
                self.assertEqual(os.readlink(f"{self.out}/checkpoints/best"), os.readlink(f"{unbroken}/checkpoints/best"))
                self.assertExit(s.run("inspect", "--verify", self.out), 0)


class Gone(r.Runs):
    """Owners that are gone, or not."""

    def setUp(self):
        super().setUp()
        self.yaml = self.job(train__epochs=1)
        os.makedirs(self.out)

    def owner(self, **other):
        with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
            boot = file.read().strip()
        record = {"host": socket.gethostname(), "boot_id": boot, "pid_namespace": os.readlink("/proc/self/ns/pid"), "pid": os.getpid(), "start_time": 1,
                  "started": "2025-01-31T12:00:00Z", "token": "0123456789abcdef0123456789abcdef", "heartbeat": "0" * 16, **other}
        with open(f"{self.out}/.owner", "w", encoding="utf-8") as file:
            file.write(json.dumps(record))

    def test_pid_that_is_another_process_now(self):
        self.owner()
        result = self.train(self.yaml)
        self.assertIn(f"pid {os.getpid()}", result.err)
        self.assertIn("taken over", result.err)

    def test_host_that_was_restarted(self):
        self.owner(boot_id="an earlier one")
        self.assertIn("taken over", self.train(self.yaml).err)

    def test_garbage(self):
        self.write("o/.owner", '{"host": "h')
        self.assertIn(".owner", self.train(self.yaml).err)

    def test_another_host(self):
        """Silent for 30 s: taken over. With a heartbeat: refused as soon as it beats, naming host and pid."""
        self.owner(host="elsewhere", boot_id="another", pid=4321)
        begun = time.monotonic()
        silent = self.begin(self.yaml)
        other, mine = self.path("beating"), self.out
        shutil.copytree(self.out, other)
        self.out = other
        stop = threading.Event()

        def beat():
            for count in range(1, 1000):
                self.owner(host="elsewhere", boot_id="another", pid=4321, heartbeat=f"{count:016x}")
                if stop.wait(1):
                    break

        thread = threading.Thread(target=beat)
        thread.start()
        try:
            self.assertRefused(s.run("run", self.yaml, "--out", other, "--log.level", "error"), 75, "pid 4321 on host elsewhere")
        finally:
            stop.set()
            thread.join()
        self.assertLess(time.monotonic() - begun, 25)
        self.out = mine
        result = s.finish(silent)
        self.assertExit(result, 0, "elsewhere", "taken over")
        self.assertGreaterEqual(time.monotonic() - begun, 30)

    def test_no_file(self):
        """What no run can have left there is not replaced: 74, at once, with what to do."""
        path = f"{self.out}/.owner"
        rows = {"leads nowhere": lambda: os.symlink("nowhere", path), "in a circle": lambda: os.symlink(".owner", path), "a folder": lambda: os.mkdir(path),
                "a link to what is no regular file": lambda: os.symlink("/dev/zero", path), "not a regular file": lambda: os.mkfifo(path),
                "larger than": lambda: self.write("o/.owner", b"x" * 70000)}
        for words, make in rows.items():
            make()
            for more in ((), ("--dry-run",)):
                with self.subTest(words=words, more=more):
                    self.assertExit(s.run("run", self.yaml, *more, timeout=60), 74, path, words, "remove it if no run uses the folder")
            self.assertEqual(os.listdir(self.out), [".owner"])
            os.rmdir(path) if os.path.isdir(path) else os.remove(path)

    def test_dead_starts_files(self):
        """What starts left that died while they took it: gone with the next start, and named."""
        names = [".owner.tmp-00000000-1-1-" + "a" * 32, ".owner.next-" + "b" * 32]
        self.owner(token="c" * 32)
        for name in names:
            shutil.copy(f"{self.out}/.owner", f"{self.out}/{name}")
        os.utime(f"{self.out}/{names[0]}", (0, 0))  # of another host, as its name says: its age decides
        mine = [".owner.tmp-" + "a" * 32, ".owner.next-mine", ".owner.tmp-1"]  # no name that we give
        for name in mine:
            self.write(f"o/{name}", b"")
        result = self.train(self.yaml, "--log.level", "info")
        for name in names:
            self.assertIn(f"removed {self.out}/{name}", result.err)
        self.assertEqual(sorted(n for n in os.listdir(self.out) if n.startswith(".owner")), sorted(mine))


class Steps(r.Runs):
    def test_a_name_of_another_step(self):
        """By its path as by auto and verify: a checkpoint is of the step that its name says."""
        job = self.job()
        self.train(job)
        steps = sorted(n for n in os.listdir(f"{self.out}/checkpoints") if n.startswith("step-"))
        other = f"{self.out}/checkpoints/step-{int(steps[-1][5:]) - 1:08d}"
        shutil.rmtree(other, ignore_errors=True)
        shutil.copytree(f"{self.out}/checkpoints/{steps[-1]}", other)
        before = r.tree(self.out)
        result = s.run("run", job, "--checkpoints.resume", other)
        self.assertRefused(result, 65, other, f"holds step {int(steps[-1][5:])}, which its name does not say")
        self.assertEqual(r.tree(self.out), before)

    def test_more_than_keep(self):
        """A kill between a save and what it removes last: the next start removes it, also of a run that is done."""
        job = self.job()
        self.train(job, "--checkpoints.every", 1, "--checkpoints.keep", 9)
        names = lambda: sorted(n for n in os.listdir(f"{self.out}/checkpoints") if n.startswith("step-"))
        before, best = names(), os.readlink(f"{self.out}/checkpoints/best")
        self.assertGreater(len(before), 3)
        s.run("run", job, "--checkpoints.keep", 2, "--dry-run")
        self.assertEqual(names(), before)
        result = self.train(job, "--checkpoints.keep", 2, "--log.level", "info")
        self.assertEqual(names(), sorted({best, *before[-2:]}))
        self.assertIn("a checkpoint beyond checkpoints.keep", result.err)
        self.assertExit(s.run("inspect", "--verify", self.out), 0)


class Formats(r.Runs):
    def edit(self, path, *pairs):
        tool = os.path.join(s.BUILD, "tests", "checkpoint_edit")
        if not os.path.exists(tool):
            s.skip("tests/checkpoint_edit is not built")
        subprocess.run([tool, path, *pairs], check=True)

    def test_newer_format(self):
        """Not stepped over: 65, naming it; an older one goes by its path."""
        job = self.job()
        unbroken = self.unbroken(job)
        self.cut(unbroken, 7)
        self.edit(s.checkpoint(self.out, 7), "format=9")
        before = r.tree(self.out)
        result = s.run("run", job)
        self.assertRefused(result, 65, "step-00000007", "format 9 is newer", "checkpoints.resume")
        self.assertEqual(r.tree(self.out), before)
        self.assertRefused(s.run("inspect", "--verify", s.checkpoint(self.out, 7)), 65, "newer")
        self.train(job, "--checkpoints.resume", s.checkpoint(self.out, 6))
        self.assertSameEnd(unbroken)


class Sweep(r.Runs):
    def test_a_cell_that_is_damaged(self):
        """The others are made, it is named, and the end is 65; mended, the same command goes on."""
        job = self.job(sweep__seeds=[1, 2, 3], checkpoints__keep=1)
        for ranks in (0, 2):
            shutil.rmtree(self.out, ignore_errors=True)
            stopped = s.run("sweep", job, "--train.max_time", 1e-6, ranks=ranks)
            self.assertExit(stopped, 75)
            cell = os.path.join(self.out, "emotion", "lr-0.001-seed-1")
            file = os.path.join(s.checkpoint(cell), "checkpoint.h5")
            os.truncate(file, os.path.getsize(file) - 1)
            for _ in range(2):  # it is asked again each time
                result = s.run("sweep", job, ranks=ranks)
                self.assertExit(result, 65, "1 of 3 runs can't go on: emotion/lr-0.001-seed-1", "checkpoint.h5")
                cells = s.json_read(f"{self.out}/sweep.json")["cells"]
                self.assertEqual([c["state"] for c in cells], ["waiting", "done", "done"])
                self.assertIn("checkpoint.h5", cells[0]["trouble"])
                self.assertNotIn("trouble", cells[1])
            shutil.rmtree(os.path.join(cell, "checkpoints"))
            self.assertExit(s.run("sweep", job, ranks=ranks), 0)
            self.assertEqual([c["state"] for c in s.json_read(f"{self.out}/sweep.json")["cells"]], ["done"] * 3)


if __name__ == "__main__":
    s.main()
