# SPDX-License-Identifier: Apache-2.0
"""What bench/compare measures a program with: the same processors, threads and waiting for both sides, seconds, memory, and who else was at work."""
import contextlib
import json
import os
import subprocess
import tempfile
import time

TICKS = os.sysconf("SC_CLK_TCK")


class Failed(Exception):
    """One line for the user."""


def positive(word):
    """argparse's type: a whole number from 1 on."""
    if not word.isdecimal() or int(word) < 1:
        raise ValueError(word)
    return int(word)


positive.__name__ = "whole number above 0"  # as argparse names it


def busy_seconds():
    """Of all processors since the start: (at work, taken by other machines of this host)."""
    with open("/proc/stat", encoding="utf-8") as file:
        user, nice, system, _, _, irq, soft, steal = map(int, file.readline().split()[1:9])
    return (user + nice + system + irq + soft) / TICKS, steal / TICKS


def environment(threads, work, wait):
    """Both sides': so many threads, nothing fetched, compiled code kept between rounds."""
    waiting = {"OMP_WAIT_POLICY": "passive"} if wait == "passive" else {}
    return {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads), **waiting, "HF_HUB_OFFLINE": "1",
            "TORCHINDUCTOR_CACHE_DIR": os.path.join(work, "inductor")}


class Process:
    """A running program: on the processors given, its standard error kept for the message of a failure."""

    def __init__(self, command, cpus, env, **streams):
        self.command, self.cpus = command, cpus
        self.err = tempfile.TemporaryFile()
        self.at_work, self.stolen = busy_seconds()
        self.since = time.time()
        self.process = subprocess.Popen(command, env={**env, "BENCH_SINCE": repr(self.since)}, stderr=self.err,
                                        preexec_fn=lambda: os.sched_setaffinity(0, cpus), **streams)

    def end(self, killed=False):
        """Waits for it: wall seconds, the most memory that was resident, and shares of the processors that others had meanwhile."""
        try:
            _, status, usage = os.wait4(self.process.pid, 0)
        except BaseException:
            self.process.kill()
            raise
        wall, (at_work, stolen) = time.time() - self.since, busy_seconds()
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.err.seek(0)
        message = self.err.read().decode("utf-8", "replace").strip()
        self.err.close()
        if self.process.returncode and not killed:
            raise Failed(f"{' '.join(self.command)}: exit code {self.process.returncode}: {message.split(chr(10))[-1]}")
        all_of_it = wall * len(self.cpus)
        others = at_work - self.at_work - usage.ru_utime - usage.ru_stime
        return {"wall_s": wall, "rss_bytes": 1024 * usage.ru_maxrss, "others": max(0, others / all_of_it), "stolen": (stolen - self.stolen) / all_of_it}


def objects(command, cpus, env):
    """Runs it to its end; the JSON objects that it printed a line each, made one, with what was measured."""
    with tempfile.TemporaryFile() as out:
        ended = Process(command, cpus, env, stdout=out, stdin=subprocess.DEVNULL).end()
        out.seek(0)
        facts = {}
        for line in out.read().decode().split("\n"):
            with contextlib.suppress(json.JSONDecodeError):
                facts.update(json.loads(line) if line.startswith("{") else {})
    return {**ended, **facts}


def until_event(command, cpus, env, path, name, seconds=60):
    """Starts it, waits for that event in its events.jsonl, and ends it; seconds from its start to the event, by the event's own time."""
    process = Process(command, cpus, env, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    found, deadline = None, time.time() + seconds
    while found is None and process.process.poll() is None and time.time() < deadline:
        time.sleep(0.002)
        with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8") as file:
            events = [json.loads(line) for line in file if line.endswith("\n")]
            found = next((e for e in events if e["event"] == name), None)
    if found is None:
        process.process.kill()
        process.end()
        raise Failed(f"{' '.join(command)}: no event {name} within {seconds} s")
    process.process.kill()
    return {**process.end(killed=True), "seconds": found["time"] - process.since}


class Asked:
    """A program that answers a line of standard input with a line of standard output."""

    def __init__(self, command, cpus, env):
        self.running = Process(command, cpus, env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def answer(self, lines):
        """The answers to so many lines, sent at once, and the seconds until the last one was there."""
        begun, process = time.perf_counter(), self.running.process
        process.stdin.write("".join(line + "\n" for line in lines).encode())
        process.stdin.flush()
        answers = [process.stdout.readline() for _ in lines]
        seconds = time.perf_counter() - begun
        if not answers[-1]:
            self.end()
            raise Failed(f"{' '.join(self.running.command)}: no answer")
        return [json.loads(a) for a in answers], seconds

    def end(self):
        self.running.process.stdin.close()
        self.running.process.stdout.close()
        return self.running.end()
