// Tile programs as text. parse.c reads the same form back.
//
//   program ssd.forward chunk 16
//   axis G ? grid
//   time t 16
//   argument 0 input dt[G] time tensor 1
//   %0 [t,G] = argument 0 "dt"
//   result output y[G] time tensor 2 = %0
#include <string.h>

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

static void put_tile_place(FILE *out, const tile_program *p, const tile_place *place) {
  fprintf(out, "%s %s[", tile_role_text(place->role), place->name ? place->name : "-");
  for (int i = 0; i < place->axis_count; i++)
    fprintf(out, "%s%s", i ? "," : "", axis_name(p, place->axes[i]));
  fprintf(out, "]%s", place->time ? " time" : "");
  if (place->tensor >= 0) fprintf(out, " tensor %d", place->tensor);
  if (place->lag >= 0) fprintf(out, " lag %d slot %d", place->lag, place->slot);
  if (place->stash >= 0) fprintf(out, " stash %d", place->stash);
  if (place->component) fprintf(out, " component %d", place->component);
  if (place->ahead) fprintf(out, " ahead");
  if (place->transfer) fprintf(out, " transfer");
  if (place->source) fprintf(out, " source %d", place->source - 1);
  if (place->relative) fprintf(out, " relative %d", place->relative - 1);
  if (place->partial) {
    fprintf(out, " partial ");
    put_axis_list(out, p, place->partial);
  }
}

static void put_along(FILE *out, const tile_program *p, const tile_value *v, bool pairs) {
  bool steps =
      tile_step_axis(v) == p->time_axis && (!pairs || tile_other_step_axis(v) == p->pair_axis);
  if (!steps) fprintf(out, " along %s", axis_name(p, tile_step_axis(v)));
  if (!steps && pairs) fprintf(out, ",%s", axis_name(p, tile_other_step_axis(v)));
}

static void put_value_part(FILE *out, const tile_program *p, const tile_value *v, const char *part,
                           int length) {
  switch (length == 1 ? *part : '\0') {
    case 'A': fputs(axis_name(p, v->index), out); break;
    case 'B': fputs(axis_name(p, v->index2), out); break;
    case 'C': fputs(axis_name(p, v->index3), out); break;
    case 'O': put_axis_list(out, p, v->over); break;
    case 'a': fprintf(out, "%d", v->index); break;
    case 'b':
    case 'd':
    case 'e': fprintf(out, "%d", v->index2); break;
    case 'x': print_number(out, v->number); break;
    default: fprintf(out, "%.*s", length, part); break;
  }
}

// Behind the operands, by the letters of ops.def. No space stands beside a comma.
static void put_detail(FILE *out, const tile_program *p, const tile_value *v) {
  bool comma = false;
  for (const char *part = tile_op_detail(v->op); *part;) {
    int length = (int)strcspn(part, " ");
    switch (*part) {
      case 'S':
      case 'P': put_along(out, p, v, *part == 'P'); break;
      case 'T': fputs(tile_is_transposed(v) ? " transposed" : "", out); break;
      case 'X': fputs(tile_is_exclusive(v) ? " exclusive" : "", out); break;
      case 'R': fputs(tile_is_from_end(v) ? " reverse" : "", out); break;
      default:
        if (!comma && *part != ',') fputc(' ', out);
        put_value_part(out, p, v, part, length);
    }
    comma = *part == ',';
    part += length + (part[length] == ' ');
  }
}

static void put_program_axes(FILE *out, const tile_program *p) {
  for (int i = 0; i < p->axes.count; i++) {
    const tile_axis *axis = &p->axes.items[i];
    const char *kind = i == p->time_axis     ? "time"
                       : i == p->pair_axis   ? "pair"
                       : axis->body_axis < 0 ? "local"
                                             : "axis";
    fprintf(out, "%s %s ", kind, axis->name);
    if (axis->size == TILE_RUNTIME_SIZE)
      fprintf(out, "?");
    else
      fprintf(out, "%lld", (long long)axis->size);
    fprintf(out, "%s\n", axis_in(p->grid, i) ? " grid" : "");
  }
}

char *tile_print(arena *a, const tile_program *program) {
  text_stream text;
  FILE *out = text_begin(&text);
  fprintf(out, "program %s ", program->name);
  if (program->form == TILE_STEP)
    fprintf(out, "step\n");
  else
    fprintf(out, "chunk %d\n", program->chunk);
  put_program_axes(out, program);
  for (int i = 0; i < program->arguments.count; i++) {
    fprintf(out, "argument %d ", i);
    put_tile_place(out, program, &program->arguments.items[i]);
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
    put_tile_place(out, program, &program->results.items[i].place);
    fprintf(out, " = %%%d\n", program->results.items[i].value);
  }
  return text_end(&text, a);
}
