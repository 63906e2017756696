// A struct of ours has a member where another's has it.
#pragma once

#include <stddef.h>

#define SAME(ours, our_member, theirs, their_member)                                         \
  _Static_assert(offsetof(ours, our_member) == offsetof(theirs, their_member) &&             \
                     sizeof(((ours *)0)->our_member) == sizeof(((theirs *)0)->their_member), \
                 #ours "." #our_member)
