#include "runtime/train/model/optimizer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "runtime/train/model/leaves.h"

// ---- AdamW --------------------------------------------------------------------------------------

static rec_status step_adamw(const compute *c, const optimizer_step *s, const stepped_weights *w) {
  const train_block *b = s->block;
  double done = (double)s->number;
  adamw_step step = {s->rate,
                     b->beta1,
                     b->beta2,
                     b->epsilon,
                     w->decays ? b->weight_decay : 0,
                     1 - pow(b->beta1, done),
                     1 - pow(b->beta2, done),
                     s->gradient_scale};
  return c->ops->adamw(c, w->values, w->gradient, w->states[0], w->states[1], w->rows * w->columns,
                       &step);
}

// ---- Muon ---------------------------------------------------------------------------------------

// Jordan et al. 2024: the momentum's step goes along the nearest matrix with orthonormal rows (or
// columns), found by five steps of a Newton-Schulz iteration. Moonlight, arXiv 2502.16982: times
// 0.2 sqrt(max(rows, columns)) a step is as long as AdamW's.
enum { NEWTON_SCHULZ_STEPS = 5 };

typedef struct muon_room {
  char *x, *product;        // [rows][columns]
  char *gram, *polynomial;  // [least][least], where least is the smaller of rows and columns
} muon_room;

static int64_t room_of_muon(int64_t height, int64_t width) {
  int64_t least = least_of(height, width);
  return 2 * (height * width + least * least);
}

static muon_room muon_room_of(const compute *c, const stepped_weights *w) {
  int64_t least = least_of(w->rows, w->columns), size = c->n->element_size,
          all = w->rows * w->columns * size;
  char *x = w->room;
  return (muon_room){x, x + all, x + 2 * all, x + 2 * all + least * least * size};
}

// The momentum follows the gradient; x is where it will be after the same gradient once more
// (Nesterov).
static rec_status follow_gradient(const compute *c, const optimizer_step *s,
                                  const stepped_weights *w, void *x) {
  int64_t count = w->rows * w->columns;
  double momentum = s->block->optimizer_own, scale = s->gradient_scale;
  rec_status status = c->ops->combine(c, w->states[0], momentum, w->gradient, scale, count);
  if (!status) status = c->ops->copy(c, x, w->gradient, count * c->n->element_size);
  return status ? status : c->ops->combine(c, x, scale, w->states[0], momentum, count);
}

// x = a x + (b G + c G G) x with G = x x^T. If x has more rows than columns, x = a x + x (b G + c G
// G) with G = x^T x.
static rec_status newton_schulz(const compute *c, const stepped_weights *w, const muon_room *r) {
  const double of_x = 3.4445, of_gram = -4.7750, of_square = 2.0315;
  bool tall = w->rows > w->columns;
  int64_t least = least_of(w->rows, w->columns), most = tall ? w->rows : w->columns;
  matrix x = {r->x, w->columns, false}, x_transposed = {r->x, w->columns, true};
  matrix gram = {r->gram, least, false}, polynomial = {r->polynomial, least, false};
  rec_status status = c->ops->product(c, least, least, most, tall ? x_transposed : x,
                                      tall ? x : x_transposed, r->gram);
  if (!status) status = c->ops->product(c, least, least, least, gram, gram, r->polynomial);
  if (!status)
    status = c->ops->combine(c, r->polynomial, of_square, r->gram, of_gram, least * least);
  if (!status)
    status = c->ops->product(c, w->rows, w->columns, least, tall ? x : polynomial,
                             tall ? polynomial : x, r->product);
  return status ? status : c->ops->combine(c, r->x, of_x, r->product, 1, w->rows * w->columns);
}

static rec_status step_muon(const compute *c, const optimizer_step *s, const stepped_weights *w) {
  int64_t count = w->rows * w->columns, most = w->rows > w->columns ? w->rows : w->columns;
  double length = 0.2 * sqrt((double)most), decay = w->decays ? s->block->weight_decay : 0;
  muon_room r = muon_room_of(c, w);
  rec_status status = follow_gradient(c, s, w, r.x);
  if (!status) status = c->ops->normalize(c, r.x, count, 1e-7);
  for (int i = 0; !status && i < NEWTON_SCHULZ_STEPS; i++) status = newton_schulz(c, w, &r);
  if (status) return status;
  return c->ops->combine(c, w->values, 1 - s->rate * decay, r.x, -s->rate * length, count);
}

// ---- which for which ----------------------------------------------------------------------------

const optimizer optimizers[OPTIMIZERS] = {
    [OPTIMIZER_ADAMW] = {{"m", "v"}, NULL, step_adamw},
    [OPTIMIZER_MUON] = {{"momentum"}, room_of_muon, step_muon},
};

// The matrix whose product is the logits.
static bool is_head(const train_model *m, int parameter) {
  for (int i = 0; i < m->op_count; i++) {
    const model_op *op = &m->ops[i];
    if (op->kind != OP_LINEAR || op->uses[0].parameter != parameter) continue;
    for (int k = 0; k < op->out_count; k++)
      if (op->out[k] == m->logits) return true;
  }
  return false;
}

optimizer_kind optimizer_of(const train_model *m, const train_block *block, int parameter) {
  bool hidden = m->parameters[parameter].kind == PARAMETER_LINEAR && !is_head(m, parameter);
  return optimizer_rules_of[block->optimizer].matrices && !hidden ? OPTIMIZER_ADAMW
                                                                  : block->optimizer;
}

const char *optimizer_text(const train_model *m, const train_block *block,
                           char text[OPTIMIZER_TEXT]) {
  const optimizer_rules *rules = &optimizer_rules_of[block->optimizer];
  int64_t own = 0, matrices = 0;
  for (int i = 0; i < m->parameter_count; i++) {
    if (optimizer_of(m, block, i) != block->optimizer) continue;
    own += m->parameters[i].elements;
    matrices += m->parameters[i].part_count;
  }
  int length = snprintf(text, OPTIMIZER_TEXT, "%s", rules->name);
  if (rules->matrices)
    snprintf(text + length, OPTIMIZER_TEXT - (size_t)length,
             " for %" PRId64 " matrices of %" PRId64 " weights, %s for %" PRId64, matrices, own,
             optimizer_rules_of[OPTIMIZER_ADAMW].name, m->weight_count - own);
  return text;
}
