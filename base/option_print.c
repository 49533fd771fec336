// SPDX-License-Identifier: Apache-2.0
// An option's value as text, as in the YAML, and what is allowed, for people.
#include "base/options.h"

#include <ctype.h>
#include <math.h>

static const void *option_at(const struct option *option, const struct job *job) {
    return (const char *)job + option->offset;
}

// ---- to text

// The shortest decimal that reads back as the same number, always with a dot, as YAML 1.1 wants it of a number with
// exponent.
void option_print_real(struct text *out, double value) {
    char digits[40];
    double back;
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (text_to_double(digits, &back) && back == value)
            break;
    }
    if (value == floor(value) && fabs(value) < 1e15) // 60.0, not 6.0e+01
        snprintf(digits, sizeof digits, "%.0f", value);
    size_t mantissa = strcspn(digits, "e");
    text_add(out, digits, mantissa);
    if (!memchr(digits, '.', mantissa))
        text_puts(out, ".0");
    text_puts(out, digits + mantissa);
}

static void size_print(struct text *out, int64_t value) {
    static const char *const units[] = {"", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    while (value && value % 1024 == 0 && unit < 4) {
        value /= 1024;
        unit++;
    }
    text_printf(out, "%lld%s", (long long)value, units[unit]);
}

// True for what every YAML reader takes for a string as it stands.
static bool text_is_plain(const char *text) {
    static const char *const words[] = {"null", "true", "false", "yes",  "no",   "on",
                                        "off",  "y",    "n",     ".inf", ".nan", NULL};
    bool dot = text[0] == '.' && text[1] && !isdigit((unsigned char)text[1]); // not a number
    if (!isalpha((unsigned char)text[0]) && text[0] != '/' && text[0] != '_' && !dot)
        return false;
    for (const char *at = text; *at; at++)
        if (!((*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') ||
              strchr("_./+-=@", *at) || (*at == ':' && at[1])))
            return false;
    for (int i = 0; words[i]; i++)
        if (strcasecmp(words[i], text) == 0)
            return false;
    return true;
}

// What libyaml's reader refuses inside a scalar, or folds as a line's end.
static bool code_needs_escape(uint32_t code) {
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x2028 || code == 0x2029 || code == 0xfeff ||
           code == 0xfffe || code == 0xffff;
}

static void string_print(struct text *out, const char *text) {
    if (text_is_plain(text)) {
        text_puts(out, text);
        return;
    }
    const char *end = text + strlen(text);
    text_puts(out, "\"");
    for (uint32_t code; text < end;) {
        unsigned length = utf8_decode(text, end, &code);
        if (length == 0)
            break;
        if (code_needs_escape(code))
            text_printf(out, "\\u%04x", (unsigned)code);
        else if (code == '"' || code == '\\')
            text_printf(out, "\\%c", (char)code);
        else
            text_add(out, text, length);
        text += length;
    }
    text_puts(out, "\"");
}

static bool word_print(struct text *out, const struct option *option, double value) {
    for (size_t i = 0; i < 2 && option->words[i].word; i++)
        if (option->words[i].value == value) {
            text_puts(out, option->words[i].word);
            return true;
        }
    return false;
}

// Texts as in the YAML, numbers as they are.
static void list_print(struct text *out, const struct option *option, const struct job_list *list) {
    bool texts = option_find(option->each)->type == OPTION_TEXT;
    text_puts(out, "[");
    for (size_t i = 0; i < list->n; i++) {
        text_puts(out, i ? ", " : "");
        texts ? string_print(out, list->at[i]) : text_puts(out, list->at[i]);
    }
    text_puts(out, "]");
}

static void set_print(struct text *out, const struct option *option, const bool *at) {
    bool first = true;
    text_puts(out, "[");
    for (int i = 0; option->names[i]; i++) {
        if (!at[i])
            continue;
        text_printf(out, "%s%s", first ? "" : ", ", option->names[i]);
        first = false;
    }
    text_puts(out, "]");
}

bool option_is_unset(const struct option *option, const struct job *job) {
    return option->type == OPTION_TEXT && !(option->flags & OPTION_NONE) && !*(char *const *)option_at(option, job);
}

void option_print(struct text *out, const struct option *option, const struct job *job) {
    const void *at = option_at(option, job);
    const char *string = option->type == OPTION_TEXT || option->type == OPTION_WEIGHTS ? *(char *const *)at : NULL;
    switch (option->type) {
    case OPTION_TEXT:
        if (string)
            string_print(out, string);
        else if (option->flags & OPTION_NONE)
            text_puts(out, "none");
        break;
    case OPTION_WEIGHTS:
        text_puts(out, string ? string : "none");
        break;
    case OPTION_INTEGER:
        if (!word_print(out, option, (double)*(const int64_t *)at))
            text_printf(out, "%lld", (long long)*(const int64_t *)at);
        break;
    case OPTION_SEED:
        text_printf(out, "%llu", (unsigned long long)*(const uint64_t *)at);
        break;
    case OPTION_SIZE:
        size_print(out, *(const int64_t *)at);
        break;
    case OPTION_REAL:
        if (!word_print(out, option, *(const double *)at))
            option_print_real(out, *(const double *)at);
        break;
    case OPTION_BOOL:
        text_puts(out, *(const bool *)at ? "true" : "false");
        break;
    case OPTION_CHOICE:
        text_puts(out, option->names[*(const int *)at]);
        break;
    case OPTION_PAIR:
        text_puts(out, "[");
        option_print_real(out, ((const double *)at)[0]);
        text_puts(out, ", ");
        option_print_real(out, ((const double *)at)[1]);
        text_puts(out, "]");
        break;
    case OPTION_SET:
        set_print(out, option, at);
        break;
    case OPTION_LIST:
        list_print(out, option, at);
        break;
    }
}

// ---- for people

static void names_print(struct text *out, const struct option *option) {
    for (int i = (int)option->least; option->names[i]; i++)
        text_printf(out, "%s%s", i > (int)option->least ? ", " : "", option->names[i]);
}

static void number_range_print(struct text *out, const struct option *option, const char *noun) {
    for (size_t i = 0; i < 2 && option->words[i].word; i++)
        text_printf(out, "%s, ", option->words[i].word);
    text_printf(out, "%s%s from %.15g%s to %.15g%s", option->words[0].word ? "or " : "", noun, option->least,
                option->flags & OPTION_ABOVE_LEAST ? " (excluded)" : "", option->most,
                option->flags & OPTION_BELOW_MOST ? " (excluded)" : "");
}

void option_range(struct text *out, const struct option *option) {
    if (option->range)
        text_puts(out, option->range);
    else if (option->type == OPTION_BOOL)
        text_puts(out, "true, false");
    else if (option->type == OPTION_SIZE)
        text_puts(out, "bytes, or with a unit, as 512MiB (KiB, MiB, GiB, TiB), up to 1TiB");
    else if (option->type == OPTION_SET)
        text_puts(out, "a list, perhaps empty, of "), names_print(out, option);
    else if (option->type == OPTION_LIST)
        text_printf(out, "a list, perhaps empty, of up to %d different values, each ", JOB_LIST_MAX),
            option_range(out, option_find(option->each));
    else if (option->type == OPTION_PAIR)
        number_range_print(out, option, "a list of two numbers");
    else if (option->names)
        names_print(out, option);
    else
        number_range_print(out, option, option->type == OPTION_REAL ? "a number" : "an integer");
}

// True if `list` holds `word` (`size` bytes), with blanks between words.
static bool words_hold(const char *list, const char *word, size_t size) {
    for (const char *at = list; (at = strstr(at, word)); at++)
        if ((at == list || at[-1] == ' ') && (at[size] == ' ' || at[size] == '\0'))
            return true;
    return false;
}

bool option_later(struct text *out, const struct option *option, const struct job *job) {
    if (!option->later)
        return false;
    if (option->type == OPTION_SET) {
        const bool *at = option_at(option, job);
        for (int i = 0; option->names[i]; i++)
            if (at[i] && words_hold(option->later, option->names[i], strlen(option->names[i]))) {
                text_puts(out, option->names[i]);
                return true;
            }
        return false;
    }
    option_print(out, option, job);
    const char *value = text_string(out);
    return value && (strcmp(option->later, "*") == 0 ? strcmp(value, option->fallback) != 0
                                                     : words_hold(option->later, value, strlen(value)));
}
