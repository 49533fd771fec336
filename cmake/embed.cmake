# SPDX-License-Identifier: Apache-2.0
# cmake -DFROM=file -DTO=file.c -DNAME=name -P embed.cmake: the file's bytes as `const unsigned char name[]` and
# `const size_t name_size`.
file(READ ${FROM} hex HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
string(REGEX REPLACE "((0x..,){20})" "\\1\n" bytes "${bytes}")
file(WRITE ${TO} "#include <stddef.h>\n"
  "extern const unsigned char ${NAME}[];\nextern const size_t ${NAME}_size;\n"
  "const unsigned char ${NAME}[] = {\n${bytes}};\nconst size_t ${NAME}_size = sizeof ${NAME};\n")
