// Usual mistakes with words of their own. Each function below knows one: it says in its first line
// what the user wrote.
#include <string.h>

#include "compiler/base/text.h"
#include "compiler/syntax/parse.h"
#include "compiler/syntax/parser.h"

static bool is_expression_start(int kind) {
  return kind == TK_NAME || kind == TK_INT || kind == TK_FLOAT || kind == TK_PERCENT ||
         kind == TK_STRING;
}

static bool adjacent(const token *left, const token *right) {
  return left->span.end == right->span.begin && left->span.source == right->span.source;
}

// Where a statement may start, an expression cannot continue with a name: this one starts a
// statement.
static bool at_statement_name(const parse *p) {
  const token *t = peek(p, 0);
  return t->kind == TK_NAME && t->first_on_line && fits(p, TK_LET) && !fits(p, TK_INT) &&
         !fits(p, TK_FN);
}

static const char *trimmed_text(const parse *p, const token *from, size_t length) {
  const char *text = p->source->text + from->span.begin;
  while (length > 0 && (text[length - 1] == ' ' || text[length - 1] == '\t')) length--;
  return arena_printf(p->memory, "%.*s", (int)(length < 30 ? length : 30), text);
}

// The source from a token to the end of a bracket's entry or of the line, for hints that repeat
// what was written.
static const char *text_to_entry_end(const parse *p, const token *from) {
  return trimmed_text(p, from, strcspn(p->source->text + from->span.begin, ",])}\n"));
}

// The source between two tokens, without blanks at its ends.
static const char *text_between(const parse *p, const token *from, const token *to) {
  return trimmed_text(p, from, to->span.begin - from->span.begin);
}

// The name that the declaration before the next token begins with.
static const token *declared_name(const parse *p) {
  int index = p->at - 1;
  if (p->tokens.items[index].kind == TK_RB)
    while (index > 0 && p->tokens.items[index].kind != TK_LB) index--;
  return &p->tokens.items[p->tokens.items[index].kind == TK_LB && index > 0 ? index - 1 : index];
}

// Index of the token behind the bracket that opens at `index`; the last token if it does not close
// within reach.
static int after_bracket(const parse *p, int index) {
  enum { REACH = 200 };
  int depth = 0;
  for (int last = index + REACH; index < last && p->tokens.items[index].kind != 0; index++) {
    int kind = p->tokens.items[index].kind;
    depth += is_opening(kind) - is_closing(kind);
    if (depth <= 0) return index + 1;
  }
  return p->tokens.count - 1;
}

// ---- "did you mean" ----------------------------------------------------------------------------

// The reserved word that fits here, is spelled almost like the next token and lets what follows
// fit; else TK_NONE.
static int intended_word(const parse *p) {
  const char *text = peek(p, 0)->text;
  int best = TK_NONE, best_distance = 3;
  for (int kind = 1; kind < token_kind_count; kind++) {
    const char *word = token_kind_spelling(kind);
    if (!word || is_punctuation(kind)) continue;
    int distance = edit_distance(text, word);
    trial t = parser_try(p->parser);
    if (distance >= best_distance || distance * 2 > (int)strlen(word)) continue;
    if (!trial_accepts(&t, kind) || count_fitting(p, t, p->at + 1) < 2) continue;
    best = kind;
    best_distance = distance;
  }
  return best;
}

static void take_as(parse *p, int kind) { apply_repair(p, (repair){REPAIR_REPLACE, kind, 0}); }

// ---- before the next token is fed ---------------------------------------------------------------

// let a = 2 *        input a[G],
// S = ...            S = ...
static bool unfinished_line(parse *p) {
  const token *t = peek(p, 0), *next = peek(p, 1), *before = peek(p, -1);
  int item = current_item(p);
  if (p->at == 0 || !t->first_on_line || before->kind == TK_LC) return false;
  if (item != TK_RECURRENCE && item != TK_LAYER && item != TK_MODEL) return false;
  bool names_statement = t->kind == TK_NAME && next->kind == TK_ASSIGN && fits(p, TK_NAME) &&
                         !fits2(p, TK_NAME, TK_ASSIGN);
  bool word_statement = is_statement_word(t->kind) && fits(p, TK_NAME) && !fits(p, t->kind) &&
                        peek(p, 1)->kind == TK_NAME && !fits2(p, TK_NAME, TK_NAME);
  if (!names_statement && !word_statement) return false;
  const char *found = names_statement
                          ? arena_printf(p->memory, "the statement '%s ='", t->text)
                          : arena_printf(p->memory, "the statement '%s %s'", t->text, next->text);
  const char *expected =
      arena_printf(p->memory, "%s after %s", expected_text(p), found_text(p, before));
  say(p, before->span, expected, found, before->kind == TK_COMMA ? "remove the ','" : NULL);
  return skip_to_recovery_point(p);
}

// let a = if q > 0 { 1 }       if (q > 0) { ... }
static bool branch(parse *p) {
  const token *t = peek(p, 0), *next = peek(p, 1);
  if (t->kind != TK_NAME || strcmp(t->text, "if") != 0 || !fits(p, TK_NAME)) return false;
  int item = current_item(p);
  if (item == TK_TRAIN || item == TK_EVALUATE) return false;
  bool condition =
      is_expression_start(next->kind) && !next->first_on_line && peek(p, 2)->kind != TK_ASSIGN;
  if (next->kind == TK_LP && peek(p, -1)->kind != TK_REPEAT) {
    int behind = after_bracket(p, p->at + 1);
    condition =
        p->tokens.items[behind].kind == TK_LC && peek(p, behind + 2 - p->at)->kind != TK_ARROW;
  }
  bool statement = at_statement_name(p);
  if (!condition || (!statement && !fits(p, TK_INT))) return false;
  say(p, t->span, statement ? "a statement" : "an expression", found_text(p, t),
      "there are no branches: write where(condition, a, b)");
  p->at++;
  return skip_to_recovery_point(p);
}

// let a = sum[K](q * k) k      input a[G] b[G]
static bool name_where_statement_starts(parse *p) {
  const token *t = peek(p, 0);
  if (t->kind != TK_NAME || t->first_on_line || !fits(p, TK_LET) || fits(p, TK_INT)) return false;
  if (fits(p, TK_FN) || fits2(p, TK_NAME, peek(p, 1)->kind)) return false;
  unexpected(p);
  return true;
}

// a[G] = ...         S[t] = ...         S[G], T[G]
static bool assigned_axes(parse *p) {
  const token *t = peek(p, 0);
  if (!at_statement_name(p) || peek(p, 1)->kind != TK_LB) return false;
  const token *inside = peek(p, 2);
  if (inside->kind == TK_NAME && strcmp(inside->text, "t") == 0) {
    say(p, peek(p, 1)->span, "'='", "'['",
        arena_printf(p->memory, "a state is assigned its new value by %s = ...", t->text));
    p->at++;
    return skip_to_recovery_point(p);
  }
  if (p->tokens.items[after_bracket(p, p->at + 1)].kind != TK_ASSIGN) {
    say(p, t->span, "a statement", arena_printf(p->memory, "'%s['", t->text),
        "a declaration starts with input, param, state or output");
    p->at++;
    return skip_to_recovery_point(p);
  }
  say_text(
      p, t->span,
      arena_printf(p->memory, "expected 'let' before '%s['; axes are stated by let %s[...] = ...",
                   t->text, t->text));
  feed_invented(p, TK_LET);
  return true;
}

// stat b[G]          stats
static bool misspelled_statement(parse *p) {
  const token *t = peek(p, 0), *next = peek(p, 1);
  if (!at_statement_name(p) || fits2(p, TK_NAME, next->kind)) return false;
  int word = intended_word(p);
  if (word != TK_NONE) {
    say(p, t->span, "a statement", found_text(p, t),
        arena_printf(p->memory, "did you mean %s?", kind_text(p, word)));
    take_as(p, word);
    return true;
  }
  trial with_sign = parser_try(p->parser);
  trial_accepts(&with_sign, TK_NAME);
  bool sign_missing = trial_accepts(&with_sign, TK_ASSIGN) &&
                      count_fitting(p, with_sign, p->at + 1) == REPAIR_WINDOW;
  if (is_punctuation(next->kind) ? next->kind != TK_LP && next->kind != TK_LC : sign_missing)
    return false;
  say(p, t->span, "a statement", found_text(p, t),
      next->kind == TK_LP ? "a value is given a name: let a = ..." : NULL);
  p->at++;
  return skip_to_recovery_point(p);
}

// recurence r(G) {
static bool misspelled_item(parse *p) {
  const token *t = peek(p, 0);
  if (t->kind != TK_NAME || !fits(p, TK_FN) || fits(p, TK_NAME)) return false;
  int word = intended_word(p);
  if (word == TK_NONE) return false;
  say(p, t->span, expected_text(p), found_text(p, t),
      arena_printf(p->memory, "did you mean %s?", kind_text(p, word)));
  take_as(p, word);
  return true;
}

// Words by which other languages begin a function, a loop or a value.
typedef struct foreign_word {
  const char *words;  // between blanks
  const char *hint;
} foreign_word;

static const char *find_hint(const foreign_word *rows, size_t count, const char *word) {
  size_t length = strlen(word);
  for (size_t i = 0; i < count; i++) {
    for (const char *at = strstr(rows[i].words, word); at; at = strstr(at + 1, word)) {
      bool whole = at > rows[i].words && at[-1] == ' ' && at[length] == ' ';
      if (whole) return rows[i].hint;
    }
  }
  return NULL;
}

#define FUNCTION_WORDS " def function func fun define lambda proc subroutine "
#define FIND_HINT(rows, word) find_hint(rows, sizeof(rows) / sizeof *(rows), word)

static const foreign_word item_words[] = {
    {FUNCTION_WORDS, "a function is written fn f(x) = 2 * x, with axes fn f[K](x) = sum[K](x)"},
    {" class struct module object type interface trait impl ",
     "a formula over time is a recurrence, matrices around it are a layer, all of it a model"},
    {" from include using require use ",
     "a file is lent by import \"beside.rec\" or import std.mamba2"},
    {" const constant var let val static global ",
     "numbers of a whole declaration stand in its header, as in recurrence r(D, K = 4)"},
    {" rnn cell block network net module kernel ",
     "a formula over time is recurrence NAME(D) { ... }"},
    {" optimizer config hyperparameters fit ",
     "training is written train NAME { model ... data ... }"},
    {" test eval validate ", "judging is written evaluate NAME { perplexity(until = 4096) }"},
};

static const foreign_word statement_words[] = {
    {FUNCTION_WORDS, "functions stand at the top of the file: fn f(x) = 2 * x"},
    {" return yield emit ", "what goes out is declared, output y[D], and assigned, y = ..."},
    {" while loop do until foreach ",
     "there are no loops: a sum over an axis is sum[K](e), a loop over its entries fold[K](s = e0, "
     "e)"},
    {" else elif elsif switch case match when ",
     "there are no branches: write where(condition, a, b)"},
    {" var val const auto local mut float double int real number tensor vector matrix array ",
     "a value is given a name by let a = ..., and its axes follow from it"},
    {" weight weights parameter learnable trainable buffer variable ",
     "a weight is declared by param w[D] ~ normal(0, 1)"},
    {" memory hidden cell carry ", "what is carried from step to step is declared by state h[D]"},
    {" assert require check ", "a promise stands behind a declaration: input x[D] in [0, 1]"},
};

// def f(x): ...       return y        lambda x: 2 * x
static bool foreign_start(parse *p) {
  const token *t = peek(p, 0), *next = peek(p, 1);
  if (t->kind != TK_NAME) return false;
  bool item = fits(p, TK_FN) && !fits(p, TK_NAME), statement = !item && at_statement_name(p);
  bool value = !item && !statement && fits(p, TK_INT) && strcmp(t->text, "lambda") == 0;
  bool goes_on = (is_expression_start(next->kind) && !next->first_on_line) ||
                 next->kind == TK_COLON || next->kind == TK_LP || next->kind == TK_LC ||
                 (item && next->kind != 0);
  if (!goes_on || (!item && !statement && !value)) return false;
  const char *hint = item ? FIND_HINT(item_words, t->text) : FIND_HINT(statement_words, t->text);
  if (!hint) return false;
  say(p, t->span, expected_text(p), found_text(p, t), hint);
  p->at++;
  return skip_to_recovery_point(p);
}

bool mistake_before(parse *p) {
  return foreign_start(p) || unfinished_line(p) || branch(p) || name_where_statement_starts(p) ||
         assigned_axes(p) || misspelled_statement(p) || misspelled_item(p);
}

// ---- at a token that does not fit ---------------------------------------------------------------

// .5                 1.
static bool bare_point(parse *p) {
  const token *point = peek(p, 0), *next = peek(p, 1), *before = peek(p, -1);
  if (point->kind != TK_DOT) return false;
  if (next->kind == TK_INT && adjacent(point, next) && fits(p, TK_FLOAT)) {
    span both = span_join(point->span, next->span);
    say_text(p, both,
             arena_printf(p->memory, "expected digits before the point of '.%s'; write 0.%s",
                          next->text, next->text));
  } else if (p->at > 0 && before->kind == TK_INT && adjacent(before, point)) {
    say_text(p, span_join(before->span, point->span),
             arena_printf(p->memory, "expected digits after the point of '%s.'; write %s.0",
                          before->text, before->text));
  } else {
    return false;
  }
  p->at++;
  return true;
}

// 0 < q < 1
static bool chained_comparison(parse *p) {
  const token *t = peek(p, 0);
  if (!is_comparison(t->kind) || !fits(p, TK_STAR)) return false;
  say(p, t->span, expected_text(p), found_text(p, t),
      "comparisons do not chain: write (a < b) * (b < c)");
  take_as(p, TK_STAR);
  return true;
}

// q[t+1]             q[t-K]
static bool later_step(parse *p) {
  const token *t = peek(p, 0), *time = peek(p, -1), *name = peek(p, -3);
  if (t->kind != TK_INT && peek(p, -1)->kind == TK_MINUS && peek(p, -2)->kind == TK_NAME &&
      strcmp(peek(p, -2)->text, "t") == 0 && fits(p, TK_INT) && !fits(p, TK_NAME)) {
    say(p, t->span, "a whole number", found_text(p, t), "a lag is a constant, as in x[t-1]");
    return skip_to_recovery_point(p);
  }
  if (p->at < 3 || time->kind != TK_NAME || strcmp(time->text, "t") != 0) return false;
  if (peek(p, -2)->kind != TK_LB || name->kind != TK_NAME || !fits(p, TK_MINUS)) return false;
  say(p, t->span, "'-'", found_text(p, t),
      arena_printf(p->memory, "only earlier steps can be read, as in %s[t-1]", name->text));
  if (t->kind == TK_PLUS)
    take_as(p, TK_MINUS);
  else
    skip_to_recovery_point(p);
  return true;
}

// q[0]               input a[2*K]
static bool number_in_brackets(parse *p) {
  const token *t = peek(p, 0), *innermost = count_brackets(p).innermost;
  if (t->kind != TK_INT && t->kind != TK_FLOAT) return false;
  if (!innermost || innermost->kind != TK_LB || !fits(p, TK_NAME)) return false;
  const char *hint =
      fits2(p, TK_NAME, TK_ASSIGN)
          ? arena_printf(p->memory, "a slice names its axis, as in %s[K = %s]",
                         peek(p, -2)->kind == TK_NAME ? peek(p, -2)->text : "e", t->text)
          : arena_printf(p->memory, "sizes stand in the header, as in (E = %s)",
                         text_to_entry_end(p, t));
  say(p, t->span, expected_text(p), found_text(p, t), hint);
  return skip_to_recovery_point(p);
}

// let a, b = f(q)
static bool bare_tuple(parse *p) {
  const token *t = peek(p, 0), *name = peek(p, -1);
  if (t->kind != TK_COMMA || p->at < 2 || peek(p, -2)->kind != TK_LET || name->kind != TK_NAME)
    return false;
  say(p, t->span, expected_text(p), found_text(p, t),
      arena_printf(p->memory, "a tuple is written let (%s, ...) = ...", name->text));
  return skip_to_recovery_point(p);
}

// steps = 100        context batch 32        shuffle }
static bool setting_without_value(parse *p) {
  const token *t = peek(p, 0), *before = peek(p, -1);
  if (current_item(p) != TK_TRAIN || p->setting < 0) return false;
  if (p->setting == p->at - 1 && (t->kind == TK_ASSIGN || t->kind == TK_COLON)) {
    say(p, t->span, "a value", found_text(p, t),
        arena_printf(p->memory, "a setting has no %s: write %s %s", found_text(p, t), before->text,
                     text_to_entry_end(p, peek(p, 1))));
    p->at++;
    return true;
  }
  if (p->setting == p->at - 1 && !is_operator(t->kind)) {
    say(p, t->span, arena_printf(p->memory, "a value for '%s'", before->text), found_text(p, t),
        NULL);
    return skip_to_recovery_point(p);
  }
  if (p->setting == p->at - 2 && before->kind == TK_NAME && is_expression_start(t->kind)) {
    say(p, before->span, arena_printf(p->memory, "a value for '%s'", peek(p, -2)->text),
        arena_printf(p->memory, "the setting '%s'", before->text), NULL);
    p->at--;  // it is a setting of its own
    feed(p, TK_JUNK, before);
    return true;
  }
  return false;
}

// for (...) in a body
static bool loop(parse *p) {
  const token *t = peek(p, 0);
  if (t->kind != TK_FOR || !fits(p, TK_LET) || fits(p, TK_FN)) return false;
  say(p, t->span, expected_text(p), found_text(p, t),
      "there are no loops: a sum over an axis is sum[K](e), a loop over its entries fold[K](s = "
      "e0, e)");
  return skip_to_recovery_point(p);
}

static const char *start_hint(const parse *p) {
  const token *sign = peek(p, 0), *value = peek(p, 1), *word = &p->tokens.items[p->statement];
  bool number = value->kind == TK_INT || value->kind == TK_FLOAT;
  switch (word->kind) {
    case TK_STATE:
      return "a state starts at zero, at what stands behind '~', as in m ~ -1e38, or at the h0 "
             "that a call is given";
    case TK_INPUT: return "an input is what the caller gives; a value of one's own is let a = ...";
    case TK_OUTPUT: return "only a param has a start; an output is assigned by y = ...";
    case TK_PARAM:
      return arena_printf(p->memory, "how a param starts stands behind '~': %s ~ %s",
                          text_between(p, declared_name(p), sign), number ? value->text : "...");
    default: return NULL;
  }
}

// state S[K] = 0     param w[D] = 1     input x[D] ~ normal(0, 1)
static bool declared_value(parse *p) {
  const token *t = peek(p, 0);
  if ((t->kind != TK_ASSIGN && t->kind != TK_TILDE) || p->statement < 0) return false;
  const char *hint = start_hint(p);
  if (!hint || !fits(p, TK_COLON)) return false;
  say(p, t->span, expected_text(p), found_text(p, t), hint);
  return skip_to_recovery_point(p);
}

// (k * v)[t-1]       k[M = 0][t-1]
static bool lagged_expression(parse *p) {
  const token *t = peek(p, 0), *time = peek(p, -1), *before = peek(p, -3);
  if (p->at < 3 || time->kind != TK_NAME || strcmp(time->text, "t") != 0) return false;
  if (peek(p, -2)->kind != TK_LB || fits(p, TK_MINUS)) return false;
  if (before->kind != TK_RP && before->kind != TK_RB && before->kind != TK_RC) return false;
  say(p, span_join(peek(p, -2)->span, t->span), "a name before the lag", found_text(p, before),
      before->kind == TK_RP
          ? "name the value, let a = ..., and lag the name: a[t-1]"
          : "the lag stands right behind the name, as in k[t-1][M = 0] and h[t-1]{N -> M}");
  return skip_to_recovery_point(p);
}

// repeat 2.5 (x = x0) { ... }
static bool count_of_repeat(parse *p) {
  const token *t = peek(p, 0);
  if (p->at == 0 || peek(p, -1)->kind != TK_REPEAT) return false;
  say(p, t->span, expected_text(p), found_text(p, t),
      "the count is a whole number, a name or in parentheses: repeat (2 * depth) (x = x0) { ... }");
  return skip_to_recovery_point(p);
}

// repeat 2 (x = x0, s = s0) { f(x), s }
static bool bare_tuple_of_repeat(parse *p) {
  const token *t = peek(p, 0);
  bracket_counts open = count_brackets(p);
  int item = current_item(p);
  if (t->kind != TK_COMMA || open.braces < 2 || !open.innermost) return false;
  if (open.innermost->kind != TK_LC || (item != TK_LAYER && item != TK_MODEL)) return false;
  say(p, t->span, expected_text(p), found_text(p, t),
      "several values are a tuple in parentheses, one for each carried name: { (a, b) }");
  return skip_to_recovery_point(p);
}

// linear(u, init = normal(0, 0.02))
static bool start_in_a_call(parse *p) {
  const token *t = peek(p, 0);
  int item = current_item(p);
  if (t->kind != TK_INIT || peek(p, 1)->kind != TK_ASSIGN || !fits(p, TK_NAME)) return false;
  if (item != TK_LAYER && item != TK_MODEL) return false;
  say(p, t->span, expected_text(p), found_text(p, t),
      "how weights start stands in a block of its own: init small for LAYER { NAME.weight ~ "
      "normal(0, 0.02) }");
  return skip_to_recovery_point(p);
}

// g > 1 and g < 2    g < 1 or g > 2
static bool word_between_conditions(parse *p) {
  const token *t = peek(p, 0);
  bool both = t->kind == TK_NAME && strcmp(t->text, "and") == 0;
  bool either = t->kind == TK_NAME && strcmp(t->text, "or") == 0;
  if (!(both || either) || !fits(p, TK_STAR)) return false;
  say(p, t->span, expected_text(p), found_text(p, t), both ? HINT_BOTH : HINT_EITHER);
  take_as(p, both ? TK_STAR : TK_PLUS);
  return true;
}

// u[D = 0..8]        u[D = 0:8]
static bool range_in_slice(parse *p) {
  const token *t = peek(p, 0), *innermost = count_brackets(p).innermost;
  if (t->kind != TK_DOTDOT && t->kind != TK_COLON) return false;
  if (!innermost || innermost->kind != TK_LB || !fits(p, TK_STAR)) return false;
  say(p, t->span, expected_text(p), found_text(p, t),
      "a slice takes one entry, as in u[D = 0]; several are a value of their own from the start: "
      "let "
      "(a[E], b[K]) = linear(u, name = \"ab\")");
  return skip_to_recovery_point(p);
}

bool mistake_at(parse *p) {
  return declared_value(p) || lagged_expression(p) || count_of_repeat(p) ||
         bare_tuple_of_repeat(p) || start_in_a_call(p) || range_in_slice(p) || bare_point(p) ||
         chained_comparison(p) || word_between_conditions(p) || later_step(p) ||
         number_in_brackets(p) || bare_tuple(p) || setting_without_value(p) || loop(p);
}
