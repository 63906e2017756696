// What users call: `gla` and `gla_step`, which pick the variant of a call; calls without gradients go to kernels of the library.
//
//   gla(q, k, v, gate, h0_S=None, cu_seqlens=None) -> gla_result(y, hT_S)
#include "compiler/bindings/torch.h"

#define PUT(...) fprintf(p->out, __VA_ARGS__)

static void put_result_class(const python_printer *p, const python_function *f) {
  const python_recurrence *r = &f->variants.items[0];
  if (r->results.count == 1) return;
  PUT("class %s_result(NamedTuple):\n    \"\"\"What %s returns.\"\"\"\n\n", f->name, f->name);
  python_put_fields(p, f, &r->results, "torch.Tensor");
  PUT("\n\n");
}

// The size that an operand has, which is the same from the end for steps.
static void put_chosen_axis(const python_printer *p, const python_recurrence *r, int axis) {
  for (int i = 0; i < r->operands.count; i++) {
    const abi_memory *m = python_memory(r, r->operands.items[i]);
    int axes[TYPED_MAX_AXES], count = abi_axes(r->abi, m, axes), at = 0;
    while (at < count && axes[at] != axis) at++;
    if (at == count) continue;
    bool is_complex = abi_factor(r->abi, m) > (m->lag >= 0 ? r->abi->body->lags.items[m->lag].depth : 1);
    PUT("        %s = %s.shape[%d]\n", r->axes[axis], r->names[r->operands.items[i]], at - count - is_complex);
    return;
  }
}

static bool is_told_by_operands(const python_recurrence *r, int axis) {
  for (int i = 0; i < r->operands.count; i++)
    if (torch_place_of(r, r->operands.items[i], axis, false) >= 0) return true;
  return false;
}

static void put_condition(const python_printer *p, const python_function *f, int variant) {
  const python_recurrence *r = &f->variants.items[variant];
  const char *joined = "";
  PUT("        if ");
  if (p->library->dtypes.count > 1) {
    PUT("_type is %s", torch_type_of(p, r, r->operands.items[0]));
    joined = " and ";
  }
  for (int i = 0; i < r->abi->body->axes.count; i++) {
    if (!python_is_chosen(r, i) || !is_told_by_operands(r, i)) continue;
    PUT("%s%s == %lld", joined, r->axes[i], (long long)r->abi->body->axes.items[i].size);
    joined = " and ";
  }
  PUT("%s:\n            return %d\n", *joined ? "" : "True", variant);
}

// Which variant a call takes: its position in `_ops_NAME`. Straight lines, as all that small calls pass.
static void put_pick(const python_printer *p, const python_function *f) {
  const python_recurrence *r = &f->variants.items[0];
  PUT("def _pick_%s(", f->symbol);
  python_put_names(p, r, &r->operands);
  PUT(", _step):\n    \"\"\"The position of the variant that has the type and the sizes of a call.\"\"\"\n    try:\n");
  if (p->library->dtypes.count > 1) PUT("        _type = _type_for(%s)\n", r->names[r->operands.items[0]]);
  for (int i = 0; i < r->abi->body->axes.count; i++)
    if (python_is_chosen(r, i) && is_told_by_operands(r, i)) put_chosen_axis(p, r, i);
  for (int i = 0; i < f->variants.count; i++) put_condition(p, f, i);
  PUT("    except (AttributeError, IndexError):  # too few axes\n        pass\n    _refuse(_family_%s[0], ", f->symbol);
  python_put_tuple(p, r, &r->operands);
  PUT(", step=_step)\n\n\n");
  static const char *const variables[] = {"_ops_", "_op_", "_stepops_", "_op_step_"};
  for (int i = 0; i < 2; i++) {
    PUT("%s%s = (", variables[2 * i], f->symbol);
    for (int k = 0; k < f->variants.count; k++) PUT("%s%s%s", k ? ", " : "", variables[2 * i + 1], f->variants.items[k].symbol);
    PUT(")\n");
  }
  PUT("\n\n");
}

// One function of the variants, which begins with `prefix`, or what picks among them.
static void put_of_variants(const python_printer *p, const python_function *f, const char *prefix, bool step) {
  if (f->variants.count == 1) {
    PUT("%s%s", prefix, f->variants.items[0].symbol);
    return;
  }
  PUT("_picking((");
  for (int i = 0; i < f->variants.count; i++) PUT("%s%s%s", i ? ", " : "", prefix, f->variants.items[i].symbol);
  PUT("), _pick_%s, %d, %s)", f->symbol, f->variants.items[0].operands.count, step ? "True" : "False");
}

// The operator for calls without gradients, one for all variants.
static void put_quick(const python_printer *p, const python_function *f, bool step) {
  const char *word = step ? "step_" : "", *entry = step ? "step" : "forward";
  PUT("_quick_%s%s = _quick_operator(\n    \"%s_quick_%s\",\n    \"rec_torch_%s_%s\",\n", word, f->symbol, f->symbol, entry,
      f->symbol, entry);
  torch_put_schema_of(p, &f->variants.items[0], step, false);
  put_of_variants(p, f, step ? "_fakestep_" : "_fake_", step);
  PUT(", ");
  put_of_variants(p, f, step ? "_op_step_" : "_op_", step);
  PUT(",\n)\n%s", step ? "\n\n" : "");
}

static void put_is_tensor(const python_printer *p, const char *name, int before, bool is_optional) {
  if (before) PUT(" and ");
  is_optional ? PUT("(%s is None or isinstance(%s, torch.Tensor))", name, name) : PUT("isinstance(%s, torch.Tensor)", name);
}

// Parameters and states of 16 bits, and offsets of 64, in the types that the library takes.
static void put_widening(const python_printer *p, const python_recurrence *r, bool step) {
  for (int i = 0; i < r->operands.count; i++) {
    int memory = r->operands.items[i];
    const char *name = r->names[memory];
    if (python_memory(r, memory)->token) continue;
    PUT("    if %s%s%s.dtype is not torch.float32:\n        %s = _widened(%s, %s)\n", python_is_optional(r, memory) ? name : "",
        python_is_optional(r, memory) ? " is not None and " : "", name, name, name, r->names[r->operands.items[0]]);
  }
  if (!step)
    PUT("    if cu_seqlens is not None and cu_seqlens.dtype is torch.int64:\n        cu_seqlens = _narrowed(cu_seqlens)\n");
}

static void put_public(const python_printer *p, const python_function *f, bool step) {
  const python_recurrence *r = &f->variants.items[0];
  bool one = r->results.count == 1;
  const char *result = one ? "torch.Tensor" : arena_printf(p->memory, "%s_result", f->name);
  const char *made = one ? "" : arena_printf(p->memory, "%s_result(*", f->name), *end = one ? "" : ")";
  PUT("def %s%s(\n", f->name, step ? "_step" : "");
  for (int i = 0; i < r->operands.count; i++)
    PUT("    %s: %s,\n", r->names[r->operands.items[i]],
        python_is_optional(r, r->operands.items[i]) ? "Optional[torch.Tensor] = None" : "torch.Tensor");
  if (!step) PUT("    cu_seqlens: Optional[torch.Tensor] = None,\n");
  PUT(") -> %s:\n", result);
  if (step)
    PUT("    \"\"\"One step of %s, without an axis of time: hand its states to the next.\n\n", f->name);
  else
    python_put_doc(p, f);
  python_put_tensors(p, f, &r->operands, step);
  if (!step)
    PUT("    cu_seqlens: None, or whole numbers: the offsets of sequences packed behind one another in one batch entry, and "
        "their "
        "end;\n"
        "        states then have one entry for each sequence\n");
  PUT("    \"\"\"\n    if not (");
  for (int i = 0; i < r->operands.count; i++)
    put_is_tensor(p, r->names[r->operands.items[i]], i, python_is_optional(r, r->operands.items[i]));
  if (!step) put_is_tensor(p, "cu_seqlens", r->operands.count, true);
  PUT("):\n        _refuse(_family_%s[0], ", f->symbol);
  python_put_tuple(p, r, &r->operands);
  PUT(step ? ", step=True)\n" : ", cu_seqlens)\n");
  put_widening(p, r, step);
  PUT("    if _forward_ad._current_level < 0 and not (");
  torch_put_needs_gradient(p, r);
  PUT("):\n        try:\n            return %s_quick_%s%s(", made, step ? "step_" : "", f->symbol);
  torch_put_operands(p, r, step);
  PUT("%s)\n        except RuntimeError:  # the other operator says what it is\n            pass\n    return %s", end, made);
  if (f->variants.count == 1) {
    PUT("_op_%s%s(", step ? "step_" : "", r->symbol);
  } else {
    PUT("%s%s[_pick_%s(", step ? "_stepops_" : "_ops_", f->symbol, f->symbol);
    python_put_names(p, r, &r->operands);
    PUT(", %s)](", step ? "True" : "False");
  }
  torch_put_operands(p, r, step);
  PUT("%s)\n\n\n", end);
}

void torch_put_function(const python_printer *p, const python_function *f) {
  python_put_rule(p->out, f->variants.items[0].abi->body->name);
  python_put_tables(p, f);
  for (int i = 0; i < f->variants.count; i++) torch_put_operators(p, &f->variants.items[i]);
  if (f->variants.count > 1) put_pick(p, f);
  put_quick(p, f, false);
  put_quick(p, f, true);
  put_result_class(p, f);
  put_public(p, f, false);
  put_public(p, f, true);
  torch_put_module(p, f);
}
