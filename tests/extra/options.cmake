# SPDX-License-Identifier: Apache-2.0
# tests_sanitized: what ./check runs in the asan build, all unit tests, fuzz targets, the program and the tools of its tests.
set(sanitized finetuned finetuned_cpus finetuned_shim finetuned_walk checkpoint_edit test_zip_blocks_7 test_zip_blocks_1001)
foreach(file IN LISTS units)
  get_filename_component(name ${file} NAME_WE)
  list(APPEND sanitized test_${name})
endforeach()
foreach(file IN LISTS fuzzers)
  get_filename_component(name ${file} NAME_WE)
  list(APPEND sanitized ${name})
endforeach()
add_custom_target(tests_sanitized DEPENDS ${sanitized})
