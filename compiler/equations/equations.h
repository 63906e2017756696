// Equations for people: a recurrence, its structure, its chunked form and the derived backward, as
// text (--emit=equations) or as a LaTeX document (--emit=latex). Written from the data that code is
// made of, nothing else.
#pragma once

#include "compiler/recurrence/recurrence.h"

typedef enum equation_style { EQUATIONS_TEXT, EQUATIONS_LATEX } equation_style;

// One recurrence, in chunks of so many steps. `written` is its body as the source wrote it; NULL:
// the normalised one is shown.
char *equations_print(arena *arena, const typed_body *written, const recurrence *recurrence,
                      int chunk, equation_style style);
// What stands before and behind all of them: the frame of a LaTeX document.
const char *equations_begin(equation_style style);
const char *equations_end(equation_style style);
