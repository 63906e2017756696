// GPU: the rows of a chunk that bulk copies load (kernel/gpu/bulk_copies.c), and the time that they save.
#include "compiler/plan/kernel_plan.h"
#include "runtime/shared/gpu_costs.h"

enum { NUMBER_BYTES = 2, PIECE = 16 };

bool gpu_find_row(const kernel_plan *w, const program_plan *p, const tile_place *place, row_axes *row) {
  bool whole = true;
  *row = (row_axes){.first = place->axis_count, .columns = 1, .numbers = 1};
  while (row->first > 0 && whole && !axis_in(w->m.instance, place->axes[row->first - 1])) {
    int axis = place->axes[--row->first];
    int64_t size = plan_axis_size(&w->m, p->program, axis), all = size;
    if (size == TILE_RUNTIME_SIZE) return false;
    if (axis_in(w->m.tiled, axis)) all = w->k->recurrence->body.axes.items[axis].size;
    row->columns *= all;
    row->numbers *= size;
    whole = size == all;
  }
  for (int x = 0; x < row->first; x++)
    if (!axis_in(w->m.instance, place->axes[x])) return false;
  return true;
}

// Can bulk copies write rows of so many elements in the layout that the kernel reads?
static bool lay_boxes(const kernel_plan *w, const program_plan *p, int64_t row, codegen_gpu_map *map) {
  enum { MOST_COLUMNS = 256 };
  map->steps = p->program->chunk;
  map->box = (int)row;
  if (!plan_layout_of_rows(w->m.dtype, row).pattern) return row <= MOST_COLUMNS && row * NUMBER_BYTES % PIECE == 0;
  if (row > PLAN_TILE_COLUMNS) map->box = PLAN_TILE_COLUMNS;
  map->swizzle = map->box * NUMBER_BYTES;
  return plan_is_in_tiles(row, p->program->chunk);
}

static bool map_of(const kernel_plan *w, const program_plan *p, int argument, codegen_gpu_map *map) {
  const tile_place *place = &p->program->arguments.items[argument];
  row_axes row;
  if (!gpu_is_staged(p, argument) || !p->staging_buffers[argument].at.in_shared || place->lag >= 0) return false;
  *map = (codegen_gpu_map){.slot = kernel_find_slot(w->described, place->role, place)};
  if (map->slot < 0 || !w->described->slots.items[map->slot].narrow || kernel_is_complex(w->k, place)) return false;
  if (!gpu_find_row(w, p, place, &row) || row.numbers != p->staging_buffers[argument].row) return false;
  map->columns = (int)row.columns;
  return lay_boxes(w, p, row.numbers, map);
}

// ---- do bulk copies pay? in multiply-adds, as the schedule counts ----

static double gain_of(const codegen_gpu_map *map, int64_t row) {
  double pieces = (double)(row * map->steps * NUMBER_BYTES) / PIECE;
  return GPU_COST_CP_ASYNC * pieces - GPU_COST_BULK_COPY * (double)(row / map->box);
}

static bool is_same_map(const codegen_gpu_map *x, const codegen_gpu_map *y) {
  return x->slot == y->slot && x->columns == y->columns && x->box == y->box && x->steps == y->steps && x->swizzle == y->swizzle;
}

int64_t gpu_bytes_before_maps(const kernel_plan *w) {
  return (int64_t)sizeof(rec_gpu_frame) + 8 * w->k->recurrence->body.axes.count +
         (int64_t)sizeof(rec_gpu_slot) * w->described->slots.count;
}

// The number of the map; -1: the parameter has no room for it.
static int find_map(kernel_plan *w, const codegen_gpu_map *map) {
  for (int i = 0; i < w->maps.count; i++)
    if (is_same_map(&w->maps.items[i], map)) return i;
  int64_t end = w->maps_at + (int64_t)sizeof(rec_gpu_map) * (w->maps.count + 1);
  if (end > REC_GPU_PARAMETER_BYTES) return -1;
  vec_push(w->a, &w->maps, *map);
  return w->maps.count - 1;
}

// Chooses the arguments with maps. Returns the multiply-adds that a chunk saves.
static double choose_rows(kernel_plan *w, program_plan *p) {
  double gain = -GPU_COST_BULK_CHUNK;
  p->maps = ARENA_ARRAY(w->a, int, p->program->arguments.count);
  for (int i = 0; i < p->program->arguments.count; i++) {
    codegen_gpu_map map;
    p->maps[i] = -1;
    if (!map_of(w, p, i, &map) || gain_of(&map, p->staging_buffers[i].row) <= 0) continue;
    p->maps[i] = find_map(w, &map);
    if (p->maps[i] >= 0) gain += gain_of(&map, p->staging_buffers[i].row);
  }
  return gain;
}

bool gpu_is_bulk(const program_plan *p, int argument) { return p->maps && p->maps[argument] >= 0; }

void gpu_choose_bulk(kernel_plan *w) {
  enum { MAP_ALIGNMENT = _Alignof(rec_gpu_map) };
  const int wgmma_products = w->main.p->wgmma_products + (w->recomputes ? w->recompute.p->wgmma_products : 0);
  if (!w->m.warpgroups || !wgmma_products || choice_is_left_out(w->k->without, CHOICE_BULK_COPIES)) return;
  w->maps_at = (gpu_bytes_before_maps(w) + 8 + MAP_ALIGNMENT - 1) / MAP_ALIGNMENT * MAP_ALIGNMENT;
  w->bulk_gain = choose_rows(w, &w->main);
  if (w->recomputes) w->bulk_gain += choose_rows(w, &w->recompute);
  if (w->bulk_gain > 0) return;
  w->bulk_gain = 0;
  w->maps.count = 0;
  w->main.maps = w->recompute.maps = NULL;
}
