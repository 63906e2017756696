// Products of warpgroups: four warps together, 64 rows, operands in shared memory, asynchronous to
// the threads.
//
//   fence; d = wgmma c, a, b;  commit;  d = wait d     ->   the product is made at the wait, from shared memory at that time
//                ^ NaNs that say which sums they stand for
//
// A warp makes its own 16 rows. Where the four warps meet, at barriers of the block and at the end,
// the executor checks that all made the same products.
#include <stdlib.h>
#include <string.h>

#include "runtime/support/simt/block.h"
#include "runtime/support/simt/cost.h"
#include "runtime/support/simt/layout.h"
#include "runtime/support/simt/numeric.h"
#include "runtime/support/simt/ops.h"

enum { MOST_SUMS = 32, DEPTH = 16, GROUP_WARPS = 4, ROWS = 16 };

typedef float number_of(uint32_t bits);

// What one lane passes.
typedef struct group_product {
  int columns;
  number_of *number;
  const float *c;
  float *d;
  uint64_t a, b;
  const uint32_t *a_registers;  // or NULL
  int32_t scale, trans_a, trans_b;
} group_product;

typedef struct sums {
  uint32_t number;  // in the NaNs that stand for them
  int columns;
  float x[SIMT_WARP][MOST_SUMS];
} sums;

typedef struct work_item {
  group_product product;  // what all lanes have in common
  uint32_t registers[SIMT_WARP][4];
  uint32_t epoch;  // in which it began
  int sums;
} work_item;

struct group_work {
  work_item *items;
  sums *sums;
  int count, room, committed, sums_count, sums_room;
  uint32_t next;  // number for sums
  bool fenced;    // since the last wait
  uint64_t done;  // a hash of all that it has done, to compare with that of the other warps
};

// ---- one for each warp -----------------------------------------------------------------------

static group_work *group_work_of(simt_block *b, int thread) {
  simt_warp *w = &b->warps[thread / SIMT_WARP];
  if (!w->work) w->work = calloc(1, sizeof *w->work);
  if (!w->work) simt_fail("multiplies, and there is no memory for it");
  return w->work;
}

void group_open(simt_warp *w) {
  if (!w->work) return;
  w->work->count = w->work->committed = w->work->sums_count = 0;
  w->work->fenced = false;
  w->work->done = 0;
}

void group_free(simt_warp *w) {
  if (!w->work) return;
  free(w->work->items);
  free(w->work->sums);
  free(w->work);
}

static uint64_t done_by(const simt_block *b, int warp) {
  if (warp >= b->warp_count) return 0;
  return b->warps[warp].work ? b->warps[warp].work->done : 0;
}

// The four warps of a group have made the same products.
static void check_together(simt_block *b, int warp) {
  for (int w = 0; w < GROUP_WARPS; w++) {
    if (done_by(b, warp / GROUP_WARPS * GROUP_WARPS + w) == done_by(b, warp)) continue;
    simt_fail_thread(warp * SIMT_WARP,
                     "is at a barrier, and other warps of its warpgroup have made other products");
  }
}

void group_check_barrier(simt_block *b) {
  for (int w = 0; w < b->warp_count; w++)
    if (b->warps[w].work) check_together(b, w);
}

void group_check_exit(simt_block *b, int thread) {
  const group_work *w = b->warps[thread / SIMT_WARP].work;
  if (w && w->count) simt_fail("ends with %d products that it has not waited for", w->count);
  if (b->gone == b->launch->threads - 1) group_check_barrier(b);
}

static void note_done(group_work *w, uint64_t what) {
  w->done = (w->done ^ what) * UINT64_C(0x9e3779b97f4a7c15) + 1;
}

// ---- sums ------------------------------------------------------------------------------------

enum { MARK = 0x7fc00000, MARK_BITS = 22, SUM_BITS = 5 };

static float mark_of(uint32_t number, int sum) {
  return rec_bits_float((uint32_t)MARK | number << SUM_BITS | (uint32_t)sum);
}

// The unfinished sums that a register stands for, or -1.
static int marked_sums(const group_work *w, float x) {
  uint32_t bits = rec_float_bits(x);
  if (bits >> MARK_BITS != (uint32_t)MARK >> MARK_BITS) return -1;
  for (int i = 0; i < w->sums_count; i++)
    if (w->sums[i].number == (bits & ((1u << MARK_BITS) - 1)) >> SUM_BITS) return i;
  return -1;
}

static int new_sums(group_work *w, void *const *lanes, int columns) {
  w->sums = simt_grown(w->sums, w->sums_count, &w->sums_room, sizeof *w->sums, "sums");
  sums *s = &w->sums[w->sums_count];
  w->next = w->next % ((1u << (MARK_BITS - SUM_BITS)) - 1) + 1;
  s->number = w->next;
  s->columns = columns;
  for (int lane = 0; lane < SIMT_WARP; lane++)
    memcpy(s->x[lane], ((const group_product *)lanes[lane])->c,
           (size_t)columns / 2 * sizeof(float));
  return w->sums_count++;
}

// All registers are marks of these sums, none has been touched.
static void check_marks(const sums *s, int first, void *const *lanes, int columns) {
  for (int lane = 0; lane < SIMT_WARP; lane++) {
    const group_product *p = lanes[lane];
    for (int i = 0; i < columns / 2; i++) {
      if (rec_float_bits(p->c[i]) == rec_float_bits(mark_of(s->number, i)) && s->columns == columns)
        continue;
      simt_fail_thread(first + lane, "touches register %d of sums that are under way", i);
    }
  }
}

// ---- the beginning ---------------------------------------------------------------------------

// Calls for each 16 bytes of an operand of so many lines that this warp reads.
typedef void piece_function(simt_block *b, int thread, uint32_t offset, uint32_t epoch);

static void each_piece(simt_block *b, int thread, const simt_matrix *m, int first, int lines,
                       int transposed, uint32_t epoch, piece_function *body) {
  for (int line = 0; line < (transposed ? lines / 8 : lines); line++)
    for (int k = 0; k < (transposed ? DEPTH : DEPTH / 8); k++)
      body(b, thread,
           layout_operand(m, first + (transposed ? 8 * line : line), transposed ? k : 8 * k,
                          transposed),
           epoch);
}

// Eight rows begin where the pattern of their pieces does, since there is no base offset; the first
// number is in the first of them. What is read of a row lies in it: 16 numbers along k, or as many
// columns as there are.
static void check_matrix_form(int thread, const simt_matrix *m, int lines, int transposed,
                              const char *name) {
  uint32_t row = (uint32_t)(2 * m->width), inside = m->start % (8 * row);
  uint32_t taken = 2 * (uint32_t)(transposed ? lines < m->width ? lines : m->width : DEPTH);
  if (inside >= row || m->stride % (8 * row) != 0)
    simt_fail_thread(
        thread,
        "multiplies by %s that begins %u bytes behind a pattern of %u, 8 rows after %u bytes", name,
        inside, 8 * row, m->stride);
  if (inside + taken > row)
    simt_fail_thread(thread, "multiplies by %s from byte %u to %u of rows of %u", name, inside,
                     inside + taken, row);
  if (transposed && lines > m->width && m->leading % (8 * row) != 0)
    simt_fail_thread(thread, "multiplies by %s whose columns %u bytes apart begin no pattern of %u",
                     name, m->leading, 8 * row);
}

static simt_matrix group_operand(int thread, uint64_t descriptor, int lines, int transposed,
                                 const char *name) {
  simt_matrix m = layout_descriptor(descriptor);
  if (!m.width || descriptor >> 49 & 7)
    simt_fail_thread(thread, "multiplies by %s of a form that is not known", name);
  check_matrix_form(thread, &m, lines, transposed, name);
  return m;
}

static void check_product_operands(simt_block *b, int thread, const work_item *item) {
  const group_product *p = &item->product;
  int row = thread / SIMT_WARP % GROUP_WARPS * ROWS;
  simt_matrix of_b = group_operand(thread, p->b, p->columns, p->trans_b, "b");
  each_piece(b, thread, &of_b, 0, p->columns, p->trans_b, item->epoch, shared_read_beside);
  if (p->a_registers) return;
  simt_matrix of_a = group_operand(thread, p->a, GROUP_WARPS * ROWS, p->trans_a, "a");
  each_piece(b, thread, &of_a, row, ROWS, p->trans_a, item->epoch, shared_read_beside);
}

// The wavefronts of an operand: eight pieces at a time, one of each row of the pattern.
static void count_operand_wavefronts(simt_block *b, int warp, const simt_matrix *m, int first,
                                     int lines, int transposed) {
  uint32_t offsets[4 * MOST_SUMS];
  int count = 0;
  for (int outer = 0; outer < (transposed ? lines / 8 : DEPTH / 8); outer++)
    for (int inner = 0; inner < (transposed ? DEPTH : lines); inner++)
      offsets[count++] = transposed ? layout_operand(m, first + 8 * outer, inner, transposed)
                                    : layout_operand(m, first + inner, 8 * outer, transposed);
  cost_rows(b, warp, offsets, count);
}

// A warp reads its rows of a; b is read once for the four.
static void count_product_wavefronts(simt_block *b, int warp, const group_product *p) {
  simt_matrix of_a = layout_descriptor(p->a), of_b = layout_descriptor(p->b);
  if (!p->a_registers)
    count_operand_wavefronts(b, warp, &of_a, warp % GROUP_WARPS * ROWS, ROWS, p->trans_a);
  if (warp % GROUP_WARPS == 0) count_operand_wavefronts(b, warp, &of_b, 0, p->columns, p->trans_b);
  cost_group_product(b, warp, p->columns);
}

static bool is_same_product(const group_product *x, const group_product *y) {
  return x->a == y->a && x->b == y->b && x->scale == y->scale && x->trans_a == y->trans_a &&
         x->trans_b == y->trans_b;
}

static work_item *new_work_item(group_work *w, simt_block *b, void *const *lanes) {
  const group_product *p = lanes[0];
  w->items = simt_grown(w->items, w->count, &w->room, sizeof *w->items, "products");
  work_item *item = &w->items[w->count++];
  *item = (work_item){.product = *p, .epoch = b->epoch};
  for (int lane = 0; p->a_registers && lane < SIMT_WARP; lane++)
    memcpy(item->registers[lane], ((const group_product *)lanes[lane])->a_registers,
           sizeof item->registers[lane]);
  return item;
}

static void run_begin(void *const *lanes) {
  simt_block *b = simt_current;
  int first = b->running / SIMT_WARP * SIMT_WARP;
  group_work *w = group_work_of(b, b->running);
  const group_product *p = lanes[0];
  for (int lane = 1; lane < SIMT_WARP; lane++)
    if (!is_same_product(p, lanes[lane]))
      simt_fail_thread(first + lane, "multiplies other operands than the lanes before it");
  int at = marked_sums(w, p->c[0]);
  if (at >= 0) check_marks(&w->sums[at], first, lanes, p->columns);
  if (at < 0 && !w->fenced)
    simt_fail_thread(first, "multiplies into registers that it has touched, with no fence between");
  if (at < 0) at = new_sums(w, lanes, p->columns);
  work_item *item = new_work_item(w, b, lanes);
  item->sums = at;
  check_product_operands(b, first, item);
  if (b->counter) count_product_wavefronts(b, first / SIMT_WARP, p);
  for (int lane = 0; lane < SIMT_WARP; lane++)
    for (int i = 0; i < p->columns / 2; i++)
      ((const group_product *)lanes[lane])->d[i] = mark_of(w->sums[at].number, i);
  note_done(w, p->a ^ p->b << 1 ^ (uint64_t)p->columns << 20 ^ (uint64_t)(p->scale + 2) << 40 ^
                   (uint64_t)(p->trans_a + 2 * p->trans_b) << 50);
  b->counts.group_products++;
}

// ---- the product -----------------------------------------------------------------------------

static float matrix_number(const simt_block *b, const simt_matrix *m, int line, int k,
                           int transposed, number_of *number) {
  uint16_t bits;
  memcpy(&bits, b->shared + layout_operand(m, line, k, transposed), sizeof bits);
  return number(bits);
}

static void take_a(const simt_block *b, int warp, const work_item *item, float a[ROWS][DEPTH]) {
  const group_product *p = &item->product;
  int first = warp % GROUP_WARPS * ROWS;
  simt_matrix m = layout_descriptor(p->a);
  for (int row = 0; !p->a_registers && row < ROWS; row++)
    for (int k = 0; k < DEPTH; k++)
      a[row][k] = matrix_number(b, &m, first + row, k, p->trans_a, p->number);
  for (int lane = 0; p->a_registers && lane < SIMT_WARP; lane++) {
    for (int i = 0; i < 8; i++) {
      simt_element at = layout_group_a(warp, lane, i);
      a[at.row - first][at.column] =
          p->number(item->registers[lane][i / 2] >> 16 * (i % 2) & 0xffff);
    }
  }
}

static void multiply_group_tiles(simt_block *b, int warp, const work_item *item, sums *s) {
  const group_product *p = &item->product;
  float a[ROWS][DEPTH], of_b[2 * MOST_SUMS][DEPTH];
  simt_matrix m = layout_descriptor(p->b);
  check_product_operands(b, warp * SIMT_WARP, item);
  take_a(b, warp, item, a);
  for (int column = 0; column < p->columns; column++)
    for (int k = 0; k < DEPTH; k++)
      of_b[column][k] = matrix_number(b, &m, column, k, p->trans_b, p->number);
  for (int lane = 0; lane < SIMT_WARP; lane++) {
    for (int i = 0; i < p->columns / 2; i++) {
      simt_element at = layout_group_c(warp, lane, i);
      float sum = s->x[lane][i];
      for (int k = 0; k < DEPTH; k++)
        sum += (float)p->scale * a[at.row % ROWS][k] * of_b[at.column][k];
      s->x[lane][i] = sum;
    }
  }
  // b is read once for the four warps
  b->counts.operand_bytes += p->columns * DEPTH * 2 / GROUP_WARPS;
  if (!p->a_registers) b->counts.operand_bytes += ROWS * DEPTH * 2;
}

static void run_commit(void *const *lanes) {
  (void)lanes;
  group_work *w = group_work_of(simt_current, simt_current->running);
  w->committed = w->count;
  note_done(w, 1);
}

// What has not been committed goes on.
static void finish_work(simt_block *b, group_work *w, int warp) {
  for (int i = 0; i < w->committed; i++)
    multiply_group_tiles(b, warp, &w->items[i], &w->sums[w->items[i].sums]);
  memmove(w->items, w->items + w->committed, (size_t)(w->count - w->committed) * sizeof *w->items);
  w->count -= w->committed;
  w->committed = 0;
}

// Sums that are there lie with others until a wait hands them out; those that nobody asks for are
// forgotten.
static void hand_out(group_work *w, int at) {
  enum { MOST_LEFT = 16 };
  if (w->count) return;
  if (at >= 0) w->sums[at] = w->sums[--w->sums_count];
  if (w->sums_count > MOST_LEFT) w->sums_count = 0;
}

static void run_wait(void *const *lanes) {
  simt_block *b = simt_current;
  int first = b->running / SIMT_WARP * SIMT_WARP;
  group_work *w = group_work_of(b, b->running);
  const group_product *p = lanes[0];
  finish_work(b, w, b->running / SIMT_WARP);
  int at = marked_sums(w, p->c[0]);
  if (at >= 0) check_marks(&w->sums[at], first, lanes, p->columns);
  for (int lane = 0; lane < SIMT_WARP; lane++) {
    const group_product *q = lanes[lane];
    memcpy(q->d, at >= 0 && !w->count ? w->sums[at].x[lane] : q->c,
           (size_t)p->columns / 2 * sizeof(float));
  }
  hand_out(w, at);
  w->fenced = false;
  note_done(w, 2);
}

static void run_fence(void *const *lanes) {
  group_work *w = group_work_of(simt_current, simt_current->running);
  for (int lane = 0; lane < SIMT_WARP; lane++) {
    const group_product *p = lanes[lane];
    memcpy(p->d, p->c, (size_t)p->columns / 2 * sizeof(float));
  }
  w->fenced = true;
  note_done(w, 3);
}

// ---- the operations --------------------------------------------------------------------------

// The registers stay as they are where a test leaves the operation out.
#define PASSES(name)                                                                \
  static void name(float *d, const float *c, int columns) {                         \
    static const collective run = {"wgmma_" #name, run_##name};                     \
    int64_t *count = &simt_current->threads[simt_current->running].group_##name##s; \
    group_product p = {.columns = columns, .c = c, .d = d};                         \
    if (simt_is_skipped(count, simt_current->launch->skipped_##name))               \
      memcpy(d, c, (size_t)columns / 2 * sizeof *d);                                \
    else                                                                            \
      simt_collect(&run, &p);                                                       \
  }
PASSES(fence)
PASSES(wait)

static void begin_group_product(group_product p) {
  static const collective run = {"wgmma", run_begin};
  simt_collect(&run, &p);
}

int32_t simt_shared_address(const void *at) {
  return (int32_t)((const unsigned char *)at - simt_current->shared);
}

void simt_fence_async(void) {
  simt_thread *thread = &simt_current->threads[simt_current->running];
  if (simt_is_skipped(&thread->group_fences, simt_current->launch->skipped_fence)) return;
  thread->fences++;
}

void simt_wgmma_commit(void) {
  static const collective run = {"wgmma_commit", run_commit};
  simt_collect(&run, NULL);
}

#define PRODUCTS(n, type, number)                                                               \
  void simt_wgmma_n##n##_##type(float d[n / 2], const float c[n / 2], uint64_t a, uint64_t b,   \
                                int32_t scale, int32_t trans_a, int32_t trans_b) {              \
    begin_group_product((group_product){n, number, c, d, a, b, NULL, scale, trans_a, trans_b}); \
  }                                                                                             \
  void simt_wgmma_registers_n##n##_##type(float d[n / 2], const float c[n / 2],                 \
                                          const uint32_t a[4], uint64_t b, int32_t scale,       \
                                          int32_t trans_b) {                                    \
    begin_group_product((group_product){n, number, c, d, 0, b, a, scale, 0, trans_b});          \
  }
#define OPERATIONS(n)                                                                  \
  PRODUCTS(n, bf16, number_of_bf16)                                                    \
  PRODUCTS(n, f16, number_of_f16)                                                      \
  void simt_wgmma_fence_n##n(float d[n / 2], const float c[n / 2]) { fence(d, c, n); } \
  void simt_wgmma_wait_n##n(float d[n / 2], const float c[n / 2]) { wait(d, c, n); }
OPERATIONS(8)
OPERATIONS(16)
OPERATIONS(32)
OPERATIONS(64)
