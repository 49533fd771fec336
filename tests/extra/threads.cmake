# SPDX-License-Identifier: Apache-2.0
# The label `threads`: what ./check also runs in the tsan build, under the thread sanitizer; tests_threads builds it.
set(threads_units base_log base_pool base_pulse base_trace checkpoints_owner checkpoints_writer comm_bucket comm_watch data_shard data_shard_spans export_hf model_gemm
    model_ops_trace optim_norm optim_optimizer)
list(TRANSFORM threads_units PREPEND test_ OUTPUT_VARIABLE threads_programs)
list(TRANSFORM threads_units PREPEND unit. OUTPUT_VARIABLE threads_tests)
add_custom_target(tests_threads DEPENDS finetuned finetuned_cpus ${threads_programs})
set_tests_properties(${threads_tests} cli.threads PROPERTIES LABELS threads)
