// What the checks of verify.c and verify_memory.c share.
#pragma once

#include "compiler/plan/planner.h"

typedef struct checker {
  arena *a;
  const mapping *m;
  const plan *p;
  const char *pass;
  plan_stage stage;
  int *writer;        // by buffer: the nest that fills it as a copy; -1: none
  const char *wrong;  // the first mistake
} checker;

static inline const tile_value *checked_value(const checker *c, tile_id id) {
  return tile_at(c->p->program, id);
}

static inline const plan_value *planned(const checker *c, tile_id id) { return &c->p->values[id]; }

static inline const plan_nest *nest_of(const checker *c, int n) { return &c->p->nests.items[n]; }

static inline bool is_nest_result(const checker *c, tile_id id) {
  return c->p->values[id].needed && !plan_at_hand(c->p, id);
}

// What is read for an operand, where nothing is copied: a value that some nest makes, or an
// argument.
typedef struct plan_read {
  int nest;      // plan.nests.count: the next states, behind all nests
  int position;  // of the reader in its nest; its number of values: a result
  tile_id id;
  bool moved;  // at another point than the nest's own
} plan_read;

typedef void read_check(checker *, const plan_read *);

static inline bool is_product_nest(const plan_nest *nest) {
  return nest->kind == NEST_DOT || nest->kind == NEST_SOLVE;
}

static inline axis_set tile_of(const checker *c, tile_id id) { return planned(c, id)->tile; }

// verify.c
// The first mistake counts.
void plan_refuse(checker *c, const char *where, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
const char *checked_nest_text(const checker *c, int n);
const char *checked_value_text(const checker *c, tile_id id);
const char *checked_buffer_text(const checker *c, int buffer);
// Every read of every nest, and of the next states.
void check_all_reads(checker *c, read_check *check);

// verify_memory.c
void check_result_shapes(checker *c);
void check_held(checker *c, const plan_read *r);
void check_storage(checker *c);
void check_pairs(checker *c);
void check_layouts(checker *c);
void check_old_state(checker *c, const plan_read *r);
void check_lives(checker *c);
void check_buffer_places(checker *c);
