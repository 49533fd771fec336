# SPDX-License-Identifier: Apache-2.0
"""Several ranks under mpirun: the same bits in every power-of-two world, near ones in others, tiny cases, faults, the launcher guard, CPUs of the mask."""
import os
import shutil

import support as s


class RanksCase(s.Case):
    ROWS = (38, 10, 9)

    def setUp(self):
        super().setUp()
        self.data = s.task_make(self.path("d"), rows=self.ROWS)
        self.base = s.model_make(self.path("m"), dropout=0.2)

    def arguments(self, name, *more):
        return ["--model.base", self.base, "--data.dir", self.data, "--data.task", "emotion", "--data.max_length", 40, "--threads", 1,
                "--train.batch", 8, "--train.parts", 4, "--train.epochs", 2, "--train.lr", 1e-3, "--log.every", 1, "--log.samples", "true",
                "--out", self.path(name), *more]

    def go(self, name, *more, rc=0, **options):
        result = self.train(*self.arguments(name, *more), rc=rc, **options)
        self.last = result
        return self.path(name)

    def same(self, one, two):
        self.assertEqual(s.course(two), s.course(one))
        strip = lambda out: [{k: v for k, v in e.items() if k != "time"} for e in s.events(out, "eval")]
        self.assertEqual(strip(two), strip(one))
        for group in ("model", "optimizer"):
            self.assertEqual(s.tensors_differ(s.checkpoint_tensors(s.checkpoint(two), group), s.checkpoint_tensors(s.checkpoint(one), group)), [])


class Bits(RanksCase):
    """Batch 8 in 4 parts; 38 rows: the last batch of an epoch has 6. With dropout."""

    def test_worlds(self):
        one = self.go("one")
        self.assertEqual([len(e["samples"]) for e in s.events(one, "step")], [8, 8, 8, 8, 6] * 2)
        for ranks in (1, 2, 4):
            out = self.go(f"ranks{ranks}", ranks=ranks)
            self.assertEqual([e["world"] for e in s.events(out, "start")], [ranks])
            self.same(one, out)

    def test_micro_batches(self):
        one = self.go("one")
        for ranks, tokens in ((0, 170), (0, 85), (2, 85)):
            with self.subTest(ranks=ranks, tokens=tokens):
                name = f"micro{ranks}-{tokens}"
                out = self.go(name, "--train.max_tokens", tokens, ranks=ranks)
                self.same(one, out)

    def test_last_batch_smaller_than_the_parts(self):
        """33 rows: the last batch is one row, three parts of four are empty."""
        s.split_write(os.path.join(self.data, "emotion"), "train", s.rows_make(33))
        one = self.go("one")
        self.assertEqual([len(e["samples"]) for e in s.events(one, "step")], [8, 8, 8, 8, 1] * 2)
        for ranks in (2, 4):
            self.same(one, self.go(f"ranks{ranks}", ranks=ranks))

    def test_parts_auto(self):
        """`auto` is a function of the data, not of the ranks."""
        one = self.go("one", "--train.parts", "auto")
        parts = s.events(one, "start")[0]["parts"]
        self.assertGreaterEqual(parts, 2)
        two = self.go("two", "--train.parts", "auto", ranks=2)
        self.assertEqual(s.events(two, "start")[0]["parts"], parts)
        self.same(one, two)

    def test_model_and_archive(self):
        one, two = self.go("one", "--job", "j"), self.go("two", "--job", "j", ranks=2)
        for name in ("model/model.safetensors", "model/config.json", "artifacts/j-hf.tar.gz"):
            with open(os.path.join(one, name), "rb") as a, open(os.path.join(two, name), "rb") as b:
                self.assertEqual(a.read(), b.read(), name)


class Three(RanksCase):
    """A world that is no power of two: the same batches, other parts, so bits of its own."""

    def near(self, one, two):
        """Samples and rates equal, losses within 1e-5."""
        one, two = s.steps(one), s.steps(two)
        self.assertEqual(list(two), list(one))
        for step, event in one.items():
            self.assertEqual([two[step][k] for k in ("epoch", "lr", "samples")], [event[k] for k in ("epoch", "lr", "samples")])
            self.assertAlmostEqual(two[step]["loss"], event["loss"], delta=1e-5)
            self.assertAlmostEqual(two[step]["grad_norm"] / event["grad_norm"], 1, delta=1e-4)

    def test_near_and_repeatable(self):
        one = self.go("one", "--train.parts", 8)
        three = self.go("three", "--train.parts", 8, ranks=3)
        self.assertIn("3 ranks are no power of two: a batch is cut into 6 parts, not 8", self.last.err)
        self.assertEqual(self.last.err.count("power of two"), 1, "said once")
        self.assertEqual([e["parts"] for e in s.events(three, "start")], [6])
        self.assertEqual(s.checkpoint_attributes(s.checkpoint(three))["parts"], 8, "what defines the run")
        self.near(one, three)
        self.same(three, self.go("again", "--train.parts", 8, ranks=3))

    def test_micro_batches(self):
        """A rank's own parts are a power of two: how they are cut does not show."""
        three = self.go("three", "--train.parts", 8, ranks=3)
        self.same(three, self.go("micro", "--train.parts", 8, "--train.max_tokens", 85, ranks=3))

    def test_one_part_each(self):
        one, three = self.go("one"), self.go("three", ranks=3)
        self.assertEqual([e["parts"] for e in s.events(three, "start")], [3])
        self.near(one, three)

    def test_more_worlds(self):
        one = self.go("one", "--train.parts", 8)
        for ranks in (5, 6):
            self.near(one, self.go(f"ranks{ranks}", "--train.parts", 8, ranks=ranks))

    def test_auto(self):
        one, three = self.go("one", "--train.parts", "auto"), self.go("three", "--train.parts", "auto", ranks=3)
        self.assertEqual(s.events(three, "start")[0]["config_hash"], s.events(one, "start")[0]["config_hash"])
        self.near(one, three)

    def test_resume_in_other_worlds(self):
        """1, 3 and 2 ranks, one after the other: a run is defined by train.parts, not by the parts of a world."""
        constant = ("--train.schedule", "constant", "--train.parts", 4)
        one = self.go("one", *constant)
        for steps, ranks in ((3, 0), (7, 3), (10, 2)):
            out = self.go("o", *constant, "--train.max_steps", steps, ranks=ranks)
        self.assertEqual([e["world"] for e in s.events(out, "start")], [1, 3, 2])
        self.assertEqual([e["step"] for e in s.events(out, "resume")], [3, 7])
        self.near(one, out)

    def test_tiny_batches(self):
        """33 rows: the last batch is one row, and two ranks have nothing to do."""
        s.split_write(os.path.join(self.data, "emotion"), "train", s.rows_make(33))
        self.near(self.go("one"), self.go("three", ranks=3))

    def test_a_fault_on_one_rank(self):
        out = self.go("o", ranks=3, env={"FINETUNED_FAULT": "nan:rank=2,cursor=3"})
        self.assertEqual([e["cursor"] for e in s.events(out, "skip")], [3])
        self.assertEqual(max(s.steps(out)), 9)

    def test_more_ranks_than_parts(self):
        result = s.run("run", *self.arguments("o", "--train.parts", 2), ranks=3)
        self.assertRefused(result, 64, "train.parts", "3 ranks", "at most 2")


class Tiny(RanksCase):
    """Either it works, with every row once, or it is refused before step 0 with a hint."""

    def check(self, rows, ranks, *arguments):
        s.split_write(os.path.join(self.data, "emotion"), "train", s.rows_make(rows))
        result = s.run("run", *self.arguments("o", *arguments), ranks=ranks)
        if result.rc == 64:
            self.assertRegex(result.err, r"rank|world|np")
            self.assertLess(len(result.err.strip().splitlines()), 24, result)
            self.assertFalse(os.path.exists(self.path("o/model")))
            if os.path.exists(self.path("o/events.jsonl")):
                self.assertEqual(s.events(self.path("o"), "step"), [])
            return
        self.assertExit(result, 0)
        for epoch in (1, 2):
            self.assertEqual(sorted(i for e in s.events(self.path("o"), "step") if e["epoch"] == epoch for i in e["samples"]), list(range(rows)))
        single = self.go("single", *arguments)
        self.same(single, self.path("o"))

    def test_ten_rows_on_four_ranks_with_batch_two(self):
        self.check(10, 4, "--train.batch", 2, "--train.parts", "auto")

    def test_three_rows_on_four_ranks_with_batch_four(self):
        self.check(3, 4, "--train.batch", 4, "--train.parts", "auto")

    def test_three_rows_on_four_ranks_with_four_parts(self):
        self.check(3, 4, "--train.batch", 4, "--train.parts", 4)

    def test_one_row(self):
        self.check(1, 2, "--train.batch", 8, "--train.parts", 4)

    def test_evaluation_smaller_than_the_world(self):
        for split in ("val", "test"):
            s.split_write(os.path.join(self.data, "emotion"), split, s.rows_make(2, first=50))
        one = self.go("one")
        self.same(one, self.go("four", ranks=4))

    def test_world_above_the_parts(self):
        result = s.run("run", *self.arguments("o", "--train.parts", 2), ranks=4)
        self.assertRefused(result, 64, "train.parts", "2", "4")
        self.assertEqual(result.err.count("error"), 1, "said once")


class Faults(RanksCase):
    """A NaN in one rank's gradient."""

    def fault(self, text):
        return {"FINETUNED_FAULT": text}

    def weights_are_finite(self, out):
        import numpy

        for name in s.checkpoint_names(out):
            for group in ("model", "optimizer"):
                for key, value in s.checkpoint_tensors(os.path.join(out, "checkpoints", name), group).items():
                    self.assertTrue(numpy.isfinite(value).all(), f"{name} {key}")

    def test_one_batch_is_skipped(self):
        out = self.go("o", ranks=2, env=self.fault("nan:rank=1,cursor=3"))
        skip, = s.events(out, "skip")
        self.assertEqual((skip["step"], skip["cursor"]), (3, 3))
        self.assertTrue(skip["reason"])
        self.assertIn("skip", self.last.err)
        found = s.events(out, "step")
        self.assertEqual([e["step"] for e in found], list(range(1, 10)), "a skipped batch moves only the cursor")
        self.assertEqual(found[-1]["step"], 9)
        attributes = s.checkpoint_attributes(s.checkpoint(out))
        self.assertEqual([attributes[k] for k in ("step", "cursor", "skips_in_a_row")], [9, 10, 0])
        self.weights_are_finite(out)

    def test_the_same_on_one_rank(self):
        two = self.go("two", ranks=2, env=self.fault("nan:rank=1,cursor=3"))
        one = self.go("one", env=self.fault("nan:rank=0,cursor=3"))
        self.same(one, two)

    def test_three_in_a_row_stop(self):
        for ranks, rank in ((0, 0), (2, 1)):
            with self.subTest(ranks=ranks):
                name = f"o{ranks}"
                out = self.go(name, "--checkpoints.every", 1, rc=65, ranks=ranks, env=self.fault(f"nan:rank={rank},cursor=4,count=3"))
                self.assertEqual([e["cursor"] for e in s.events(out, "skip")], [4, 5, 6])
                stop = s.events(out)[-1]
                self.assertEqual([stop[k] for k in ("event", "reason", "exit", "step")], ["stop", "nonfinite", 65, 4])
                self.assertIn("diverged", self.last.err)
                self.assertEqual(self.last.err.count("diverged"), 1, "said once")
                self.weights_are_finite(out)
                self.assertEqual(s.checkpoint_attributes(s.checkpoint(out))["step"], 4)
                self.assertFalse(os.path.exists(os.path.join(out, "model")))

    def test_two_and_two_go_on(self):
        out = self.go("o", env=self.fault("nan:rank=0,cursor=1,count=2;nan:rank=0,cursor=4,count=2"))
        self.assertEqual([e["cursor"] for e in s.events(out, "skip")], [1, 2, 4, 5])
        self.assertEqual(max(s.steps(out)), 6)

    def test_skips_survive_a_resume(self):
        """The last two batches of the first epoch are skipped, and the first of the second: three in a row, though a stop lies between."""
        out = self.go("o", "--train.epochs", 1, "--checkpoints.every", 1, env=self.fault("nan:rank=0,cursor=3,count=2"))
        attributes = s.checkpoint_attributes(s.checkpoint(out))
        self.assertEqual([attributes[k] for k in ("step", "cursor", "skips_in_a_row")], [3, 5, 2])
        self.go("o", "--train.epochs", 2, rc=65, env=self.fault("nan:rank=0,cursor=5"))
        self.assertIn("diverged", self.last.err)

    def test_first_batch(self):
        out = self.go("o", env=self.fault("nan:rank=0,cursor=0"))
        self.assertEqual(s.events(out, "skip")[0]["step"], 0)
        self.assertEqual(max(s.steps(out)), 9)

    def test_bad_faults(self):
        for text in ("nan", "nan:rank=1", "nan:rank=0,cursor=x", "boom:rank=0,cursor=1", "nan:rank=5,cursor=1"):
            self.go("o", rc=64, env=self.fault(text))
            self.assertIn("FINETUNED_FAULT", self.last.err)


class Launcher(RanksCase):
    def test_guard(self):
        """A launcher says that it started several, and this process sees itself alone."""
        for variable in ("SLURM_NTASKS", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE"):
            with self.subTest(variable=variable):
                result = s.run("run", *self.arguments("o"), env={variable: 2, **s.MPI_LEAKS})
                self.assertRefused(result, 64, variable, "comm.backend")
                self.assertFalse(os.path.exists(self.path("o/events.jsonl")))

    def test_self_is_meant(self):
        out = self.go("o", "--comm.backend", "self", env={"SLURM_NTASKS": 2})
        self.assertEqual(s.events(out, "start")[0]["backend"], "self")

    def test_one_task_is_no_matter(self):
        for value in ("1", ""):
            self.go(f"o{value}", "--train.max_steps", 1, env={"SLURM_NTASKS": value})

    def test_mpirun_inside_slurm(self):
        out = self.go("o", "--train.max_steps", 1, ranks=2, env={"SLURM_NTASKS": 2, "PMI_SIZE": 4})
        start, = s.events(out, "start")
        self.assertEqual((start["world"], start["backend"]), (2, "mpi"))

    def test_mpi_alone(self):
        out = self.go("o", "--comm.backend", "mpi", "--train.max_steps", 1, env=s.MPI_LEAKS)
        self.assertEqual(s.events(out, "start")[0]["world"], 1)

    def test_self_under_mpirun(self):
        """Two runs on one folder: one owns it, the other is refused; or both are refused at once."""
        result = s.run("run", *self.arguments("o", "--comm.backend", "self"), ranks=2)
        self.assertNotEqual(result.rc, 0, result)

    def test_errors_are_said_once(self):
        path = os.path.join(self.data, "emotion", "train_labels.txt")
        rows = s.file_lines(path)
        with open(path, "wb") as file:
            file.write(b"\n".join(rows[:2] + [b"9"] + rows[3:]) + b"\n")
        result = s.run("run", *self.arguments("o"), ranks=2)
        self.assertExit(result, 65, f"{path}:3")
        self.assertEqual(result.err.count(f"{path}:3"), 1, result)
        self.assertEqual(result.out, "")

    def test_results_and_log_once(self):
        self.go("o", ranks=2)
        self.assertEqual(self.last.out.count("report.md"), 1)
        self.assertEqual(self.last.err.count("step 1/10"), 1)

    def test_usage_errors(self):
        result = s.run("run", "--train.lr", "x", ranks=2)
        self.assertExit(result, 64, "train.lr")


class Cpus(RanksCase):
    """Threads never exceed the CPUs of the process's own mask."""

    def threads(self, name, *more, **options):
        arguments = [a for a in self.arguments(name, "--train.max_steps", 1, *more)]
        at = arguments.index("--threads")
        del arguments[at:at + 2]
        self.last = self.train(*arguments, **options)
        return s.events(self.path(name), "start")[0]["threads"]

    def need(self, n):
        if len(os.sched_getaffinity(0)) < n:
            s.skip(f"needs a mask of {n} CPUs")
        if not shutil.which("taskset"):
            s.skip("needs taskset")

    def test_auto_is_the_mask(self):
        self.assertEqual(self.threads("o"), len(os.sched_getaffinity(0)))

    def test_taskset(self):
        self.need(2)
        first = min(os.sched_getaffinity(0))
        self.assertEqual(self.threads("o", before=("taskset", "-c", str(first))), 1)
        self.assertRegex(self.last.err, r"(?i)one CPU")

    def test_bind_to_core(self):
        self.need(2)
        self.assertEqual(self.threads("o", ranks=2, options=("--bind-to", "core")), 1)
        self.assertRegex(self.last.err, r"(?i)bind-to")

    def test_ranks_share_the_host(self):
        self.assertLessEqual(self.threads("o", ranks=2) * 2, max(2, len(os.sched_getaffinity(0))))

    def test_more_asked_for_than_there_are(self):
        """`threads` above the mask gives the mask, and the log says so."""
        cpus = len(os.sched_getaffinity(0))
        self.go("o", "--threads", cpus + 1, "--train.max_steps", 1)
        self.assertEqual(s.events(self.path("o"), "start")[0]["threads"], cpus)
        self.assertRegex(self.last.err, rf"threads.*\b{cpus + 1}\b")


if __name__ == "__main__":
    s.main()
