# embed_files(TABLE OUTPUT FILES...): an assembly file that defines `const embedded_file TABLE[]` (compiler/base/embedded.h)
# with the bytes of the files. Rows are sorted by file name; the last row is empty. A row's name is that of its file, without the
# extension; with BELOW FOLDER, it has the folders below that one, too, with dots between.
function(embed_files table output)
  cmake_parse_arguments(PARSE_ARGV 2 embed "" "BELOW" "")
  set(rows "")
  set(bytes "")
  set(files ${embed_UNPARSED_ARGUMENTS})
  list(SORT files)
  set(number 0)
  foreach(file ${files})
    get_filename_component(name ${file} NAME_WE)
    if(embed_BELOW)
      file(RELATIVE_PATH name ${embed_BELOW} ${file})
      string(REGEX REPLACE "\\.rec$" "" name ${name})
      string(REPLACE "/" "." name ${name})
    endif()
    string(APPEND rows "  .quad .Lname${number}, .Ldata${number}, .Lend${number} - .Ldata${number} - 1\n")
    string(APPEND bytes
      ".Lname${number}: .asciz \"${name}\"\n  .balign 16\n.Ldata${number}: .incbin \"${file}\"\n  .byte 0\n.Lend${number}:\n")
    math(EXPR number "${number} + 1")
  endforeach()
  set(text
    "  .section .data.rel.ro, \"aw\"\n  .balign 16\n  .globl ${table}\n${table}:\n${rows}  .quad 0, 0, 0\n"
    "  .section .rodata\n${bytes}"
    "  .section .note.GNU-stack, \"\", @progbits\n")
  string(CONCAT text ${text})
  file(CONFIGURE OUTPUT ${output} CONTENT "${text}" @ONLY)
  set_source_files_properties(${output} PROPERTIES OBJECT_DEPENDS "${files}")
endfunction()
