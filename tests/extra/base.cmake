# SPDX-License-Identifier: Apache-2.0
# A banned function must not compile.
add_test(NAME house.banned COMMAND ${CMAKE_C_COMPILER} -fsyntax-only -include ${CMAKE_SOURCE_DIR}/base/banned.h
  ${CMAKE_SOURCE_DIR}/tests/house/banned.c)
set_tests_properties(house.banned PROPERTIES PASS_REGULAR_EXPRESSION "poisoned" TIMEOUT 60)
