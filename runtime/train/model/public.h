// Public models: what the config.json of a Hugging Face folder says, as a program of rec whose
// weights have the public names, and back.
//
// mamba, mamba2 (transformers and state-spaces/mamba), gla, gated_deltanet, rwkv6, rwkv7
// (fla-org/flash-linear-attention).
#pragma once

#include "runtime/train/model/folder.h"
#include "runtime/train/model/program.h"

// The program for a config: one model, `Imported`, and the train block `imported` of it. The sizes
// that a config leaves open come from the tensors. The caller frees the text.
rec_status public_program(const cJSON *config, const tensor_folder *tensors, char **text);

// The config of a model whose weights have public names; the caller deletes it.
rec_status public_config(const train_model *model, cJSON **config);

// The name of a weight beside that config: state-spaces/mamba names the table otherwise than
// transformers, whose config is told.
const char *public_name(const model_parameter *p);

enum { MOST_PUBLIC_AXES = 4 };
// The shape that a weight of the model has in public files; its rank.
int public_shape(const train_model *model, const model_parameter *p,
                 int64_t shape[MOST_PUBLIC_AXES]);
