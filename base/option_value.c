// SPDX-License-Identifier: Apache-2.0
// An option's value from text: what is taken, and what is said of the rest. Printed in option_print.c.
#include "base/options.h"

#include "base/secret.h"

#define DIGITS_OF(number) #number
#define DIGITS(number) DIGITS_OF(number)

static void *option_at(const struct option *option, struct job *job) {
    return (char *)job + option->offset;
}

// ---- from text

static bool option_number_allowed(const struct option *option, double value) {
    if (option->flags & OPTION_ABOVE_LEAST ? value <= option->least : value < option->least)
        return false;
    return option->flags & OPTION_BELOW_MOST ? value < option->most : value <= option->most;
}

static const struct option_word *option_word(const struct option *option, const char *text) {
    for (size_t i = 0; i < 2 && option->words[i].word; i++)
        if (strcmp(option->words[i].word, text) == 0)
            return &option->words[i];
    return NULL;
}

static int option_name(const struct option *option, const char *text) {
    for (int i = 0; option->names[i]; i++)
        if (strcmp(option->names[i], text) == 0)
            return i;
    return -1;
}

static bool option_set_integer(const struct option *option, int64_t *at, const char *text) {
    const struct option_word *word = option_word(option, text);
    int64_t value;
    if (word) {
        *at = (int64_t)word->value;
        return true;
    }
    if (!text_to_i64(text, &value) || !option_number_allowed(option, (double)value))
        return false;
    if ((option->flags & OPTION_POWER_OF_TWO) && (value & (value - 1)))
        return false;
    *at = value;
    return true;
}

static bool option_set_size(const struct option *option, int64_t *at, const char *text) {
    int64_t value;
    if (!text_to_size(text, &value) || !option_number_allowed(option, (double)value))
        return false;
    *at = value;
    return true;
}

static bool option_set_real(const struct option *option, double *at, const char *text) {
    const struct option_word *word = option_word(option, text);
    double value;
    if (word)
        value = word->value;
    else if (!text_to_double(text, &value) || !option_number_allowed(option, value))
        return false;
    *at = value == 0 ? 0 : value; // no -0
    return true;
}

static bool option_set_bool(bool *at, const char *text) {
    *at = strcmp(text, "true") == 0;
    return *at || strcmp(text, "false") == 0;
}

static bool option_set_choice(const struct option *option, int *at, const char *text) {
    int i = option_name(option, text);
    if (i < 0 || i < (int)option->least)
        return false;
    *at = i;
    return true;
}

static bool option_set_pair(const struct option *option, double at[2], const char *rest) {
    char item[64];
    bool bad = false;
    double values[2];
    size_t n = 0;
    while (option_list_next(&rest, item, sizeof item, &bad))
        if (n == 2 || !option_set_real(option, &values[n++], item))
            return false;
    if (bad || n != 2)
        return false;
    memcpy(at, values, sizeof values);
    return true;
}

// "none" is the empty list, as in a flag there is no other way to say it.
static bool option_set_set(const struct option *option, bool *at, const char *rest) {
    char item[64];
    bool bad = false, values[JOB_EXPORTS] = {false};
    if (rest && (!*rest || strcmp(rest, "none") == 0))
        rest = NULL;
    while (option_list_next(&rest, item, sizeof item, &bad)) {
        int i = option_name(option, item);
        if (i < 0 || values[i])
            return false;
        values[i] = true;
    }
    if (!bad)
        memcpy(at, values, sizeof values);
    return !bad;
}

static bool option_set_weights(const struct option *option, char **at, const char *rest) {
    char item[64];
    bool bad = false;
    double value;
    struct text list = {0};
    if (rest && option_name(option, rest) >= 0) {
        text_puts(&list, rest);
    } else {
        text_puts(&list, "[");
        while (!bad && option_list_next(&rest, item, sizeof item, &bad)) {
            bad = !text_to_double(item, &value) || value < option->least || value > option->most;
            text_puts(&list, list.size > 1 ? ", " : "");
            option_print_real(&list, value);
        }
        bad = bad || list.size == 1;
        text_puts(&list, "]");
    }
    if (!bad) {
        free(*at);
        *at = list.at;
        list = (struct text){0};
    }
    text_release(&list);
    return !bad && *at;
}

static bool text_has_control(const char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return true;
    return false;
}

bool option_is_text(const char *text) {
    size_t size = strlen(text);
    return size > 0 && size <= OPTION_VALUE_MAX && utf8_check(text, size) == size && !text_has_control(text);
}

static bool option_text_allowed(const struct option *option, const char *text) {
    if (option->flags & OPTION_NAME)
        return strlen(text) <= 100 && !strpbrk(text, "/<") && strcmp(text, ".") != 0 && strcmp(text, "..") != 0;
    if (option->flags & OPTION_S3)
        return strncmp(text, "s3://", 5) == 0 && text[5] && text[5] != '/';
    return true;
}

static bool option_set_text(const struct option *option, char **at, const char *text) {
    char *copy = NULL;
    if (!(option->flags & OPTION_NONE) || strcmp(text, "none") != 0) {
        if (!option_text_allowed(option, text) || !(copy = strdup(text)))
            return false;
    }
    free(*at);
    *at = copy;
    return true;
}

static bool option_set_list(const struct option *option, void *at, const char *text) {
    const char *rest = NULL;
    char *copy = strdup(text);
    bool good = copy && option_list_open(copy, &rest);
    if (good && option->type == OPTION_PAIR)
        good = option_set_pair(option, at, rest);
    else if (good && option->type == OPTION_SET)
        good = option_set_set(option, at, rest);
    else if (good)
        good = option_set_weights(option, at, rest);
    free(copy);
    return good;
}

static bool option_read(const struct option *option, void *at, const char *text) {
    switch (option->type) {
    case OPTION_TEXT:
        return option_set_text(option, at, text);
    case OPTION_INTEGER:
        return option_set_integer(option, at, text);
    case OPTION_SEED:
        return text_to_u64(text, at);
    case OPTION_SIZE:
        return option_set_size(option, at, text);
    case OPTION_REAL:
        return option_set_real(option, at, text);
    case OPTION_BOOL:
        return option_set_bool(at, text);
    case OPTION_CHOICE:
        return option_set_choice(option, at, text);
    case OPTION_PAIR:
    case OPTION_SET:
    case OPTION_WEIGHTS:
    case OPTION_LIST: // option_list.c
        break;
    }
    return option_set_list(option, at, text);
}

// Quotes make a string of what is a number or a truth value; words and sizes are strings anyway.
static bool option_quotes_matter(const struct option *option, const char *text) {
    switch (option->type) {
    case OPTION_INTEGER:
    case OPTION_REAL:
        return !option_word(option, text);
    case OPTION_SEED:
    case OPTION_BOOL:
    case OPTION_PAIR:
        return true;
    case OPTION_WEIGHTS:
        return option_name(option, text) < 0;
    case OPTION_LIST:
        return option_find(option->each)->type != OPTION_TEXT;
    default:
        return false;
    }
}

// What is wrong with a value that is not allowed, where the range alone does not say it.
static const char *option_hint(const struct option *option, const char *text, bool quotes) {
    static const char *const truths[] = {"yes", "no", "on", "off", "y", "n", "True", "False", "TRUE", "FALSE", NULL};
    if (quotes)
        return " (in quotes it is a string: write it without)";
    for (int i = 0; option->type == OPTION_BOOL && truths[i]; i++)
        if (strcmp(truths[i], text) == 0)
            return strchr("yYoOtT", text[0]) && strcmp(text, "off") != 0 ? " (write true)" : " (write false)";
    if (*text == '\0')
        return " (it is empty)";
    if (text_has_control(text))
        return " (it holds a control character)";
    return strlen(text) > OPTION_VALUE_MAX ? " (it is longer than " DIGITS(OPTION_VALUE_MAX) " bytes)" : "";
}

// "'value'", without control characters and cut where it is long.
static void value_show(struct text *out, const char *value) {
    char *text = strdup(value);
    if (text)
        secret_mask(text); // before it is cut
    size_t size = text ? strlen(text) : 0, good = utf8_check(text, size);
    text_puts(out, "'");
    text_add(out, text, good > 80 ? 80 : good);
    text_puts(out, good > 80 ? "...'" : good < size ? "...' (not UTF-8)" : "'");
    free(text);
}

static enum status option_refuse(const struct option *option, const char *text, bool quotes, const char *where) {
    struct text shown = {0}, range = {0};
    value_show(&shown, text);
    option_range(&range, option);
    enum status status = status_set(STATUS_USAGE, "%s: %s is not allowed%s; allowed: %s", where, text_string(&shown),
                                    option_hint(option, text, quotes), text_string(&range));
    text_release(&shown);
    text_release(&range);
    return status;
}

// A job is printed, stored and published.
static enum status option_refuse_secret(const char *text, const char *where) {
    struct text shown = {0};
    value_show(&shown, text);
    enum status status = status_set(STATUS_USAGE,
                                    "%s: %s is not allowed: it holds a user, a password or a token, and a job may hold "
                                    "no credentials: they belong into the environment, or the configuration of the "
                                    "tool that fetches data and models (~/.aws/config, huggingface-cli login)",
                                    where, text_string(&shown));
    text_release(&shown);
    return status;
}

enum status option_set(const struct option *option, struct job *job, const char *text, bool quoted, const char *where) {
    bool quotes = quoted && option_quotes_matter(option, text);
    bool empty = !*text && (option->type == OPTION_SET || option->type == OPTION_LIST); // "--export.to=": no item
    bool clean = option_is_text(text) || empty;
    if (secret_is_in(text))
        return option_refuse_secret(text, where);
    if (!quotes && clean && option->type == OPTION_LIST)
        return option_list_set(option, option_at(option, job), text, where);
    if (!quotes && clean && option_read(option, option_at(option, job), text))
        return STATUS_OK;
    return option_refuse(option, text, quotes, where);
}

void option_clear(const struct option *option, struct job *job) {
    if (option->type == OPTION_LIST)
        option_list_clear(option_at(option, job));
    if (option->type != OPTION_TEXT && option->type != OPTION_WEIGHTS)
        return;
    char **at = option_at(option, job);
    free(*at);
    *at = NULL;
}
