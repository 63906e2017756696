#include "tests/runtime/grid_cases.h"

#define STD(file, name) .path = "stdlib/" file ".rec", .recurrence = name
#define GOLDEN(name) .path = "tests/golden/" name ".rec", .recurrence = name
#define INVENTED(name) .path = "tests/invented/" name ".rec", .recurrence = name
#define KEYS_AND_VALUES .sizes = {"K=9", "V=7"}, .more_sizes = {"K=19", "V=21"}, .run_time_size = 2
#define GATES(...) .gates = {__VA_ARGS__}
#define DOMAINS(...) .domains = {__VA_ARGS__}

const grid_case grid_cases[] = {
    {STD("linear_attention", "linear_attention"), KEYS_AND_VALUES},
    {STD("linear_attention", "normalized_linear_attention"), KEYS_AND_VALUES,
     DOMAINS({"q", POSITIVE}, {"k", POSITIVE}, {"z", POSITIVE})},
    {STD("retnet", "retnet"), KEYS_AND_VALUES},
    {STD("lightning", "lightning"), .sizes = {"K=9", "V=7", "I=2", "L=4"},
     .more_sizes = {"K=19", "V=21"}, .run_time_size = 3},
    {STD("simple_gla", "simple_gla"), KEYS_AND_VALUES, GATES({"gate", 4, -60, -1e5, 1})},
    {STD("gla", "gla"), KEYS_AND_VALUES, GATES({"gate", 4, -60, -1e5, 1})},
    {STD("hgrn2", "hgrn2"), KEYS_AND_VALUES, GATES({"gate", 4, -20, 0, 1}),
     DOMAINS({"bound", UNIT})},
    {STD("rwkv4", "rwkv4"), .sizes = {"I=2", "L=3"}, .more_sizes = {"I=1"}, .run_time_size = 11,
     GATES({"time_decay", -4, 2, 10, 1}, {"k", 0, 40, 0, 10}), DOMAINS({"b", POSITIVE})},
    {STD("rwkv5", "rwkv5"), KEYS_AND_VALUES, GATES({"time_decay", -6, 2.5, 10, 1})},
    {STD("rwkv6", "rwkv6"), KEYS_AND_VALUES, GATES({"decay", -6, 2.5, 10, 1})},
    {STD("rwkv7", "rwkv7"), KEYS_AND_VALUES, GATES({"decay", -6, 6, 0, 1})},
    // A quotient whose parts cancel: of y by q nothing is left where one write rules.
    {STD("mlstm", "mlstm"), KEYS_AND_VALUES, .plain = 1,
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
    {STD("lru", "lru"), .sizes = {"H=6", "N=9", "W=5"}, .more_sizes = {"H=5", "N=20"},
     .run_time_size = 1, GATES({"nu_log", -4, 2, 10, 1})},
    {STD("rg_lru", "rg_lru"), .run_time_size = 19,
     GATES({"decay_gate", -6, 6, 0, 1}, {"a_param", -4, 10, 1e3, 1})},
    {STD("gateloop", "gateloop"), KEYS_AND_VALUES, GATES({"magnitude", 4, -20, -1e5, 1})},
    {STD("longhorn", "longhorn"), .sizes = {"N=5"}, .more_sizes = {"N=16"}, .run_time_size = 11,
     GATES({"dt", -6, 6, 0, 1})},
    {STD("mingru", "mingru"), .run_time_size = 19, GATES({"gate", -6, 6, 1e5, 1})},
    // keep (h - c): what is left of two sums where keep vanishes.
    {STD("minlstm", "minlstm"), .run_time_size = 19, .plain = 1e-2,
     GATES({"forget", 6, -20, -1e5, 1})},
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
};
const int grid_case_count = sizeof grid_cases / sizeof *grid_cases;
