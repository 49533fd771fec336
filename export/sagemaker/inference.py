# SPDX-License-Identifier: Apache-2.0
"""Answers requests in SageMaker's Hugging Face inference container, for a model that finetuned has made.

The container calls model_fn once and then, for each request, input_fn, predict_fn and output_fn. A request is JSON:

    {"inputs": "a text"}                             or a list of texts
    {"inputs": {"text": "…", "text_pair": "…"}}      pairs of texts, or a list of them
    {"inputs": {"question": "…", "context": "…"}}    a question answering model; or a list of them

The answer is a list with an entry for each input: {"label", "score"}, or {"answer", "score", "start", "end"}, where start and end
count characters of the context. With "parameters": {"top_k": n} an entry is a list of the n best (0: of all labels).
Texts are treated as in training, by what finetuned.json beside the model records.
"""
import json
import math
import os

import torch
import transformers

BATCH = 32  # texts that run at once
ANSWER_TOKENS = 30  # of the longest answer
SPANS = 20  # answers whose scores add up to 1


class RequestError(ValueError):
    """What is wrong with a request; the container answers 400 with it."""


class Model:
    """A loaded model and how its texts are treated."""

    def __init__(self, network, tokenizer, settings, device):
        self.network, self.tokenizer, self.device = network, tokenizer, device
        self.answers = is_question_answering(network.config)
        self.tweets = settings.get("normalize", "none") == "tweet"
        self.length = min(settings.get("max_length") or tokenizer.model_max_length, tokenizer.model_max_length)
        self.stride = settings.get("doc_stride") or 128


# ---- loading

def is_question_answering(config):
    return any(name.endswith("ForQuestionAnswering") for name in config.architectures or [])


def settings_read(model_dir):
    """finetuned.json; a newer format than ours, or a value that we don't know, is refused."""
    path = os.path.join(model_dir, "finetuned.json")
    with open(path, encoding="utf-8") as file:
        settings = json.load(file)
    known = {"format": (1,), "normalize": ("none", "tweet"), "special_tokens": ("literal", "parse")}
    for key, values in known.items():
        if settings.get(key, values[0]) not in values:
            raise RuntimeError(f"{path}: {key} is {settings[key]!r}, must be one of {values}")
    return settings


def literal_check(tokenizer):
    """User text must not be able to write a special token: older libraries accept the setting and ignore it."""
    for token, number in zip(tokenizer.all_special_tokens, tokenizer.all_special_ids):
        if token != tokenizer.unk_token and number in tokenizer(token, add_special_tokens=False)["input_ids"]:
            raise RuntimeError(f"transformers {transformers.__version__} turns {token!r} in a text into the special token: "
                               "take a container with a newer one, or train with data.special_tokens: parse")


def model_fn(model_dir):
    settings = settings_read(model_dir)
    literal = settings.get("special_tokens", "literal") == "literal"
    tokenizer = transformers.AutoTokenizer.from_pretrained(model_dir, split_special_tokens=literal)
    if literal:
        literal_check(tokenizer)
    config = transformers.AutoConfig.from_pretrained(model_dir)
    kind = transformers.AutoModelForQuestionAnswering if is_question_answering(config) else transformers.AutoModelForSequenceClassification
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    network = kind.from_pretrained(model_dir).float().eval().to(device)  # in 32 bits whatever the file holds, as in training
    return Model(network, tokenizer, settings, device)


# ---- the request

def input_fn(request_body, content_type="application/json"):
    """The request as an object."""
    if (content_type or "application/json").split(";")[0].strip().lower() != "application/json":
        raise RequestError(f"the content type is {content_type}, must be application/json")
    try:
        text = request_body.decode("utf-8") if isinstance(request_body, (bytes, bytearray)) else request_body
        return json.loads(text)
    except ValueError as error:
        raise RequestError(f"the request is not valid JSON: {error}") from None


def request_parse(data, keys, second):
    """([(first text, second or None)], top_k or None). keys: the two texts' names in an object; second: whether both must be there."""
    shape = "{" + ", ".join(f'"{key}": …' for key in keys) + "}"
    if not isinstance(data, dict) or "inputs" not in data:
        raise RequestError('the request must be an object with "inputs"')
    unknown = sorted(set(data) - {"inputs", "parameters"})
    if unknown:
        raise RequestError(f'unknown key {unknown[0]!r} beside "inputs"; allowed: "parameters"')
    inputs = data["inputs"] if isinstance(data["inputs"], list) else [data["inputs"]]
    return [input_parse(value, i, keys, second, shape) for i, value in enumerate(inputs)], top_parse(data.get("parameters"))


def input_parse(value, i, keys, second, shape):
    if isinstance(value, str) and not second:
        return value, None
    wanted = f"input {i} must be {'' if second else 'a string or '}{shape}"
    if not isinstance(value, dict) or keys[0] not in value or (second and keys[1] not in value):
        raise RequestError(wanted)
    unknown = sorted(set(value) - set(keys))
    if unknown:
        raise RequestError(f"{wanted}; unknown key {unknown[0]!r}")
    texts = value[keys[0]], value.get(keys[1])
    if not isinstance(texts[0], str) or not (isinstance(texts[1], str) or (texts[1] is None and not second)):
        raise RequestError(f"{wanted}, all strings")
    return texts


def top_parse(parameters):
    parameters = {} if parameters is None else parameters
    if not isinstance(parameters, dict):
        raise RequestError('"parameters" must be an object')
    unknown = sorted(set(parameters) - {"top_k"})
    if unknown:
        raise RequestError(f'unknown parameter {unknown[0]!r}; allowed: "top_k"')
    top = parameters.get("top_k")
    if top is not None and (isinstance(top, bool) or not isinstance(top, int) or top < 0):
        raise RequestError(f'"top_k" is {top!r}, must be a whole number, 0 for all')
    return top


def tweet_normalize(text):
    """data.normalize: tweet."""
    return " ".join("@user" if word.startswith("@") and len(word) > 1 else "http" if word.startswith("http") else word
                    for word in text.split(" "))


def softmax(values):
    most = max(values)
    powers = [math.exp(value - most) for value in values]
    total = sum(powers)
    return [power / total for power in powers]


# ---- answers

def network_run(model, encoded, names):
    """The named outputs as lists."""
    features = {name: torch.tensor(encoded[name]).to(model.device) for name in ("input_ids", "attention_mask", "token_type_ids")
                if name in encoded}
    with torch.no_grad():
        outputs = model.network(**features)
    return [outputs[name].float().cpu().tolist() for name in names]


def labels_of(model, inputs):
    """For each input its (label, score), best first."""
    prepare = tweet_normalize if model.tweets else str
    names = model.network.config.id2label
    for at in range(0, len(inputs), BATCH):
        texts = [(prepare(text), None if pair is None else prepare(pair)) for text, pair in inputs[at:at + BATCH]]
        pairs = [pair for _, pair in texts if pair is not None]
        if pairs and len(pairs) != len(texts):
            raise RequestError('either all inputs have a "text_pair" or none')
        encoded = model.tokenizer([text for text, _ in texts], pairs or None, truncation=True, max_length=model.length, padding=True)
        for logits in network_run(model, encoded, ["logits"])[0]:
            scores = softmax(logits)
            order = sorted(range(len(scores)), key=lambda i, of=scores: (-of[i], i))
            yield [{"label": names[i], "score": scores[i]} for i in order]


def spans_of_window(starts, ends, offsets, sequences):
    """Every allowed answer of a window, as (score, first character, character behind the last)."""
    own = [i for i, sequence in enumerate(sequences) if sequence == 1]
    for i in own:
        for j in range(i, min(i + ANSWER_TOKENS, own[-1] + 1)):
            yield starts[i] + ends[j], offsets[i][0], offsets[j][1]


def spans_of(model, question, context):
    """The best answers, best first."""
    own = len(model.tokenizer(question, add_special_tokens=False)["input_ids"])
    room = model.length - model.tokenizer.num_special_tokens_to_add(pair=True) - own
    if room < 1:
        raise RequestError(f"the question has {own} tokens, so that none of the context fits into {model.length}")
    encoded = model.tokenizer(question, context, truncation="only_second", max_length=model.length, stride=min(model.stride, room - 1),
                              return_overflowing_tokens=True, return_offsets_mapping=True, padding=True)
    best = {}
    for at in range(0, len(encoded["input_ids"]), BATCH):
        piece = {name: encoded[name][at:at + BATCH] for name in ("input_ids", "attention_mask", "token_type_ids") if name in encoded}
        starts, ends = network_run(model, piece, ["start_logits", "end_logits"])
        for i, (start, end) in enumerate(zip(starts, ends)):
            for score, first, last in spans_of_window(start, end, encoded["offset_mapping"][at + i], encoded.sequence_ids(at + i)):
                best[first, last] = max(score, best.get((first, last), -math.inf))
    order = sorted(best.items(), key=lambda item: (-item[1], item[0]))[:SPANS]
    if not order:
        raise RequestError("the context has no words")
    scores = softmax([score for _, score in order])
    return [{"answer": context[first:last], "score": score, "start": first, "end": last}
            for ((first, last), _), score in zip(order, scores)]


def predict_fn(data, model):
    if model.answers:
        inputs, top = request_parse(data, ("question", "context"), True)
        found = (spans_of(model, question, context) for question, context in inputs)
    else:
        inputs, top = request_parse(data, ("text", "text_pair"), False)
        found = labels_of(model, inputs)
    return [answers[0] if top is None else answers[:top or None] for answers in found]


def output_fn(prediction, accept="application/json"):
    wanted = [kind.split(";")[0].strip().lower() for kind in (accept or "*/*").split(",")]
    if not set(wanted) & {"application/json", "application/*", "*/*"}:
        raise RequestError(f"the accepted type is {accept}, answers are application/json")
    return json.dumps(prediction, ensure_ascii=False, allow_nan=False)
