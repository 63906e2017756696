// The way back: the config.json and the shapes that the weights of a model have in public, told from
// their names and sizes.
#include <stdio.h>
#include <string.h>

#include "runtime/train/model/public.h"
#include "runtime/train/model/public_settings.h"

static const model_parameter *find(const train_model *m, const char *name) {
  for (int i = 0; i < m->parameter_count; i++)
    if (!strcmp(m->parameters[i].name, name)) return &m->parameters[i];
  return NULL;
}

// ---- shapes -------------------------------------------------------------------------------------

typedef enum shape_rule { AS_IT_IS, FLAT, WITHIN_TWO_ONES, AS_MATRIX } shape_rule;

static shape_rule rule_of(const train_model *m, const char *name) {
  static const struct {
    const char *end;
    shape_rule rule;
  } rules[] = {{".attn.x_r", WITHIN_TWO_ONES},
               {".attn.x_w", WITHIN_TWO_ONES},
               {".attn.x_k", WITHIN_TWO_ONES},
               {".attn.x_v", WITHIN_TWO_ONES},
               {".attn.x_a", WITHIN_TWO_ONES},
               {".attn.x_g", WITHIN_TWO_ONES},
               {".attn.k_k", FLAT},
               {".attn.k_a", FLAT},
               {".g_norm.weight", FLAT},
               {".g_norm.bias", FLAT},
               {".mixer.dt_bias", FLAT},
               {".mixer.D", FLAT},
               {".attn.A_log", FLAT},
               {".attn.dt_bias", FLAT},
               {".x_proj.2.weight", AS_MATRIX}};
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
    if (rec_ends_with(name, rules[i].end)) return rules[i].rule;
  // Mamba-1 has a matrix of them, Mamba-2, which has biases of dt of its own, one for each head.
  return rec_ends_with(name, ".mixer.A_log") && find(m, "backbone.layers.0.mixer.dt_bias") ? FLAT : AS_IT_IS;
}

int public_shape(const train_model *m, const model_parameter *p, int64_t shape[MOST_PUBLIC_AXES]) {
  switch (rule_of(m, p->name)) {
    case FLAT: shape[0] = p->elements; return 1;
    case WITHIN_TWO_ONES: shape[0] = shape[1] = 1, shape[2] = p->elements; return 3;
    case AS_MATRIX:
      shape[0] = p->rank ? p->shape[0] : 1;
      shape[1] = shape[0] ? p->elements / shape[0] : 0;
      return 2;
    case AS_IT_IS: break;
  }
  int rank = p->rank < MOST_PUBLIC_AXES ? p->rank : MOST_PUBLIC_AXES;
  memcpy(shape, p->shape, sizeof *shape * (size_t)rank);
  return rank;
}

// ---- config -------------------------------------------------------------------------------------

typedef struct sizes {
  const train_model *m;
  cJSON *config;
  bool missing;
} sizes;

// The axis of a weight of the first layer.
static int64_t axis(sizes *s, const char *name, int place) {
  const model_parameter *p = find(s->m, name);
  if (p && place < p->rank && p->shape[place] > 0) return p->shape[place];
  s->missing = true;
  return 1;
}

static int64_t elements(sizes *s, const char *name) {
  const model_parameter *p = find(s->m, name);
  if (p && p->elements > 0) return p->elements;
  s->missing = true;
  return 1;
}

static int layer_count(const train_model *m, const char *prefix) {
  int count = 0, layer;
  size_t length = strlen(prefix);
  for (int i = 0; i < m->parameter_count; i++)
    if (!strncmp(m->parameters[i].name, prefix, length) && sscanf(m->parameters[i].name + length, "%d.", &layer) == 1 &&
        layer >= count)
      count = layer + 1;
  return count;
}

static void add_number(sizes *s, const char *key, double x) { cJSON_AddNumberToObject(s->config, key, x); }

// A number that Python shall read as a float though it may be whole.
static void add_real(sizes *s, const char *key, double x) {
  char text[SHORTEST_TEXT + 4];
  shortest_text(x, text);
  if (!strpbrk(text, ".e")) strcat(text, ".0");
  cJSON_AddRawToObject(s->config, key, text);
}

static void add_flag(sizes *s, const char *key, bool on) { cJSON_AddBoolToObject(s->config, key, on); }

static bool has(const sizes *s, const char *name) { return find(s->m, name) != NULL; }

// What the norm of this weight adds. Norms that are written out say nothing of it; theirs is 1e-5.
static void add_eps(sizes *s, const char *key, const char *norm) {
  const model_parameter *p = find(s->m, norm);
  add_real(s, key, p && p->eps > 0 ? p->eps : 1e-5);
}

static void add_common(sizes *s, const char *architecture, const char *type, const char *table, const char *prefix) {
  const char *names[] = {architecture};
  bool tied = !find(s->m, "lm_head.weight");
  cJSON_AddItemToObject(s->config, "architectures", cJSON_CreateStringArray(names, 1));
  cJSON_AddStringToObject(s->config, "model_type", type);
  add_number(s, "vocab_size", (double)axis(s, table, 0));
  add_number(s, "hidden_size", (double)axis(s, table, 1));
  add_number(s, "num_hidden_layers", layer_count(s->m, prefix));
  cJSON_AddBoolToObject(s->config, "tie_word_embeddings", tied);
  cJSON_AddStringToObject(s->config, "torch_dtype", "float32");
}

static void add_mamba(sizes *s) {
  const char *original = "backbone.embedding.weight", *table = "backbone.embeddings.weight";
  if (find(s->m, original)) table = original;
  int64_t D = axis(s, table, 1);
  add_common(s, "MambaForCausalLM", "mamba", table, "backbone.layers.");
  add_number(s, "state_size", (double)axis(s, "backbone.layers.0.mixer.A_log", 1));
  add_number(s, "intermediate_size", (double)axis(s, "backbone.layers.0.mixer.A_log", 0));
  add_number(s, "expand", (double)(axis(s, "backbone.layers.0.mixer.A_log", 0) / D));
  add_number(s, "conv_kernel", (double)axis(s, "backbone.layers.0.mixer.conv1d.weight", 2));
  add_number(s, "time_step_rank", (double)axis(s, "backbone.layers.0.mixer.dt_proj.weight", 1));
}

static void add_mamba2(sizes *s) {
  const char *original = "backbone.embedding.weight", *table = "backbone.embeddings.weight";
  if (find(s->m, original)) table = original;
  int64_t D = axis(s, table, 1), E = axis(s, "backbone.layers.0.mixer.out_proj.weight", 1),
          H = elements(s, "backbone.layers.0.mixer.A_log"), G = axis(s, "backbone.layers.0.mixer.A_log", 0),
          both = axis(s, "backbone.layers.0.mixer.conv1d.weight", 0) - E;
  add_common(s, "Mamba2ForCausalLM", "mamba2", table, "backbone.layers.");
  add_number(s, "expand", (double)(E / D));
  add_number(s, "num_heads", (double)H);
  add_number(s, "head_dim", (double)(E / H));
  add_number(s, "n_groups", (double)G);
  add_number(s, "state_size", (double)(both / 2 / G));
  add_number(s, "conv_kernel", (double)axis(s, "backbone.layers.0.mixer.conv1d.weight", 2));
  if (!has(s, "backbone.layers.0.mixer.norm.weight")) add_flag(s, "rmsnorm", false);
}

// What both Mambas say.
static void add_mamba_form(sizes *s) {
  add_flag(s, "use_bias", has(s, "backbone.layers.0.mixer.in_proj.bias"));
  add_flag(s, "use_conv_bias", has(s, "backbone.layers.0.mixer.conv1d.bias"));
  add_flag(s, "residual_in_fp32", true);
  cJSON_AddStringToObject(s->config, "hidden_act", "silu");
  add_eps(s, "layer_norm_epsilon", "backbone.norm_f.weight");
  add_eps(s, "norm_eps", "backbone.norm_f.weight");  // its name in flash-linear-attention
}

// What both say of their blocks and convolutions.
static void add_gated_blocks(sizes *s) {
  add_number(s, "intermediate_size", (double)axis(s, "model.layers.0.mlp.gate_proj.weight", 0));
  add_eps(s, "norm_eps", "model.norm.weight");
  bool convolutions = has(s, "model.layers.0.attn.q_conv1d.weight");
  add_flag(s, "use_short_conv", convolutions);
  if (convolutions) add_number(s, "conv_size", (double)axis(s, "model.layers.0.attn.q_conv1d.weight", 2));
}

static void add_gla(sizes *s) {
  const char *fused = "model.layers.0.attn.g_norm_swish_gate.weight", *apart = "model.layers.0.attn.g_norm.weight";
  double D = (double)axis(s, "model.embeddings.weight", 1), key = (double)axis(s, "model.layers.0.attn.q_proj.weight", 0),
         value = (double)axis(s, "model.layers.0.attn.o_proj.weight", 1),
         head = (double)elements(s, has(s, fused) ? fused : apart),
         shared = (double)axis(s, "model.layers.0.attn.v_proj.weight", 0);
  add_common(s, "GLAForCausalLM", "gla", "model.embeddings.weight", "model.layers.");
  add_real(s, "expand_k", key / D);
  add_real(s, "expand_v", value / D);
  add_number(s, "num_heads", value / head);
  if (shared != value) add_number(s, "num_kv_heads", shared / head);
  bool gate = has(s, "model.layers.0.attn.g_proj.weight");
  add_flag(s, "use_output_gate", gate);
  add_flag(s, "fuse_norm", !gate || has(s, fused));
  add_gated_blocks(s);
}

static void add_gated_deltanet(sizes *s) {
  int64_t H = axis(s, "model.layers.0.attn.A_log", 0), values = elements(s, "model.layers.0.attn.A_log"),
          K = axis(s, "model.layers.0.attn.q_proj.weight", 0) / H;
  add_common(s, "GatedDeltaNetForCausalLM", "gated_deltanet", "model.embeddings.weight", "model.layers.");
  add_number(s, "num_heads", (double)H);
  if (values != H) add_number(s, "num_v_heads", (double)values);
  add_number(s, "head_dim", (double)K);
  add_real(s, "expand_v", (double)elements(s, "model.layers.0.attn.o_norm.weight") / (double)(K ? K : 1));
  add_flag(s, "use_gate", has(s, "model.layers.0.attn.g_proj.weight"));
  add_gated_blocks(s);
}

static void add_rwkv6(sizes *s) {
  double D = (double)axis(s, "model.embeddings.weight", 1);
  add_common(s, "RWKV6ForCausalLM", "rwkv6", "model.embeddings.weight", "model.layers.");
  add_real(s, "expand_k", (double)axis(s, "model.layers.0.attn.r_proj.linear.weight", 0) / D);
  add_real(s, "expand_v", (double)axis(s, "model.layers.0.attn.v_proj.linear.weight", 0) / D);
  add_number(s, "num_heads", (double)axis(s, "model.layers.0.attn.bonus", 0));
  add_number(s, "proj_low_rank_dim", (double)(axis(s, "model.layers.0.attn.x_proj.0.linear.weight", 0) / 5));
  add_number(s, "gate_low_rank_dim", (double)axis(s, "model.layers.0.attn.w_proj.linear.lora.0.weight", 0));
  add_number(s, "intermediate_size", (double)axis(s, "model.layers.0.ffn.key.linear.weight", 0));
  add_real(s, "norm_eps", 1e-5);
}

static void add_rwkv7(sizes *s) {
  add_common(s, "RWKV7ForCausalLM", "rwkv7", "model.embeddings.weight", "model.layers.");
  add_number(s, "num_heads", (double)axis(s, "model.layers.0.attn.r_k", 0));
  add_number(s, "head_dim", (double)axis(s, "model.layers.0.attn.r_k", 1));
  add_number(s, "decay_low_rank_dim", (double)axis(s, "model.layers.0.attn.w_lora.lora.0.weight", 0));
  add_number(s, "a_low_rank_dim", (double)axis(s, "model.layers.0.attn.a_lora.lora.0.weight", 0));
  add_number(s, "gate_low_rank_dim", (double)axis(s, "model.layers.0.attn.g_lora.lora.0.weight", 0));
  if (find(s->m, "model.layers.1.attn.v_lora.lora.0.weight"))
    add_number(s, "v_low_rank_dim", (double)axis(s, "model.layers.1.attn.v_lora.lora.0.weight", 0));
  add_number(s, "value_dim", (double)axis(s, "model.layers.0.attn.v_proj.weight", 0));
  add_number(s, "intermediate_size", (double)axis(s, "model.layers.0.ffn.key.weight", 0));
  add_real(s, "norm_eps", 1e-5);
}

// By a weight that no other architecture has.
static const struct {
  const char *weight;
  void (*add)(sizes *s);
} architectures[] = {{"backbone.layers.0.mixer.dt_proj.weight", add_mamba},
                     {"backbone.layers.0.mixer.dt_bias", add_mamba2},
                     {"model.layers.0.attn.gk_proj.0.weight", add_gla},
                     {"model.layers.0.attn.a_proj.weight", add_gated_deltanet},
                     {"model.layers.0.attn.bonus", add_rwkv6},
                     {"model.layers.0.attn.r_k", add_rwkv7}};

rec_status public_config(const train_model *m, cJSON **config) {
  sizes s = {.m = m, .config = cJSON_CreateObject()};
  *config = NULL;
  if (!s.config) return rec_no_memory();
  for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++) {
    if (!find(m, architectures[i].weight)) continue;
    architectures[i].add(&s);
    if (i < 2) add_mamba_form(&s);
    if (s.missing) break;
    *config = s.config;
    return REC_OK;
  }
  cJSON_Delete(s.config);
  return rec_fail(REC_ERROR_UNSUPPORTED,
                  "expected a model whose weights have the names of a public one (as rec import writes it), found '%s' of %s",
                  m->parameter_count ? m->parameters[0].name : "none", m->text);
}
