// SPDX-License-Identifier: Apache-2.0
// Standard error becomes a datagram socket while a line is logged: what one write sends is one message.
#include "support.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <termios.h>

static int ends[2], stderr_kept;

static void capture_begin(void) {
    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends), 0);
    stderr_kept = dup(STDERR_FILENO);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
}

// The one message that was sent ("" if none); fails if there were more.
static const char *capture_end(void) {
    static char line[8192];
    char more;
    dup2(stderr_kept, STDERR_FILENO);
    ssize_t n = recv(ends[0], line, sizeof line - 1, MSG_DONTWAIT);
    line[n > 0 ? n : 0] = '\0';
    ssize_t second = recv(ends[0], &more, 1, MSG_DONTWAIT);
    close(stderr_kept), close(ends[0]), close(ends[1]);
    assert_true(second < 0);
    return line;
}

#define assert_logged(call, wanted)                                                                                    \
    do {                                                                                                               \
        capture_begin();                                                                                               \
        call;                                                                                                          \
        assert_string_equal(capture_end(), wanted);                                                                    \
    } while (0)

static void test_levels(void **state) {
    (void)state;
    log_setup(LOG_INFO, 0, 1);
    assert_logged(log_error("step %d", 3), "finetuned: error: step 3\n");
    assert_logged(log_warn("step %d", 3), "finetuned: warning: step 3\n");
    assert_logged(log_info("step %d", 3), "finetuned: step 3\n");
    assert_logged(log_debug("step %d", 3), "");
    log_setup(LOG_DEBUG, 0, 1);
    assert_logged(log_debug("step"), "finetuned: debug: step\n");
    log_setup(LOG_ERROR, 0, 1);
    assert_logged(log_warn("step"), "");
    assert_logged(log_error("step"), "finetuned: error: step\n");
}

static void test_ranks(void **state) {
    (void)state;
    log_setup(LOG_INFO, 0, 4);
    assert_logged(log_info("hello"), "finetuned: rank 0: hello\n");
    log_setup(LOG_DEBUG, 2, 4);
    assert_logged(log_info("hello"), "");
    assert_logged(log_warn("hello"), "finetuned: rank 2: warning: hello\n");
    assert_logged(log_debug("hello"), "finetuned: rank 2: debug: hello\n");
}

static void test_one_line(void **state) {
    (void)state;
    log_setup(LOG_INFO, 0, 1);
    assert_logged(log_info("a\nb\r%s", "c\n"), "finetuned: a b c \n");
    char longer[6000];
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    capture_begin();
    errno = EAGAIN;
    log_info("%s", longer);
    assert_int_equal(errno, EAGAIN);
    const char *line = capture_end();
    assert_int_equal(strlen(line), 4096);
    assert_int_equal(line[4094], 'x');
    assert_int_equal(line[4095], '\n');
}

// A standard error that nobody reads any more loses the line and nothing else.
static void test_closed(void **state) {
    (void)state;
    capture_begin();
    close(STDERR_FILENO);
    errno = EAGAIN;
    log_error("lost");
    int error = errno;
    assert_string_equal(capture_end(), "");
    assert_int_equal(error, EAGAIN); // the caller's errno, not the failed write's
}

static void test_progress_plain(void **state) {
    (void)state;
    log_setup(LOG_INFO, 0, 1);
    assert_logged(log_progress("step %d", 3), "finetuned: step 3\n");
    assert_logged(log_info("done"), "finetuned: done\n");
    log_setup(LOG_WARN, 0, 1);
    assert_logged(log_progress("step"), "");
    log_setup(LOG_INFO, 1, 2);
    assert_logged(log_progress("step"), "");
}

// On a terminal a progress line stands until the next line, which wipes it out.
static void test_progress_terminal(void **state) {
    (void)state;
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) {
        fprintf(stderr, "SKIPPED: %s: no pseudo-terminal here\n", __func__);
        skip();
    }
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    assert_true(slave >= 0);
    struct termios raw;
    tcgetattr(slave, &raw);
    cfmakeraw(&raw);
    tcsetattr(slave, TCSANOW, &raw);
    log_setup(LOG_INFO, 0, 1);
    int kept = dup(STDERR_FILENO);
    dup2(slave, STDERR_FILENO);
    log_progress("step 1");
    log_progress("step 2");
    log_info("done");
    log_info("more");
    dup2(kept, STDERR_FILENO);
    static const char wanted[] =
        "finetuned: step 1\r\x1b[2Kfinetuned: step 2\r\x1b[2Kfinetuned: done\nfinetuned: more\n";
    char got[sizeof wanted] = {0};
    size_t size = 0;
    while (size < sizeof wanted - 1) {
        ssize_t n = read(master, got + size, sizeof wanted - 1 - size);
        assert_true(n > 0);
        size += (size_t)n;
    }
    assert_string_equal(got, wanted);
    close(kept), close(slave), close(master);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_one_line),
        cmocka_unit_test(test_progress_plain),
        cmocka_unit_test(test_progress_terminal),
        cmocka_unit_test(test_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
