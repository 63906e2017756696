// The space between two tokens on one line.
#include "compiler/syntax/format.h"
#include "compiler/syntax/parser.h"

static int token_kind_at(const tokens *all, int index) {
  return index >= 0 && index < all->count ? all->items[index].kind : 0;
}

bracket_kind bracket_kind_at(const tokens *all, int index) {
  int next = token_kind_at(all, index + 1), after = token_kind_at(all, index + 2);
  if (token_kind_at(all, index) == TK_LC)
    return next == TK_NAME && after == TK_ARROW ? BRACKET_RENAME : BRACKET_BLOCK;
  if (token_kind_at(all, index) != TK_LB || token_kind_at(all, index - 1) == TK_IN ||
      next != TK_NAME) {
    return BRACKET_PLAIN;
  }
  if (after == TK_MINUS) return BRACKET_LAG;
  return after == TK_COMMA || after == TK_RB ? BRACKET_AXES : BRACKET_PLAIN;
}

static bool ends_operand(int kind) {
  return kind == TK_NAME || kind == TK_INT || kind == TK_FLOAT || kind == TK_PERCENT ||
         kind == TK_STRING || kind == TK_RP || kind == TK_RB || kind == TK_RC;
}

// The name of a setting of a train block, which a value follows.
static bool is_setting_name(const parse *p, int index, place where) {
  return where.in_train && where.inside == BRACKET_ITEM && index >= 0 && p->starts[index];
}

// The token at `index` is the minus of `-x`, not of `a - b`.
static bool is_prefix(const parse *p, int index, place where) {
  if (token_kind_at(&p->tokens, index) != TK_MINUS) return false;
  return !ends_operand(token_kind_at(&p->tokens, index - 1)) ||
         is_setting_name(p, index - 1, where);
}

// The parenthesis of `repeat depth (x = x0)`.
static bool opens_carried(const tokens *all, int index) {
  int i = index - 1;
  if (token_kind_at(all, i) == TK_RP) {
    for (int depth = 0; i >= 0; i--) {
      if (token_kind_at(all, i) == TK_RP) depth++;
      if (token_kind_at(all, i) == TK_LP && --depth == 0) break;
    }
  }
  return token_kind_at(all, i - 1) == TK_REPEAT;
}

static bool touches(const token *left, const token *right) {
  return left->span.end == right->span.begin;
}

// A binary operator is as tight as it was written (1/16, 2*D): tight only without space on either
// side.
static bool is_tight(const parse *p, int sign) {
  const token *t = &p->tokens.items[sign];
  if (t->kind == TK_CARET || t->kind == TK_DOTDOT) return true;
  if (!is_operator(t->kind) || is_comparison(t->kind)) return false;
  return touches(t - 1, t) && touches(t, t + 1);
}

static bool is_sign(int kind) {
  return is_operator(kind) || kind == TK_ASSIGN || kind == TK_TILDE || kind == TK_ARROW ||
         kind == TK_DOTDOT;
}

static int before_parenthesis(const parse *p, int index, place where) {
  const tokens *all = &p->tokens;
  int before = token_kind_at(all, index - 1);
  if (before == TK_LP || before == TK_LB || is_prefix(p, index - 1, where)) return 0;
  if (opens_carried(all, index) || is_setting_name(p, index - 1, where)) return 1;
  if (is_sign(before)) return is_tight(p, index - 1) ? 0 : 1;
  return before == TK_NAME || before == TK_RB ? 0 : 1;
}

int spaces_before(const parse *p, int index, place where) {
  bracket_kind inside = where.inside;
  const tokens *all = &p->tokens;
  int before = token_kind_at(all, index - 1), kind = token_kind_at(all, index);
  if (kind == TK_COMMA || kind == TK_DOT || before == TK_DOT) return 0;
  if (inside == BRACKET_AXES || inside == BRACKET_LAG) return 0;
  if (before == TK_COMMA) return 1;
  if (inside == BRACKET_RENAME && (before == TK_LC || kind == TK_RC)) return 0;
  if (before == TK_LC || kind == TK_RC) return 1;
  if (before == TK_LP || before == TK_LB || kind == TK_RP || kind == TK_RB) return 0;
  if (kind == TK_LP) return before_parenthesis(p, index, where);
  if (kind == TK_LB) return before == TK_IN || before == TK_ASSIGN ? 1 : 0;
  if (kind == TK_LC) return bracket_kind_at(all, index) == BRACKET_RENAME ? 0 : 1;
  if (kind == TK_COLON) return where.in_train ? 0 : 1;
  if (is_prefix(p, index - 1, where)) return 0;
  if (is_prefix(p, index, where)) return before == TK_CARET || before == TK_DOTDOT ? 0 : 1;
  if (is_sign(kind)) return is_tight(p, index) ? 0 : 1;
  if (is_sign(before)) return is_tight(p, index - 1) ? 0 : 1;
  if (p->starts[index]) return where.in_train && inside == BRACKET_ITEM ? 3 : 2;
  return 1;
}
