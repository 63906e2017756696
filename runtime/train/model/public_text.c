#include "runtime/train/model/public_text.h"

static const char *if_on(bool on, const char *text) { return on ? text : ""; }

// `sizes`: further ones of the header, ", H = 2".
static void put_imported_model(FILE *out, const public_values *v, const char *sizes) {
  fprintf(out,
          "model Imported(vocab = %lld, D = %lld%s) {\n  input token\n  let x0[D] = embed(token, "
          "vocab, name = \"%s\")\n",
          (long long)v->symbols, (long long)v->D, sizes, v->table);
}

// The end of the model, and a block that has nothing to do but to be continued.
static void put_end(FILE *out, const public_values *v, const char *norm, const char *weight,
                    const char *eps) {
  fprintf(out,
          "  output logits[vocab] = unembed(%s(x%lld, name = \"%s\"%s)%s)\n}\n\n"
          "/// The imported weights; continue with `train NAME after imported { .. }`.\n"
          "train imported {\n"
          "  model     Imported\n"
          "  data      tokens(\"tokens.bin\")\n"
          "  context   64   batch 1   steps 1\n"
          "  optimizer adamw(lr = 1e-4)\n"
          "}\n",
          norm, (long long)v->layers, weight, eps,
          if_on(!v->tied, ", tied = off, name = \"lm_head\""));
}

// ---- mamba, mamba2 ------------------------------------------------------------------------------

static void put_mamba1_layer(FILE *out, const public_values *v) {
  const char *bias = if_on(v->bias, ", bias = on");
  fprintf(out,
          "layer Mixer(D, E, K, N, W) {\n"
          "  input u[D]\n"
          "  let (x[E], z[E]) = linear(u, name = \"in_proj\"%s)\n"
          "  let x2 = silu(conv1d(x, width = W%s))\n"
          "  let (r[K], B[N], C[N]) = linear(x2, name = \"x_proj\")\n"
          "  let dt[E] = linear(r, name = \"dt_proj\")\n"
          "  let y     = selective_scan(x2, dt, B, C, dt_bias = \"dt_proj.bias\")\n"
          "  output v[D] = linear(y * silu(z), name = \"out_proj\"%s)\n"
          "}\n\n",
          bias, if_on(!v->conv_bias, ", bias = off"), bias);
}

static void put_mamba2_layer(FILE *out, const public_values *v) {
  const char *bias = if_on(v->bias, ", bias = on");
  char mixed[160];
  if (v->norm)
    snprintf(mixed, sizeof mixed, "rms_norm[R,P](%s, weight = [G,R,P]%s)%s",
             v->norm_first ? "y" : "y * silu(z)", v->eps_text, if_on(v->norm_first, " * silu(z)"));
  else
    snprintf(mixed, sizeof mixed, "y * silu(z)");
  fprintf(out,
          "layer Mixer(D, G, R, P, N, W) {\n"
          "  input u[D]\n"
          "  let (z[G,R,P], x[G,R,P], B[G,N], C[G,N], dt[G,R]) = linear(u, name = \"in_proj\"%s)\n"
          "  let (x2, B2, C2) = silu(conv1d((x, B, C), width = W%s))\n"
          "  let y = ssd(x2, dt, B2, C2)\n"
          "  output v[D] = linear(%s, name = \"out_proj\"%s)\n"
          "}\n\n",
          bias, if_on(!v->conv_bias, ", bias = off"), mixed, bias);
}

static void put_blocks_of_mamba(FILE *out, const public_values *v, const char *layer,
                                const char *heads) {
  for (long long i = 0; i < v->layers; i++)
    fprintf(out,
            "  let x%lld = x%lld + %s(rms_norm[D](x%lld, name = \"backbone.layers.%lld.norm\"%s), "
            "%s, N = %lld, W = %lld, name = \"backbone.layers.%lld.mixer\")\n",
            i + 1, i, layer, i, i, v->eps_text, heads, (long long)v->N, (long long)v->W, i);
  put_end(out, v, "rms_norm[D]", "backbone.norm_f", v->eps_text);
}

// Layers are written out where they are not those of the standard library.
void put_mamba(FILE *out, const public_values *v) {
  bool standard = !v->bias && v->conv_bias;
  char heads[80];
  snprintf(heads, sizeof heads, "E = %lld, K = %lld", (long long)v->E, (long long)v->K);
  fprintf(out, "import std.mamba1\n\n");
  if (!standard) put_mamba1_layer(out, v);
  put_imported_model(out, v, "");
  put_blocks_of_mamba(out, v, standard ? "Mamba1" : "Mixer", heads);
}

void put_mamba2(FILE *out, const public_values *v) {
  bool standard = !v->bias && v->conv_bias && v->norm && !v->norm_first && v->eps == 1e-5;
  char heads[120];
  snprintf(heads, sizeof heads, "G = %lld, R = %lld, P = %lld", (long long)v->G, (long long)v->R,
           (long long)v->P);
  fprintf(out, "import std.mamba2\n\n");
  if (!standard) put_mamba2_layer(out, v);
  put_imported_model(out, v, "");
  put_blocks_of_mamba(out, v, standard ? "Mamba2" : "Mixer", heads);
}

// ---- gla, gated_deltanet ------------------------------------------------------------------------

// `let q[H,K] = ..`, behind a convolution if there is one; its name is followed by a 2 then.
static void put_projection(FILE *out, const public_values *v, char name, const char *axes) {
  fprintf(out, "  let %c[%s] = linear(u, name = \"%c_proj\")\n", name, axes, name);
  if (v->convolutions)
    fprintf(out, "  let %c2 = silu(conv1d(%c, width = W, bias = off, name = \"%c_conv1d\"))\n",
            name, name, name);
}

// The end of the layer: a norm of each head, a gate.
static void put_layer_end(FILE *out, const public_values *v) {
  char gate[40] = "";
  if (v->gate) snprintf(gate, sizeof gate, " * %s(g)", v->gate_function);
  fprintf(out,
          "  output o[D] = linear(rms_norm[V](y, name = \"%s\"%s)%s, name = \"o_proj\")\n}\n\n",
          v->norm_name, v->eps_text, gate);
}

static const char *const gated_mlp =
    "layer MLP(D, F) {\n"
    "  input u[D]\n"
    "  let g[F] = linear(u, name = \"gate_proj\")\n"
    "  let h[F] = linear(u, name = \"up_proj\")\n"
    "  output v[D] = linear(silu(g) * h, name = \"down_proj\")\n"
    "}\n\n";

// Blocks of attention, each with R heads for one where `with_R`, and gated MLP, all behind norms.
static void put_gated_blocks(FILE *out, const public_values *v, bool with_R) {
  char R[40] = "", L[40] = "", W[40] = "";
  if (with_R) snprintf(R, sizeof R, "R = %lld, ", (long long)v->R);
  if (v->L) snprintf(L, sizeof L, ", L = %lld", (long long)v->L);
  if (v->convolutions) snprintf(W, sizeof W, ", W = %lld", (long long)v->W);
  fputs(gated_mlp, out);
  put_imported_model(out, v, "");
  for (long long i = 0; i < v->layers; i++)
    fprintf(out,
            "  let a%lld = x%lld + Attention(rms_norm[D](x%lld, name = "
            "\"model.layers.%lld.attn_norm\"%s), H = %lld, %sK = %lld, V = %lld%s%s, name = "
            "\"model.layers.%lld.attn\")\n"
            "  let x%lld = a%lld + MLP(rms_norm[D](a%lld, name = "
            "\"model.layers.%lld.mlp_norm\"%s), F = %lld, name = \"model.layers.%lld.mlp\")\n",
            i, i, i, i, v->eps_text, (long long)v->H, R, (long long)v->K, (long long)v->V, L, W, i,
            i + 1, i, i, i, v->eps_text, (long long)v->F, i);
  put_end(out, v, "rms_norm[D]", "model.norm", v->eps_text);
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

void put_gla(FILE *out, const public_values *v) {
  bool shared = v->R > 1;
  const char *after = if_on(v->convolutions, "2");
  char feature[3][24] = {"", "", ""};
  if (v->feature) snprintf(feature[0], sizeof feature[0], "%s(", v->feature);
  if (v->feature) snprintf(feature[1], sizeof feature[1], ")");
  fprintf(out, "import std.gla\n\n%s", if_on(shared, shared_gla));
  fprintf(out, "layer Attention(D, H, %sK, V, L%s) {\n  input u[D]\n", if_on(shared, "R, "),
          if_on(v->convolutions, ", W"));
  put_projection(out, v, 'q', shared ? "H,R,K" : "H,K");
  put_projection(out, v, 'k', "H,K");
  put_projection(out, v, 'v', "H,V");
  if (v->gate)
    fprintf(out, "  let g[%s] = linear(u, name = \"g_proj\")\n", shared ? "H,R,V" : "H,V");
  fprintf(out,
          "  let low[L] = linear(u, name = \"gk_proj.0\")\n"
          "  let gate[H,K] = linear(low, name = \"gk_proj.1\", bias = on)\n"
          "  let y = %s(%sq%s%s, %sk%s%s, v%s, gate)\n",
          shared ? "shared_gla" : "gla", feature[0], after, feature[1], feature[0], after,
          feature[1], after);
  put_layer_end(out, v);
  put_gated_blocks(out, v, shared);
}

// The standard library's, with R heads of values for each of keys and rates up to 2.
static void put_delta_rule(FILE *out, const public_values *v) {
  fprintf(out,
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
          if_on(v->negative, "; rates reach 2"), if_on(v->negative, "2 * "));
}

void put_gated_deltanet(FILE *out, const public_values *v) {
  bool standard = v->R == 1 && !v->negative;
  const char *heads = standard ? "H" : "H,R";
  char values[16];
  snprintf(values, sizeof values, "%s,V", heads);
  fprintf(out, "import std.gated_deltanet\n\n");
  if (!standard) put_delta_rule(out, v);
  fprintf(out, "layer Attention(D, H, %sK, V%s) {\n  input u[D]\n", if_on(!standard, "R, "),
          if_on(v->convolutions, ", W"));
  put_projection(out, v, 'q', "H,K");
  put_projection(out, v, 'k', "H,K");
  put_projection(out, v, 'v', values);
  if (!v->convolutions) fprintf(out, "  let (q2, k2, v2) = silu((q, k, v))\n");
  fprintf(out,
          "  let gate[%s] = linear(u, name = \"a_proj\")\n"
          "  let rate[%s] = linear(u, name = \"b_proj\")\n",
          heads, heads);
  if (v->gate) fprintf(out, "  let g[%s] = linear(u, name = \"g_proj\")\n", values);
  fprintf(out, "  let y = %s(q2, k2, v2, rate, gate)\n",
          standard ? "gated_deltanet" : "delta_rule");
  put_layer_end(out, v);
  put_gated_blocks(out, v, !standard);
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

// `mixer`: the call up to its input, `sizes`: behind that.
static void put_rwkv_block(FILE *out, const public_values *v, long long i, const char *mixer,
                           const char *sizes) {
  char x[32];
  snprintf(x, sizeof x, i ? "x%lld" : "p%lld", i);
  if (!i) fprintf(out, "  let p0 = LayerNorm(x0, name = \"model.layers.0.pre_norm\")\n");
  fprintf(out,
          "  let n%lld = LayerNorm(%s, name = \"model.layers.%lld.attn_norm\")\n"
          "  let %s(n%lld, %s, name = \"model.layers.%lld.attn\")\n"
          "  let a%lld = %s + y%lld\n"
          "  let x%lld = a%lld + MLP(LayerNorm(a%lld, name = \"model.layers.%lld.ffn_norm\"), F = "
          "%lld, name = \"model.layers.%lld.ffn\")\n",
          i, x, i, mixer, i, sizes, i, i, x, i, i + 1, i, i, i, (long long)v->F, i);
}

void put_rwkv6(FILE *out, const public_values *v) {
  char sizes[200], mixer[40];
  snprintf(sizes, sizeof sizes, "H = %lld, K = %lld, V = %lld, R = %lld, L = %lld", (long long)v->H,
           (long long)v->K, (long long)v->V, (long long)v->R, (long long)v->L);
  fprintf(out, "import std.norm\nimport std.rwkv6\n\n%s", rwkv6_mlp);
  put_imported_model(out, v, "");
  for (long long i = 0; i < v->layers; i++) {
    snprintf(mixer, sizeof mixer, "y%lld = RWKV6", i);
    put_rwkv_block(out, v, i, mixer, sizes);
  }
  put_end(out, v, "LayerNorm", "model.norm", "");
}

void put_rwkv7(FILE *out, const public_values *v) {
  char heads[80], first[200], later[220], mixer[40];
  snprintf(heads, sizeof heads, ", H = %lld, V = %lld", (long long)v->H, (long long)v->V);
  snprintf(first, sizeof first, "H = H, K = %lld, V = V, LW = %lld, LA = %lld, LG = %lld",
           (long long)v->K, (long long)v->LW, (long long)v->LA, (long long)v->LG);
  snprintf(later, sizeof later, "first, K = %lld, LW = %lld, LA = %lld, LG = %lld, LV = %lld",
           (long long)v->K, (long long)v->LW, (long long)v->LA, (long long)v->LG, (long long)v->LV);
  fprintf(out, "import std.norm\nimport std.rwkv7\n\n%s", rwkv7_mlp);
  put_imported_model(out, v, heads);
  for (long long i = 0; i < v->layers; i++) {
    snprintf(mixer, sizeof mixer, i ? "y%lld = RWKV7" : "(y%lld, first) = RWKV7First", i);
    put_rwkv_block(out, v, i, mixer, i ? later : first);
  }
  put_end(out, v, "LayerNorm", "model.norm", "");
}
