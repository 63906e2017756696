// Repair by simulation, and recovery where no repair fits.
//
//   sum[K](q * k         One token is inserted, put in place or removed on a copy of the parser's
//   S = S[t-1] + k       states; the change after which most of the next five tokens fit is the
//                        repair: here ')' before 'S'.
#include "compiler/syntax/parse.h"
#include "compiler/syntax/parser.h"

int count_fitting(const parse *p, trial t, int index) {
  int count = 0;
  for (; count < REPAIR_WINDOW; index++) {
    const token *next = &p->tokens.items[index];
    if (next->kind == TK_NONE) continue;
    if (!trial_accepts(&t, next->kind)) return count;
    if (next->kind == 0) return REPAIR_WINDOW;
    count++;
  }
  return count;
}

// What may be missing, the likeliest first: ties go to the earlier one.
static const int missing_inside[] = {TK_STAR,  TK_COMMA, TK_ASSIGN, TK_COLON, TK_DOTDOT, TK_ARROW,
                                     TK_TILDE, TK_RP,    TK_RB,     TK_RC,    TK_LC,     TK_LP,
                                     TK_LB,    TK_FOR,   TK_AFTER,  TK_NAME};
// Where a statement or the end follows, a bracket was left open.
static const int missing_at_end[] = {TK_RP,     TK_RB,    TK_RC, TK_STAR, TK_COMMA,
                                     TK_ASSIGN, TK_COLON, TK_LC, TK_NAME};
static const int marks[] = {TK_ASSIGN, TK_ARROW, TK_DOTDOT, TK_COLON, TK_TILDE, TK_COMMA, TK_RP,
                            TK_RB,     TK_RC,    TK_DOT,    TK_STAR,  TK_EQ,    TK_MINUS};
static const int openers[] = {TK_LP, TK_LB, TK_LC};
#define COUNT(array) (int)(sizeof(array) / sizeof *(array))

static void consider(repair *best, repair_action action, int kind, int score) {
  if (score > best->score) *best = (repair){.action = action, .kind = kind, .score = score};
}

// f( + 1): that nothing was meant to stand in the brackets is the least likely reading.
static bool closes_at_once(const parse *p, int kind) {
  return is_closing(kind) && is_opening(peek(p, -1)->kind);
}

static void try_kinds(const parse *p, repair *best, repair_action action, const int *kinds,
                      int count, bool ends) {
  int next = action == REPAIR_INSERT ? p->at : p->at + 1;
  for (int i = 0; i < count; i++) {
    trial t = parser_try(p->parser);
    if (action == REPAIR_INSERT && !ends && closes_at_once(p, kinds[i])) continue;
    if (trial_accepts(&t, kinds[i])) consider(best, action, kinds[i], count_fitting(p, t, next));
  }
}

repair find_repair(const parse *p) {
  repair best = {.action = REPAIR_NONE, .score = 1};
  const token *found = peek(p, 0);
  bool ends = found->kind == 0 || found->kind == TK_RC || is_item_word(found->kind) ||
              starts_statement(p, p->at);
  if (ends)
    try_kinds(p, &best, REPAIR_INSERT, missing_at_end, COUNT(missing_at_end), ends);
  else
    try_kinds(p, &best, REPAIR_INSERT, missing_inside, COUNT(missing_inside), ends);
  if (found->kind == 0) return best;
  if (is_punctuation(found->kind)) {
    if (is_opening(found->kind)) try_kinds(p, &best, REPAIR_REPLACE, openers, COUNT(openers), ends);
    try_kinds(p, &best, REPAIR_REPLACE, marks, COUNT(marks), ends);
  } else if (token_kind_spelling(found->kind)) {
    static const int name[] = {TK_NAME};
    try_kinds(p, &best, REPAIR_REPLACE, name, 1, ends);
  }
  consider(&best, REPAIR_REMOVE, TK_NONE, count_fitting(p, parser_try(p->parser), p->at + 1));
  return best;
}

void apply_repair(parse *p, repair r) {
  if (r.action == REPAIR_INSERT) {
    feed_invented(p, r.kind);
    return;
  }
  if (r.action == REPAIR_REPLACE) {
    token *t = ARENA_NEW(p->memory, token);
    *t = *peek(p, 0);
    t->kind = r.kind;
    feed(p, t->kind, t);
  }
  p->at++;
}

// ---- recovery points ----------------------------------------------------------------------------

// Can reading go on at this token? `open` brackets are open since the statement that was given up,
// which is indented by `indent`.
static bool is_recovery_point(const parse *p, int index, bracket_counts open, uint32_t indent) {
  const token *t = &p->tokens.items[index];
  if (t->kind == 0) return true;
  bool in_settings = fits(p, TK_MODEL) && !fits(p, TK_FN);
  if (is_item_word(t->kind) && t->first_on_line)
    return !(in_settings && (t->kind == TK_MODEL || t->kind == TK_INIT)) || fits(p, t->kind);
  if (t->kind == TK_NONE || !fits(p, t->kind)) return false;
  if (t->kind == TK_RC) return open.braces == 0;
  // A bracket that was never closed must not swallow the rest of the block.
  bool outdented = t->first_on_line && source_indent(p->source, t->span.begin) <= indent;
  if (is_statement_word(t->kind)) return open.braces == 0 || outdented;
  return t->kind == TK_NAME && t->first_on_line && (open.all == 0 || outdented);
}

static int bracket_step(int kind) { return is_opening(kind) - is_closing(kind); }

// An item's word inside a block, or the end of the file: closes what is open.
static void close_blocks(parse *p) {
  while (!fits(p, peek(p, 0)->kind) && fits(p, TK_RC)) {
    feed_invented(p, TK_RC);
    p->fed = 0;
  }
}

bool skip_to_recovery_point(parse *p) {
  const token *first = peek(p, p->statement >= 0 ? p->statement - p->at : 0);
  uint32_t indent = source_indent(p->source, first->span.begin);
  bracket_counts open = count_brackets(p);
  feed(p, TK_JUNK, peek(p, 0));
  bracket_counts kept = count_brackets(p);
  open.all -= kept.all;
  open.braces -= kept.braces;
  while (!is_recovery_point(p, p->at, open, indent)) {
    int kind = peek(p, 0)->kind;
    open.all += bracket_step(kind);
    if (open.all < 0) open.all = 0;
    if (kind == TK_LC) open.braces++;
    if (kind == TK_RC && open.braces > 0) open.braces--;
    p->at++;
  }
  close_blocks(p);
  const token *next = peek(p, 0);
  if (!fits(p, next->kind)) {
    if (next->kind == 0)
      p->stopped = true;
    else
      p->at++;
  }
  return true;
}
