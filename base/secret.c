// SPDX-License-Identifier: Apache-2.0
#include "base/secret.h"

#include <string.h>

#define SECRET_ENDS " \t\r\n'\"<>," // what ends a URL inside a message

// Behind the next "://" from `at` on, or NULL.
static char *url_next(char *at) {
    char *found = strstr(at, "://");
    return found ? found + 3 : NULL;
}

// How many bytes of the authority are a user's part, its @ not counted; 0: none. host:8080 is none.
static size_t user_size(const char *authority, bool *at_sign) {
    size_t size = strcspn(authority, "/?#" SECRET_ENDS);
    const char *colon = memchr(authority, ':', size);
    *at_sign = false;
    for (size_t i = size; i > 0; i--)
        if (authority[i - 1] == '@') {
            *at_sign = true;
            return i - 1;
        }
    size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;
    return colon && authority[0] != '[' && colon + 1 + digits != authority + size ? size : 0;
}

// Puts "***" in the place of text[0, size), or as many stars as fit; returns what is behind them.
static char *stars_put(char *text, size_t size) {
    size_t stars = size < 3 ? size : 3;
    memset(text, '*', stars);
    memmove(text + stars, text + size, strlen(text + size) + 1);
    return text + stars;
}

// The values of ?name=value&name=value.
static char *query_mask(char *at, bool *found) {
    at += strcspn(at, "?" SECRET_ENDS);
    while (*at == '?' || *at == '&') {
        at += strcspn(at, "=" SECRET_ENDS);
        if (*at != '=')
            break;
        size_t size = strcspn(at + 1, "&#" SECRET_ENDS);
        *found = *found || size > 0;
        at = stars_put(at + 1, size);
    }
    return at;
}

static bool url_mask(char *text) {
    bool found = false, at_sign;
    for (char *at = text; (at = url_next(at));) {
        size_t size = user_size(at, &at_sign);
        found = found || at_sign || size > 0;
        at = query_mask(size ? stars_put(at, size) : at, &found);
    }
    return found;
}

void secret_mask(char *text) {
    url_mask(text);
}

bool secret_is_in(const char *text) {
    char *copy = strstr(text, "://") ? strdup(text) : NULL;
    bool found = copy && url_mask(copy);
    free(copy);
    return found;
}
