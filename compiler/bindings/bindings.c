// Puts a Python file together: what it says of itself, the functions of recurrences, models, the
// fixed text that they call.
#include "compiler/bindings/bindings.h"

#include <string.h>

#include "compiler/abi/launch.h"
#include "compiler/base/text.h"
#include "compiler/bindings/python.h"

typedef struct framework {
  const char *word, *title;
  const char *imports;  // beside those of common.py
  const char *support;  // the embedded file
  void (*put)(const python_printer *p, const python_function *f);
  // what the functions call, by their symbol, and the class that makes it of a family
  const char *called, *made;
  // NULL: it has none. `classes`: what users see; else what runs them
  void (*put_models)(const python_printer *p, bool classes);
} framework;

#define JAX_IMPORTS                                                                      \
  "import jax\nimport jax.numpy as jnp\nimport numpy as np\n"                            \
  "from jax.experimental.custom_partitioning import ArrayMapping, custom_partitioning, " \
  "SdyShardingRule\n"                                                                    \
  "from jax.sharding import NamedSharding, PartitionSpec\n"

static const framework frameworks[BINDING_COUNT] = {
    [BINDING_NUMPY] = {"numpy", "NumPy", "import numpy as np\n", "numpy_support",
                       numpy_put_function, "_family_", "", NULL},
    [BINDING_TORCH] = {"torch", "PyTorch",
                       "import torch\nfrom torch.autograd import forward_ad as _forward_ad\n",
                       "torch_support", torch_put_function, "_functions_", "_Functions",
                       torch_put_models},
    [BINDING_JAX] = {"jax", "JAX", JAX_IMPORTS, "jax_support", jax_put_function, "_functions_",
                     "_Functions", NULL},
};

// ---- the head --------------------------------------------------------------------------------

// Options that make library and file again, but for types and sizes.
static const char *emit_options(arena *a, const artifact *library, const framework *f) {
  const char *options = arena_printf(a, "--emit=%s", f->word);
  if (*library->prefix) options = arena_printf(a, "%s --prefix %s", options, library->prefix);
  if (*library->without) options = arena_printf(a, "%s --without %s", options, library->without);
  for (int i = 0; i < library->exported.count; i++)
    options = arena_printf(a, "%s --export %s", options, library->exported.items[i]);
  return options;
}

static void put_bindings_head(const python_printer *p, const framework *f) {
  FILE *out = p->out;
  fprintf(out, "\"\"\"The recurrences of ");
  python_put_text(out, p->library->source, "");
  fprintf(out, " for %s. Written by recc %s; do not edit.\n\n", f->title, REC_VERSION);
  for (int i = 0; i < p->functions.count; i++) {
    const python_recurrence *r = &p->functions.items[i].variants.items[0];
    if (!python_is_own(r)) continue;
    fprintf(out, "    %s(", p->functions.items[i].name);
    python_put_names(p, r, &r->operands);
    fprintf(out, ") -> ");
    python_put_names(p, r, &r->results);
    fprintf(out, "\n");
  }
  fprintf(out, "\n%s.so must lie beside this file. Nothing else is needed but %s.\n\"\"\"\n",
          p->library->name, f->title);
  fprintf(out,
          "from __future__ import annotations\n\nimport ctypes\nimport functools\nimport "
          "json\nimport math\nimport os\nimport "
          "re\nimport struct\nimport "
          "threading\n"
          "from typing import Callable, NamedTuple, Optional, Sequence\n\n%s\n",
          f->imports);
}

static void put_defines(const python_printer *p) {
  fprintf(p->out, "_DEFINES = {");
  for (int i = 0; i < p->library->defines.count; i++) {
    const char *define = p->library->defines.items[i], *equals = strchr(define, '=');
    fprintf(p->out, "%s\"%.*s\": \"%s\"", i ? ", " : "", (int)(equals - define), define,
            equals + 1);
  }
  fprintf(p->out, "}\n");
}

static void put_constants(const python_printer *p, const framework *f, const char *name) {
  FILE *out = p->out;
  python_put_rule(out, "what this file was written for");
  fprintf(out,
          "_NAME = \"%s\"\n_PREFIX = \"%s\"  # of the library's symbols\n_HASH = \"%s\"  # of the "
          "library's manifest\n_ABI = "
          "(%d, %d)\n_OPTIONS = \"%s\"\n_SOURCE = \"",
          name, p->library->prefix, artifact_hash(p->memory, p->library), REC_ABI_MAJOR,
          REC_ABI_MINOR, emit_options(p->memory, p->library, f));
  python_put_text(out, p->library->source, "");
  fprintf(out, "\"\n");
  put_defines(p);
  fprintf(out, "_HAS_MODELS = %s\n_DTYPES = (",
          p->graph && p->graph->models.count ? "True" : "False");
  for (int i = 0; i < p->library->dtypes.count; i++)
    fprintf(out, "%s\"%s\"%s", i ? " " : "", python_type(p->library->dtypes.items[i]),
            i + 1 < p->library->dtypes.count || !i ? "," : "");
  fprintf(out, ")  # of tokens\n");
}

// `_functions_gla = _Functions(_family("gla"))`
static void put_called(const python_printer *p, const framework *f) {
  python_put_rule(p->out, "recurrences");
  for (int i = 0; i < p->functions.count; i++) {
    fprintf(p->out, "%s%s = %s%s", f->called, p->functions.items[i].symbol, f->made,
            *f->made ? "(" : "");
    python_put_family(p, &p->functions.items[i]);
    fprintf(p->out, *f->made ? ")\n" : "\n");
  }
  if (f->put_models) f->put_models(p, false);
}

char *bindings_print(arena *a, const artifact *library, const graph_program *graph,
                     const char *name, binding_framework kind) {
  const framework *f = &frameworks[kind];
  text_stream text;
  python_printer p = {.memory = a, .out = text_begin(&text), .library = library, .graph = graph};
  python_scope module = {.memory = a};
  for (int i = 0; i < library->recurrences.count;) {
    python_function made = python_function_of(a, library, i, &module);
    vec_push(a, &p.functions, made);
    i += made.variants.count;
  }
  put_bindings_head(&p, f);
  for (int i = 0; i < p.functions.count; i++) {
    const python_recurrence *r = &p.functions.items[i].variants.items[0];
    if (f->put_models && !python_is_own(r)) continue;  // models alone call it
    python_put_rule(p.out, r->abi->body->name);
    f->put(&p, &p.functions.items[i]);
  }
  if (f->put_models) f->put_models(&p, true);
  put_constants(&p, f, name);
  python_put_embedded(p.out, "common");
  python_put_embedded(p.out, f->support);
  put_called(&p, f);
  return text_end(&text, a);
}
