// The model's time of a kernel, and the table of its nests.
//
//   a step of a block    the times between barriers, added up (runtime/support/simt/cost.c)
//   of several blocks    of one multiprocessor: as long as a block's, or as all that they take of one resource together
//   a call               as many such rounds as there are work items for
#include "compiler/abi/gpu_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- sums ------------------------------------------------------------------------------------

typedef struct row {
  simt_place_cost cost;
  const simt_place *place;
} row;

// A kernel of the request: sums of an item, and of one step of it.
typedef struct section {
  const gpu_model_request *r;
  const simt_kernel *kernel;
  const gpu_model_code *code;  // NULL: not known
  simt_place_cost whole, step;
  row *rows;  // of a step, longest first
  int row_count, resident;
} section;

static bool is_of_kernel(const simt_cost *cost, int place, const simt_kernel *k) {
  return place < cost->count && cost->places[place] &&
         strcmp(cost->places[place]->kernel, k->name) == 0;
}

static simt_place_cost cost_of_step(const section *s, int place) {
  const gpu_model_request *r = s->r;
  double factor =
      1 / ((double)(r->steps - (r->before ? r->before_steps : 0)) * (double)s->kernel->items);
  simt_place_cost step = {0};
  simt_add_place_cost(&step, &r->cost->costs[place], factor);
  if (r->before && place < r->before->count)
    simt_add_place_cost(&step, &r->before->costs[place], -factor);
  return step;
}

static int by_time(const void *x, const void *y) {
  const row *a = x, *b = y;
  double more = b->cost.cycles[SIMT_PACES - 1] - a->cost.cycles[SIMT_PACES - 1];
  if (more != 0) return more > 0 ? 1 : -1;
  return a->place->number - b->place->number;
}

// The row of a place, or of another that says the same.
static row *find_place_row(section *s, const simt_place *place) {
  for (int i = 0; i < s->row_count; i++) {
    const simt_place *other = s->rows[i].place;
    if (other->line == place->line && !strcmp(other->text, place->text) &&
        !strcmp(other->file, place->file))
      return &s->rows[i];
  }
  s->rows[s->row_count].place = place;
  return &s->rows[s->row_count++];
}

static void fill_rows(section *s) {
  const simt_cost *cost = s->r->cost;
  for (int i = 0; i < cost->count; i++) {
    if (!is_of_kernel(cost, i, s->kernel)) continue;
    simt_place_cost step = cost_of_step(s, i);
    simt_add_place_cost(&s->whole, &cost->costs[i], 1 / (double)s->kernel->items);
    simt_add_place_cost(&s->step, &step, 1);
    if (step.work.instructions > 1e-9)
      simt_add_place_cost(&find_place_row(s, cost->places[i])->cost, &step, 1);
  }
  qsort(s->rows, (size_t)s->row_count, sizeof *s->rows, by_time);
}

// ---- the model -------------------------------------------------------------------------------

static const char *const bound_names[GPU_LIMITS] = {
    [GPU_LIMIT_ISSUE] = "issue",   [GPU_LIMIT_SHARED] = "shared", [GPU_LIMIT_SPECIAL] = "mufu",
    [GPU_LIMIT_TENSOR] = "tensor", [GPU_LIMIT_CACHE] = "L2",      [GPU_LIMIT_WARP] = "warp"};

static double cycles_together(const section *s, const simt_place_cost *c, int blocks, int pace,
                              gpu_limit *limit) {
  return gpu_cycles_together(&c->work, &s->r->cost->speed, blocks, c->cycles[pace], limit);
}

static int lesser_int(int x, int y) { return x < y ? x : y; }

// Blocks of a multiprocessor. Where the assembler has not said how many registers a thread has,
// there is no room for two blocks of 256 threads.
static int resident_blocks(const gpu_machine *d, const simt_kernel *k, const gpu_model_code *code) {
  enum { OF_SYSTEM = 1024 };
  int registers = code && code->registers > 0 ? (code->registers + 7) / 8 * 8
                                              : GPU_COST_REGISTERS / GPU_COST_RESIDENT_THREADS_BACK;
  int blocks = lesser_int(GPU_COST_MOST_BLOCKS, GPU_COST_MOST_THREADS / k->threads);
  blocks = lesser_int(blocks, (int)d->shared_kib * 1024 / (k->shared_bytes + OF_SYSTEM));
  blocks = lesser_int(blocks, GPU_COST_REGISTERS / (registers * k->threads));
  return blocks > 1 ? blocks : 1;
}

// ---- text ------------------------------------------------------------------------------------

static int largest_bound(const simt_place_cost *c) {
  int bound = 0;
  for (int i = 1; i < GPU_LIMITS; i++)
    if (c->bound[i] > c->bound[bound]) bound = i;
  return bound;
}

static const char *const columns[SIMT_CLASSES] = {
#define SIMT_CLASS(id, column, what) column,
#include "compiler/abi/simt_classes.def"
#undef SIMT_CLASS
};

static void print_cost_head(FILE *out) {
  fprintf(out, "%9s %9s %6s %-6s %8s %8s %5s %5s %9s %6s %8s %6s %7s %6s %6s", "swift", "slow",
          "share", "bound", "instr", "busiest", "lanes", "work", "wavefr", "ideal", "sectors",
          "ideal", "L2", "sync", "tensor");
  for (int i = 0; i < SIMT_CLASSES; i++) fprintf(out, " %6s", columns[i]);
  fprintf(out, "  place\n");
}

static double ratio_to_ideal(double found, double ideal) { return ideal > 0 ? found / ideal : 1; }

enum { MOST_TEXT = 100 };

static void print_place(FILE *out, const simt_place *place) {
  const char *end = strlen(place->text) > MOST_TEXT ? ".." : "";
  if (place->line) fprintf(out, "%s:%d: ", place->file, place->line);
  fprintf(out, "%.*s%s", MOST_TEXT, place->text, end);
}

static void print_cost_row(FILE *out, const section *s, const simt_place_cost *c,
                           const simt_place *place) {
  enum { SECTOR = 32 };
  const gpu_work *work = &c->work;
  const simt_place_cost *all = &s->step;
  double sectors = work->bytes / SECTOR;
  double slow = c->cycles[SIMT_PACES - 1];
  fprintf(out, "%9.1f %9.1f %5.1f%% %-6s", c->cycles[0], slow,
          all->cycles[SIMT_PACES - 1] > 0 ? 100 * slow / all->cycles[SIMT_PACES - 1] : 0,
          bound_names[largest_bound(c)]);
  fprintf(out, " %8.1f %8.1f %4.0f%%", work->instructions, work->busiest,
          work->instructions > 0 ? 100 * c->lanes / (32 * work->instructions) : 0);
  fprintf(out, " %4.0f%%", slow > 1e-9 ? 100 * c->worked / slow : 100);
  fprintf(out, " %9.1f %5.2fx %8.1f %5.2fx %7.0f %6.3f %6.1f", work->wavefronts,
          ratio_to_ideal(work->wavefronts, c->least_wavefronts), sectors,
          ratio_to_ideal(sectors, c->least_sectors), work->bytes, work->barriers,
          gpu_tensor_cycles(work, &s->r->cost->speed));
  for (int i = 0; i < SIMT_CLASSES; i++) fprintf(out, " %6.1f", c->instructions[i]);
  fprintf(out, "  ");
  if (place)
    print_place(out, place);
  else
    fprintf(out, "all");
  fprintf(out, "\n");
}

static void print_number(FILE *out, const char *before, int number, const char *behind) {
  if (number < 0)
    fprintf(out, "%s-%s", before, behind);
  else
    fprintf(out, "%s%d%s", before, number, behind);
}

static void print_code_model(FILE *out, const gpu_model_code *code) {
  static const gpu_model_code unknown = {"", -1, -1, -1, -1, -1, -1};
  if (!code) code = &unknown;
  print_number(out, "  ptxas: ", code->registers, " registers");
  print_number(out, ", ", code->stack, " bytes of stack");
  print_number(out, ", ", code->spilled, " spilled");
  print_number(out, "; nvdisasm: ", code->instructions, " instructions");
  print_number(out, ", ", code->branches, " branches");
  print_number(out, ", ", code->specials, " special functions\n");
}

static void print_bounds(FILE *out, const simt_place_cost *c) {
  double sum = 0;
  for (int i = 0; i < GPU_LIMITS; i++) sum += c->bound[i];
  for (int i = 0; i < GPU_LIMITS; i++)
    if (sum > 0 && c->bound[i] >= 0.05 * sum)
      fprintf(out, " %s %.0f%%", bound_names[i], 100 * c->bound[i] / sum);
}

static void print_times(FILE *out, const section *s) {
  const gpu_machine *d = s->r->device;
  gpu_limit limit, slow_limit;
  double swift = s->step.cycles[0], slow = s->step.cycles[SIMT_PACES - 1];
  fprintf(
      out,
      "  a step of a block: %.1f .. %.1f cycles, %.3f .. %.3f us at %.0f MHz; between barriers:",
      swift, slow, swift / d->mhz, slow / d->mhz, d->mhz);
  print_bounds(out, &s->step);
  double full = cycles_together(s, &s->step, s->resident, 0, &limit),
         slow_full = cycles_together(s, &s->step, s->resident, SIMT_PACES - 1, &slow_limit);
  fprintf(out, "\n  a step of %d on a multiprocessor: %.1f .. %.1f cycles; bound by %s\n",
          s->resident, full, slow_full,
          slow_limit < GPU_UNITS ? bound_names[slow_limit] : "the block's own");
  if (s->r->before)
    fprintf(out, "  around the steps: %.0f .. %.0f cycles\n",
            s->whole.cycles[0] - (double)s->r->steps * swift,
            s->whole.cycles[SIMT_PACES - 1] - (double)s->r->steps * slow);
}

// Rounds of all multiprocessors, or all that goes through the cache.
static double call_ms(const section *s, int pace) {
  const gpu_machine *d = s->r->device;
  gpu_limit limit;
  double items = (double)s->kernel->items, each = (double)d->multiprocessors * s->resident;
  double rounds = ceil(items / each),
         blocks = items < each ? ceil(items / d->multiprocessors) : s->resident;
  double cycles = rounds * cycles_together(s, &s->whole, (int)blocks, pace, &limit);
  double compute = cycles / (1e3 * d->mhz),
         cache = s->whole.work.bytes * items / (1e6 * d->cache_gb);
  return compute > cache ? compute : cache;
}

static void print_section(FILE *out, const section *s) {
  const simt_kernel *k = s->kernel;
  fprintf(out, "%s on %s (%s): %d threads, %d bytes of shared memory, %lld work items\n", k->name,
          s->r->device->target, s->r->device->name, k->threads, k->shared_bytes,
          (long long)k->items);
  if (s->r->before) print_code_model(out, s->code);
  print_times(out, s);
  if (!s->r->before)
    fprintf(out, "  the call: %.4f .. %.4f ms\n", call_ms(s, 0), call_ms(s, SIMT_PACES - 1));
  print_cost_head(out);
  print_cost_row(out, s, &s->step, NULL);
  for (int i = 0; i < s->row_count; i++) print_cost_row(out, s, &s->rows[i].cost, s->rows[i].place);
}

static const gpu_model_code *code_of(const gpu_model_request *r, const simt_kernel *k) {
  for (int i = 0; i < r->code_count; i++)
    if (strcmp(r->codes[i].kernel, k->name) == 0) return &r->codes[i];
  return NULL;
}

void gpu_model_print(FILE *out, const gpu_model_request *r) {
  bool first = true;
  for (int i = 0; i < r->cost->kernel_count; i++) {
    section s = {.r = r, .kernel = &r->cost->kernels[i], .code = code_of(r, &r->cost->kernels[i])};
    s.rows = calloc((size_t)r->cost->count + 1, sizeof *s.rows);
    if (!s.rows) continue;
    s.resident = resident_blocks(r->device, s.kernel, s.code);
    fill_rows(&s);
    if (s.row_count && !first) fprintf(out, "\n");
    if (s.row_count) print_section(out, &s), first = false;
    free(s.rows);
  }
}
