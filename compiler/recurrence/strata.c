// Which state depends on which, and in which order they can be computed.
//
//   kprev = k                                    kprev: stratum 0, on no cycle: a delay
//   S = a * S[t-1] + kprev[t-1] * v              S: stratum 1, on a cycle by itself
//
// A lag buffer of a let that depends on a state hands that dependence on, one step later; it is a
// node as well.
#include <string.h>

#include "compiler/recurrence/structure.h"

typedef uint64_t word;

typedef struct node_sets {
  int words;       // per set
  word *of_value;  // nodes that a value reads, directly or through other values of the step
} node_sets;

static word *set_of(const node_sets *s, value_id id) {
  return s->of_value + (size_t)id * (size_t)s->words;
}

static void include(word *set, int node) { set[node / 64] |= (word)1 << node % 64; }
static bool includes(const word *set, int node) { return set[node / 64] >> node % 64 & 1; }

static void number_nodes(arena *memory, const typed_body *body, state_graph *g) {
  g->node_of_state = ARENA_ARRAY(memory, int, body->tensors.count);
  g->node_of_lag = ARENA_ARRAY(memory, int, body->lags.count);
  for (int i = 0; i < body->tensors.count; i++)
    g->node_of_state[i] = body->tensors.items[i].kind == TENSOR_STATE ? g->count++ : -1;
  g->state_count = g->count;
  for (int i = 0; i < body->lags.count; i++)
    g->node_of_lag[i] = body->lags.items[i].input < 0 ? g->count++ : -1;
}

static node_sets find_nodes_read(arena *memory, const typed_body *body, const state_graph *g) {
  node_sets s = {.words = (g->count + 63) / 64};
  s.of_value = ARENA_ARRAY(memory, word, (size_t)body->values.count * (size_t)s.words);
  for (int i = 0; i < body->values.count; i++) {
    const typed_value *v = &body->values.items[i];
    word *set = set_of(&s, i);
    if (v->op == VALUE_PREVIOUS) include(set, g->node_of_state[v->index]);
    if (v->op == VALUE_LAG && g->node_of_lag[v->index] >= 0) include(set, g->node_of_lag[v->index]);
    for (int k = 0; k < value_arity(v->op); k++) {
      const word *operand = set_of(&s, v->args[k]);
      for (int w = 0; w < s.words; w++) set[w] |= operand[w];
    }
  }
  return s;
}

static value_id *sources_of_nodes(arena *memory, const typed_body *body, const state_graph *g) {
  value_id *source_of = ARENA_ARRAY(memory, value_id, g->count);
  for (int i = 0; i < body->tensors.count; i++)
    if (g->node_of_state[i] >= 0) source_of[g->node_of_state[i]] = body->tensors.items[i].assigned;
  for (int i = 0; i < body->lags.count; i++)
    if (g->node_of_lag[i] >= 0) source_of[g->node_of_lag[i]] = body->lags.items[i].source;
  return source_of;
}

static void close_transitively(state_graph *g) {
  for (int via = 0; via < g->count; via++) {
    for (int from = 0; from < g->count; from++) {
      if (!g->reaches[from * g->count + via]) continue;
      for (int to = 0; to < g->count; to++)
        g->reaches[from * g->count + to] |= g->reaches[via * g->count + to];
    }
  }
}

// A state lies above every state that it depends on and is not coupled with; lag buffers add no
// level.
static void find_state_levels(state_graph *g) {
  for (bool changed = true; changed;) {
    changed = false;
    for (int i = 0; i < g->count; i++) {
      for (int j = 0; j < g->count; j++) {
        if (i == j || !node_reaches(g, i, j)) continue;
        bool above = !node_coupled(g, i, j) && i < g->state_count && j < g->state_count;
        int least = g->level[j] + (above ? 1 : 0);
        if (g->level[i] >= least) continue;
        g->level[i] = least;
        changed = true;
      }
    }
  }
}

state_graph state_graph_make(arena *memory, const typed_body *body) {
  state_graph g = {0};
  number_nodes(memory, body, &g);
  node_sets read = find_nodes_read(memory, body, &g);
  value_id *source_of = sources_of_nodes(memory, body, &g);
  g.reaches = ARENA_ARRAY(memory, bool, (size_t)g.count *(size_t)g.count);
  g.level = ARENA_ARRAY(memory, int, g.count);
  for (int i = 0; i < g.count; i++)
    for (int j = 0; j < g.count; j++)
      g.reaches[i * g.count + j] = includes(set_of(&read, source_of[i]), j);
  close_transitively(&g);
  find_state_levels(&g);
  return g;
}
