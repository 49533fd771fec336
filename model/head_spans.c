// SPDX-License-Identifier: Apache-2.0
// The head of question answering (Transformers' BertForQuestionAnswering, RobertaForQuestionAnswering): qa_outputs, a
// linear layer over every token of the last hidden state: logits (T, 2), a row a token: start, end. No pooler, no
// dropout.
#include "model/pass_state.h"

static struct linear spans_output(const struct pass *pass) {
    return linear_at(pass, pass->config->layers + 1, QA_OUTPUT, QA_OUTPUT_BIAS, 1);
}

void head_spans_forward(struct pass *pass, const float *weights) {
    struct linear output = spans_output(pass);
    linear_forward(pass, weights, &output, pass->act.logits, pass->act.hidden[pass->config->layers],
                   pass->batch->tokens);
}

void head_spans_backward(struct pass *pass, const float *weights, float *gradients) {
    struct linear output = spans_output(pass);
    struct rows rows = rows_tokens(pass);
    linear_parameters(pass, gradients, &output, pass->act.dlogits, pass->act.hidden[pass->config->layers], &rows);
    linear_input(pass, weights, &output, pass->act.dhidden, pass->act.dlogits, rows.n, false);
}
