# OLD_GLIBC: what librec is linked with before all else, so that that of REC_STATIC runs on machines with a C library older than
# this one's. OLD_GLIBC_PROGRAM: the same for recc and rec. Both are empty otherwise.
#
# libpthread and libdl are needed by name, for older C libraries have threads and dlopen there.
if(REC_STATIC)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  set(old_glibc_folder ${CMAKE_BINARY_DIR}/old_glibc)
  file(MAKE_DIRECTORY ${old_glibc_folder})
  foreach(name libc.so.6 libm.so.6)
    find_file(library_${name} ${name} PATHS /lib/x86_64-linux-gnu /lib64 NO_DEFAULT_PATH REQUIRED)
    add_custom_command(OUTPUT ${old_glibc_folder}/${name}
      COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/static/old_glibc.py ${library_${name}} ${old_glibc_folder}/${name}.S
        ${old_glibc_folder}/${name}.versions
      COMMAND ${CMAKE_C_COMPILER} -shared -nostdlib -Wl,-soname,${name} -Wl,--version-script,${old_glibc_folder}/${name}.versions
        -o ${old_glibc_folder}/${name} ${old_glibc_folder}/${name}.S
      DEPENDS tools/static/old_glibc.py VERBATIM COMMENT "Symbols of ${name}")
    list(APPEND stubs ${old_glibc_folder}/${name})
  endforeach()
  foreach(name libpthread.so.0 libdl.so.2)
    find_file(library_${name} ${name} PATHS /lib/x86_64-linux-gnu /lib64 NO_DEFAULT_PATH REQUIRED)
    list(APPEND moved ${library_${name}})
  endforeach()
  # The stubs are words for the linker: of a library that does not exist yet, CMake takes the name alone, and the linker this
  # machine's library.
  list(JOIN stubs "," linked_stubs)
  set_source_files_properties(tools/static/old_glibc.c PROPERTIES OBJECT_DEPENDS "${stubs}")
  add_library(old_glibc OBJECT tools/static/old_glibc.c)
  add_library(old_start OBJECT tools/static/old_start.c)
  target_compile_options(old_glibc PRIVATE -D_GNU_SOURCE -Wall -Wextra -fvisibility=hidden)
  set(OLD_GLIBC $<TARGET_OBJECTS:old_glibc> -Wl,--no-as-needed,${linked_stubs} ${moved} -Wl,--as-needed)
  set(OLD_GLIBC_PROGRAM $<TARGET_OBJECTS:old_start> ${OLD_GLIBC})
  add_link_options(LINKER:--wrap=__libc_start_main LINKER:--allow-shlib-undefined)
  set(CMAKE_SKIP_BUILD_RPATH ON)  # the stubs are for the linker alone
endif()
