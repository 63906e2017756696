// config.json to a program of rec, and weights with public names to a config.json. A family says
// its settings once for both directions; what weights tell is asked in both.
#include "runtime/train/model/public.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/base/text.h"
#include "runtime/train/model/public_settings.h"
#include "runtime/train/model/public_text.h"

// ---- what weights tell --------------------------------------------------------------------------

// Those of a folder, or those of a model.
typedef struct weights {
  const tensor_folder *folder;
  const train_model *model;
} weights;

static int64_t axis(const weights *w, const char *name, int place) {
  const model_parameter *p = w->model ? train_model_parameter(w->model, name) : NULL;
  const rec_tensor *t = w->folder ? tensor_folder_find(w->folder, name) : NULL;
  if (p) return place < p->rank ? p->shape[place] : 0;
  return t && place < t->rank ? t->shape[place] : 0;
}

static int64_t weight_elements(const weights *w, const char *name) {
  const model_parameter *p = w->model ? train_model_parameter(w->model, name) : NULL;
  const rec_tensor *t = w->folder ? tensor_folder_find(w->folder, name) : NULL;
  return p ? p->elements : t ? (int64_t)(t->bytes / rec_dtype_size(t->dtype)) : 0;
}

static int64_t count_layers(const weights *w, const char *prefix) {
  int count = 0, layer;
  size_t length = strlen(prefix);
  for (int i = 0; w->model && i < w->model->parameter_count; i++) {
    const char *name = w->model->parameters[i].name;
    if (!strncmp(name, prefix, length) && sscanf(name + length, "%d.", &layer) == 1 &&
        layer >= count && layer < INT_MAX)
      count = layer + 1;
  }
  return count;
}

// What the norm of this weight adds. Norms that are written out say nothing of it; theirs is 1e-5.
static double eps_of(const weights *w, const char *norm) {
  const model_parameter *p = w->model ? train_model_parameter(w->model, norm) : NULL;
  return p && p->eps > 0 ? p->eps : 1e-5;
}

static int64_t quotient_or_zero(int64_t a, int64_t b) { return b ? a / b : 0; }

// ---- mamba, mamba2: transformers, flash-linear-attention and state-spaces/mamba --------------

#define MIXER "backbone.layers.0.mixer."
#define ONE_TABLE "backbone.embedding"  // of state-spaces/mamba
#define TABLE "backbone.embeddings"

// The `model_type` tells state-spaces/mamba apart, which writes none; where others have added one,
// `hidden_size` is absent. Without a model_type the table does. flash-linear-attention writes
// `norm_eps`, transformers `layer_norm_epsilon`; a config that one of the two has loaded from the
// other and saved has both.
static config_writer writer_of(const settings *s, const weights *w) {
  if (!s->read) return BY_EITHER;
  bool original = config_has(s, "model_type")
                      ? config_has(s, "d_model") && !config_has(s, "hidden_size")
                      : weight_elements(w, ONE_TABLE ".weight") > 0;
  if (original) return BY_STATE_SPACES;
  if (!config_has(s, "norm_eps")) return BY_TRANSFORMERS;
  return config_has(s, "layer_norm_epsilon") ? BY_EITHER : BY_FLA;
}

static void set_mamba_model(settings *s, public_values *v, const weights *w) {
  s->writer = writer_of(s, w);
  bool original = s->writer == BY_STATE_SPACES;
  v->table = weight_elements(w, TABLE ".weight") || !weight_elements(w, ONE_TABLE ".weight")
                 ? TABLE
                 : ONE_TABLE;
  const char *table = !strcmp(v->table, TABLE) ? TABLE ".weight" : ONE_TABLE ".weight";
  config_open_size(s, &v->symbols, "vocab_size", NEEDED, axis(w, table, 0));
  config_size(s, &v->D, original ? "d_model" : "hidden_size", NEEDED, axis(w, table, 1));
  config_size(s, &v->layers, original ? "n_layer" : "num_hidden_layers", NEEDED,
              count_layers(w, "backbone.layers."));
  config_flag(s, &v->tied, original ? "tie_embeddings" : "tie_word_embeddings", true,
              !weight_elements(w, "lm_head.weight"));
  config_tell_word(s, "torch_dtype", "float32");
}

// One number, by the name that each library has for it. state-spaces/mamba has none.
static void set_eps(settings *s, public_values *v, const weights *w) {
  v->eps = 1e-5;
  if (s->writer == BY_STATE_SPACES) return;
  if (s->writer != BY_FLA)
    config_eps(s, &v->eps, "layer_norm_epsilon", 1e-5, eps_of(w, "backbone.norm_f.weight"));
  double eps = v->eps;
  if (s->writer != BY_TRANSFORMERS) config_eps(s, &v->eps, "norm_eps", eps, eps);
  if (s->writer == BY_EITHER)
    config_must(s, "norm_eps", v->eps == eps, "the number of 'layer_norm_epsilon'");
}

static void set_mamba_forms(settings *s, public_values *v, const weights *w) {
  bool original = s->writer == BY_STATE_SPACES;
  config_flag(s, &v->bias, original ? "bias" : "use_bias", false,
              weight_elements(w, MIXER "in_proj.bias"));
  config_flag(s, &v->conv_bias, original ? "conv_bias" : "use_conv_bias", true,
              weight_elements(w, MIXER "conv1d.bias"));
  config_tell_flag(s, "residual_in_fp32", true);
  config_tell_word(s, "hidden_act", "silu");
  set_eps(s, v, w);
  if (original) {
    config_must_be(s, "rms_norm", true);
    config_must_be_absent(s, "attn_layer_idx");
  } else
    config_must_be_silu(
        s, "hidden_act");  // libraries disagree about what another function does to the gate
}

static void set_mamba(settings *s, public_values *v, const weights *w) {
  set_mamba_model(s, v, w);
  bool original = s->writer == BY_STATE_SPACES;
  config_size(s, &v->N, original ? "d_state" : "state_size", 16, axis(w, MIXER "A_log", 1));
  config_tell_size(s, "intermediate_size", axis(w, MIXER "A_log", 0));
  config_ratio(s, &v->E, "expand", 2, v->D, axis(w, MIXER "A_log", 0));
  config_size(s, &v->W, original ? "d_conv" : "conv_kernel", 4, axis(w, MIXER "conv1d.weight", 2));
  config_automatic_size(s, &v->K, original ? "dt_rank" : "time_step_rank", (v->D + 15) / 16,
                        axis(w, MIXER "dt_proj.weight", 1));
  set_mamba_forms(s, v, w);
}

// transformers always has the norm of the gated values, behind the gate, and reads no setting of
// it. Where it may be the writer or not, the weights tell whether there is one.
static void set_gated_norm(settings *s, public_values *v, const weights *w) {
  bool there = weight_elements(w, MIXER "norm.weight"),
       read = s->writer == BY_FLA || s->writer == BY_STATE_SPACES;
  v->norm = there || s->writer == BY_TRANSFORMERS;
  if (read || !v->norm) config_flag(s, &v->norm, "rmsnorm", read, false);
  v->norm_first = s->writer != BY_TRANSFORMERS && config_read_flag(s, "norm_before_gate", false);
  config_must(s, "norm_before_gate", read || !v->norm_first,
              "one of 'norm_eps' and 'layer_norm_epsilon', which tell whose config it is,");
}

// Bounds of time steps and forms of D that no program has.
static void refuse_forms_of_mamba2(settings *s) {
  if (s->writer != BY_STATE_SPACES) config_must_not_bound(s, "time_step_limit");
  if (s->writer == BY_TRANSFORMERS) return;
  config_must_not_bound(s, "dt_limit");
  config_must_be(s, "D_has_hdim", false);
  if (s->writer == BY_STATE_SPACES) config_must_be_absent(s, "d_ssm");
}

static void set_mamba2(settings *s, public_values *v, const weights *w) {
  int64_t heads = weight_elements(w, MIXER "A_log"), convolved = axis(w, MIXER "conv1d.weight", 0);
  set_mamba_model(s, v, w);
  bool original = s->writer == BY_STATE_SPACES;
  const char *head = original ? "headdim" : "head_dim";
  config_ratio(s, &v->E, "expand", 2, v->D, axis(w, MIXER "out_proj.weight", 1));
  config_tell_size(s, "num_heads", heads);
  config_size(s, &v->P, head, 64, quotient_or_zero(v->E, heads));
  config_size(s, &v->G, original ? "ngroups" : "n_groups", s->writer == BY_TRANSFORMERS ? 8 : 1,
              axis(w, MIXER "A_log", 0));
  config_size(s, &v->N, original ? "d_state" : "state_size", 128,
              quotient_or_zero((convolved - v->E) / 2, v->G));
  config_size(s, &v->W, original ? "d_conv" : "conv_kernel", 4, axis(w, MIXER "conv1d.weight", 2));
  set_gated_norm(s, v, w);
  v->R = quotient_or_zero(quotient_or_zero(v->E, v->P), v->G);
  config_must(s, head, v->R * v->P * v->G == v->E,
              "a size of heads that divides the width, in groups of as many");
  set_mamba_forms(s, v, w);
  refuse_forms_of_mamba2(s);
}

// ---- gla, gated_deltanet: flash-linear-attention ---------------------------------------------

#define LAYER "model.layers.0."
#define ATTN LAYER "attn."

static void set_fla_model(settings *s, public_values *v, const weights *w) {
  v->table = "model.embeddings";
  config_open_size(s, &v->symbols, "vocab_size", NEEDED, axis(w, "model.embeddings.weight", 0));
  config_size(s, &v->D, "hidden_size", 2048, axis(w, "model.embeddings.weight", 1));
  config_size(s, &v->layers, "num_hidden_layers", NEEDED, count_layers(w, "model.layers."));
  config_flag(s, &v->tied, "tie_word_embeddings", false, !weight_elements(w, "lm_head.weight"));
  config_tell_word(s, "torch_dtype", "float32");
}

// Blocks of attention, with convolutions `by_default`, and gated MLP.
static void set_gated_blocks(settings *s, public_values *v, const weights *w, bool by_default) {
  config_open_size(s, &v->F, "intermediate_size", 1, axis(w, LAYER "mlp.gate_proj.weight", 0));
  config_eps(s, &v->eps, "norm_eps", 1e-6, eps_of(w, "model.norm.weight"));
  config_flag(s, &v->convolutions, "use_short_conv", by_default,
              weight_elements(w, ATTN "q_conv1d.weight"));
  if (s->read || v->convolutions)
    config_size(s, &v->W, "conv_size", 4, axis(w, ATTN "q_conv1d.weight", 2));
  config_must_be_silu(s, "hidden_act");
  config_must_be_absent(s, "attn");
  config_must_be_absent(s, "attnres_block_size");
}

static const char *const divided = "a width that the heads divide";

// R heads of queries share the keys, values and decays of one of H.
static void set_gla(settings *s, public_values *v, const weights *w) {
  int64_t keys, values, heads, fused = weight_elements(w, ATTN "g_norm_swish_gate.weight"),
                               head = fused ? fused : weight_elements(w, ATTN "g_norm.weight"),
                               shared = quotient_or_zero(axis(w, ATTN "v_proj.weight", 0), head);
  set_fla_model(s, v, w);
  config_real_ratio(s, &keys, "expand_k", 0.5, v->D, axis(w, ATTN "q_proj.weight", 0));
  config_real_ratio(s, &values, "expand_v", 1, v->D, axis(w, ATTN "o_proj.weight", 1));
  config_size(s, &heads, "num_heads", 4, quotient_or_zero(values, head));
  if (s->read || shared != heads) config_size(s, &v->H, "num_kv_heads", heads, shared);
  v->R = quotient_or_zero(heads, v->H), v->K = quotient_or_zero(keys, heads),
  v->V = quotient_or_zero(values, heads);
  config_must(s, "num_kv_heads", v->H * v->R == heads, "a number that divides num_heads");
  config_must(s, "expand_k", v->K * heads == keys, divided);
  config_must(s, "expand_v", v->V * heads == values, divided);
  v->L = axis(w, ATTN "gk_proj.0.weight", 0);
  if (!v->L) v->L = 16;
  config_flag(s, &v->gate, "use_output_gate", true, weight_elements(w, ATTN "g_proj.weight"));
  config_flag(s, &v->fused, "fuse_norm", true, !v->gate || fused);
  v->norm_name = v->fused && v->gate ? "g_norm_swish_gate" : "g_norm";
  v->feature = config_function(s, "feature_map", NULL);
  v->gate_function = "silu";
  set_gated_blocks(s, v, w, false);
  config_must_be_absent(s, "clamp_min");
  config_must_be(s, "elementwise_affine", true);
  config_must_be(s, "use_gk", true);
  config_must_be(s, "use_gv", false);
}

// R heads of values and decays for each of H of queries and keys.
static void set_gated_deltanet(settings *s, public_values *v, const weights *w) {
  int64_t heads = weight_elements(w, ATTN "A_log");
  set_fla_model(s, v, w);
  config_size(s, &v->H, "num_heads", 6, axis(w, ATTN "A_log", 0));
  if (s->read || heads != v->H) config_size(s, &heads, "num_v_heads", v->H, heads);
  v->R = quotient_or_zero(heads, v->H);
  config_must(s, "num_v_heads", v->R * v->H == heads, "a multiple of num_heads");
  config_size(s, &v->K, "head_dim", 256, quotient_or_zero(axis(w, ATTN "q_proj.weight", 0), v->H));
  config_real_ratio(s, &v->V, "expand_v", 2, v->K, weight_elements(w, ATTN "o_norm.weight"));
  config_flag(s, &v->gate, "use_gate", true, weight_elements(w, ATTN "g_proj.weight"));
  v->negative = config_read_flag(s, "allow_neg_eigval", false);
  v->gate_function = config_function(s, "output_gate_activation", "silu");
  v->norm_name = "o_norm";
  set_gated_blocks(s, v, w, true);
}

// ---- rwkv6, rwkv7: flash-linear-attention ----------------------------------------------------

static void set_rwkv_forms(settings *s, public_values *v) {
  config_eps(s, &v->eps, "norm_eps", 1e-5, 1e-5);
  config_must(s, "norm_eps", v->eps == 1e-5, "1e-05");
  config_must_be_word(s, "hidden_act", "sqrelu");
  config_must_be(s, "norm_first", true);
  config_must_be(s, "norm_bias", true);
  config_must_be_absent(s, "attn");
}

static void set_rwkv6(settings *s, public_values *v, const weights *w) {
  int64_t keys, values;
  set_fla_model(s, v, w);
  config_real_ratio(s, &keys, "expand_k", 0.5, v->D, axis(w, ATTN "r_proj.linear.weight", 0));
  config_real_ratio(s, &values, "expand_v", 1, v->D, axis(w, ATTN "v_proj.linear.weight", 0));
  config_size(s, &v->H, "num_heads", 4, axis(w, ATTN "bonus", 0));
  v->K = quotient_or_zero(keys, v->H), v->V = quotient_or_zero(values, v->H);
  config_must(s, "expand_k", v->K * v->H == keys, divided);
  config_must(s, "expand_v", v->V * v->H == values, divided);
  config_size(s, &v->R, "proj_low_rank_dim", 32, axis(w, ATTN "x_proj.0.linear.weight", 0) / 5);
  config_size(s, &v->L, "gate_low_rank_dim", 64, axis(w, ATTN "w_proj.linear.lora.0.weight", 0));
  config_open_size(s, &v->F, "intermediate_size", NEEDED,
                   axis(w, LAYER "ffn.key.linear.weight", 0));
  set_rwkv_forms(s, v);
}

// Configs may leave the ranks open. The first layer has none of values.
static void set_rwkv7(settings *s, public_values *v, const weights *w) {
  int64_t first_of_values = axis(w, "model.layers.1.attn.v_lora.lora.0.weight", 0),
          values = axis(w, ATTN "v_proj.weight", 0);
  set_fla_model(s, v, w);
  config_tell_size(s, "num_heads", axis(w, ATTN "r_k", 0));
  config_size(s, &v->K, "head_dim", 64, axis(w, ATTN "r_k", 1));
  v->H = quotient_or_zero(v->D, v->K);
  config_must(s, "head_dim", v->H * v->K == v->D, "heads that divide hidden_size");
  config_open_size(s, &v->LW, "decay_low_rank_dim", 64, axis(w, ATTN "w_lora.lora.0.weight", 0));
  config_open_size(s, &v->LA, "a_low_rank_dim", 64, axis(w, ATTN "a_lora.lora.0.weight", 0));
  config_open_size(s, &v->LG, "gate_low_rank_dim", 64, axis(w, ATTN "g_lora.lora.0.weight", 0));
  if (s->read || first_of_values)
    config_open_size(s, &v->LV, "v_low_rank_dim", 64, first_of_values);
  config_tell_size(s, "value_dim", values);
  v->V = values && quotient_or_zero(values, v->H) * v->H == values ? quotient_or_zero(values, v->H)
                                                                   : v->K;
  config_open_size(s, &v->F, "intermediate_size", NEEDED, axis(w, LAYER "ffn.key.weight", 0));
  set_rwkv_forms(s, v);
}

// ---- families -----------------------------------------------------------------------------------

typedef struct family {
  const char *name;   // model_type
  const char *class;  // of Python
  const char *mark;   // a weight that no family above has
  void (*set)(settings *s, public_values *v, const weights *w);
  public_text *put;
} family;

static const family families[] = {
    {"mamba", "MambaForCausalLM", MIXER "dt_proj.weight", set_mamba, put_mamba},
    {"mamba2", "Mamba2ForCausalLM", MIXER "dt_bias", set_mamba2, put_mamba2},
    {"gla", "GLAForCausalLM", ATTN "gk_proj.0.weight", set_gla, put_gla},
    {"gated_deltanet", "GatedDeltaNetForCausalLM", ATTN "a_proj.weight", set_gated_deltanet,
     put_gated_deltanet},
    {"rwkv6", "RWKV6ForCausalLM", ATTN "bonus", set_rwkv6, put_rwkv6},
    {"rwkv7", "RWKV7ForCausalLM", ATTN "r_k", set_rwkv7, put_rwkv7}};
enum { FAMILY_COUNT = sizeof families / sizeof *families };

static const family *family_of_weights(const weights *w) {
  for (int i = 0; i < FAMILY_COUNT; i++)
    if (weight_elements(w, families[i].mark)) return &families[i];
  return NULL;
}

static rec_status refuse_family(const char *name) {
  char known[200] = "";
  for (int i = 0, length = 0; i < FAMILY_COUNT; i++)
    length += snprintf(known + length, sizeof known - (size_t)length, "%s%s",
                       i == 0                  ? ""
                       : i == FAMILY_COUNT - 1 ? " or "
                                               : ", ",
                       families[i].name);
  return rec_fail(REC_ERROR_UNSUPPORTED, "config.json: expected a model_type of %s, found '%.100s'",
                  known, name);
}

// Where the config names none, as that of state-spaces/mamba, the names of the weights tell.
static const char *family_name(const settings *s, const weights *w) {
  const cJSON *type = config_setting(s, "model_type");
  if (cJSON_IsString(type)) return type->valuestring;
  const family *f = family_of_weights(w);
  return f ? f->name : "none";
}

static rec_status write_family_text(const family *f, public_values *v, char **text) {
  char eps[SHORTEST_TEXT];
  size_t size;
  if (v->eps != 1e-5)
    snprintf(v->eps_text, sizeof v->eps_text, ", eps = %s", shortest_text(v->eps, eps));
  FILE *out = open_memstream(text, &size);
  if (out) f->put(out, v);
  return out && !fclose(out) ? REC_OK : rec_no_memory();
}

rec_status public_program(const cJSON *config, const tensor_folder *tensors, char **text) {
  settings s = {.read = config};
  const weights w = {.folder = tensors};
  public_values v = {0};
  const char *name = family_name(&s, &w);
  *text = NULL;
  for (int i = 0; i < FAMILY_COUNT; i++) {
    if (strcmp(name, families[i].name) != 0) continue;
    families[i].set(&s, &v, &w);
    return s.status ? s.status : write_family_text(&families[i], &v, text);
  }
  return refuse_family(name);
}

rec_status public_config(const train_model *m, cJSON **config) {
  const weights w = {.model = m};
  public_values v = {0};
  const family *f = family_of_weights(&w);
  settings s = {.told = *config = cJSON_CreateObject()};
  if (!*config) return rec_no_memory();
  if (f) {
    cJSON_AddItemToObject(*config, "architectures", cJSON_CreateStringArray(&f->class, 1));
    config_tell_word(&s, "model_type", f->name);
    f->set(&s, &v, &w);
    if (!s.status) return REC_OK;
  }
  cJSON_Delete(*config);
  *config = NULL;
  return rec_fail(REC_ERROR_UNSUPPORTED,
                  "expected a model whose weights have the names of a public one (as rec import "
                  "writes it), found '%s' of %s",
                  m->parameter_count ? m->parameters[0].name : "none", m->text);
}

const char *public_name(const model_parameter *p) {
  return strcmp(p->name, ONE_TABLE ".weight") ? p->name : TABLE ".weight";
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
  return rec_ends_with(name, ".mixer.A_log") &&
                 train_model_parameter(m, "backbone.layers.0.mixer.dt_bias")
             ? FLAT
             : AS_IT_IS;
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
