// The start of a parameter (`~ log(uniform(1, 16))`) as lines of torch in double precision, one for
// each of its values.
//
//   _0 = _number(1)
//   _1 = _number(16)
//   _2 = _uniform(_weight, _0, _1)
//   _3 = torch.log(_2)
#include "compiler/base/ice.h"
#include "compiler/base/text.h"
#include "compiler/bindings/torch.h"

// $0, $1, $2: the operands; $n: the exponent.
static const char *const operations[VALUE_OP_COUNT] = {
    [VALUE_NEG] = "-$0",
    [VALUE_ADD] = "$0 + $1",
    [VALUE_SUB] = "$0 - $1",
    [VALUE_MUL] = "$0 * $1",
    [VALUE_DIV] = "$0 / $1",
    [VALUE_WHOLE_POWER] = "$0 ** $n",
    [VALUE_POWER] = "$0 ** $1",
    [VALUE_EXP] = "torch.exp($0)",
    [VALUE_EXPM1] = "torch.expm1($0)",
    [VALUE_LOG] = "torch.log($0)",
    [VALUE_LOG1P] = "torch.log1p($0)",
    [VALUE_SQRT] = "torch.sqrt($0)",
    [VALUE_RSQRT] = "torch.rsqrt($0)",
    [VALUE_ABS] = "torch.abs($0)",
    [VALUE_SIGMOID] = "torch.sigmoid($0)",
    [VALUE_LOG_SIGMOID] = "torch.nn.functional.logsigmoid($0)",
    [VALUE_SOFTPLUS] = "torch.nn.functional.softplus($0)",
    [VALUE_SILU] = "torch.nn.functional.silu($0)",
    [VALUE_GELU] = "torch.nn.functional.gelu($0)",
    [VALUE_RELU] = "torch.relu($0)",
    [VALUE_TANH] = "torch.tanh($0)",
    [VALUE_SIN] = "torch.sin($0)",
    [VALUE_COS] = "torch.cos($0)",
    [VALUE_MIN] = "torch.minimum($0, $1)",
    [VALUE_MAX] = "torch.maximum($0, $1)",
    [VALUE_CLAMP] = "torch.clamp($0, $1, $2)",
    [VALUE_LESS] = "($0 < $1).double()",
    [VALUE_LESS_EQUAL] = "($0 <= $1).double()",
    [VALUE_GREATER] = "($0 > $1).double()",
    [VALUE_GREATER_EQUAL] = "($0 >= $1).double()",
    [VALUE_EQUAL] = "($0 == $1).double()",
    [VALUE_WHERE] = "torch.where($0 != 0, $1, $2)",
    [VALUE_STOP_GRADIENT] = "$0",
    [VALUE_COMPLEX] = "torch.complex($0, $1)",
    [VALUE_POLAR] = "torch.polar($0, $1)",
    [VALUE_REAL_PART] = "$0.real",
    [VALUE_IMAGINARY_PART] = "$0.imag",
    [VALUE_CONJUGATE] = "$0.conj()",
    [VALUE_COMPLEX_ABS] = "torch.abs($0)",
};

static void put_operation(FILE *out, const start_value *v) {
  const char *text = operations[v->op];
  if (!text) ICE("bindings", "a start with the operation '%s'", value_op_text(v->op));
  for (const char *c = text; *c; c++) {
    if (*c != '$') {
      fputc(*c, out);
    } else if (*++c == 'n') {
      fprintf(out, "%d", v->exponent);
    } else {
      fprintf(out, "_%d", v->args[*c - '0']);
    }
  }
}

static void put_value(FILE *out, const torch_start *start, const start_value *v) {
  static const char *const draws[] = {
      [START_UNIFORM] = "uniform", [START_LOGUNIFORM] = "loguniform", [START_NORMAL] = "normal"};
  switch (v->kind) {
    case START_VALUE:
      if (v->op == VALUE_NUMBER) {
        fprintf(out, "_number(");
        print_number(out, v->number);
        fprintf(out, ")");
      } else if (v->op == VALUE_AXIS_SIZE) {
        fprintf(out, "_number(%s)", start->sizes[v->axis]);
      } else {
        put_operation(out, v);
      }
      return;
    case START_UNIFORM:
    case START_LOGUNIFORM:
    case START_NORMAL:
      fprintf(out, "_%s(_shape, _%d, _%d)", draws[v->kind], v->args[0], v->args[1]);
      return;
    case START_INV_SOFTPLUS: fprintf(out, "torch.log(torch.expm1(_%d))", v->args[0]); return;
    case START_INDEX: fprintf(out, "_index(_shape, %d)", start->places[v->axis]); return;
    case START_LEGS_IMAG:
    case START_LEGS_INPUT:
      fprintf(out, "_legs(_shape, %d, _%d)[%d]", start->places[v->axis], v->args[0],
              v->kind == START_LEGS_INPUT);
      return;
    case START_IDENTITY:
      fprintf(out, start->is_convolution ? "_last_tap(_shape)" : "_identity(_shape)");
      return;
    case START_LAYER: fprintf(out, "_number(%d)", start->layer); return;
    case START_LAYERS: fprintf(out, "_number(%d)", start->layers); return;
    case START_OTHER_DRAW:
      fprintf(out, "%s.reshape(_shape)", start->draws[v - start->start->values.items]);
      return;
  }
}

void torch_put_start(FILE *out, const torch_start *start) {
  for (int i = 0; i < start->start->values.count; i++) {
    fprintf(out, "            _%d = ", i);
    put_value(out, start, &start->start->values.items[i]);
    fprintf(out, "\n");
  }
  int last = start->start->values.count - 1;
  if (start->weight)
    fprintf(out, "            _start(%s, _%d)\n", start->weight, last);
  else
    fprintf(out, "            %s = _%d.expand(_shape)\n", start->variable, last);
}
