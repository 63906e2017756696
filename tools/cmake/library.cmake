# librec as a shared library: what runtime/rec.h declares, and no other symbol, so that the names inside are no one's concern.
#
#   include/rec/rec.h      rec.h, which includes rec/launch.h
#   include/rec/launch.h   compiler/abi/launch.h, which the header of every compiled library contains, too
set(REC_INCLUDE ${CMAKE_BINARY_DIR}/include/rec)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  ${CMAKE_SOURCE_DIR}/runtime/rec.h ${CMAKE_SOURCE_DIR}/compiler/abi/launch.h)
file(READ runtime/rec.h text)
string(REPLACE "\"compiler/abi/launch.h\"" "\"rec/launch.h\"" text "${text}")
file(CONFIGURE OUTPUT ${REC_INCLUDE}/rec.h CONTENT "${text}" @ONLY)
configure_file(compiler/abi/launch.h ${REC_INCLUDE}/launch.h COPYONLY)

# rec_status rec_file_open(const char *path, ..   ->   rec_file_open
file(STRINGS runtime/rec.h lines REGEX "^[a-z].*[ *]rec_[a-z0-9_]+\\(")
set(symbols "")
set(demands "")
foreach(line ${lines})
  string(REGEX MATCH "[ *](rec_[a-z0-9_]+)\\(" found "${line}")
  string(APPEND symbols "    ${CMAKE_MATCH_1};\n")
  list(APPEND demands "LINKER:-u,${CMAKE_MATCH_1}")
endforeach()
set(map ${CMAKE_BINARY_DIR}/librec.map)
file(CONFIGURE OUTPUT ${map} CONTENT "{\n  global:\n${symbols}  local: *;\n};\n" @ONLY)

# A library must have a source of its own: error.c, which all others call. The rest comes from librec, as far as it is asked for.
add_library(librec_shared SHARED runtime/error.c)
target_link_libraries(librec_shared PRIVATE ${OLD_GLIBC} librec)
target_link_options(librec_shared PRIVATE ${demands} LINKER:--version-script,${map} LINKER:--as-needed LINKER:--gc-sections)
if(NOT REC_SANITIZE)  # whose runtime is in the program
  target_link_options(librec_shared PRIVATE LINKER:-z,defs)
endif()
set_target_properties(librec_shared PROPERTIES OUTPUT_NAME rec VERSION ${PROJECT_VERSION} SOVERSION 0 LINK_DEPENDS ${map}
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
