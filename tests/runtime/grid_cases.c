#include "tests/runtime/grid_cases.h"

#include <math.h>
#include <string.h>

#define STD(file, name) .path = "stdlib/" file ".rec", .recurrence = name
#define GOLDEN(name) .path = "tests/golden/" name ".rec", .recurrence = name
#define INVENTED(name) .path = "tests/invented/" name ".rec", .recurrence = name
#define PROGRAM(name) .path = "tests/runtime/programs/" name ".rec", .recurrence = name
#define KEYS_AND_VALUES .sizes = {"K=9", "V=7"}, .more_sizes = {"K=19", "V=21"}, .run_time_size = 2
#define GATES(...) .gates = {__VA_ARGS__}
#define DOMAINS(...) .domains = {__VA_ARGS__}
#define LOG_GATES(name) GATES({name, 0, -60, -1e5, 1})
#define LOG_DECAYS(name) LOG_GATES(name), DOMAINS({name, NEGATIVE})
#define LOG_DECAYS_AND(name, ...) LOG_GATES(name), DOMAINS({name, NEGATIVE}, __VA_ARGS__)

const grid_case grid_cases[] = {
    {STD("linear_attention", "linear_attention"), KEYS_AND_VALUES},
    {STD("linear_attention", "normalized_linear_attention"), KEYS_AND_VALUES,
     DOMAINS({"q", POSITIVE}, {"k", POSITIVE}, {"z", POSITIVE})},
    {STD("retnet", "retnet"), KEYS_AND_VALUES},
    {STD("lightning", "lightning"), .sizes = {"K=9", "V=7", "I=2", "L=4"},
     .more_sizes = {"K=19", "V=21"}, .run_time_size = 3},
    {STD("simple_gla", "simple_gla"), KEYS_AND_VALUES, GATES({"gate", 4, -60, -1e5, 1})},
    {STD("gla", "gla"), KEYS_AND_VALUES, GATES({"gate", 4, -60, -1e5, 1})},
    // several panels of lanes share the gates, the last one with a part of its lanes
    {STD("gla", "gla"), .sizes = {"K=9", "V=72"}, .more_sizes = {"K=48", "V=96"},
     .run_time_size = 2, GATES({"gate", 4, -60, -1e5, 1})},
    {STD("hgrn2", "hgrn2"), KEYS_AND_VALUES, GATES({"gate", 4, -20, 0, 1}),
     DOMAINS({"bound", UNIT})},
    {STD("rwkv4", "rwkv4"), .sizes = {"I=2", "L=3"}, .more_sizes = {"I=1"}, .run_time_size = 11,
     GATES({"time_decay", -4, 2, 10, 1}, {"k", 0, 40, 0, 10}), DOMAINS({"b", POSITIVE})},
    {STD("rwkv5", "rwkv5"), KEYS_AND_VALUES, GATES({"time_decay", -6, 2.5, 10, 1})},
    {STD("rwkv6", "rwkv6"), KEYS_AND_VALUES, GATES({"decay", -6, 2.5, 10, 1})},
    {STD("rwkv7", "rwkv7"), KEYS_AND_VALUES, GATES({"decay", -6, 6, 0, 1})},
    {STD("mlstm", "mlstm"), KEYS_AND_VALUES,
     GATES({"forget", 6, -30, -1e5, 1}, {"write", 0, 70, 0, 20})},
    {STD("mamba1", "selective_scan"), .sizes = {"N=5"}, .more_sizes = {"N=16"}, .run_time_size = 11,
     GATES({"dt", -6, 4, 0, 1})},
    {STD("mamba2", "ssd"), .sizes = {"P=7", "N=9"}, .more_sizes = {"P=21", "N=19"},
     .run_time_size = 2, GATES({"dt", -6, 4, 0, 1})},
    {STD("mamba3", "mamba3"), .sizes = {"P=7", "N=9"}, .more_sizes = {"P=21", "N=19"},
     .run_time_size = 2, GATES({"decay", -6, 4, 1e5, 1})},
    {STD("s4", "s4"), .sizes = {"N=6"}, .more_sizes = {"N=12"}, .run_time_size = 5,
     GATES({"log_dt", -4, 1, 0, 1})},
    {STD("s4d", "s4d"), .sizes = {"N=5"}, .more_sizes = {"N=16"}, .run_time_size = 9,
     GATES({"log_dt", -4, 1, 10, 1})},
    {STD("s5", "s5"), .sizes = {"H=6", "P=9", "W=5"}, .more_sizes = {"H=5", "P=20"},
     .run_time_size = 1, GATES({"log_step", -4, 1, 10, 1}), DOMAINS({"Lambda_re", NEGATIVE})},
    {STD("lru", "lru"), .sizes = {"lru.H=6", "lru.N=9", "lru.W=5"},
     .more_sizes = {"lru.H=5", "lru.N=20"}, .run_time_size = 1, GATES({"nu_log", -4, 2, 10, 1})},
    {STD("rg_lru", "rg_lru"), .run_time_size = 19,
     GATES({"decay_gate", -6, 6, 0, 1}, {"a_param", -4, 10, 1e3, 1})},
    {STD("gateloop", "gateloop"), KEYS_AND_VALUES, GATES({"magnitude", 4, -20, -1e5, 1})},
    {STD("longhorn", "longhorn"), .sizes = {"N=5"}, .more_sizes = {"N=16"}, .run_time_size = 11,
     GATES({"dt", -6, 6, 0, 1})},
    {STD("mingru", "mingru"), .run_time_size = 19, GATES({"gate", -6, 6, 1e5, 1})},
    {STD("minlstm", "minlstm"), .run_time_size = 19, GATES({"forget", 6, -20, -1e5, 1})},
    {STD("qrnn", "qrnn"), .run_time_size = 19, GATES({"forget", 6, -20, -1e5, 1})},
    {STD("deltanet", "deltanet"), KEYS_AND_VALUES, GATES({"rate", -6, 6, 0, 1})},
    {STD("gated_deltanet", "gated_deltanet"), KEYS_AND_VALUES, GATES({"gate", -6, 4, 1e5, 1})},
    {STD("kda", "kda"), KEYS_AND_VALUES, GATES({"gate", -6, 4, 1e5, 1})},
    {STD("deltaproduct", "deltaproduct"), .sizes = {"K=9", "V=7", "M=3"},
     .more_sizes = {"K=19", "V=21"}, .run_time_size = 2, GATES({"gate", -6, 4, 1e5, 1})},
    {STD("gru", "gru"), .sizes = {"D=7"}, .more_sizes = {"D=13"}, .run_time_size = 1,
     DOMAINS({"weight_hh", SMALL})},
    {STD("lstm", "lstm"), .sizes = {"D=7"}, .more_sizes = {"D=13"}, .run_time_size = 1,
     DOMAINS({"weight_hh", SMALL})},
    {STD("ops/causal_conv1d", "causal_conv1d"), .more_sizes = {"W=2"}, .run_time_size = 11},
    {STD("ops/causal_conv1d", "causal_conv1d_silu"), .sizes = {"W=3"}, .more_sizes = {"W=1"},
     .run_time_size = 19},
    {STD("ops/gated_rms_norm", "gated_rms_norm"), .sizes = {"P=9"}, .run_time_size = 2,
     DOMAINS({"eps", UNIT})},
    {STD("ops/gated_rms_norm", "rms_norm_gated"), .sizes = {"P=9"}, .run_time_size = 2,
     DOMAINS({"eps", UNIT})},
    {STD("ops/mamba_chunk_scan", "mamba_chunk_scan"), .sizes = {"P=7", "N=9"},
     .more_sizes = {"P=21", "N=19"}, .run_time_size = 2, GATES({"dt", -6, 4, 0, 1}),
     DOMAINS({"A", NEGATIVE}, {"dt_min", SMALL}, {"dt_max", POSITIVE})},
    {STD("ops/mamba_selective_scan", "mamba_selective_scan"), .sizes = {"N=5"},
     .more_sizes = {"N=16"}, .run_time_size = 3, GATES({"dt", -6, 4, 0, 1}),
     DOMAINS({"A", NEGATIVE})},
    {STD("ops/mamba_selective_scan", "mamba_selective_scan_gated"), .sizes = {"N=5"},
     .run_time_size = 3, GATES({"dt", -6, 4, 0, 1}), DOMAINS({"A", NEGATIVE})},
    {STD("ops/delta_rule", "delta_rule"), KEYS_AND_VALUES, DOMAINS({"k", SMALL}, {"beta", UNIT})},
    {STD("ops/delta_rule", "delta_rule_normalized"), KEYS_AND_VALUES, DOMAINS({"beta", UNIT})},
    {STD("ops/gated_delta_rule", "gated_delta_rule"), KEYS_AND_VALUES,
     LOG_DECAYS_AND("g", {"k", SMALL}, {"beta", UNIT})},
    {STD("ops/gated_delta_rule", "gated_delta_rule_normalized"), KEYS_AND_VALUES,
     LOG_DECAYS_AND("g", {"beta", UNIT})},
    {STD("ops/gla", "gla"), KEYS_AND_VALUES, LOG_DECAYS("g")},
    {STD("ops/hgrn", "hgrn"), .run_time_size = 19, LOG_DECAYS("g")},
    {STD("ops/kda", "kda"), KEYS_AND_VALUES, LOG_DECAYS_AND("g", {"k", SMALL}, {"beta", UNIT})},
    {STD("ops/kda", "kda_normalized"), KEYS_AND_VALUES, LOG_DECAYS_AND("g", {"beta", UNIT})},
    {STD("ops/rwkv6", "rwkv6"), KEYS_AND_VALUES, LOG_DECAYS("w")},
    {STD("ops/rwkv7", "rwkv7"), KEYS_AND_VALUES, LOG_DECAYS_AND("w", {"a", SMALL}, {"b", SMALL})},
    {STD("ops/simple_gla", "simple_gla"), KEYS_AND_VALUES, LOG_DECAYS("g")},
    {GOLDEN("gated_deltanet"), KEYS_AND_VALUES, GATES({"a_raw", -6, 4, 1e5, 1})},
    {GOLDEN("gla"), KEYS_AND_VALUES, GATES({"a_raw", 4, -60, -1e5, 1})},
    {GOLDEN("linear_attn"), KEYS_AND_VALUES},
    {GOLDEN("mamba1"), .sizes = {"N=5"}, .more_sizes = {"N=16"}, .run_time_size = 11,
     GATES({"dt_raw", -6, 4, 0, 1})},
    {GOLDEN("mamba2"), KEYS_AND_VALUES, GATES({"dt_raw", -6, 4, 0, 1})},
    {GOLDEN("mingru"), .run_time_size = 19, GATES({"z_raw", -6, 6, 1e5, 1})},
    {GOLDEN("rwkv6"), KEYS_AND_VALUES, GATES({"w_raw", -6, 2.5, 10, 1})},
    {GOLDEN("s4d"), .sizes = {"P=5"}, .more_sizes = {"P=16"}, .run_time_size = 9,
     GATES({"log_dt", -4, 1, 10, 1})},
    {PROGRAM("momentum"), KEYS_AND_VALUES,
     GATES({"eta", 1, -20, -1e5, 1}, {"alpha", 6, -6, 1e5, 1})},
    {.path = "tests/runtime/programs/rows_beside_a_matrix.rec",
     .recurrence = "map_with_bias",
     KEYS_AND_VALUES,
     GATES({"forget", 4, -20, -1e5, 1})},
    {.path = "tests/runtime/programs/rows_beside_a_matrix.rec",
     .recurrence = "map_with_bias_and_momentum",
     KEYS_AND_VALUES,
     GATES({"forget", 6, -6, 1e5, 1}, {"keep", 1, -20, -1e5, 1})},
    {.path = "tests/runtime/programs/rows_beside_a_matrix.rec",
     .recurrence = "bias_that_is_emptied",
     KEYS_AND_VALUES,
     GATES({"forget", 4, -20, -1e5, 1})},
    {.path = "tests/runtime/programs/rows_beside_a_matrix.rec",
     .recurrence = "average_of_reads",
     KEYS_AND_VALUES,
     GATES({"forget", 4, -60, -1e5, 1})},
    {INVENTED("time_invariant_modes"), .sizes = {"N=5"}, .more_sizes = {"N=16"},
     .run_time_size = 9},
    {PROGRAM("turned_states"), .run_time_size = 2},
    {PROGRAM("two_key_axes"), GATES({"gate", 4, -60, -1e5, 1})},
    {INVENTED("quarter_turns"), .run_time_size = 5},
    {INVENTED("oscillators"), .sizes = {"D=12", "N=10", "W=7"}, .more_sizes = {"D=33", "N=24"},
     GATES({"step", -6, 3, -1e5, 1})},
    {INVENTED("blocks_on_an_axis"), .sizes = {"N=6"}, .more_sizes = {"N=16", "P=8"},
     .run_time_size = 2},
    {INVENTED("three_erasures_with_resets"), .sizes = {"K=4", "V=3"}, .more_sizes = {"K=9", "V=7"},
     .run_time_size = 2},
    {INVENTED("two_writes_of_a_narrow_value"), .sizes = {"K=3", "V=2"},
     .more_sizes = {"K=17", "V=9"}, .run_time_size = 2},
    {INVENTED("erase_by_the_key_before"), KEYS_AND_VALUES, GATES({"gate", 4, -20, -1e5, 1})},
    {INVENTED("two_coupled_matrices"), KEYS_AND_VALUES,
     GATES({"f", 4, -20, -1e5, 1}, {"g", 1, -20, -1e5, 1})},
    {INVENTED("ring_of_three_matrices"), KEYS_AND_VALUES, GATES({"keep", 4, -20, -1e5, 1})},
    {INVENTED("position_and_speed"), KEYS_AND_VALUES,
     GATES({"step", -6, 2, -1e5, 1}, {"stiffness", -6, 0, 0, 0.5})},
    {INVENTED("rotation_of_two_matrices"), KEYS_AND_VALUES, GATES({"gate", 6, -20, -1e5, 1})},
    {INVENTED("coupled_traces_beside_a_matrix"), KEYS_AND_VALUES, GATES({"gate", 4, -20, -1e5, 1})},
    {INVENTED("row_and_column_decays"), KEYS_AND_VALUES,
     GATES({"row", -6, 4, 1e5, 1}, {"column", 6, -6, -1e5, 1})},
    {INVENTED("nested_resets"), KEYS_AND_VALUES,
     GATES({"row", -6, 4, 1e5, 1}, {"column", 6, -6, -1e5, 1})},
    {INVENTED("delta_rule_with_column_decays"), KEYS_AND_VALUES,
     GATES({"row", 6, -20, -1e5, 1}, {"column", 6, -6, -1e5, 1})},
    {INVENTED("complex_rows_real_columns"), KEYS_AND_VALUES,
     GATES({"speed", -6, 4, 1e5, 1}, {"gate", 6, -6, -1e5, 1})},
    {INVENTED("exponential_writes_with_resets"), KEYS_AND_VALUES,
     GATES({"forget", 6, -30, -1e5, 1}, {"write", 0, 70, 0, 20})},
    {INVENTED("two_erasures_in_a_fold"), KEYS_AND_VALUES, GATES({"gate", 6, -20, -1e5, 1})},
    {INVENTED("folded_descent"), .sizes = {"K=9", "V=7", "L=9"},
     .more_sizes = {"K=11", "V=12", "L=11"}, .run_time_size = 2, GATES({"f", 4, -20, -1e5, 1})},
    {INVENTED("gate_posts"), KEYS_AND_VALUES, GATES({"gate", 6, -20, -1e5, 1})},
    {INVENTED("quotient_of_two_reads"), KEYS_AND_VALUES,
     GATES({"fast", 6, -20, -1e5, 1}, {"slow", 6, -60, -1e5, 1})},
    {INVENTED("decays_of_any_sign"), KEYS_AND_VALUES, GATES({"x", 2, 0, 0, 0.5})},
    {INVENTED("groups_and_heads_at_run_time"), KEYS_AND_VALUES, GATES({"gate", -4, 4, 0, 0.5})},
    {INVENTED("delta_rule_on_values"), KEYS_AND_VALUES, GATES({"gate", 4, -20, -1e5, 1})},
    {INVENTED("lags_of_inputs_and_reads"), KEYS_AND_VALUES,
     GATES({"gate", 4, -20, -1e5, 1}, {"x", -1, 1, 0, 1})},
    {INVENTED("momentum_of_momentum"), KEYS_AND_VALUES,
     GATES({"fast", 4, -20, -1e5, 1}, {"slow", 4, -20, -1e5, 1}, {"rate", -4, 2, 0, 1})},
    {INVENTED("three_strata"), KEYS_AND_VALUES,
     GATES({"gate", 6, -20, -1e5, 1}, {"x", -1, 1, 0, 1})},
    {INVENTED("read_before_gates_read_after"), .sizes = {"K=11", "V=4"},
     .more_sizes = {"K=8", "V=8"}, .run_time_size = 1, GATES({"gate", 4, -20, -1e5, 1})},
    {INVENTED("delta_rule_of_rank_two"), KEYS_AND_VALUES,
     GATES({"gate", 6, -20, -1e5, 1}, {"rate", -4, 2, 0, 1})},
    {INVENTED("time_scales_summed"), .sizes = {"K=9", "V=7"}, .more_sizes = {"K=19", "V=5", "J=2"},
     .run_time_size = 2, GATES({"gate", 4, -60, -1e5, 1})},
    {INVENTED("mixture_with_resets"), .sizes = {"K=9", "V=7"}, .more_sizes = {"K=19", "V=5", "M=2"},
     .run_time_size = 2, GATES({"gate", 4, -60, -1e5, 1})},
    {INVENTED("heads_summed"), .sizes = {"K=9", "V=7"}, .more_sizes = {"K=19", "V=5", "R=2"},
     .run_time_size = 2, GATES({"gate", 6, -20, -1e5, 1}, {"rate", -4, 2, 0, 1})},
    {INVENTED("frozen_copy"), KEYS_AND_VALUES,
     GATES({"gate", 6, -20, -1e5, 1}, {"rate", -4, 2, 0, 1}, {"renew", -2, 2, 0, 0.5})},
    {INVENTED("emptied_by_a_clock"), KEYS_AND_VALUES, GATES({"gate", 6, -20, -1e5, 1})},
    {INVENTED("counters_alone"), KEYS_AND_VALUES, GATES({"gate", 6, -20, -1e5, 1})},
    {INVENTED("counters_with_gradients"), KEYS_AND_VALUES, GATES({"gate", 6, -20, -1e5, 1})},
    {INVENTED("levels_bent_by_inputs"), KEYS_AND_VALUES, GATES({"gate", 6, -20, -1e5, 1})},
    {INVENTED("write_carried_as_a_state"), KEYS_AND_VALUES, GATES({"gate", 6, -20, -1e5, 1})},
    {INVENTED("shift_register"), KEYS_AND_VALUES, GATES({"gate", 6, -20, -1e5, 1})},
    {INVENTED("lagged_outer_products"), KEYS_AND_VALUES, GATES({"gate", 6, -20, -1e5, 1})},
    {INVENTED("several_inputs_of_two_taps"), KEYS_AND_VALUES, GATES({"decay", -6, 4, 1e5, 1})},
    {INVENTED("erased_before_a_lagged_write"), KEYS_AND_VALUES, GATES({"gate", 4, -20, -1e5, 1})},
    {INVENTED("read_carried_as_a_state"), KEYS_AND_VALUES, GATES({"gate", 4, -20, -1e5, 1})},
    {INVENTED("scaled_copy_of_a_state"), KEYS_AND_VALUES, GATES({"gate", 4, -20, -1e5, 1})},
    {INVENTED("attention_by_a_running_maximum"), KEYS_AND_VALUES, GATES({"k", 0, 40, 0, 10}),
     DOMAINS({"w", POSITIVE})},
    {INVENTED("slstm"), .more_sizes = {"D=9"}, .run_time_size = 3, DOMAINS({"weight", SMALL})},
    {INVENTED("transitions_made_of_parameters"), .more_sizes = {"N=19", "R=9", "V=3"},
     .run_time_size = 1,
     DOMAINS({"turn", SMALL}, {"into", SMALL}, {"rate", SMALL}, {"slow", SMALL})},
    // y is saved for the backward (schedule/save.c)
    {INVENTED("bounded_read_of_many_keys"), .sizes = {"K=256", "V=4"},
     .more_sizes = {"K=300", "V=3"}, .run_time_size = 2, GATES({"gate", 6, -30, -1e5, 1})},
};
const int grid_case_count = sizeof grid_cases / sizeof *grid_cases;

static double normal(uint64_t *seed) {
  double sum = 0;
  for (int i = 0; i < 12; i++) sum += next_uniform(seed);
  return sum - 6;
}

static domain domain_of(const grid_case *c, const char *variable) {
  for (int d = 0; c && d < 4; d++)
    if (c->domains[d].name && strcmp(c->domains[d].name, variable) == 0)
      return c->domains[d].domain;
  return ANY;
}

static double in_domain(domain d, double x) {
  switch (d) {
    case POSITIVE: return fabs(x) + 0.1;
    case NEGATIVE: return -fabs(x) - 0.05;
    case UNIT: return 1 / (1 + exp(-x));
    case SMALL: return 0.3 * x;
    default: return x;
  }
}

double grid_in_domain(const grid_case *c, const char *variable, double x) {
  return in_domain(domain_of(c, variable), x);
}

void grid_draw(const grid_case *c, problem *p, uint64_t seed) {
  problem_draw(p, seed, 0.7);
  for (int i = 0; i < p->signature->variable_count; i++) {
    const rec_variable *v = &p->signature->variables[i];
    domain d = v->kind == REC_OUTPUT || !p->value[i] ? ANY : domain_of(c, v->name);
    for (int64_t k = 0; d != ANY && k < problem_numbers(p, i); k++)
      p->value[i][k] = (float)in_domain(d, p->value[i][k]);
  }
  problem_retype(p, p->signature);
}

static double gate_number(const grid_gate *g, regime r, uint64_t *seed) {
  if (r == RESETS && g->reset != 0 && next_random(seed) % 8 == 0) return g->reset;
  if (r == MIXED || r == RESETS) r = (regime)(next_random(seed) % 3);
  double noise = g->spread * normal(seed);
  return r == WEAK ? g->weak + 0.3 * noise : r == STRONG ? g->strong + noise : 0.8 * noise;
}

static void place(const grid_case *c, problem *p, int variable, regime r, uint64_t *seed) {
  const char *name = p->signature->variables[variable].name;
  domain d = domain_of(c, name);
  for (int64_t k = 0; p->value[variable] && k < problem_numbers(p, variable); k++) {
    double *x = &p->value[variable][k];
    for (int i = 0; i < 3; i++)
      if (c->gates[i].name && strcmp(c->gates[i].name, name) == 0)
        *x = (float)gate_number(&c->gates[i], r, seed);
    if (d != ANY) *x = (float)in_domain(d, *x);
  }
}

bool grid_has_regime(const grid_case *c, regime r) {
  if (r == NORMAL) return true;
  for (int i = 0; i < 3; i++)
    if (c->gates[i].name && (r != RESETS || c->gates[i].reset != 0)) return true;
  return false;
}

void grid_place(const grid_case *c, problem *p, regime r, uint64_t seed) {
  problem_draw(p, seed, 0.7);
  for (int i = 0; i < p->signature->variable_count; i++)
    if (p->signature->variables[i].kind != REC_OUTPUT) place(c, p, i, r, &seed);
}
