# SPDX-License-Identifier: Apache-2.0
"""Credentials are nowhere: whatever the environment holds, nothing printed and nothing written has it; a job may hold none."""
import gzip
import os
import tarfile

import support as s

SECRETS = {
    "AWS_ACCESS_KEY_ID": "AKIAQQSECRETQQKEYID1", "AWS_SECRET_ACCESS_KEY": "wJalrQQsecretQQ/K7MDENG+bPxRfiCY", "AWS_SESSION_TOKEN": "FwoGQQsecretQQsession==",
    "HF_TOKEN": "hf_QQsecretQQtoken", "HUGGING_FACE_HUB_TOKEN": "hf_QQsecretQQold", "WANDB_API_KEY": "QQsecretQQwandb", "GITHUB_TOKEN": "ghp_QQsecretQQgithub",
    "https_proxy": "http://user:QQsecretQQproxy@proxy:3128", "MYSQL_PWD": "QQsecretQQmysql", "FINETUNED_TOKEN": "QQsecretQQours",
    "SLURM_JWT": "QQsecretQQslurm",
}
MARKS = (b"QQsecretQQ", b"QQSECRETQQ")  # in every one of them
PASSWORD = "QQsecretQQpassword"
URLS = (f"s3://user:{PASSWORD}@bucket/prefix", f"https://{PASSWORD}@host/repo", f"https://host/model.bin?X-Amz-Signature={PASSWORD}&x=1",
        f"https://user:{PASSWORD}" + "x" * 200 + "@host/a", f"https://host/x#access_token={PASSWORD}", f"//user:{PASSWORD}@host/a",
        f"http:/user:{PASSWORD}@host/a", f"a/https:/user:{PASSWORD}@host", f"https://host;pw={PASSWORD}",
        f"https:user:{PASSWORD}@host", f"s3:key:{PASSWORD}@bucket", f"https://host/x%3Ftoken={PASSWORD}", f"/mnt//user:{PASSWORD}@host/x", f"user:{PASSWORD}@host:/x",
        "hf_" + "QQsecretQQ" * 3 + "abcd")


def texts_of(path):
    """What a file holds, unpacked where it is an archive: (where, bytes)."""
    with open(path, "rb") as file:
        content = file.read()
    yield path, content
    if path.endswith(".gz"):
        yield path, gzip.decompress(content)
        with tarfile.open(path) as archive:
            for member in archive.getmembers():
                held = archive.extractfile(member)
                yield f"{path}: {member.name}", repr(member.get_info()).encode() + (held.read() if held else b"")


class Credentials(s.Case):
    def assertNowhere(self, *results):
        for result in results:
            for text in (result.raw, result.err.encode()):
                self.assertFalse(any(mark in text for mark in MARKS), f"printed: {result}")
        for folder, folders, files in os.walk(self.folder):
            for name in folders + files:
                self.assertFalse(any(mark in name.encode() for mark in MARKS), name)
            for name in files:
                for where, content in texts_of(os.path.join(folder, name)):
                    self.assertFalse(any(mark in content for mark in MARKS), f"written to {where}")

    def test_of_the_environment(self):
        data = s.task_make(self.path("d"), rows=(8, 4, 4))
        job = s.job_write(self.path("job.yaml"), data, self.path("o"), train__max_steps=2, log__level="debug", export__to="[hf, sagemaker]")
        go = lambda *arguments, **options: s.run(*arguments, env=SECRETS, **options)
        results = [go("run", job), go("run", job), go("report", self.path("o")), go("report", "--json", self.path("o")), go("doctor", job), go("config", job, "--yaml"),
                   go("inspect", "--verify", self.path("o/checkpoints/latest")), go("predict", "--model", self.path("o/model"), "a"),
                   go("sweep", job, "--out", self.path("s"), "--sweep.seeds", "1,2", "--train.max_steps", "1"),
                   go("run", job, "--out", self.path("two"), "--log.level", "debug", ranks=2),
                   go("run", job, "--out", self.path("three"), "--train.lr", "x"), go("predict", "--model", self.path("none"), "a")]
        self.assertEqual([r.rc for r in results], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 64, 65], "\n".join(map(str, results)))
        self.assertTrue(os.path.exists(self.path("o/artifacts/job-sagemaker.tar.gz")), "something was exported")
        self.assertNowhere(*results)

    def test_of_a_crash(self):
        """A run that is ended from outside, and the stop event of one that diverges, tell no more."""
        data = s.task_make(self.path("d"), rows=(8, 4, 4))
        job = s.job_write(self.path("job.yaml"), data, self.path("o"), log__level="debug")
        diverged = s.run("run", job, env={**SECRETS, "FINETUNED_FAULT": "nan:rank=0,cursor=0,count=3"})
        self.assertEqual(diverged.rc, 65, diverged)
        self.assertNowhere(diverged)

    def test_in_a_job(self):
        """Refused, as a key of the file and as a flag, with the value masked and nothing made."""
        data = s.task_make(self.path("d"), rows=(8, 4, 4))
        for key in ("model.base", "model.vocab", "data.dir", "data.task", "data.cache", "data.columns.text", "checkpoints.dir", "checkpoints.resume", "export.s3", "out", "job",
                    "sweep.tasks", "train.lr", "train.schedule", "train.class_weights", "export.to", "nonsense"):
            for url in URLS:
                with self.subTest(key=key, url=url[:20]):
                    section, _, name = key.rpartition(".")
                    line = f"{name}: [{url}]" if key in ("sweep.tasks", "export.to") else f"{name}: {url}"
                    text = line + "\n" if not section else None
                    for at in reversed(section.split(".")) if section else ():
                        text = at + ":\n" + "".join(f"  {one}\n" for one in (text or line).splitlines())
                    file = self.write("bad.yaml", text)
                    results = [s.run("config", file, cwd=self.folder),
                               s.run("run", "--data.dir", data, "--model.base", "random:tiny", "--data.task", "emotion", f"--{key}", url, cwd=self.folder)]
                    os.remove(file)
                    for result in results:
                        self.assertRefused(result, 64, key)
                    self.assertNowhere(*results)
        self.assertEqual(sorted(os.listdir(self.folder)), ["d"], "nothing is made")

    def test_in_a_flag(self):
        """A verb's own flags and words: not there, and masked in the message."""
        model = s.model_make(self.path("m"), s.LABELS, hidden=16, layers=1, ffn=16)
        for arguments in (["predict", "--model", "%s", "a"], ["tokenize", "--model", "%s", "a"], ["eval", "--model", "%s", "--data.dir", "d", "--data.task", "emotion"],
                          ["eval", "--model", model, "--data.dir", "%s", "--data.task", "emotion"], ["predict", "--model", model, "--file", "%s"],
                          ["score", "--data.dir", "%s", "--predictions", "p", "--task", "emotion"], ["inspect", "%s"], ["report", "%s"], ["config", "%s"],
                          ["export", "--from", "%s", "--to", "hf", "--out", self.path("e")], ["bench", "%s"], ["doctor", "%s"], ["%s"], ["predict", "--%s"],
                          ["tokenize", "--model", model, "--special", "%s", "a"]):
            for url in URLS[:3]:
                with self.subTest(arguments=arguments):
                    result = s.run(*[a.replace("%s", url) for a in arguments])
                    self.assertIn(result.rc, (64, 65), result)
                    self.assertNowhere(result)

    def test_of_ranks(self):
        """What other ranks report goes through the same door."""
        data = s.task_make(self.path("d"), rows=(8, 4, 4))
        result = s.run("run", "--model.base", f"https://user:{PASSWORD}@host/m", "--data.dir", data, "--data.task", "emotion", "--out", self.path("o"), ranks=2)
        self.assertEqual(result.rc, 64, result)
        # mpirun prints the command's name only; its own lines are part of what is looked at.
        self.assertNowhere(result)


if __name__ == "__main__":
    s.main()
