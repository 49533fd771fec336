// SPDX-License-Identifier: Apache-2.0
// A model's hyper-parameters: Hugging Face's config.json, read and written.
#ifndef FINETUNED_MODEL_CONFIG_H
#define FINETUNED_MODEL_CONFIG_H

#include "base/status.h"
#include "data/labels.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_CONFIG_MAX ((size_t)1 << 24) // bytes of a config.json
#define MODEL_LAYERS_MAX 1000u
#define MODEL_HIDDEN_MAX 65536u
#define MODEL_HEADS_MAX 4096u
#define MODEL_FFN_MAX (1u << 20)
#define MODEL_VOCAB_MAX (1u << 24)
#define MODEL_POSITIONS_MAX 65536u // a query row and its head are one 32-bit counter word of dropout (model/ops.h)
#define MODEL_LABELS_MAX 100000u   // of a base, whose head need not be the run's
#define MODEL_TYPES_MAX 256u       // a batch holds them in bytes

enum model_kind { MODEL_ROBERTA, MODEL_BERT };
enum model_head { HEAD_CLASSIFICATION, HEAD_QUESTION_ANSWERING };

struct model_config {
    enum model_kind kind;
    enum model_head head;
    uint32_t layers, hidden, heads, ffn, vocab, max_positions, types;
    uint32_t labels; // outputs of the head
    int32_t pad_id;
    int32_t bos_id, eos_id; // as in config.json, -1 if not there
    double layer_norm_eps;
    double initializer_range;
    double dropout_hidden, dropout_attention, dropout_classifier; // classifier: classifier_dropout, else dropout_hidden
    struct labels label_names;  // id2label, in id order; n may be 0 (absent: HF's default of 2 labels LABEL_0, LABEL_1)
    bool has_labels;            // config.json said id2label or num_labels
    bool stored_bf16;           // the weights beside config.json are bf16: what model_config_print says as dtype
    bool has_head_architecture; // architectures names a *ForSequenceClassification (or *ForQuestionAnswering)
};

void model_config_release(struct model_config *config);
// Parses config.json: model_type roberta or bert, hidden_act gelu, absolute positions, every size checked (ranges,
// heads divide hidden, overflow). `name` is for messages. STATUS_DATA naming the key and value.
enum status model_config_parse(struct model_config *out, const char *bytes, size_t size, const char *name);
enum status model_config_read(struct model_config *out, const char *folder);
enum status model_config_copy(struct model_config *out, const struct model_config *in);
// HF's default name of label `id`, "LABEL_<id>", or the config's own; `buffer` holds 24 bytes.
const char *model_label_name(const struct model_config *config, uint32_t id, char buffer[24]);
// One of random:tiny (2 layers, 64 wide), random:mini (6, 384), random:base (12, 768): RoBERTa shape. STATUS_USAGE for
// other names. Room for positions: 512 tokens a text. bos_id and eos_id are RoBERTa's if pad_id is (1), else the
// caller's to set.
enum status model_config_random(struct model_config *out, const char *name, uint32_t vocab, int32_t pad_id);
// config.json as Transformers reads it (architectures, id2label, label2id, problem_type "single_label_classification",
// dtype …). malloc'ed string.
enum status model_config_print(char **out, const struct model_config *config);

// First position of a text and how many tokens fit, special ones included (RoBERTa: pad+1 and max_positions-pad-1;
// BERT: 0 and max_positions).
uint32_t model_first_position(const struct model_config *config);
uint32_t model_usable_length(const struct model_config *config);
// Question answering: two outputs a token, first and last of an answer, without names, as Hugging Face's configuration
// has it.
void model_config_set_spans(struct model_config *config);
void model_config_set_labels(struct model_config *config, const struct labels *labels, enum status *status);

#endif
