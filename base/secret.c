// SPDX-License-Identifier: Apache-2.0
#include "base/secret.h"

#include <ctype.h>
#include <string.h>

#define SECRET_ENDS " \t\r\n'\"<>," // what ends a URL inside a message

// What can stand before a user's part: "://", what a shortened path makes of it (":/"), backslashes, which browsers
// take for slashes, and "//" where a word begins.
struct url {
    char *authority; // NULL: there is none
    bool sure;       // "://": without an @ a user's part may have been cut; else it counts only with one
    bool scheme;
};

static size_t slashes(const char *at) {
    return strspn(at, "/\\");
}

// Letters before `at`, two at least: a:/b is a drive, or a host and its path.
static bool scheme_ends(const char *text, const char *at) {
    return at - text >= 2 && isalpha((unsigned char)at[-1]) && isalnum((unsigned char)at[-2]);
}

static struct url url_next(char *text, char *from) {
    for (char *at = from; *at; at++) {
        size_t n = slashes(at + (*at == ':'));
        bool first = at == text || strchr(SECRET_ENDS "=[({;|", at[-1]);
        if (*at == ':' && n && (n == 2 || scheme_ends(text, at)))
            return (struct url){at + 1 + n, strncmp(at, "://", 3) == 0 && n == 2, true};
        if (*at != ':' && n >= 2 && first)
            return (struct url){at + n, false, false};
    }
    return (struct url){0};
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

// What of it is to go: all that user_size says if it is sure, else what has an @, and without a scheme a colon too.
static size_t user_part(const struct url *url, bool *at_sign) {
    size_t size = user_size(url->authority, at_sign);
    bool counts = url->sure || (*at_sign && (url->scheme || memchr(url->authority, ':', size)));
    *at_sign = *at_sign && counts;
    return counts ? size : 0;
}

// The values of ?name=value&name=value, #name=value, ;name=value.
static char *query_mask(char *at, bool *found) {
    at += strcspn(at, "?#;" SECRET_ENDS);
    while (*at && strchr("?&#;", *at)) {
        at += strcspn(at, "=" SECRET_ENDS);
        if (*at != '=')
            break;
        size_t size = strcspn(at + 1, "&#;" SECRET_ENDS);
        *found = *found || size > 0;
        at = stars_put(at + 1, size);
    }
    return at;
}

static bool url_mask(char *text) {
    bool found = false, at_sign;
    struct url url;
    for (char *at = text; (url = url_next(text, at)).authority;) {
        size_t size = user_part(&url, &at_sign);
        found = found || at_sign || size > 0;
        at = size ? stars_put(url.authority, size) : url.authority;
        at = url.scheme ? query_mask(at, &found) : at;
    }
    return found;
}

#define HUB_TOKEN "hf_"    // how a token of Hugging Face's hub begins, and
#define HUB_TOKEN_SIZE 30u // letters and digits behind that, at least

static size_t alphanumeric(const char *at) {
    size_t size = 0;
    while (isalnum((unsigned char)at[size]))
        size++;
    return size;
}

// Wherever one stands, not only in a URL.
static bool hub_mask(char *text) {
    bool found = false;
    for (char *at = text; (at = strstr(at, HUB_TOKEN)); at++) {
        size_t size = alphanumeric(at + strlen(HUB_TOKEN));
        bool first = at == text || !isalnum((unsigned char)at[-1]);
        if (!first || size < HUB_TOKEN_SIZE)
            continue;
        found = true;
        stars_put(at + strlen(HUB_TOKEN), size);
    }
    return found;
}

void secret_mask(char *text) {
    url_mask(text);
    hub_mask(text);
}

bool secret_is_in(const char *text) {
    char *copy = strpbrk(text, "/\\") || strstr(text, HUB_TOKEN) ? strdup(text) : NULL;
    bool found = copy && (hub_mask(copy) || url_mask(copy));
    free(copy);
    return found;
}
