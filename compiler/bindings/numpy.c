// The functions of a recurrence on NumPy arrays: NAME, NAME_step, NAME_backward, thin over the
// calls of numpy_support.py.
//
//   gla(q, k, v, gate, *, h0_S=None, cu_seqlens=None, save=False, threads=0) -> gla_result(y, hT_S, saved)
#include "compiler/bindings/python.h"

static void put_results(const python_printer *p, const python_function *f) {
  fprintf(p->out, "class %s_result(NamedTuple):\n    \"\"\"What %s returns.\"\"\"\n\n", f->name,
          f->name);
  python_put_fields(p, f, &python_first_of(f)->results, "np.ndarray");
  fprintf(p->out,
          "    saved: Optional[np.ndarray] = None  # with save=True: what %s_backward starts "
          "from\n\n\n",
          f->name);
  fprintf(p->out, "class %s_gradients(NamedTuple):\n    \"\"\"What %s_backward returns.\"\"\"\n\n",
          f->name, f->name);
  python_put_fields(p, f, &python_first_of(f)->gradients, "np.ndarray");
  fprintf(p->out, "\n\n");
}

// One to a line; those behind the star are given by name.
static void put_python_parameters(const python_printer *p, const python_recurrence *r) {
  bool starred = false;
  for (int i = 0; i < r->operands.count; i++) {
    int memory = r->operands.items[i];
    bool optional = python_is_optional(r, memory);
    if (optional && !starred) fprintf(p->out, "    *,\n");
    starred |= optional;
    fprintf(p->out, "    %s: %s,\n", r->names[memory],
            optional ? "Optional[np.ndarray] = None" : "np.ndarray");
  }
  if (!starred) fprintf(p->out, "    *,\n");
}

static void put_forward(const python_printer *p, const python_function *f) {
  const python_recurrence *r = python_first_of(f);
  FILE *out = p->out;
  fprintf(out, "def %s(\n", f->name);
  put_python_parameters(p, r);
  fprintf(out,
          "    cu_seqlens: Optional[Sequence[int]] = None,\n    save: bool = False,\n    threads: "
          "int = 0,\n) -> %s_result:\n",
          f->name);
  python_put_doc(p, f);
  python_put_tensors(p, f, &r->operands, false);
  fprintf(out,
          "    cu_seqlens: None, or the offsets of sequences packed behind one another in one "
          "batch entry, and their end;\n"
          "        states then have one entry for each sequence\n"
          "    threads: 0: those of REC_NUM_THREADS, or every processor\n    \"\"\"\n");
  fprintf(out, "    _call = _Call(_family_%s, ", f->symbol);
  python_put_tuple(p, r, &r->operands);
  fprintf(out, ", cu_seqlens)\n    _results = _call.make(_call.what.results)\n");
  fprintf(out, "    return %s_result(*_results, _call.run(\"forward\", threads, save=save))\n\n\n",
          f->name);
}

static void put_step(const python_printer *p, const python_function *f) {
  const python_recurrence *r = python_first_of(f);
  FILE *out = p->out;
  fprintf(out, "def %s_step(\n", f->name);
  put_python_parameters(p, r);
  fprintf(out,
          "    threads: int = 0,\n) -> %s_result:\n    \"\"\"One step of %s, without an axis of "
          "time: hand its states to the "
          "next.\n\n",
          f->name, f->name);
  python_put_tensors(p, f, &r->operands, true);
  fprintf(out, "    \"\"\"\n    _call = _Call(_family_%s, ", f->symbol);
  python_put_tuple(p, r, &r->operands);
  fprintf(out, ", step=True)\n    _results = _call.make(_call.what.results)\n");
  fprintf(out, "    _call.run(\"step\", threads)\n    return %s_result(*_results)\n\n\n", f->name);
}

static void put_numpy_backward(const python_printer *p, const python_function *f) {
  const python_recurrence *r = python_first_of(f);
  FILE *out = p->out;
  fprintf(out, "def %s_backward(\n", f->name);
  put_python_parameters(p, r);
  for (int i = 0; i < r->cotangents.count; i++)
    fprintf(out, "    %s: Optional[np.ndarray] = None,\n", r->names[r->cotangents.items[i]]);
  fprintf(out,
          "    saved: Optional[np.ndarray] = None,\n    cu_seqlens: Optional[Sequence[int]] = "
          "None,\n    threads: int = 0,\n) "
          "-> %s_gradients:\n",
          f->name);
  fprintf(out, "    \"\"\"The gradients of a loss, from those by what %s returns (None: zero).\n\n",
          f->name);
  python_put_tensors(p, f, &r->cotangents, false);
  fprintf(
      out,
      "    saved: what %s saved for the same operands; None: it is computed again\n    \"\"\"\n",
      f->name);
  fprintf(out, "    _call = _Call(_family_%s, ", f->symbol);
  python_put_tuple(p, r, &r->operands);
  fprintf(out, ", cu_seqlens)\n    _call.read_cotangents(");
  python_put_tuple(p, r, &r->cotangents);
  fprintf(out, ")\n    _gradients = _call.make(_call.what.gradients)\n");
  fprintf(out,
          "    _call.run(\"backward\", threads, saved=saved)\n    return "
          "%s_gradients(*_gradients)\n\n\n",
          f->name);
}

void numpy_put_function(const python_printer *p, const python_function *f) {
  put_results(p, f);
  put_forward(p, f);
  put_step(p, f);
  put_numpy_backward(p, f);
}
