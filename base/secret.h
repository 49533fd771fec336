// SPDX-License-Identifier: Apache-2.0
// Credentials inside values that look like URLs: https://user:password@host, https://token@host, …?token=…, #token=…,
// and the same after https:/ (as a path is shortened), https:\\, https: and // alone; %3F for ?.
// user:password@host:/path. And a token of Hugging Face's hub anywhere, hf_ and 30 letters and digits or more. None may
// stand in a job (base/option_value.c), and in messages and log lines they are masked, wherever the text comes from.
#ifndef FINETUNED_BASE_SECRET_H
#define FINETUNED_BASE_SECRET_H

#include <stdbool.h>

// Whether there is such a token in the text, or a URL with a user's part, or a query or fragment with values.
bool secret_is_in(const char *text);
// Replaces them by "***" in place; the text does not grow. A user's part that was cut before its @ is found by its
// colon, if no port stands behind it.
void secret_mask(char *text);

#endif
