# SPDX-License-Identifier: Apache-2.0
# The shim that makes calls fail (tests/shim): a preloaded object for the program, and linked into the walks.
set(shim_sources ${CMAKE_CURRENT_SOURCE_DIR}/shim/shim.c ${CMAKE_CURRENT_SOURCE_DIR}/shim/calls.c)
# It defines the C library's functions and names some of its own: no fortified twins, no attributes to contradict.
set(shim_options -U_FORTIFY_SOURCE -fno-builtin -Wno-missing-prototypes -Wno-nonnull-compare -Wno-attributes)

add_library(finetuned_shim SHARED ${shim_sources})
target_compile_definitions(finetuned_shim PRIVATE _GNU_SOURCE SHIM_PRELOAD)
target_compile_options(finetuned_shim PRIVATE -Wall -Wextra -Werror ${shim_options})
target_link_libraries(finetuned_shim PRIVATE ${CMAKE_DL_LIBS})
set_target_properties(finetuned_shim PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
