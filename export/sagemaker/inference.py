# SPDX-License-Identifier: Apache-2.0
"""Answers requests in SageMaker's Hugging Face inference container, for a model that finetuned has made.

The container calls model_fn once and then, for each request, input_fn, predict_fn and output_fn. A request is JSON:

    {"inputs": "a text"}                             or a list of texts
    {"inputs": {"text": "…", "text_pair": "…"}}      pairs of texts, or a list of them
    {"inputs": {"question": "…", "context": "…"}}    a question answering model; or a list of them

The answer is a list with an entry for each input: {"label", "score"}, or {"answer", "score", "start", "end"}, where start and end
count characters of the context. "parameters" may hold "top_k": n, an entry is then a list of the n best (0: of all), and for
questions "handle_impossible_answer": whether "" with start and end 0 may be an answer too (by default if the model was trained so).
Texts are treated as in training, by what finetuned.json beside the model records.
"""
import json
import math
import os

import torch
import transformers

BATCH = 32  # texts that run at once
ANSWER_TOKENS = 30  # of the longest answer
FEATURES = ("input_ids", "attention_mask", "token_type_ids")
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
        self.no_answer = settings.get("no_answer", False)


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
    """[(first text, second or None)] and the parameters. keys: the two texts' names in an object; second: whether both must be there."""
    shape = "{" + ", ".join(f'"{key}": …' for key in keys) + "}"
    if not isinstance(data, dict) or "inputs" not in data:
        raise RequestError('the request must be an object with "inputs"')
    unknown = sorted(set(data) - {"inputs", "parameters"})
    if unknown:
        raise RequestError(f'unknown key {unknown[0]!r} beside "inputs"; allowed: "parameters"')
    inputs = data["inputs"] if isinstance(data["inputs"], list) else [data["inputs"]]
    return [input_parse(value, i, keys, second, shape) for i, value in enumerate(inputs)], parameters_parse(data.get("parameters"), second)


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


def parameters_parse(parameters, questions):
    parameters = {} if parameters is None else parameters
    if not isinstance(parameters, dict):
        raise RequestError('"parameters" must be an object')
    allowed = ["handle_impossible_answer", "top_k"] if questions else ["top_k"]
    unknown = sorted(set(parameters) - set(allowed))
    if unknown:
        raise RequestError(f"unknown parameter {unknown[0]!r}; allowed: {', '.join(allowed)}")
    top, impossible = parameters.get("top_k"), parameters.get("handle_impossible_answer")
    if top is not None and (isinstance(top, bool) or not isinstance(top, int) or top < 0):
        raise RequestError(f'"top_k" is {top!r}, must be a whole number, 0 for all')
    if impossible is not None and not isinstance(impossible, bool):
        raise RequestError(f'"handle_impossible_answer" is {impossible!r}, must be true or false')
    return {"top_k": top, "handle_impossible_answer": impossible}


def tweet_normalize(text):
    """data.normalize: tweet. The text, and its replaced words as (begin, end, new begin, new end)."""
    out, replaced, at, to = [], [], 0, 0
    for word in text.split(" "):
        new = "@user" if word.startswith("@") and len(word) > 1 else "http" if word.startswith("http") else word
        if new != word:
            replaced.append((at, at + len(word), to, to + len(new)))
        out.append(new)
        at, to = at + len(word) + 1, to + len(new) + 1
    return " ".join(out), replaced


def span_map(first, last, replaced):
    """A span of the normalised text in the original; a replaced word that it touches is in it as a whole."""
    begin, end = first, last
    for old, old_end, new, new_end in replaced:
        if new <= first:
            begin = old if first < new_end else first + old_end - new_end
        if new < last:
            end = old_end if last <= new_end else last + old_end - new_end
    return begin, end


def softmax(values):
    most = max(values)
    powers = [math.exp(value - most) for value in values]
    total = sum(powers)
    return [power / total for power in powers]


# ---- answers

def network_run(model, encoded, names):
    """The named outputs as lists."""
    features = {name: torch.tensor(encoded[name]).to(model.device) for name in FEATURES if name in encoded}
    with torch.no_grad():
        outputs = model.network(**features)
    return [outputs[name].float().cpu().tolist() for name in names]


def labels_of(model, inputs):
    """For each input its (label, score), best first."""
    prepare = (lambda text: tweet_normalize(text)[0]) if model.tweets else str
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
    """The best allowed answers of a window, best first: (score, first token, last token, first character, end of the last)."""
    own = [i for i, sequence in enumerate(sequences) if sequence == 1]
    spans = [(starts[i] + ends[j], i, j, offsets[i][0], offsets[j][1]) for i in own for j in range(i, min(i + ANSWER_TOKENS, own[-1] + 1))]
    spans = [span for span in spans if span[3] < span[4]]  # a blank's token may hold no character
    return sorted(spans, key=lambda span: (-span[0], span[1], span[2]))[:SPANS]


def spans_merge(windows):
    """[(score, first, last)] of all windows, best first. What two windows both see counts once."""
    best = {}
    for spans in windows:
        seen = {}
        for score, _, _, first, last in spans:
            key = first, last, seen.setdefault((first, last), 0)
            seen[first, last] += 1
            best[key] = max(score, best.get(key, -math.inf))
    return [(score, first, last) for (first, last, _), score in sorted(best.items(), key=lambda item: -item[1])[:SPANS]]


def question_encode(model, question, context):
    """Windows of the question and as much of the context as fits, neighbours sharing `stride` tokens."""
    tokens = [len(model.tokenizer(text, add_special_tokens=False)["input_ids"]) for text in (question, context)]
    room = model.length - model.tokenizer.num_special_tokens_to_add(pair=True) - tokens[0]
    if room < 1 or (tokens[1] > room and room <= model.stride):
        raise RequestError(f"the question has {tokens[0]} tokens: {model.length} leave room for {max(room, 0)} of the context's "
                           f"{tokens[1]}, and windows share {model.stride}")
    return model.tokenizer(question, context, truncation="only_second", max_length=model.length, stride=min(model.stride, room - 1),
                           return_overflowing_tokens=True, return_offsets_mapping=True, padding=True)


def spans_of(model, question, context, impossible):
    """The best answers to a question, best first; with `impossible` "no answer", "", is one of them."""
    question, replaced, read = question.lstrip(), [], context
    if model.tweets:
        question, (read, replaced) = tweet_normalize(question)[0], tweet_normalize(context)
    encoded, windows, none = question_encode(model, question, read), [], math.inf
    for at in range(0, len(encoded["input_ids"]), BATCH):
        piece = {name: encoded[name][at:at + BATCH] for name in FEATURES if name in encoded}
        for i, (starts, ends) in enumerate(zip(*network_run(model, piece, ["start_logits", "end_logits"])), at):
            windows.append(spans_of_window(starts, ends, encoded["offset_mapping"][i], encoded.sequence_ids(i)))
            none = min(none, starts[0] + ends[0])
    spans = [(score, *span_map(first, last, replaced)) for score, first, last in spans_merge(windows)]
    if not spans and not impossible:
        return [{"answer": "", "score": 0.0, "start": 0, "end": 0}]
    if impossible:
        spans = sorted([*spans, (none, 0, 0)], key=lambda span: -span[0])
    scores = softmax([score for score, _, _ in spans])
    return [{"answer": context[first:last], "score": score, "start": first, "end": last} for (_, first, last), score in zip(spans, scores)]


def predict_fn(data, model):
    if model.answers:
        inputs, wanted = request_parse(data, ("question", "context"), True)
        impossible = model.no_answer if wanted["handle_impossible_answer"] is None else wanted["handle_impossible_answer"]
        found = (spans_of(model, question, context, impossible) for question, context in inputs)
    else:
        inputs, wanted = request_parse(data, ("text", "text_pair"), False)
        found = labels_of(model, inputs)
    top = wanted["top_k"]
    return [answers[0] if top is None else answers[:top or None] for answers in found]


def output_fn(prediction, accept="application/json"):
    wanted = [kind.split(";")[0].strip().lower() for kind in (accept or "*/*").split(",")]
    if not set(wanted) & {"application/json", "application/*", "*/*"}:
        raise RequestError(f"the accepted type is {accept}, answers are application/json")
    return json.dumps(prediction, ensure_ascii=False, allow_nan=False)
