# SPDX-License-Identifier: Apache-2.0
# The shim that makes calls fail (tests/shim): a preloaded object for the program, and linked into the walks.
set(shim_sources ${CMAKE_CURRENT_SOURCE_DIR}/shim/shim.c ${CMAKE_CURRENT_SOURCE_DIR}/shim/calls.c)
# It defines functions of the C library, which other libraries must find, and names some of its own: no fortified twins,
# no attributes to contradict.
set(shim_options -fvisibility=default -U_FORTIFY_SOURCE -fno-builtin -Wno-missing-prototypes -Wno-nonnull-compare -Wno-attributes)

add_library(finetuned_shim SHARED ${shim_sources})
target_compile_definitions(finetuned_shim PRIVATE _GNU_SOURCE SHIM_PRELOAD)
target_compile_options(finetuned_shim PRIVATE -Wall -Wextra -Werror ${shim_options})
target_include_directories(finetuned_shim PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(finetuned_shim PRIVATE ${CMAKE_DL_LIBS})
set_target_properties(finetuned_shim PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)

# Another: more CPUs than there are.
add_library(finetuned_cpus SHARED ${CMAKE_CURRENT_SOURCE_DIR}/shim/cpus.c)
target_compile_definitions(finetuned_cpus PRIVATE _GNU_SOURCE)
target_compile_options(finetuned_cpus PRIVATE -Wall -Wextra -Werror)
set_target_properties(finetuned_cpus PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)

# A walk of faults over one action each, in a process a fault: tests/shim/walk.h. Memory is failed at each EVERY-th call
# here, at every call under the label long.
add_executable(finetuned_walk ${shim_sources} ${CMAKE_CURRENT_SOURCE_DIR}/shim/walk.c
  ${CMAKE_CURRENT_SOURCE_DIR}/shim/walk_checkpoints.c ${CMAKE_CURRENT_SOURCE_DIR}/shim/walk_artifacts.c)
set_source_files_properties(${shim_sources} PROPERTIES COMPILE_OPTIONS "${shim_options}")
target_include_directories(finetuned_walk PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(finetuned_walk PRIVATE finetuned_export ${CMAKE_DL_LIBS})
if(FINETUNED_SANITIZE)
  target_compile_definitions(finetuned_walk PRIVATE SHIM_NO_MEMORY)
endif()

function(finetuned_walk subject every)
  add_test(NAME unit.walk_${subject} COMMAND finetuned_walk ${subject} ${every})
  finetuned_test(unit.walk_${subject})
  if(NOT FINETUNED_SANITIZE)
    add_test(NAME long.walk_${subject} COMMAND finetuned_walk ${subject} 1)
    finetuned_test(long.walk_${subject})
    set_tests_properties(long.walk_${subject} PROPERTIES LABELS long TIMEOUT 3600)
  endif()
endfunction()
finetuned_walk(save 211)
finetuned_walk(replace 211)
finetuned_walk(retain 211)
finetuned_walk(export 211)
finetuned_walk(archive 211)
finetuned_walk(sagemaker 211)
finetuned_walk(shard 7)
finetuned_walk(file 1)

add_test(NAME long.walk COMMAND ${FINETUNED_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_walk.py WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/cli)
set_tests_properties(long.walk PROPERTIES LABELS long TIMEOUT 14400 SKIP_RETURN_CODE 77
  ENVIRONMENT "${FINETUNED_TEST_ENVIRONMENT};FINETUNED_LONG=1")
