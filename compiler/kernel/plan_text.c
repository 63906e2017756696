// What --emit=plan prints of a kernel: how it is mapped, the plan of each of its programs, and where their memory lies.
//
//    instances along H, 128 threads, chunks of 16 steps, 23040 bytes of shared memory, 0 bytes of scratch
//   program heads.forward
//    rows input q of 128 bytes, 16 of them, in shared memory at 8192 and 16768
//     0 body points [t 16]: %5 = log_sigmoid(g); ..
#include <string.h>

#include "compiler/kernel/frame.h"
#include "compiler/kernel/gpu/gpu.h"

typedef struct plan_text {
  arena *a;
  const kernel_frame *h;
  const char *chars;
} plan_text;

#define PUT(t, ...) ((t)->chars = arena_printf((t)->a, "%s%s", (t)->chars, arena_printf((t)->a, __VA_ARGS__)))

static int64_t bytes_of_number(const kernel_frame *h) { return h->m.f64 ? 8 : 4; }

// ---- places ----------------------------------------------------------------------------------

static plan_place place_at(const kernel_frame *h, location at, int64_t words) {
  bool placed = at.offset >= 0 && at.sized < 0;
  plan_place place = {.offset = placed ? at.offset * bytes_of_number(h) : -1, .bytes = words * bytes_of_number(h)};
  place.space = at.on_chip ? plan_shared : at.offset >= 0 ? plan_scratch : h->m.kind == MAP_LANES ? plan_stack : plan_registers;
  return place;
}

static const plan_place nowhere = {NULL, -1, 0};

// The host: behind the beginning of the scratch for buffers of the same run-time sizes.
static location in_scratch(const part *p, const plan_buffer *b) {
  for (int i = 0; i < p->p->scratch.count; i++) {
    location at = p->scratch[i];
    if (p->p->scratch.items[i].sizes != b->numbers.sizes) continue;
    at.offset += b->offset;
    return at;
  }
  return (location){-1, -1, false};
}

static plan_place place_of_buffer(const kernel_frame *h, const part *p, int i) {
  const plan_buffer *b = &p->p->buffers.items[i];
  int64_t words = plan_words(b).factor;
  if (b->last < 0 || b->carried >= 0) return nowhere;
  if (b->persistent) return place_at(h, p->persistent_at[i], words);
  if (b->kept) return place_at(h, p->kept_at[i], words);
  if (h->m.kind != MAP_LANES) return place_at(h, p->buffer_at[i], words);
  return b->stack ? place_at(h, (location){-1, -1, false}, words) : place_at(h, in_scratch(p, b), words);
}

static plan_places places_of(arena *a, const kernel_frame *h, const part *p) {
  plan_places at = {.buffers = ARENA_ARRAY(a, plan_place, p->p->buffers.count + 1),
                    .states = ARENA_ARRAY(a, plan_place, p->carried.count + 1)};
  for (int i = 0; i < p->p->buffers.count; i++) at.buffers[i] = place_of_buffer(h, p, i);
  for (int c = 0; c < p->carried.count; c++)
    at.states[c] = place_at(h, p->carried_at[c], plan_words(&p->carried.items[c].memory).factor);
  return at;
}

static void verify_part(const kernel_frame *h, const part *p) {
  plan_places at = places_of(h->a, h, p);
  const char *wrong = plan_verify_places(h->a, p->p, at.buffers);
  if (wrong) ICE("plan", "%s: memory: %s", p->program->name, wrong);
}

void frame_verify_places(const kernel_frame *h) {
  if (h->recomputes) verify_part(h, &h->recompute);
  verify_part(h, &h->main);
}

// ---- text ------------------------------------------------------------------------------------

static void put_axes(plan_text *t, axis_set axes, const tile_program *program) {
  const char *separator = "";
  for (int axis = 0; axis < program->axes.count; axis++) {
    if (!axis_in(axes, axis)) continue;
    PUT(t, "%s%s", separator, program->axes.items[axis].name);
    separator = ",";
  }
}

static void put_bytes(plan_text *t) {
  const kernel_frame *h = t->h;
  codegen_bytes scratch = h->shared_numbers || h->sized.count || h->instance_numbers ? frame_bytes_of(h) : (codegen_bytes){0};
  PUT(t, ", %lld", (long long)scratch.constant);
  if (scratch.per_instance) PUT(t, " + %lld an instance", (long long)scratch.per_instance);
  for (int i = 0; i < scratch.terms.count; i++) {
    PUT(t, " + %lld * ", (long long)scratch.terms.items[i].coefficient);
    put_axes(t, scratch.terms.items[i].axes, h->k->program);
  }
  PUT(t, " bytes of scratch\n");
}

static void put_mapping(plan_text *t) {
  const kernel_frame *h = t->h;
  const mapping *m = &h->m;
  PUT(t, m->instance ? " instances along " : " one instance");
  put_axes(t, m->instance, h->k->program);
  if (h->k->sequences) PUT(t, ", %d sequences together", h->k->sequences);
  if (m->chunks_outside) PUT(t, " inside the loop over chunks");
  if (m->lane_axis >= 0) PUT(t, ", %d lanes of %s", m->lanes, h->k->program->axes.items[m->lane_axis].name);
  if (m->kind == MAP_THREADS) PUT(t, ", a thread for each %s", h->k->program->axes.items[h->team.axis].name);
  if (m->kind != MAP_LANES) PUT(t, ", %d threads", h->team.threads);
  if (h->k->program->form == TILE_CHUNK) PUT(t, ", chunks of %d steps", h->k->program->chunk);
  if (m->kind != MAP_LANES) PUT(t, ", %lld bytes of shared memory", (long long)(4 * h->on_chip));
  put_bytes(t);
}

// Rows of tokens that chunks read from a copy.
static void put_rows(plan_text *t, const part *p, int argument) {
  const tile_place *place = &p->program->arguments.items[argument];
  const pad *d = &p->pads[argument];
  int64_t bytes = frame_stores_narrow(t->h, place) ? 2 : bytes_of_number(t->h);
  if (!d->row) return;
  PUT(t, " rows %s %s", tile_role_text(place->role), place->name ? place->name : "-");
  PUT(t, " of %lld bytes, %d of them", (long long)(d->row * (t->h->m.kind == MAP_LANES ? bytes_of_number(t->h) : bytes)),
      p->program->chunk);
  location at = t->h->m.kind == MAP_LANES ? (location){d->offset, -1, false} : d->at;
  PUT(t, ", %s at %lld", at.on_chip ? plan_shared : plan_scratch, (long long)(at.offset * bytes_of_number(t->h)));
  if (t->h->m.kind == MAP_BLOCK && d->ahead.offset >= 0) PUT(t, " and %lld", (long long)(4 * d->ahead.offset));
  if (p->maps && p->maps[argument] >= 0) PUT(t, ", in bulk");
  PUT(t, "\n");
}

static void put_part(plan_text *t, const part *p) {
  plan_places at = places_of(t->a, t->h, p);
  PUT(t, "program %s\n", p->program->name);
  for (int i = 0; p->program->form == TILE_CHUNK && i < p->program->arguments.count; i++) put_rows(t, p, i);
  PUT(t, "%s", plan_print(t->a, &t->h->m, p->p, &p->carried, &at));
}

char *frame_plan_text(arena *a, const kernel_frame *h) {
  plan_text t = {.a = a, .h = h, .chars = ""};
  put_mapping(&t);
  if (h->recomputes) put_part(&t, &h->recompute);
  put_part(&t, &h->main);
  return arena_strdup(a, t.chars);
}

static char *plan_of_one(arena *a, const kernel *k, codegen_clone clone, number_type dtype) {
  codegen_kernel described = host_describe(a, k);
  kernel_frame h = frame_for(a, &described, k->symbol, clone, dtype);
  frame_plan(&h);
  return frame_plan_text(a, &h);
}

// Behind the kernel the one that takes several sequences together, if there is one.
static char *plan_of_host(arena *a, const kernel *k, codegen_clone clone, number_type dtype) {
  const kernel *together = host_together(a, k);
  char *alone = plan_of_one(a, k, clone, dtype);
  return together ? arena_printf(a, "%s%s", alone, plan_of_one(a, together, clone, dtype)) : alone;
}

// ---- all kernels ------------------------------------------------------------------------------

static const char *kind_text(kernel_kind kind) {
  static const char *const kinds[] = {[KERNEL_FORWARD] = "forward",
                                      [KERNEL_STEP] = "step",
                                      [KERNEL_STATES] = "states",
                                      [KERNEL_BACKWARD] = "backward",
                                      [KERNEL_CARRY] = "carry",
                                      [KERNEL_PART] = "time slice",
                                      [KERNEL_PART_BACK] = "backward time slice"};
  return kinds[kind];
}

// Kernels of several kinds may be one function; of two that share their thread blocks each has a plan.
static bool is_same_function(const kernel *k, const kernel *other) {
  bool back = k->kind == KERNEL_PART_BACK, other_back = other->kind == KERNEL_PART_BACK;
  return strcmp(k->symbol, other->symbol) == 0 && back == other_back;
}

// All kinds of a function. NULL: the list has it before.
static const char *kinds_of(arena *a, const kernel *const *kernels, int count, int index) {
  const char *text = NULL;
  for (int i = 0; i < count; i++) {
    if (!is_same_function(kernels[i], kernels[index])) continue;
    if (i < index) return NULL;
    text = text ? arena_printf(a, "%s, %s", text, kind_text(kernels[i]->kind)) : kind_text(kernels[i]->kind);
  }
  return text;
}

static void put_kernel(plan_text *t, const kernel *k, const char *targets, const char *kinds, const char *programs) {
  PUT(t, "%skernel %s for %s: %s\n%s", *t->chars ? "\n" : "", k->symbol, targets, kinds, programs);
}

char *codegen_plans(arena *a, const kernel *const *kernels, int count, codegen_clone clone, number_type dtype) {
  plan_text t = {.a = a, .chars = ""};
  for (int i = 0; i < count; i++) {
    const char *kinds = kinds_of(a, kernels, count, i);
    if (kinds) put_kernel(&t, kernels[i], codegen_clone_name(clone), kinds, plan_of_host(a, kernels[i], clone, dtype));
  }
  return arena_strdup(a, t.chars);
}

// Those of the options that have the kernel.
static const char *targets_of(arena *a, const kernel *k, codegen_gpu_options options) {
  const char *text = "";
  for (codegen_gpu_target target = 0; target < GPU_TARGET_COUNT; target++)
    if (options.targets >> target & 1 && codegen_gpu_has_room(target, k->room))
      text = arena_printf(a, "%s%s%s", text, *text ? ", " : "", codegen_gpu_target_name(target));
  return text;
}

char *codegen_gpu_plans(arena *a, const kernel *const *kernels, int count, codegen_gpu_options options) {
  plan_text t = {.a = a, .chars = ""};
  for (int i = 0; i < count; i++) {
    const char *kinds = kinds_of(a, kernels, count, i);
    if (kinds) put_kernel(&t, kernels[i], targets_of(a, kernels[i], options), kinds, gpu_plan_text(a, kernels[i], options));
  }
  return arena_strdup(a, t.chars);
}
