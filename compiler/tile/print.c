// Tile programs as text. parse.c reads the same form back.
//
//   program ssd.forward chunk 16
//   axis G ? grid
//   time t 16
//   argument 0 input dt[G] time tensor 1
//   %0 [t,G] = argument 0 "dt"
//   result output y[G] time tensor 2 = %0
#include "compiler/base/text.h"
#include "compiler/tile/tile.h"

static const char *axis_name(const tile_program *p, int axis) { return p->axes.items[axis].name; }

static void put_axis_list(FILE *out, const tile_program *p, axis_set set) {
  const char *separator = "";
  for (int pass = 0; pass < 2; pass++) {  // time axes first, as in memory
    for (int i = 0; i < p->axes.count; i++) {
      if (!axis_in(set, i) || (p->axes.items[i].body_axis < 0) != (pass == 0)) continue;
      fprintf(out, "%s%s", separator, axis_name(p, i));
      separator = ",";
    }
  }
}

static void put_place(FILE *out, const tile_program *p, const tile_place *place) {
  fprintf(out, "%s %s[", tile_role_text(place->role), place->name ? place->name : "-");
  for (int i = 0; i < place->axis_count; i++) {
    fprintf(out, "%s%s", i ? "," : "", axis_name(p, place->axes[i]));
  }
  fprintf(out, "]%s", place->time ? " time" : "");
  if (place->tensor >= 0) fprintf(out, " tensor %d", place->tensor);
  if (place->lag >= 0) fprintf(out, " lag %d slot %d", place->lag, place->slot);
  if (place->stash >= 0) fprintf(out, " stash %d", place->stash);
  if (place->component) fprintf(out, " component %d", place->component);
  if (place->transfer) fprintf(out, " transfer");
  if (place->source) fprintf(out, " source %d", place->source - 1);
  if (place->relative) fprintf(out, " relative %d", place->relative - 1);
  if (place->partial) {
    fprintf(out, " partial ");
    put_axis_list(out, p, place->partial);
  }
}

static void put_detail(FILE *out, const tile_program *p, const tile_value *v) {
  switch (v->op) {
    case TILE_NUMBER:
      fprintf(out, " ");
      print_number(out, v->number);
      break;
    case TILE_AXIS_SIZE:
    case TILE_INDEX: fprintf(out, " %s", axis_name(p, tile_index_axis(v))); break;
    case TILE_ARGUMENT: fprintf(out, " %d", tile_argument_number(v)); break;
    case TILE_SUM:
    case TILE_MAX_OVER:
    case TILE_MIN_OVER:
    case TILE_FIRST_EQUAL:
    case TILE_EXPAND:
    case TILE_DOT:
      fprintf(out, " over ");
      put_axis_list(out, p, v->over);
      break;
    case TILE_RENAME: fprintf(out, " %s -> %s", axis_name(p, tile_renamed_from(v)), axis_name(p, tile_renamed_to(v))); break;
    case TILE_SLICE:
    case TILE_PLACE: fprintf(out, " %s = %d", axis_name(p, tile_entry_axis(v)), tile_entry(v)); break;
    case TILE_SPLIT:
      fprintf(out, " %s -> %s,%s", axis_name(p, tile_whole_axis(v)), axis_name(p, tile_outer_axis(v)),
              axis_name(p, tile_inner_axis(v)));
      break;
    case TILE_JOIN:
      fprintf(out, " %s,%s -> %s", axis_name(p, tile_outer_axis(v)), axis_name(p, tile_inner_axis(v)),
              axis_name(p, tile_whole_axis(v)));
      break;
    case TILE_SHIFT: fprintf(out, " %s by %d", axis_name(p, tile_shift_axis(v)), tile_shift_distance(v)); break;
    case TILE_SOLVE:
      fprintf(out, " along %s,%s%s", axis_name(p, tile_row_axis(v)), axis_name(p, tile_column_axis(v)),
              tile_is_transposed(v) ? " transposed" : "");
      break;
    case TILE_AT_END: fprintf(out, " %d", tile_steps_before_end(v)); break;
    case TILE_PREFIX:
      if (tile_step_axis(v) != p->time_axis) fprintf(out, " along %s", axis_name(p, tile_step_axis(v)));
      fprintf(out, "%s%s", tile_is_exclusive(v) ? " exclusive" : "", tile_is_from_end(v) ? " reverse" : "");
      break;
    case TILE_SEGMENT:
    case TILE_SEGMENT_ADJOINT:
    case TILE_CAUSAL:
      if (tile_step_axis(v) != p->time_axis || tile_other_step_axis(v) != p->pair_axis) {
        fprintf(out, " along %s,%s", axis_name(p, tile_step_axis(v)), axis_name(p, tile_other_step_axis(v)));
      }
      fprintf(out, "%s", tile_is_exclusive(v) ? " exclusive" : "");
      break;
    default: break;
  }
}

static void put_axes(FILE *out, const tile_program *p) {
  for (int i = 0; i < p->axes.count; i++) {
    const tile_axis *axis = &p->axes.items[i];
    const char *kind = i == p->time_axis ? "time" : i == p->pair_axis ? "pair" : axis->body_axis < 0 ? "local" : "axis";
    fprintf(out, "%s %s ", kind, axis->name);
    if (axis->size == TILE_RUNTIME_SIZE) {
      fprintf(out, "?");
    } else {
      fprintf(out, "%lld", (long long)axis->size);
    }
    fprintf(out, "%s\n", axis_in(p->grid, i) ? " grid" : "");
  }
}

char *tile_print(arena *a, const tile_program *program) {
  text_stream text;
  FILE *out = text_begin(&text);
  fprintf(out, "program %s ", program->name);
  if (program->form == TILE_STEP) {
    fprintf(out, "step\n");
  } else {
    fprintf(out, "chunk %d\n", program->chunk);
  }
  put_axes(out, program);
  for (int i = 0; i < program->arguments.count; i++) {
    fprintf(out, "argument %d ", i);
    put_place(out, program, &program->arguments.items[i]);
    fprintf(out, "\n");
  }
  for (int i = 0; i < program->values.count; i++) {
    const tile_value *v = &program->values.items[i];
    fprintf(out, "%%%d [", i);
    put_axis_list(out, program, v->axes);
    fprintf(out, "] = %s", tile_op_text(v->op));
    for (int k = 0; k < tile_arity(v->op); k++) fprintf(out, " %%%d", v->args[k]);
    put_detail(out, program, v);
    if (v->name) fprintf(out, " \"%s\"", v->name);
    fprintf(out, "\n");
  }
  for (int i = 0; i < program->results.count; i++) {
    fprintf(out, "result ");
    put_place(out, program, &program->results.items[i].place);
    fprintf(out, " = %%%d\n", program->results.items[i].value);
  }
  return text_end(&text, a);
}
