// SPDX-License-Identifier: Apache-2.0
// What the loss asks for besides the labels: train.label_smoothing and train.class_weights, as
// torch.nn.CrossEntropyLoss(weight, label_smoothing) with its mean taken over the global batch. Evaluation's loss stays
// the plain cross entropy.
#ifndef FINETUNED_TRAIN_TARGETS_H
#define FINETUNED_TRAIN_TARGETS_H

#include "train/trainer.h"

// Fills t->targets and t->class_weights from the job and, balanced, from the train split's labels. STATUS_USAGE: a list
// of another length than the classes. STATUS_DATA: balanced, and a class has no example in train.
enum status targets_open(struct trainer *t);
void targets_close(struct trainer *t);

// By what the sum of a global batch's losses is divided: its examples, or the sum of their labels' weights. Every rank
// knows the batch from the plan, so it is the same on all, in one fixed order.
double targets_weight(const struct trainer *t, const struct plan_batch *global);

#endif
