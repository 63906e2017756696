// What a token costs on a GPU, as the executor counts it. The code is of four recurrences in bf16,
// for sm_80 and sm_90a, of dense cells and of Mamba-1. tests/runtime/traffic.txt holds every
// figure, and each must be the same: a change is renewed knowingly and is read as the difference of
// that file.
//
//   traffic_test                      compares; 50 s of processor time
//   traffic_test update               writes tests/runtime/traffic.txt
//   traffic_test [gla] [tensors]      prints; with `tensors` the bytes of every tensor in a run of 384 tokens with its states
//
// The columns of the table:
//   least        bytes of global memory: every input and cotangent read once, every output and gradient written once
//   of blocks    sectors of 32 bytes, once for every block: what a block reads again is on the chip
//   asked for    bytes as threads ask for them
//   once         sectors, once for the launch: what blocks that run side by side read is in the second level cache
//   moved        `once`, and what does not stay in that cache of a block's scratch, where all multiprocessors of the target's
//                usual device are busy: as often as it comes from memory or goes there
//   ratio        moved / least; then the launches of the call
//   shared, global   loads and stores of threads
//   copies           asynchronous copies of threads
//   mma, wgmma, other   operations of warps; others are ldmatrix, shuffles
//   operands     bytes of shared memory that ldmatrix and wgmma read
//   barriers     of blocks
//
// These bounds hold beside the table. Forward moves at most 1.5 times the least, and backward,
// which makes the states again, 2.2 times. The blocks of forward ask for at most 1.5 times what
// they need: nothing that one chunk needs lies outside the chip. A call has at most two launches
// forward and three backward. The code for sm_90a multiplies by wgmma where that pays.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/abi/simt_options.h"
#include "tests/runtime/compiled.h"
#include "tests/runtime/problem.h"

enum { SHORT = 128, LONG = 384, TIME = LONG - SHORT, SEQUENCES = 8, SHORTER = 4 };

// The sequences of a run: one, or SEQUENCES of them, each SHORTER times as short, several in a
// thread block.
static int64_t batch = 1;

static int64_t steps_of(int64_t time) { return batch > 1 ? time / SHORTER : time; }
static int64_t tokens(void) { return batch * steps_of(TIME); }

typedef struct subject {
  const char *path, *recurrence;
  const char *sizes[6];
} subject;

// Four heads where calls with fewer on the executor's six multiprocessors take kernels that write
// gradients in copies.
static const subject subjects[] = {
    {"stdlib/mamba2.rec", "ssd", {"G=1", "R=4", "P=64", "N=128"}},
    {"stdlib/gla.rec", "gla", {"H=4", "K=128", "V=128"}},
    {"stdlib/rwkv6.rec", "rwkv6", {"H=2", "K=64", "V=64"}},
    {"stdlib/gated_deltanet.rec", "gated_deltanet", {"H=4", "K=128", "V=128"}},
};

// Bytes of a token's inputs, or of its outputs.
static int64_t token_bytes(const problem *p, rec_kind kind) {
  int64_t numbers = 0;
  for (int i = 0; i < p->signature->variable_count; i++)
    if (p->signature->variables[i].kind == kind)
      numbers += rec_variable_numbers(p->signature, i, p->axis_sizes);
  return numbers * (int64_t)rec_dtype_size(p->signature->token_type);
}

// The targets' usual devices.
typedef struct gpu_figures {
  const char *name;
  int64_t multiprocessors, shared_kib, cache_mib;
} gpu_figures;

static const gpu_figures devices[] = {
#define GPU_TARGET(target, name, capability, exact, class, of, ptx, multiprocessors, shared, \
                   cache)                                                                    \
  {name, multiprocessors, shared, cache},
#include "compiler/abi/gpu_targets.def"
#undef GPU_TARGET
};

static const gpu_figures *figures_of(const char *name) {
  for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
    if (strcmp(devices[i].name, name) == 0) return &devices[i];
  return NULL;
}

static int64_t moved_by(const simt_counts *c) {
  return c->launch_read_bytes + c->launch_written_bytes + c->cache_read_bytes +
         c->cache_written_bytes;
}

static simt_counts minus(simt_counts x, const simt_counts *y) {
  x.read_bytes -= y->read_bytes, x.written_bytes -= y->written_bytes;
  x.block_read_bytes -= y->block_read_bytes, x.block_written_bytes -= y->block_written_bytes;
  x.launch_read_bytes -= y->launch_read_bytes, x.launch_written_bytes -= y->launch_written_bytes;
  x.cache_read_bytes -= y->cache_read_bytes, x.cache_written_bytes -= y->cache_written_bytes;
  x.products -= y->products, x.group_products -= y->group_products;
  x.operand_bytes -= y->operand_bytes;
  x.barriers -= y->barriers, x.collectives -= y->collectives, x.copies -= y->copies;
  x.shared_accesses -= y->shared_accesses, x.global_accesses -= y->global_accesses;
  return x;
}

static bool by_tensor;
static FILE *table;     // in memory
static int32_t device;  // 2: products by warpgroups

static void print_tensor(void *context, const char *kernel, const char *tensor, int64_t read,
                         int64_t written) {
  (void)context;
  double of_run = (double)(batch * steps_of(LONG));
  if (read + written > 0)
    printf("    %-40s %-20s read %9.1f written %9.1f a token\n", kernel, tensor,
           (double)read / of_run, (double)written / of_run);
}

static simt_counts run_length(const rec_recurrence *r, int64_t time, rec_run_options options,
                              int64_t *launches) {
  simt_counts counts = {0};
  enum { THREADS = 256 };  // of a multiprocessor: backward they have up to 255 registers each
  const gpu_figures *gpu = figures_of(device ? "sm_90a" : "sm_80");
  rec_simt_options simt = {.size = sizeof simt,
                           .counts = &counts,
                           .cache_bytes = (gpu->cache_mib << 20) / gpu->multiprocessors,
                           .shared_bytes = gpu->shared_kib << 10,
                           .threads = THREADS};
  options.simt = &simt;
  options.device_number = device;
  if (by_tensor && time == LONG) simt.report = print_tensor;
  problem *p = problem_new(rec_recurrence_signature(r), batch, steps_of(time), 2);
  problem_draw(p, 1, 0.1);
  problem_retype(p, p->signature);
  check(problem_run(p, r, "simt", &options), "%s: %s", p->signature->name, rec_message());
  problem_free(p);
  *launches = simt.launches;
  return counts;
}

// The cost of a token between others. Initial and final states do not count.
static simt_counts run(const rec_recurrence *r, rec_run_options options, int64_t *launches) {
  simt_counts before = run_length(r, SHORT, options, launches);
  return minus(run_length(r, LONG, options, launches), &before);
}

static void print_row(const char *name, const char *what, const simt_counts *c, int64_t least,
                      int64_t launches) {
  double block = (double)(c->block_read_bytes + c->block_written_bytes) / (double)tokens(),
         asked = (double)(c->read_bytes + c->written_bytes) / (double)tokens(),
         once = (double)(c->launch_read_bytes + c->launch_written_bytes) / (double)tokens(),
         moved = (double)moved_by(c) / (double)tokens();
  fprintf(table, "%-16s %-20s %-4s %8d %9.0f %10.0f %9.0f %9.0f %7.2f %3d |", name, what,
          device ? "90a" : "80", (int)least, block, asked, once, moved, moved / (double)least,
          (int)launches);
  fprintf(table, " %8.1f %8.1f %6.1f %6.2f %6.2f %8.1f %8.0f %8.2f\n",
          (double)c->shared_accesses / (double)tokens(),
          (double)c->global_accesses / (double)tokens(), (double)c->copies / (double)tokens(),
          (double)c->products / (double)tokens(), (double)c->group_products / (double)tokens(),
          (double)(c->collectives - c->products - c->group_products) / (double)tokens(),
          (double)c->operand_bytes / (double)tokens(), (double)c->barriers / (double)tokens());
}

static void run_kernels(const subject *s, const rec_recurrence *r) {
  problem *p = problem_new(rec_recurrence_signature(r), 1, 0, 2);
  int64_t in = token_bytes(p, REC_INPUT), out = token_bytes(p, REC_OUTPUT), launches, both;
  simt_counts forward = run(r, (rec_run_options){0}, &launches);
  print_row(s->recurrence, "forward", &forward, in + out, launches);
  check(launches <= 2, "%s: %d kernels forward", s->recurrence, (int)launches);
  int64_t moved = moved_by(&forward);
  check((double)moved <= 1.5 * (double)(in + out) * TIME,
        "%s: forward moves %d bytes a token, the least is %d", s->recurrence, (int)(moved / TIME),
        (int)(in + out));
  int64_t asked = forward.read_bytes + forward.written_bytes,
          needed = forward.block_read_bytes + forward.block_written_bytes;
  // Tiles of a block one after another read rows that they share again, from the cache.
  bool within = asked <= 3 * (in + out) * TIME || (double)asked <= 1.5 * (double)needed;
  check(within, "%s: forward asks for %d bytes a token, its blocks need %d", s->recurrence,
        (int)(asked / TIME), (int)(needed / TIME));
  check(forward.launch_read_bytes >= in * TIME && forward.launch_written_bytes >= out * TIME,
        "%s: forward reads and writes less than its tensors", s->recurrence);
  simt_counts whole = run(r, (rec_run_options){.backward = true, .recompute = true}, &both);
  simt_counts backward = minus(whole, &forward);
  print_row(s->recurrence, "backward, recomputed", &backward, 2 * in + out, both - launches);
  int64_t least = (2 * in + out) * TIME;
  moved = moved_by(&backward);
  check((double)moved <= 2.2 * (double)least,
        "%s: backward moves %d bytes a token, the least is %d", s->recurrence, (int)(moved / TIME),
        (int)(least / TIME));
  check(both - launches <= 3, "%s: %d kernels backward", s->recurrence, (int)(both - launches));
  check(
      backward.launch_read_bytes >= (in + out) * TIME && backward.launch_written_bytes >= in * TIME,
      "%s: backward reads and writes less than its tensors", s->recurrence);
  whole = run(r, (rec_run_options){.backward = true}, &both);
  print_row(s->recurrence, "both, states kept", &whole, 3 * in + 2 * out, both);
  check((whole.group_products > 0) == (device > 0), "%s: %d products by warpgroups", s->recurrence,
        (int)whole.group_products);
  problem_free(p);
}

// Mamba-1: each thread has one channel.
static void run_channels(const char *type) {
  const char *const words[] = {"--target", simt_target(), "-O0", "--dtype", type,
                               "-D",       "E=256",       "-D",  "N=16",    NULL};
  rec_module *module = compile_file("stdlib/mamba1.rec", words);
  if (!check(module, "mamba1 does not compile")) return;
  const rec_recurrence *r = rec_module_find(module, "selective_scan");
  problem *p = problem_new(rec_recurrence_signature(r), 1, 0, 2);
  int64_t in = token_bytes(p, REC_INPUT), out = token_bytes(p, REC_OUTPUT), launches;
  bool narrow = strcmp(type, "f32") != 0;
  device = 0;
  simt_counts forward = run(r, (rec_run_options){0}, &launches);
  print_row("selective_scan", narrow ? "forward" : "forward, f32", &forward, in + out, launches);
  int64_t moved = moved_by(&forward);
  check((double)moved <= 1.5 * (double)(in + out) * TIME,
        "mamba1 %s: forward moves %d bytes a token", type, (int)(moved / TIME));
  problem_free(p);
  rec_module_close(module);
}

// Cells whose steps multiply their state by a matrix of parameters, which shared memory holds, or
// does not. They run one sequence alone, and eight, which two blocks take four at a time.
typedef struct cell {
  const char *path, *recurrence, *type, *size;
} cell;

static const cell cells[] = {
    {"stdlib/lstm.rec", "lstm", "f32", "D=64"},
    {"stdlib/lstm.rec", "lstm", "bf16", "D=64"},
    {"stdlib/lstm.rec", "lstm", "f32", "D=128"},
    {"stdlib/gru.rec", "gru", "f32", "D=64"},
};

static void rows_of_cell(const cell *c, const rec_recurrence *r, int64_t sequences) {
  char what[32];
  bool one = sequences == 1;
  problem *p = problem_new(rec_recurrence_signature(r), 1, 0, 2);
  int64_t in = token_bytes(p, REC_INPUT), out = token_bytes(p, REC_OUTPUT), launches, both;
  device = 0;
  batch = sequences;
  simt_counts forward = run(r, (rec_run_options){0}, &launches);
  snprintf(what, sizeof what, one ? "forward, %s %s" : "fwd, %s %s, B=8", c->size, c->type);
  print_row(c->recurrence, what, &forward, in + out, launches);
  simt_counts whole = run(r, (rec_run_options){.backward = true}, &both),
              backward = minus(whole, &forward);
  snprintf(what, sizeof what, one ? "backward, %s %s" : "bwd, %s %s, B=8", c->size, c->type);
  print_row(c->recurrence, what, &backward, 2 * in + out, both - launches);
  check(launches <= 2 && both - launches <= 3, "%s: %d kernels forward, %d backward", c->recurrence,
        (int)launches, (int)(both - launches));
  batch = 1;
  problem_free(p);
}

static void run_cell(const cell *c) {
  const char *const words[] = {"--target", simt_target(), "-O0",   "--dtype",
                               c->type,    "-D",          c->size, NULL};
  rec_module *module = compile_file(c->path, words);
  if (!check(module, "%s does not compile", c->path)) return;
  const rec_recurrence *r = rec_module_find(module, c->recurrence);
  rows_of_cell(c, r, 1);
  rows_of_cell(c, r, SEQUENCES);
  rec_module_close(module);
}

static void run_subject(const subject *s) {
  const char *words[24] = {"--target", simt_90a_target(), "-O0", "--dtype", "bf16"};
  int count = 5;
  for (int i = 0; i < 6 && s->sizes[i]; i++) words[count++] = "-D", words[count++] = s->sizes[i];
  rec_module *module = compile_file(s->path, words);
  if (!check(module, "%s does not compile", s->path)) return;
  const rec_recurrence *r = rec_module_find(module, s->recurrence);
  for (device = 0; device <= 2; device += 2) run_kernels(s, r);
  rec_module_close(module);
}

static const char table_path[] = REC_SOURCE_DIR "/tests/runtime/traffic.txt";

static void print_line(char sign, const char *line) {
  printf("%c %.*s\n", sign, (int)strcspn(line, "\n"), line);
}

// Past the next newline, or the end.
static const char *line_after(const char *text) {
  text += strcspn(text, "\n");
  return *text ? text + 1 : text;
}

// Lines that differ, those of the file and those of this run; each file has one line for each row.
static void print_difference(const char *expected, const char *found) {
  for (; *expected || *found; expected = line_after(expected), found = line_after(found)) {
    size_t length = strcspn(expected, "\n");
    if (length == strcspn(found, "\n") && strncmp(expected, found, length) == 0) continue;
    if (*expected) print_line('-', expected);
    if (*found) print_line('+', found);
  }
}

static void compare_table(const char *found) {
  char expected[1 << 14] = "";
  FILE *file = fopen(table_path, "r");
  size_t size = file ? fread(expected, 1, sizeof expected - 1, file) : 0;
  if (file) fclose(file);
  bool same = size == strlen(found) && memcmp(expected, found, size) == 0;
  if (!same) print_difference(expected, found);
  check(same, "a token costs other figures than %s says; if that is meant, run traffic_test update",
        table_path);
}

static void update_table(const char *found) {
  FILE *file = fopen(table_path, "w");
  check(file && fputs(found, file) >= 0 && fclose(file) == 0, "cannot write %s", table_path);
}

static void run_all(const char *wanted) {
  fprintf(table,
          "%-16s %-20s %-4s %8s %9s %10s %9s %9s %7s %3s | %8s %8s %6s %6s %6s %8s %8s %8s\n",
          "bytes per token", "", "", "least", "of blocks", "asked for", "once", "moved", "ratio",
          "", "shared", "global", "copies", "mma", "wgmma", "other", "operands", "barriers");
  for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++)
    if (strstr(subjects[i].path, wanted)) run_subject(&subjects[i]);
  for (size_t i = 0; i < sizeof cells / sizeof *cells; i++)
    if (strstr("cells", wanted)) run_cell(&cells[i]);
  if (strstr("mamba1", wanted)) run_channels("bf16"), run_channels("f32");
}

int main(int count, char **words) {
  char *text = NULL;
  size_t size = 0;
  bool update = count == 2 && strcmp(words[1], "update") == 0;
  by_tensor = count > 1 && strcmp(words[count - 1], "tensors") == 0;
  bool whole = count == 1 || update;
  table = open_memstream(&text, &size);
  if (!table) return 1;
  run_all(whole || count == 1 + by_tensor ? "" : words[1]);
  fclose(table);
  if (update)
    update_table(text);
  else if (whole)
    compare_table(text);
  printf("%s", text);
  free(text);
  return checked();
}
