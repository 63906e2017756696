// Reads the text form of the recurrence IR (its syntax stands at the head of print.c).
//
// The text is read token by token; the first mistake is reported and ends the reading. What was
// read is then verified, so that no text, however wrong, makes an IR that later layers would trip
// over.
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/recurrence/text.h"
#include "compiler/syntax/syntax.h"

typedef enum token_kind {
  TOKEN_END,
  TOKEN_NAME,
  TOKEN_NUMBER,
  TOKEN_VALUE,
  TOKEN_STRING,
  TOKEN_MARK
} token_kind;

typedef struct token {
  token_kind kind;
  uint32_t begin, end;
} token;

typedef struct reader {
  arena *memory;
  interner *names;
  diag *messages;
  const source *source;
  recurrence *result;
  typed_body *body;
  token at;  // the token to be read next
  bool failed;
} reader;

// ---- tokens -------------------------------------------------------------------------------------

static uint32_t skip_space(const char *text, uint32_t i) {
  for (;;) {
    while (text[i] && isspace((unsigned char)text[i])) i++;
    if (text[i] != '/' || text[i + 1] != '/') return i;
    while (text[i] && text[i] != '\n') i++;
  }
}

static bool name_byte(char c) { return isalnum((unsigned char)c) || c == '_'; }

static bool number_starts(const char *c) {
  if (*c != '-') return isdigit((unsigned char)*c);
  return isdigit((unsigned char)c[1]) || strncmp(c + 1, "inf", 3) == 0 ||
         strncmp(c + 1, "nan", 3) == 0;
}

static uint32_t string_end(const char *text, uint32_t i) {
  i++;
  while (text[i] && text[i] != '"' && text[i] != '\n') i += text[i] == '\\' && text[i + 1] ? 2 : 1;
  return text[i] == '"' ? i + 1 : i;
}

static void next_text_token(reader *r) {
  const char *text = r->source->text;
  uint32_t i = skip_space(text, r->at.end);
  token t = {TOKEN_END, i, i};
  if (text[i] == '%' && isdigit((unsigned char)text[i + 1])) {
    t.kind = TOKEN_VALUE;
    i++;
    while (isdigit((unsigned char)text[i])) i++;
  } else if (number_starts(text + i)) {
    char *end;
    t.kind = TOKEN_NUMBER;
    strtod(text + i, &end);
    i = (uint32_t)(end - text);
  } else if (name_byte(text[i])) {
    t.kind = TOKEN_NAME;
    while (name_byte(text[i])) i++;
  } else if (text[i] == '"') {
    t.kind = TOKEN_STRING;
    i = string_end(text, i);
  } else if (text[i]) {
    t.kind = TOKEN_MARK;
    i += text[i] == '-' && text[i + 1] == '>' ? 2 : 1;
  }
  t.end = i;
  r->at = t;
}

static void fail_parse(reader *r, const char *expected) {
  if (r->failed) return;
  r->failed = true;
  const token *t = &r->at;
  const char *found = "the end of the text";
  if (t->kind != TOKEN_END) {
    uint32_t length = t->end - t->begin;
    found = arena_printf(r->memory, "'%.*s'", length > 40 ? 40 : (int)length,
                         r->source->text + t->begin);
  }
  diag_error(r->messages, (span){r->source->id, t->begin, t->end}, "expected %s, found %s",
             expected, found);
}

static bool at_text(const reader *r, const char *text) {
  size_t length = strlen(text);
  return r->at.kind != TOKEN_END && r->at.kind != TOKEN_STRING &&
         r->at.end - r->at.begin == length &&
         memcmp(r->source->text + r->at.begin, text, length) == 0;
}

static bool take_text(reader *r, const char *text) {
  if (r->failed || !at_text(r, text)) return false;
  next_text_token(r);
  return true;
}

static void need_text(reader *r, const char *text) {
  if (!take_text(r, text)) fail_parse(r, arena_printf(r->memory, "'%s'", text));
}

static const char *take_name(reader *r, const char *expected) {
  if (r->failed || r->at.kind != TOKEN_NAME) {
    fail_parse(r, expected);
    return "";
  }
  const char *name = intern_n(r->names, r->source->text + r->at.begin, r->at.end - r->at.begin);
  next_text_token(r);
  return name;
}

static double take_number(reader *r) {
  bool word = at_text(r, "inf") || at_text(r, "nan");
  if (r->failed || (r->at.kind != TOKEN_NUMBER && !word)) {
    fail_parse(r, "a number");
    return 0;
  }
  double x = strtod(r->source->text + r->at.begin, NULL);
  next_text_token(r);
  return x;
}

static int64_t take_whole(reader *r, int64_t low, int64_t high) {
  token before = r->at;
  double x = take_number(r);
  if (!r->failed && !(x == floor(x) && x >= (double)low && x <= (double)high)) {
    r->at = before;
    fail_parse(r, arena_printf(r->memory, "a whole number from %lld to %lld", (long long)low,
                               (long long)high));
  }
  return r->failed ? low : (int64_t)x;
}

static value_id take_value(reader *r) {
  if (r->failed || r->at.kind != TOKEN_VALUE) {
    fail_parse(r, "a value");
    return NO_VALUE;
  }
  long id = strtol(r->source->text + r->at.begin + 1, NULL, 10);
  if (id >= r->body->values.count) {
    fail_parse(r, arena_printf(r->memory, "a value that stands above"));
    return NO_VALUE;
  }
  next_text_token(r);
  return (value_id)id;
}

static const char *take_string(reader *r) {
  const char *text = r->source->text;
  if (r->failed || r->at.kind != TOKEN_STRING || r->at.end - r->at.begin < 2 ||
      text[r->at.end - 1] != '"') {
    fail_parse(r, "a text in double quotes");
    return "";
  }
  char *copy = arena_alloc(r->memory, r->at.end - r->at.begin);
  size_t length = 0;
  for (uint32_t i = r->at.begin + 1; i < r->at.end - 1; i++) {
    if (text[i] == '\\') i++;
    copy[length++] = text[i];
  }
  next_text_token(r);
  return intern_n(r->names, copy, length);
}

// ---- declarations -------------------------------------------------------------------------------

static int find_axis(const reader *r, const char *name) {
  for (int i = 0; i < r->body->axes.count; i++)
    if (r->body->axes.items[i].name == name) return i;
  return -1;
}

static int find_named_tensor(const reader *r, const char *name) {
  for (int i = 0; i < r->body->tensors.count; i++)
    if (r->body->tensors.items[i].name == name) return i;
  return -1;
}

static int find_lag(const reader *r, const char *name) {
  for (int i = 0; i < r->body->lags.count; i++)
    if (r->body->lags.items[i].name == name) return i;
  return -1;
}

static int take_declared(reader *r, const char *what,
                         int (*find)(const reader *r, const char *name)) {
  token before = r->at;
  int found = find(r, take_name(r, what));
  if (found >= 0) return found;
  r->at = before;
  fail_parse(r, arena_printf(r->memory, "%s that is declared above", what));
  return 0;
}

static int take_axis(reader *r) { return take_declared(r, "an axis", find_axis); }
static int take_tensor(reader *r) { return take_declared(r, "a tensor", find_named_tensor); }

static axis_set take_axis_set(reader *r) {
  axis_set set = 0;
  need_text(r, "[");
  if (take_text(r, "]")) return 0;
  do set |= axis_bit(take_axis(r));
  while (take_text(r, ","));
  need_text(r, "]");
  return set;
}

static const char *take_new_name(reader *r) {
  token before = r->at;
  const char *name = take_name(r, "a name");
  if (!r->failed && (find_axis(r, name) >= 0 || find_named_tensor(r, name) >= 0)) {
    r->at = before;
    fail_parse(r, "a name that is not declared yet");
  }
  return name;
}

// ---- sizes computed at run time -----------------------------------------------------------------

static bool size_legal(const reader *r, const ast_expr *e) {
  switch (e->kind) {
    case AST_NUMBER: return true;
    case AST_NAME: return find_axis(r, e->name.text) >= 0;
    case AST_NEGATE: return size_legal(r, e->negate.operand);
    case AST_BINARY:
      return e->binary.op < AST_LESS && size_legal(r, e->binary.left) &&
             size_legal(r, e->binary.right);
    case AST_CALL: {
      const char *callee = e->call.callee.text;
      const ast_args *args = &e->call.args;
      return (strcmp(callee, "min") == 0 || strcmp(callee, "max") == 0) && !e->call.axes.count &&
             args->count == 2 && args->items[0].kind == AST_ARG_POSITIONAL &&
             args->items[1].kind == AST_ARG_POSITIONAL && size_legal(r, args->items[0].value) &&
             size_legal(r, args->items[1].value);
    }
    default: return false;
  }
}

// The parser of the language reads the expression, as the body of a function that stands in its
// place. The text before it becomes blank, so that places stay true.
static const ast_expr *parse_size(reader *r, uint32_t begin, uint32_t end) {
  static const char function[] = "fn f(x)=";
  const uint32_t length = sizeof function - 1;
  char *text = arena_strndup(r->memory, r->source->text, end);
  for (uint32_t i = 0; i < begin; i++) text[i] = text[i] == '\n' ? '\n' : ' ';
  if (begin < length) return NULL;
  memcpy(text + begin - length, function, length);
  source alone = *r->source;
  alone.text = text;
  alone.size = end;
  int errors = diag_error_count(r->messages);
  ast_file *file = parse_source(r->memory, r->names, r->messages, &alone);
  if (diag_error_count(r->messages) > errors) {
    r->failed = true;
    return NULL;
  }
  bool function_alone = file->items.count == 1 && file->items.items[0]->kind == AST_FN;
  return function_alone ? file->items.items[0]->fn.value : NULL;
}

static const ast_expr *take_size(reader *r) {
  token open = r->at;
  const char *text = r->source->text;
  uint32_t end = open.end;
  while (text[end] && text[end] != '}' && text[end] != '\n') end++;
  if (text[end] != '}') {
    fail_parse(r, "a size in braces");
    return NULL;
  }
  const ast_expr *e = parse_size(r, open.end, end);
  if (!r->failed && (!e || !size_legal(r, e)))
    fail_parse(r, "a size made of numbers and earlier axes in braces");
  r->at.end = end + 1;
  next_text_token(r);
  return r->failed ? NULL : e;
}

static void read_axis(reader *r) {
  typed_axis axis = {.size = TYPED_RUNTIME_SIZE};
  axis.span = (span){r->source->id, r->at.begin, r->at.end};
  if (r->body->axes.count == TYPED_MAX_AXES) fail_parse(r, "no further axis");
  axis.name = take_new_name(r);
  if (take_text(r, "=")) {
    if (!r->failed && at_text(r, "{"))
      axis.size_expr = take_size(r);
    else
      axis.size = take_whole(r, 0, INT32_MAX);
  }
  if (axis.size == TYPED_RUNTIME_SIZE && take_text(r, "least"))
    axis.least = take_whole(r, 1, INT32_MAX);
  axis.summed = take_text(r, "summed");
  vec_push(r->memory, &r->body->axes, axis);
}

// Behind `~`: a parameter above, or a number; of a complex state (re, im).
static void parse_begin(reader *r, typed_tensor *state) {
  typed_begin *begin = ARENA_NEW(r->memory, typed_begin);
  *begin = (typed_begin){.parameter = NO_PARAMETER};
  state->begin = begin;
  if (r->at.kind == TOKEN_NAME) {
    begin->parameter = take_tensor(r);
    return;
  }
  if (state->complex) need_text(r, "(");
  begin->number[0] = take_number(r);
  if (!state->complex) return;
  need_text(r, ",");
  begin->number[1] = take_number(r);
  need_text(r, ")");
}

static void parse_tensor(reader *r, tensor_kind kind) {
  typed_tensor t = {.kind = kind, .assigned = NO_VALUE};
  t.span = (span){r->source->id, r->at.begin, r->at.end};
  t.name = take_new_name(r);
  t.axes = ARENA_ARRAY(r->memory, int, TYPED_MAX_AXES);
  if (take_text(r, "[")) {
    do {
      if (t.axis_count == TYPED_MAX_AXES) fail_parse(r, "']'");
      if (r->failed) return;
      t.axes[t.axis_count] = take_axis(r);
      t.axis_set |= axis_bit(t.axes[t.axis_count++]);
    } while (take_text(r, ","));
    need_text(r, "]");
  }
  if (take_text(r, ":")) {
    need_text(r, "complex");
    t.complex = true;
  }
  if (take_text(r, "in")) {
    t.promised = true;
    need_text(r, "[");
    t.low = take_number(r);
    need_text(r, ",");
    t.high = take_number(r);
    need_text(r, "]");
  }
  if (kind == TENSOR_STATE && take_text(r, "~")) parse_begin(r, &t);
  vec_push(r->memory, &r->body->tensors, t);
}

static void read_lag(reader *r) {
  typed_lag lag = {.input = -1, .source = NO_VALUE};
  token before = r->at;
  lag.name = take_name(r, "a name");
  if (find_lag(r, lag.name) >= 0) {
    r->at = before;
    fail_parse(r, "a name that has no lag buffer yet");
  }
  if (at_text(r, "[")) lag.axes = take_axis_set(r);
  if (take_text(r, ":")) {
    need_text(r, "complex");
    lag.complex = true;
  }
  need_text(r, "depth");
  lag.depth = (int)take_whole(r, 1, INT32_MAX);
  int tensor = find_named_tensor(r, lag.name);
  if (tensor >= 0 && r->body->tensors.items[tensor].kind == TENSOR_INPUT) lag.input = tensor;
  vec_push(r->memory, &r->body->lags, lag);
}

// ---- values -------------------------------------------------------------------------------------

static void read_attributes(reader *r, typed_value *v) {
  switch (v->op) {
    case VALUE_NUMBER: v->number = take_number(r); break;
    case VALUE_AXIS_SIZE:
    case VALUE_INDEX: v->index = take_axis(r); break;
    case VALUE_INPUT:
    case VALUE_PARAM:
    case VALUE_PREVIOUS: v->index = take_tensor(r); break;
    case VALUE_LAG:
      v->index = take_declared(r, "a lag buffer", find_lag);
      v->steps = (int)take_whole(r, 1, INT32_MAX);
      break;
    case VALUE_WHOLE_POWER: v->index = (int)take_whole(r, -INT32_MAX, INT32_MAX); break;
    case VALUE_SQRT: v->kink = take_text(r, "kink"); break;
    case VALUE_RENAME:
    case VALUE_SLICE:
      need_text(r, "[");
      v->index = take_axis(r);
      need_text(r, v->op == VALUE_RENAME ? "->" : "=");
      if (v->op == VALUE_RENAME)
        v->index2 = take_axis(r);
      else
        v->steps = (int)take_whole(r, 0, INT32_MAX);
      need_text(r, "]");
      break;
    default:
      if (value_op_class(v->op) == CLASS_REDUCE) v->over = take_axis_set(r);
      break;
  }
}

static void read_recurrence_value(reader *r) {
  typed_value v = {.args = {NO_VALUE, NO_VALUE, NO_VALUE}};
  token start = r->at;
  long id = strtol(r->source->text + start.begin + 1, NULL, 10);
  if (id != r->body->values.count)
    fail_parse(r, arena_printf(r->memory, "%%%d, the next value", r->body->values.count));
  next_text_token(r);
  axis_set stated = at_text(r, "[") ? take_axis_set(r) : 0;
  bool complex = take_text(r, "complex");
  need_text(r, "=");
  token operation = r->at;
  v.op = value_op_find(take_name(r, "an operation"));
  if (!r->failed && v.op == VALUE_OP_COUNT) {
    r->at = operation;
    fail_parse(r, "an operation");
  }
  if (r->failed) return;
  read_attributes(r, &v);
  for (int k = 0; k < value_arity(v.op); k++) v.args[k] = take_value(r);
  if (r->at.kind == TOKEN_STRING) v.name = take_string(r);
  v.span = (span){r->source->id, operation.begin, r->at.begin};
  if (r->failed) return;
  value_id appended = body_append(r->memory, r->body, v);
  const typed_value *made = &r->body->values.items[appended];
  if (made->axes != stated || made->complex != complex) {
    r->at = start;
    fail_parse(r, "the axes and the element kind that follow from the operands");
  }
}

static void read_assignment(reader *r) {
  token before = r->at;
  const char *name = take_name(r, "a declaration, a value or an assignment");
  value_id *target = NULL;
  if (take_text(r, ".")) {
    need_text(r, "lag");
    int lag = find_lag(r, name);
    if (lag >= 0) target = &r->body->lags.items[lag].source;
  } else {
    int tensor = find_named_tensor(r, name);
    typed_tensor *t = tensor < 0 ? NULL : &r->body->tensors.items[tensor];
    if (t && (t->kind == TENSOR_STATE || t->kind == TENSOR_OUTPUT)) target = &t->assigned;
  }
  if (!r->failed && (!target || *target != NO_VALUE)) {
    r->at = before;
    fail_parse(r,
               target ? "one assignment to each name" : "a declaration, a value or an assignment");
  }
  need_text(r, "=");
  value_id id = take_value(r);
  if (target) *target = id;
}

// ---- structure ----------------------------------------------------------------------------------

static int state_position(const reader *r, int tensor) {
  int position = 0;
  for (int i = 0; i < tensor; i++) position += r->body->tensors.items[i].kind == TENSOR_STATE;
  return position;
}

static void read_limit(reader *r, state_structure *s) {
  if (r->at.kind == TOKEN_VALUE) s->limit = take_value(r);
  if (r->at.kind == TOKEN_STRING) s->limit_reason = take_string(r);
}

static void read_structure_part(reader *r, state_structure *s) {
  if (take_text(r, "decay"))
    s->decay = take_value(r);
  else if (take_text(r, "log_decay"))
    s->log_decay = take_value(r);
  else if (take_text(r, "increment"))
    s->increment = take_value(r);
  else if (take_text(r, "keys"))
    s->key_axes = take_axis_set(r);
  else if (take_text(r, "values"))
    s->value_axes = take_axis_set(r);
  else if (take_text(r, "limit"))
    read_limit(r, s);
  else
    fail_parse(r, "a part of the structure");
}

static void read_structure(reader *r) {
  state_structure s = {
      .decay = NO_VALUE, .log_decay = NO_VALUE, .increment = NO_VALUE, .limit = NO_VALUE};
  int tensor = take_tensor(r);
  if (!r->failed && state_position(r, tensor) != r->result->states.count)
    fail_parse(r, "the structures in the order of the states");
  need_text(r, ":");
  token before = r->at;
  s.class = state_class_find(take_name(r, "a class"));
  if (!r->failed && s.class == STATE_CLASSES) {
    r->at = before;
    fail_parse(r, "a class");
  }
  need_text(r, ",");
  need_text(r, "stratum");
  s.stratum = (int)take_whole(r, 0, INT32_MAX - 1);
  while (take_text(r, ",")) read_structure_part(r, &s);
  if (s.stratum >= r->result->stratum_count) r->result->stratum_count = s.stratum + 1;
  vec_push(r->memory, &r->result->states, s);
}

// ---- the whole text -----------------------------------------------------------------------------

static void read_item(reader *r) {
  if (r->at.kind == TOKEN_VALUE) {
    read_recurrence_value(r);
    return;
  }
  for (int kind = 0; kind < 4; kind++) {
    if (take_text(r, tensor_kind_text((tensor_kind)kind))) {
      parse_tensor(r, (tensor_kind)kind);
      return;
    }
  }
  if (take_text(r, "axis"))
    read_axis(r);
  else if (take_text(r, "lag"))
    read_lag(r);
  else if (take_text(r, "structure"))
    read_structure(r);
  else
    read_assignment(r);
}

recurrence *recurrence_parse(arena *a, interner *names, diag *messages, const source *text) {
  recurrence *result = ARENA_NEW(a, recurrence);
  reader r = {a, names, messages, text, result, &result->body, {0}, false};
  next_text_token(&r);
  need_text(&r, "recurrence");
  result->body.name = take_name(&r, "the recurrence's name");
  need_text(&r, "{");
  while (!r.failed && !at_text(&r, "}")) read_item(&r);
  need_text(&r, "}");
  if (!r.failed && r.at.kind != TOKEN_END) fail_parse(&r, "nothing after the recurrence");
  if (r.failed) return NULL;
  const char *wrong = verify_body(a, &result->body);
  if (!wrong && result->states.count > 0) wrong = recurrence_verify(a, result);
  if (wrong) {
    diag_error(messages, (span){text->id, 0, text->size},
               "expected a valid recurrence, found that %s", wrong);
    return NULL;
  }
  return result;
}

recurrence *recurrence_from_text(arena *a, interner *names, diag *messages, const source *text) {
  recurrence *r = recurrence_parse(a, names, messages, text);
  return r && r->states.count == 0 ? recurrence_analyse(a, &r->body) : r;
}
