# CROSS_COMPILER: makes the support code of the other processor that recc compiles for, CROSS_PROCESSOR; not found: recc says so
# where that one is asked for.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  set(CROSS_PROCESSOR x86_64)
else()
  set(CROSS_PROCESSOR aarch64)
endif()
find_program(CROSS_COMPILER ${CROSS_PROCESSOR}-linux-gnu-gcc)
if(NOT CROSS_COMPILER)
  message(STATUS "${CROSS_PROCESSOR}-linux-gnu-gcc is not installed: recc makes no libraries for ${CROSS_PROCESSOR} "
    "(Debian: gcc-aarch64-linux-gnu)")
endif()
