# SPDX-License-Identifier: Apache-2.0
# Ranks lost at random moments of a run, many times; in the sanitized build a few of the cases.
add_test(NAME long.lost COMMAND ${FINETUNED_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_lost.py Random
  WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/cli)
set_tests_properties(long.lost PROPERTIES LABELS long TIMEOUT 7200 SKIP_RETURN_CODE 77
  ENVIRONMENT "${FINETUNED_TEST_ENVIRONMENT};FINETUNED_LOSSES=60")
if(FINETUNED_SANITIZE)
  set_property(TEST cli.lost APPEND PROPERTY ENVIRONMENT FINETUNED_FEW=1)
endif()
