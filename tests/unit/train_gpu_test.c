// The kernels of models on the executor against the host's arithmetic, for rows of f32 and of bf16.
// Sizes are divided by no tile, rows are cut out of wider ones, and some results are not wanted.
#include <math.h>

#include "runtime/train/data/random.h"
#include "runtime/train/model/gpu_place.h"

#include "tests/unit/unit.h"

enum { ROWS = 70, IN = 67, OUT = 130, STRIDE = 141, SYMBOLS = 90, NUMBERS = SYMBOLS * STRIDE };

// The same numbers in both places.
typedef struct pair {
  void *here, *there;
  int64_t bytes;
} pair;

typedef struct places {
  gpu_place *gpu;
  const compute *host, *device;
  pair x, y, dx, weight, bias, d_weight, d_bias, moment1, moment2, room, tokens, targets, weights,
      losses;
} places;

static pair new_pair(const places *p, int64_t bytes) {
  pair made = {.bytes = bytes};
  assert_int_equal(p->host->ops->allocate(p->host, bytes, &made.here), REC_OK);
  assert_int_equal(p->device->ops->allocate(p->device, bytes, &made.there), REC_OK);
  memset(made.here, 0, (size_t)bytes);
  return made;
}

static void send(const places *p, const pair *what) {
  assert_int_equal(p->device->ops->upload(p->device, what->there, what->here, what->bytes), REC_OK);
}

static pair new_rows(const places *p, uint64_t stream) {
  pair made = new_pair(p, NUMBERS * p->host->n->token_size);
  for (int i = 0; i < NUMBERS; i++)
    p->host->n->store_token(made.here, i, random_normal(1, stream, (uint64_t)i));
  send(p, &made);
  return made;
}

static pair new_weights(const places *p, uint64_t stream) {
  pair made = new_pair(p, NUMBERS * p->host->n->element_size);
  for (int i = 0; i < NUMBERS; i++)
    p->host->n->store(made.here, i, random_normal(1, stream, (uint64_t)i));
  send(p, &made);
  return made;
}

static places open_places(rec_dtype tokens) {
  places p = {.host = tokens == REC_BF16 ? &compute_host_bf16 : &compute_host_f32};
  assert_int_equal(gpu_place_open(REC_DEVICE_SIMT, 0, tokens, &p.gpu), REC_OK);
  p.device = &p.gpu->base;
  p.x = new_rows(&p, 1), p.y = new_rows(&p, 2), p.dx = new_rows(&p, 3);
  p.weight = new_weights(&p, 4), p.bias = new_weights(&p, 5), p.d_weight = new_weights(&p, 6);
  p.d_bias = new_weights(&p, 7), p.moment1 = new_weights(&p, 8), p.moment2 = new_weights(&p, 9);
  p.room = new_pair(&p, p.host->ops->linear_room(p.host, IN, OUT) + 64);
  p.losses = new_pair(&p, ROWS * (int64_t)sizeof(float));
  p.weights = new_pair(&p, ROWS * (int64_t)sizeof(float));
  p.tokens = new_pair(&p, ROWS * (int64_t)sizeof(token_id));
  p.targets = new_pair(&p, ROWS * (int64_t)sizeof(token_id));
  for (int i = 0; i < ROWS; i++) {
    ((token_id *)p.tokens.here)[i] = (token_id)random_below(1, 10, (uint64_t)i, SYMBOLS);
    ((token_id *)p.targets.here)[i] =
        (token_id)(i % 7 ? random_below(1, 11, (uint64_t)i, SYMBOLS) : NO_TARGET);
    ((float *)p.weights.here)[i] = (float)(i % 3);
  }
  for (int i = 0; i < NUMBERS; i++)
    ((float *)p.moment2.here)[i] = fabsf(((float *)p.moment2.here)[i]);
  send(&p, &p.tokens), send(&p, &p.targets), send(&p, &p.weights), send(&p, &p.moment2);
  return p;
}

static void close_places(places *p) {
  pair *all[] = {&p->x,        &p->y,       &p->dx,      &p->weight,  &p->bias,
                 &p->d_weight, &p->d_bias,  &p->moment1, &p->moment2, &p->room,
                 &p->tokens,   &p->targets, &p->weights, &p->losses};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    p->host->ops->release(p->host, all[i]->here);
    p->device->ops->release(p->device, all[i]->there);
  }
  gpu_place_close(p->gpu);
}

static rows here(const pair *x, int64_t count, int64_t width) {
  return (rows){x->here, count, width, STRIDE};
}
static rows there(const pair *x, int64_t count, int64_t width) {
  return (rows){x->there, count, width, STRIDE};
}

// Every number, those between the rows included, is the host's but for `rounding`, relative to the
// largest.
static void check(const places *p, const pair *what, bool narrow, double rounding) {
  const numeric *n = p->host->n;
  double (*load)(const void *, int64_t) = narrow ? n->load_token : n->load, most = 1, worst = 0;
  int64_t count = what->bytes / (narrow ? n->token_size : n->element_size);
  void *found = malloc((size_t)what->bytes);
  assert_int_equal(p->device->ops->download(p->device, found, what->there, what->bytes), REC_OK);
  for (int64_t i = 0; i < count; i++) {
    double difference = fabs(load(found, i) - load(what->here, i)),
           size = fabs(load(what->here, i));
    worst = !(difference <= worst) ? difference : worst;
    most = size > most ? size : most;
  }
  free(found);
  if (!(worst <= rounding * most)) fail_msg("%g of %g", worst, most);
}

static double rounding_of(const places *p) { return p->host->n->token_size == 2 ? 0x1p-8 : 1e-6; }

static void products(rec_dtype type) {
  places p = open_places(type);
  const compute *places_of[] = {p.host, p.device};
  for (int i = 0; i < 2; i++) {
    const compute *c = places_of[i];
    rows x = i ? there(&p.x, ROWS, IN) : here(&p.x, ROWS, IN),
         y = i ? there(&p.y, ROWS, OUT) : here(&p.y, ROWS, OUT);
    rows dx = i ? there(&p.dx, ROWS, IN) : here(&p.dx, ROWS, IN);
    void *weight = i ? p.weight.there : p.weight.here, *bias = i ? p.bias.there : p.bias.here;
    void *dw = i ? p.d_weight.there : p.d_weight.here, *db = i ? p.d_bias.there : p.d_bias.here;
    void *room = i ? p.room.there : p.room.here;
    assert_int_equal(c->ops->linear_backward(c, x, weight, y, dx, true, dw, db, room), REC_OK);
    assert_int_equal(c->ops->linear_backward(c, x, weight, y, (rows){0}, false, dw, NULL, room),
                     REC_OK);
    assert_int_equal(c->ops->linear(c, x, weight, bias, y, room), REC_OK);
    x.count = y.count = 1;
    assert_int_equal(c->ops->linear(c, x, weight, NULL, y, room), REC_OK);
  }
  check(&p, &p.y, true, rounding_of(&p));
  check(&p, &p.dx, true, rounding_of(&p));
  check(&p, &p.d_weight, false, 1e-6);
  check(&p, &p.d_bias, false, 1e-6);
  close_places(&p);
}

static void tables_and_loss(rec_dtype type) {
  places p = open_places(type);
  const compute *c = p.device;
  const numeric *n = p.host->n;
  n->embed(p.tokens.here, p.weight.here, here(&p.x, ROWS, STRIDE));
  assert_int_equal(c->ops->embed(c, p.tokens.there, p.weight.there, there(&p.x, ROWS, STRIDE)),
                   REC_OK);
  check(&p, &p.x, true, 0);
  n->embed_backward(p.tokens.here, here(&p.y, ROWS, IN), p.d_weight.here);
  assert_int_equal(
      c->ops->embed_backward(c, p.tokens.there, there(&p.y, ROWS, IN), p.d_weight.there), REC_OK);
  check(&p, &p.d_weight, false, 0);
  float row[SYMBOLS];
  double total,
      expected = n->cross_entropy(here(&p.y, ROWS, SYMBOLS), p.targets.here, p.weights.here, 0.25,
                                  here(&p.y, ROWS, SYMBOLS), p.losses.here, row);
  assert_int_equal(
      c->ops->cross_entropy(c, there(&p.y, ROWS, SYMBOLS), p.targets.there, p.weights.there, 0.25,
                            there(&p.y, ROWS, SYMBOLS), p.losses.there, NULL, &total),
      REC_OK);
  assert_true(fabs(total - expected) <= 1e-6 * expected);
  check(&p, &p.y, true, rounding_of(&p));
  check(&p, &p.losses, false, 1e-6);
  expected =
      n->cross_entropy(here(&p.dx, ROWS, SYMBOLS), p.targets.here, NULL, 1, (rows){0}, NULL, row);
  assert_int_equal(c->ops->cross_entropy(c, there(&p.dx, ROWS, SYMBOLS), p.targets.there, NULL, 1,
                                         (rows){0}, p.losses.there, NULL, &total),
                   REC_OK);
  assert_true(fabs(total - expected) <= 1e-6 * expected);
  check(&p, &p.dx, true, 0);
  uint8_t hits[ROWS];
  pair found = new_pair(&p, ROWS);
  n->hits(here(&p.dx, ROWS, SYMBOLS), p.targets.here, hits);
  assert_int_equal(c->ops->hits(c, there(&p.dx, ROWS, SYMBOLS), p.targets.there, found.there),
                   REC_OK);
  assert_int_equal(c->ops->download(c, found.here, found.there, ROWS), REC_OK);
  assert_memory_equal(hits, found.here, ROWS);
  p.host->ops->release(p.host, found.here);
  c->ops->release(c, found.there);
  close_places(&p);
}

static void sums_and_steps(rec_dtype type) {
  places p = open_places(type);
  const compute *c = p.device;
  const numeric *n = p.host->n;
  double sum;
  n->add(here(&p.x, ROWS, IN), here(&p.y, ROWS, IN));
  n->zero(here(&p.y, ROWS, OUT));
  assert_int_equal(c->ops->add(c, there(&p.x, ROWS, IN), there(&p.y, ROWS, IN)), REC_OK);
  assert_int_equal(c->ops->zero(c, there(&p.y, ROWS, OUT)), REC_OK);
  check(&p, &p.x, true, 0);
  check(&p, &p.y, true, 0);
  double expected = n->row_squares(here(&p.x, ROWS, IN));
  assert_int_equal(c->ops->row_squares(c, there(&p.x, ROWS, IN), &sum), REC_OK);
  assert_true(fabs(sum - expected) <= 1e-6 * expected);
  n->sum_into(p.weight.here, p.bias.here, NUMBERS - 1);
  assert_int_equal(c->ops->sum_into(c, p.weight.there, p.bias.there, NUMBERS - 1), REC_OK);
  check(&p, &p.weight, false, 0);
  expected = n->square_sum(p.weight.here, NUMBERS);
  const value_list lists[] = {{p.bias.there, 5}, {p.weight.there, NUMBERS}, {p.bias.there, 0}};
  double sums[3];
  assert_int_equal(c->ops->square_sums(c, &lists[1], 1, &sum), REC_OK);
  assert_int_equal(c->ops->square_sums(c, lists, 3, sums), REC_OK);
  assert_true(fabs(sum - expected) <= 1e-6 * expected);
  assert_true(sums[0] > 0 && sums[1] == sum && sums[2] == 0);
  adamw_step step = {1e-2, 0.9, 0.95, 1e-8, 0.1, 0.4, 0.3, 0.7};
  n->adamw(p.weight.here, p.d_weight.here, p.moment1.here, p.moment2.here, NUMBERS - 3, &step);
  assert_int_equal(c->ops->adamw(c, p.weight.there, p.d_weight.there, p.moment1.there,
                                 p.moment2.there, NUMBERS - 3, &step),
                   REC_OK);
  check(&p, &p.weight, false, 1e-6);
  check(&p, &p.moment1, false, 1e-6);
  check(&p, &p.moment2, false, 1e-6);
  close_places(&p);
}

// What lies outside of the memory that was asked for is an error of the kernel, with its name.
TEST(addresses_are_checked) {
  places p = open_places(REC_F32);
  rows past = {(float *)p.x.there + NUMBERS - 10, 1, 11, 11};
  assert_int_equal(p.device->ops->zero(p.device, past), REC_ERROR_INTERNAL);
  assert_non_null(strstr(rec_message(), "rec_model_add_f32"));
  close_places(&p);
}

TEST(products_are_the_hosts) {
  products(REC_F32);
  products(REC_BF16);
}

TEST(tables_and_loss_are_the_hosts) {
  tables_and_loss(REC_F32);
  tables_and_loss(REC_BF16);
}

TEST(sums_and_steps_are_the_hosts) {
  sums_and_steps(REC_F32);
  sums_and_steps(REC_BF16);
}
