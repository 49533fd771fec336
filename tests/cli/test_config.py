# SPDX-License-Identifier: Apache-2.0
"""finetuned config beyond what test_usage.py asks of it: values, files that are edited, its own wrong arguments."""
import support as s


class Config(s.Case):
    def test_list(self):
        result = s.run("config")
        self.assertIn("train.lr: 5.0e-05\n", result.out)
        self.assertIn("allowed: a number from 0 to 1000000", result.out)

    def test_values(self):
        path = self.write("mine.yaml", "train:\n  lr: 3e-5\n  epochs: 2\n")
        result = s.run("config", path, "--train.epochs", "7", "--train.batch=8")
        self.assertExit(result, 0)
        for line in ("job: mine\n", "train.lr: 3.0e-05\n", "train.epochs: 7\n", "train.batch: 8\n", "out: runs/mine\n"):
            self.assertIn(line, result.out)

    def test_edited(self):
        text = s.run("config", "--yaml").out
        path = self.write("edited.yaml", text.replace("out: runs/<job>", "out: elsewhere"))
        result = s.run("config", path)
        self.assertIn("checkpoints.dir: elsewhere/checkpoints\n", result.out)
        self.assertIn("data.cache: elsewhere/shards\n", result.out)

    def test_no_exports(self):
        path = self.write("none.yaml", "export:\n  to:\n")
        for arguments in (["--export.to="], ["--export.to", ""], ["--export.to", "none"], ["--export.to", "[]"], [path]):
            result = s.run("config", *arguments)
            self.assertExit(result, 0)
            self.assertIn("export.to: []\n", result.out)
        self.assertRefused(s.run("config", "--export.to", "hf,"), 64, "export.to")
        self.assertRefused(s.run("config", "--train.betas="), 64, "empty")

    def test_what_is_not_there_yet(self):
        """A file to edit says which values this version refuses, as the list does."""
        text = s.run("config", "--yaml").out
        listed = [line.strip() for line in s.run("config").out.split("\n") if "not in this version yet" in line]
        marked = [line for line in text.split("\n") if "(not in this version yet: " in line]
        self.assertEqual(len(marked), len(listed))
        for line, of in zip(marked, listed):
            self.assertTrue(line.endswith(f"({of})"), (line, of))
        for line in marked:
            self.assertIn(" # ", line)

    def test_refused(self):
        self.assertRefused(s.run("config", "--yaml", "--markdown"), 64, "--markdown")
        self.assertRefused(s.run("config", "a.yaml", "b.yaml"), 64, "a.yaml", "b.yaml")
        self.assertRefused(s.run("config", "--markdwon"), 64, "--markdown")
        self.assertRefused(s.run("config", "--train.lr", "--yaml"), 64, "--train.lr needs a value")


if __name__ == "__main__":
    s.main()
