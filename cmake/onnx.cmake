# protobuf-c: ONNX files.
#   NEAP_ONNX=OFF         builds without it, as does a system that lacks it; the library's sources see NEAP_HAS_ONNX=0,
#                         and an ONNX file gets an error that says so
#   NEAP_ONNX_SCHEMA=FILE  the schema to generate code from: onnx.proto of ONNX 1.12 or later

option(NEAP_ONNX "Read ONNX models, where protobuf-c and ONNX's schema are there" ON)
set(NEAP_ONNX_SCHEMA "" CACHE FILEPATH "onnx.proto; empty: the system's")

set(NEAP_HAS_ONNX 0)
if(NEAP_ONNX)
  find_program(NEAP_PROTOC_C protoc-c)
  find_path(NEAP_PROTOBUF_C_INCLUDE protobuf-c/protobuf-c.h)
  find_library(NEAP_PROTOBUF_C_LIBRARY protobuf-c)
  set(onnx_schema "${NEAP_ONNX_SCHEMA}")
  if(NOT onnx_schema)
    find_file(NEAP_ONNX_FOUND_SCHEMA NAMES onnx/onnx.proto onnx/onnx-ml.proto PATHS /usr/include /usr/local/include)
    set(onnx_schema "${NEAP_ONNX_FOUND_SCHEMA}")
  endif()
  if(NEAP_PROTOC_C AND NEAP_PROTOBUF_C_INCLUDE AND NEAP_PROTOBUF_C_LIBRARY AND onnx_schema)
    set(NEAP_HAS_ONNX 1)
    message(STATUS "ONNX: protobuf-c (${NEAP_PROTOBUF_C_LIBRARY}), schema ${onnx_schema}")
  else()
    message(STATUS "ONNX: no protobuf-c or no schema; ONNX files will not be read (tools/setup.sh build installs both)")
  endif()
endif()

# A package name of our own, so that the generated symbols begin with neap_ and meet no other copy of the schema.
if(NEAP_HAS_ONNX)
  set(onnx_folder "${PROJECT_BINARY_DIR}/onnx")
  file(READ "${onnx_schema}" onnx_text)
  string(REGEX REPLACE "\npackage onnx;" "\npackage neap_onnx;" onnx_text "${onnx_text}")
  # Fields that newer schemas have, and files of newer exporters use: 1.13 has attribute_proto, 1.16 overload.
  string(FIND "${onnx_text}" "AttributeProto attribute_proto" onnx_found)
  if(onnx_found EQUAL -1)
    string(REPLACE "\nmessage FunctionProto {" "\nmessage FunctionProto {\n  repeated AttributeProto attribute_proto = 11;"
      onnx_text "${onnx_text}")
  endif()
  string(FIND "${onnx_text}" "string overload" onnx_found)
  if(onnx_found EQUAL -1)
    string(REPLACE "\nmessage NodeProto {" "\nmessage NodeProto {\n  optional string overload = 8;" onnx_text "${onnx_text}")
    string(REPLACE "\nmessage FunctionProto {" "\nmessage FunctionProto {\n  optional string overload = 13;" onnx_text
      "${onnx_text}")
  endif()
  file(GENERATE OUTPUT "${onnx_folder}/onnx.proto" CONTENT "${onnx_text}")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${onnx_schema}")
  add_custom_command(
    OUTPUT "${onnx_folder}/onnx.pb-c.c" "${onnx_folder}/onnx.pb-c.h"
    COMMAND "${NEAP_PROTOC_C}" "--c_out=${onnx_folder}" "--proto_path=${onnx_folder}" "${onnx_folder}/onnx.proto"
    DEPENDS "${onnx_folder}/onnx.proto"
    VERBATIM)
  add_library(neap_onnx_schema OBJECT "${onnx_folder}/onnx.pb-c.c")
  target_include_directories(neap_onnx_schema SYSTEM PUBLIC "${onnx_folder}" "${NEAP_PROTOBUF_C_INCLUDE}")
  target_compile_options(neap_onnx_schema PRIVATE "-ffile-prefix-map=${PROJECT_BINARY_DIR}=./build")
  set_target_properties(neap_onnx_schema PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)
endif()
