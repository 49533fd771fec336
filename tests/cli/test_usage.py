# SPDX-License-Identifier: Apache-2.0
"""Verbs, flags, keys and exit codes: what is refused before anything is done, and how it is said."""
import os
import stat
import re
import signal
import subprocess

import support as s

VERBS = ["run", "prepare", "eval", "score", "predict", "tokenize", "export", "inspect", "doctor", "config"]


class Help(s.Case):
    def test_program(self):
        result = s.run("--help")
        self.assertExit(result, 0)
        self.assertEqual(result.err, "")
        for verb in VERBS:
            self.assertRegex(result.out, rf"(?m)^\s+{verb}\b")

    def test_version(self):
        result = s.run("--version")
        self.assertExit(result, 0)
        self.assertRegex(result.out, r"^finetuned \d+\.\d+\.\d+\n$")

    def test_every_verb(self):
        for verb in VERBS:
            with self.subTest(verb=verb):
                result = s.run(verb, "--help")
                self.assertExit(result, 0)
                self.assertIn(f"finetuned {verb}", result.out)
                self.assertEqual(result.err, "")

    def test_help_wins_over_other_arguments(self):
        for arguments in (["run", "--train.lr", "nonsense", "--help"], ["eval", "--model", "nowhere", "--help"]):
            self.assertExit(s.run(*arguments), 0)


class Names(s.Case):
    def test_no_verb(self):
        self.assertRefused(s.run(), 64)

    def test_unknown_verb_names_the_nearest(self):
        self.assertRefused(s.run("tokenise"), 64, "tokenise", "tokenize")
        self.assertRefused(s.run("inspct"), 64, "inspect")

    def test_unknown_flag_names_the_nearest(self):
        for verb, flag, near in (("eval", "--modle", "--model"), ("score", "--predictoins", "--predictions"),
                                 ("predict", "--no-truncatoin", "--no-truncation"), ("tokenize", "--max-lenght", "--max-length"),
                                 ("export", "--form", "--from"), ("inspect", "--verfy", "--verify"), ("config", "--yml", "--yaml"),
                                 ("run", "--train.lrate", "train.lr"), ("prepare", "--data.tsk", "data.task")):
            with self.subTest(verb=verb):
                self.assertRefused(s.run(verb, flag, "x"), 64, flag.lstrip("-"), near)

    def test_unknown_key_in_the_job_file(self):
        job = self.write("job.yaml", "out: o\nmodel: {base: random:tiny}\ntrain:\n  epochs: 1\n  bacth: 4\n")
        self.assertRefused(s.run("run", job), 64, f"{job}:5", "bacth", "train.batch")
        section = self.write("section.yaml", "trian:\n  epochs: 1\n")
        self.assertRefused(s.run("run", section), 64, f"{section}:1", "trian", "train")

    def test_a_key_twice(self):
        job = self.write("job.yaml", "train:\n  epochs: 1\n  epochs: 2\n")
        self.assertRefused(s.run("config", job), 64, f"{job}:3", "epochs")


class Values(s.Case):
    CASES = [  # flag, value, words of the message
        ("train.lr", "fast", ["train.lr", "fast"]),
        ("train.lr", "-1", ["train.lr", "-1"]),
        ("train.lr", "nan", ["train.lr", "nan"]),
        ("train.lr", "inf", ["train.lr", "inf"]),
        ("train.epochs", "0", ["train.epochs", "1"]),
        ("train.epochs", "1.5", ["train.epochs", "1.5"]),
        ("train.epochs", "", ["train.epochs"]),
        ("train.epochs", "99999999999999999999", ["train.epochs"]),
        ("train.batch", "0", ["train.batch"]),
        ("train.batch", "16x", ["train.batch", "16x"]),
        ("train.schedule", "linaer", ["train.schedule", "linaer", "linear", "cosine"]),
        ("train.betas", "0.9", ["train.betas", "0.9"]),
        ("train.betas", "0.9,1.0", ["train.betas", "1.0"]),
        ("train.parts", "3", ["train.parts", "3", "power of two"]),
        ("train.seed", "-1", ["train.seed", "-1"]),
        ("model.dropout", "1", ["model.dropout"]),
        ("data.max_length", "2", ["data.max_length", "3"]),
        ("data.truncation", "perhaps", ["data.truncation", "true", "false"]),
        ("log.samples", "2", ["log.samples"]),
        ("checkpoints.keep", "0", ["checkpoints.keep"]),
        ("checkpoints.buffer", "12parsecs", ["checkpoints.buffer", "12parsecs"]),
        ("export.to", "hff", ["export.to", "hff", "hf"]),
        ("threads", "0", ["threads"]),
        ("threads", "many", ["threads", "many"]),
        ("comm.backend", "carrier-pigeon", ["comm.backend", "carrier-pigeon", "mpi"]),
        ("log.level", "loud", ["log.level", "loud", "info"]),
    ]

    def test_flags(self):
        for key, value, words in self.CASES:
            with self.subTest(key=key, value=value):
                out = self.path("out")
                result = s.run("run", "--model.base", "random:tiny", "--data.dir", "/nowhere", "--data.task", "emotion",
                               "--out", out, f"--{key}", value)
                self.assertRefused(result, 64, *words)
                self.assertFalse(os.path.exists(out), "refused before anything is made")

    def test_file_names_the_line(self):
        for n, (key, value, words) in enumerate(self.CASES):
            if "." not in key:
                continue
            section, name = key.split(".")
            job = self.write(f"job{n}.yaml", f"# a job\n{section}:\n  {name}: {value or repr('')}\n")
            with self.subTest(key=key, value=value):
                self.assertRefused(s.run("config", job), 64, f"{job}:3", name, *[w for w in words if w != key])

    def test_wrong_shapes(self):
        for text in ("train: 5\n", "train: [1, 2]\n", "- a\n", "train:\n  lr: {a: 1}\n", "train:\n  lr: [1]\n", "a: b: c\n", "\tx: 1\n",
                     "job: &a b\nout: *a\n", "x" * 100000, "train:\n  betas: [0.9, 0.99, 0.999]\n", b"job: \xff\n", b"job: a\0b\n"):
            with self.subTest(text=text[:30]):
                job = self.write("job.yaml", text)
                self.assertRefused(s.run("config", job), 64, job)

    def test_file_that_is_not_there(self):
        self.assertRefused(s.run("run", self.path("none.yaml")), 64, "none.yaml")

    def test_options_of_later_versions(self):
        for key, value in (("train.precision", "bf16"), ("comm.backend", "ofi"),
                           ("data.format", "csv"), ("export.to", "onnx"), ("comm.reduce", "bf16"),
                           ("data.normalize", "tweet"), ("export.s3", "s3://b/p"), ("comm.fabric", "efa")):
            with self.subTest(key=key):
                result = s.run("run", "--model.base", "random:tiny", "--data.dir", "/nowhere", "--data.task", "emotion",
                               "--out", self.path("out"), f"--{key}", value)
                # Either it works (then it is the data that is not there) or it says that it does not yet.
                self.assertIn(result.rc, (64, 65), result)
                if result.rc == 64:
                    self.assertIn("not in this version yet", result.err, result)

    def test_lists_and_equals(self):
        result = s.run("config", "--train.betas", "0.8,0.95", "--yaml")
        self.assertExit(result, 0)
        self.assertIn("betas: [0.8, 0.95]", result.out)


class Required(s.Case):
    def test_missing(self):
        for arguments, words in ((["run"], []), (["run", "--out", "x"], ["model.base"]), (["prepare"], []), (["eval"], ["--model"]),
                                 (["eval", "--model", "m"], ["--data.dir"]), (["score"], ["--data.dir"]),
                                 (["score", "--data.dir", "d"], ["--predictions"]), (["predict"], ["--model"]),
                                 (["tokenize"], ["--model"]), (["export"], ["--from"]), (["export", "--from", "m"], ["--to"]),
                                 (["inspect"], []), (["inspect", "a", "b"], [])):
            with self.subTest(arguments=arguments):
                self.assertRefused(s.run(*arguments), 64, *words)

    def test_flag_without_value(self):
        for arguments in (["eval", "--model"], ["run", "--train.lr"], ["tokenize", "--model", "m", "--max-length"]):
            with self.subTest(arguments=arguments):
                self.assertRefused(s.run(*arguments), 64, arguments[-1].lstrip("-"))

    def test_stray_words(self):
        for arguments in (["eval", "stray"], ["score", "stray"], ["run", "job.yaml", "stray"], ["config", "job.yaml", "stray"]):
            with self.subTest(arguments=arguments):
                self.assertRefused(s.run(*arguments), 64)

    def test_missing_things(self):
        for arguments in (["predict", "--model", "/nowhere", "a"], ["tokenize", "--model", "/nowhere", "a"],
                          ["inspect", "/nowhere"], ["export", "--from", "/nowhere", "--to", "hf", "--out", self.path("o")],
                          ["eval", "--model", "/nowhere", "--data.dir", "/nowhere", "--data.task", "emotion"]):
            with self.subTest(arguments=arguments):
                self.assertRefused(s.run(*arguments), 65, "/nowhere")

    def test_unknown_choice(self):
        folder = s.model_make(self.path("m"), s.LABELS)
        for arguments, words in ((["eval", "--model", folder, "--data.dir", "d", "--data.task", "emotion", "--split", "tset"], ["tset", "test"]),
                                 (["export", "--from", folder, "--to", "onxn", "--out", self.path("o")], ["onxn", "hf"]),
                                 (["export", "--from", folder, "--to", "hf", "--out", self.path("o"), "--dtype", "fp8"], ["fp8", "bf16"]),
                                 (["tokenize", "--model", folder, "--special", "odd", "a"], ["odd", "literal", "parse"]),
                                 (["tokenize", "--model", folder, "--max-length", "0", "a"], ["--max-length", "0"]),
                                 (["tokenize", "--model", folder, "--max-length", "x", "a"], ["--max-length", "x"]),
                                 (["score", "--data.dir", "d", "--predictions", "p", "--task", "emoton"], ["emoton", "emotion"])):
            with self.subTest(arguments=arguments[0]):
                self.assertRefused(s.run(*arguments), 64, *words)


class Limits(s.Case):
    """Values that the chosen model makes impossible are usage errors that name the limit."""

    def test_max_length_above_usable(self):
        data = s.task_make(self.path("d"))
        for base, limit in (("random:tiny", "512"), (s.model_make(self.path("m")), "128")):
            result = s.run("run", "--model.base", base, "--data.dir", data, "--data.task", "emotion", "--out", self.path("o"),
                           "--data.max_length", str(int(limit) + 1), "--threads", "1")
            self.assertRefused(result, 64, "data.max_length", limit)
        self.train("--model.base", self.path("m"), "--data.dir", data, "--data.task", "emotion", "--out", self.path("o2"),
                   "--data.max_length", "128", "--train.max_steps", "1", "--threads", "1")

    def test_parts_above_batch(self):
        self.assertRefused(s.run("run", "--model.base", "random:tiny", "--data.dir", "d", "--data.task", "emotion", "--out", self.path("o"),
                                 "--train.batch", "4", "--train.parts", "8"), 64, "train.parts", "8")

    def test_out_that_cannot_be_written(self):
        data, blocked = s.task_make(self.path("d")), self.write("blocked", "a file")
        result = s.run("run", "--model.base", "random:tiny", "--data.dir", data, "--data.task", "emotion",
                       "--out", os.path.join(blocked, "o"), "--threads", "1")
        self.assertRefused(result, 64, "blocked is a file")


class Output(s.Case):
    """Standard output that can't be written is an I/O error, for every verb that prints a result."""

    def test_full_device(self):
        if not os.path.exists("/dev/full"):
            s.skip("needs /dev/full")
        folder, data = s.model_make(self.path("m"), s.LABELS), s.task_make(self.path("d"))
        for arguments in (["predict", "--model", folder, "a"], ["tokenize", "--model", folder, "a"], ["config"], ["config", "--yaml"],
                          ["inspect", folder], ["inspect", "--json", folder], ["eval", "--model", folder, "--data.dir", data, "--data.task", "emotion"],
                          ["prepare", "--model.base", folder, "--data.dir", data, "--data.task", "emotion", "--out", self.path("o")]):
            with self.subTest(arguments=arguments[0]), open("/dev/full", "wb") as full:
                process = subprocess.run(s.command(arguments), stdout=full, stderr=subprocess.PIPE, env=s.environment(), check=False)
                self.assertEqual(process.returncode, 74, f"{arguments} {process.stderr}")

    def test_no_device_is_replaced(self):
        """A file is committed by rename: never onto a pipe or device, and through a link to what it leads to."""
        folder, data, pipe, link = s.model_make(self.path("m"), s.LABELS), s.task_make(self.path("d")), self.path("pipe"), self.path("link")
        os.mkfifo(pipe)
        os.symlink("target", link)
        arguments = ["eval", "--model", folder, "--data.dir", data, "--data.task", "emotion", "--predictions"]
        self.assertRefused(s.run(*arguments, pipe), 74, "pipe")
        self.assertTrue(stat.S_ISFIFO(os.stat(pipe).st_mode))
        open(self.path("target"), "w").close()
        self.assertEqual(s.run(*arguments, link).rc, 0)
        self.assertTrue(os.path.islink(link) and os.path.getsize(self.path("target")) > 0)

    def test_empty_paths(self):
        for arguments in (["inspect", ""], ["export", "--from", "x", "--to", "hf", "--out", ""], ["predict", "--model", "", "a"],
                          ["prepare", "--model.base", "random:tiny", "--data.dir", "x", "--data.task", "emotion"]):
            with self.subTest(arguments=arguments):
                self.assertRefused(s.run(*arguments), 64)

    def test_predictions_that_cannot_be_written(self):
        folder, data = s.model_make(self.path("m"), s.LABELS), s.task_make(self.path("d"))
        result = s.run("eval", "--model", folder, "--data.dir", data, "--data.task", "emotion", "--predictions", self.path("no/such/file"))
        self.assertRefused(result, 74, "no/such/file")

    def test_reader_that_goes_away(self):
        """`finetuned tokenize | head -1`: ends by itself, without a core or a hang."""
        folder = s.model_make(self.path("m"))
        process = subprocess.Popen(s.command(["tokenize", "--model", folder]), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.close()
        process.communicate(b"text\n" * 20000, timeout=60)
        self.assertIn(process.returncode, (0, -signal.SIGPIPE))

    def test_verbs_of_later_versions(self):
        """Known to the documents, not to this version: a usage error with a hint, never something half done."""
        for verb in ("daemon", "sweep"):
            result = s.run(verb, "x")
            if result.rc != 64:
                continue  # it is there by now
            self.assertRefused(result, 64, verb)


class Config(s.Case):
    def test_prints_every_option(self):
        result = s.run("config")
        self.assertExit(result, 0)
        self.assertEqual(result.err, "")
        for key in ("model.base", "data.task", "train.lr", "train.parts", "comm.timeout", "checkpoints.resume", "export.to", "log.samples"):
            self.assertIn(key, result.out)

    def test_yaml_is_a_job_again(self):
        first = s.run("config", "--yaml", "--train.lr", "3e-5", "--out", "somewhere", "--data.task", "stance/climate")
        self.assertExit(first, 0)
        job = self.write("job.yaml", first.out)
        second = s.run("config", job, "--yaml")
        self.assertExit(second, 0)
        self.assertEqual(self.settings(second.out), self.settings(first.out))
        self.assertRegex(second.out, r"(?m)^\s+lr: (3e-05|3\.0e-05|0\.00003)\b")

    def settings(self, text):
        """Values without comments."""
        return [re.sub(r"\s*#.*", "", line) for line in text.split("\n") if line.strip() and not line.strip().startswith("#")]

    def test_flags_are_stronger_than_the_file(self):
        job = self.write("job.yaml", "train: {epochs: 7, batch: 4}\n")
        result = s.run("config", job, "--train.epochs", "9", "--yaml")
        self.assertExit(result, 0)
        self.assertRegex(result.out, r"(?m)^\s+epochs: 9\b")
        self.assertRegex(result.out, r"(?m)^\s+batch: 4\b")

    def test_name_from_the_file(self):
        job = self.write("my-job.yaml", "model: {base: random:tiny}\n")
        # in a file to edit it goes on following the file's name
        self.assertRegex(s.run("config", job, "--yaml").out, r"(?m)^# job: my-job\b")
        self.assertRegex(s.run("config", job).out, r"(?m)^job: my-job\b")


if __name__ == "__main__":
    s.main()
