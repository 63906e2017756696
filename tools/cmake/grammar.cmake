# generate_lexer_and_parser(VARIABLE): compiler/syntax/lexer.re by re2c and parser.y by Lemon, into the build folder.
# Lemon fails on a conflict, so the grammar stays LALR(1).
function(generate_lexer_and_parser variable)
  set(from ${CMAKE_SOURCE_DIR}/compiler/syntax)
  set(to ${CMAKE_BINARY_DIR}/compiler/syntax)
  file(MAKE_DIRECTORY ${to})
  set(generated "")
  if(EXISTS ${from}/parser.y)
    find_file(LEMON_TEMPLATE lempar.c PATHS /usr/share/lemon /usr/local/share/lemon REQUIRED)
    add_custom_command(OUTPUT ${to}/parser.c ${to}/parser.h
      COMMAND ${LEMON} -q -l -T${LEMON_TEMPLATE} -d${to} ${from}/parser.y
      DEPENDS ${from}/parser.y ${LEMON_TEMPLATE} VERBATIM COMMENT "Lemon: parser.y")
    list(APPEND generated ${to}/parser.c)
  endif()
  if(EXISTS ${from}/lexer.re)
    add_custom_command(OUTPUT ${to}/lexer.c
      COMMAND ${RE2C} -W -i --no-generation-date -o ${to}/lexer.c ${from}/lexer.re
      DEPENDS ${from}/lexer.re ${to}/parser.h VERBATIM COMMENT "re2c: lexer.re")
    list(APPEND generated ${to}/lexer.c)
  endif()
  # Generated C is not held to our warnings. Its asserts name it without the build folder, which an installed program lacks.
  set_source_files_properties(${generated} PROPERTIES COMPILE_OPTIONS "-w;-fmacro-prefix-map=${CMAKE_BINARY_DIR}/=")
  set(${variable} ${generated} PARENT_SCOPE)
endfunction()
