# SPDX-License-Identifier: Apache-2.0
"""The SageMaker archive: layout, equal bytes, made again where it is missing; and its handler, called as the container calls it,
with a small stand-in for torch and transformers (the real ones: tests/oracle/sagemaker_handler.py)."""
import hashlib
import importlib.util
import json
import math
import os
import py_compile
import shutil
import sys
import tarfile
import types

import support as s

SCRIPT = os.path.join(s.SOURCE, "export", "sagemaker", "inference.py")


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


class Archive(s.Case):
    @classmethod
    def setUpClass(cls):
        cls.root = s.tempfile.mkdtemp(prefix="finetuned-test-")
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        cls.data, cls.out = s.task_make(os.path.join(cls.root, "d")), os.path.join(cls.root, "o")
        cls.job = s.job_write(os.path.join(cls.root, "small.yaml"), cls.data, cls.out, export__to="[hf, sagemaker]", train__epochs=1)
        result = s.run("run", cls.job)
        if result.rc:
            raise AssertionError(str(result))
        cls.archive = os.path.join(cls.out, "artifacts", "small-sagemaker.tar.gz")

    def test_layout(self):
        model = os.path.join(self.out, "model")
        with tarfile.open(self.archive) as archive:
            members = archive.getmembers()
            names = [m.name for m in members]
            self.assertEqual(sorted(names), sorted(["code/inference.py", *os.listdir(model)]))
            self.assertEqual(names, sorted(names))
            for member in members:
                self.assertEqual((member.isfile(), member.mode, member.mtime, member.uid, member.gid), (True, 0o644, 0, 0, 0))
                with open(SCRIPT if member.name == "code/inference.py" else os.path.join(model, member.name), "rb") as file:
                    inside, beside = archive.extractfile(member).read(), file.read()
                if member.name == "finetuned.sha256":  # the archive's lists the script too
                    inside = b"".join(line for line in inside.splitlines(True) if not line.endswith(b"code/inference.py\n"))
                self.assertEqual(inside, beside, member.name)

    def test_event(self):
        kinds = [e["kind"] for e in s.events(self.out, "export")]
        self.assertEqual(kinds, ["model", "hf", "sagemaker"])
        event = s.events(self.out, "export")[-1]
        self.assertEqual((event["path"], event["bytes"], event["sha256"]), (self.archive, os.path.getsize(self.archive), sha256(self.archive)))
        self.assertIn("logits", event["check"])
        self.assertEqual(sorted(os.listdir(os.path.join(self.out, "artifacts"))), ["small-hf.tar.gz", "small-sagemaker.tar.gz"])

    def test_same_bytes(self):
        """Of another run of the same job, and of two exports by the verb, into a folder that holds other things."""
        twin = os.path.join(self.root, "twin")
        self.train(self.job, "--out", twin)
        self.assertEqual(sha256(os.path.join(twin, "artifacts", "small-sagemaker.tar.gz")), sha256(self.archive))
        self.write("e/precious.txt", "mine")
        for folder in ("e", "f"):
            result = s.run("export", "--from", os.path.join(self.out, "model"), "--to", "sagemaker", "--out", self.path(folder))
            self.assertExit(result, 0)
            self.assertIn("model-sagemaker.tar.gz", result.out)
        self.assertEqual(sha256(self.path("e/model-sagemaker.tar.gz")), sha256(self.path("f/model-sagemaker.tar.gz")))
        self.assertEqual(sorted(os.listdir(self.path("e"))), ["model-sagemaker.tar.gz", "precious.txt"])
        self.assertEqual(sha256(self.path("e/model-sagemaker.tar.gz")), sha256(self.archive), "the verb makes what the run made")

    def test_unpacked_it_answers(self):
        with tarfile.open(self.archive) as archive:
            archive.extractall(self.path("m"))
        self.assertEqual(s.run("predict", "--model", self.path("m"), "happy day").out,
                         s.run("predict", "--model", os.path.join(self.out, "model"), "happy day").out)

    def test_missing_is_made_again(self):
        out = os.path.join(self.root, "again")
        shutil.copytree(self.out, out, symlinks=True)
        hf, before = os.path.join(out, "artifacts", "small-hf.tar.gz"), sha256(self.archive)
        os.remove(os.path.join(out, "artifacts", "small-sagemaker.tar.gz"))
        stamp = os.stat(hf).st_mtime_ns
        self.assertIn("already complete", self.train(self.job, "--out", out).err)
        self.assertEqual(sha256(os.path.join(out, "artifacts", "small-sagemaker.tar.gz")), before)
        self.assertEqual(os.stat(hf).st_mtime_ns, stamp, "only what is missing is made")

    def test_the_disk_is_full(self):
        """An artifact is whole or not there; the exit code says I/O."""
        out = self.path("o")
        self.train(self.job, "--out", out, "--export.to", "hf")
        os.makedirs(os.path.join(out, "artifacts", ".small-sagemaker.tar.gz.tmp-finetuned-1-0"))
        limit = os.path.getsize(self.archive) // 2  # bytes that a file may have
        result = s.run("run", self.job, "--out", out, before=("bash", "-c", f"ulimit -f {limit // 1024}; exec \"$@\"", "sh"))
        self.assertExit(result, 74)
        self.assertEqual(os.listdir(os.path.join(out, "artifacts")), ["small-hf.tar.gz"])
        self.train(self.job, "--out", out)
        self.assertEqual(sha256(os.path.join(out, "artifacts", "small-sagemaker.tar.gz")), sha256(self.archive))


# ---- a stand-in for torch and transformers: words are tokens, "<s>" is a special one

class Tensor:
    def __init__(self, values):
        self.values = values

    def to(self, _):
        return self

    float = cpu = lambda self: self

    def tolist(self):
        return self.values


class Nothing:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


class Encoded(dict):
    def sequence_ids(self, i):
        return self.sequences[i]


class Tokenizer:
    all_special_tokens, all_special_ids, unk_token, model_max_length = ["<s>", "<unk>"], [0, 3], "<unk>", 64
    honest = True  # keeps special tokens literal when told to

    def __init__(self, literal):
        self.literal, self.asked = literal, []

    def num_special_tokens_to_add(self, pair):
        return 3 if pair else 2

    def ids(self, text):
        return [0 if word == "<s>" and not (self.literal and self.honest) else 10 + len(word) for word in text.split(" ")]

    def __call__(self, text, pair=None, **options):
        if isinstance(text, str) and pair is None:
            return {"input_ids": self.ids(text)}
        self.asked.append((text, pair, options))
        return self.windows(text, pair, options) if isinstance(text, str) else {
            "input_ids": [[len(t)] for t in text], "attention_mask": [[1] for _ in text]}

    def windows(self, question, context, options):
        """<s> question </s> context </s>: windows of words of the context that share `stride` of them."""
        words, at = [], 0
        for word in context.split(" "):
            words.append((at, at + len(word)))
            at += len(word) + 1
        own = len(question.split(" "))
        room, first = options["max_length"] - 3 - own, 0
        encoded = Encoded(input_ids=[], attention_mask=[], offset_mapping=[])
        encoded.sequences = []
        while True:
            piece = words[first:first + room]
            encoded["input_ids"].append([0, *[5] * own, 2, *[context[a:b] for a, b in piece], 2])
            encoded["attention_mask"].append([1] * (own + 3 + len(piece)))
            encoded["offset_mapping"].append([(0, 0), *[(0, 1)] * own, (0, 0), *piece, (0, 0)])
            encoded.sequences.append([None, *[0] * own, None, *[1] * len(piece), None])
            if first + room >= len(words):
                return encoded
            first += room - options["stride"]


class Network:
    def __init__(self, config):
        self.config = config

    float = eval = lambda self: self

    def to(self, _):
        return self

    def __call__(self, input_ids, attention_mask):
        if "ForSequenceClassification" in self.config.architectures[0]:
            return {"logits": Tensor([[0.5, row[0] / 10, -1.0] for row in input_ids.values])}
        score = lambda token, word: 5.0 if token == word else 0.1
        return {"start_logits": Tensor([[score(t, "gull") for t in row] for row in input_ids.values]),
                "end_logits": Tensor([[score(t, "island") for t in row] for row in input_ids.values])}


def handler_load(folder, architecture, **settings):
    """The script's module, and a model of it in `folder`."""
    s.json_write(os.path.join(folder, "finetuned.json"), {"format": 1, "max_length": 12, "normalize": "none", "special_tokens": "literal",
                                                          "doc_stride": 3, **settings})
    config = types.SimpleNamespace(architectures=[architecture], id2label={0: "joy", 1: "anger", 2: "fear"})
    automatic = lambda make: types.SimpleNamespace(from_pretrained=make)
    torch = types.SimpleNamespace(tensor=Tensor, no_grad=Nothing, device=str, cuda=types.SimpleNamespace(is_available=lambda: False))
    network = automatic(lambda path: Network(config))
    transformers = types.SimpleNamespace(
        __version__="0", AutoTokenizer=automatic(lambda path, split_special_tokens: Tokenizer(split_special_tokens)),
        AutoConfig=automatic(lambda path: config), AutoModelForSequenceClassification=network, AutoModelForQuestionAnswering=network)
    spec = importlib.util.spec_from_file_location("inference", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    kept = {name: sys.modules.get(name) for name in ("torch", "transformers")}
    sys.modules.update(torch=torch, transformers=transformers)
    try:
        spec.loader.exec_module(module)
    finally:
        for name, value in kept.items():
            sys.modules.pop(name)
            if value:
                sys.modules[name] = value
    return module, module.model_fn(folder)


def ask(module, model, request, content_type="application/json"):
    body = request if isinstance(request, (str, bytes)) else json.dumps(request)
    return json.loads(module.output_fn(module.predict_fn(module.input_fn(body, content_type), model), "application/json"))


class Handler(s.Case):
    def load(self, architecture="RobertaForSequenceClassification", **settings):
        return handler_load(self.folder, architecture, **settings)

    def refused(self, module, model, request, *words, content_type="application/json"):
        with self.assertRaises(module.RequestError) as caught:
            ask(module, model, request, content_type)
        for word in words:
            self.assertIn(word, str(caught.exception), request)

    def test_syntax(self):
        py_compile.compile(SCRIPT, cfile=self.path("x.pyc"), doraise=True)

    def test_labels(self):
        module, model = self.load()
        powers = [math.exp(v) for v in (0.5, 0.9, -1.0)]
        answer, = ask(module, model, {"inputs": "123456789"})
        self.assertEqual(answer["label"], "anger")
        self.assertAlmostEqual(answer["score"], powers[1] / sum(powers), places=12)
        two = ask(module, model, {"inputs": ["1", {"text": "123456789"}]})
        self.assertEqual([a["label"] for a in two], ["joy", "anger"])
        every, = ask(module, model, {"inputs": "123456789", "parameters": {"top_k": 0}})
        self.assertEqual([a["label"] for a in every], ["anger", "joy", "fear"])
        self.assertEqual(every, ask(module, model, {"inputs": "123456789", "parameters": {"top_k": 5}})[0])
        self.assertEqual(every[:2], ask(module, model, {"inputs": "123456789", "parameters": {"top_k": 2}})[0])
        self.assertEqual(ask(module, model, {"inputs": []}), [])
        many = ask(module, model, {"inputs": [str(10 ** (n % 20)) for n in range(100)]})
        self.assertEqual(many, [ask(module, model, {"inputs": str(10 ** (n % 20))})[0] for n in range(100)], "whatever shares its batch")

    def test_pairs(self):
        module, model = self.load()
        ask(module, model, {"inputs": [{"text": "a", "text_pair": "b"}, {"text": "c", "text_pair": ""}]})
        texts, pairs, options = model.tokenizer.asked[-1]
        self.assertEqual((texts, pairs), (["a", "c"], ["b", ""]))
        self.assertEqual((options["truncation"], options["max_length"]), (True, 12))
        ask(module, model, {"inputs": {"text": "a", "text_pair": None}})
        self.assertIsNone(model.tokenizer.asked[-1][1])
        self.refused(module, model, {"inputs": [{"text": "a", "text_pair": "b"}, "c"]}, "text_pair")

    def test_recorded_length(self):
        for recorded, used in ((12, 12), (0, 64), (500, 64)):
            module, model = self.load(max_length=recorded)
            ask(module, model, {"inputs": "a"})
            self.assertEqual(model.tokenizer.asked[-1][2]["max_length"], used)

    def test_normalize(self):
        text = "@you see http://t.co/a @ me@home https httpd"
        module, model = self.load(normalize="tweet")
        ask(module, model, {"inputs": text})
        self.assertEqual(model.tokenizer.asked[-1][0], ["@user see http @ me@home http http"])
        module, model = self.load()
        ask(module, model, {"inputs": text})
        self.assertEqual(model.tokenizer.asked[-1][0], [text])

    def test_special_tokens(self):
        self.assertTrue(self.load()[1].tokenizer.literal)
        self.assertFalse(self.load(special_tokens="parse")[1].tokenizer.literal)
        Tokenizer.honest = False
        self.addCleanup(setattr, Tokenizer, "honest", True)
        self.load(special_tokens="parse")
        with self.assertRaisesRegex(RuntimeError, "<s>.*special_tokens"):
            self.load()

    def test_settings_of_tomorrow(self):
        for key, value in (("format", 2), ("normalize", "more"), ("special_tokens", "some")):
            with self.assertRaisesRegex(RuntimeError, key):
                self.load(**{key: value})

    def test_bad_requests(self):
        module, model = self.load()
        cases = [("{", "JSON"), (b"\xff", "JSON"), ([], "inputs"), ({}, "inputs"), ({"inputs": 7}, "input 0"), ({"inputs": ["a", None]}, "input 1"),
                 ({"inputs": "a", "input": 1}, "input"), ({"inputs": {"text": 7}}, "strings"), ({"inputs": {"txt": "a"}}, "text"),
                 ({"inputs": {"text": "a", "pair": "b"}}, "pair"), ({"inputs": "a", "parameters": 3}, "parameters"),
                 ({"inputs": "a", "parameters": {"top": 3}}, "top_k"), ({"inputs": "a", "parameters": {"top_k": -1}}, "top_k"),
                 ({"inputs": "a", "parameters": {"top_k": True}}, "top_k"), ({"inputs": {"question": "a", "context": "b"}}, "text")]
        for request, word in cases:
            self.refused(module, model, request, word)
        self.refused(module, model, {"inputs": "a"}, "text/csv", content_type="text/csv")
        self.assertEqual(ask(module, model, b'{"inputs": "a"}', "Application/JSON; charset=utf-8")[0]["label"], "joy")
        with self.assertRaises(module.RequestError):
            module.output_fn([], "text/csv")
        for accept in ("*/*", None, "text/html, application/json;q=0.9"):
            self.assertEqual(module.output_fn(["\u00e9"], accept), '["\u00e9"]')

    def test_answers(self):
        module, model = self.load("BertForQuestionAnswering")
        context = " ".join(["the lighthouse stands on the tip of", "gull rock and", "island"] + ["two miles from the harbour"] * 3)
        answer, = ask(module, model, {"inputs": {"question": "where is it ?", "context": context}})
        self.assertEqual(answer["answer"], "gull rock and island")
        self.assertEqual(context[answer["start"]:answer["end"]], answer["answer"])
        self.assertTrue(0.5 < answer["score"] < 1)
        best, = ask(module, model, {"inputs": [{"question": "where is it ?", "context": context}], "parameters": {"top_k": 0}})
        self.assertAlmostEqual(sum(a["score"] for a in best), 1, places=12)
        self.assertEqual(len({(a["start"], a["end"]) for a in best}), len(best), "windows overlap; an answer counts once")
        self.refused(module, model, {"inputs": "a"}, "question", "context")
        self.refused(module, model, {"inputs": {"question": "a"}}, "context")
        self.refused(module, model, {"inputs": {"question": "a " * 20, "context": "b"}}, "question", "tokens")

    def test_answers_against_the_facts(self):
        """golden/qa: the best span of the given scores."""
        with open(s.golden("FINETUNED_GOLDEN", "qa", "cases.json"), encoding="utf-8") as file:
            cases = json.load(file)
        module, _ = self.load("BertForQuestionAnswering")
        for case in cases:
            module.ANSWER_TOKENS = case["max_answer_len"]
            found = module.spans_of_window(case["start_logits"], case["end_logits"], case["offsets"],
                                           [None if q < 0 else q for q in case["seq"]])
            want = case["expected"]
            module.SPANS = case["n_best"]
            merged = module.spans_merge([found])
            scores = module.softmax([score for score, _, _ in merged])
            self.assertEqual([span[1:] for span in merged], [(w["byte_start"], w["byte_end"]) for w in want])
            self.assertEqual([span[1:3] for span in found[:len(want)]], [(w["start"], w["end"]) for w in want])
            for (score, _, _), probability, w in zip(merged, scores, want):
                self.assertAlmostEqual(score, w["score"], delta=1e-5)
                self.assertAlmostEqual(probability, w["prob"], delta=1e-5)

    def test_no_answer(self):
        module, model = self.load("BertForQuestionAnswering")
        row = {"question": "  who ?", "context": "nobody is here"}
        self.assertEqual(ask(module, model, {"inputs": row, "parameters": {"handle_impossible_answer": False}})[0]["answer"], "nobody")
        answers, = ask(module, model, {"inputs": row, "parameters": {"handle_impossible_answer": True, "top_k": 0}})
        self.assertEqual(model.tokenizer.asked[-1][0], "who ?", "white space in front of a question is left out")
        none, = [a for a in answers if not a["answer"]]
        self.assertEqual((none["start"], none["end"]), (0, 0))
        self.assertEqual(len(answers), 7)
        self.refused(module, model, {"inputs": row, "parameters": {"handle_impossible_answer": 1}}, "true")
        for recorded, asked, empty in ((True, None, True), (True, False, False), (False, None, False), (False, True, True)):
            module, model = self.load("BertForQuestionAnswering", no_answer=recorded)
            parameters = {"top_k": 0} if asked is None else {"top_k": 0, "handle_impossible_answer": asked}
            answers, = ask(module, model, {"inputs": row, "parameters": parameters})
            self.assertEqual("" in [a["answer"] for a in answers], empty)
        module, model = self.load()
        self.refused(module, model, {"inputs": "a", "parameters": {"handle_impossible_answer": True}}, "top_k")

    def test_answers_in_normalised_text(self):
        """Offsets are those of the text as it was sent; a replaced word counts as a whole."""
        module, model = self.load("BertForQuestionAnswering", normalize="tweet", max_length=30)
        context = "@somebody saw the gull island @other http://t.co/long near"
        answer, = ask(module, model, {"inputs": {"question": "@you ?", "context": context}})
        self.assertEqual(model.tokenizer.asked[-1][:2], ("@user ?", "@user saw the gull island @user http near"))
        self.assertEqual((answer["answer"], context[answer["start"]:answer["end"]]), ("gull island", "gull island"))
        _, replaced = module.tweet_normalize(context)
        self.assertEqual(module.span_map(1, 2, replaced), (0, 9))
        self.assertEqual(module.span_map(6, 33, replaced), (10, 54 - 1))

if __name__ == "__main__":
    s.main()
