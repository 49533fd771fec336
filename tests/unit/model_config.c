// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include "model/config.h"

#include <jansson.h>

#define ROBERTA                                                                                                        \
    "{\"model_type\": \"roberta\", \"num_hidden_layers\": 2, \"hidden_size\": 64, \"num_attention_heads\": 4, "        \
    "\"intermediate_size\": 128, \"vocab_size\": 600, \"max_position_embeddings\": 66"

static enum status parse(struct model_config *out, const char *text) {
    return model_config_parse(out, text, strlen(text), "config.json");
}

// ROBERTA with `more` behind it must be refused with a message that holds `word`.
static void refused(const char *more, const char *word) {
    struct model_config config;
    char text[2048];
    snprintf(text, sizeof text, ROBERTA "%s}", more);
    assert_status(parse(&config, text), STATUS_DATA);
    if (!strstr(status_message(), word))
        fail_msg("\"%s\" does not say \"%s\"", status_message(), word);
    assert_null(config.label_names.names);
}

static void taken(struct model_config *config, const char *more) {
    char text[2048];
    snprintf(text, sizeof text, ROBERTA "%s}", more);
    assert_ok(parse(config, text));
}

static void test_defaults(void **state) {
    (void)state;
    struct model_config config;
    taken(&config, "");
    assert_int_equal(config.kind, MODEL_ROBERTA);
    assert_int_equal(config.types, 2);
    assert_int_equal(config.pad_id, 1);
    assert_int_equal(config.labels, 2);
    assert_int_equal(config.label_names.n, 0);
    assert_false(config.has_labels);
    assert_false(config.has_head_architecture);
    assert_near(config.layer_norm_eps, 1e-12, 0, 0);
    assert_near(config.dropout_classifier, 0.1, 0, 0);
    assert_int_equal(model_first_position(&config), 2);
    assert_int_equal(model_usable_length(&config), 64);
    model_config_release(&config);
}

static void test_dropout(void **state) {
    (void)state;
    struct model_config config;
    taken(&config,
          ", \"hidden_dropout_prob\": 0.25, \"attention_probs_dropout_prob\": 0, \"classifier_dropout\": null");
    assert_near(config.dropout_hidden, 0.25, 0, 0);
    assert_near(config.dropout_attention, 0, 0, 0);
    assert_near(config.dropout_classifier, 0.25, 0, 0);
    taken(&config, ", \"hidden_dropout_prob\": 0.25, \"classifier_dropout\": 0.5");
    assert_near(config.dropout_classifier, 0.5, 0, 0);
}

static void test_positions(void **state) {
    (void)state;
    struct model_config config;
    taken(&config, ", \"pad_token_id\": 3");
    assert_int_equal(model_first_position(&config), 4);
    assert_int_equal(model_usable_length(&config), 62);
    config.kind = MODEL_BERT;
    assert_int_equal(model_first_position(&config), 0);
    assert_int_equal(model_usable_length(&config), 66);
}

static void test_labels(void **state) {
    (void)state;
    struct model_config config, copy;
    char buffer[24];
    taken(&config,
          ", \"id2label\": {\"2\": \"c\", \"0\": \"a\", \"1\": \"b\"}, \"label2id\": {\"a\": 0, \"b\": 1, \"c\": 2}");
    assert_int_equal(config.labels, 3);
    assert_true(config.has_labels);
    assert_string_equal(config.label_names.names[2], "c");
    assert_ok(model_config_copy(&copy, &config));
    model_config_release(&config);
    assert_string_equal(model_label_name(&copy, 1, buffer), "b");
    model_config_release(&copy);
    taken(&config, ", \"label2id\": {\"b\": 1, \"a\": 0}");
    assert_int_equal(config.labels, 2);
    assert_string_equal(config.label_names.names[1], "b");
    model_config_release(&config);
    taken(&config, ", \"num_labels\": 7");
    assert_int_equal(config.labels, 7);
    assert_true(config.has_labels);
    assert_string_equal(model_label_name(&config, 6, buffer), "LABEL_6");
    model_config_release(&config);
}

static void test_architectures(void **state) {
    (void)state;
    struct model_config config;
    taken(&config, ", \"architectures\": [\"RobertaForSequenceClassification\"]");
    assert_true(config.has_head_architecture);
    assert_int_equal(config.head, HEAD_CLASSIFICATION);
    taken(&config, ", \"architectures\": [\"RobertaForQuestionAnswering\"], \"num_labels\": 5");
    assert_int_equal(config.head, HEAD_QUESTION_ANSWERING);
    assert_int_equal(config.labels, 2);
    taken(&config, ", \"architectures\": [\"BertModel\"]");
    assert_false(config.has_head_architecture);
    taken(&config, ", \"architectures\": null, \"dtype\": \"bfloat16\"");
    assert_true(config.stored_bf16);
}

static void test_refused(void **state) {
    (void)state;
    struct model_config config;
    assert_status(parse(&config, ""), STATUS_DATA);
    assert_status(parse(&config, "[]"), STATUS_DATA);
    assert_status(parse(&config, "{}"), STATUS_DATA);
    assert_status(parse(&config, "{\"model_type\": \"gpt2\"}"), STATUS_DATA);
    assert_non_null(strstr(status_message(), "gpt2"));
    refused(", \"hidden_act\": \"relu\"", "hidden_act");
    refused(", \"position_embedding_type\": \"relative_key\"", "position_embedding_type");
    refused(", \"is_decoder\": true", "is_decoder");
    refused(", \"type_vocab_size\": 0", "type_vocab_size");
    refused(", \"type_vocab_size\": 257", "type_vocab_size");
    refused(", \"pad_token_id\": -1", "pad_token_id");
    refused(", \"pad_token_id\": 600", "pad_token_id");
    refused(", \"pad_token_id\": 65", "max_position_embeddings");
    refused(", \"layer_norm_eps\": \"small\"", "layer_norm_eps");
    refused(", \"hidden_dropout_prob\": 1.0", "hidden_dropout_prob");
    refused(", \"hidden_dropout_prob\": -0.1", "hidden_dropout_prob");
    refused(", \"classifier_dropout\": true", "classifier_dropout");
    refused(", \"num_labels\": 0", "num_labels");
    refused(", \"id2label\": {}", "id2label");
    refused(", \"id2label\": {\"0\": \"a\", \"2\": \"b\"}", "id2label");
    refused(", \"id2label\": {\"0\": \"a\", \"x\": \"b\"}", "id2label");
    refused(", \"id2label\": {\"0\": \"a\", \"1\": \"a\"}", "id2label");
    refused(", \"id2label\": {\"0\": \"a\", \"00\": \"b\"}", "id2label");
    refused(", \"id2label\": {\"0\": 1}", "id2label");
    refused(", \"label2id\": {\"a\": 1}", "label2id");
    refused(", \"architectures\": \"X\"", "architectures");
    refused(", \"vocab_size\": 600", "config.json");
}

static void size_refused(const char *from, const char *to, const char *word) {
    struct model_config config;
    char text[1024] = ROBERTA "}", changed[1024];
    char *at = strstr(text, from);
    assert_non_null(at);
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    assert_status(parse(&config, changed), STATUS_DATA);
    if (!strstr(status_message(), word))
        fail_msg("\"%s\" does not say \"%s\"", status_message(), word);
}

static void test_sizes(void **state) {
    (void)state;
    size_refused("\"hidden_size\": 64", "\"hidden_size\": 63", "num_attention_heads");
    size_refused("\"hidden_size\": 64", "\"hidden_size\": 6.5", "hidden_size");
    size_refused("\"hidden_size\": 64", "\"hidden_size\": 99999999999", "hidden_size");
    size_refused("\"hidden_size\": 64", "\"size\": 64", "hidden_size is missing");
    size_refused("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 0", "num_hidden_layers");
    size_refused("\"vocab_size\": 600", "\"vocab_size\": -600", "vocab_size");
    size_refused("\"intermediate_size\": 128", "\"intermediate_size\": \"128\"", "intermediate_size");
    size_refused("\"max_position_embeddings\": 66", "\"max_position_embeddings\": 100000", "max_position_embeddings");
}

static void test_random(void **state) {
    (void)state;
    struct model_config config;
    assert_ok(model_config_random(&config, "random:base", 50265, 1));
    assert_int_equal(config.max_positions, 514);
    assert_int_equal(model_usable_length(&config), 512);
    assert_int_equal(config.ffn, 3072);
    assert_status(model_config_random(&config, "random:huge", 50265, 1), STATUS_USAGE);
}

// What is printed reads back as the same model.
static void test_print(void **state) {
    (void)state;
    struct model_config config, back;
    struct labels labels = {0};
    enum status status;
    char *text;
    taken(&config, ", \"layer_norm_eps\": 1e-05, \"pad_token_id\": 3, \"bos_token_id\": 0, \"hidden_dropout_prob\": "
                   "0.3333333333333333, "
                   "\"classifier_dropout\": 0.2");
    assert_ok(labels_add(&labels, "joy"));
    assert_ok(labels_add(&labels, "\xf0\x9f\x98\x82 \"x\""));
    assert_ok(labels_add(&labels, "LABEL_0"));
    model_config_set_labels(&config, &labels, &status);
    assert_ok(status);
    assert_ok(model_config_print(&text, &config));
    assert_ok(parse(&back, text));
    assert_true(labels_equal(&back.label_names, &labels));
    assert_true(back.has_labels && back.has_head_architecture);
    json_t *root = json_loads(text, 0, NULL), *ids = json_object_get(root, "label2id");
    for (uint32_t i = 0; i < labels.n; i++)
        assert_int_equal(json_integer_value(json_object_get(ids, labels.names[i])), i);
    json_decref(root);
    assert_non_null(strstr(text, "\"single_label_classification\""));
    assert_non_null(strstr(text, "\"RobertaForSequenceClassification\""));
    labels_release(&back.label_names);
    labels_release(&config.label_names);
    config.label_names = back.label_names = (struct labels){0};
    config.has_head_architecture = true;
    assert_int_equal(config.labels, 3);
    assert_true(config.dropout_hidden == back.dropout_hidden && config.layer_norm_eps == back.layer_norm_eps &&
                config.dropout_classifier == back.dropout_classifier && config.pad_id == back.pad_id &&
                config.bos_id == back.bos_id && config.eos_id == back.eos_id && config.types == back.types);
    assert_true(config.layers == back.layers && config.hidden == back.hidden && config.heads == back.heads &&
                config.ffn == back.ffn && config.vocab == back.vocab && config.max_positions == back.max_positions);
    free(text);
    labels_release(&labels);
}

static void test_golden(void **state) {
    (void)state;
    const char *folder = support_path("FINETUNED_GOLDEN", "models/odd_roberta_cls");
    SUPPORT_NEED(folder, "FINETUNED_GOLDEN/models");
    struct model_config config;
    assert_ok(model_config_read(&config, folder));
    assert_int_equal(config.labels, 2);
    assert_int_equal(config.pad_id, 3);
    assert_int_equal(config.types, 1);
    assert_near(config.dropout_classifier, 0, 0, 0);
    assert_status(model_config_read(&config, "/nowhere/at/all"), STATUS_DATA);
}

static void test_minilm(void **state) {
    (void)state;
    const char *config_path = support_path("FINETUNED_MINILM", "config.json");
    SUPPORT_NEED(config_path, "FINETUNED_MINILM");
    struct model_config config;
    assert_ok(model_config_read(&config, getenv("FINETUNED_MINILM")));
    assert_int_equal(config.kind, MODEL_BERT);
    assert_false(config.has_labels);
    assert_false(config.has_head_architecture);
    assert_int_equal(config.labels, 2);
    assert_near(config.dropout_classifier, 0.1, 0, 0);
    model_config_release(&config);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults), cmocka_unit_test(test_dropout),       cmocka_unit_test(test_positions),
        cmocka_unit_test(test_labels),   cmocka_unit_test(test_architectures), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_sizes),    cmocka_unit_test(test_random),        cmocka_unit_test(test_print),
        cmocka_unit_test(test_golden),   cmocka_unit_test(test_minilm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
