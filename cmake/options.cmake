# Flags every target of the project is compiled with; they are not passed on to users of the library.

add_library(neap_options INTERFACE)

target_compile_definitions(neap_options INTERFACE _POSIX_C_SOURCE=200809L)

# -ffp-contract=off: a fused multiply-add would make results differ from machine to machine.
target_compile_options(neap_options INTERFACE -ffp-contract=off)

# Binaries do not contain paths of the build machine: the last match counts.
target_compile_options(
  neap_options INTERFACE "-ffile-prefix-map=${NEAP_DEPS_DIR}=./.deps" "-ffile-prefix-map=${PROJECT_SOURCE_DIR}=."
                         "-ffile-prefix-map=${PROJECT_BINARY_DIR}=./build")

set(NEAP_WARNINGS
    -Wall
    -Wextra
    -Wpedantic
    -Wshadow
    -Wconversion
    -Wno-sign-conversion # clang has it inside -Wconversion, gcc does not
    -Wstrict-prototypes
    -Wmissing-prototypes
    -Wold-style-definition
    -Wvla
    -Wcast-qual
    -Wwrite-strings
    -Wundef
    -Wformat=2
    -Wdouble-promotion
    -Wimplicit-fallthrough
    -Wpointer-arith)
target_compile_options(neap_options INTERFACE "$<$<COMPILE_LANGUAGE:C>:${NEAP_WARNINGS}>")

if(NEAP_WERROR)
  target_compile_options(neap_options INTERFACE -Werror)
endif()

if(NEAP_SANITIZE)
  target_compile_options(neap_options INTERFACE -fsanitize=address,undefined
                                                -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(neap_options INTERFACE -fsanitize=address,undefined)
endif()
