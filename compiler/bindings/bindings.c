// Puts a Python file together: what it says of itself, the fixed text, the recurrences.
#include "compiler/bindings/bindings.h"

#include <string.h>

#include "compiler/base/text.h"
#include "compiler/bindings/torch.h"
#include "runtime/shared/launch.h"

typedef struct framework {
  const char *word, *title;
  const char *imports;  // beside those of common.py
  const char *support;  // the embedded file
  void (*put)(const python_printer *p, const python_recurrence *r);
  void (*put_models)(const python_printer *p);  // NULL: it has none
} framework;

static const framework frameworks[BINDING_COUNT] = {
    [BINDING_NUMPY] = {"numpy", "NumPy", "import numpy as np\n", "numpy_support", numpy_put_recurrence, NULL},
    [BINDING_TORCH] = {"torch", "PyTorch", "import torch\n", "torch_support", torch_put_recurrence, torch_put_models},
};

// ---- the head --------------------------------------------------------------------------------

// Options that make library and file again.
static const char *flags_of(arena *a, const artifact *library, const framework *f) {
  const char *flags = arena_printf(a, "--emit=%s --dtype %s", f->word, number_type_text(library->dtype));
  if (*library->prefix) flags = arena_printf(a, "%s --prefix %s", flags, library->prefix);
  for (int i = 0; i < library->defines.count; i++) flags = arena_printf(a, "%s -D %s", flags, library->defines.items[i]);
  return flags;
}

static bool is_own(const python_recurrence *r) { return strchr(r->abi->body->name, '.') == NULL; }

static void put_head(const python_printer *p, const framework *f) {
  FILE *out = p->out;
  fprintf(out, "\"\"\"The recurrences of %s for %s. Written by recc %s; do not edit.\n\n",
          file_name(p->library->sources.items[0]->path), f->title, REC_VERSION);
  for (int i = 0; i < p->recurrences.count; i++) {
    const python_recurrence *r = &p->recurrences.items[i];
    if (!is_own(r)) continue;
    fprintf(out, "    %s(", r->name);
    for (int k = 0; k < r->operands.count; k++) fprintf(out, "%s%s", k ? ", " : "", r->names[r->operands.items[k]]);
    fprintf(out, ") -> ");
    for (int k = 0; k < r->results.count; k++) fprintf(out, "%s%s", k ? ", " : "", r->names[r->results.items[k]]);
    fprintf(out, "\n");
  }
  fprintf(out, "\n%s.so must lie beside this file. Nothing else is needed but %s.\n\"\"\"\n", p->library->name, f->title);
  fprintf(out,
          "from __future__ import annotations\n\nimport ctypes\nimport math\nimport os\nimport re\nimport struct\nimport "
          "threading\n"
          "from typing import NamedTuple, Optional, Sequence\n\n%s\n",
          f->imports);
}

static void put_constants(const python_printer *p, const framework *f, const char *name) {
  FILE *out = p->out;
  fprintf(out,
          "_NAME = \"%s\"\n_PREFIX = \"%s\"  # of the library's symbols\n_HASH = \"%s\"  # of the library's manifest\n_ABI = "
          "(%d, %d)\n_FLAGS = \"%s\"\n",
          name, p->library->prefix, artifact_hash(p->memory, p->library), REC_ABI_MAJOR, REC_ABI_MINOR,
          flags_of(p->memory, p->library, f));
  static const char *const narrow[NUMBER_TYPE_COUNT] = {"float32", "float64", "bfloat16", "float16"};
  number_type dtype = p->library->dtype;
  fprintf(out, "_NARROW, _WIDE = \"%s\", \"%s\"  # types of tokens, and of all else\n", narrow[dtype],
          narrow[number_is_narrow(dtype) ? NUMBER_F32 : dtype]);
}

char *bindings_print(arena *a, const artifact *library, const graph_program *graph, const char *name, binding_framework kind) {
  const framework *f = &frameworks[kind];
  text_stream text;
  python_printer p = {.memory = a, .out = text_begin(&text), .library = library, .graph = graph};
  python_scope module = {.memory = a};
  for (int i = 0; i < library->recurrences.count; i++)
    vec_push(a, &p.recurrences, python_recurrence_of(a, &library->recurrences.items[i], &module));
  put_head(&p, f);
  put_constants(&p, f, name);
  python_put_embedded(p.out, "common");
  python_put_embedded(p.out, f->support);
  for (int i = 0; i < p.recurrences.count; i++) f->put(&p, &p.recurrences.items[i]);
  if (f->put_models) f->put_models(&p);
  return text_end(&text, a);
}
