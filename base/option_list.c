// SPDX-License-Identifier: Apache-2.0
// A list of values of another option: each is read as that option reads it, and kept as text.
#include "base/options.h"

#define ITEM_MAX 256 // bytes of an item, NUL included

bool option_list_open(char *text, const char **rest) {
    size_t size = strlen(text);
    bool open = size > 0 && text[0] == '[', close = size > 0 && text[size - 1] == ']';
    if (open != close)
        return false;
    if (open) {
        text[size - 1] = '\0';
        text++;
    }
    *rest = open && text[strspn(text, " ")] == '\0' ? NULL : text;
    return true;
}

bool option_list_next(const char **rest, char *item, size_t room, bool *bad) {
    if (!*rest)
        return false;
    const char *comma = strchr(*rest, ',');
    const char *first = *rest, *last = comma ? comma : first + strlen(first);
    while (first < last && *first == ' ')
        first++;
    while (last > first && last[-1] == ' ')
        last--;
    *rest = comma ? comma + 1 : NULL;
    *bad = first == last || (size_t)(last - first) >= room;
    if (*bad)
        return false;
    memcpy(item, first, (size_t)(last - first));
    item[last - first] = '\0';
    return true;
}

// The item as `option` prints it: 3e-5 and 0.00003 are one. A text stays as it is.
static enum status item_read(char **out, const struct option *option, const char *item, const char *where) {
    struct job *scratch = calloc(1, sizeof *scratch);
    struct text text = {0};
    *out = NULL;
    if (!scratch)
        return status_set(STATUS_SYSTEM, "job: no memory");
    enum status status = option_set(option, scratch, item, false, where);
    if (status == STATUS_OK && option->type == OPTION_TEXT)
        text_puts(&text, item);
    else if (status == STATUS_OK)
        option_print(&text, option, scratch);
    option_clear(option, scratch);
    free(scratch);
    if (status == STATUS_OK && (text.failed || !text.at))
        status = status_set(STATUS_SYSTEM, "job: no memory");
    if (status != STATUS_OK)
        text_release(&text);
    *out = text.at;
    return status;
}

static enum status item_add(struct job_list *list, const struct option *each, const char *item, const char *where) {
    if (strpbrk(item, "[]"))
        return status_set(STATUS_USAGE, "%s: '%.80s' can't be in a list", where, item);
    if (list->n == JOB_LIST_MAX)
        return status_set(STATUS_USAGE, "%s: a list of more than %d values is not allowed", where, JOB_LIST_MAX);
    TRY(item_read(&list->at[list->n], each, item, where));
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->at[i], list->at[list->n]) == 0) {
            free(list->at[list->n]);
            list->at[list->n] = NULL;
            return status_set(STATUS_USAGE, "%s: %s is in the list twice", where, list->at[i]);
        }
    list->n++;
    return STATUS_OK;
}

static enum status list_read(struct job_list *list, const struct option *option, const char *rest, const char *where) {
    const struct option *each = option_find(option->each);
    char item[ITEM_MAX];
    bool bad = false;
    list->at = calloc(JOB_LIST_MAX, sizeof *list->at);
    if (!list->at)
        return status_set(STATUS_SYSTEM, "job: no memory");
    while (option_list_next(&rest, item, sizeof item, &bad))
        TRY(item_add(list, each, item, where));
    return bad ? status_set(STATUS_USAGE, "%s: an empty value, or one of more than %d bytes, is not allowed", where,
                            ITEM_MAX - 1)
               : STATUS_OK;
}

static void list_release(struct job_list *list) {
    for (size_t i = 0; i < list->n; i++)
        free(list->at[i]);
    free(list->at);
    *list = (struct job_list){0};
}

enum status option_list_set(const struct option *option, struct job_list *out, const char *text, const char *where) {
    struct job_list list = {0};
    const char *rest = NULL;
    char *copy = strdup(text);
    enum status status = copy ? STATUS_OK : status_set(STATUS_SYSTEM, "job: no memory");
    if (status == STATUS_OK && !option_list_open(copy, &rest))
        status = status_set(STATUS_USAGE, "%s: '%.80s' is no list: write a,b or [a, b]", where, text);
    if (status == STATUS_OK && (!*text || strcmp(text, "none") == 0)) // the empty list in a flag
        rest = NULL;
    if (status == STATUS_OK)
        status = list_read(&list, option, rest, where);
    free(copy);
    if (status != STATUS_OK) {
        list_release(&list);
        return status;
    }
    list_release(out);
    *out = list;
    return STATUS_OK;
}

void option_list_clear(struct job_list *list) {
    list_release(list);
}
