# SPDX-License-Identifier: Apache-2.0
# Checkpoints of several worlds, compared with h5py. Programs of tests/mpi and how they are started: mpi.cmake.
include(${CMAKE_CURRENT_LIST_DIR}/mpi.cmake)
add_executable(mpi_checkpoint_world ${CMAKE_CURRENT_SOURCE_DIR}/mpi/checkpoint_world.c)
target_include_directories(mpi_checkpoint_world PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(mpi_checkpoint_world PRIVATE finetuned_checkpoints)
add_test(NAME mpi.checkpoint_worlds
  COMMAND ${FINETUNED_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/mpi/checkpoint_worlds.py $<TARGET_FILE:mpi_checkpoint_world>
    ${FINETUNED_MPIRUN} ${FINETUNED_MPIRUN_ARGUMENTS})
set_tests_properties(mpi.checkpoint_worlds PROPERTIES LABELS mpi SKIP_RETURN_CODE 77 TIMEOUT 300
  ENVIRONMENT "${FINETUNED_TEST_ENVIRONMENT};${FINETUNED_MPI_ENVIRONMENT}")
