// The functions of a recurrence on tensors of torch and arrays of JAX: NAME and NAME_step, thin
// over the calls of torch_support.py and jax_support.py.
//
//   gla(q, k, v, gate, h0_S=None, cu_seqlens=None) -> gla_result(y, hT_S)
#include "compiler/bindings/python.h"

#define PUT(...) fprintf(p->out, __VA_ARGS__)

// How a framework is spelt.
typedef struct spelling {
  const char *array, *offsets;
  bool lone;  // the only result is returned without a tuple
} spelling;

static bool is_lone(const python_function *f, const spelling *s) {
  return s->lone && python_first_of(f)->results.count == 1;
}

static void put_result_class(const python_printer *p, const python_function *f, const spelling *s) {
  if (is_lone(f, s)) return;
  PUT("class %s_result(NamedTuple):\n    \"\"\"What %s returns.\"\"\"\n\n", f->name, f->name);
  python_put_fields(p, f, &python_first_of(f)->results, s->array);
  PUT("\n\n");
}

// "def gla(", and an argument to a line.
static void put_function_head(const python_printer *p, const python_function *f, const spelling *s,
                              bool step) {
  const python_recurrence *r = python_first_of(f);
  PUT("def %s%s(\n", f->name, step ? "_step" : "");
  for (int i = 0; i < r->operands.count; i++) {
    int memory = r->operands.items[i];
    PUT("    %s: ", r->names[memory]);
    python_is_optional(r, memory) ? PUT("Optional[%s] = None,\n", s->array)
                                  : PUT("%s,\n", s->array);
  }
  if (!step) PUT("    cu_seqlens: %s = None,\n", s->offsets);
  is_lone(f, s) ? PUT(") -> %s:\n", s->array) : PUT(") -> %s_result:\n", f->name);
}

static void put_function_call(const python_printer *p, const python_function *f, const spelling *s,
                              bool step) {
  PUT("    \"\"\"\n    return ");
  if (!is_lone(f, s)) PUT("%s_result(*", f->name);
  PUT("_functions_%s%s(", f->symbol, step ? ".step" : "");
  python_put_tuple(p, python_first_of(f), &python_first_of(f)->operands);
  PUT("%s)%s\n\n\n", step ? "" : ", cu_seqlens", is_lone(f, s) ? "[0]" : ")");
}

static void put_forward(const python_printer *p, const python_function *f, const spelling *s) {
  put_function_head(p, f, s, false);
  python_put_doc(p, f);
  python_put_tensors(p, f, &python_first_of(f)->operands, false);
  PUT("    cu_seqlens: None, or whole numbers: the offsets of sequences packed behind one another "
      "in one batch entry, and "
      "their "
      "end;\n"
      "        states then have one entry for each sequence\n");
  put_function_call(p, f, s, false);
}

static void put_step(const python_printer *p, const python_function *f, const spelling *s) {
  put_function_head(p, f, s, true);
  PUT("    \"\"\"One step of %s, without an axis of time: hand its states to the next.\n\n",
      f->name);
  python_put_tensors(p, f, &python_first_of(f)->operands, true);
  put_function_call(p, f, s, true);
}

static void put_functions(const python_printer *p, const python_function *f, const spelling *s) {
  put_result_class(p, f, s);
  put_forward(p, f, s);
  put_step(p, f, s);
}

void jax_put_function(const python_printer *p, const python_function *f) {
  put_functions(p, f, &(spelling){"jax.Array", "jax.Array | Sequence[int] | None", false});
}

void torch_put_function(const python_printer *p, const python_function *f) {
  put_functions(p, f, &(spelling){"torch.Tensor", "Optional[torch.Tensor]", true});
  torch_put_module(p, f);
}
