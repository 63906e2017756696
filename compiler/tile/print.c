// Tile programs as text. parse.c reads the same form back.
//
//   program ssd.forward chunk 16
//   axis G ? grid
//   time t 16
//   argument 0 input dt[G] time tensor 1
//   %0 [t,G] = argument 0 "dt"
//   result output y[G] time tensor 2 = %0
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/tile/tile.h"

typedef struct text {
  arena *arena;
  VEC(char)
  chars;
} text;

__attribute__((format(printf, 2, 3))) static void put(text *out, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const char *piece = arena_vprintf(out->arena, format, arguments);
  va_end(arguments);
  for (const char *c = piece; *c; c++) vec_push(out->arena, &out->chars, *c);
}

static const char *axis_name(const tile_program *p, int axis) { return p->axes.items[axis].name; }

static void put_axis_list(text *out, const tile_program *p, axis_set set) {
  const char *separator = "";
  for (int pass = 0; pass < 2; pass++) {  // time axes first, as in memory
    for (int i = 0; i < p->axes.count; i++) {
      if (!axis_in(set, i) || (p->axes.items[i].body_axis < 0) != (pass == 0)) continue;
      put(out, "%s%s", separator, axis_name(p, i));
      separator = ",";
    }
  }
}

// The shortest text that reads back to the same number.
static void put_number(text *out, double x) {
  if (isnan(x) || isinf(x)) {
    put(out, "%s", isnan(x) ? "nan" : x > 0 ? "inf" : "-inf");
    return;
  }
  char digits[40];
  for (int precision = 1; precision <= 17; precision++) {
    snprintf(digits, sizeof digits, "%.*g", precision, x);
    if (strtod(digits, NULL) == x) break;
  }
  put(out, "%s", digits);
}

static void put_place(text *out, const tile_program *p, const tile_place *place) {
  put(out, "%s %s[", tile_role_text(place->role), place->name ? place->name : "-");
  for (int i = 0; i < place->axis_count; i++) {
    put(out, "%s%s", i ? "," : "", axis_name(p, place->axes[i]));
  }
  put(out, "]%s", place->time ? " time" : "");
  if (place->tensor >= 0) put(out, " tensor %d", place->tensor);
  if (place->lag >= 0) put(out, " lag %d slot %d", place->lag, place->slot);
  if (place->stash >= 0) put(out, " stash %d", place->stash);
  if (place->component) put(out, " component %d", place->component);
  if (place->transfer) put(out, " transfer");
  if (place->source) put(out, " source %d", place->source - 1);
  if (place->relative) put(out, " relative %d", place->relative - 1);
  if (place->partial) {
    put(out, " partial ");
    put_axis_list(out, p, place->partial);
  }
}

static void put_detail(text *out, const tile_program *p, const tile_value *v) {
  switch (v->op) {
    case TILE_NUMBER:
      put(out, " ");
      put_number(out, v->number);
      break;
    case TILE_AXIS_SIZE:
    case TILE_INDEX: put(out, " %s", axis_name(p, tile_index_axis(v))); break;
    case TILE_ARGUMENT: put(out, " %d", tile_argument_number(v)); break;
    case TILE_SUM:
    case TILE_MAX_OVER:
    case TILE_MIN_OVER:
    case TILE_FIRST_EQUAL:
    case TILE_EXPAND:
    case TILE_DOT:
      put(out, " over ");
      put_axis_list(out, p, v->over);
      break;
    case TILE_RENAME: put(out, " %s -> %s", axis_name(p, tile_renamed_from(v)), axis_name(p, tile_renamed_to(v))); break;
    case TILE_SLICE:
    case TILE_PLACE: put(out, " %s = %d", axis_name(p, tile_entry_axis(v)), tile_entry(v)); break;
    case TILE_SPLIT:
      put(out, " %s -> %s,%s", axis_name(p, tile_whole_axis(v)), axis_name(p, tile_outer_axis(v)),
          axis_name(p, tile_inner_axis(v)));
      break;
    case TILE_JOIN:
      put(out, " %s,%s -> %s", axis_name(p, tile_outer_axis(v)), axis_name(p, tile_inner_axis(v)),
          axis_name(p, tile_whole_axis(v)));
      break;
    case TILE_SHIFT: put(out, " %s by %d", axis_name(p, tile_shift_axis(v)), tile_shift_distance(v)); break;
    case TILE_SOLVE:
      put(out, " along %s,%s%s", axis_name(p, tile_row_axis(v)), axis_name(p, tile_column_axis(v)),
          tile_is_transposed(v) ? " transposed" : "");
      break;
    case TILE_AT_END: put(out, " %d", tile_steps_before_end(v)); break;
    case TILE_PREFIX:
      if (tile_step_axis(v) != p->time_axis) put(out, " along %s", axis_name(p, tile_step_axis(v)));
      put(out, "%s%s", tile_is_exclusive(v) ? " exclusive" : "", tile_is_from_end(v) ? " reverse" : "");
      break;
    case TILE_SEGMENT:
    case TILE_SEGMENT_ADJOINT:
    case TILE_CAUSAL:
      if (tile_step_axis(v) != p->time_axis || tile_other_step_axis(v) != p->pair_axis) {
        put(out, " along %s,%s", axis_name(p, tile_step_axis(v)), axis_name(p, tile_other_step_axis(v)));
      }
      put(out, "%s", tile_is_exclusive(v) ? " exclusive" : "");
      break;
    default: break;
  }
}

static void put_axes(text *out, const tile_program *p) {
  for (int i = 0; i < p->axes.count; i++) {
    const tile_axis *axis = &p->axes.items[i];
    const char *kind = i == p->time_axis ? "time" : i == p->pair_axis ? "pair" : axis->body_axis < 0 ? "local" : "axis";
    put(out, "%s %s ", kind, axis->name);
    if (axis->size == TILE_RUNTIME_SIZE) {
      put(out, "?");
    } else {
      put(out, "%lld", (long long)axis->size);
    }
    put(out, "%s\n", axis_in(p->grid, i) ? " grid" : "");
  }
}

char *tile_print(arena *a, const tile_program *program) {
  text out = {.arena = a};
  put(&out, "program %s ", program->name);
  if (program->form == TILE_STEP) {
    put(&out, "step\n");
  } else {
    put(&out, "chunk %d\n", program->chunk);
  }
  put_axes(&out, program);
  for (int i = 0; i < program->arguments.count; i++) {
    put(&out, "argument %d ", i);
    put_place(&out, program, &program->arguments.items[i]);
    put(&out, "\n");
  }
  for (int i = 0; i < program->values.count; i++) {
    const tile_value *v = &program->values.items[i];
    put(&out, "%%%d [", i);
    put_axis_list(&out, program, v->axes);
    put(&out, "] = %s", tile_op_text(v->op));
    for (int k = 0; k < tile_arity(v->op); k++) put(&out, " %%%d", v->args[k]);
    put_detail(&out, program, v);
    if (v->name) put(&out, " \"%s\"", v->name);
    put(&out, "\n");
  }
  for (int i = 0; i < program->results.count; i++) {
    put(&out, "result ");
    put_place(&out, program, &program->results.items[i].place);
    put(&out, " = %%%d\n", program->results.items[i].value);
  }
  vec_push(a, &out.chars, '\0');
  return out.chars.items;
}
