# SPDX-License-Identifier: Apache-2.0
# The committed Unicode tables are what their generator writes.
add_test(NAME tokenizer.unicode_tables COMMAND sh -c "
  test -r \"$FINETUNED_GOLDEN/unicode_bert.json\" || { echo 'SKIPPED: golden/unicode_bert.json is not here'; exit 77; }
  ${FINETUNED_PYTHON} \"$FINETUNED_SOURCE/data/unicode_generate.py\" \"$FINETUNED_GOLDEN\" | cmp - \"$FINETUNED_SOURCE/data/unicode_tables.c\"")
finetuned_test(tokenizer.unicode_tables)
