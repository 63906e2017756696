// Words that the printer, the parser and the verifier of the recurrence IR share.
#pragma once

#include "compiler/recurrence/recurrence.h"

// The class that "scalar_decay" names; STATE_CLASSES for an unknown word.
state_class state_class_find(const char *text);

// ", keys [K], values [V]", of those that there are.
void print_keys_and_values(FILE *out, const typed_body *body, const state_structure *s);

// The part of recurrence_verify that concerns the body alone.
const char *verify_body(arena *a, const typed_body *body);
