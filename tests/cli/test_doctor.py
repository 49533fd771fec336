# SPDX-License-Identifier: Apache-2.0
"""finetuned doctor: what is found on a host that we change for it, its fixes, and the exit code of the first failure."""
import json
import os
import shutil
import subprocess

import support as s

SUBJECTS = ["program", "cpu", "kernels", "threads", "memory", "huge pages", "frequency", "devices", "locked memory", "open files",
            "file size", "shared memory", "clock", "environment", "libraries", "job", "disk", "temporary files", "world"]


class Doctor(s.Case):
    def doctor(self, *arguments, rc=None, **options):
        """The findings; the exit code must be that of the first failure."""
        result = s.run("doctor", *arguments, "--json", **options)
        found = json.loads(result.out)
        failures = [f for f in found if f["level"] == "fail"]
        self.assertEqual(result.rc, failures[0]["exit"] if failures else 0, result)
        if rc is not None:
            self.assertEqual(result.rc, rc, result)
        for finding in found:
            self.assertIn(finding["subject"], SUBJECTS)
            self.assertEqual(finding["fix"] is None, finding["level"] == "ok", f"a fix for each, and for nothing else: {finding}")
            self.assertEqual(finding["exit"] != 0, finding["level"] == "fail", finding)
        return found

    def find(self, found, subject, level=None, *words):
        """The first finding of the subject that has the level and the words."""
        for f in found:
            if f["subject"] == subject and level in (None, f["level"]) and all(w in f["found"] for w in words):
                return f
        raise AssertionError(f"no {level} of {subject} with {words} in {json.dumps(found, indent=1)}")

    def job(self, **keys):
        return s.job_write(self.path("job.yaml"), s.task_make(self.path("d")), self.path("o"), **keys)


class Host(Doctor):
    def test_this_host(self):
        found = self.doctor()
        named = [f["subject"] for f in found]
        self.assertEqual(list(dict.fromkeys(named)), [name for name in SUBJECTS if name not in ("job", "world")])
        for word in ("Open MPI", "HDF5", "libarchive", "jansson", "libyaml"):
            self.assertIn(word, self.find(found, "libraries")["found"])
        self.assertIn("working directory", self.find(found, "disk")["found"])

    def test_for_people(self):
        result = s.run("doctor", env={"FINETUNED_FAULT": "nan:rank=0,cursor=1"})
        self.assertRegex(result.out, r"(?m)^warn  environment +FINETUNED_FAULT=.*\n +fix: unset FINETUNED_FAULT$")
        self.assertRegex(result.out, r"\n\d+ ok, \d+ warnings?, \d+ failures?\n$")

    def test_kernels(self):
        self.find(self.doctor(env={"FINETUNED_ISA": "mmx"}, rc=64), "kernels", "fail", "mmx")
        found = self.doctor(env={"FINETUNED_ISA": "plain"}, rc=0)
        best = self.find(self.doctor(), "kernels")["found"].split(",")[0]
        if best != "plain":
            self.find(found, "kernels", "warn", "FINETUNED_ISA=plain", best)

    def test_environment(self):
        found = self.doctor(env={"OMP_NUM_THREADS": "4", "HDF5_USE_FILE_LOCKING": "BEST_EFFORT", "HDF5_DRIVER": "core"}, rc=0)
        self.find(found, "environment", "ok", "OMP_NUM_THREADS=4", "no effect")
        self.find(found, "environment", "ok", "HDF5_USE_FILE_LOCKING=BEST_EFFORT")
        self.find(found, "environment", "warn", "HDF5_DRIVER")
        clean = {k: v for k, v in s.environment().items() if not k.startswith(("OMP_", "HDF5_", "OMPI_", "FI_", "LD_PRELOAD"))}
        process = subprocess.run([s.BINARY, "doctor", "--json"], env=clean, capture_output=True, check=False)
        self.find(json.loads(process.stdout), "environment", "ok", "nothing is set")

    def test_temporary_folder(self):
        self.find(self.doctor(env={"TMPDIR": self.path("none")}, rc=74), "temporary files", "fail", "none")
        self.find(self.doctor(env={"TMPDIR": self.folder}), "temporary files", "ok", self.folder)
        self.assertEqual(os.listdir(self.folder), [])

    def test_limits(self):
        self.find(self.doctor(before=("prlimit", "--nofile=300:300")), "open files", "warn", "300")
        self.find(self.doctor(before=("prlimit", "--as=40000000000")), "memory", "warn", "address space") if not self.sanitized() else None
        self.find(self.doctor(before=("prlimit", "--memlock=65536:65536")), "locked memory", None, "64.0 KiB")
        self.find(self.doctor(before=("prlimit", "--fsize=1000000:1000000")), "file size", "warn")

    def sanitized(self):
        with open(os.path.join(s.BUILD, "CMakeCache.txt"), encoding="utf-8") as file:
            return "FINETUNED_SANITIZE:STRING=\n" not in file.read()

    def test_one_cpu(self):
        found = self.doctor(before=("taskset", "-c", str(min(os.sched_getaffinity(0)))))
        if os.cpu_count() > 1:
            self.find(found, "threads", "warn", "one CPU of")

    def test_flags(self):
        self.assertRefused(s.run("doctor", "--jsn"), 64, "--json")
        self.assertRefused(s.run("doctor", "a.yaml", "b.yaml"), 64, "a.yaml", "b.yaml")


class Job(Doctor):
    def test_good(self):
        found = self.doctor(self.job(), rc=0)
        self.find(found, "job", "ok", "24 train texts", "6 steps to go", "a fresh start")
        self.find(found, "memory", "ok", "the job takes up to")
        for name in ("out", "checkpoints.dir", "data.cache"):
            self.find(found, "disk", None, name, "free on")
        self.find(found, "disk", "ok", "checkpoints.dir", "to come")
        self.assertFalse(os.path.exists(self.path("o")), "nothing is written")

    def test_as_flags(self):
        self.find(self.doctor("--model.base", "random:tiny", "--data.dir", s.task_make(self.path("d")), "--data.task", "emotion",
                              "--out", self.path("o"), rc=0), "job", "ok")

    def test_after_a_run(self):
        job = self.job()
        self.train(job)
        self.find(self.doctor(job, rc=0), "job", "ok", "complete")

    def test_what_run_would_refuse(self):
        for keys, rc, words in (({"model__base": self.path("none")}, 65, "none"), ({"data__dir": self.path("none")}, 65, "none"),
                                ({"train__lr": "fast"}, 64, "train.lr"), ({"data__max_length": 600}, 64, "data.max_length"),
                                ({"checkpoints__resume": self.path("none")}, 65, "none")):
            with self.subTest(keys=keys):
                found = self.doctor(self.job(**keys), rc=rc)
                self.find(found, "job", "fail", words)
                self.find(found, "libraries", "ok")  # everything else is looked at all the same
        self.assertRefused(s.run("doctor", self.path("none.yaml")), 64, "none.yaml")

    def test_the_first_failure_counts(self):
        found = self.doctor(self.job(model__base=self.path("none")), env={"FINETUNED_ISA": "mmx"}, rc=64)
        self.find(found, "job", "fail")

    def test_places_that_take_nothing(self):
        blocked = self.write("blocked", "a file")
        found = self.doctor(self.job(checkpoints__dir=blocked), rc=64)
        self.find(found, "disk", "fail", "checkpoints.dir", "blocked")

    def test_too_little_room(self):
        found = self.doctor(self.job(model__base="random:mini", train__epochs=1000000, checkpoints__keep=1000000), rc=74)
        self.find(found, "disk", "fail", "to come")

    def test_file_size(self):
        found = self.doctor(self.job(), before=("prlimit", "--fsize=1000000:1000000"), rc=74)
        self.find(found, "file size", "fail", "a checkpoint has")

    def test_memory_as_a_disk(self):
        if not os.path.ismount("/dev/shm"):
            s.skip("/dev/shm is not mounted")
        found = self.doctor(self.job(checkpoints__dir="/dev/shm/finetuned-test/none"))
        self.find(found, "disk", "warn", "lies in memory", "tmpfs")
        self.assertFalse(os.path.exists("/dev/shm/finetuned-test"))

    def test_more_threads_than_cpus(self):
        self.find(self.doctor(self.job(threads=4000)), "threads", "warn", "4000")


class World(Doctor):
    def test_two_ranks(self):
        found = self.doctor("--mpi", ranks=2)
        self.find(found, "world", "ok", "2 ranks on 1 host", "mpi")
        self.find(found, "world", "ok", "the same program")
        self.find(found, "world", "ok", "clocks agree")
        self.find(found, "world", None, "message")

    def test_alone(self):
        self.find(self.doctor("--mpi", env=s.MPI_LEAKS), "world", "ok", "1 rank on 1 host")

    def test_a_job(self):
        found = self.doctor("--mpi", self.job(), ranks=2, rc=0)
        self.find(found, "job", "ok")
        self.find(found, "memory", "ok", "2 ranks")
        self.assertFalse(os.path.exists(self.path("o")))
        self.find(self.doctor("--mpi", self.job(train__parts=1), ranks=2, rc=64), "job", "fail", "train.parts")

    def test_without_mpi_one_task_speaks(self):
        found = self.doctor(ranks=2)
        self.find(found, "environment", "warn", "OMPI_COMM_WORLD_SIZE=2")

    def test_another_program(self):
        other = self.path("finetuned")
        shutil.copy(s.BINARY, other)
        with open(other, "ab") as file:
            file.write(b"\0")
        command = [*s.mpirun(1, "--bind-to", "none"), s.BINARY, "doctor", "--mpi", "--json", ":", "-np", "1", other, "doctor", "--mpi", "--json"]
        process = subprocess.run(command, env=s.environment(**s.MPI_ENVIRONMENT), capture_output=True, check=False, timeout=s.PATIENCE)
        found = json.loads(process.stdout)
        self.find(found, "world", "fail", "rank 1", "another program")
        self.assertEqual(process.returncode, 64, process)


if __name__ == "__main__":
    s.main()
