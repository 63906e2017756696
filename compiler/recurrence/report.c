// The report for people: what the analysis found for each state, and which term prevents more.
#include <ctype.h>
#include <string.h>

#include "compiler/base/text.h"
#include "compiler/recurrence/text.h"

enum { EXCERPT = 60 };  // longest piece of source text that is shown

// The source text of a value in one line; NULL if it has no place.
static const char *excerpt(arena *a, const sources *all, span where) {
  const source *s = all ? sources_get(all, where.source) : NULL;
  if (!s || where.end > s->size || where.begin >= where.end) return NULL;
  char *text = arena_alloc(a, where.end - where.begin + 4);
  size_t length = 0;
  for (uint32_t i = where.begin; i < where.end; i++) {
    bool space = isspace((unsigned char)s->text[i]);
    if (space && length && text[length - 1] == ' ') continue;
    text[length++] = space ? ' ' : s->text[i];
  }
  while (length && text[length - 1] == ' ') length--;
  if (length > EXCERPT) {
    length = EXCERPT;
    // not inside a character
    while (length && ((unsigned char)text[length] & 0xC0) == 0x80) length--;
    strcpy(text + length, "...");
  } else {
    text[length] = '\0';
  }
  return text;
}

static void print_term(FILE *out, arena *a, const sources *all, const typed_body *body,
                       value_id id) {
  const typed_value *v = &body->values.items[id];
  const char *text = excerpt(a, all, v->span);
  fprintf(out, "'%s' ", v->name ? v->name : text ? text : value_op_text(v->op));
  if (!text) return;
  source_position at = source_locate(sources_get(all, v->span.source), v->span.begin);
  fprintf(out, "at %d:%d ", at.line, at.column);
}

static void print_decay(FILE *out, const state_structure *s) {
  if (s->decay == NO_VALUE)
    fputs(" 1", out);
  else
    fputs(s->log_decay != NO_VALUE ? " kept as a logarithm" : " kept as products", out);
}

static void print_class(FILE *out, arena *a, const typed_body *body, int state,
                        const state_structure *s) {
  recurrence_shift shift;
  switch (s->class) {
    case STATE_DELAY:
      if (recurrence_is_shift(a, body, state, &shift)) {
        fprintf(out, "a shift register along %s: the values of earlier steps",
                body->axes.items[shift.axis].name);
      } else {
        fputs("a delay: the value of the step before", out);
      }
      break;
    case STATE_SCALAR_DECAY:
      fputs("linear, scalar decay", out);
      print_decay(out, s);
      print_keys_and_values(out, body, s);
      break;
    case STATE_AXIS_DECAY:
      fputs("linear, decay per axis", out);
      print_decay(out, s);
      print_keys_and_values(out, body, s);
      break;
    case STATE_ELEMENTWISE:
      fputs("linear, element by element, decay", out);
      print_decay(out, s);
      break;
    case STATE_LOW_RANK:
      fputs("linear, decay", out);
      print_decay(out, s);
      fputs(" plus a low-rank term", out);
      print_keys_and_values(out, body, s);
      break;
    case STATE_MAX_PLUS: fputs("the maximum of a shifted state and a value", out); break;
    case STATE_LINEAR: fputs("linear, but neither diagonal nor of low rank by itself", out); break;
    case STATE_NONLINEAR:
      fputs("not linear: a sequential loop with exact backward through time", out);
      break;
    case STATE_CLASSES: break;
  }
}

static void print_state(FILE *out, arena *a, const sources *all, const recurrence *r,
                        const typed_tensor *state, const state_structure *s) {
  fprintf(out, "  state %s", state->name);
  if (state->axis_set) print_axis_list(out, &r->body, state->axis_set);
  if (r->stratum_count > 1) fprintf(out, " (stratum %d)", s->stratum);
  fputs(": ", out);
  print_class(out, a, &r->body, (int)(state - r->body.tensors.items), s);
  fputc('\n', out);
  if (!s->limit_reason) return;
  fputs("    because ", out);
  if (s->limit != NO_VALUE)
    print_term(out, a, all, &r->body, s->limit);
  else
    fputs("it ", out);
  fprintf(out, "%s\n", s->limit_reason);
}

// The states called `only`, or all of them where it is NULL.
static void print_states(FILE *out, arena *a, const sources *all, const recurrence *r,
                         const char *only) {
  int next = 0;
  for (int i = 0; i < r->body.tensors.count && next < r->states.count; i++) {
    const typed_tensor *tensor = &r->body.tensors.items[i];
    if (tensor->kind != TENSOR_STATE) continue;
    const state_structure *structure = &r->states.items[next++];
    if (!only || strcmp(only, tensor->name) == 0) print_state(out, a, all, r, tensor, structure);
  }
}

char *recurrence_report(arena *a, const sources *all, const recurrence *r) {
  text_stream text;
  FILE *out = text_begin(&text);
  int count = r->states.count;
  fprintf(out, "recurrence %s: %d state%s\n", r->body.name, count, count == 1 ? "" : "s");
  print_states(out, a, all, r, NULL);
  return text_end(&text, a);
}

char *recurrence_report_state(arena *a, const sources *all, const recurrence *r,
                              const char *state) {
  text_stream text;
  print_states(text_begin(&text), a, all, r, state);
  return text_end(&text, a);
}
