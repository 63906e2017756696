// What a step costs on a GPU, by nest, as the executor counts it and the model times it.
//
//   gpu-cost FILE.rec NAME TARGET [recc's options]      gpu-cost stdlib/gla.rec gla sm_90a --dtype bf16 -D H=1 -D K=128 -D V=128
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/support/simt_options.h"
#include "tests/runtime/compiled.h"
#include "tests/runtime/problem.h"

enum { SHORT = 128, LONG = 384, TIME = LONG - SHORT };

static const char *const classes[] = {
#define SIMT_CLASS(id, column) column,
#include "runtime/shared/simt_classes.def"
#undef SIMT_CLASS
};

static int32_t device;
static int64_t entries = 1;

static simt_cost run_length(const rec_recurrence *r, int64_t time, rec_run_options options) {
  simt_cost cost = {0};
  rec_simt_options simt = {.size = sizeof simt, .cost = &cost};
  options.simt = &simt;
  options.device_number = device;
  problem *p = problem_new(rec_recurrence_signature(r), entries, time, 1);
  problem_draw(p, 1, 0.1);
  problem_retype(p, p->signature);
  check(problem_run(p, r, "simt", &options), "%s: %s", p->signature->name, rec_message());
  problem_free(p);
  return cost;
}

static void subtract(simt_place_cost *x, const simt_place_cost *y) {
  double *to = (double *)x;
  const double *less = (const double *)y;
  for (size_t i = 0; i < sizeof *x / sizeof *to; i++) to[i] -= less[i];
}

static void add(simt_place_cost *x, const simt_place_cost *y) {
  double *to = (double *)x;
  const double *more = (const double *)y;
  for (size_t i = 0; i < sizeof *x / sizeof *to; i++) to[i] += more[i];
}

static void print_cost(const simt_place_cost *c, const simt_place_cost *whole, const simt_place *place) {
  static const char *const bounds[] = {"issue", "warp", "shared", "mufu", "tensor"};
  int bound = 0;
  for (int i = 1; i < BOUND_COUNT; i++)
    if (c->bound[i] > c->bound[bound]) bound = i;
  printf("%8.1f %8.1f %5.1f%% %-6s", c->cycles[0] / TIME, c->cycles[1] / TIME, 100 * c->cycles[1] / whole->cycles[1],
         bounds[bound]);
  printf(" %8.1f %8.1f %4.0f%%", c->issued / TIME, c->busiest / TIME, c->issued ? 100 * c->lanes / 32 / c->issued : 0);
  printf(" %8.1f %5.2f %7.1f %5.2f %5.2f |", c->wavefronts / TIME,
         c->least_wavefronts ? c->wavefronts / c->least_wavefronts : 1, c->sectors / TIME,
         c->least_sectors ? c->sectors / c->least_sectors : 1, c->tensor / TIME);
  for (int i = 0; i < SIMT_CLASSES; i++) printf(" %6.1f", c->instructions[i] / TIME);
  if (place) printf(" | %s:%d %s", place->file, place->line, place->text);
  printf("\n");
}

static int by_cycles(const void *x, const void *y) {
  double a = ((const simt_place_cost *)x)->cycles[1], b = ((const simt_place_cost *)y)->cycles[1];
  return a < b ? 1 : a > b ? -1 : 0;
}

typedef struct row {
  simt_place_cost cost;
  const simt_place *place;
} row;

static void print_kernel(const simt_cost *cost, const char *kernel) {
  row *rows = calloc((size_t)cost->count, sizeof *rows);
  simt_place_cost whole = {0};
  int count = 0;
  for (int i = 0; i < cost->count; i++) {
    if (!cost->places[i] || strcmp(cost->places[i]->kernel, kernel) != 0) continue;
    add(&whole, &cost->costs[i]);
    if (cost->costs[i].cycles[1] > 0) rows[count++] = (row){cost->costs[i], cost->places[i]};
  }
  if (whole.cycles[1] > 0) {
    qsort(rows, (size_t)count, sizeof *rows, by_cycles);
    printf("%s, a step: cycles at CPI 1.5 and 2.5\n", kernel[0] ? kernel : "others");
    printf("%8s %8s %6s %-6s %8s %8s %5s %8s %5s %7s %5s %5s |", "1.5", "2.5", "share", "bound", "instr", "busiest", "lanes",
           "wavefr", "/best", "sectors", "/best", "tens");
    for (int i = 0; i < SIMT_CLASSES; i++) printf(" %6s", classes[i]);
    printf("\n");
    print_cost(&whole, &whole, NULL);
    for (int i = 0; i < count; i++) print_cost(&rows[i].cost, &whole, rows[i].place);
    printf("\n");
  }
  free(rows);
}

static void print_all(const rec_recurrence *r, rec_run_options options) {
  simt_cost before = run_length(r, SHORT, options), cost = run_length(r, LONG, options);
  for (int i = 0; i < before.count && i < cost.count; i++) subtract(&cost.costs[i], &before.costs[i]);
  for (int i = 0; i < cost.count; i++) {
    bool again = !cost.places[i];
    for (int k = 0; k < i && !again; k++) again = cost.places[k] && strcmp(cost.places[k]->kernel, cost.places[i]->kernel) == 0;
    if (!again) print_kernel(&cost, cost.places[i]->kernel);
  }
  free(before.places), free(before.costs), free(cost.places), free(cost.costs);
}

int main(int count, char **words) {
  if (count < 4) {
    fprintf(stderr, "usage: gpu-cost FILE.rec NAME sm_80|sm_90a [recc's options]\n");
    return 2;
  }
  bool groups = strcmp(words[3], "sm_90a") == 0;
  const char *options[24] = {"--target", groups ? simt_90a_target() : simt_target(), "-O0", "--count"};
  for (int i = 4; i < count && i < 22; i++) options[i] = words[i];
  rec_module *module = compile_file(words[1], options);
  if (!module) return 1;
  device = groups ? 2 : 0;
  const rec_recurrence *r = rec_module_find(module, words[2]);
  if (!r) return fprintf(stderr, "%s\n", rec_message()), 1;
  print_all(r, (rec_run_options){.backward = true});
  rec_module_close(module);
  return checked();
}
