// Bugs of the compiler itself, as opposed to mistakes in the user's program (diag.h).
#pragma once

// Prints "internal compiler error in PASS: ...; please report" with the version and exits with
// status 70. PASS is the pass's name as a string; name the node in the text.
#define ICE(pass, ...) ice((pass), __FILE__, __LINE__, __VA_ARGS__)

_Noreturn void ice(const char *pass, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

enum { ICE_EXIT_STATUS = 70 };
