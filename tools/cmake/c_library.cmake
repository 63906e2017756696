# build_c_library(LIST FILES): for each file that LIST names (compiler/emit/c_library.list), a shared library of that name
# without code, which has the listed symbols in the listed versions. recc links against these: what a compiled library needs
# of the C library does not depend on the machine that compiled it. FILES is set to their paths.
function(build_c_library list files)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list})
  set(folder ${CMAKE_BINARY_DIR}/c_library)
  file(STRINGS ${list} rows REGEX "^[^#]")
  set(names "")
  foreach(row ${rows})
    separate_arguments(words UNIX_COMMAND "${row}")
    list(POP_FRONT words name version)
    list(APPEND names ${name})
    list(APPEND versions_${name} ${version})
    foreach(symbol ${words})
      string(APPEND code_${name} "  .globl ${symbol}\n  .type ${symbol}, @function\n${symbol}: ret\n")
      string(APPEND symbols_${name}_${version} " ${symbol}\\;")
    endforeach()
  endforeach()
  list(REMOVE_DUPLICATES names)
  set(made "")
  foreach(name ${names})
    set(script "")
    list(REMOVE_DUPLICATES versions_${name})
    foreach(version ${versions_${name}})
      string(APPEND script "${version} { global:${symbols_${name}_${version}} };\n")
    endforeach()
    string(REPLACE "\\;" ";" script "${script}")
    file(CONFIGURE OUTPUT ${folder}/${name}.S
      CONTENT "  .text\n${code_${name}}  .section .note.GNU-stack, \"\", @progbits\n" @ONLY)
    file(CONFIGURE OUTPUT ${folder}/${name}.versions CONTENT "${script}" @ONLY)
    add_custom_command(OUTPUT ${folder}/${name}
      COMMAND ${CMAKE_C_COMPILER} -shared -nostdlib -Wl,-soname,${name} -Wl,--version-script,${folder}/${name}.versions
        -Wl,--build-id=none -o ${folder}/${name} ${folder}/${name}.S
      DEPENDS ${folder}/${name}.S ${folder}/${name}.versions VERBATIM COMMENT "Symbols of ${name}")
    list(APPEND made ${folder}/${name})
  endforeach()
  set(${files} ${made} PARENT_SCOPE)
endfunction()
