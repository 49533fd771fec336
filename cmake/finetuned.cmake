# SPDX-License-Identifier: Apache-2.0
# How a folder becomes a library, and which sources are compiled once for each instruction set.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

option(FINETUNED_FUZZERS "build the libFuzzer targets (needs clang)" OFF)
set(FINETUNED_SANITIZE "" CACHE STRING "sanitizers, as -fsanitize= takes them")

add_library(finetuned_flags INTERFACE)
target_compile_options(finetuned_flags INTERFACE
  -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wpointer-arith
  -Wformat=2 -Wno-format-nonliteral $<$<C_COMPILER_ID:GNU>:-Wno-format-truncation> -Wundef -include ${CMAKE_SOURCE_DIR}/base/banned.h
  -ffp-contract=off -fno-math-errno -fno-trapping-math -fvisibility=hidden)
target_compile_definitions(finetuned_flags INTERFACE _GNU_SOURCE FINETUNED_VERSION="${PROJECT_VERSION}")
target_include_directories(finetuned_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_link_libraries(finetuned_flags INTERFACE Threads::Threads m)
if(FINETUNED_SANITIZE)
  target_compile_options(finetuned_flags INTERFACE -fsanitize=${FINETUNED_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(finetuned_flags INTERFACE -fsanitize=${FINETUNED_SANITIZE})
endif()

# The instruction sets that one source is compiled for; the name becomes the symbol's suffix (base/isa.h).
set(FINETUNED_ISAS plain)
set(FINETUNED_ISA_FLAGS_plain "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|amd64|AMD64")
  list(APPEND FINETUNED_ISAS avx2 avx512 avx512bf16)
  set(FINETUNED_ISA_FLAGS_avx2 -march=x86-64-v3)
  set(FINETUNED_ISA_FLAGS_avx512 -march=x86-64-v4 -mprefer-vector-width=512)
  set(FINETUNED_ISA_FLAGS_avx512bf16 ${FINETUNED_ISA_FLAGS_avx512} -mavx512bf16)
endif()

set(FINETUNED_PREVIOUS finetuned_flags)

# finetuned_library(FOLDER [PACKAGES pkg-config names] [ISA_SOURCES folders]): static library finetuned_FOLDER of
# FOLDER/*.c and FOLDER/*/*.c; what lies in an ISA folder is compiled once an instruction set instead.
function(finetuned_library folder)
  cmake_parse_arguments(ARG "" "" "PACKAGES;ISA_SOURCES" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.c ${CMAKE_SOURCE_DIR}/${folder}/*/*.c)
  foreach(isa_folder IN LISTS ARG_ISA_SOURCES)
    list(FILTER sources EXCLUDE REGEX "^${CMAKE_SOURCE_DIR}/${isa_folder}/")
  endforeach()
  if(NOT sources)
    # a folder that holds headers only
    set(sources ${CMAKE_BINARY_DIR}/no-sources.c)
    file(WRITE ${sources} "")
  endif()
  add_library(finetuned_${folder} STATIC ${sources})
  set_target_properties(finetuned_${folder} PROPERTIES LINKER_LANGUAGE C)
  foreach(isa_folder IN LISTS ARG_ISA_SOURCES)
    finetuned_isa_sources(finetuned_${folder} ${isa_folder})
  endforeach()
  target_link_libraries(finetuned_${folder} PUBLIC ${FINETUNED_PREVIOUS})
  foreach(package IN LISTS ARG_PACKAGES)
    string(MAKE_C_IDENTIFIER ${package} id)
    if(NOT TARGET PkgConfig::${id})
      pkg_check_modules(${id} REQUIRED IMPORTED_TARGET GLOBAL ${package})
    endif()
    target_link_libraries(finetuned_${folder} PUBLIC PkgConfig::${id})
  endforeach()
  set(FINETUNED_PREVIOUS finetuned_${folder} PARENT_SCOPE)
endfunction()

function(finetuned_isa_sources target folder)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.c)
  if(NOT sources)
    return()
  endif()
  string(MAKE_C_IDENTIFIER ${folder} id)
  foreach(isa IN LISTS FINETUNED_ISAS)
    add_library(${target}_${id}_${isa} OBJECT ${sources})
    target_link_libraries(${target}_${id}_${isa} PRIVATE finetuned_flags)
    target_compile_options(${target}_${id}_${isa} PRIVATE ${FINETUNED_ISA_FLAGS_${isa}} -O3)
    target_compile_definitions(${target}_${id}_${isa} PRIVATE ISA=${isa})
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_${id}_${isa}>)
  endforeach()
endfunction()

function(finetuned_program name folder)
  if(NOT EXISTS ${CMAKE_SOURCE_DIR}/${folder}/main.c)
    return()
  endif()
  add_executable(${name} ${CMAKE_SOURCE_DIR}/${folder}/main.c)
  target_link_libraries(${name} PRIVATE finetuned_${folder} -Wl,--as-needed)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
endfunction()

# finetuned_proto(FOLDER FILE): FOLDER/x.proto becomes a part of FOLDER's library; its sources include <x.pb-c.h>.
find_program(FINETUNED_PROTOC_C NAMES protoc-c REQUIRED)
function(finetuned_proto folder file)
  get_filename_component(name ${file} NAME_WE)
  set(out ${CMAKE_BINARY_DIR}/proto)
  file(MAKE_DIRECTORY ${out})
  add_custom_command(OUTPUT ${out}/${name}.pb-c.c ${out}/${name}.pb-c.h
    COMMAND ${FINETUNED_PROTOC_C} --proto_path=${CMAKE_SOURCE_DIR}/${folder} --c_out=${out} ${name}.proto
    DEPENDS ${CMAKE_SOURCE_DIR}/${file}
    VERBATIM)
  target_sources(finetuned_${folder} PRIVATE ${out}/${name}.pb-c.c ${out}/${name}.pb-c.h)
  target_include_directories(finetuned_${folder} SYSTEM PRIVATE ${out})
endfunction()

# finetuned_embed(FOLDER FILE NAME): the bytes of FILE inside FOLDER's library, as `NAME` and `NAME_size`.
function(finetuned_embed folder file name)
  set(source ${CMAKE_BINARY_DIR}/embedded/${name}.c)
  add_custom_command(OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} -DFROM=${CMAKE_SOURCE_DIR}/${file} -DTO=${source} -DNAME=${name} -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${CMAKE_SOURCE_DIR}/${file} ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
    VERBATIM)
  target_sources(finetuned_${folder} PRIVATE ${source})
endfunction()
