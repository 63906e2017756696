// What code costs: instructions of warps, accesses of shared and global memory, and by a model the
// time between barriers.
//
//   lanes 0..31 run segment 17 4 times, lanes 0..7 once more   ->   5 instructions of the warp for each of the segment
//   the third time that lanes run one load                     ->   one access of the warp: banks, sectors
//
// Lanes run one after the other here. The k-th execution of a segment or of an access since the
// last barrier is taken for the warp's k-th.
#include "runtime/support/simt/cost.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/support/simt/ops.h"

enum {
  BANKS = GPU_COST_BANKS,
  BANK_BYTES = 4,
  ROW_BYTES = 16,
  MOST_PIECE = 16,
  MOST_WORDS = SIMT_WARP * MOST_PIECE / BANK_BYTES
};

typedef enum slot_kind { SLOT_SEGMENT, SLOT_SHARED, SLOT_GLOBAL } slot_kind;

typedef struct execution {
  uint32_t lanes;
  int32_t bytes;
  int64_t at[SIMT_WARP];
} execution;

// A segment or an access, of one warp, since the last barrier.
typedef struct slot {
  slot_kind kind;
  int32_t number, place;
  const simt_segment *segment;
  uint32_t turns[SIMT_WARP];
  execution *executions;
  int count, room;
} slot;

typedef struct warp_slots {
  slot *slots;
  int count, room;
  int32_t *heads;  // a hash table: number of a slot, plus 1
  int head_count;
  double issued;
} warp_slots;

// Of one place since the last barrier.
typedef struct share {
  simt_place_cost cost;
  bool used;
} share;

struct simt_counter {
  simt_cost *cost;
  const simt_place **at;  // by thread
  warp_slots *warps;
  share *shares;        // by place
  double *warp_issued;  // [warp][place]
  int32_t *used, used_count, room;
};

static const simt_place nowhere = {.kernel = "", .file = "", .text = "start"};

bool cost_open(simt_block *b) {
  if (!b->launch->cost) return true;
  simt_counter *c = b->counter = calloc(1, sizeof *c);
  if (!c) return false;
  c->cost = b->launch->cost;
  c->at = calloc((size_t)b->launch->threads, sizeof *c->at);
  c->warps = calloc((size_t)b->warp_count, sizeof *c->warps);
  return c->at && c->warps;
}

void cost_free(simt_block *b) {
  simt_counter *c = b->counter;
  if (!c) return;
  for (int w = 0; c->warps && w < b->warp_count; w++) {
    for (int i = 0; i < c->warps[w].room; i++) free(c->warps[w].slots[i].executions);
    free(c->warps[w].slots);
    free(c->warps[w].heads);
  }
  free(c->at);
  free(c->warps);
  free(c->shares);
  free(c->warp_issued);
  free(c->used);
  free(c);
}

void cost_begin_block(simt_block *b) {
  for (int t = 0; b->counter && t < b->launch->threads; t++) b->counter->at[t] = &nowhere;
}

// ---- slots -----------------------------------------------------------------------------------

static uint32_t slot_hash(slot_kind kind, int32_t number, int32_t place) {
  uint64_t x = ((uint64_t)(uint32_t)number << 2 | kind) * UINT64_C(0x9e3779b97f4a7c15) +
               (uint64_t)place * UINT64_C(0xd1342543de82ef95);
  return (uint32_t)(x >> 32);
}

static void link_slot(warp_slots *w, int index) {
  const slot *s = &w->slots[index];
  uint32_t at = slot_hash(s->kind, s->number, s->place) & (uint32_t)(w->head_count - 1);
  while (w->heads[at]) at = (at + 1) & (uint32_t)(w->head_count - 1);
  w->heads[at] = index + 1;
}

static void grow_heads(warp_slots *w) {
  free(w->heads);
  w->head_count = w->head_count ? 2 * w->head_count : 256;
  w->heads = calloc((size_t)w->head_count, sizeof *w->heads);
  if (!w->heads) simt_fail("runs more code than there is memory to count");
  for (int i = 0; i < w->count; i++) link_slot(w, i);
}

static slot *find_slot(warp_slots *w, slot_kind kind, int32_t number, int32_t place) {
  if (2 * w->count >= w->head_count) grow_heads(w);
  uint32_t at = slot_hash(kind, number, place) & (uint32_t)(w->head_count - 1);
  for (; w->heads[at]; at = (at + 1) & (uint32_t)(w->head_count - 1)) {
    slot *s = &w->slots[w->heads[at] - 1];
    if (s->kind == kind && s->number == number && s->place == place) return s;
  }
  w->slots = simt_grown(w->slots, w->count, &w->room, sizeof *w->slots, "segments");
  slot *s = &w->slots[w->count++];
  *s = (slot){
      .kind = kind, .number = number, .place = place, .executions = s->executions, .room = s->room};
  w->heads[at] = w->count;
  return s;
}

// ---- places ----------------------------------------------------------------------------------

static void *grown_to(void *items, int before, int count, size_t size) {
  char *memory = realloc(items, (size_t)count * size);
  if (!memory) simt_fail("has more places than there is memory to count");
  memset(memory + (size_t)before * size, 0, (size_t)(count - before) * size);
  return memory;
}

static void make_place_room(simt_block *b, int32_t place) {
  simt_counter *c = b->counter;
  simt_cost *cost = c->cost;
  if (place >= cost->room) {
    int room = 2 * place + 64;
    cost->places = grown_to(cost->places, cost->room, room, sizeof *cost->places);
    cost->costs = grown_to(cost->costs, cost->room, room, sizeof *cost->costs);
    cost->room = room;
  }
  if (cost->room <= c->room) return;
  c->shares = grown_to(c->shares, c->room, cost->room, sizeof *c->shares);
  c->used = grown_to(c->used, c->room, cost->room, sizeof *c->used);
  free(c->warp_issued);
  c->warp_issued = calloc((size_t)cost->room * (size_t)b->warp_count, sizeof *c->warp_issued);
  if (!c->warp_issued) simt_fail("has more places than there is memory to count");
  c->room = cost->room;
}

void simt_count_place(const simt_place *place) {
  simt_block *b = simt_current;
  if (b->counter) b->counter->at[b->running] = place;
}

static const simt_place *place_now(simt_block *b, int thread) {
  const simt_place *place = b->counter->at[thread];
  if (place->number >= b->counter->room) make_place_room(b, place->number);
  simt_cost *cost = b->counter->cost;
  if (place->number >= cost->count) cost->count = place->number + 1;
  cost->places[place->number] = place;
  return place;
}

static simt_place_cost *place_share(simt_counter *c, int32_t place) {
  share *s = &c->shares[place];
  if (!s->used) c->used[c->used_count++] = place;
  s->used = true;
  return &s->cost;
}

// ---- what threads do -------------------------------------------------------------------------

void simt_count_segment(const simt_segment *segment) {
  simt_block *b = simt_current;
  if (!b->counter) return;
  const simt_place *place = place_now(b, b->running);
  slot *s = find_slot(&b->counter->warps[b->running / SIMT_WARP], SLOT_SEGMENT, segment->number,
                      place->number);
  s->segment = segment;
  s->turns[b->running % SIMT_WARP]++;
}

static void note_execution(slot *s, int lane, int64_t at, int32_t bytes) {
  int turn = (int)s->turns[lane]++;
  if (turn >= s->count) {
    s->executions =
        simt_grown(s->executions, s->count, &s->room, sizeof *s->executions, "accesses");
    s->executions[s->count++] = (execution){.bytes = bytes};
  }
  execution *e = &s->executions[turn];
  e->lanes |= UINT32_C(1) << lane;
  e->at[lane] = at;
}

// An access wider than its alignment, or than 16 bytes, is several.
void simt_count_access(const void *at, int32_t bytes, int32_t alignment, int32_t global,
                       int32_t site) {
  simt_block *b = simt_current;
  if (!b->counter || bytes <= 0) return;
  const simt_place *place = place_now(b, b->running);
  slot *s = find_slot(&b->counter->warps[b->running / SIMT_WARP],
                      global ? SLOT_GLOBAL : SLOT_SHARED, site, place->number);
  int64_t address =
      global ? (int64_t)(uintptr_t)at : (int64_t)((const unsigned char *)at - b->shared);
  int32_t piece = bytes;
  while (piece > alignment || piece > MOST_PIECE) piece = piece % 2 ? 1 : piece / 2;
  for (int32_t i = 0; i < bytes; i += piece)
    note_execution(s, b->running % SIMT_WARP, address + i, piece);
}

// ---- accesses of warps -----------------------------------------------------------------------

// A warp's lanes share wavefronts in groups: all with 4 bytes each, 16 lanes with 8, 8 lanes with
// 16.
static int group_size(int32_t bytes) { return bytes <= 4 ? 32 : bytes <= 8 ? 16 : 8; }

// Whether the number is new, and then among them.
static bool is_new(int64_t *numbers, int *count, int64_t number) {
  for (int i = 0; i < *count; i++)
    if (numbers[i] == number) return false;
  numbers[(*count)++] = number;
  return true;
}

// The most different words that one bank has to give.
static int wavefronts_of(const int64_t *words, int count) {
  int most = 0, of_bank[BANKS] = {0}, kept = 0;
  int64_t seen[MOST_WORDS];
  for (int i = 0; i < count; i++) {
    if (!is_new(seen, &kept, words[i])) continue;
    int n = ++of_bank[words[i] % BANKS];
    if (n > most) most = n;
  }
  return most;
}

static int group_wavefronts(const execution *e, int first, int lanes) {
  int64_t words[MOST_WORDS];
  int count = 0;
  for (int lane = first; lane < first + lanes; lane++)
    for (int64_t word = e->at[lane] / BANK_BYTES;
         e->lanes >> lane & 1 && word <= (e->at[lane] + e->bytes - 1) / BANK_BYTES; word++)
      words[count++] = word;
  return wavefronts_of(words, count);
}

static void fold_shared(const execution *e, simt_place_cost *to) {
  int lanes = group_size(e->bytes);
  for (int first = 0; first < SIMT_WARP; first += lanes) {
    int wavefronts = group_wavefronts(e, first, lanes);
    to->work.wavefronts += wavefronts;
    to->least_wavefronts += wavefronts > 0;
  }
}

// The ideal: as many sectors as the bytes that lanes ask for would fill, each asked for once.
static void fold_global(const execution *e, simt_place_cost *to) {
  int64_t sectors[2 * SIMT_WARP], addresses[SIMT_WARP];
  int count = 0, address_count = 0;
  for (int lane = 0; lane < SIMT_WARP; lane++) {
    if (!(e->lanes >> lane & 1) || !is_new(addresses, &address_count, e->at[lane])) continue;
    for (int64_t sector = e->at[lane] / SIMT_SECTOR;
         sector <= (e->at[lane] + e->bytes - 1) / SIMT_SECTOR; sector++)
      is_new(sectors, &count, sector);
  }
  to->work.bytes += SIMT_SECTOR * (double)count;
  to->least_sectors += (address_count * e->bytes + SIMT_SECTOR - 1) / SIMT_SECTOR;
}

static simt_place_cost *share_now(simt_block *b, int warp) {
  return place_share(b->counter, place_now(b, warp * SIMT_WARP)->number);
}

void cost_rows(simt_block *b, int warp, const uint32_t *offsets, int count) {
  if (!b->counter) return;
  simt_place_cost *to = share_now(b, warp);
  for (int first = 0; first < count; first += 8) {
    int64_t words[8 * ROW_BYTES / BANK_BYTES];
    int n = 0;
    for (int i = first; i < first + 8 && i < count; i++)
      for (int k = 0; k < ROW_BYTES / BANK_BYTES; k++) words[n++] = offsets[i] / BANK_BYTES + k;
    to->work.wavefronts += wavefronts_of(words, n);
    to->least_wavefronts++;
  }
}

void cost_group_product(simt_block *b, int warp, int columns) {
  if (!b->counter) return;
  share_now(b, warp)->work.groups += 16.0 * 16 * columns;
}

// ---- the model -------------------------------------------------------------------------------

static void fold_segment(simt_counter *c, int warp, const slot *s) {
  uint32_t most = 0;
  double lanes = 0;
  for (int lane = 0; lane < SIMT_WARP; lane++) {
    lanes += s->turns[lane];
    if (s->turns[lane] > most) most = s->turns[lane];
  }
  simt_place_cost *to = place_share(c, s->place);
  const simt_segment *x = s->segment;
  for (int i = 0; i < SIMT_CLASSES; i++) to->instructions[i] += (double)most * x->counts[i];
  double issued = (double)most * x->issued;
  to->lanes += lanes * x->issued;
  to->work.instructions += issued;
  to->work.specials += (double)most * (x->counts[SIMT_MUFU] + x->counts[SIMT_EXP]);
  // an mma has 16 x 8 x 16 multiply-adds, in tf32 half as many at half the rate
  to->work.tensor += (double)most * x->counts[SIMT_MMA] * (16 * 8 * 16);
  c->warp_issued[warp * c->room + s->place] += issued;
  c->warps[warp].issued += issued;
}

static void fold_slots(simt_block *b, int warp) {
  simt_counter *c = b->counter;
  warp_slots *w = &c->warps[warp];
  for (int i = 0; i < w->count; i++) {
    slot *s = &w->slots[i];
    if (s->kind == SLOT_SEGMENT) fold_segment(c, warp, s);
    for (int k = 0; k < s->count; k++) {
      if (s->kind == SLOT_SHARED) fold_shared(&s->executions[k], place_share(c, s->place));
      if (s->kind == SLOT_GLOBAL) fold_global(&s->executions[k], place_share(c, s->place));
    }
    s->count = 0;
  }
  w->count = 0;
  if (w->heads) memset(w->heads, 0, (size_t)w->head_count * sizeof *w->heads);
}

// The part of the block's threads that are at work in the time of the busiest warp: whatever nests
// they work on.
static double at_work(const simt_block *b, int busiest) {
  const simt_counter *c = b->counter;
  double lanes = 0, most = c->warps[busiest].issued;
  for (int i = 0; i < c->used_count; i++) lanes += c->shares[c->used[i]].cost.lanes;
  return most > 0 ? lanes / (most * b->launch->threads) : 0;
}

static void add_cost(simt_place_cost *cost, int pace_number, double cycles, double work) {
  cost->cycles[pace_number] += cycles;
  if (pace_number == SIMT_PACES - 1) cost->worked += work * cycles;
}

static void add_cycles(simt_counter *c, int pace_number, double work) {
  const double paces[SIMT_PACES] = {gpu_cost_swift, gpu_cost_slow};
  double pace = paces[pace_number], largest = -1;
  const gpu_speed *speed = &c->cost->speed;
  gpu_work all = {0};
  for (int i = 0; i < c->used_count; i++) gpu_add_work(&all, &c->shares[c->used[i]].cost.work, 1);
  gpu_limit limit = gpu_longest(&all, speed, pace);
  simt_place_cost *last = NULL;
  for (int i = 0; i < c->used_count; i++) {
    simt_place_cost *cost = &c->shares[c->used[i]].cost;
    double part = gpu_limit_cycles(limit, &cost->work, speed, pace);
    add_cost(cost, pace_number, part, work);
    if (!pace_number) cost->bound[limit] += part;
    if (part > largest) largest = part, last = cost;
  }
  if (!last) return;
  add_cost(last, pace_number, GPU_COST_BARRIER_CYCLES, work);
  if (!pace_number) last->work.barriers++;
}

void cost_gather(simt_block *b) {
  simt_counter *c = b->counter;
  if (!c) return;
  int busiest = 0;
  for (int w = 0; w < b->warp_count; w++) {
    fold_slots(b, w);
    if (c->warps[w].issued > c->warps[busiest].issued) busiest = w;
  }
  double work = at_work(b, busiest);
  for (int i = 0; i < c->used_count; i++)
    c->shares[c->used[i]].cost.work.busiest = c->warp_issued[busiest * c->room + c->used[i]];
  for (int pace = 0; pace < SIMT_PACES; pace++) add_cycles(c, pace, work);
  for (int i = 0; i < c->used_count; i++) {
    int32_t place = c->used[i];
    simt_add_place_cost(&c->cost->costs[place], &c->shares[place].cost, 1);
    c->shares[place] = (share){0};
    for (int w = 0; w < b->warp_count; w++) c->warp_issued[w * c->room + place] = 0;
  }
  for (int w = 0; w < b->warp_count; w++) c->warps[w].issued = 0;
  c->used_count = 0;
}
