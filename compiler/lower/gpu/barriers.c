// GPU: barriers only between nests that touch the same memory.
//
//   points %5 from %2; points %6 from %3; dot %7 of %5, %6      ->      points; points; barrier; dot
//
// A nest waits if it reads memory that was written since the last barrier, or writes memory that was read or written since.
// The memory of a dead buffer counts as well: other threads may still read it. If nothing is known of earlier nests, the nest
// waits.
#include "compiler/lower/gpu/nests.h"

// Resources are buffers, then carried values.
static int resource_count(const lower *l) { return l->p->buffers.count + l->p->carried_count; }

static int of_buffer(const lower *l, int buffer) {
  int carried = l->p->buffers.items[buffer].carried;
  return carried < 0 ? buffer : l->p->buffers.count + carried;
}

static void note_reads(const lower *l, tile_id id, bool *reads) {
  const tile_value *v = value(l, id);
  if (v->op == TILE_ARGUMENT) {
    for (int c = 0; c < l->p->carried_count; c++) {
      if (l->p->carried[c].argument == tile_argument_number(v)) reads[l->p->buffers.count + c] = true;
    }
  }
  if (plan_at_hand(l->p, id)) {
    for (int k = 0; k < tile_arity(v->op); k++) note_reads(l, v->args[k], reads);
  } else if (l->p->values[id].buffer >= 0) {
    reads[of_buffer(l, l->p->values[id].buffer)] = true;
  }
}

static void note_write(const lower *l, tile_id id, bool *writes) {
  const plan_value *pv = &l->p->values[id];
  int buffer = pv->into != NO_TILE ? l->p->values[pv->into].buffer : pv->buffer;
  if (buffer >= 0) writes[of_buffer(l, buffer)] = true;
  if (pv->copy >= 0) writes[of_buffer(l, pv->copy)] = true;
  if (pv->partial_sums >= 0) writes[of_buffer(l, pv->partial_sums)] = true;
}

static void note_nest(const lower *l, const plan_nest *nest, bool *reads, bool *writes) {
  for (int i = 0; i < nest->values.count; i++) {
    const tile_value *v = value(l, nest->values.items[i]);
    for (int k = 0; k < tile_arity(v->op); k++)
      if (plan_reads_itself(nest, i, v->args[k])) note_reads(l, v->args[k], reads);
    note_write(l, nest->values.items[i], writes);
  }
  const plan_nest other = {.kind = NEST_DOT, .dot = nest->other_dot};
  for (int k = 0; nest->two && k < 2; k++) {
    tile_id factor = value(l, nest->other)->args[k];
    if (plan_reads_itself(&other, 0, factor)) note_reads(l, factor, reads);
  }
  if (nest->two && nest->scaled != NO_TILE) note_reads(l, nest->scaled, reads);
  for (int i = 0; i < nest->results.count; i++)
    note_reads(l, l->p->program->results.items[nest->results.items[i]].value, reads);
  if (nest->kind == NEST_PACK) {
    note_reads(l, nest->packed, reads);
    writes[of_buffer(l, nest->pack)] = true;
  }
  if (nest->kind != NEST_DOT && nest->kind != NEST_SOLVE) return;
  if (nest->dot.pack_a >= 0) reads[of_buffer(l, nest->dot.pack_a)] = true;
  if (nest->dot.pack_b >= 0) reads[of_buffer(l, nest->dot.pack_b)] = true;
  if (!nest->two) return;
  if (nest->other_dot.pack_a >= 0) reads[of_buffer(l, nest->other_dot.pack_a)] = true;
  if (nest->other_dot.pack_b >= 0) reads[of_buffer(l, nest->other_dot.pack_b)] = true;
}

static bool must_wait(const lower *l, int index, const bool *reads, const bool *writes) {
  const memory_since *m = l->since;
  bool fresh = false;
  for (int r = 0; r < resource_count(l); r++) {
    if (reads[r] && m->written[r]) return true;
    if (writes[r] && (m->read[r] || m->written[r])) return true;
    fresh = fresh || (writes[r] && r < l->p->buffers.count && l->p->buffers.items[r].first == index);
  }
  for (int r = 0; fresh && r < l->p->buffers.count; r++) {
    if ((m->read[r] || m->written[r]) && l->p->buffers.items[r].last < index) return true;
  }
  return false;
}

void gpu_forget_accesses(lower *l, bool known) {
  if (!l->since) return;
  l->since->known = known;
  for (int r = 0; r < resource_count(l); r++) l->since->read[r] = l->since->written[r] = false;
}

void gpu_before_nest(lower *l, const plan_nest *nest) {
  memory_since *m = l->since;
  bool *reads = ARENA_ARRAY(l->e->a, bool, resource_count(l) + 1);
  bool *writes = ARENA_ARRAY(l->e->a, bool, resource_count(l) + 1);
  note_nest(l, nest, reads, writes);
  int index = (int)(nest - l->p->nests.items);
  if (!m->known || must_wait(l, index, reads, writes)) {
    lower_barrier(l);
    gpu_forget_accesses(l, true);
  }
  for (int r = 0; r < resource_count(l); r++) {
    m->read[r] = m->read[r] || reads[r];
    m->written[r] = m->written[r] || writes[r];
  }
}

memory_since *gpu_memory_since(arena *a, const plan *p) {
  memory_since *m = ARENA_NEW(a, memory_since);
  int count = p->buffers.count + p->carried_count;
  m->read = ARENA_ARRAY(a, bool, count + 1);
  m->written = ARENA_ARRAY(a, bool, count + 1);
  return m;
}

void lower_barrier(lower *l) {
  if (l->team->shares) gpu_call(l->e, GPU_BARRIER, NULL, 0);
}

void gpu_wait(lower *l) {
  lower_barrier(l);
  gpu_forget_accesses(l, false);
}
