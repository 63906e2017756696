// The programs of public models: each writes its layers one by one, so that the paths of the
// weights are the public names.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

// What a public model is made of, as its config.json or its weights say (public.c). Sizes have the
// names that they have in the program; those of another family are 0.
typedef struct public_values {
  const char *table;  // of embeddings
  int64_t symbols, layers;
  int64_t D, E, F, G, H, K, L, LA, LG, LV, LW, N, P, R, V, W;
  bool tied, bias, conv_bias, norm, norm_first, gate, fused, negative, convolutions;
  // the feature map is NULL or of queries and keys
  const char *feature, *gate_function, *norm_name;
  double eps;
  char eps_text[60];  // ", eps = 1e-06", of its norms; nothing where it is 1e-05
} public_values;

typedef void public_text(FILE *out, const public_values *v);
public_text put_mamba, put_mamba2, put_gla, put_gated_deltanet, put_rwkv6, put_rwkv7;
