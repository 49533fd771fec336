// SPDX-License-Identifier: Apache-2.0
#include "base/secret.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define SECRET_ENDS " \t\r\n'\"<>," // what ends a URL inside a message

// What can stand before a user's part: "://", what a shortened path makes of it (":/"), backslashes, which browsers
// take for slashes, "//" alone, and nothing behind a scheme that is known.
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

// One of these needs no slash behind its colon: https:user:password@host, s3:key:secret@bucket.
static bool scheme_known(const char *text, const char *at) {
    static const char *const names[] = {"http", "https", "ftp", "ftps", "sftp", "ssh", "git", "s3", "gs", "hf"};
    size_t size = 0;
    while (at - size > text && isalnum((unsigned char)at[-1 - (ptrdiff_t)size]))
        size++;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == size && strncasecmp(names[i], at - size, size) == 0)
            return true;
    return false;
}

static struct url url_next(char *text, char *from) {
    for (char *at = from; *at; at++) {
        size_t n = slashes(at + (*at == ':'));
        if (*at == ':' && ((n && (n == 2 || scheme_ends(text, at))) || scheme_known(text, at)))
            return (struct url){at + 1 + n, strncmp(at, "://", 3) == 0 && n == 2, true};
        if (*at != ':' && n >= 2)
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

// Whether one of `marks` is at `at`, plain or as %XX.
static bool is_mark(const char *at, const char *marks) {
    unsigned code;
    if (*at == '%' && isxdigit((unsigned char)at[1]) && sscanf(at + 1, "%2x", &code) == 1)
        return code && strchr(marks, (int)code);
    return *at && strchr(marks, *at);
}

// The first of them before the URL's end; else that end.
static char *find_mark(char *at, const char *marks) {
    while (*at && !strchr(SECRET_ENDS, *at) && !is_mark(at, marks))
        at++;
    return at;
}

// The values of ?name=value&name=value, #name=value, ;name=value, the marks before a value also as %XX.
static char *query_mask(char *at, bool *found) {
    at = find_mark(at, "?#;");
    while (is_mark(at, "?&#;")) {
        at = find_mark(at, "=");
        if (!is_mark(at, "="))
            break;
        at += *at == '%' ? 3 : 1;
        size_t size = strcspn(at, "&#;" SECRET_ENDS);
        *found = *found || size > 0;
        at = stars_put(at, size);
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

// user:password@host:/path, as rsync and scp name a place.
static bool place_mask(char *text) {
    bool found = false;
    for (char *at = text; (at = strchr(at, '@')); at++) {
        char *user = at;
        while (user > text && !strchr(SECRET_ENDS "/\\=[({;|", user[-1]))
            user--;
        const char *colon = memchr(user, ':', (size_t)(at - user)), *host = at + 1;
        host += strspn(host, ".-_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
        if (!colon || colon == user || colon + 1 == at || host == at + 1 || host[0] != ':' || !strchr("/~", host[1]))
            continue;
        found = true;
        at = stars_put(user, (size_t)(at - user));
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
    place_mask(text);
    hub_mask(text);
}

bool secret_is_in(const char *text) {
    char *copy = strpbrk(text, "/\\@") || strstr(text, HUB_TOKEN) ? strdup(text) : NULL;
    bool found = copy && (hub_mask(copy) || url_mask(copy) || place_mask(copy));
    free(copy);
    return found;
}
