// SPDX-License-Identifier: Apache-2.0
// README.md: the model card, as the Hugging Face hub reads it: metadata in YAML, then Markdown.
#include "base/file.h"
#include "base/markup.h"
#include "export/export.h"

#include <stdlib.h>
#include <string.h>

static bool card_answers(const struct export_model *model) {
    return model->config->head == HEAD_QUESTION_ANSWERING;
}

static void card_metadata(struct text *out, const struct export_model *model) {
    const char *task = card_answers(model) ? "question-answering" : "text-classification";
    const char *kind = model->config->kind == MODEL_BERT ? "bert" : "roberta";
    text_printf(out, "---\nlibrary_name: transformers\npipeline_tag: %s\n", task);
    if (model->card.base && *model->card.base) {
        text_puts(out, "base_model: ");
        json_string_add(out, model->card.base); // a JSON string is one of YAML's
        text_puts(out, "\n");
    }
    text_printf(out, "tags:\n- %s\n- %s\n- finetuned\nmetrics:\n", kind, task);
    text_puts(out, card_answers(model) ? "- exact_match\n- f1\n---\n" : "- accuracy\n- f1\n- recall\n---\n");
}

static void card_labels(struct text *out, const struct model_config *config) {
    char buffer[24];
    text_printf(out, " %u labels:", config->labels);
    for (uint32_t i = 0; i < config->labels; i++) {
        text_puts(out, i ? ", " : " ");
        markdown_cell_add(out, model_label_name(config, i, buffer));
    }
    text_puts(out, ".\n");
}

static void card_head(struct text *out, const struct export_model *model) {
    const struct model_config *config = model->config;
    text_puts(out, "\n# ");
    markdown_cell_add(out, model->name);
    text_printf(out, "\n\n%s for %s: %u layers, %u wide, %llu parameters.",
                config->kind == MODEL_BERT ? "BERT" : "RoBERTa",
                card_answers(model) ? "question answering" : "classification", config->layers, config->hidden,
                (unsigned long long)model->table->count);
    if (card_answers(model))
        text_puts(out, "\n");
    else
        card_labels(out, config);
}

// How texts become tokens, as in training.
static void card_texts(struct text *out, const struct export_model *model, uint32_t length) {
    if (card_answers(model))
        text_printf(out,
                    "\nA question and its context are read in windows of at most %u tokens, special ones included; "
                    "neighbours share %u of the context's.%s",
                    length, model->settings.doc_stride ? model->settings.doc_stride : SETTINGS_STRIDE,
                    model->settings.no_answer ? " It may answer that the context holds no answer." : "");
    else
        text_printf(out, "\nTexts are cut to %u tokens, special ones included.", length);
    if (model->settings.special == TOKENIZER_LITERAL)
        text_puts(out, " Special tokens in a text are ordinary text (`split_special_tokens=True`).");
    if (model->settings.normalize == NORMALIZE_TWEET)
        text_puts(
            out,
            " Before that, words between blanks that start with `@` become `@user`, those with `http` become `http`.");
    text_puts(out, "\n");
}

// The best span of the first window's context, 30 tokens at most, or none.
static void card_use_answers(struct text *out, const struct export_model *model, uint32_t length) {
    text_printf(out,
                "question, context = \"a question\", \"a context\"\n"
                "inputs = tokenizer(question, context, truncation=\"only_second\", max_length=%u, "
                "return_offsets_mapping=True, return_tensors=\"pt\")\n"
                "own = [i for i, sequence in enumerate(inputs.sequence_ids()) if sequence == 1]\n"
                "offsets = inputs.pop(\"offset_mapping\")[0].tolist()\n"
                "with torch.no_grad():\n    outputs = model(**inputs)\n"
                "starts, ends = outputs.start_logits[0].tolist(), outputs.end_logits[0].tolist()\n"
                "spans = [(starts[i] + ends[j], offsets[i][0], offsets[j][1]) for i in own for j in own if i <= j < i "
                "+ 30 and offsets[i][0] < offsets[j][1]]\n",
                length);
    if (model->settings.no_answer)
        text_puts(out, "spans.append((starts[0] + ends[0], 0, 0))  # no answer\n");
    text_puts(out, "score, first, last = max(spans, key=lambda span: span[0])\nprint(context[first:last])\n```\n\n"
                   "A context longer than a window needs several: `finetuned predict` and the handler of the SageMaker "
                   "archive make them.\n");
}

static void card_use(struct text *out, const struct export_model *model, uint32_t length) {
    const char *literal = model->settings.special == TOKENIZER_LITERAL ? ", split_special_tokens=True" : "";
    const char *kind = card_answers(model) ? "QuestionAnswering" : "SequenceClassification";
    text_printf(out,
                "\n## How to use it\n\n```python\nimport torch\nfrom transformers import AutoModelFor%s, "
                "AutoTokenizer\n\nfolder = \"path/to/this/folder\"\ntokenizer = "
                "AutoTokenizer.from_pretrained(folder%s)\nmodel = AutoModelFor%s.from_pretrained(folder).eval()\n",
                kind, literal, kind);
    if (card_answers(model))
        card_use_answers(out, model, length);
    else
        text_printf(out,
                    "inputs = tokenizer([\"a text\"], truncation=True, max_length=%u, padding=True, "
                    "return_tensors=\"pt\")\nwith torch.no_grad():\n    scores = model(**inputs).logits.softmax(-1)\n"
                    "print([model.config.id2label[i] for i in scores.argmax(-1).tolist()])\n```\n",
                    length);
    text_printf(out, "\nOr without Python: `finetuned predict --model path/to/this/folder%s`\n",
                card_answers(model) ? " --question \"a question\" --context \"a context\"" : " \"a text\"");
}

static void card_print(struct text *out, const struct export_model *model) {
    uint32_t usable = model_usable_length(model->config), length = model->settings.max_length;
    length = length && length < usable ? length : usable;
    card_metadata(out, model);
    card_head(out, model);
    card_texts(out, model, length);
    card_use(out, model, length);
    if (model->card.facts)
        text_puts(out, model->card.facts);
    else
        text_puts(out, "\n## Evaluation\n\nHow it was trained and what it scores is not recorded with it.\n");
}

enum status card_write(const struct export_model *model, const char *folder) {
    struct text text = {0};
    char *path = path_join(folder, "README.md");
    if (model->card.readme)
        text_puts(&text, model->card.readme);
    else
        card_print(&text, model);
    enum status status = path && text_string(&text) ? file_replace(path, text_string(&text), text.size)
                                                    : status_set(STATUS_SYSTEM, "export: no memory");
    free(path);
    text_release(&text);
    return status;
}
