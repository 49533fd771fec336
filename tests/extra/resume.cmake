# SPDX-License-Identifier: Apache-2.0
# Checkpoints of other steps and formats, for cli.resume_*.
add_executable(checkpoint_edit ${CMAKE_CURRENT_SOURCE_DIR}/tools/checkpoint_edit.c)
target_link_libraries(checkpoint_edit PRIVATE finetuned_checkpoints)

# What ./check does with 20 kills, with 200.
add_test(NAME long.resume_killed COMMAND ${FINETUNED_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_resume_killed.py
  WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/cli)
set_tests_properties(long.resume_killed PROPERTIES LABELS long TIMEOUT 7200 SKIP_RETURN_CODE 77
  ENVIRONMENT "${FINETUNED_TEST_ENVIRONMENT};FINETUNED_KILLS=200;FINETUNED_SEED=7")
