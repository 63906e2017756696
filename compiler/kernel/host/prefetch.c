// Host, chunk form: while the products of a chunk run, they prefetch the rows that the next chunk
// reads and writes.
//
//   x [t, H, P]   ->   the 64 rows of the next instance, or of the next chunk, a few with each block of a product
//
// Elementwise nests wait for memory, products for the multiplier. Where there are many heads, the
// rows of a chunk lie far apart, and no processor foresees them. They come into the second-level
// cache: the first level is for the products.
//
// Where a program has no products, the first nest over the steps of a chunk fetches as it goes
// (lower.ahead): each of its points what the same point of the next chunk reads and writes.
//
// The list on the stack (lower.fetch) holds the address of the next entry, the address of the last
// one, and the entries. An entry is the address of a few neighbouring lines. The last entry points
// into the list itself: blocks that find no other go on with it.
#include "compiler/kernel/host/loops.h"
#include "compiler/lower/host/nests.h"

enum { LINE = FETCH_LINE, MOST_LINES = 4, MOST_ENTRIES = 2048 };

// So many rows of a tensor, or lines of what forward has kept.
typedef struct fetched {
  ir address, distance;  // of rows, in bytes
  ir there;              // i1; NULL: always
  int64_t rows, bytes;
} fetched;

typedef VEC(fetched) fetched_list;

// ---- what is fetched ----

// Numbers of a row, if all of it lies side by side; else 0.
static int64_t row_numbers(const kernel_frame *h, const frame_program *p, const tile_place *place) {
  int64_t numbers = kernel_is_complex(h->k, place) ? 2 : 1;
  bool outside = false;
  for (int x = place->axis_count - 1; x >= 0; x--) {
    int64_t size = p->program->axes.items[place->axes[x]].size;
    bool tile = !axis_in(h->m.instance, place->axes[x]);
    if (tile && (outside || size == TILE_RUNTIME_SIZE)) return 0;
    if (tile) numbers *= size;
    outside |= !tile;
  }
  return numbers;
}

// Instances of a group follow each other with the same chunk: tensors that they share are near.
static bool is_near(const kernel_frame *h, axis_set axes) { return plan_is_shared(&h->m, axes); }

static void add_prefetch_rows(kernel_frame *h, frame_program *p, fetched_list *list,
                              const tile_place *place, view v, ir stride, ir there, ir begin) {
  axis_set axes = tile_body_axes(place);
  if (!place->time || !v.base || is_near(h, axes)) return;
  int64_t bytes = number_stored_bytes(v.stored, h->m.f64);
  v.present = NULL;
  v = frame_at_time(h, v, begin, stride);
  vec_push(h->a, list,
           ((fetched){.address = view_address(&p->l, &v, &h->at, axes & h->m.instance),
                      .distance = int_mul_n(h->e, stride, bytes),
                      .there = there,
                      .rows = p->program->chunk,
                      .bytes = row_numbers(h, p, place) * bytes}));
}

static void add_saved(kernel_frame *h, frame_program *p, fetched_list *list,
                      const tile_place *place, ir chunk) {
  axis_set axes = tile_body_axes(place);
  if (is_near(h, axes) || h->recomputes) return;
  view v = frame_saved_view(h, place, chunk);
  int64_t rows = place->role == TILE_STASH ? p->program->chunk : 1;
  vec_push(h->a, list,
           ((fetched){.address = view_address(&p->l, &v, &h->at, axes & h->m.instance),
                      .distance = integer(h->e, 0),
                      .rows = 1,
                      .bytes = rows * row_numbers(h, p, place) *
                               number_stored_bytes(h->m.dtype, h->m.f64)}));
}

static fetched_list list_of(kernel_frame *h, frame_program *p, ir chunk) {
  fetched_list list = {0};
  ir begin = int_mul_n(h->e, chunk, p->program->chunk);
  for (int i = 0; i < p->program->arguments.count; i++) {
    const tile_place *place = &p->program->arguments.items[i];
    if (kernel_is_saved(p->backward, place)) {
      add_saved(h, p, &list, place, chunk);
    } else {
      add_prefetch_rows(h, p, &list, place, p->memory[i], p->time_stride[i], p->memory[i].present,
                        begin);
    }
  }
  for (int i = 0; i < p->program->results.count; i++)
    add_prefetch_rows(h, p, &list, &p->program->results.items[i].place, p->result_memory[i],
                      p->result_time_stride[i], p->l.results[i].active, begin);
  return list;
}

// Rows shorter than a line share theirs with other instances.
static int64_t lines_of(const fetched *f) { return f->bytes / LINE; }

// So many that every row is made of whole entries, or nearly.
static int lines_of_entry(const fetched_list *list) {
  int lines = MOST_LINES;
  for (int i = 0; i < list->count; i++)
    while (lines_of(&list->items[i]) && lines_of(&list->items[i]) < lines) lines /= 2;
  return lines;
}

static int64_t prefetch_entries(const fetched *f, int lines) {
  return f->rows * ((lines_of(f) + lines - 1) / lines);
}

// ---- the list ----

static void set_list_entry(emitter *e, ir list, ir at, ir x) {
  LLVMBuildStore(e->b, x, element(e, e->i64, list, at));
}

static void write_entries(kernel_frame *h, ir list, const fetched *f, int lines, int64_t at) {
  emitter *e = h->e;
  int64_t each = prefetch_entries(f, lines) / f->rows;
  ir own = LLVMBuildPtrToInt(e->b, list, e->i64, "");
  ir address = LLVMBuildPtrToInt(e->b, f->address, e->i64, ""), distance = f->distance;
  if (f->there) {
    address = int_choose(e, f->there, address, own);
    distance = int_choose(e, f->there, distance, integer(e, 0));
  }
  emit_loop loop = loop_begin(e, integer(e, 0), integer(e, f->rows), 1, "row");
  ir row = int_add(e, address, int_mul(e, loop.index, distance));
  ir entry = int_add_n(e, int_mul_n(e, loop.index, each), at);
  for (int64_t i = 0; i < each; i++)
    set_list_entry(e, list, int_add_n(e, entry, i), int_add_n(e, row, i * lines * LINE));
  loop_end(e, &loop);
}

static void write_prefetch_list(kernel_frame *h, frame_program *p, const fetched_list *list,
                                int64_t entries) {
  emitter *e = h->e;
  ir to = p->l.fetch.list, own = LLVMBuildPtrToInt(e->b, to, e->i64, "");
  int64_t at = FETCH_ENTRIES, bytes = 8;
  for (int i = 0; i < list->count; i++) {
    if (!lines_of(&list->items[i])) continue;
    write_entries(h, to, &list->items[i], p->l.fetch.lines, at);
    at += prefetch_entries(&list->items[i], p->l.fetch.lines);
  }
  set_list_entry(e, to, integer(e, at), own);
  set_list_entry(e, to, integer(e, FETCH_NEXT), int_add_n(e, own, bytes * FETCH_ENTRIES));
  set_list_entry(e, to, integer(e, FETCH_LAST),
                 int_add_n(e, own, bytes * (FETCH_ENTRIES + entries)));
}

// ---- without products ----

// It reads the tokens; later nests find them, or what was made of them, in the cache.
static const plan_nest *first_points(const frame_program *p) {
  vec_each(const plan_nest, nest, p->p->nests)
    if (nest->kind == NEST_POINTS && nest->region == REGION_BODY && !nest->rare && !nest->at_end &&
        axis_in(nest->axes, p->program->time_axis))
      return nest;
  return NULL;
}

static void add_ahead(kernel_frame *h, frame_program *p, const tile_place *place, view v, ir stride,
                      ir begin, bool write) {
  axis_set axes = tile_place_axes(p->program, place);
  if (!place->time || !v.base || (axes & ~h->m.instance & ~p->l.ahead.nest->axes)) return;
  v.present = NULL;
  v = frame_at_time(h, v, begin, stride);
  v.stride[p->program->time_axis] = stride;
  p->l.ahead.items[p->l.ahead.count++] = (rows_ahead){v, axes, write};
}

// Behind the last chunk no row is left; to fetch what is there does no harm.
static void fetch_by_points(kernel_frame *h, frame_program *p, ir begin) {
  const tile_program *program = p->program;
  int most = program->arguments.count + program->results.count;
  p->l.ahead = (ahead_list){first_points(p), ARENA_ARRAY(h->a, rows_ahead, most + 1), 0};
  if (!p->l.ahead.nest) return;
  for (int i = 0; i < program->arguments.count; i++)
    add_ahead(h, p, &program->arguments.items[i], p->memory[i], p->time_stride[i], begin, false);
  for (int i = 0; i < program->results.count; i++)
    add_ahead(h, p, &program->results.items[i].place, p->result_memory[i], p->result_time_stride[i],
              begin, true);
}

void host_fetch_next(kernel_frame *h, frame_program *p, ir chunk) {
  emitter *e = h->e;
  int64_t blocks = 0, entries = 0;
  p->l.fetch = (fetch_list){0};
  p->l.ahead = (ahead_list){0};
  if (!clone_targets[e->clone].fetches || h->m.lane_axis >= 0) return;
  if (choice_is_left_out(h->k->without, CHOICE_PREFETCH)) return;
  vec_each(const plan_nest, nest, p->p->nests) {
    if (!nest->rare) blocks += dot_blocks(&p->l, nest);
  }
  if (!blocks) {
    fetch_by_points(h, p, int_mul_n(e, chunk, p->program->chunk));
    return;
  }
  fetched_list list = list_of(h, p, chunk);
  int lines = lines_of_entry(&list);
  for (int i = 0; i < list.count; i++) entries += prefetch_entries(&list.items[i], lines);
  if (!entries || entries > MOST_ENTRIES) return;
  LLVMTypeRef type = LLVMArrayType2(e->i64, (uint64_t)(FETCH_ENTRIES + entries + 1));
  p->l.fetch = (fetch_list){stack_slot(e, type, "fetch"), lines, (entries + blocks - 1) / blocks};
  write_prefetch_list(h, p, &list, entries);
}
