// Nests that repeat.
#pragma once

#include "compiler/plan/plan.h"

// `nests` nests come `turns` times one after another. The turns differ in the values that they read
// and write, in entries of slices and places, and in numbers. turns 0: there is no repeat.
typedef struct plan_repeat {
  int nests, turns;
} plan_repeat;

// The repeat that begins at nest `first` and ends before nest `end`, if it is long enough to be
// worth functions of its own.
plan_repeat plan_repeat_at(const plan *p, int first, int end);
// The last nest from `first` on and before nest n that is like n. The next nest after n, up to
// `last`, that is like n. -1: there is none.
int plan_alike_before(const plan *p, int first, int n);
int plan_alike_behind(const plan *p, int n, int last);
// Whether so many nests from `first` to `last` are like n that they are worth a function, wherever
// they are.
bool plan_is_frequent(const plan *p, int first, int last, int n);
// Marks the values in which `count` nests from x on differ from those from y on: slices and places
// of another entry, other constants.
void plan_mark_varying(const plan *p, int x, int y, int count, bool *varies);

typedef void plan_reader(void *data, tile_id id);
// Calls `reader` with every value that the nest makes, stores or reads, and with what values at
// hand are made of.
void plan_each_value(const plan *p, const plan_nest *nest, plan_reader *reader, void *data);
