# SPDX-License-Identifier: Apache-2.0
# Damaged checkpoints in numbers, with hashes that tell and with hashes made anew.
add_test(NAME long.checkpoints_broken COMMAND test_checkpoints_broken)
set_tests_properties(long.checkpoints_broken PROPERTIES LABELS long TIMEOUT 7200 SKIP_RETURN_CODE 77
  ENVIRONMENT "${FINETUNED_TEST_ENVIRONMENT};FINETUNED_DAMAGES=200000")
add_test(NAME long.checkpoints_skeleton COMMAND test_checkpoints_skeleton)
set_tests_properties(long.checkpoints_skeleton PROPERTIES LABELS long TIMEOUT 7200 SKIP_RETURN_CODE 77
  ENVIRONMENT "${FINETUNED_TEST_ENVIRONMENT};FINETUNED_DAMAGES=100000")
# More than 2 and 4 GiB (tests/unit/*_large.c holds what a hole in a file shows): large.py asks for memory and disk first.
foreach(unit checkpoints_large export_archive_check)
  add_test(NAME long.${unit} COMMAND test_${unit})
  set_tests_properties(long.${unit} PROPERTIES LABELS long TIMEOUT 7200 ENVIRONMENT "${FINETUNED_TEST_ENVIRONMENT};FINETUNED_LARGE=1")
endforeach()
add_test(NAME long.large COMMAND ${FINETUNED_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/cli/large.py WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/cli)
set_tests_properties(long.large PROPERTIES LABELS long TIMEOUT 7200 SKIP_RETURN_CODE 77 ENVIRONMENT "${FINETUNED_TEST_ENVIRONMENT}")
# The same checks of pytorch_model.bin with blocks that everything goes over the end of, as a storage above 4 GiB does.
foreach(block 1001 7)
  add_executable(test_zip_blocks_${block} ${CMAKE_CURRENT_SOURCE_DIR}/unit/model_torch_file.c ${CMAKE_SOURCE_DIR}/model/zip.c)
  target_compile_definitions(test_zip_blocks_${block} PRIVATE ZIP_BLOCK=${block})
  target_include_directories(test_zip_blocks_${block} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(test_zip_blocks_${block} PRIVATE finetuned_model PkgConfig::cmocka)
  add_test(NAME unit.zip_blocks_${block} COMMAND test_zip_blocks_${block})
  finetuned_test(unit.zip_blocks_${block})
endforeach()
