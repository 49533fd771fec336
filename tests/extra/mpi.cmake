# SPDX-License-Identifier: Apache-2.0
# Programs of tests/mpi under mpirun, several ranks sharing this host's cores. Open MPI's "vader" is its shared memory.
include_guard(DIRECTORY)
find_program(FINETUNED_MPIRUN NAMES mpirun REQUIRED)
execute_process(COMMAND id -u OUTPUT_VARIABLE user OUTPUT_STRIP_TRAILING_WHITESPACE)
set(FINETUNED_MPIRUN_ARGUMENTS --oversubscribe --bind-to none)
if(user STREQUAL "0")
  list(APPEND FINETUNED_MPIRUN_ARGUMENTS --allow-run-as-root)
endif()
# Leaks are not looked for: Open MPI's own modules leave some behind when they are unloaded. (The unit tests of comm do look.)
set(FINETUNED_MPI_ENVIRONMENT
  "OMPI_MCA_btl=self,vader;OMPI_MCA_rmaps_base_oversubscribe=1;OMPI_MCA_mpi_yield_when_idle=1;ASAN_OPTIONS=detect_leaks=0")

foreach(program comm_world comm_end)
  add_executable(mpi_${program} ${CMAKE_CURRENT_SOURCE_DIR}/mpi/${program}.c)
  target_link_libraries(mpi_${program} PRIVATE finetuned_comm)
endforeach()

# The same checks with messages cut into pieces of 1001 bytes, as those above INT_MAX are in pieces of 1 GiB.
add_executable(mpi_comm_pieces ${CMAKE_CURRENT_SOURCE_DIR}/mpi/comm_world.c ${CMAKE_SOURCE_DIR}/comm/mpi.c)
target_compile_definitions(mpi_comm_pieces PRIVATE COMM_MPI_PIECE=1001)
target_link_libraries(mpi_comm_pieces PRIVATE finetuned_comm)

# finetuned_mpi_test(NAME PROGRAM RANKS arguments…)
function(finetuned_mpi_test name program ranks)
  add_test(NAME mpi.${name}
    COMMAND ${FINETUNED_MPIRUN} ${FINETUNED_MPIRUN_ARGUMENTS} -np ${ranks} $<TARGET_FILE:mpi_${program}> ${ARGN})
  set_tests_properties(mpi.${name} PROPERTIES LABELS mpi SKIP_RETURN_CODE 77 TIMEOUT 120
    ENVIRONMENT "${FINETUNED_TEST_ENVIRONMENT};${FINETUNED_MPI_ENVIRONMENT}")
endfunction()

foreach(ranks 1 2 3 4 6)
  finetuned_mpi_test(world_${ranks} comm_world ${ranks} ${ranks})
endforeach()
finetuned_mpi_test(pieces comm_pieces 2 2)
finetuned_mpi_test(self comm_end 2 self)
finetuned_mpi_test(fault comm_end 2 fault)
finetuned_mpi_test(guard_1 comm_end 1 guard)
finetuned_mpi_test(guard_2 comm_end 2 guard)
# The exit code must be the one given to comm_abort: ctest itself only knows zero and not zero.
add_test(NAME mpi.abort
  COMMAND sh -c "\"$@\"; test $? -eq 75" sh ${FINETUNED_MPIRUN} ${FINETUNED_MPIRUN_ARGUMENTS} -np 2 $<TARGET_FILE:mpi_comm_end> abort)
set_tests_properties(mpi.abort PROPERTIES LABELS mpi TIMEOUT 60 ENVIRONMENT "${FINETUNED_MPI_ENVIRONMENT}")
