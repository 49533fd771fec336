// SPDX-License-Identifier: Apache-2.0
#include "base/secret.h"
#include "base/status.h"
#include "support.h"

static void masked(const char *text, const char *wanted) {
    char at[256];
    snprintf(at, sizeof at, "%s", text);
    secret_mask(at);
    assert_string_equal(at, wanted);
    assert_int_equal(secret_is_in(text), strcmp(text, wanted) != 0);
}

#define THIRTY "abcdefghijKLMNOPQRST0123456789"

static void test_masked(void **state) {
    (void)state;
    masked("https://user:pa55@host/a", "https://***@host/a");
    masked("https://hf_token@host/a", "https://***@host/a");
    masked("https://a:b@c:d@host/a", "https://***@host/a"); // the last @ counts
    masked("s3://KEY:SECRET@bucket/prefix", "s3://***@bucket/prefix");
    masked("open 's3://k:s@b': not there", "open 's3://***@b': not there");
    masked("https://h/a?token=abcdef&x=12345#f", "https://h/a?token=***&x=***#f");
    masked("https://u:p@h/a?sig=abcdef and https://v:q@i", "https://***@h/a?sig=*** and https://***@i");
    masked("https://user:secretthatwascu", "https://***"); // no @ any more
    masked("https://user:12a", "https://***");
    masked("https://u@h", "https://*@h");
    masked("https://h/x#access_token=abcdef", "https://h/x#access_token=***");
    masked("https://h/x?a=bcde#access_token=abcdef&t=wxyz", "https://h/x?a=***#access_token=***&t=***");
    masked("//user:pa55@host/a", "//***@host/a");
    masked("open '//user:pa55@host': no", "open '//***@host': no");
    masked("--out=//user:pa55@host", "--out=//***@host");
    masked("[//user:pa55@host/a]", "[//***@host/a]");
    masked("http:/user:pa55@host/", "http:/***@host/");
    masked("http:/hf_token@host/", "http:/***@host/");
    masked("a/https:/u:pa55@h", "a/https:/***@h");
    masked("a/https:/h/b?sig=abcdef", "a/https:/h/b?sig=***");
    masked("https:///u:pa55@h", "https:///***@h");
    masked("https:\\\\u:pa55@h", "https:\\\\***@h");
    masked("https://h;pw=abcdef", "https://h;pw=***");
    masked("https:user:pa55@host", "https:***@host");
    masked("s3:key:pa55@bucket", "s3:***@bucket");
    masked("S3:/key:pa55@bucket", "S3:/***@bucket");
    masked("https://h/x%3Ftoken=abcdef", "https://h/x%3Ftoken=***");
    masked("https://h/x%3ftoken%3Dab%26cd", "https://h/x%3ftoken%3D***");
    masked("https://h/x?token%3dabcdef&y=wxyz", "https://h/x?token%3d***&y=***");
    masked("/mnt//user:pa55@host/x", "/mnt//***@host/x");
    masked("user:pa55@host:/path", "***@host:/path");
    masked("open 'user:p@55@host.org:~/x': no", "open '***@host.org:~/x': no");
    masked("hf_" THIRTY, "hf_***");
    masked("hf_" THIRTY "4x", "hf_***");
    masked("a/hf_" THIRTY "/b", "a/hf_***/b");
    masked("model 'hf_" THIRTY "' and hf_" THIRTY "5", "model 'hf_***' and hf_***");
}

static void test_left_alone(void **state) {
    (void)state;
    static const char *const texts[] = {
        "",
        "plain",
        "https://host",
        "https://host:8080/a",
        "https://host:8080",
        "https://[::1]:80/a",
        "s3://bucket/a@b:c",
        "user:password@host",
        "a://",
        "://",
        "https://h/a?",
        "https://h/a?b",
        "https://h/a?b=",
        "https://h/a b=c?d=e",
        "12:30 /a/b",
        "a//b@c/d",
        "a//b:c/d@e",
        "10:30@host",
        "user@host:/path",
        "a:b@c:d",
        "mys3:k:s@b",
        "https:8080/a",
        "https://h/a%3Fb",
        "https://h/a%20b=c",
        "https://h/a%",
        "//b@c/d",
        "/a:/b:c@d",
        "c:/b:c@d",
        "file:///home/a:b/c",
        "https:/host:8080/a",
        "https://h/a#b",
        "https://h/a;b",
        "hf_abcdefghijKLMNOPQRST012345678",
        "of_hf_abcdefghijKLMNOPQRST-012345678",
        "xhf_" THIRTY,
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        masked(texts[i], texts[i]);
}

static void test_messages(void **state) {
    (void)state;
    status_set(STATUS_DATA, "open %s: no", "https://user:pa55@host/a");
    assert_string_equal(status_message(), "open https://***@host/a: no");
    status_add(STATUS_DATA, "s3://a:b@c");
    assert_string_equal(status_message(), "s3://***@c: open https://***@host/a: no");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_masked),
        cmocka_unit_test(test_left_alone),
        cmocka_unit_test(test_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
