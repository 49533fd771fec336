// SPDX-License-Identifier: Apache-2.0
// The model card from what an exporter is handed: odd names, question answering, and a README taken as it is.
#include "support.h"

#include "base/file.h"
#include "export/export.h"

static char *card(const struct export_model *model) {
    char *folder = support_folder(), *path = path_join(folder, "README.md"), *text;
    assert_ok(card_write(model, folder));
    assert_ok(file_read(&text, NULL, path, 1 << 20));
    assert_ok(file_remove(folder));
    free(path);
    free(folder);
    return text;
}

static void holds(const char *text, const char *wanted) {
    if (!strstr(text, wanted))
        fail_msg("'%s' is not in:\n%s", wanted, text);
}

static struct param_table table = {.count = 1234};

static void test_labels(void **state) {
    (void)state;
    struct model_config config = {.kind = MODEL_BERT, .layers = 6, .hidden = 384, .max_positions = 512};
    struct labels labels = {0};
    enum status status = STATUS_OK;
    assert_ok(labels_add(&labels, "pipe | *star*"));
    assert_ok(labels_add(&labels, "plain"));
    model_config_set_labels(&config, &labels, &status);
    assert_ok(status);
    struct export_model model = {.config = &config,
                                 .table = &table,
                                 .name = "a<b>",
                                 .settings = {.max_length = 4096, .special = TOKENIZER_PARSE},
                                 .card = {.base = "say \"no\": #1", .facts = "\n## Evaluation\n\nfacts\n"}};
    char *text = card(&model);
    assert_int_equal(strncmp(text, "---\nlibrary_name: transformers\n", 31), 0);
    holds(text, "base_model: \"say \\\"no\\\": #1\"\n");
    holds(text, "# a\\<b\\>\n");
    holds(text,
          "BERT for classification: 6 layers, 384 wide, 1234 parameters. 2 labels: pipe \\| \\*star\\*, plain.\n");
    holds(text, "max_length=512"); // what is usable
    holds(text, "\n## Evaluation\n\nfacts\n");
    assert_null(strstr(text, "split_special_tokens"));
    free(text);
    labels_release(&labels);
    model_config_release(&config);
}

static void test_answers(void **state) {
    (void)state;
    struct model_config config = {
        .kind = MODEL_ROBERTA, .head = HEAD_QUESTION_ANSWERING, .labels = 2, .pad_id = 1, .max_positions = 514};
    struct export_model model = {
        .config = &config, .table = &table, .name = "qa", .settings = {.special = TOKENIZER_LITERAL}};
    char *text = card(&model);
    holds(text, "pipeline_tag: question-answering\n");
    holds(text, "- exact_match\n- f1\n---\n");
    holds(text, "AutoModelForQuestionAnswering.from_pretrained(folder)");
    holds(text, "--question");
    holds(text, "max_length=512");
    holds(text, "split_special_tokens=True");
    assert_null(strstr(text, "base_model"));
    assert_null(strstr(text, "labels:"));
    free(text);
}

static void test_readme(void **state) {
    (void)state;
    struct model_config config = {0};
    struct export_model model = {.config = &config, .table = &table, .name = "x", .card = {.readme = "mine\n"}};
    char *text = card(&model);
    assert_string_equal(text, "mine\n");
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_labels), cmocka_unit_test(test_answers),
                                       cmocka_unit_test(test_readme)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
