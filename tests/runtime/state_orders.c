// Recurrences of two or three states. The first one has its axes in the order G, Q, V, the others
// have another one.
//
//   state S[G,Q], U[Q,G]
//   S = sigmoid(f) * S[t-1] + 0.3 * tanh(g) * U[t-1] + x
//   U = sigmoid(g) * U[t-1] - 0.3 * tanh(f) * S[t-1] + 0.5 * x
#include "tests/runtime/state_orders.h"

#include <stdbool.h>

// Sizes differ, so that no number lies where another order has it. The middle axis is open.
static const char *const header[] = {"G = 3, Q", "G = 3, Q, V = 2"};

// Of one letter each.
static const char *const orders[][6] = {{"GQ", "QG"}, {"GQV", "GVQ", "QGV", "QVG", "VGQ", "VQG"}};
static const int order_count[] = {2, 6};

// S, U and T stand for the axes of the states, F and L for the first and the last axis of U, P for
// all but the last.
typedef struct way {
  const char *name, *text;
} way;

static const way ways[] = {
    {"both",
     "  input f[F], g[L], x[U]\n"
     "  state S[S], U[U]\n"
     "  output y[S]\n"
     "  S = sigmoid(f) * S[t-1] + 0.3 * tanh(g) * U[t-1] + x\n"
     "  U = sigmoid(g) * U[t-1] - 0.3 * tanh(f) * S[t-1] + 0.5 * x\n"
     "  y = S * U + S\n"},
    {"onward",
     "  input f[F], g[U], x[S]\n"
     "  state S[S], U[U]\n"
     "  output y[U]\n"
     "  S = sigmoid(f) * S[t-1] + x\n"
     "  U = 0.9 * U[t-1] + 0.4 * g * S\n"
     "  y = S * U + g\n"},
    {"steady",
     "  input x[U]\n"
     "  state S[S], U[U]\n"
     "  output y[S]\n"
     "  S = 0.9 * S[t-1] + 0.2 * U[t-1] + x\n"
     "  U = 0.8 * U[t-1] - 0.2 * S[t-1]\n"
     "  y = S * U + S\n"},
    {"circle",
     "  input f[F], g[L], x[S]\n"
     "  state S[S], U[U], T[T]\n"
     "  output y[T]\n"
     "  S = sigmoid(f) * S[t-1] + 0.3 * tanh(g) * U[t-1] + x\n"
     "  U = 0.9 * U[t-1] - 0.3 * tanh(f) * T[t-1] + 0.5 * x\n"
     "  T = sigmoid(g) * T[t-1] + 0.2 * S[t-1]\n"
     "  y = S * U + T\n"},
    {"turning",
     "  input f[L], w[P], x[U]\n"
     "  state S[S], U[U] : complex\n"
     "  output y[S]\n"
     "  S = 0.9 * S[t-1] + x\n"
     "  U = polar(sigmoid(f), w) * U[t-1] + x\n"
     "  y = re(U) * S + im(U)\n"},
    {"peaks",
     "  input f[F], z[U], x[S]\n"
     "  state S[S], U[U]\n"
     "  output y[S]\n"
     "  let d = log_sigmoid(3 + f)\n"
     "  U = stop_gradient(max(d + U[t-1], z))\n"
     "  S = exp(d + U[t-1] - U) * S[t-1] + exp(z - U) * x\n"
     "  y = S / (1 + exp(-U))\n"},
    {"steady_peaks",
     "  input f[L], z[U], x[S]\n"
     "  state S[S], U[U]\n"
     "  output y[U]\n"
     "  U = max(U[t-1], z)\n"
     "  S = exp(log_sigmoid(3 + f) + U[t-1] - U) * S[t-1] + exp(z - U) * x\n"
     "  y = S * tanh(U)\n"},
    {"fewer_peaks",
     "  input f[F], z[P], x[S]\n"
     "  state U[P], S[S], T[T]\n"
     "  output y[T]\n"
     "  U = stop_gradient(max(log_sigmoid(3 + f) + U[t-1], z))\n"
     "  S = exp(log_sigmoid(3 + f) + U[t-1] - U) * S[t-1] + exp(z - U) * x\n"
     "  T = exp(log_sigmoid(2 + f) + U[t-1] - U) * T[t-1] + exp(z - U)\n"
     "  y = S / (1 + T * T)\n"},
    {"matrices",
     "  input f, k[G], q[G], x[S]\n"
     "  state S[S], U[U]\n"
     "  output y[U]\n"
     "  S = sigmoid(f) * S[t-1] + 0.3 * tanh(k) * (sum[G](q * U[t-1]) - sum[G](k * S[t-1])) + k * "
     "x\n"
     "  U = 0.9 * U[t-1] + 0.2 * q * sum[G](tanh(k) * S[t-1]) + x\n"
     "  y = S * U + S\n"},
};

static const char *with_commas(arena *a, const char *axes, int count) {
  const char *text = "";
  for (int i = 0; i < count; i++) text = arena_printf(a, "%s%s%c", text, i ? "," : "", axes[i]);
  return text;
}

// What stands for axes: [S].
static const char *axes_of(arena *a, char letter, int axes, const char *of_u, const char *of_t) {
  switch (letter) {
    case 'S': return with_commas(a, orders[axes - 2][0], axes);
    case 'U': return with_commas(a, of_u, axes);
    case 'T': return with_commas(a, of_t, axes);
    case 'P': return with_commas(a, of_u, axes - 1);
    case 'F': return with_commas(a, of_u, 1);
    case 'L': return with_commas(a, of_u + axes - 1, 1);
    default: return with_commas(a, &letter, 1);
  }
}

static const char *expanded(arena *a, const char *text, int axes, const char *of_u,
                            const char *of_t) {
  const char *made = "";
  for (; *text; text++) {
    bool named = text[0] == '[' && text[2] == ']';
    made = named ? arena_printf(a, "%s[%s]", made, axes_of(a, text[1], axes, of_u, of_t))
                 : arena_printf(a, "%s%c", made, *text);
    if (named) text += 2;
  }
  return made;
}

int state_order_ways(void) { return sizeof ways / sizeof *ways; }

int state_order_count(int axes) { return order_count[axes - 2]; }

const char *state_order(arena *a, int number, int axes, int order) {
  const char *of_u = orders[axes - 2][order],
             *of_t = orders[axes - 2][(order + 1) % order_count[axes - 2]];
  return arena_printf(a, "recurrence %s_%s(%s) {\n%s}\n", ways[number].name, of_u, header[axes - 2],
                      expanded(a, ways[number].text, axes, of_u, of_t));
}
