// The reference interpreter: a recurrence as its text says it, in double precision, one step after
// another; and its exact gradients by reverse mode. It is the oracle that every compiled form is
// compared with, so it is written to be read: no chunks, no fusion, no tricks.
//
//   before    a state that the caller does not give is 0, or what stands behind its `~`
//   forward   for each sequence, for each step: evaluate the values in order, write outputs, hand
//             the state on
//   backward  keep the carried numbers (states, lag buffers) every `stride` steps; from the last
//             stretch to the first, run it again keeping them at each step, then go back step by
//             step: evaluate the step, seed the cotangents of outputs and next states, walk the
//             values in reverse
//
// Values that depend on parameters alone are evaluated once; their cotangents gather over all steps
// and are walked once at the end. A cotangent of exactly zero passes nothing on, so that an
// infinite derivative in a branch that `where` does not take makes no NaN.
#include <math.h>
#include <string.h>

#include "compiler/recurrence/reference_eval.h"

// Carried numbers are kept at every step while they fit into this many; above it, at every
// sqrt(T)-th.
static const int64_t kept_numbers_max = 16 * 1024 * 1024;

typedef struct machine {
  plan plan;
  const reference_run *run;
  bool backward;
  double *carry;        // states and lag buffers before the step
  double *d_carry;      // their cotangents
  double *checkpoints;  // carry at the beginning of every stretch
  double *stretch;      // carry before every step of one stretch
  int64_t stride;       // steps in a stretch
} machine;

// The steps [begin, end) of batch entry or sequence `number`; `begin` counts tokens of all
// sequences.
typedef struct sequence {
  int64_t number, begin, end;
} sequence;

static double *reference_data(const reference_tensor *tensors, int i) {
  return tensors ? tensors[i].data : NULL;
}

static double *at_element(double *data, int64_t index, const place *p) {
  return data ? data + index * p->count * p->width : NULL;
}

// ---- one value: forward -------------------------------------------------------------------------

static void evaluate_index(const plan *p, node *n) {
  for (int64_t i = 0; i < p->sizes[n->value->index]; i++) n->numbers[i] = (double)i;
}

static void load_place(const place *at, const double *data, double *numbers) {
  for (int64_t i = 0; i < at->count; i++) {
    int64_t from = mapped(at->memory, i);
    for (int w = 0; w < at->width; w++)
      numbers[i * at->width + w] = data ? data[from * at->width + w] : 0;
  }
}

static double *carried_entry(double *carry, const carried *c, int entry) {
  return carry + c->offset + entry * c->place.count * c->place.width;
}

// The stretch of the carried numbers that a `previous` or a `lag` reads.
static double *read_carry(const plan *p, const typed_value *v, double *carry) {
  if (v->op == VALUE_PREVIOUS) return carried_entry(carry, &p->states[v->index], 0);
  const carried *lag = &p->lags[v->index];
  return carried_entry(carry, lag, lag->entries - v->steps);
}

static void evaluate_node(machine *m, node *n, int64_t token) {
  plan *p = &m->plan;
  const typed_value *v = n->value;
  switch (v->op) {
    case VALUE_NUMBER: n->numbers[0] = kept(p, v->number); break;
    case VALUE_AXIS_SIZE: n->numbers[0] = (double)p->sizes[v->index]; break;
    case VALUE_INDEX: evaluate_index(p, n); break;
    case VALUE_PARAM:
      load_place(&p->tensors[v->index], reference_data(m->run->tensors, v->index), n->numbers);
      break;
    case VALUE_INPUT: {
      const place *at = &p->tensors[v->index];
      load_place(at, at_element(reference_data(m->run->tensors, v->index), token, at), n->numbers);
      break;
    }
    case VALUE_PREVIOUS:
    case VALUE_LAG:
      memcpy(n->numbers, read_carry(p, v, m->carry),
             (size_t)(n->count * (v->complex ? 2 : 1)) * sizeof(double));
      break;
    default: evaluate_operation(p, n); break;
  }
}

static void evaluate_all(machine *m, bool invariant, int64_t token) {
  for (int i = 0; i < m->plan.body->values.count; i++) {
    node *n = &m->plan.nodes[i];
    if (n->live && n->invariant == invariant) evaluate_node(m, n, token);
  }
}

// ---- one value: backward ------------------------------------------------------------------------

static void add_to_memory(const plan *p, const place *at, double *data, const double *numbers) {
  if (!data) return;
  for (int64_t i = 0; i < at->count; i++) {
    int64_t to = mapped(at->memory, i);
    for (int w = 0; w < at->width; w++)
      add_to(p, &data[to * at->width + w], numbers[i * at->width + w]);
  }
}

static void differentiate_node(machine *m, node *n, int64_t token) {
  plan *p = &m->plan;
  const typed_value *v = n->value;
  switch (v->op) {
    case VALUE_NUMBER:
    case VALUE_AXIS_SIZE:
    case VALUE_INDEX: break;
    case VALUE_PARAM:
      add_to_memory(p, &p->tensors[v->index], reference_data(m->run->d_tensors, v->index),
                    n->cotangent);
      break;
    case VALUE_INPUT: {
      const place *at = &p->tensors[v->index];
      add_to_memory(p, at, at_element(reference_data(m->run->d_tensors, v->index), token, at),
                    n->cotangent);
      break;
    }
    case VALUE_PREVIOUS:
    case VALUE_LAG: {
      double *to = read_carry(p, v, m->d_carry);
      for (int64_t i = 0; i < n->count * (v->complex ? 2 : 1); i++)
        add_to(p, &to[i], n->cotangent[i]);
      break;
    }
    default: differentiate_operation(p, n); break;
  }
}

static void differentiate_all(machine *m, bool invariant, int64_t token) {
  for (int i = m->plan.body->values.count - 1; i >= 0; i--) {
    node *n = &m->plan.nodes[i];
    if (n->live && n->invariant == invariant) differentiate_node(m, n, token);
  }
}

// ---- one step -----------------------------------------------------------------------------------

// The assigned value, broadcast and promoted to the place's elements.
static void read_assigned(const plan *p, const place *at, double *numbers, element_map order) {
  const node *assigned = &p->nodes[at->assigned];
  if (!at->source && !order && assigned->value->complex == (at->width == 2)) {
    memcpy(numbers, assigned->numbers, (size_t)(at->count * at->width) * sizeof(double));
    return;
  }
  for (int64_t i = 0; i < at->count; i++) {
    complex_number x = load_element(assigned, mapped(at->source, i));
    int64_t to = mapped(order, i) * at->width;
    numbers[to] = x.re;
    if (at->width == 2) numbers[to + 1] = x.im;
  }
}

static void add_to_assigned(plan *p, const place *at, const double *cotangent, element_map order) {
  node *assigned = &p->nodes[at->assigned];
  for (int64_t i = 0; i < at->count; i++) {
    const double *d = cotangent + mapped(order, i) * at->width;
    add_cotangent(p, assigned, mapped(at->source, i),
                  (complex_number){d[0], at->width == 2 ? d[1] : 0});
  }
}

static void write_outputs(machine *m, int64_t token) {
  const typed_body *body = m->plan.body;
  for (int i = 0; i < body->tensors.count; i++) {
    if (body->tensors.items[i].kind != TENSOR_OUTPUT) continue;
    const place *at = &m->plan.tensors[i];
    double *to = at_element(reference_data(m->run->tensors, i), token, at);
    if (to) read_assigned(&m->plan, at, to, at->memory);
  }
}

static void seed_outputs(machine *m, int64_t token) {
  const typed_body *body = m->plan.body;
  for (int i = 0; i < body->tensors.count; i++) {
    if (body->tensors.items[i].kind != TENSOR_OUTPUT) continue;
    const place *at = &m->plan.tensors[i];
    const double *from = at_element(reference_data(m->run->d_tensors, i), token, at);
    if (from) add_to_assigned(&m->plan, at, from, at->memory);
  }
}

// Hands the state on: the oldest entry of a lag buffer leaves, the step's value enters.
static void advance_one(machine *m, const carried *c) {
  int64_t entry = c->place.count * c->place.width;
  double *oldest = carried_entry(m->carry, c, 0),
         *newest = carried_entry(m->carry, c, c->entries - 1);
  memmove(oldest, oldest + entry, (size_t)(entry * (c->entries - 1)) * sizeof(double));
  read_assigned(&m->plan, &c->place, newest, NULL);
}

static void retreat_one(machine *m, const carried *c) {
  int64_t entry = c->place.count * c->place.width;
  double *oldest = carried_entry(m->d_carry, c, 0),
         *newest = carried_entry(m->d_carry, c, c->entries - 1);
  add_to_assigned(&m->plan, &c->place, newest, NULL);
  memmove(oldest + entry, oldest, (size_t)(entry * (c->entries - 1)) * sizeof(double));
  memset(oldest, 0, (size_t)entry * sizeof(double));
}

typedef void carried_function(machine *m, const carried *c);

static void for_all_carried(machine *m, carried_function *function) {
  const typed_body *body = m->plan.body;
  for (int i = 0; i < body->tensors.count; i++)
    if (body->tensors.items[i].kind == TENSOR_STATE) function(m, &m->plan.states[i]);
  for (int i = 0; i < body->lags.count; i++) function(m, &m->plan.lags[i]);
}

static void interpret_step(machine *m, int64_t token, bool outputs) {
  evaluate_all(m, false, token);
  if (outputs) write_outputs(m, token);
  for_all_carried(m, advance_one);
}

// The carried numbers before the step are in m->carry; their cotangents take the place of those
// after it.
static void interpret_step_backward(machine *m, int64_t token) {
  plan *p = &m->plan;
  evaluate_all(m, false, token);
  for (int i = 0; i < p->body->values.count; i++) {
    node *n = &p->nodes[i];
    if (!n->live || n->invariant) continue;
    memset(n->cotangent, 0, (size_t)(n->count * (n->value->complex ? 2 : 1)) * sizeof(double));
  }
  seed_outputs(m, token);
  for_all_carried(m, retreat_one);
  differentiate_all(m, false, token);
}

// ---- one sequence -------------------------------------------------------------------------------

// Moves carried numbers between the run's tensors and `carry`: one entry of a state, `depth` of a
// lag buffer.
typedef void move_function(const place *at, double *memory, double *numbers);

static void move_in(const place *at, double *memory, double *numbers) {
  load_place(at, memory, numbers);
}

static void move_out(const place *at, double *memory, double *numbers) {
  if (!memory) return;
  for (int64_t i = 0; i < at->count; i++) {
    int64_t to = mapped(at->memory, i);
    for (int w = 0; w < at->width; w++) memory[to * at->width + w] = numbers[i * at->width + w];
  }
}

static void move_one(const carried *c, double *data, int64_t sequence_number, double *carry,
                     move_function *move) {
  for (int k = 0; k < c->entries; k++) {
    double *memory = at_element(data, sequence_number * c->entries + k, &c->place);
    move(&c->place, memory, carried_entry(carry, c, k));
  }
}

static void move_carry(machine *m, const reference_tensor *states, const reference_tensor *lags,
                       int64_t sequence_number, double *carry, move_function *move) {
  const typed_body *body = m->plan.body;
  for (int i = 0; i < body->tensors.count; i++) {
    if (body->tensors.items[i].kind != TENSOR_STATE) continue;
    move_one(&m->plan.states[i], reference_data(states, i), sequence_number, carry, move);
  }
  for (int i = 0; i < body->lags.count; i++)
    move_one(&m->plan.lags[i], reference_data(lags, i), sequence_number, carry, move);
}

// What a state that the caller does not give is before the first step.
static void begin_one(machine *m, const carried *c) {
  const plan *p = &m->plan;
  double *to = carried_entry(m->carry, c, 0);
  const double *from = c->begin->number;
  if (c->begin->parameter != NO_PARAMETER)
    from = reference_data(m->run->tensors, c->begin->parameter);
  for (int64_t i = 0; i < c->place.count; i++) {
    int64_t at = c->begin->parameter == NO_PARAMETER ? 0 : mapped(c->parameter, i);
    for (int w = 0; w < c->place.width; w++)
      to[i * c->place.width + w] = kept(p, from[at * c->place.width + w]);
  }
}

// Its cotangent is the parameter's.
static void begin_one_backward(machine *m, const carried *c) {
  if (c->begin->parameter == NO_PARAMETER) return;
  double *to = reference_data(m->run->d_tensors, c->begin->parameter);
  const double *cotangent = carried_entry(m->d_carry, c, 0);
  for (int64_t i = 0; to && i < c->place.count; i++)
    for (int w = 0; w < c->place.width; w++)
      add_to(&m->plan, &to[mapped(c->parameter, i) * c->place.width + w],
             cotangent[i * c->place.width + w]);
}

static void for_all_begun(machine *m, carried_function *function) {
  const typed_body *body = m->plan.body;
  for (int i = 0; i < body->tensors.count; i++)
    if (body->tensors.items[i].begin && !reference_data(m->run->tensors, i))
      function(m, &m->plan.states[i]);
}

static void copy_carry(const machine *m, double *to, const double *from) {
  memcpy(to, from, (size_t)m->plan.carry_size * sizeof(double));
}

static void interpret_forward(machine *m, sequence s) {
  move_carry(m, m->run->tensors, m->run->lags, s.number, m->carry, move_in);
  for_all_begun(m, begin_one);
  for (int64_t t = 0; t < s.end - s.begin; t++) {
    if (m->backward && t % m->stride == 0)
      copy_carry(m, m->checkpoints + t / m->stride * m->plan.carry_size, m->carry);
    interpret_step(m, s.begin + t, true);
  }
  move_carry(m, m->run->final_states, m->run->final_lags, s.number, m->carry, move_out);
}

static void run_stretch_backward(machine *m, sequence s, int64_t first) {
  int64_t size = m->plan.carry_size, steps = s.end - s.begin - first;
  if (steps > m->stride) steps = m->stride;
  copy_carry(m, m->carry, m->checkpoints + first / m->stride * size);
  for (int64_t k = 0; k < steps; k++) {
    copy_carry(m, m->stretch + k * size, m->carry);
    if (k + 1 < steps) interpret_step(m, s.begin + first + k, false);
  }
  for (int64_t k = steps - 1; k >= 0; k--) {
    copy_carry(m, m->carry, m->stretch + k * size);
    interpret_step_backward(m, s.begin + first + k);
  }
}

static void interpret_backward(machine *m, sequence s) {
  int64_t time = s.end - s.begin;
  move_carry(m, m->run->d_final_states, m->run->d_final_lags, s.number, m->d_carry, move_in);
  for (int64_t first = time == 0 ? -1 : (time - 1) / m->stride * m->stride; first >= 0;
       first -= m->stride) {
    run_stretch_backward(m, s, first);
  }
  for_all_begun(m, begin_one_backward);
  move_carry(m, m->run->d_initial_states, m->run->d_initial_lags, s.number, m->d_carry, move_out);
}

// ---- the run ------------------------------------------------------------------------------------

static int64_t sequence_count(const reference_run *run) {
  return run->cu_seqlens ? run->sequences : run->batch;
}

static sequence sequence_at(const reference_run *run, int64_t number) {
  if (run->cu_seqlens)
    return (sequence){number, run->cu_seqlens[number], run->cu_seqlens[number + 1]};
  return (sequence){number, number * run->time, (number + 1) * run->time};
}

static int64_t longest_sequence(const reference_run *run) {
  int64_t longest = 0;
  for (int64_t i = 0; i < sequence_count(run); i++) {
    sequence s = sequence_at(run, i);
    if (s.end - s.begin > longest) longest = s.end - s.begin;
  }
  return longest;
}

static bool make_memory(machine *m) {
  plan *p = &m->plan;
  m->carry = plan_alloc(p, p->carry_size, sizeof(double));
  if (!m->backward || p->failed) return !p->failed;
  int64_t longest = longest_sequence(m->run), numbers;
  bool fits =
      !__builtin_mul_overflow(longest, p->carry_size, &numbers) && numbers <= kept_numbers_max;
  m->stride = fits ? 1 : (int64_t)ceil(sqrt((double)longest));
  m->d_carry = plan_alloc(p, p->carry_size, sizeof(double));
  m->checkpoints = plan_alloc(p, (longest / m->stride + 1) * p->carry_size, sizeof(double));
  m->stretch = plan_alloc(p, m->stride * p->carry_size, sizeof(double));
  return !p->failed;
}

static void clear_gradients(machine *m) {
  const typed_body *body = m->plan.body;
  for (int i = 0; i < body->tensors.count; i++) {
    tensor_kind kind = body->tensors.items[i].kind;
    double *data = reference_data(m->run->d_tensors, i);
    if (!data || (kind != TENSOR_INPUT && kind != TENSOR_PARAM)) continue;
    const place *at = &m->plan.tensors[i];
    int64_t copies = kind == TENSOR_INPUT ? m->run->batch * m->run->time : 1;
    memset(data, 0, (size_t)(copies * at->count * at->width) * sizeof(double));
  }
}

static void round_invariants(plan *p) {
  for (int id = 0; id < p->body->values.count; id++) {
    node *n = &p->nodes[id];
    int64_t count = n->live && n->invariant ? n->count * (n->value->complex ? 2 : 1) : 0;
    for (int64_t i = 0; i < count; i++) n->numbers[i] = (float)n->numbers[i];
  }
}

static void execute(machine *m) {
  m->plan.single = m->run->single && !m->run->prepared;
  evaluate_all(m, true, 0);
  if (m->run->prepared) round_invariants(&m->plan);
  m->plan.single = m->run->single;
  if (m->backward) clear_gradients(m);
  for (int64_t i = 0; i < sequence_count(m->run); i++) {
    sequence s = sequence_at(m->run, i);
    interpret_forward(m, s);
    if (m->backward) interpret_backward(m, s);
  }
  if (m->backward) differentiate_all(m, true, 0);
}

bool reference_execute(const recurrence *r, const reference_run *run, bool backward) {
  machine m = {.run = run, .backward = backward, .stride = 1};
  bool enough = plan_make(&m.plan, &r->body, run->axis_sizes, backward) && make_memory(&m);
  if (enough) execute(&m);
  plan_free(&m.plan);
  return enough;
}
