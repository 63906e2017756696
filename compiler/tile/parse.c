// Reads the text of a tile program (print.c) back to the same program, value for value: nothing is
// simplified.
//
//   %2 [t,G] = mul %0 %1   ->   tile_append_exact(MUL, %0, %1), which must be value 2 with axes t and G
//
// Comments run from // to the end of the line. The text may come from anywhere: what is wrong with
// it is said with its place, and the rest is not read.
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/tile/tile.h"

typedef struct reader {
  const source *text;
  diag *messages;
  interner *names;
  tile_program *program;
  uint32_t at;   // start of the current token
  uint32_t end;  // its end
  bool failed;
} reader;

enum { WHOLE_NUMBER_MAX = 1 << 24 };

static bool name_char(char c) {
  return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '\'';
}

// A token: a name or number, `->`, a quoted text, or one other character; empty at the end of a
// line or of the text.
static void scan(reader *r, uint32_t from) {
  const char *text = r->text->text;
  while (text[from] == ' ' || text[from] == '\t') from++;
  if (text[from] == '/' && text[from + 1] == '/')
    while (text[from] != '\n' && text[from] != '\0') from++;
  r->at = r->end = from;
  if (text[from] == '\n' || text[from] == '\0') return;
  if (text[from] == '-' && text[from + 1] == '>') {
    r->end = from + 2;
  } else if (text[from] == '"') {
    uint32_t close = from + 1;
    while (text[close] != '"' && text[close] != '\n' && text[close] != '\0') close++;
    r->end = text[close] == '"' ? close + 1 : close;
  } else if (name_char(text[from]) ||
             (text[from] == '-' && isalnum((unsigned char)text[from + 1]))) {
    uint32_t i = from + 1;
    while (name_char(text[i]) || ((text[i] == '-' || text[i] == '+') && text[i - 1] == 'e')) i++;
    r->end = i;
  } else {
    r->end = from + 1;
  }
}

static void next_tile_token(reader *r) { scan(r, r->end); }

// The first token of the next line that has one; false at the end of the text.
static bool next_token_line(reader *r) {
  const char *text = r->text->text;
  do {
    uint32_t i = r->end;
    if (text[i] == '\n') i++;
    scan(r, i);
  } while (r->at == r->end && text[r->at] == '\n');
  return text[r->at] != '\0';
}

static const char *token(reader *r) {
  return intern_n(r->names, r->text->text + r->at, r->end - r->at);
}

static void expected(reader *r, const char *what) {
  if (r->failed) return;
  r->failed = true;
  span where = {.source = r->text->id, .begin = r->at, .end = r->end > r->at ? r->end : r->at + 1};
  if (r->text->text[r->at] == '\0' || where.end > r->text->size)
    where.end = where.begin = r->text->size;
  if (r->at == r->end)
    diag_error(r->messages, where, "expected %s, found the end of the line", what);
  else
    diag_error(r->messages, where, "expected %s, found '%s'", what, token(r));
}

static bool here(reader *r, const char *word) {
  return strlen(word) == r->end - r->at &&
         strncmp(r->text->text + r->at, word, r->end - r->at) == 0;
}

static bool take_word(reader *r, const char *word) {
  if (!here(r, word)) return false;
  next_tile_token(r);
  return true;
}

static void need_word(reader *r, const char *word) {
  if (!take_word(r, word)) expected(r, word);
}

static const char *need_name(reader *r, const char *what) {
  if (r->at == r->end || !name_char(r->text->text[r->at])) {
    expected(r, what);
    return "";
  }
  const char *name = token(r);
  next_tile_token(r);
  return name;
}

static int need_between(reader *r, int least, const char *what) {
  char *end;
  long value = strtol(r->text->text + r->at, &end, 10);
  bool whole = r->at < r->end && end == r->text->text + r->end;
  if (!whole || value > WHOLE_NUMBER_MAX || value < least) {
    expected(r, what);
    return 0;
  }
  next_tile_token(r);
  return (int)value;
}

static int need_whole(reader *r, const char *what) { return need_between(r, 0, what); }

static double need_number(reader *r) {
  if (take_word(r, "inf")) return INFINITY;
  if (take_word(r, "-inf")) return -INFINITY;
  if (take_word(r, "nan")) return NAN;
  char *end;
  double value = strtod(r->text->text + r->at, &end);
  if (r->at == r->end || end != r->text->text + r->end) expected(r, "a number");
  next_tile_token(r);
  return value;
}

static int need_axis(reader *r) {
  for (int i = 0; i < r->program->axes.count; i++) {
    if (here(r, r->program->axes.items[i].name)) {
      next_tile_token(r);
      return i;
    }
  }
  expected(r, "an axis of the program");
  return 0;
}

static tile_id need_value(reader *r) {
  uint32_t begin = r->at, end = r->end;
  need_word(r, "%");
  int id = need_whole(r, "the number of a value");
  if (!r->failed && id >= r->program->values.count) {
    r->at = begin;
    r->end = end;
    expected(r, "a value that stands above");
  }
  return r->failed ? NO_TILE : id;
}

static axis_set need_axis_set(reader *r) {
  axis_set set = 0;
  do {
    set |= axis_bit(need_axis(r));
  } while (!r->failed && take_word(r, ","));
  return set;
}

static void read_tile_axis(reader *r, const char *kind) {
  tile_program *p = r->program;
  int position = p->axes.count;
  if (position == TILE_MAX_AXES) {
    expected(r, "at most 64 axes");
    return;
  }
  tile_axis axis = {.name = need_name(r, "the name of an axis"), .body_axis = -1};
  for (int i = 0; i < position; i++)
    if (p->axes.items[i].name == axis.name) expected(r, "axes of different names");
  axis.size = take_word(r, "?") ? TILE_RUNTIME_SIZE : need_whole(r, "the size of an axis or '?'");
  if (strcmp(kind, "axis") == 0) {
    axis.body_axis = position;
    if (p->time_axis >= 0) expected(r, "the time axes after all others");
  } else if (strcmp(kind, "time") == 0) {
    if (p->time_axis >= 0) expected(r, "one time axis");
    p->time_axis = position;
  } else if (strcmp(kind, "local") == 0) {
    if (axis.size < 1) expected(r, "a size of at least 1");
  } else {
    if (p->pair_axis >= 0) expected(r, "one pair axis");
    p->pair_axis = position;
  }
  if (take_word(r, "grid")) p->grid |= axis_bit(position);
  vec_push(p->arena, &p->axes, axis);
}

static tile_place read_tile_place(reader *r) {
  tile_place place = {.tensor = -1, .lag = -1, .stash = -1};
  int role = 0;
  while (role <= TILE_D_STATE && !here(r, tile_role_text((tile_role)role))) role++;
  if (role > TILE_D_STATE) {
    expected(r, "a role, as 'input' or 'd.param'");
    return place;
  }
  next_tile_token(r);
  place.role = (tile_role)role;
  if (!take_word(r, "-")) place.name = need_name(r, "a name");
  need_word(r, "[");
  while (!r->failed && !take_word(r, "]")) {
    if (place.axis_count) need_word(r, ",");
    if (place.axis_count == TYPED_MAX_AXES) {
      expected(r, "fewer axes");
      break;
    }
    place.axes[place.axis_count++] = need_axis(r);
  }
  place.time = take_word(r, "time");
  if (take_word(r, "tensor")) place.tensor = need_whole(r, "the number of a tensor");
  if (take_word(r, "lag")) {
    place.lag = need_whole(r, "the number of a lag buffer");
    need_word(r, "slot");
    place.slot = need_whole(r, "a slot");
  }
  if (take_word(r, "stash")) place.stash = need_whole(r, "the number of a stash");
  if (take_word(r, "component")) place.component = need_whole(r, "0 or 1");
  place.ahead = take_word(r, "ahead");
  place.transfer = take_word(r, "transfer");
  if (take_word(r, "source")) place.source = 1 + need_whole(r, "the number of a tensor");
  if (take_word(r, "relative")) place.relative = 1 + need_whole(r, "the number of a tensor");
  if (take_word(r, "partial")) place.partial = need_axis_set(r);
  return place;
}

static void read_tile_argument(reader *r) {
  if (need_whole(r, "the number of the argument") != r->program->arguments.count)
    expected(r, "arguments numbered from 0");
  tile_place place = read_tile_place(r);
  if (!r->failed) vec_push(r->program->arena, &r->program->arguments, place);
}

// The axes that sums along time and masks of pairs go along: t and s unless the text says others.
static void read_along(reader *r, tile_value *v, bool pairs) {
  if (take_word(r, "along")) {
    v->index2 = need_axis(r);
    if (pairs) need_word(r, ",");
    if (pairs) v->index3 = need_axis(r);
    return;
  }
  if (r->program->time_axis < 0 || r->program->pair_axis < 0) {
    expected(r, "an operation of a step program");
    return;
  }
  v->index2 = r->program->time_axis;
  if (pairs) v->index3 = r->program->pair_axis;
}

// One word or letter of what ops.def says about the text behind the operands.
static void read_value_part(reader *r, tile_value *v, const char *part) {
  switch (part[1] ? '\0' : *part) {
    case 'A': v->index = need_axis(r); break;
    case 'B': v->index2 = need_axis(r); break;
    case 'C': v->index3 = need_axis(r); break;
    case 'O': v->over = need_axis_set(r); break;
    case 'a':
      v->index = need_whole(r, "the number of an argument");
      if (v->index >= r->program->arguments.count) expected(r, "an argument that stands above");
      break;
    case 'b': v->index2 = need_whole(r, "a distance from the end"); break;
    case 'd': v->index2 = need_between(r, -WHOLE_NUMBER_MAX, "a distance"); break;
    case 'e': v->index2 = need_whole(r, "an entry of the axis"); break;
    case 'x': v->number = need_number(r); break;
    case 'S':
    case 'P': read_along(r, v, *part == 'P'); break;
    case 'T': v->index3 = take_word(r, "transposed"); break;
    case 'X': v->index |= take_word(r, "exclusive"); break;
    case 'R': v->index |= 2 * take_word(r, "reverse"); break;
    default: need_word(r, part);
  }
}

static void read_detail(reader *r, tile_value *v) {
  for (const char *part = tile_op_detail(v->op); *part && !r->failed;) {
    size_t length = strcspn(part, " ");
    read_value_part(r, v, arena_strndup(r->program->arena, part, length));
    part += length + (part[length] == ' ');
  }
  if (r->text->text[r->at] == '"' && r->end - r->at >= 2) {
    v->name = intern_n(r->names, r->text->text + r->at + 1, r->end - r->at - 2);
    next_tile_token(r);
  }
}

static void read_tile_value(reader *r) {
  tile_program *p = r->program;
  if (need_whole(r, "the number of the value") != p->values.count)
    expected(r, "values numbered from 0, without gaps");
  axis_set axes = 0;
  need_word(r, "[");
  if (!take_word(r, "]")) {
    axes = need_axis_set(r);
    need_word(r, "]");
  }
  need_word(r, "=");
  if (r->failed) return;
  tile_value v = {.op = tile_op_find(token(r))};
  if (v.op == TILE_OP_COUNT) {
    expected(r, "an operation");
    return;
  }
  bool of_a_chunk = v.op == TILE_VALID || v.op == TILE_AT_END || v.op == TILE_LENGTH;
  if (of_a_chunk && p->time_axis < 0) {
    expected(r, "an operation of a step program");
    return;
  }
  next_tile_token(r);
  for (int i = 0; i < tile_arity(v.op) && !r->failed; i++) v.args[i] = need_value(r);
  if (!r->failed) read_detail(r, &v);
  if (r->failed) return;
  int count = p->values.count;
  tile_id id = tile_append_exact(p, v);
  if (id != count)
    expected(r, "values that differ from each other");
  else if (p->values.items[id].axes != axes)
    expected(r, "the axes that follow from the operands");
}

static void read_result(reader *r) {
  tile_place place = read_tile_place(r);
  need_word(r, "=");
  tile_id value = r->failed ? NO_TILE : need_value(r);
  if (!r->failed)
    vec_push(r->program->arena, &r->program->results,
             (tile_result){.place = place, .value = value});
}

static void read_program_header(reader *r) {
  need_word(r, "program");
  r->program->name = need_name(r, "the name of the program");
  if (take_word(r, "step")) {
    r->program->form = TILE_STEP;
    r->program->chunk = 1;
  } else {
    need_word(r, "chunk");
    r->program->form = TILE_CHUNK;
    r->program->chunk = need_whole(r, "the length of a chunk");
  }
}

tile_program *tile_parse(arena *a, interner *names, diag *messages, const source *text) {
  tile_program *program = ARENA_NEW(a, tile_program);
  program->arena = a;
  program->time_axis = program->pair_axis = -1;
  reader r = {.text = text, .messages = messages, .names = names, .program = program};
  next_token_line(&r);
  read_program_header(&r);
  while (!r.failed) {
    if (r.at != r.end) expected(&r, "the end of the line");
    if (r.failed || !next_token_line(&r)) break;
    if (here(&r, "axis") || here(&r, "time") || here(&r, "pair") || here(&r, "local")) {
      const char *kind = token(&r);
      next_tile_token(&r);
      read_tile_axis(&r, kind);
    } else if (take_word(&r, "argument")) {
      read_tile_argument(&r);
    } else if (take_word(&r, "result")) {
      read_result(&r);
    } else if (take_word(&r, "%")) {
      read_tile_value(&r);
    } else {
      expected(&r, "an axis, an argument, a value or a result");
    }
  }
  if (!r.failed && program->form == TILE_CHUNK &&
      (program->time_axis < 0 || program->pair_axis < 0)) {
    expected(&r, "a 'time' and a 'pair' axis in a chunk program");
  }
  return r.failed ? NULL : program;
}
