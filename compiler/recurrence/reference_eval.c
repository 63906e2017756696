// Every operation as one loop over elements through the plan's maps. Sums, differences and products
// of real values are most of the work and have loops of their own. All other operations go through
// the functions of reference_ops.c.
#include "compiler/recurrence/reference_eval.h"

#include <math.h>
#include <string.h>

static node *node_operand(const plan *p, const node *n, int k) {
  return &p->nodes[n->value->args[k]];
}

// ---- forward ------------------------------------------------------------------------------------

complex_number load_element(const node *n, int64_t i) {
  if (n->value->complex) return (complex_number){n->numbers[2 * i], n->numbers[2 * i + 1]};
  return (complex_number){n->numbers[i], 0};
}

static void gather_complex(const plan *p, const node *n, int64_t i, complex_number x[3]) {
  for (int k = 0; k < value_arity(n->value->op); k++)
    x[k] = load_element(&p->nodes[n->value->args[k]], mapped(n->operand[k], i));
}

static void gather_real(const plan *p, const node *n, int64_t i, double x[3]) {
  for (int k = 0; k < value_arity(n->value->op); k++)
    x[k] = p->nodes[n->value->args[k]].numbers[mapped(n->operand[k], i)];
}

// False for an operation that is none of the three.
static bool evaluate_arithmetic(const plan *p, node *n) {
  if (n->pairs || value_arity(n->value->op) != 2) return false;
  const double *a = node_operand(p, n, 0)->numbers, *b = node_operand(p, n, 1)->numbers;
  element_map at = n->operand[0], bt = n->operand[1];
  switch (n->value->op) {
    case VALUE_ADD:
      for (int64_t i = 0; i < n->count; i++)
        n->numbers[i] = kept(p, a[mapped(at, i)] + b[mapped(bt, i)]);
      return true;
    case VALUE_SUB:
      for (int64_t i = 0; i < n->count; i++)
        n->numbers[i] = kept(p, a[mapped(at, i)] - b[mapped(bt, i)]);
      return true;
    case VALUE_MUL:
      for (int64_t i = 0; i < n->count; i++)
        n->numbers[i] = kept(p, a[mapped(at, i)] * b[mapped(bt, i)]);
      return true;
    default: return false;
  }
}

static void evaluate_real(const plan *p, node *n) {
  if (evaluate_arithmetic(p, n)) return;
  for (int64_t i = 0; i < n->count; i++) {
    double x[3];
    gather_real(p, n, i, x);
    n->numbers[i] = kept(p, real_value(n->value, x));
  }
}

static void evaluate_pairs(const plan *p, node *n) {
  for (int64_t i = 0; i < n->count; i++) {
    complex_number x[3], z;
    gather_complex(p, n, i, x);
    z = p->single ? complex_value_in_floats(n->value, x) : complex_value(n->value, x);
    if (n->value->complex) {
      n->numbers[2 * i] = kept(p, z.re);
      n->numbers[2 * i + 1] = kept(p, z.im);
    } else {
      n->numbers[i] = kept(p, z.re);
    }
  }
}

static void evaluate_sum(const plan *p, const node *operand, node *n) {
  int width = n->value->complex ? 2 : 1;
  memset(n->numbers, 0, (size_t)(n->count * width) * sizeof(double));
  for (int64_t i = 0; i < operand->count; i++) {
    int64_t to = mapped(n->result, i);
    for (int w = 0; w < width; w++)
      add_to(p, &n->numbers[to * width + w], operand->numbers[i * width + w]);
  }
}

static void evaluate_extreme(const node *operand, node *n) {
  bool largest = n->value->op == VALUE_MAX_OVER;
  for (int64_t i = 0; i < n->count; i++) {
    n->numbers[i] = largest ? -INFINITY : INFINITY;
    n->extreme[i] = -1;
  }
  for (int64_t i = 0; i < operand->count; i++) {
    int64_t to = mapped(n->result, i);
    double x = operand->numbers[i];
    if (n->extreme[to] >= 0 && !(largest ? x > n->numbers[to] : x < n->numbers[to])) continue;
    n->numbers[to] = x;
    n->extreme[to] = (int32_t)i;
  }
}

static void copy_elements(const node *operand, node *n) {
  int width = n->value->complex ? 2 : 1;
  for (int64_t i = 0; i < n->count; i++) {
    int64_t from = mapped(n->operand[0], i);
    for (int w = 0; w < width; w++) n->numbers[i * width + w] = operand->numbers[from * width + w];
  }
}

void evaluate_operation(const plan *p, node *n) {
  switch (n->value->op) {
    case VALUE_SUM: evaluate_sum(p, node_operand(p, n, 0), n); break;
    case VALUE_MAX_OVER:
    case VALUE_MIN_OVER: evaluate_extreme(node_operand(p, n, 0), n); break;
    case VALUE_RENAME:
    case VALUE_SLICE: copy_elements(node_operand(p, n, 0), n); break;
    default:
      if (n->pairs)
        evaluate_pairs(p, n);
      else
        evaluate_real(p, n);
      break;
  }
}

// ---- backward -----------------------------------------------------------------------------------

void add_cotangent(const plan *p, node *n, int64_t i, complex_number d) {
  if (n->value->complex) {
    add_to(p, &n->cotangent[2 * i], d.re);
    add_to(p, &n->cotangent[2 * i + 1], d.im);
  } else {
    add_to(p, &n->cotangent[i], d.re);
  }
}

static void differentiate_pairs(const plan *p, const node *n) {
  for (int64_t i = 0; i < n->count; i++) {
    complex_number x[3], d[3], dz = {0, 0};
    if (n->value->complex)
      dz = (complex_number){n->cotangent[2 * i], n->cotangent[2 * i + 1]};
    else
      dz.re = n->cotangent[i];
    if (dz.re == 0 && dz.im == 0) continue;
    gather_complex(p, n, i, x);
    complex_derivative(n->value, x, load_element(n, i), dz, d);
    for (int k = 0; k < value_arity(n->value->op); k++)
      add_cotangent(p, node_operand(p, n, k), mapped(n->operand[k], i), d[k]);
  }
}

static bool differentiate_arithmetic(const plan *p, const node *n) {
  if (value_arity(n->value->op) != 2) return false;
  const node *x = node_operand(p, n, 0), *y = node_operand(p, n, 1);
  element_map at = n->operand[0], bt = n->operand[1];
  const double *dz = n->cotangent;
  switch (n->value->op) {
    case VALUE_ADD:
    case VALUE_SUB:
      for (int64_t i = 0; i < n->count; i++) add_to(p, &x->cotangent[mapped(at, i)], dz[i]);
      for (int64_t i = 0; i < n->count; i++)
        add_to(p, &y->cotangent[mapped(bt, i)], n->value->op == VALUE_ADD ? dz[i] : -dz[i]);
      return true;
    case VALUE_MUL:
      for (int64_t i = 0; i < n->count; i++) {
        if (dz[i] == 0) continue;
        add_to(p, &x->cotangent[mapped(at, i)], dz[i] * y->numbers[mapped(bt, i)]);
        add_to(p, &y->cotangent[mapped(bt, i)], dz[i] * x->numbers[mapped(at, i)]);
      }
      return true;
    default: return false;
  }
}

static void differentiate_real(const plan *p, const node *n) {
  if (differentiate_arithmetic(p, n)) return;
  for (int64_t i = 0; i < n->count; i++) {
    if (n->cotangent[i] == 0) continue;
    double x[3], d[3];
    gather_real(p, n, i, x);
    real_derivative(n->value, x, n->numbers[i], n->cotangent[i], d);
    for (int k = 0; k < value_arity(n->value->op); k++)
      add_to(p, &node_operand(p, n, k)->cotangent[mapped(n->operand[k], i)], d[k]);
  }
}

static void differentiate_sum(const plan *p, node *operand, const node *n) {
  int width = n->value->complex ? 2 : 1;
  for (int64_t i = 0; i < operand->count; i++) {
    int64_t from = mapped(n->result, i);
    for (int w = 0; w < width; w++)
      add_to(p, &operand->cotangent[i * width + w], n->cotangent[from * width + w]);
  }
}

static void differentiate_copy(const plan *p, node *operand, const node *n) {
  int width = n->value->complex ? 2 : 1;
  for (int64_t i = 0; i < n->count; i++) {
    int64_t to = mapped(n->operand[0], i);
    for (int w = 0; w < width; w++)
      add_to(p, &operand->cotangent[to * width + w], n->cotangent[i * width + w]);
  }
}

static void differentiate_extreme(const plan *p, node *operand, const node *n) {
  for (int64_t i = 0; i < n->count; i++)
    if (n->extreme[i] >= 0) add_to(p, &operand->cotangent[n->extreme[i]], n->cotangent[i]);
}

void differentiate_operation(const plan *p, const node *n) {
  switch (n->value->op) {
    case VALUE_SUM: differentiate_sum(p, node_operand(p, n, 0), n); break;
    case VALUE_MAX_OVER:
    case VALUE_MIN_OVER: differentiate_extreme(p, node_operand(p, n, 0), n); break;
    case VALUE_RENAME:
    case VALUE_SLICE: differentiate_copy(p, node_operand(p, n, 0), n); break;
    default:
      if (n->pairs)
        differentiate_pairs(p, n);
      else
        differentiate_real(p, n);
      break;
  }
}
