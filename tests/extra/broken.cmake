# SPDX-License-Identifier: Apache-2.0
# Damaged checkpoints in numbers, with hashes that tell and with hashes made anew.
add_test(NAME long.checkpoints_broken COMMAND test_checkpoints_broken)
set_tests_properties(long.checkpoints_broken PROPERTIES LABELS long TIMEOUT 7200 SKIP_RETURN_CODE 77
  ENVIRONMENT "${FINETUNED_TEST_ENVIRONMENT};FINETUNED_DAMAGES=200000")
add_test(NAME long.checkpoints_skeleton COMMAND test_checkpoints_skeleton)
set_tests_properties(long.checkpoints_skeleton PROPERTIES LABELS long TIMEOUT 7200 SKIP_RETURN_CODE 77
  ENVIRONMENT "${FINETUNED_TEST_ENVIRONMENT};FINETUNED_DAMAGES=100000")
