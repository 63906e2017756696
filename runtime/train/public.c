// config.json to a program of rec. Each architecture writes its layers one by one, so that the paths of
// the weights are the public names.
#include "runtime/train/public.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct writing {
  const cJSON *config;
  const tensor_folder *tensors;
  FILE *out;
  rec_status status;
} writing;

// ---- the config ---------------------------------------------------------------------------------

static const cJSON *member(const cJSON *object, const char *key) {
  return cJSON_GetObjectItemCaseSensitive(object, key);
}

static void wrong(writing *w, const char *key, const char *expected) {
  if (!w->status)
    w->status = rec_fail(REC_ERROR_UNSUPPORTED, "config.json: expected %s for '%s', found another",
                         expected, key);
}

// A whole number; `by_default` where the config has none, below 0: it must.
static int64_t whole(writing *w, const char *key, int64_t by_default) {
  const cJSON *item = member(w->config, key);
  if ((!item || cJSON_IsNull(item)) && by_default >= 0) return by_default;
  double x = cJSON_IsNumber(item) ? item->valuedouble : -1;
  if (!(x >= 1 && x <= 1 << 24) || x != floor(x)) wrong(w, key, "a whole number");
  return w->status ? 1 : (int64_t)x;
}

static double number(const writing *w, const char *key, double by_default) {
  const cJSON *item = member(w->config, key);
  return cJSON_IsNumber(item) ? item->valuedouble : by_default;
}

static bool flag(const writing *w, const char *key, bool by_default) {
  const cJSON *item = member(w->config, key);
  return cJSON_IsBool(item) ? cJSON_IsTrue(item) : by_default;
}

// Settings under which a layer is another one than rec's.
static void must_be(writing *w, const char *key, bool by_default, bool wanted) {
  if (flag(w, key, by_default) != wanted) wrong(w, key, wanted ? "true" : "false");
}

static void must_be_absent(writing *w, const char *key) {
  const cJSON *item = member(w->config, key);
  if (item && !cJSON_IsNull(item) && !(cJSON_IsArray(item) && !item->child))
    wrong(w, key, "nothing");
}

static void must_be_word(writing *w, const char *key, const char *word) {
  const cJSON *item = member(w->config, key);
  if (cJSON_IsString(item) && strcmp(item->valuestring, word) != 0) wrong(w, key, word);
}

// What a norm is multiplied with inside, so that rec's, which adds 1e-5, does as one that adds
// the config's number: norm(s x) with s^2 = 1e-5 / eps.
static double norm_scale(writing *w, const char *key, double by_default) {
  double eps = number(w, key, by_default);
  if (!(eps > 0 && eps < 1)) wrong(w, key, "a number between 0 and 1");
  return w->status ? 1 : sqrt(1e-5 / eps);
}

static void must_add_1e5(writing *w, const char *key) {
  if (fabs(number(w, key, 1e-5) - 1e-5) > 1e-12) wrong(w, key, "1e-05");
}

// Steps of time that are cut off would have to be so here, too: [0, Infinity] cuts nothing.
static void must_not_cut_steps(writing *w, const char *key) {
  const cJSON *item = member(w->config, key), *most = cJSON_GetArrayItem(item, 1);
  if (!item || cJSON_IsNull(item)) return;
  const cJSON *least = cJSON_GetArrayItem(item, 0);
  bool none = cJSON_IsNumber(least) && least->valuedouble == 0;
  bool all = cJSON_IsNumber(most)
                 ? most->valuedouble > 1e6
                 : most && most->valuestring && !strcmp(most->valuestring, "Infinity");
  if (!none || !all) wrong(w, key, "[0, Infinity]");
}

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

// "x" or "3.1623 * x"
static const char *scaled(double scale, const char *name, char text[64]) {
  if (fabs(scale - 1) < 1e-12)
    snprintf(text, 64, "%s", name);
  else
    snprintf(text, 64, "%.17g * %s", scale, name);
  return text;
}

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
  if (!symbols) symbols = whole(w, "vocab_size", -1);
  put(w,
      "model Imported(vocab = %lld, D = %lld%s) {\n  input token\n  let x0[D] = embed(token, "
      "vocab, "
      "name = \"%s\")\n",
      (long long)symbols, (long long)width, sizes, embedding);
}

// The end of the model, and a block that has nothing to do but to be continued.
static void put_end(writing *w, const char *norm, bool tied) {
  put(w, "  output logits[vocab] = unembed(%s%s)\n}\n\n", norm,
      tied ? "" : ", tied = off, name = \"lm_head\"");
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

// transformers has hidden_size, state-spaces/mamba d_model.
static bool is_original(const writing *w) { return member(w->config, "d_model") != NULL; }

static void put_mamba(writing *w, bool second) {
  bool original = is_original(w);
  const cJSON *ssm = original ? member(w->config, "ssm_cfg") : w->config;
  writing inner = {ssm, w->tensors, w->out, REC_OK};
  int64_t D = whole(w, original ? "d_model" : "hidden_size", -1),
          layers = whole(w, original ? "n_layer" : "num_hidden_layers", -1),
          expand = whole(&inner, "expand", 2),
          N = whole(&inner, original ? "d_state" : "state_size", second ? 128 : 16),
          W = whole(&inner, original ? "d_conv" : "conv_kernel", 4),
          P = second ? whole(&inner, original ? "headdim" : "head_dim", 64) : 1,
          G = second ? whole(&inner, original ? "ngroups" : "n_groups", original ? 1 : 8) : 1,
          K = (int64_t)number(&inner, original ? "dt_rank" : "time_step_rank", 0), E = expand * D;
  const char *embedding = original || axis_of(w, 0, "backbone.embedding.weight")
                              ? "backbone.embedding"
                              : "backbone.embeddings";
  // "auto": what the weights have, else a sixteenth of the width.
  if (K < 1 || K > E) K = axis_of(w, 1, "backbone.layers.0.mixer.dt_proj.weight");
  if (K < 1) K = (D + 15) / 16;
  must_not_cut_steps(&inner, original ? "dt_limit" : "time_step_limit");
  if (original) {
    must_be(&inner, "norm_before_gate", false, false);
    must_be(&inner, "rmsnorm", true, true);
  }
  if (inner.status) w->status = inner.status;
  must_be(w, "rms_norm", true, true);
  must_add_1e5(w, "layer_norm_epsilon");
  must_be(w, "use_conv_bias", true, true);
  must_be_word(w, "hidden_act", "silu");
  must_be_absent(w, "attn_layer_idx");
  if (second && (E % P || E / P % G)) wrong(w, "head_dim", "heads that divide the width");
  if (w->status) return;
  put(w, "import std.mamba%d\n\n", second ? 2 : 1);
  put_model(w, embedding, D, "");
  for (long long i = 0; i < layers; i++) {
    put(w,
        "  let x%lld = x%lld + Mamba%d(rms_norm[D](x%lld, name = \"backbone.layers.%lld.norm\"), ",
        i + 1, i, second ? 2 : 1, i, i);
    if (second)
      put(w, "G = %lld, R = %lld, P = %lld, ", (long long)G, (long long)(E / P / G), (long long)P);
    else
      put(w, "E = %lld, K = %lld, ", (long long)E, (long long)K);
    put(w, "N = %lld, W = %lld, name = \"backbone.layers.%lld.mixer\")\n", (long long)N,
        (long long)W, i);
  }
  char norm[80];
  snprintf(norm, sizeof norm, "rms_norm[D](x%lld, name = \"backbone.norm_f\")", (long long)layers);
  put_end(w, norm, flag(w, original ? "tie_embeddings" : "tie_word_embeddings", true));
}

// ---- gla, gated_deltanet ------------------------------------------------------------------------

static void put_gla_layer(writing *w, double scale) {
  char y[64];
  put(w,
      "import std.gla\n\n"
      "layer Attention(D, H, K, V, L) {\n"
      "  input u[D]\n"
      "  let q[H,K]    = linear(u, name = \"q_proj\")\n"
      "  let k[H,K]    = linear(u, name = \"k_proj\")\n"
      "  let v[H,V]    = linear(u, name = \"v_proj\")\n"
      "  let g[H,V]    = linear(u, name = \"g_proj\")\n"
      "  let low[L]    = linear(u, name = \"gk_proj.0\")\n"
      "  let gate[H,K] = linear(low, name = \"gk_proj.1\", bias = on)\n"
      "  let y         = gla(q, k, v, gate)\n"
      "  output o[D] = linear(rms_norm[V](%s, name = \"g_norm_swish_gate\") * silu(g), name = "
      "\"o_proj\")\n"
      "}\n\n",
      scaled(scale, "y", y));
}

static void put_gated_deltanet_layer(writing *w, double scale) {
  char y[64];
  put(w,
      "import std.gated_deltanet\n\n"
      "layer Attention(D, H, K, V, W) {\n"
      "  input u[D]\n"
      "  let q[H,K]  = linear(u, name = \"q_proj\")\n"
      "  let k[H,K]  = linear(u, name = \"k_proj\")\n"
      "  let v[H,V]  = linear(u, name = \"v_proj\")\n"
      "  let gate[H] = linear(u, name = \"a_proj\")\n"
      "  let rate[H] = linear(u, name = \"b_proj\")\n"
      "  let g[H,V]  = linear(u, name = \"g_proj\")\n"
      "  let q2      = silu(conv1d(q, width = W, bias = off, name = \"q_conv1d\"))\n"
      "  let k2      = silu(conv1d(k, width = W, bias = off, name = \"k_conv1d\"))\n"
      "  let v2      = silu(conv1d(v, width = W, bias = off, name = \"v_conv1d\"))\n"
      "  let y       = gated_deltanet(q2, k2, v2, rate, gate)\n"
      "  output o[D] = linear(rms_norm[V](%s, name = \"o_norm\") * silu(g), name = \"o_proj\")\n"
      "}\n\n",
      scaled(scale, "y", y));
}

// Blocks of attention and gated MLP, each behind its norm. `sizes`: of the attention.
static void put_gated_blocks(writing *w, double scale, const char *sizes) {
  int64_t D = whole(w, "hidden_size", 2048), layers = whole(w, "num_hidden_layers", -1),
          F = axis_of(w, 0, "model.layers.0.mlp.gate_proj.weight");
  if (!F) F = whole(w, "intermediate_size", 1);
  must_be_word(w, "hidden_act", "swish");
  must_be_absent(w, "attn");
  must_be_absent(w, "attnres_block_size");
  if (w->status) return;
  put(w, "%s", gated_mlp);
  put_model(w, "model.embeddings", D, "");
  for (long long i = 0; i < layers; i++) {
    char x[32], a[32], before[64];
    snprintf(x, sizeof x, "x%lld", i);
    snprintf(a, sizeof a, "a%lld", i);
    put(w,
        "  let %s = %s + Attention(rms_norm[D](%s, name = \"model.layers.%lld.attn_norm\"), %s, "
        "name = \"model.layers.%lld.attn\")\n",
        a, x, scaled(scale, x, before), i, sizes, i);
    put(w,
        "  let x%lld = %s + MLP(rms_norm[D](%s, name = \"model.layers.%lld.mlp_norm\"), F = %lld, "
        "name = \"model.layers.%lld.mlp\")\n",
        i + 1, a, scaled(scale, a, before), i, (long long)F, i);
  }
  char last[32], inside[64], norm[128];
  snprintf(last, sizeof last, "x%lld", (long long)layers);
  snprintf(norm, sizeof norm, "rms_norm[D](%s, name = \"model.norm\")",
           scaled(scale, last, inside));
  put_end(w, norm, flag(w, "tie_word_embeddings", false));
}

static void put_gla(writing *w) {
  int64_t D = whole(w, "hidden_size", 2048), H = whole(w, "num_heads", 4);
  double key = number(w, "expand_k", 0.5) * (double)D, value = number(w, "expand_v", 1) * (double)D;
  double scale = norm_scale(w, "norm_eps", 1e-6);
  int64_t L = axis_of(w, 0, "model.layers.0.attn.gk_proj.0.weight");
  char sizes[160];
  if (whole(w, "num_kv_heads", H) != H) wrong(w, "num_kv_heads", "as many as num_heads");
  must_be_absent(w, "feature_map");
  must_be_absent(w, "clamp_min");
  must_be(w, "use_short_conv", false, false);
  must_be(w, "use_output_gate", true, true);
  must_be(w, "use_gk", true, true);
  must_be(w, "use_gv", false, false);
  must_be(w, "fuse_norm", true, true);
  if (w->status) return;
  snprintf(sizes, sizeof sizes, "H = %lld, K = %lld, V = %lld, L = %lld", (long long)H,
           (long long)key / (long long)H, (long long)value / (long long)H, (long long)(L ? L : 16));
  put_gla_layer(w, scale);
  put_gated_blocks(w, scale, sizes);
}

static void put_gated_deltanet(writing *w) {
  int64_t H = whole(w, "num_heads", 6), K = whole(w, "head_dim", 256), W = whole(w, "conv_size", 4);
  double V = (double)K * number(w, "expand_v", 2), scale = norm_scale(w, "norm_eps", 1e-6);
  char sizes[160];
  if (whole(w, "num_v_heads", H) != H) wrong(w, "num_v_heads", "as many as num_heads");
  must_be(w, "use_gate", true, true);
  must_be(w, "use_short_conv", true, true);
  must_be(w, "allow_neg_eigval", false, false);
  if (w->status) return;
  snprintf(sizes, sizeof sizes, "H = %lld, K = %lld, V = %lld, W = %lld", (long long)H,
           (long long)K, (long long)V, (long long)W);
  put_gated_deltanet_layer(w, scale);
  put_gated_blocks(w, scale, sizes);
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
  int64_t F = axis_of(
      w, 0, seventh ? "model.layers.0.ffn.key.weight" : "model.layers.0.ffn.key.linear.weight");
  must_be_word(w, "hidden_act", "sqrelu");
  must_be(w, "norm_first", true, true);
  must_be(w, "norm_bias", true, true);
  must_be_absent(w, "attn");
  must_add_1e5(w, "norm_eps");
  return F ? F : whole(w, "intermediate_size", -1);
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
    put(w, "  let y%lld = RWKV%d(n%lld, %s%s, name = \"model.layers.%lld.attn\")\n", i,
        seventh ? 7 : 6, i, seventh ? "first, " : "", sizes, i);
  put(w, "  let a%lld = %s + y%lld\n", i, x, i);
  put(w,
      "  let x%lld = a%lld + MLP(LayerNorm(a%lld, name = \"model.layers.%lld.ffn_norm\"), F = "
      "%lld, "
      "name = \"model.layers.%lld.ffn\")\n",
      i + 1, i, i, i, (long long)F, i);
}

static void put_rwkv_end(writing *w, int64_t layers) {
  char norm[80];
  snprintf(norm, sizeof norm, "LayerNorm(x%lld, name = \"model.norm\")", (long long)layers);
  put_end(w, norm, flag(w, "tie_word_embeddings", false));
}

static void put_rwkv6(writing *w) {
  int64_t D = whole(w, "hidden_size", 2048), layers = whole(w, "num_hidden_layers", -1),
          H = whole(w, "num_heads", 4), F = rwkv_width(w, false),
          R = whole(w, "proj_low_rank_dim", 32), L = whole(w, "gate_low_rank_dim", 64);
  double key = number(w, "expand_k", 0.5) * (double)D, value = number(w, "expand_v", 1) * (double)D;
  char sizes[200];
  if (w->status) return;
  snprintf(sizes, sizeof sizes, "H = %lld, K = %lld, V = %lld, R = %lld, L = %lld", (long long)H,
           (long long)key / (long long)H, (long long)value / (long long)H, (long long)R,
           (long long)L);
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
  return rank ? rank : whole(w, key, 64);
}

static void put_rwkv7(writing *w) {
  int64_t D = whole(w, "hidden_size", 2048), layers = whole(w, "num_hidden_layers", -1),
          K = whole(w, "head_dim", 64), F = rwkv_width(w, true),
          LW = rank_of(w, 0, "w", "decay_low_rank_dim"), LA = rank_of(w, 0, "a", "a_low_rank_dim"),
          LG = rank_of(w, 0, "g", "gate_low_rank_dim"), LV = rank_of(w, 1, "v", "v_low_rank_dim"),
          V = axis_of(w, 0, "model.layers.0.attn.v_proj.weight");
  char heads[80], first[200], later[220];
  if (D % K) wrong(w, "head_dim", "heads that divide hidden_size");
  if (w->status) return;
  int64_t H = D / K;
  snprintf(heads, sizeof heads, ", H = %lld, V = %lld", (long long)H,
           (long long)(V && V % H == 0 ? V / H : K));
  snprintf(first, sizeof first, "H = H, K = %lld, V = V, LW = %lld, LA = %lld, LG = %lld",
           (long long)K, (long long)LW, (long long)LA, (long long)LG);
  snprintf(later, sizeof later, "K = %lld, LW = %lld, LA = %lld, LG = %lld, LV = %lld",
           (long long)K, (long long)LW, (long long)LA, (long long)LG, (long long)LV);
  put(w, "import std.norm\nimport std.rwkv7\n\n%s", rwkv7_mlp);
  put_model(w, "model.embeddings", D, heads);
  for (long long i = 0; i < layers; i++) put_rwkv_block(w, i, i ? later : first, F, true);
  put_rwkv_end(w, layers);
}

// ---- architectures ------------------------------------------------------------------------------

static const char *architecture(const cJSON *config) {
  const cJSON *type = member(config, "model_type");
  if (cJSON_IsString(type)) return type->valuestring;
  const cJSON *layer = member(member(config, "ssm_cfg"), "layer");
  if (!member(config, "d_model")) return "none";
  return cJSON_IsString(layer) && !strcmp(layer->valuestring, "Mamba2") ? "mamba2" : "mamba";
}

rec_status public_program(const cJSON *config, const tensor_folder *tensors, char **text) {
  const char *type = architecture(config);
  size_t size;
  *text = NULL;
  writing w = {config, tensors, open_memstream(text, &size), REC_OK};
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
    w.status = rec_fail(REC_ERROR_UNSUPPORTED,
                        "config.json: expected a model_type of mamba, mamba2, gla, gated_deltanet, "
                        "rwkv6 or rwkv7, found '%.100s'",
                        type);
  if (fclose(w.out) && !w.status) w.status = rec_no_memory();
  if (!w.status) return REC_OK;
  free(*text);
  *text = NULL;
  return w.status;
}
