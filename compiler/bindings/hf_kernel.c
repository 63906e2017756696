// What a folder of Hugging Face's `kernels` holds beside a library and its Python file for torch:
// build/torch-cpu/metadata.json and __init__.py.
#include <ctype.h>

#include "compiler/base/text.h"
#include "compiler/bindings/bindings.h"
#include "compiler/bindings/python.h"

// `kernels` takes small letters, digits and single dashes between them, a letter first: My_Layer is
// my-layer.
static const char *kernel_name(arena *a, const char *name) {
  char *text = arena_printf(a, "rec-%s", name), *end = text + 4;
  for (const char *p = end; *p; p++)
    if (isalnum((unsigned char)*p))
      *end++ = (char)tolower((unsigned char)*p);
    else if (end[-1] != '-')
      *end++ = '-';
  while (end[-1] == '-') end--;
  *end = '\0';
  return islower((unsigned char)text[4]) ? text + 4 : text;
}

const char *hf_kernel_metadata(arena *a, const artifact *library, const char *name) {
  return arena_printf(a,
                      "{\n"
                      "  \"id\": \"%s_%s\",\n"
                      "  \"name\": \"%s\",\n"
                      "  \"version\": 1,\n"
                      "  \"license\": \"unknown\",\n"
                      "  \"python-depends\": [],\n"
                      "  \"backend\": {\"type\": \"cpu\"}\n"
                      "}\n",
                      name, artifact_hash(a, library), kernel_name(a, name));
}

const char *hf_kernel_package(arena *a, const artifact *library, const char *name,
                              const char *note) {
  text_stream text;
  FILE *out = text_begin(&text);
  fprintf(out, "\"\"\"The recurrences of ");
  python_put_text(out, library->source, "");
  fprintf(out, " as a kernel of Hugging Face's `kernels`. Written by recc %s; do not edit.\"\"\"\n",
          REC_VERSION);
  fprintf(out, "from .%s import *  # noqa: F403\n\n# %s\n", name, note);
  return text_end(&text, a);
}
