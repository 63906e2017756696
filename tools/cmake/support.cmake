# build_support_object(OUTPUT FOLDER [CROSS]): FOLDER/*.c as one relocatable object, which recc links into compiled libraries:
# runtime/support into all, runtime/support/simt into those with --target simt. It is compiled apart from the rest: always
# optimised, for the x86-64 or aarch64 that every machine has, and never with sanitizers, because the library it ends in must
# depend on the C library alone (c_library.cmake), whatever checks this machine's compiler would add. CROSS: for the processor
# that CROSS_COMPILER makes code for.
function(build_support_object output folder)
  set(compiler ${CMAKE_C_COMPILER})
  set(linker ${CMAKE_LINKER} -r)
  set(processor ${CMAKE_SYSTEM_PROCESSOR})
  set(objects_folder ${CMAKE_BINARY_DIR}/${folder})
  if("CROSS" IN_LIST ARGN)
    set(compiler ${CROSS_COMPILER})
    set(linker ${CROSS_COMPILER} -nostdlib -r -Wl,--build-id=none)
    set(processor ${CROSS_PROCESSOR})
    string(APPEND objects_folder .cross)
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.c)
  file(MAKE_DIRECTORY ${objects_folder})
  if(processor MATCHES "x86_64|AMD64")
    set(baseline -march=x86-64 -mtune=generic)
  elseif(processor MATCHES "aarch64|arm64")
    set(baseline -march=armv8-a -mno-outline-atomics)  # libgcc has those
  endif()
  set(warnings -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes)
  if(REC_WERROR OR "$ENV{CI}" STREQUAL "true")
    list(APPEND warnings -Werror)
  endif()
  set(objects "")
  foreach(source ${sources})
    get_filename_component(name ${source} NAME_WE)
    set(object ${objects_folder}/${name}.o)
    set(options -O3)
    if(name MATCHES "^(foreign.*|tvm_ffi|torch_abi|xla.*)$")  # every library has them, few calls come through them
      set(options -Os)
    endif()
    if(name STREQUAL torch_abi)  # throws C++ exceptions
      list(APPEND options -fexceptions)
    endif()
    add_custom_command(OUTPUT ${object}
      COMMAND ${compiler} -std=c17 -D_GNU_SOURCE -DREC_VERSION=\"${PROJECT_VERSION}\" -I${CMAKE_SOURCE_DIR}
        ${options} ${baseline} -fPIC -fvisibility=hidden -ffunction-sections -fdata-sections -fno-asynchronous-unwind-tables
        -U_FORTIFY_SOURCE -fno-stack-protector ${warnings} -MD -MF ${object}.d -c ${source} -o ${object}
      DEPENDS ${source} DEPFILE ${object}.d VERBATIM COMMENT "Support object ${folder}/${name}.o for ${processor}")
    list(APPEND objects ${object})
  endforeach()
  add_custom_command(OUTPUT ${output} COMMAND ${linker} -o ${output} ${objects}
    DEPENDS ${objects} VERBATIM COMMENT "Joining the objects of ${folder} for ${processor}")
endfunction()
