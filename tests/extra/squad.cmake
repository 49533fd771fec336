# SPDX-License-Identifier: Apache-2.0
# The committed tables of Python's strings are what their generator writes.
add_test(NAME squad.tables COMMAND sh -c "
  ${FINETUNED_PYTHON} \"$FINETUNED_SOURCE/model/squad_generate.py\" \"$FINETUNED_SOURCE/tests/golden\" | cmp - \"$FINETUNED_SOURCE/model/squad_tables.c\"")
finetuned_test(squad.tables)
