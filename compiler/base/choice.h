// Choices that are no passes, and that a compilation may leave out as it may leave out passes
// (choice.def).
#pragma once

#include "compiler/base/pass.h"

typedef enum pass_choice {
#define CHOICE(choice, name) CHOICE_##choice,
#include "compiler/base/choice.def"
#undef CHOICE
  CHOICES
} pass_choice;

extern const pass_stage choice_stage;

bool choice_is_left_out(const pass_names *without, pass_choice what);
