// The plan of a kernel as text: how it is mapped, the plan of each of its programs, and where their
// memory lies.
//
//    instances along H, 128 threads, chunks of 16 steps, 23040 bytes of shared memory, 0 bytes of scratch
//   program heads.forward
//    rows input q of 128 bytes, 16 of them, in shared memory at 8192 and 16768
//     0 body points [t 16]: %5 = log_sigmoid(g); ..
#include "compiler/plan/kernel_plan.h"

typedef struct plan_text {
  arena *a;
  const kernel_plan *w;
  const char *chars;
} plan_text;

#define PUT(t, ...) \
  ((t)->chars = arena_printf((t)->a, "%s%s", (t)->chars, arena_printf((t)->a, __VA_ARGS__)))

// ---- places ----------------------------------------------------------------------------------

static const plan_place nowhere = {NULL, -1, 0};

static int64_t bytes_of_number(const kernel_plan *w) { return w->m.f64 ? 8 : 4; }

static plan_place place_at(const kernel_plan *w, location at, int64_t words) {
  bool placed = at.offset >= 0 && at.sized < 0;
  plan_place place = {.offset = placed ? at.offset * bytes_of_number(w) : -1,
                      .bytes = words * bytes_of_number(w)};
  place.space = at.in_shared                       ? plan_shared
                : at.sized == LOCATION_OF_INSTANCE ? plan_instance
                : at.offset >= 0                   ? plan_scratch
                : w->m.kind == MAP_LANES           ? plan_stack
                                                   : plan_registers;
  return place;
}

// The host: an offset in the scratch for buffers of the same run-time sizes.
static location in_scratch(const program_plan *p, const plan_buffer *b) {
  for (int i = 0; i < p->p->scratch.count; i++) {
    location at = p->scratch[i];
    if (p->p->scratch.items[i].sizes != b->numbers.sizes) continue;
    at.offset += b->offset;
    return at;
  }
  return (location){-1, -1, false};
}

static plan_place place_of_buffer(const kernel_plan *w, const program_plan *p, int i) {
  const plan_buffer *b = &p->p->buffers.items[i];
  int64_t words = plan_words(b).factor;
  if (b->last < 0 || b->carried >= 0) return nowhere;
  if (b->persistent) return place_at(w, p->persistent_at[i], words);
  if (b->kept) return place_at(w, p->kept_at[i], words);
  if (w->m.kind != MAP_LANES) return place_at(w, p->buffer_at[i], words);
  return b->stack ? place_at(w, (location){-1, -1, false}, words)
                  : place_at(w, in_scratch(p, b), words);
}

static plan_places places_of(arena *a, const kernel_plan *w, const program_plan *p) {
  plan_places at = {.buffers = ARENA_ARRAY(a, plan_place, p->p->buffers.count + 1),
                    .states = ARENA_ARRAY(a, plan_place, p->carried.count + 1)};
  for (int i = 0; i < p->p->buffers.count; i++) at.buffers[i] = place_of_buffer(w, p, i);
  for (int c = 0; c < p->carried.count; c++)
    at.states[c] = place_at(w, p->carried_at[c], plan_words(&p->carried.items[c].memory).factor);
  return at;
}

static void verify_program_places(const kernel_plan *w, const program_plan *p) {
  plan_places at = places_of(w->a, w, p);
  const char *wrong = plan_verify_places(w->a, p->p, at.buffers);
  if (wrong) ICE("plan", "%s: memory: %s", p->program->name, wrong);
}

void kernel_verify_places(const kernel_plan *w) {
  if (w->recomputes) verify_program_places(w, &w->recompute);
  if (w->panels) verify_program_places(w, &w->common);
  if (w->opening.program) verify_program_places(w, &w->opening);
  verify_program_places(w, &w->main);
}

// ---- text ------------------------------------------------------------------------------------

static void put_axis_names(plan_text *t, axis_set axes, const tile_program *program) {
  const char *separator = "";
  for (int axis = 0; axis < program->axes.count; axis++) {
    if (!axis_in(axes, axis)) continue;
    PUT(t, "%s%s", separator, program->axes.items[axis].name);
    separator = ",";
  }
}

static void put_bytes(plan_text *t) {
  const kernel_plan *w = t->w;
  codegen_bytes scratch = w->shared_numbers || w->sized.count || w->instance_numbers
                              ? kernel_bytes_of(t->a, w)
                              : (codegen_bytes){0};
  PUT(t, ", %lld", (long long)scratch.constant);
  if (scratch.per_instance) PUT(t, " + %lld an instance", (long long)scratch.per_instance);
  for (int i = 0; i < scratch.terms.count; i++) {
    PUT(t, " + %lld * ", (long long)scratch.terms.items[i].coefficient);
    put_axis_names(t, scratch.terms.items[i].axes, w->k->program);
  }
  PUT(t, " bytes of scratch\n");
}

static void put_mapping(plan_text *t) {
  const kernel_plan *w = t->w;
  const mapping *m = &w->m;
  PUT(t, m->instance ? " instances along " : " one instance");
  put_axis_names(t, m->instance, w->k->program);
  if (w->k->sequences) PUT(t, ", a batch of %d sequences", w->k->sequences);
  if (m->chunks_outside) PUT(t, " inside the loop over chunks");
  if (m->lane_axis >= 0)
    PUT(t, ", %d lanes of %s", m->lanes, w->k->program->axes.items[m->lane_axis].name);
  if (w->panels) PUT(t, ", panel after panel in chunks of %d steps", w->k->chunk);
  if (m->kind == MAP_THREADS)
    PUT(t, ", a thread for each %s", w->k->program->axes.items[w->k->lane_axis].name);
  if (m->kind != MAP_LANES) PUT(t, ", %d threads", w->threads);
  if (w->k->program->form == TILE_CHUNK) PUT(t, ", chunks of %d steps", w->k->program->chunk);
  if (m->kind != MAP_LANES)
    PUT(t, ", %lld bytes of shared memory", (long long)(4 * w->shared_words));
  put_bytes(t);
}

// Rows of tokens that chunks read from a copy.
static void put_staged_rows(plan_text *t, const program_plan *p, int argument) {
  const tile_place *place = &p->program->arguments.items[argument];
  const staging_buffer *d = &p->staging_buffers[argument];
  int64_t bytes = kernel_stores_narrow(&t->w->m, place) ? 2 : bytes_of_number(t->w);
  if (!d->row) return;
  PUT(t, " rows %s %s", tile_role_text(place->role), place->name ? place->name : "-");
  PUT(t, " of %lld bytes, %d of them",
      (long long)(d->row * (t->w->m.kind == MAP_LANES ? bytes_of_number(t->w) : bytes)),
      p->program->chunk);
  PUT(t, ", %s at %lld", d->at.in_shared ? plan_shared : plan_scratch,
      (long long)(d->at.offset * bytes_of_number(t->w)));
  if (t->w->m.kind == MAP_BLOCK && d->ahead.offset >= 0)
    PUT(t, " and %lld", (long long)(4 * d->ahead.offset));
  PUT(t, "\n");
}

static void put_planned_program(plan_text *t, const program_plan *p) {
  plan_places at = places_of(t->a, t->w, p);
  PUT(t, "program %s\n", p->program->name);
  for (int i = 0; p->program->form == TILE_CHUNK && i < p->program->arguments.count; i++)
    put_staged_rows(t, p, i);
  PUT(t, "%s", plan_print(t->a, &t->w->m, p->p, &p->carried, &at));
}

char *kernel_plan_text(arena *a, const kernel_plan *w) {
  plan_text t = {.a = a, .w = w, .chars = ""};
  put_mapping(&t);
  if (w->recomputes) put_planned_program(&t, &w->recompute);
  if (w->panels) put_planned_program(&t, &w->common);
  if (w->opening.program) put_planned_program(&t, &w->opening);
  put_planned_program(&t, &w->main);
  return arena_strdup(a, t.chars);
}
