// SPDX-License-Identifier: Apache-2.0
// The records' framing against known checksums, and what is said when an event can't be written. What the files hold:
// tests/cli/test_tensorboard.py.
#include "support.h"

#include "base/file.h"
#include "train/tensorboard.h"
#include "train/tfrecord.h"

#include <fcntl.h>
#include <unistd.h>

// RFC 3720, appendix B.4, and the check value of the polynomial.
static void test_checksum(void **state) {
    (void)state;
    unsigned char bytes[32];
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(crc32c(bytes, 32), 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(crc32c(bytes, 32), 0x62a8ab43);
    for (unsigned i = 0; i < 32; i++)
        bytes[i] = (unsigned char)i;
    assert_int_equal(crc32c(bytes, 32), 0x46dd794e);
    assert_int_equal(crc32c("123456789", 9), 0xe3069283);
    assert_int_equal(crc32c(NULL, 0), 0);
}

static void test_record(void **state) {
    (void)state;
    struct text text = {0};
    tfrecord_add(&text, "123456789", 9);
    assert_int_equal(text.size, 8 + 4 + 9 + 4);
    assert_memory_equal(text.at, "\x09\0\0\0\0\0\0\0", 8);
    assert_memory_equal(text.at + 12, "123456789", 9);
    // 0xe3069283 turned right by 15 and 0xa282ead8 added
    uint32_t masked = (0xe3069283u >> 15 | 0xe3069283u << 17) + 0xa282ead8u, got;
    memcpy(&got, text.at + 21, sizeof got);
    assert_int_equal(got, masked);
    text_release(&text);
}

static void test_errors(void **state) {
    (void)state;
    struct tensorboard board;
    struct tensorboard_scalar scalar = {"train/loss", 0.5};
    char *folder = support_folder(), *blocked = path_join(folder, "tensorboard");
    assert_ok(file_replace(blocked, "x", 1));
    assert_int_equal(tensorboard_open(&board, folder, 1), STATUS_IO);
    tensorboard_close(&board);
    assert_ok(file_remove(blocked));
    assert_ok(tensorboard_open(&board, folder, 1));
    assert_ok(tensorboard_write(&board, 1, &scalar, 1));
    close(board.fd);
    board.fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_int_equal(tensorboard_write(&board, 2, &scalar, 1), STATUS_IO);
    assert_non_null(strstr(status_message(), board.path));
    tensorboard_close(&board);
    assert_ok(tensorboard_write(&board, 3, &scalar, 1)); // closed: nothing to do
    assert_ok(file_remove(folder));
    free(blocked);
    free(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_checksum), cmocka_unit_test(test_record),
                                       cmocka_unit_test(test_errors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
