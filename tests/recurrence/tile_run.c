// Runs tile programs over whole sequences as a kernel would: chunks in order, then in reverse.
// States are handed from run to run, and the last chunk is padded with rows of 0.
//
//   T = 37, chunk 16: runs over steps 0..15, 16..31, 32..36 (11 padded rows); backward the other way round.
#include "tests/recurrence/tile_run.h"

#include <stdlib.h>
#include <string.h>

#include "compiler/base/ice.h"
#include "tests/recurrence/tile_interpret.h"

// One sequence: a batch entry, or a piece of a packed one.
typedef struct sequence {
  int64_t state_index;    // entry of the state tensors
  int64_t first, length;  // steps; `first` counts from the start of the token tensors
} sequence;

// States (or their cotangents) of one sequence at one time, each laid out as its tensor.
typedef struct states {
  double **tensors;  // by tensor, NULL for what is no state
  double **lags;
} states;

typedef struct execution {
  arena *arena;
  const typed_body *body;
  const reference_run *run;
  sequence sequence;
} execution;

// ---- sizes and places ------------------------------------------------------------------------

static int64_t place_elements(const execution *e, const tile_place *place) {
  int64_t count = 1;
  for (int i = 0; i < place->axis_count; i++) count *= e->run->axis_sizes[place->axes[i]];
  return count;
}

static int64_t tensor_elements(const execution *e, int tensor) {
  const typed_tensor *t = &e->body->tensors.items[tensor];
  int64_t count = t->complex ? 2 : 1;
  for (int i = 0; i < t->axis_count; i++) count *= e->run->axis_sizes[t->axes[i]];
  return count;
}

static int64_t lag_elements(const execution *e, int lag) {
  const typed_lag *l = &e->body->lags.items[lag];
  int64_t count = (l->complex ? 2 : 1) * (int64_t)l->depth;
  for (int i = 0; i < e->body->axes.count; i++)
    if (axis_in(l->axes, i)) count *= e->run->axis_sizes[i];
  return count;
}

static bool place_complex(const execution *e, const tile_place *place) {
  if (place->lag >= 0) return e->body->lags.items[place->lag].complex;
  return e->body->tensors.items[place->tensor].complex;
}

// Memory of a place for one sequence: NULL if it is absent. `time` is the distance between steps.
typedef struct view {
  double *data;
  int64_t time, element;
} view;

static view view_of(const execution *e, const tile_place *place, const states *now) {
  int64_t element = place_complex(e, place) ? 2 : 1;
  int64_t size = place_elements(e, place) * element;
  view v = {.element = element, .time = place->time ? size : 0};
  const reference_run *run = e->run;
  switch (place->role) {
    case TILE_INPUT:
    case TILE_PARAM:
    case TILE_OUTPUT: v.data = run->tensors[place->tensor].data; break;
    case TILE_D_OUTPUT:
    case TILE_D_INPUT:
    case TILE_D_PARAM: v.data = run->d_tensors[place->tensor].data; break;
    case TILE_STATE:
    case TILE_NEXT_STATE:
    case TILE_D_STATE:
    case TILE_D_NEXT_STATE:
      v.data = place->lag >= 0 ? now->lags[place->lag] + place->slot * size
                               : now->tensors[place->tensor];
      break;
    case TILE_STASH:
    case TILE_KEEP: ICE("tile interpreter", "a stash has no memory of its own");
  }
  if (v.data) v.data += place->component;
  return v;
}

// Moves between a value's array and memory: rows of `valid` steps from `first` on. Loading fills
// the rest with 0.
static void move(const execution *e, tile_machine *m, tile_id id, const tile_place *place, view v,
                 int64_t first, bool load, bool add) {
  int t = m->program->time_axis;
  int64_t rows = place->time && t >= 0 ? m->sizes[t] : 1;
  int64_t index[TYPED_MAX_AXES] = {0};
  for (int64_t row = 0; row < rows; row++) {
    bool inside = !place->time || row < m->valid;
    double *memory = v.data ? v.data + (first + row) * v.time : NULL;
    memset(index, 0, sizeof index);
    for (int64_t i = 0, count = place_elements(e, place); i < count; i++) {
      int64_t at = place->time && t >= 0 ? row * tile_machine_stride(m, id, t) : 0;
      for (int k = 0; k < place->axis_count; k++)
        at += index[k] * tile_machine_stride(m, id, place->axes[k]);
      if (load)
        m->data[id][at] = memory && inside ? memory[i * v.element] : 0;
      else if (memory && inside)
        memory[i * v.element] = m->data[id][at] + (add ? memory[i * v.element] : 0);
      for (int k = place->axis_count - 1; k >= 0; k--) {
        if (++index[k] < e->run->axis_sizes[place->axes[k]]) break;
        index[k] = 0;
      }
    }
  }
}

static void load_arguments(const execution *e, tile_machine *m, const states *now,
                           const states *d_next, int64_t first, bool params) {
  const tile_program *p = m->program;
  for (int i = 0; i < p->values.count; i++) {
    if (p->values.items[i].op != TILE_ARGUMENT) continue;
    const tile_place *place = tile_place_of(p, &p->values.items[i]);
    if (place->role == TILE_STASH || (place->role == TILE_PARAM) != params) continue;
    const states *from = place->role == TILE_D_NEXT_STATE ? d_next : now;
    move(e, m, i, place, view_of(e, place, from), e->sequence.first + first, true, false);
  }
}

static void store_results(const execution *e, tile_machine *m, const states *next, int64_t first,
                          bool params) {
  const tile_program *p = m->program;
  for (int i = 0; i < p->results.count; i++) {
    const tile_place *place = &p->results.items[i].place;
    if (place->role == TILE_KEEP || (place->role == TILE_D_PARAM) != params) continue;
    move(e, m, p->results.items[i].value, place, view_of(e, place, next), e->sequence.first + first,
         false, params);
  }
}

// Hands what the recomputed step keeps to the backward program.
static void hand_over_stash(const tile_machine *from, tile_machine *to) {
  for (int i = 0; i < to->program->values.count; i++) {
    const tile_value *v = &to->program->values.items[i];
    if (v->op != TILE_ARGUMENT) continue;
    const tile_place *place = tile_place_of(to->program, v);
    if (place->role != TILE_STASH) continue;
    vec_each(const tile_result, r, from->program->results) {
      if (r->place.role != TILE_KEEP || r->place.stash != place->stash) continue;
      memcpy(to->data[i], from->data[r->value], (size_t)to->count[i] * sizeof(double));
    }
  }
}

// ---- states ----------------------------------------------------------------------------------

static states states_new(const execution *e) {
  states s = {ARENA_ARRAY(e->arena, double *, e->body->tensors.count),
              ARENA_ARRAY(e->arena, double *, e->body->lags.count)};
  for (int i = 0; i < e->body->tensors.count; i++) {
    if (e->body->tensors.items[i].kind != TENSOR_STATE) continue;
    s.tensors[i] = ARENA_ARRAY(e->arena, double, tensor_elements(e, i));
  }
  for (int i = 0; i < e->body->lags.count; i++)
    s.lags[i] = ARENA_ARRAY(e->arena, double, lag_elements(e, i));
  return s;
}

static void copy_states(const execution *e, states to, states from) {
  for (int i = 0; i < e->body->tensors.count; i++) {
    if (!to.tensors[i]) continue;
    memcpy(to.tensors[i], from.tensors[i], (size_t)tensor_elements(e, i) * sizeof(double));
  }
  for (int i = 0; i < e->body->lags.count; i++)
    memcpy(to.lags[i], from.lags[i], (size_t)lag_elements(e, i) * sizeof(double));
}

static void copy_entry(double *memory, double *state, int64_t entry, int64_t count, bool load) {
  size_t size = (size_t)count * sizeof(double);
  if (load && memory) memcpy(state, memory + entry * count, size);
  if (load && !memory) memset(state, 0, size);
  if (!load && memory) memcpy(memory + entry * count, state, size);
}

// Between states of this sequence and the tensors of all; absent tensors are 0, or not written.
static void exchange(const execution *e, states s, const reference_tensor *tensors,
                     const reference_tensor *lags, bool load) {
  int64_t entry = e->sequence.state_index;
  for (int i = 0; i < e->body->tensors.count; i++) {
    if (!s.tensors[i]) continue;
    copy_entry(tensors ? tensors[i].data : NULL, s.tensors[i], entry, tensor_elements(e, i), load);
  }
  for (int i = 0; i < e->body->lags.count; i++)
    copy_entry(lags ? lags[i].data : NULL, s.lags[i], entry, lag_elements(e, i), load);
}

// ---- whole sequences -------------------------------------------------------------------------

typedef struct machines {
  tile_machine forward, recompute, backward;
} machines;

static int64_t steps_of_run(const execution *e, int64_t first, int chunk) {
  int64_t left = e->sequence.length - first;
  return left < chunk ? left : chunk;
}

// `saved` gets the states at the start of each run.
static states run_forward(const execution *e, tile_machine *m, states *saved) {
  int chunk = m->program->chunk;
  states now = states_new(e);
  exchange(e, now, e->run->tensors, e->run->lags, true);
  load_arguments(e, m, NULL, NULL, 0, true);
  tile_machine_run(m, TILE_PROLOGUE);
  for (int64_t first = 0; first < e->sequence.length; first += chunk) {
    m->valid = steps_of_run(e, first, chunk);
    if (saved) copy_states(e, saved[first / chunk], now);
    load_arguments(e, m, &now, NULL, first, false);
    tile_machine_run(m, TILE_BODY);
    store_results(e, m, &now, first, false);
  }
  exchange(e, now, e->run->final_states, e->run->final_lags, false);
  return now;
}

static bool has_stash(const tile_program *p) {
  for (int i = 0; i < p->arguments.count; i++)
    if (p->arguments.items[i].role == TILE_STASH) return true;
  return false;
}

static void run_backward(const execution *e, machines *m, const states *saved) {
  tile_machine *b = &m->backward, *r = &m->recompute;
  int chunk = b->program->chunk;
  states d = states_new(e), scratch = states_new(e);
  exchange(e, d, e->run->d_final_states, e->run->d_final_lags, true);
  tile_machine_reset(b);
  load_arguments(e, b, NULL, NULL, 0, true);
  load_arguments(e, r, NULL, NULL, 0, true);
  tile_machine_run(b, TILE_PROLOGUE);
  tile_machine_run(r, TILE_PROLOGUE);
  bool hands_over = b->program->form == TILE_STEP || has_stash(b->program);
  int64_t runs = (e->sequence.length + chunk - 1) / chunk;
  for (int64_t i = runs - 1; i >= 0; i--) {
    int64_t first = i * chunk;
    b->valid = r->valid = steps_of_run(e, first, chunk);
    if (hands_over) {
      load_arguments(e, r, &saved[i], NULL, first, false);
      tile_machine_run(r, TILE_BODY);
      hand_over_stash(r, b);
    }
    load_arguments(e, b, &saved[i], &d, first, false);
    tile_machine_run(b, TILE_BODY);
    store_results(e, b, &scratch, first, false);
    copy_states(e, d, scratch);
  }
  tile_machine_run(b, TILE_EPILOGUE);
  store_results(e, b, NULL, 0, true);
  exchange(e, d, e->run->d_initial_states, e->run->d_initial_lags, false);
}

static void run_sequence(const execution *outer, machines *m, sequence piece, bool backward) {
  execution e = *outer;
  e.arena = arena_new();
  e.sequence = piece;
  int chunk = m->forward.program->chunk;
  int64_t runs = (piece.length + chunk - 1) / chunk;
  states *saved = backward ? ARENA_ARRAY(e.arena, states, runs) : NULL;
  for (int64_t i = 0; saved && i < runs; i++) saved[i] = states_new(&e);
  run_forward(&e, &m->forward, saved);
  if (backward) run_backward(&e, m, saved);
  arena_free(e.arena);
}

static void clear_param_gradients(const execution *e) {
  for (int i = 0; i < e->body->tensors.count; i++) {
    if (e->body->tensors.items[i].kind != TENSOR_PARAM || !e->run->d_tensors[i].data) continue;
    memset(e->run->d_tensors[i].data, 0, (size_t)tensor_elements(e, i) * sizeof(double));
  }
}

bool tile_execute(const recurrence *from, const tile_program *forward,
                  const tile_gradient *gradient, const reference_run *run) {
  arena *a = arena_new();
  execution e = {.arena = a, .body = &from->body, .run = run};
  machines m = {.forward = {.data = NULL}};
  bool enough = tile_machine_new(a, &m.forward, forward, run->axis_sizes);
  if (enough && gradient) {
    enough = tile_machine_new(a, &m.recompute, gradient->recompute, run->axis_sizes) &&
             tile_machine_new(a, &m.backward, gradient->backward, run->axis_sizes);
    if (enough) clear_param_gradients(&e);
  }
  int64_t sequences = run->cu_seqlens ? run->sequences : run->batch;
  for (int64_t i = 0; enough && i < sequences; i++) {
    sequence s = {.state_index = i, .first = i * run->time, .length = run->time};
    if (run->cu_seqlens) {
      s.first = run->cu_seqlens[i];
      s.length = run->cu_seqlens[i + 1] - run->cu_seqlens[i];
    }
    run_sequence(&e, &m, s, gradient != NULL);
  }
  tile_machine_free(&m.forward);
  tile_machine_free(&m.recompute);
  tile_machine_free(&m.backward);
  arena_free(a);
  return enough;
}
