# SPDX-License-Identifier: Apache-2.0
# Checkpoints of other steps and formats, for cli.resume_*.
add_executable(checkpoint_edit ${CMAKE_CURRENT_SOURCE_DIR}/tools/checkpoint_edit.c)
target_link_libraries(checkpoint_edit PRIVATE finetuned_checkpoints)
