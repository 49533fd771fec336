# SPDX-License-Identifier: Apache-2.0
# tests/fuzz/fuzz_<name>.c: LLVMFuzzerTestOneInput for one parser. Built with driver.c it is the test fuzz.<name> over
# tests/fuzz/corpus/<name>; with -DFINETUNED_FUZZERS=ON (clang, and FINETUNED_SANITIZE=address,undefined,fuzzer-no-link for
# the libraries) it is a libFuzzer program instead.
file(GLOB fuzzers CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/fuzz_*.c)
foreach(fuzzer IN LISTS fuzzers)
  get_filename_component(target ${fuzzer} NAME_WE)
  string(REGEX REPLACE "^fuzz_" "" name ${target})
  set_source_files_properties(${fuzzer} PROPERTIES COMPILE_OPTIONS -Wno-missing-prototypes)
  set(corpus ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/corpus/${name})
  if(FINETUNED_FUZZERS)
    add_executable(${target} ${fuzzer})
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer)
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    set(arguments -runs=0 ${corpus})
  else()
    add_executable(${target} ${fuzzer} ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/driver.c)
    set(arguments ${corpus})
  endif()
  target_link_libraries(${target} PRIVATE finetuned_export)
  add_test(NAME fuzz.${name} COMMAND ${target} ${arguments})
  finetuned_test(fuzz.${name})
  set_tests_properties(fuzz.${name} PROPERTIES LABELS fuzz)
endforeach()
