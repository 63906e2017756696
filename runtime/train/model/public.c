// config.json to a program of rec. Each architecture writes its layers one by one, so that the paths of
// the weights are the public names.
#include "runtime/train/model/public.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/json.h"
#include "runtime/train/model/public_settings.h"

typedef struct writing {
  settings s;
  const tensor_folder *tensors;
  FILE *out;
  char eps[SHORTEST_TEXT + 16];  // of its norms: ", eps = 1e-06", or nothing where it is 1e-05
} writing;

// The axis of a tensor; 0 without it.
static int64_t axis_of(const writing *w, int axis, const char *name) {
  const rec_tensor *t = tensor_folder_find(w->tensors, name);
  return t && axis < t->rank ? t->shape[axis] : 0;
}

// ---- text ---------------------------------------------------------------------------------------

static void put(writing *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(writing *w, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(w->out, format, arguments);
  va_end(arguments);
}

static void read_eps(writing *w, const char *key, double by_default) {
  char text[SHORTEST_TEXT];
  double eps = config_eps(&w->s, key, by_default);
  if (eps != 1e-5) snprintf(w->eps, sizeof w->eps, ", eps = %s", shortest_text(eps, text));
}

static const char *if_on(bool on, const char *text) { return on ? text : ""; }

static const char *const gated_mlp =
    "layer MLP(D, F) {\n"
    "  input u[D]\n"
    "  let g[F] = linear(u, name = \"gate_proj\")\n"
    "  let h[F] = linear(u, name = \"up_proj\")\n"
    "  output v[D] = linear(silu(g) * h, name = \"down_proj\")\n"
    "}\n\n";

// `sizes`: further ones of the header, ", H = 2".
static void put_model(writing *w, const char *embedding, int64_t width, const char *sizes) {
  char name[200];
  snprintf(name, sizeof name, "%s.weight", embedding);
  int64_t symbols = axis_of(w, 0, name);
  if (!symbols) symbols = config_whole(&w->s, "vocab_size", -1);
  put(w, "model Imported(vocab = %lld, D = %lld%s) {\n  input token\n  let x0[D] = embed(token, vocab, name = \"%s\")\n",
      (long long)symbols, (long long)width, sizes, embedding);
}

// The end of the model, and a block that has nothing to do but to be continued.
static void put_end(writing *w, const char *norm, bool tied) {
  put(w, "  output logits[vocab] = unembed(%s%s)\n}\n\n", norm, tied ? "" : ", tied = off, name = \"lm_head\"");
  put(w,
      "/// The imported weights; continue with `train NAME after imported { .. }`.\n"
      "train imported {\n"
      "  model     Imported\n"
      "  data      tokens(\"tokens.bin\")\n"
      "  context   64   batch 1   steps 1\n"
      "  optimizer adamw(lr = 1e-4)\n"
      "}\n");
}

// ---- mamba, mamba2 ------------------------------------------------------------------------------

// What a mixer is made of. FLA and transformers name some settings otherwise.
typedef struct mixer {
  bool second, original, bias, conv_bias, norm, norm_first;
  int64_t D, E, N, W, P, G, K;
} mixer;

// transformers has hidden_size, state-spaces/mamba d_model.
static bool is_original(const writing *w) { return config_setting(&w->s, "d_model") != NULL; }

static void read_mixer_forms(settings *s, mixer *m) {
  m->bias = config_flag(s, m->original ? "bias" : "use_bias", false);
  m->conv_bias = config_flag(s, m->original ? "conv_bias" : "use_conv_bias", true);
  m->norm = config_flag(s, "rmsnorm", true);
  m->norm_first = config_flag(s, "norm_before_gate", false);
  // Libraries disagree about what another function does to the gate.
  if (strcmp(config_function(s, "hidden_act", "silu"), "silu") != 0) config_refuse(s, "hidden_act", "silu");
  config_must_be(s, "D_has_hdim", false, false);
  config_must_be_absent(s, "d_ssm");
  config_must_not_bound(s, "time_step_limit");
  config_must_not_bound(s, "dt_limit");
}

// The rank may be "auto": what the weights have, else a sixteenth of the width.
static int64_t read_rank(const writing *w, settings *s, int64_t width) {
  const char *key = config_setting(s, "dt_rank") ? "dt_rank" : "time_step_rank";
  if (cJSON_IsNumber(config_setting(s, key))) return config_whole(s, key, -1);
  int64_t rank = axis_of(w, 1, "backbone.layers.0.mixer.dt_proj.weight");
  return rank > 0 ? rank : (width + 15) / 16;
}

// The settings of the layers lie apart in a config of state-spaces/mamba.
static void read_mixer(writing *w, mixer *m) {
  settings inner = {m->original ? config_setting(&w->s, "ssm_cfg") : w->s.object, REC_OK};
  bool original = m->original, second = m->second;
  m->D = config_whole(&w->s, original ? "d_model" : "hidden_size", -1);
  m->E = config_multiple(&inner, "expand", 2, m->D);
  m->N = config_whole(&inner, original ? "d_state" : "state_size", second ? 128 : 16);
  m->W = config_whole(&inner, original ? "d_conv" : "conv_kernel", 4);
  m->P = second ? config_whole(&inner, original ? "headdim" : "head_dim", 64) : 1;
  m->G = second ? config_whole(&inner, original ? "ngroups" : "n_groups", original ? 1 : 8) : 1;
  m->K = second ? 1 : read_rank(w, &inner, m->D);
  read_mixer_forms(&inner, m);
  if (!inner.status && second && (m->E % m->P || m->E / m->P % m->G))
    config_refuse(&inner, original ? "headdim" : "head_dim", "a size of heads that divides the width, in groups of as many");
  if (inner.status) w->s.status = inner.status;
}

// Is it the layer of the standard library?
static bool is_standard(const writing *w, const mixer *m) {
  bool norm = !m->second || (!*w->eps && m->norm && !m->norm_first);
  return !m->bias && m->conv_bias && norm;
}

static void put_mamba1_layer(writing *w, const mixer *m) {
  const char *bias = if_on(m->bias, ", bias = on");
  put(w,
      "layer Mixer(D, E, K, N, W) {\n"
      "  input u[D]\n"
      "  let (x[E], z[E]) = linear(u, name = \"in_proj\"%s)\n"
      "  let x2 = silu(conv1d(x, width = W%s))\n"
      "  let (r[K], B[N], C[N]) = linear(x2, name = \"x_proj\")\n"
      "  let dt[E] = linear(r, name = \"dt_proj\")\n"
      "  let y     = selective_scan(x2, dt, B, C, dt_bias = \"dt_proj.bias\")\n"
      "  output v[D] = linear(y * silu(z), name = \"out_proj\"%s)\n"
      "}\n\n",
      bias, if_on(!m->conv_bias, ", bias = off"), bias);
}

static void put_mamba2_layer(writing *w, const mixer *m) {
  const char *bias = if_on(m->bias, ", bias = on");
  char out[160];
  if (m->norm)
    snprintf(out, sizeof out, "rms_norm[R,P](%s, weight = [G,R,P]%s)%s", m->norm_first ? "y" : "y * silu(z)", w->eps,
             if_on(m->norm_first, " * silu(z)"));
  else
    snprintf(out, sizeof out, "y * silu(z)");
  put(w,
      "layer Mixer(D, G, R, P, N, W) {\n"
      "  input u[D]\n"
      "  let (z[G,R,P], x[G,R,P], B[G,N], C[G,N], dt[G,R]) = linear(u, name = \"in_proj\"%s)\n"
      "  let (x2, B2, C2) = silu(conv1d((x, B, C), width = W%s))\n"
      "  let y = ssd(x2, dt, B2, C2)\n"
      "  output v[D] = linear(%s, name = \"out_proj\"%s)\n"
      "}\n\n",
      bias, if_on(!m->conv_bias, ", bias = off"), out, bias);
}

static void put_mamba_blocks(writing *w, const mixer *m, const char *layer, int64_t layers) {
  for (long long i = 0; i < layers; i++) {
    put(w, "  let x%lld = x%lld + %s(rms_norm[D](x%lld, name = \"backbone.layers.%lld.norm\"%s), ", i + 1, i, layer, i, i,
        w->eps);
    if (m->second)
      put(w, "G = %lld, R = %lld, P = %lld, ", (long long)m->G, (long long)(m->E / m->P / m->G), (long long)m->P);
    else
      put(w, "E = %lld, K = %lld, ", (long long)m->E, (long long)m->K);
    put(w, "N = %lld, W = %lld, name = \"backbone.layers.%lld.mixer\")\n", (long long)m->N, (long long)m->W, i);
  }
}

static void put_mamba(writing *w, bool second) {
  mixer m = {.second = second, .original = is_original(w)};
  read_mixer(w, &m);
  int64_t layers = config_whole(&w->s, m.original ? "n_layer" : "num_hidden_layers", -1);
  bool fla = !config_is_absent(&w->s, "norm_eps");
  read_eps(w, fla ? "norm_eps" : "layer_norm_epsilon", 1e-5);
  bool tied = config_flag(&w->s, m.original ? "tie_embeddings" : "tie_word_embeddings", true);
  const char *embedding =
      m.original || axis_of(w, 0, "backbone.embedding.weight") ? "backbone.embedding" : "backbone.embeddings";
  config_must_be(&w->s, "rms_norm", true, true);
  config_must_be_absent(&w->s, "attn_layer_idx");
  if (w->s.status) return;
  bool standard = is_standard(w, &m);
  put(w, "import std.mamba%d\n\n", second ? 2 : 1);
  if (!standard) (second ? put_mamba2_layer : put_mamba1_layer)(w, &m);
  put_model(w, embedding, m.D, "");
  put_mamba_blocks(w, &m, !standard ? "Mixer" : second ? "Mamba2" : "Mamba1", layers);
  char norm[120];
  snprintf(norm, sizeof norm, "rms_norm[D](x%lld, name = \"backbone.norm_f\"%s)", (long long)layers, w->eps);
  put_end(w, norm, tied);
}

// ---- gla, gated_deltanet ------------------------------------------------------------------------

// What both are made of. Queries have H heads. Each has R of them in common: keys, values and decays
// of gla; values and decays of gated_deltanet are R of one query and key.
typedef struct attention {
  int64_t D, H, R, K, V, W, L;
  bool convolutions, gate, negative;
  const char *feature, *gate_function, *norm;  // the feature map is NULL or of queries and keys
} attention;

// `let q[H,K] = ..`, behind a convolution if there is one; its name is followed by a 2 then.
static void put_projection(writing *w, const attention *a, char name, const char *axes) {
  put(w, "  let %c[%s] = linear(u, name = \"%c_proj\")\n", name, axes, name);
  if (a->convolutions) put(w, "  let %c2 = silu(conv1d(%c, width = W, bias = off, name = \"%c_conv1d\"))\n", name, name, name);
}

// The end of the layer: a norm of each head, a gate.
static void put_output(writing *w, const attention *a) {
  char gate[40] = "";
  if (a->gate) snprintf(gate, sizeof gate, " * %s(g)", a->gate_function);
  put(w, "  output o[D] = linear(rms_norm[V](y, name = \"%s\"%s)%s, name = \"o_proj\")\n}\n\n", a->norm, w->eps, gate);
}

static const char *const shared_gla =
    "/// GLA whose R heads of queries share keys, values, decays and a state.\n"
    "recurrence shared_gla(H, R, K = 64, V = 128) {\n"
    "  input  q[H,R,K], k[H,K], v[H,V], gate[H,K]\n"
    "  state  S[H,K,V]\n"
    "  output y[H,R,V]\n\n"
    "  let a = sigmoid(gate)^(1/16)\n\n"
    "  S = a * S[t-1] + k * v\n"
    "  y = K^-0.5 * sum[K](q * S)\n"
    "}\n\n";

static void put_gla_layer(writing *w, const attention *a) {
  bool shared = a->R > 1;
  const char *after = if_on(a->convolutions, "2");
  char feature[3][24] = {"", "", ""};
  if (a->feature) snprintf(feature[0], sizeof feature[0], "%s(", a->feature);
  if (a->feature) snprintf(feature[1], sizeof feature[1], ")");
  put(w, "import std.gla\n\n%s", if_on(shared, shared_gla));
  put(w, "layer Attention(D, H, %sK, V, L%s) {\n  input u[D]\n", if_on(shared, "R, "), if_on(a->convolutions, ", W"));
  put_projection(w, a, 'q', shared ? "H,R,K" : "H,K");
  put_projection(w, a, 'k', "H,K");
  put_projection(w, a, 'v', "H,V");
  if (a->gate) put(w, "  let g[%s] = linear(u, name = \"g_proj\")\n", shared ? "H,R,V" : "H,V");
  put(w,
      "  let low[L] = linear(u, name = \"gk_proj.0\")\n"
      "  let gate[H,K] = linear(low, name = \"gk_proj.1\", bias = on)\n"
      "  let y = %s(%sq%s%s, %sk%s%s, v%s, gate)\n",
      shared ? "shared_gla" : "gla", feature[0], after, feature[1], feature[0], after, feature[1], after);
  put_output(w, a);
}

// The standard library's, with R heads of values for each of keys and rates up to 2.
static void put_delta_rule(writing *w, const attention *a) {
  put(w,
      "/// Gated DeltaNet with R heads of values for each of queries and keys%s.\n"
      "recurrence delta_rule(H, R, K = 64, V = 64) {\n"
      "  input  q[H,K], k[H,K], v[H,R,V], rate[H,R], gate[H,R]\n"
      "  param  A_log[H,R]   ~ log(uniform(1, 16))\n"
      "  param  dt_bias[H,R] ~ inv_softplus(loguniform(1e-3, 1e-1))\n"
      "  state  S[H,R,K,V]\n"
      "  output y[H,R,V]\n\n"
      "  let kn   = normalize[K](k)\n"
      "  let kept = exp(-exp(A_log) * softplus(gate + dt_bias)) * S[t-1]\n\n"
      "  S = kept + %ssigmoid(rate) * kn * (v - sum[K](kn * kept))\n"
      "  y = K^-0.5 * sum[K](normalize[K](q) * S)\n"
      "}\n\n",
      if_on(a->negative, "; rates reach 2"), if_on(a->negative, "2 * "));
}

static void put_gated_deltanet_layer(writing *w, const attention *a) {
  bool standard = a->R == 1 && !a->negative;
  const char *heads = standard ? "H" : "H,R";
  char values[16];
  snprintf(values, sizeof values, "%s,V", heads);
  put(w, "import std.gated_deltanet\n\n");
  if (!standard) put_delta_rule(w, a);
  put(w, "layer Attention(D, H, %sK, V%s) {\n  input u[D]\n", if_on(!standard, "R, "), if_on(a->convolutions, ", W"));
  put_projection(w, a, 'q', "H,K");
  put_projection(w, a, 'k', "H,K");
  put_projection(w, a, 'v', values);
  if (!a->convolutions) put(w, "  let (q2, k2, v2) = silu((q, k, v))\n");
  put(w,
      "  let gate[%s] = linear(u, name = \"a_proj\")\n"
      "  let rate[%s] = linear(u, name = \"b_proj\")\n",
      heads, heads);
  if (a->gate) put(w, "  let g[%s] = linear(u, name = \"g_proj\")\n", values);
  put(w, "  let y = %s(q2, k2, v2, rate, gate)\n", standard ? "gated_deltanet" : "delta_rule");
  put_output(w, a);
}

// The sizes of a call of Attention.
static void write_sizes(const attention *a, bool with_R, char text[200]) {
  char R[40] = "", L[40] = "", W[40] = "";
  if (with_R) snprintf(R, sizeof R, "R = %lld, ", (long long)a->R);
  if (a->L) snprintf(L, sizeof L, ", L = %lld", (long long)a->L);
  if (a->convolutions) snprintf(W, sizeof W, ", W = %lld", (long long)a->W);
  snprintf(text, 200, "H = %lld, %sK = %lld, V = %lld%s%s", (long long)a->H, R, (long long)a->K, (long long)a->V, L, W);
}

// Blocks of attention and gated MLP, each behind its norm. `sizes`: of the attention.
static void put_gated_blocks(writing *w, int64_t D, const char *sizes) {
  int64_t layers = config_whole(&w->s, "num_hidden_layers", -1), F = axis_of(w, 0, "model.layers.0.mlp.gate_proj.weight");
  if (!F) F = config_whole(&w->s, "intermediate_size", 1);
  bool tied = config_flag(&w->s, "tie_word_embeddings", false);
  if (w->s.status) return;
  put(w, "%s", gated_mlp);
  put_model(w, "model.embeddings", D, "");
  for (long long i = 0; i < layers; i++)
    put(w,
        "  let a%lld = x%lld + Attention(rms_norm[D](x%lld, name = \"model.layers.%lld.attn_norm\"%s), %s, name = "
        "\"model.layers.%lld.attn\")\n"
        "  let x%lld = a%lld + MLP(rms_norm[D](a%lld, name = \"model.layers.%lld.mlp_norm\"%s), F = %lld, name = "
        "\"model.layers.%lld.mlp\")\n",
        i, i, i, i, w->eps, sizes, i, i + 1, i, i, i, w->eps, (long long)F, i);
  char norm[120];
  snprintf(norm, sizeof norm, "rms_norm[D](x%lld, name = \"model.norm\"%s)", (long long)layers, w->eps);
  put_end(w, norm, tied);
}

static void refuse_other_blocks(settings *s) {
  config_must_be_word(s, "hidden_act", "swish");
  config_must_be_absent(s, "attn");
  config_must_be_absent(s, "attnres_block_size");
}

// A width of all heads together, `ratio` times the model's.
static int64_t head_width(settings *s, const char *ratio, double by_default, const attention *a) {
  int64_t heads = a->H * a->R, width = config_multiple(s, ratio, by_default, a->D);
  if (width % heads) config_refuse(s, ratio, "a width that the heads divide");
  return s->status ? 1 : width / heads;
}

static void put_gla(writing *w) {
  settings *s = &w->s;
  attention a = {.D = config_whole(s, "hidden_size", 2048),
                 .H = config_whole(s, "num_heads", 4),
                 .W = config_whole(s, "conv_size", 4),
                 .L = axis_of(w, 0, "model.layers.0.attn.gk_proj.0.weight"),
                 .convolutions = config_flag(s, "use_short_conv", false),
                 .gate = config_flag(s, "use_output_gate", true),
                 .feature = config_function(s, "feature_map", NULL),
                 .gate_function = "silu"};
  char sizes[200];
  int64_t shared = config_whole(s, "num_kv_heads", a.H);
  if (a.H % shared) config_refuse(s, "num_kv_heads", "a number that divides num_heads");
  a.R = a.H / shared, a.H = shared;
  a.K = head_width(s, "expand_k", 0.5, &a), a.V = head_width(s, "expand_v", 1, &a);
  a.norm = config_flag(s, "fuse_norm", true) && a.gate ? "g_norm_swish_gate" : "g_norm";
  if (!a.L) a.L = 16;
  read_eps(w, "norm_eps", 1e-6);
  config_must_be_absent(s, "clamp_min");
  config_must_be(s, "elementwise_affine", true, true);
  config_must_be(s, "use_gk", true, true);
  config_must_be(s, "use_gv", false, false);
  refuse_other_blocks(s);
  if (s->status) return;
  write_sizes(&a, a.R > 1, sizes);
  put_gla_layer(w, &a);
  put_gated_blocks(w, a.D, sizes);
}

static void put_gated_deltanet(writing *w) {
  settings *s = &w->s;
  attention a = {.D = config_whole(s, "hidden_size", 2048),
                 .H = config_whole(s, "num_heads", 6),
                 .K = config_whole(s, "head_dim", 256),
                 .W = config_whole(s, "conv_size", 4),
                 .convolutions = config_flag(s, "use_short_conv", true),
                 .gate = config_flag(s, "use_gate", true),
                 .negative = config_flag(s, "allow_neg_eigval", false),
                 .gate_function = config_function(s, "output_gate_activation", "silu"),
                 .norm = "o_norm"};
  char sizes[200];
  int64_t values = config_whole(s, "num_v_heads", a.H);
  if (values % a.H) config_refuse(s, "num_v_heads", "a multiple of num_heads");
  a.R = values / a.H;
  a.V = config_multiple(s, "expand_v", 2, a.K);
  read_eps(w, "norm_eps", 1e-6);
  refuse_other_blocks(s);
  if (s->status) return;
  write_sizes(&a, a.R > 1 || a.negative, sizes);
  put_gated_deltanet_layer(w, &a);
  put_gated_blocks(w, a.D, sizes);
}

// ---- rwkv6, rwkv7 -------------------------------------------------------------------------------

static const char *const rwkv6_mlp =
    "fn squared_relu(x) = relu(x)^2\n\n"
    "layer Key(D, F) {\n"
    "  input u[D], change[D]\n"
    "  param mu[D] ~ 0\n"
    "  output v[F] = linear(u + change * mu, name = \"linear\")\n"
    "}\n\n"
    "layer Receptance(D) {\n"
    "  input u[D], change[D]\n"
    "  param mu[D] ~ 0\n"
    "  output v[D] = linear(u + change * mu, name = \"linear\")\n"
    "}\n\n"
    "layer MLP(D, F) {\n"
    "  input u[D]\n"
    "  let change   = u[t-1] - u\n"
    "  let k        = squared_relu(Key(u, change, F = F, name = \"key\"))\n"
    "  let value[D] = linear(k, name = \"value\")\n"
    "  output v[D] = sigmoid(Receptance(u, change, name = \"receptance\")) * value\n"
    "}\n\n";

static const char *const rwkv7_mlp =
    "fn squared_relu(x) = relu(x)^2\n\n"
    "layer MLP(D, F) {\n"
    "  input u[D]\n"
    "  param x_k[D] ~ 0.5\n"
    "  let k[F] = linear(u + (u[t-1] - u) * x_k, name = \"key\")\n"
    "  output v[D] = linear(squared_relu(k), name = \"value\")\n"
    "}\n\n";

static int64_t rwkv_width(writing *w, bool seventh) {
  int64_t F = axis_of(w, 0, seventh ? "model.layers.0.ffn.key.weight" : "model.layers.0.ffn.key.linear.weight");
  config_must_be_word(&w->s, "hidden_act", "sqrelu");
  config_must_be(&w->s, "norm_first", true, true);
  config_must_be(&w->s, "norm_bias", true, true);
  config_must_be_absent(&w->s, "attn");
  if (config_eps(&w->s, "norm_eps", 1e-5) != 1e-5) config_refuse(&w->s, "norm_eps", "1e-05");
  return F ? F : config_whole(&w->s, "intermediate_size", -1);
}

static void put_rwkv_block(writing *w, long long i, const char *sizes, int64_t F, bool seventh) {
  const char *first = i == 0 ? "p0" : "x";
  char x[32];
  snprintf(x, sizeof x, i ? "%s%lld" : "%s", first, i);
  if (!i) put(w, "  let p0 = LayerNorm(x0, name = \"model.layers.0.pre_norm\")\n");
  put(w, "  let n%lld = LayerNorm(%s, name = \"model.layers.%lld.attn_norm\")\n", i, x, i);
  if (seventh && !i)
    put(w, "  let (y0, first) = RWKV7First(n0, %s, name = \"model.layers.0.attn\")\n", sizes);
  else
    put(w, "  let y%lld = RWKV%d(n%lld, %s%s, name = \"model.layers.%lld.attn\")\n", i, seventh ? 7 : 6, i,
        seventh ? "first, " : "", sizes, i);
  put(w, "  let a%lld = %s + y%lld\n", i, x, i);
  put(w,
      "  let x%lld = a%lld + MLP(LayerNorm(a%lld, name = \"model.layers.%lld.ffn_norm\"), F = %lld, name = "
      "\"model.layers.%lld.ffn\")\n",
      i + 1, i, i, i, (long long)F, i);
}

static void put_rwkv_end(writing *w, int64_t layers) {
  char norm[80];
  snprintf(norm, sizeof norm, "LayerNorm(x%lld, name = \"model.norm\")", (long long)layers);
  put_end(w, norm, config_flag(&w->s, "tie_word_embeddings", false));
}

static void put_rwkv6(writing *w) {
  int64_t D = config_whole(&w->s, "hidden_size", 2048), layers = config_whole(&w->s, "num_hidden_layers", -1),
          H = config_whole(&w->s, "num_heads", 4), F = rwkv_width(w, false), R = config_whole(&w->s, "proj_low_rank_dim", 32),
          L = config_whole(&w->s, "gate_low_rank_dim", 64);
  attention a = {.D = D, .H = H, .R = 1};
  a.K = head_width(&w->s, "expand_k", 0.5, &a), a.V = head_width(&w->s, "expand_v", 1, &a);
  char sizes[200];
  if (w->s.status) return;
  snprintf(sizes, sizeof sizes, "H = %lld, K = %lld, V = %lld, R = %lld, L = %lld", (long long)H, (long long)a.K,
           (long long)a.V, (long long)R, (long long)L);
  put(w, "import std.norm\nimport std.rwkv6\n\n%s", rwkv6_mlp);
  put_model(w, "model.embeddings", D, "");
  for (long long i = 0; i < layers; i++) put_rwkv_block(w, i, sizes, F, false);
  put_rwkv_end(w, layers);
}

// That of the weights: configs may leave it open.
static int64_t rank_of(writing *w, int layer, const char *of, const char *key) {
  char name[80];
  snprintf(name, sizeof name, "model.layers.%d.attn.%s_lora.lora.0.weight", layer, of);
  int64_t rank = axis_of(w, 0, name);
  return rank ? rank : config_whole(&w->s, key, 64);
}

static void put_rwkv7(writing *w) {
  int64_t D = config_whole(&w->s, "hidden_size", 2048), layers = config_whole(&w->s, "num_hidden_layers", -1),
          K = config_whole(&w->s, "head_dim", 64), F = rwkv_width(w, true), LW = rank_of(w, 0, "w", "decay_low_rank_dim"),
          LA = rank_of(w, 0, "a", "a_low_rank_dim"), LG = rank_of(w, 0, "g", "gate_low_rank_dim"),
          LV = rank_of(w, 1, "v", "v_low_rank_dim"), V = axis_of(w, 0, "model.layers.0.attn.v_proj.weight");
  char heads[80], first[200], later[220];
  if (D % K) config_refuse(&w->s, "head_dim", "heads that divide hidden_size");
  if (w->s.status) return;
  int64_t H = D / K;
  snprintf(heads, sizeof heads, ", H = %lld, V = %lld", (long long)H, (long long)(V && V % H == 0 ? V / H : K));
  snprintf(first, sizeof first, "H = H, K = %lld, V = V, LW = %lld, LA = %lld, LG = %lld", (long long)K, (long long)LW,
           (long long)LA, (long long)LG);
  snprintf(later, sizeof later, "K = %lld, LW = %lld, LA = %lld, LG = %lld, LV = %lld", (long long)K, (long long)LW,
           (long long)LA, (long long)LG, (long long)LV);
  put(w, "import std.norm\nimport std.rwkv7\n\n%s", rwkv7_mlp);
  put_model(w, "model.embeddings", D, heads);
  for (long long i = 0; i < layers; i++) put_rwkv_block(w, i, i ? later : first, F, true);
  put_rwkv_end(w, layers);
}

// ---- architectures ------------------------------------------------------------------------------

static const char *architecture(const settings *s) {
  const cJSON *type = config_setting(s, "model_type");
  if (cJSON_IsString(type)) return type->valuestring;
  const cJSON *layer = json_get(config_setting(s, "ssm_cfg"), "layer");
  if (!config_setting(s, "d_model")) return "none";
  return cJSON_IsString(layer) && !strcmp(layer->valuestring, "Mamba2") ? "mamba2" : "mamba";
}

rec_status public_program(const cJSON *config, const tensor_folder *tensors, char **text) {
  size_t size;
  *text = NULL;
  writing w = {.s = {config, REC_OK}, .tensors = tensors, .out = open_memstream(text, &size)};
  const char *type = architecture(&w.s);
  if (!w.out) return rec_no_memory();
  if (!strcmp(type, "mamba") || !strcmp(type, "mamba2"))
    put_mamba(&w, type[5] == '2');
  else if (!strcmp(type, "gla"))
    put_gla(&w);
  else if (!strcmp(type, "gated_deltanet"))
    put_gated_deltanet(&w);
  else if (!strcmp(type, "rwkv6"))
    put_rwkv6(&w);
  else if (!strcmp(type, "rwkv7"))
    put_rwkv7(&w);
  else
    w.s.status = rec_fail(
        REC_ERROR_UNSUPPORTED,
        "config.json: expected a model_type of mamba, mamba2, gla, gated_deltanet, rwkv6 or rwkv7, found '%.100s'", type);
  if (fclose(w.out) && !w.s.status) w.s.status = rec_no_memory();
  if (!w.s.status) return REC_OK;
  free(*text);
  *text = NULL;
  return w.s.status;
}
