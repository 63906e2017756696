# What recc and rec are linked with: LLVM_LIBRARIES (LLVM, lld and what they need) and BLAS_LIBRARY.
#
# With REC_STATIC these are archives, and the C++ library as well, so that a program needs the C library alone (old_glibc.cmake).
# Debian has no archive of cJSON and of Oniguruma: they and utf8proc stay shared, and tools/wheel packs them.
find_library(LLD_ELF_LIBRARY lldELF PATHS ${LLVM_LIBDIR} NO_DEFAULT_PATH REQUIRED)
find_library(LLD_COMMON_LIBRARY lldCommon PATHS ${LLVM_LIBDIR} NO_DEFAULT_PATH REQUIRED)
if(NOT REC_STATIC)
  find_library(LLVM_LIBRARY NAMES LLVM-22 LLVM PATHS ${LLVM_LIBDIR} NO_DEFAULT_PATH REQUIRED)
  set(LLVM_LIBRARIES ${LLD_ELF_LIBRARY} ${LLD_COMMON_LIBRARY} ${LLVM_LIBRARY} z zstd)
  set(BLAS_LIBRARY PkgConfig::OPENBLAS)
  return()
endif()

execute_process(COMMAND ${LLVM_CONFIG} --link-static --libfiles x86 aarch64 nvptx passes lto dtlto objcopy option
  OUTPUT_VARIABLE archives OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${LLVM_CONFIG} --targets-built OUTPUT_VARIABLE absent OUTPUT_STRIP_TRAILING_WHITESPACE)
separate_arguments(archives)
separate_arguments(absent)
list(FILTER archives EXCLUDE REGEX "/libPolly")
list(REMOVE_ITEM absent X86 AArch64 NVPTX)
list(TRANSFORM absent REPLACE "(.+)" "ABSENT(\\1)")
list(JOIN absent " " absent)
add_library(llvm_absent STATIC tools/static/llvm_absent.cpp)
target_compile_definitions(llvm_absent PRIVATE "ABSENT_TARGETS=${absent}")
target_include_directories(llvm_absent SYSTEM PRIVATE ${LLVM_INCLUDE})

find_library(ZLIB_ARCHIVE libz.a REQUIRED)
find_library(ZSTD_ARCHIVE libzstd.a REQUIRED)
set(LLVM_LIBRARIES ${LLD_ELF_LIBRARY} ${LLD_COMMON_LIBRARY} ${archives} llvm_absent ${ZLIB_ARCHIVE} ${ZSTD_ARCHIVE})
find_library(BLAS_ARCHIVE libopenblas.a HINTS ${OPENBLAS_LIBRARY_DIRS} REQUIRED)
add_library(blas INTERFACE)
target_include_directories(blas SYSTEM INTERFACE ${OPENBLAS_INCLUDE_DIRS})
target_link_libraries(blas INTERFACE ${BLAS_ARCHIVE})
set(BLAS_LIBRARY blas)
add_link_options($<$<LINK_LANGUAGE:CXX>:-static-libstdc++> LINKER:--gc-sections LINKER:--as-needed)
# Where the wheel has cJSON, Oniguruma and utf8proc.
set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib")
