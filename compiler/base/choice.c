#include "compiler/base/choice.h"

static const char *const names[CHOICES] = {
#define CHOICE(choice, name) name,
#include "compiler/base/choice.def"
#undef CHOICE
};

static const char *name_of_choice(int what) { return names[what]; }
static bool may_leave_choice_out(int what) { return what < CHOICES; }

const pass_stage choice_stage = {"choices", CHOICES, name_of_choice, may_leave_choice_out};

bool choice_is_left_out(const pass_names *without, pass_choice what) {
  return pass_is_left_out(without, names[what]);
}
