# SPDX-License-Identifier: Apache-2.0
"""--help, man pages and completion say the same, since they come from the same tables; hints for who goes astray."""
import os
import re
import subprocess

import support as s


def verbs():
    return re.findall(r"(?m)^  (\w+) +\S", s.run("--help").out.split("\n\n")[2])


def parts(verb):
    return re.findall(rf"(?m)^finetuned ({verb} [a-z]+) ", s.run(verb, "--help").out)


def flags(text):
    """What a help page lists, one a line, with what the flag takes."""
    return dict(re.findall(r"(?m)^  (--[\w.-]+)(?: ([A-Z]\w*))?(?= |$)", text.split("\nKeys of a job file")[0]))


def keys():
    return re.findall(r"(?m)^([a-z][\w.]*): ", s.run("config").out)


class Pages(s.Case):
    def test_every_way_to_a_page(self):
        for verb in verbs():
            page = s.run(verb, "--help")
            self.assertExit(page, 0)
            self.assertEqual(page.out, s.run("help", verb).out, verb)
            self.assertEqual(page.out, s.run(verb, "-h").out, verb)
            self.assertIn(f"finetuned {verb} ", page.out)
            for part in parts(verb):
                self.assertEqual(s.run(*part.split(), "--help").out, s.run("help", *part.split()).out)
        self.assertEqual(s.run("help").out, s.run("--help").out)
        self.assertEqual(s.run("-h").out, s.run("--help").out)

    def test_lines_fit(self):
        for verb in verbs():
            body = s.run("help", verb).out
            for line in body.split("\n"):
                if not line.startswith("    finetuned") and not line.startswith("    mpirun"):
                    self.assertLessEqual(len(line), 100, f"{verb}: {line}")

    def test_help_and_man_have_the_same_flags(self):
        for verb in verbs():
            page = s.run("man", verb).out.replace("\\-", "-")
            names = set(flags(s.run("help", verb).out)) | {f for part in parts(verb) for f in flags(s.run("help", *part.split()).out)}
            self.assertEqual(set(re.findall(r"(?m)^\\fB(--[\w.-]+)\\fR", page)), names, verb)
            self.assertGreaterEqual(names, {"--help"})

    def test_keys(self):
        names = keys()
        self.assertGreater(len(names), 40)
        page = s.run("man", "job").out.replace("\\-", "-")
        self.assertEqual(re.findall(r"(?m)^\\fB([\w.]+)\\fR$", page), names)
        for verb in ("run", "prepare", "config", "doctor"):
            listed = s.run("help", verb).out.split("Keys of a job file")[1]
            self.assertEqual(re.findall(r"--([\w.]+)", listed.split("\n\n")[0]), names, verb)

    def test_a_key(self):
        result = s.run("help", "train.lr")
        self.assertExit(result, 0)
        self.assertIn("default: 5.0e-05", result.out)
        self.assertEqual(s.run("help", "--train.lr").rc, 64)  # a flag is none of help's own
        section = re.findall(r"(?m)^(\S+)$", s.run("help", "train").out)
        self.assertEqual(section, [key for key in keys() if key.startswith("train.")])
        self.assertRefused(s.run("help", "trian.lr"), 64, "train.lr")
        self.assertRefused(s.run("help", "evl"), 64, "eval")
        self.assertRefused(s.run("help", "bench", "gem"), 64, "gem")

    def test_man(self):
        self.assertTrue(s.run("man").out.startswith('.TH "FINETUNED" "1"'))
        self.assertRefused(s.run("man", "evl"), 64, "eval")
        self.assertRefused(s.run("man", "run", "--out", self.path("m")), 64, "--out")
        self.assertRefused(s.run("man", "--out", os.path.join(self.write("f", ""), "m")), 64)
        self.assertExit(s.run("man", "--out", self.path("a/b")), 0)
        self.assertIn("finetuned-run.1", os.listdir(self.path("a/b")))


class Completion(s.Case):
    @classmethod
    def setUpClass(cls):
        cls.script = s.run("completion", "bash").out

    def complete(self, *words, cwd=None, before=""):
        """What bash would offer behind these words; the last one is the one under the cursor."""
        quoted = " ".join("'" + w.replace("'", "'\\''") + "'" for w in words)
        program = (f"{self.script}\n{before}\nCOMP_WORDS=( {quoted} ); COMP_CWORD={len(words) - 1}\n_finetuned\n"
                   "printf '%s\\n' \"${COMPREPLY[@]}\"\n")
        run = subprocess.run(["bash", "--norc", "-c", program], capture_output=True, text=True, cwd=cwd or self.folder, check=False)
        self.assertEqual(run.stderr, "")
        return sorted(line for line in run.stdout.split("\n") if line)

    def test_sourced_as_documented(self):
        run = subprocess.run(["bash", "--norc", "-ec", f"source <({s.BINARY} completion bash); complete -p finetuned"], capture_output=True, text=True, check=False)
        self.assertEqual((run.returncode, run.stderr), (0, ""), run)
        self.assertIn("-F _finetuned finetuned", run.stdout)

    def test_verbs(self):
        self.assertEqual(self.complete("finetuned", ""), sorted(verbs() + ["--help", "--version"]))
        self.assertEqual(self.complete("finetuned", "tok"), ["tokenize"])
        self.assertEqual(self.complete("finetuned", "help", "toke"), ["tokenize"])
        self.assertEqual(self.complete("finetuned", "help", "train.lr"), ["train.lr"])
        self.assertEqual(self.complete("finetuned", "completion", ""), ["bash", "zsh"])

    def test_every_flag(self):
        names = ["--" + key for key in keys()]
        for verb in verbs():
            for words in [[verb], *[part.split() for part in parts(verb)]]:
                page = s.run("help", *words).out
                wanted = set(flags(page)) | (set(names) if "Keys of a job file" in page else set())
                self.assertEqual(set(self.complete("finetuned", *words, "--")), wanted, words)

    def test_values_of_flags(self):
        for words, wanted in ((["eval", "--split", ""], ["test", "train", "val"]), (["eval", "--split", "t"], ["test", "train"]),
                              (["export", "--to", "h"], ["hf"]), (["export", "--dtype", ""], ["bf16", "fp32"]),
                              (["score", "--task", "st"], ["stance"]), (["predict", "--pair", ""], []), (["tokenize", "--special", "p"], ["parse"])):
            self.assertEqual(self.complete("finetuned", *words), wanted, words)

    def test_values_of_keys(self):
        """Every choice that the options' table allows in this version."""
        for key, allowed, later in re.findall(r"(?m)^(\S+): .*\n.*\n    default: .*; allowed: ([a-z0-9_]+(?:, [a-z0-9_]+)+)$(\n    not in this version yet: .*)?",
                                              s.run("config").out):
            if "all but the default" in later or key == "export.to":
                continue
            wanted = [word for word in allowed.split(", ") if word not in later.split(": ")[-1].split()]
            self.assertEqual(self.complete("finetuned", "run", f"--{key}", ""), sorted(wanted), key)
        self.assertEqual(self.complete("finetuned", "run", "job.yaml", "--train.schedule", "c"), ["constant", "cosine"])
        self.assertEqual(self.complete("finetuned", "doctor", "--log.samples", ""), ["false", "true"])
        self.assertEqual(self.complete("finetuned", "run", "--threads", ""), ["auto"])
        self.assertEqual(self.complete("finetuned", "run", "--train.lr", ""), [])
        self.assertEqual(self.complete("finetuned", "eval", "--train.schedule", ""), [])
        self.assertEqual(self.complete("finetuned", "bench", "step", "--train.schedule", "l"), ["linear"])

    def test_words_as_bash_cuts_them(self):
        self.assertEqual(self.complete("finetuned", "run", "--train.schedule", "=", "l"), ["linear"])
        self.assertEqual(self.complete("finetuned", "run", "--train.schedule", "="), ["constant", "cosine", "linear", "polynomial"])
        self.assertEqual(self.complete("finetuned", "run", "--model.base", "random", ":", "ti"), ["tiny"])
        self.assertEqual(self.complete("finetuned", "run", "--model.base", "random", ":"), ["base", "mini", "tiny"])
        self.assertEqual(self.complete("finetuned", "run", "--model.base", "=", "random", ":", "ti"), ["tiny"])
        whole = self.complete("finetuned", "run", "--model.base=random:ti", before="COMP_WORDBREAKS=' '")  # as zsh hands it over
        self.assertEqual(whole, ["--model.base=random:tiny"])

    def test_lists(self):
        self.assertIn("hf", self.complete("finetuned", "run", "--export.to", ""))
        self.assertEqual(self.complete("finetuned", "run", "--export.to", "sagemaker,h"), ["sagemaker,hf"])

    def test_files(self):
        for name in ("job.yaml", "my job.yml", "data.csv", "model dir/config.json", "runs/x"):
            self.write(name, "")
        self.assertEqual(self.complete("finetuned", "run", ""), ["job.yaml", "model dir", "my job.yml", "runs"])
        self.assertEqual(self.complete("finetuned", "eval", "--model", "m"), ["model dir"])
        self.assertEqual(self.complete("finetuned", "predict", "--file", "d"), ["data.csv"])
        self.assertEqual(self.complete("finetuned", "inspect", "runs/"), ["runs/x"])
        self.assertEqual(self.complete("finetuned", "run", "--checkpoints.resume", ""), ["auto", "model dir", "never", "runs"])

    def test_zsh(self):
        script = s.run("completion", "zsh").out
        self.assertIn("bashcompinit", script)
        self.assertIn("complete -F _finetuned finetuned", script)
        self.assertRefused(s.run("completion", "fish"), 64, "fish", "bash, zsh")
        self.assertRefused(s.run("completion"), 64, "SHELL")


class Hints(s.Case):
    def test_the_verb_is_missing(self):
        self.assertRefused(s.run(), 64, "run", "predict", "--help")
        self.assertRefused(s.run("--model", "m"), 64, "--model", "verb")
        job = self.write("job.yaml", "")
        self.assertRefused(s.run(job), 64, f"finetuned run {job}")

    def test_the_job_is_missing(self):
        self.assertRefused(s.run("run"), 64, "job file", "--model.base")
        self.write("emotion.yaml", "")
        self.assertRefused(s.run("run", self.path("emotoin.yaml")), 64, "emotoin.yaml", f"did you mean {self.path('emotion.yaml')}?")
        self.assertRefused(s.run("run", self.path("other.yaml")), 64, "config --yaml")
        self.assertRefused(s.run("run", self.folder), 64, "is a folder", "a job file is needed")
        self.write("o/job.yaml", "")
        self.assertRefused(s.run("doctor", self.path("o")), 64, f"its job file is {self.path('o/job.yaml')}")

    def test_a_key_without_dashes(self):
        self.assertRefused(s.run("run", "train.lr=3e-5"), 64, "--train.lr=3e-5")

    def test_a_name_of_the_hub(self):
        data = s.task_make(self.path("d"))
        run = ["--data.dir", data, "--data.task", "emotion", "--out", self.path("o")]
        self.assertRefused(s.run("run", "--model.base", "owner/some-model", *run), 65, "nothing is downloaded", "huggingface-cli download owner/some-model")
        self.assertRefused(s.run("predict", "--model", "owner/some-model", "x"), 65, "nothing is downloaded")
        self.assertRefused(s.run("predict", "--model", self.path("none"), "x"), 65, "it is not there")
        os.mkdir(self.path("owner"))
        self.assertNotIn("downloaded", s.run("predict", "--model", "owner/model", "x", cwd=self.folder).err)

    def test_a_word_is_missing(self):
        self.assertRefused(s.run("inspect"), 64, "which PATH")


class Said(s.Case):
    """What was left out once."""

    def test_exit_codes(self):
        self.assertIn("too little room", s.run("--help").out)
        page = s.run("run", "--help").out
        for code in ("64", "65", "69", "70", "74", "75"):
            self.assertRegex(page, rf"\b{code} [a-zI]")

    def test_every_bench_is_named(self):
        names = parts("bench")
        self.assertGreater(len(names), 4)
        line = re.search(r"(?m)^  bench +(.*)$", s.run("--help").out).group(1)
        with open(os.path.join(s.SOURCE, "README.md"), encoding="utf-8") as file:
            readme = next(line for line in file if "finetuned bench step job.yaml" in line)
        for name in names:
            self.assertIn(name.split()[1], line)
            self.assertIn(name.split()[1], readme)
            self.assertEqual(s.run("bench", name.split()[1], "--help").err, "", "nothing is measured, so nothing is too busy")

    def test_inspect_says_what_is_compared(self):
        self.assertIn("done without it too", " ".join(s.run("inspect", "--help").out.split()))


class Paths(s.Case):
    """A path that is nearly right: what was meant, or what to do."""

    def setUp(self):
        super().setUp()
        self.base = s.model_make(self.path("b"))
        self.out = self.path("o")
        self.run_keys = ["--model.base", self.base, "--data.dir", s.task_make(self.path("d"), rows=(8, 4, 4)), "--data.task", "emotion",
                         "--data.max_length", 40, "--train.max_steps", 2, "--threads", 1, "--log.level", "error"]
        self.train(*self.run_keys, "--out", self.out, "--export.to", "hf")

    def meant(self, given, wanted):
        for arguments in (["predict", "--model", given, "x"], ["export", "--from", given, "--to", "hf", "--out", self.path("e")],
                          ["eval", "--model", given, "--file", self.write("t.txt", "x\n")]):
            self.assertRefused(s.run(*arguments), 65, *wanted)

    def test_a_folder_above(self):
        checkpoints = f"{self.out}/checkpoints"
        latest = (f"did you mean {checkpoints}/latest (or {checkpoints}/best)?",)
        self.meant(self.out, (f"did you mean {self.out}/model?",))
        self.meant(checkpoints, latest)
        archive = f"{self.out}/artifacts/{os.listdir(f'{self.out}/artifacts')[0]}"
        self.meant(archive, ("it is an archive: unpack it",))
        os.rename(f"{self.out}/model", self.path("m"))
        self.meant(self.out, latest)
        self.assertRefused(s.run("run", *self.run_keys, "--model.base", f"{checkpoints}/latest", "--out", self.path("n")), 65, "model.base", "is a checkpoint", "export --from")

    def test_checkpoints_resume(self):
        checkpoints = f"{self.out}/checkpoints"
        again = lambda path, *out: s.run("run", *self.run_keys, "--out", *(out or (self.path("n"),)), "--checkpoints.resume", path)
        for path in (self.out, checkpoints):
            self.assertRefused(again(path), 65, f"checkpoints.resume {path}", f"did you mean {checkpoints}/latest")
        for name in ("best", "latest"):
            self.assertRefused(again(name), 65, f"checkpoints.resume {name}", "not there")
            self.assertRefused(again(name, self.out), 65, f"checkpoints.resume {name}", f"did you mean {checkpoints}/{name}?")

    def test_the_base_has_moved(self):
        """A checkpoint needs it: where its place stands, and what to do."""
        latest, now = f"{self.out}/checkpoints/latest", self.path("moved")
        os.rename(self.base, now)
        verbs = (["predict", "--model", latest, "x"], ["export", "--from", latest, "--to", "hf", "--out", self.path("e")],
                 ["eval", "--model", latest, "--file", self.write("t.txt", "x\n"), "--output", self.path("answers")])
        for arguments in verbs:
            self.assertRefused(s.run(*arguments), 65, latest[:-6], f"{self.base} (model.base of", f"{self.out}/job.yaml", "--job")
        with open(f"{self.out}/job.yaml", encoding="utf-8") as file:
            job = self.write("moved.yaml", file.read().replace(f"base: {self.base}", f"base: {now}"))
        for arguments in verbs:
            self.assertExit(s.run(*arguments, "--job", job), 0)
        os.remove(f"{now}/vocab.json")
        self.assertRefused(s.run(*verbs[0], "--job", job), 65, f"{now} (model.base of {job})", "vocab.json is not")

    def test_vocabulary(self):
        def refused(path, *words):
            self.assertRefused(s.run("run", *self.run_keys, "--model.base", "random:tiny", "--out", self.path("n"), "--model.vocab", path), 65, "model.vocab", path, *words)
        refused(self.path("none"), "it is not there")
        refused(self.write("file", "x"), "it is a file")
        refused(self.out, "has none of", f"did you mean {self.out}/model?")
        os.mkdir(self.path("empty"))
        refused(self.path("empty"), "the folder has none of")
        tokens = s.json_read(f"{self.base}/vocab.json")
        os.mkdir(self.path("less"))
        s.json_write(self.path("less/vocab.json"), {k: v for k, v in tokens.items() if k != "a"})
        s.shutil.copyfile(f"{self.base}/merges.txt", self.path("less/merges.txt"))
        refused(self.path("less"), "vocab.json: no token for byte 0x61")
        for ranks in (0, 2):
            result = s.run("run", *self.run_keys, "--out", self.path("v"), "--model.vocab", self.base, "--log.level", "warn", ranks=ranks)
            self.assertExit(result, 0, f"model.vocab: {self.base} is not used")
            self.assertEqual(result.err.count("is not used"), 1)

    def test_a_token_of_the_hub(self):
        token = "hf_" + "aB3" * 11
        for key in ("model.base", "job", "data.task"):
            result = s.run("run", *self.run_keys, "--out", self.path("n"), f"--{key}", token)
            self.assertRefused(result, 64, key, "hf_***", "environment")
            self.assertNotIn("aB3", result.err)
        self.assertNotIn("aB3", s.run("predict", "--model", token, "x").err)


if __name__ == "__main__":
    s.main()
