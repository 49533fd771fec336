// SPDX-License-Identifier: Apache-2.0
// What the files of weights share: a table's parameters as tasks for a pool, and how one gets values that come from no
// file.
#ifndef FINETUNED_MODEL_WEIGHTS_FILL_H
#define FINETUNED_MODEL_WEIGHTS_FILL_H

#include "base/param.h"
#include "model/config.h"

// Every PARAM_TILE rows of every parameter, in the table's order.
struct weights_tasks {
    const struct param_table *table;
    size_t *first; // (table's n) a parameter's first task
    size_t n;
};
// Rows [row, row + rows) of a parameter.
struct weights_rows {
    const struct param *param;
    uint64_t row, rows;
};
enum status weights_tasks_init(struct weights_tasks *out, const struct param_table *table);
void weights_tasks_release(struct weights_tasks *tasks);
struct weights_rows weights_task(const struct weights_tasks *tasks, size_t task);

// Room for PARAM_TILE rows of any parameter, `copies` times, each of *floats floats; free it.
enum status weights_buffer(float **out, size_t *floats, const struct param_table *table, size_t copies);
// One parameter of a new head at random; `rows` from weights_buffer.
void weights_draw(float *arena, const struct param *param, const struct model_config *config, uint64_t seed,
                  float *rows);

#endif
