// GPU: barriers only between nests that touch the same memory. The lowering places them by this,
// the schedule counts them.
//
//   points %5 from %2; points %6 from %3; dot %7 of %5, %6      ->      points; points; barrier; dot
//
// A nest waits if it reads memory that was written since the last barrier, or writes memory that
// was read or written since. The memory of a dead buffer counts as well: other threads may still
// read it. If nothing is known of earlier nests, the nest waits.
#include "compiler/plan/gpu/barriers.h"

// Resources are buffers, then carried values.
int plan_memory_count(const plan *p) { return p->buffers.count + p->carried_count; }

static int of_buffer(const plan *p, int buffer) {
  int carried = p->buffers.items[buffer].carried;
  return carried < 0 ? buffer : p->buffers.count + carried;
}

static void note_reads(const plan *p, tile_id id, bool *reads) {
  const tile_value *v = tile_at(p->program, id);
  if (v->op == TILE_ARGUMENT) {
    for (int c = 0; c < p->carried_count; c++)
      if (p->carried[c].argument == tile_argument_number(v)) reads[p->buffers.count + c] = true;
  }
  if (plan_at_hand(p, id))
    for (int k = 0; k < tile_arity(v->op); k++) note_reads(p, v->args[k], reads);
  else if (p->values[id].buffer >= 0)
    reads[of_buffer(p, p->values[id].buffer)] = true;
}

static void note_buffer_write(const plan *p, tile_id id, bool *writes) {
  const plan_value *pv = &p->values[id];
  int buffer = pv->into != NO_TILE ? p->values[pv->into].buffer : pv->buffer;
  if (buffer >= 0) writes[of_buffer(p, buffer)] = true;
  if (pv->partial_sums >= 0) writes[of_buffer(p, pv->partial_sums)] = true;
}

void plan_note_memory(const plan *p, const plan_nest *nest, bool *reads, bool *writes) {
  for (int i = 0; i < nest->values.count; i++) {
    const tile_value *v = tile_at(p->program, nest->values.items[i]);
    for (int k = 0; k < tile_arity(v->op); k++)
      if (plan_reads_itself(nest, i, v->args[k])) note_reads(p, v->args[k], reads);
    note_buffer_write(p, nest->values.items[i], writes);
  }
  const plan_nest other = {.kind = NEST_DOT, .dot = nest->other_dot};
  for (int k = 0; nest->two && k < 2; k++) {
    tile_id factor = tile_at(p->program, nest->other)->args[k];
    if (plan_reads_itself(&other, 0, factor)) note_reads(p, factor, reads);
  }
  if (nest->two && nest->scaled != NO_TILE) note_reads(p, nest->scaled, reads);
  for (int i = 0; i < nest->results.count; i++)
    note_reads(p, p->program->results.items[nest->results.items[i]].value, reads);
  if (nest->kind == NEST_PACK) {
    note_reads(p, nest->packed, reads);
    writes[of_buffer(p, nest->pack)] = true;
  }
  if (nest->kind != NEST_DOT && nest->kind != NEST_SOLVE) return;
  if (nest->dot.pack_a >= 0) reads[of_buffer(p, nest->dot.pack_a)] = true;
  if (nest->dot.pack_b >= 0) reads[of_buffer(p, nest->dot.pack_b)] = true;
  if (!nest->two) return;
  if (nest->other_dot.pack_a >= 0) reads[of_buffer(p, nest->other_dot.pack_a)] = true;
  if (nest->other_dot.pack_b >= 0) reads[of_buffer(p, nest->other_dot.pack_b)] = true;
}

static bool must_wait(const memory_since *m, int index, const bool *reads, const bool *writes) {
  const plan *p = m->p;
  bool fresh = false;
  for (int r = 0; r < plan_memory_count(p); r++) {
    if (reads[r] && m->written[r]) return true;
    if (writes[r] && (m->read[r] || m->written[r])) return true;
    fresh = fresh || (writes[r] && r < p->buffers.count && p->buffers.items[r].first == index);
  }
  for (int r = 0; fresh && r < p->buffers.count; r++)
    if ((m->read[r] || m->written[r]) && p->buffers.items[r].last < index) return true;
  return false;
}

memory_since *plan_memory_since(arena *a, const plan *p) {
  memory_since *m = ARENA_NEW(a, memory_since);
  m->p = p;
  m->read = ARENA_ARRAY(a, bool, plan_memory_count(p) + 1);
  m->written = ARENA_ARRAY(a, bool, plan_memory_count(p) + 1);
  return m;
}

void plan_forget_accesses(memory_since *m, bool known) {
  m->known = known;
  for (int r = 0; r < plan_memory_count(m->p); r++) m->read[r] = m->written[r] = false;
}

bool plan_waits(arena *a, memory_since *m, const plan_nest *nest) {
  bool *reads = ARENA_ARRAY(a, bool, plan_memory_count(m->p) + 1);
  bool *writes = ARENA_ARRAY(a, bool, plan_memory_count(m->p) + 1);
  plan_note_memory(m->p, nest, reads, writes);
  bool waits = !m->known || must_wait(m, (int)(nest - m->p->nests.items), reads, writes);
  if (waits) plan_forget_accesses(m, true);
  for (int r = 0; r < plan_memory_count(m->p); r++) {
    m->read[r] = m->read[r] || reads[r];
    m->written[r] = m->written[r] || writes[r];
  }
  return waits;
}
