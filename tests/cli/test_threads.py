# SPDX-License-Identifier: Apache-2.0
"""Every part of a run that uses threads, with more of them than processors: pool, saves while training goes on, heartbeats, evaluation,
export, prediction. The same bits as with one thread; under the thread sanitizer (./check builds it so) no race either."""
import shim
import support as s


class Threads(s.Case):
    def setUp(self):
        super().setUp()
        self.data = s.task_make(self.path("d"), rows=(24, 10, 9))
        self.base = s.model_make(self.path("m"), dropout=0.2)

    def go(self, name, threads, *more, **options):
        self.train("--model.base", self.base, "--data.dir", self.data, "--data.task", "emotion", "--data.max_length", 40, "--threads", threads,
                   "--train.batch", 8, "--train.parts", 4, "--train.epochs", 2, "--train.lr", 1e-3, "--checkpoints.every", 2, "--log.every", 1,
                   "--out", self.path(name), *more, **options)
        return self.path(name)

    def same(self, one, two):
        self.assertEqual(s.course(two), s.course(one))
        for group in ("model", "optimizer"):
            self.assertEqual(s.tensors_differ(s.checkpoint_tensors(s.checkpoint(two), group), s.checkpoint_tensors(s.checkpoint(one), group)), [])

    def test_run(self):
        one = self.go("one", 1)
        four = self.go("four", 4, env=shim.cpus(4))
        self.assertEqual([e["threads"] for e in s.events(four, "start")], [4])
        self.same(one, four)
        texts = "\n".join(text for text, _ in s.rows_make(40))
        answers = [s.run("predict", "--model", four + "/model", stdin=texts, before=before) for before in (("taskset", "-c", "0"), ())]
        for answer in answers:
            self.assertExit(answer, 0)
        self.assertEqual(answers[0].out, answers[1].out)

    def test_ranks(self):
        self.same(self.go("one", 1), self.go("ranks", 3, ranks=2, env=shim.cpus(6)))


if __name__ == "__main__":
    s.main()
