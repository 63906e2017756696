// The lane maps of gpu_ops.def, read from the table and evaluated for every lane and register. They
// are the executor's, and each element of a matrix has one place.
#include "compiler/abi/simt.h"
#include "compiler/kernel/gpu/gpu.h"
#include "runtime/support/simt/layout.h"
#include "runtime/support/simt/ops.h"

#include "tests/unit/unit.h"

enum { LANES = 32, WARPS = 4 };

// ---- formulas --------------------------------------------------------------------------------

typedef struct place {
  int w, l, r, e, i;
} place;

typedef struct reader {
  const char *at;
  place p;
} reader;

static int sum(reader *s);

static char next(reader *s) {
  while (*s->at == ' ') s->at++;
  return *s->at;
}

static int factor(reader *s) {
  char c = next(s);
  if (c == '(') {
    s->at++;
    int x = sum(s);
    assert_int_equal(next(s), ')');
    s->at++;
    return x;
  }
  if (c >= '0' && c <= '9') return (int)strtol(s->at, (char **)&s->at, 10);
  s->at++;
  switch (c) {
    case 'w': return s->p.w;
    case 'l': return s->p.l;
    case 'r': return s->p.r;
    case 'e': return s->p.e;
    case 'i': return s->p.i;
    default: fail_msg("expected a formula, found `%s`", s->at - 1); return 0;
  }
}

// What stands side by side is multiplied.
static int product(reader *s) {
  int x = factor(s);
  for (char c = next(s); c == '/' || c == '%' || c == '(' || (c >= 'a' && c <= 'z'); c = next(s)) {
    if (c == '/' || c == '%') s->at++;
    int y = factor(s);
    x = c == '/' ? x / y : c == '%' ? x % y : x * y;
  }
  return x;
}

static int sum(reader *s) {
  int x = product(s);
  for (char c = next(s); c == '+' || c == '-' || c == '^'; c = next(s)) {
    s->at++;
    int y = product(s);
    x = c == '+' ? x + y : c == '-' ? x - y : x ^ y;
  }
  return x;
}

// name[row, column] of a row of the table, or name[row].
static simt_element element_of(const gpu_op_row *row, const char *name, place p) {
  const char *at = strstr(row->map, name);
  if (!at) fail_msg("%s has no %s]", row->name, name);
  reader s = {at + strlen(name), p};
  simt_element x = {sum(&s), 0};
  if (next(&s) == ',') s.at++, x.column = sum(&s);
  if (next(&s) != ']') fail_msg("%s: expected ], found `%s`", row->name, s.at);
  return x;
}

// ---- matrices --------------------------------------------------------------------------------

typedef simt_element executors(int warp, int lane, int element);
static simt_element a_16(int w, int l, int k) { return (void)w, layout_a_16x16(l, k); }
static simt_element b_16(int w, int l, int k) { return (void)w, layout_b_16x8(l, k); }
static simt_element d_16(int w, int l, int k) { return (void)w, layout_c_16x8(l, k); }
static simt_element a_tf32(int w, int l, int k) { return (void)w, layout_a_16x8(l, k); }
static simt_element b_tf32(int w, int l, int k) { return (void)w, layout_b_8x8(l, k); }
static simt_element rows(int w, int l, int k) { return (void)w, layout_ldmatrix(l, k); }
static simt_element columns(int w, int l, int k) { return (void)w, layout_ldmatrix_trans(l, k); }

// Every operation whose name begins so: its matrix, of so many rows and columns, in registers of
// one or two elements.
typedef struct matrix {
  const char *operation, *name;
  int rows, columns, halves, warps;
  executors *of_executor;
} matrix;

static const matrix matrices[] = {
    {"mma_m16n8k16_", "a[", 16, 16, 2, 1, a_16},
    {"mma_m16n8k16_", "b[", 16, 8, 2, 1, b_16},
    {"mma_m16n8k16_", "d[", 16, 8, 1, 1, d_16},
    {"mma_m16n8k8_", "a[", 16, 8, 1, 1, a_tf32},
    {"mma_m16n8k8_", "b[", 8, 8, 1, 1, b_tf32},
    {"mma_m16n8k8_", "d[", 16, 8, 1, 1, d_16},
    {"ldmatrix_x2", "m[", 8, 8, 2, 1, rows},
    {"ldmatrix_x4", "m[", 8, 8, 2, 1, rows},
    {"wgmma_registers_", "a[", 64, 16, 2, WARPS, layout_group_a},
    {"wgmma_", "d[", 64, 0, 1, WARPS, layout_group_c},
};

static bool begins(const char *text, const char *with) {
  return strncmp(text, with, strlen(with)) == 0;
}

static void compare(const gpu_op_row *row, const matrix *m) {
  static int count[64][64];
  const char *size = strstr(row->name, "_n");
  int width = m->columns ? m->columns : atoi(size + 2);
  int registers = m->rows * width / (LANES * m->warps * m->halves);
  executors *expected = strstr(row->name, "_trans") ? columns : m->of_executor;
  memset(count, 0, sizeof count);
  for (int w = 0; w < m->warps; w++)
    for (int l = 0; l < LANES; l++)
      for (int k = 0; k < registers * m->halves; k++) {
        place p = {.w = w, .l = l, .r = k / m->halves, .e = k % m->halves};
        simt_element x = element_of(row, m->name, p), y = expected(w, l, k);
        if (x.row != y.row || x.column != y.column)
          fail_msg("%s: %s] of element %d of lane %d is %d, %d; the executor has %d, %d", row->name,
                   m->name, k, l, x.row, x.column, y.row, y.column);
        assert_in_range(x.row, 0, m->rows - 1);
        assert_in_range(x.column, 0, width - 1);
        count[x.row][x.column]++;
      }
  for (int i = 0; i < m->rows; i++)
    for (int j = 0; j < width; j++) assert_int_equal(count[i][j], 1);
}

TEST(matrices_lie_as_the_table_says) {
  int compared = 0;
  for (int op = 0; op < GPU_OP_COUNT; op++) {
    const gpu_op_row *row = &gpu_ops[op];
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++) {
      if (!begins(row->name, matrices[i].operation) || strcmp(row->name, "wgmma_commit") == 0)
        continue;
      compare(row, &matrices[i]);
      compared++;
    }
  }
  assert_int_equal(compared, 3 * 3 + 4 + 4 * 6 + 4 * 2);
}

// Each row cites a section, and one that all lanes call together and that returns something says
// what lies where.
TEST(every_row_says_what_lies_where) {
  for (int op = 0; op < GPU_OP_COUNT; op++) {
    const gpu_op_row *row = &gpu_ops[op];
    if (row->section[0] < '1' || row->section[0] > '9')
      fail_msg("%s: expected a section, found `%s`", row->name, row->section);
    bool together = (row->kind == GPU_WARP || row->kind == GPU_GROUP) && row->result[0] != 'v';
    if (together && !strchr(row->map, '[')) fail_msg("%s has no formula", row->name);
  }
}

// ---- shuffles --------------------------------------------------------------------------------

typedef struct shuffle {
  int kind;
  float out[LANES][LANES];
} shuffle;

static void run_shuffle(const void *parameters) {
  shuffle *s = (shuffle *)parameters;
  int lane = simt_thread_x();
  for (int i = 0; i < LANES; i++) {
    float x = (float)lane;
    s->out[lane][i] = s->kind == GPU_SHFL_BFLY_F32  ? simt_shfl_bfly_f32(x, i)
                      : s->kind == GPU_SHFL_IDX_F32 ? simt_shfl_idx_f32(x, i)
                      : s->kind == GPU_SHFL_UP_F32  ? simt_shfl_up_f32(x, i)
                                                    : simt_shfl_down_f32(x, i);
  }
}

TEST(shuffles_read_the_lane_that_the_table_says) {
  static shuffle s;
  char message[SIMT_MESSAGE] = "";
  for (s.kind = GPU_SHFL_BFLY_F32; s.kind <= GPU_SHFL_DOWN_F32; s.kind++) {
    simt_launch launch = {.kernel = "shuffle",
                          .function = run_shuffle,
                          .parameters = &s,
                          .blocks = 1,
                          .threads = LANES};
    assert_int_equal(simt_run(&launch, 0, 1, NULL, message), SIMT_DONE);
    for (int l = 0; l < LANES; l++)
      for (int i = 0; i < LANES; i++) {
        int from = element_of(&gpu_ops[s.kind], "from[", (place){.l = l, .i = i}).row;
        if (from < 0 || from >= LANES) from = l;
        assert_true(s.out[l][i] == (float)from);
      }
  }
}
