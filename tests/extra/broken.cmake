# SPDX-License-Identifier: Apache-2.0
# Damaged checkpoints in numbers: every other byte of HDF5's own several times over.
add_test(NAME long.checkpoints_broken COMMAND test_checkpoints_broken)
set_tests_properties(long.checkpoints_broken PROPERTIES LABELS long TIMEOUT 7200 SKIP_RETURN_CODE 77
  ENVIRONMENT "${FINETUNED_TEST_ENVIRONMENT};FINETUNED_DAMAGES=200000")
