// The functions of a recurrence on arrays of JAX: NAME and NAME_step, thin over the calls of jax_support.py.
//
//   gla(q, k, v, gate, h0_S=None, cu_seqlens=None) -> gla_result(y, hT_S)
#include "compiler/bindings/python.h"

#define PUT(...) fprintf(p->out, __VA_ARGS__)

static const python_recurrence *first_of(const python_function *f) { return &f->variants.items[0]; }

static void put_result(const python_printer *p, const python_function *f) {
  PUT("class %s_result(NamedTuple):\n    \"\"\"What %s returns.\"\"\"\n\n", f->name, f->name);
  python_put_fields(p, f, &first_of(f)->results, "jax.Array");
  PUT("\n\n_functions_%s = _Functions(\"%s\", _family_%s, %s_result._make)\n\n\n", f->symbol, f->symbol, f->symbol, f->name);
}

// "def gla(", and an argument to a line.
static void put_head(const python_printer *p, const python_function *f, bool step) {
  const python_recurrence *r = first_of(f);
  PUT("def %s%s(\n", f->name, step ? "_step" : "");
  for (int i = 0; i < r->operands.count; i++) {
    int memory = r->operands.items[i];
    PUT("    %s: %s,\n", r->names[memory], python_is_optional(r, memory) ? "Optional[jax.Array] = None" : "jax.Array");
  }
  if (!step) PUT("    cu_seqlens: jax.Array | Sequence[int] | None = None,\n");
  PUT(") -> %s_result:\n", f->name);
}

static void put_forward(const python_printer *p, const python_function *f) {
  put_head(p, f, false);
  python_put_doc(p, f);
  python_put_tensors(p, f, &first_of(f)->operands, false);
  PUT("    cu_seqlens: None, or int32: the offsets of sequences packed behind one another in one batch entry, and their end;\n"
      "        states then have one entry for each sequence\n    \"\"\"\n    return _functions_%s(",
      f->symbol);
  python_put_tuple(p, first_of(f), &first_of(f)->operands);
  PUT(", cu_seqlens)\n\n\n");
}

static void put_step(const python_printer *p, const python_function *f) {
  put_head(p, f, true);
  PUT("    \"\"\"One step of %s, without an axis of time: hand its states to the next.\n\n", f->name);
  python_put_tensors(p, f, &first_of(f)->operands, true);
  PUT("    \"\"\"\n    return _functions_%s.step(", f->symbol);
  python_put_tuple(p, first_of(f), &first_of(f)->operands);
  PUT(")\n\n\n");
}

void jax_put_function(const python_printer *p, const python_function *f) {
  python_put_rule(p->out, first_of(f)->abi->body->name);
  python_put_tables(p, f);
  put_result(p, f);
  put_forward(p, f);
  put_step(p, f);
}
