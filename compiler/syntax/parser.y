// The grammar of .rec files: LALR(1) without a conflict, without precedence declarations and
// without fallbacks, so that nothing is decided silently. Every action is one call to a constructor
// (ast_build.h).
//
// One law keeps it so. A statement starts with a reserved word or a name. An expression never continues with a name, a number,
// a string or a reserved word. Therefore newlines mean nothing and no separator is needed.
//
// The `error` rules are the recovery points: parse.c feeds JUNK, which no rule uses, and Lemon pops
// to one of them.

%name rec_parser
%token_prefix TK_
%token_type { const token * }
%extra_argument { builder *b }
%stack_size 0
%start_symbol file

%include {
#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

#include "compiler/syntax/ast_build.h"
#include "compiler/syntax/parser_state.h"
}

%parse_accept { b->accepted = true; }

%token JUNK.

// ---- a file and its items -----------------------------------------------------------------------

file ::= items.
items ::= .
items ::= items item(I).                      { add_item(b, I); }

%type item { ast_item * }
item(R) ::= RECURRENCE(K) NAME(N) header(H) LC stmts(S) RC(E).  { R = body_item(b, AST_RECURRENCE, K, N, H, S, E); }
item(R) ::= LAYER(K) NAME(N) header(H) LC stmts(S) RC(E).       { R = body_item(b, AST_LAYER, K, N, H, S, E); }
item(R) ::= MODEL(K) NAME(N) header(H) LC stmts(S) RC(E).       { R = body_item(b, AST_MODEL, K, N, H, S, E); }
item(R) ::= IMPORT(K) STRING(S).                                { R = import_file(b, K, S); }
item(R) ::= IMPORT(K) path(P).                                  { R = import_path(b, K, P); }
item(R) ::= FN(K) NAME(N) some_axes(A) LP names(P) RP ASSIGN expr(E).        { R = fn_item(b, K, N, A, P, E); }
item(R) ::= FN(K) NAME(N) some_axes(A) LP names(P) COMMA RP ASSIGN expr(E).  { R = fn_item(b, K, N, A, P, E); }
item(R) ::= INIT(K) NAME(N) header(H) FOR NAME(T) LC init_entries(S) RC(E).  { R = init_item(b, K, N, H, T, S, E); }
item(R) ::= TRAIN(K) NAME(N) after(A) LC settings(S) RC(E).     { R = train_item(b, K, N, A, S, E); }
item(R) ::= EVALUATE(K) NAME(N) after(A) LC tasks(S) RC(E).     { R = evaluate_item(b, K, N, A, S, E); }
item(R) ::= error.                                              { R = NULL; }

%type header { ast_header * }
header(R) ::= .                               { R = NULL; }
header(R) ::= LP RP.                          { R = NULL; }
header(R) ::= LP header_axes(H) RP.           { R = H; }
header(R) ::= LP header_axes(H) COMMA RP.     { R = H; }

%type header_axes { ast_header * }
header_axes(R) ::= NAME(N).                                     { R = header_add(b, NULL, N, NULL); }
header_axes(R) ::= NAME(N) ASSIGN expr(E).                      { R = header_add(b, NULL, N, E); }
header_axes(R) ::= header_axes(H) COMMA NAME(N).                { R = header_add(b, H, N, NULL); }
header_axes(R) ::= header_axes(H) COMMA NAME(N) ASSIGN expr(E). { R = header_add(b, H, N, E); }

%type after { const token * }
after(R) ::= .                                { R = NULL; }
after(R) ::= AFTER NAME(N).                   { R = N; }

// ---- statements ---------------------------------------------------------------------------------

%type stmts { ast_stmts * }
stmts(R) ::= .                                { R = stmts_new(b); }
stmts(R) ::= stmts(L) stmt(S).                { R = stmts_add(b, L, S); }

%type stmt { ast_stmt * }
stmt(R) ::= INPUT(K) decls(D).                { R = decl_stmt(b, AST_INPUT, K, D); }
stmt(R) ::= STATE(K) started_decls(D).        { R = decl_stmt(b, AST_STATE, K, D); }
stmt(R) ::= PARAM(K) started_decls(D).        { R = decl_stmt(b, AST_PARAM, K, D); }
stmt(R) ::= OUTPUT(K) output_decls(D).        { R = decl_stmt(b, AST_OUTPUT, K, D); }
stmt(R) ::= plain_stmt(S).                    { R = S; }
stmt(R) ::= error.                            { R = NULL; }

// The statements that a repeat may hold, too.
%type plain_stmt { ast_stmt * }
plain_stmt(R) ::= LET(K) bind(B) ASSIGN expr(E).                { R = let_one(b, K, B, E); }
plain_stmt(R) ::= LET(K) LP binds(B) RP ASSIGN expr(E).         { R = let_tuple(b, K, B, E); }
plain_stmt(R) ::= LET(K) LP binds(B) COMMA RP ASSIGN expr(E).   { R = let_tuple(b, K, B, E); }
plain_stmt(R) ::= NAME(N) ASSIGN expr(E).                       { R = assign_stmt(b, N, E); }

%type bind { ast_bind }
bind(R) ::= NAME(N) some_axes(A).             { R = bind_of(N, A); }
%type binds { ast_binds * }
binds(R) ::= bind(B).                         { R = binds_add(b, NULL, B); }
binds(R) ::= binds(L) COMMA bind(B).          { R = binds_add(b, L, B); }

// A trailing comma is not allowed between declarations: the next line may start with a name.
%type decls { ast_decls * }
decls(R) ::= decl(D).                         { R = decls_add(b, NULL, D); }
decls(R) ::= decls(L) COMMA decl(D).          { R = decls_add(b, L, D); }
%type started_decls { ast_decls * }
started_decls(R) ::= either_decl(D).                        { R = decls_add(b, NULL, D); }
started_decls(R) ::= started_decls(L) COMMA either_decl(D). { R = decls_add(b, L, D); }
%type output_decls { ast_decls * }
output_decls(R) ::= output_decl(D).                      { R = decls_add(b, NULL, D); }
output_decls(R) ::= output_decls(L) COMMA output_decl(D). { R = decls_add(b, L, D); }

%type decl { ast_decl * }
decl(R) ::= NAME(N) some_axes(A).                            { R = decl_of(b, N, A); }
decl(R) ::= decl(D) COLON NAME(T).                           { R = decl_type(b, D, T); }
decl(R) ::= decl(D) IN(K) LB expr(L) COMMA expr(H) RB(E).    { R = decl_range(b, D, K, L, H, E); }
%type either_decl { ast_decl * }
either_decl(R) ::= decl(D).                                  { R = D; }
either_decl(R) ::= started_decl(D).                          { R = D; }
%type started_decl { ast_decl * }
started_decl(R) ::= decl(D) TILDE expr(E).                              { R = decl_start(D, E); }
started_decl(R) ::= started_decl(D) COLON NAME(T).                      { R = decl_type(b, D, T); }
started_decl(R) ::= started_decl(D) IN(K) LB expr(L) COMMA expr(H) RB(E). { R = decl_range(b, D, K, L, H, E); }
%type output_decl { ast_decl * }
output_decl(R) ::= decl(D).                                  { R = D; }
output_decl(R) ::= decl(D) ASSIGN expr(E).                   { R = decl_value(D, E); }

%type some_axes { axes_list * }
some_axes(R) ::= .                            { R = NULL; }
some_axes(R) ::= axes(A).                     { R = A; }
%type axes { axes_list * }
axes(R) ::= LB names(L) RB(E).                { R = axes_of(b, L, E); }
%type names { ast_names * }
names(R) ::= NAME(N).                         { R = names_add(b, NULL, N); }
names(R) ::= names(L) COMMA NAME(N).          { R = names_add(b, L, N); }

// ---- init, train, evaluate ----------------------------------------------------------------------

%type init_entries { ast_init_entries * }
init_entries(R) ::= .                         { R = init_entries_new(b); }
init_entries(R) ::= init_entries(L) path(P) TILDE expr(E).  { R = init_entries_add(b, L, P, E); }
init_entries(R) ::= init_entries(L) error.    { R = L; }

%type settings { ast_settings * }
settings(R) ::= .                             { R = settings_new(b); }
settings(R) ::= settings(L) setting(S).       { R = settings_add(b, L, S); }

// Every setting has exactly one value.
%type setting { ast_setting * }
setting(R) ::= setting_name(N) expr(E).             { R = setting_of(b, N, E); }
setting(R) ::= setting_name(N) mix(M).              { R = setting_of(b, N, M); }
setting(R) ::= setting_name(N) LC entries(L) RC(E). { R = setting_block(b, N, L, E); }
setting(R) ::= error.                               { R = NULL; }
%type setting_name { const token * }
setting_name(R) ::= NAME(N).                  { R = N; }
setting_name(R) ::= MODEL(N).                 { R = N; }
setting_name(R) ::= INIT(N).                  { R = N; }

%type entries { ast_setting_entries * }
entries(R) ::= entry(E).                      { R = entries_add(b, NULL, E); }
entries(R) ::= entries(L) entry(E).           { R = entries_add(b, L, E); }
entries(R) ::= entries(L) COMMA entry(E).     { R = entries_add(b, L, E); }
%type entry { ast_setting_entry }
entry(R) ::= edge(F) DOTDOT edge(T) COLON kind(K).              { R = entry_range(F, T, K); }
entry(R) ::= NAME(N) LP args(A) RP(E) COLON kind(K).            { R = entry_filter(b, N, A, E, K); }
entry(R) ::= kind(K).                                           { R = entry_kind(K); }
%type edge { ast_expr * }
edge(R) ::= NAME(T).                          { R = name_expr(b, T); }
edge(R) ::= INT(T).                           { R = number_expr(b, T); }
edge(R) ::= FLOAT(T).                         { R = number_expr(b, T); }
edge(R) ::= PERCENT(T).                       { R = percent_expr(b, T); }

%type kind { ast_expr * }
kind(R) ::= NAME(N).                          { R = name_expr(b, N); }
kind(R) ::= NAME(N) LP args(A) RP(E).         { R = call_expr(b, N, NULL, A, E); }
kind(R) ::= mix(M).                           { R = M; }
%type mix { ast_expr * }
mix(R) ::= NAME(N) LC mix_entries(L) RC(E).         { R = mix_expr(b, N, L, E); }
mix(R) ::= NAME(N) LC mix_entries(L) COMMA RC(E).   { R = mix_expr(b, N, L, E); }
%type mix_entries { ast_mix_entries * }
mix_entries(R) ::= expr(W) COLON kind(K).                       { R = mix_add(b, NULL, W, K); }
mix_entries(R) ::= mix_entries(L) COMMA expr(W) COLON kind(K).  { R = mix_add(b, L, W, K); }

%type tasks { ast_exprs * }
tasks(R) ::= .                                { R = exprs_new(b); }
tasks(R) ::= tasks(L) NAME(N).                { R = exprs_add(b, L, name_expr(b, N)); }
tasks(R) ::= tasks(L) NAME(N) LP args(A) RP(E). { R = exprs_add(b, L, call_expr(b, N, NULL, A, E)); }
tasks(R) ::= tasks(L) error.                  { R = L; }

// ---- expressions --------------------------------------------------------------------------------

// Comparisons do not chain.
%type expr { ast_expr * }
expr(R) ::= sum(A).                           { R = A; }
expr(R) ::= sum(A) LT(O) sum(B).              { R = binary_expr(b, AST_LESS, A, O, B); }
expr(R) ::= sum(A) LE(O) sum(B).              { R = binary_expr(b, AST_LESS_EQUAL, A, O, B); }
expr(R) ::= sum(A) GT(O) sum(B).              { R = binary_expr(b, AST_GREATER, A, O, B); }
expr(R) ::= sum(A) GE(O) sum(B).              { R = binary_expr(b, AST_GREATER_EQUAL, A, O, B); }
expr(R) ::= sum(A) EQ(O) sum(B).              { R = binary_expr(b, AST_EQUAL, A, O, B); }
%type sum { ast_expr * }
sum(R) ::= prod(A).                           { R = A; }
sum(R) ::= sum(A) PLUS(O) prod(B).            { R = binary_expr(b, AST_ADD, A, O, B); }
sum(R) ::= sum(A) MINUS(O) prod(B).           { R = binary_expr(b, AST_SUBTRACT, A, O, B); }
%type prod { ast_expr * }
prod(R) ::= unary(A).                         { R = A; }
prod(R) ::= prod(A) STAR(O) unary(B).         { R = binary_expr(b, AST_MULTIPLY, A, O, B); }
prod(R) ::= prod(A) SLASH(O) unary(B).        { R = binary_expr(b, AST_DIVIDE, A, O, B); }
// `^` binds tighter than the minus before it; its exponent may carry a sign: K^-0.5.
%type unary { ast_expr * }
unary(R) ::= power(A).                        { R = A; }
unary(R) ::= MINUS(O) unary(A).               { R = negate_expr(b, O, A); }
%type power { ast_expr * }
power(R) ::= primary(A).                      { R = A; }
power(R) ::= primary(A) CARET(O) unary(B).    { R = binary_expr(b, AST_POWER, A, O, B); }
%type primary { ast_expr * }
primary(R) ::= NAME(N).                       { R = name_expr(b, N); }
primary(R) ::= prim(A).                       { R = A; }

// One rule for each form after a name: a name must not be reduced before `(`, `[` or `{` is seen.
// What follows the first name in brackets decides: `-` is a lag, `=` a slice, `,` or `]` axes.
%type prim { ast_expr * }
prim(R) ::= NAME(N) LP args(A) RP(E).              { R = call_expr(b, N, NULL, A, E); }
prim(R) ::= NAME(N) axes(X) LP args(A) RP(E).      { R = call_expr(b, N, X, A, E); }
prim(R) ::= NAME(N) axes(X).                       { R = indexed_expr(b, N, X); }
prim(R) ::= NAME(N) LB NAME(T) MINUS INT(K) RB(E). { R = lag_expr(b, N, T, K, E); }
prim(R) ::= NAME(N) LB slices(S) RB(E).            { R = slice_expr(b, name_expr(b, N), S, E); }
prim(R) ::= prim(P) LB slices(S) RB(E).            { R = slice_expr(b, P, S, E); }
prim(R) ::= NAME(N) LC renamings(S) RC(E).         { R = rename_expr(b, name_expr(b, N), S, E); }
prim(R) ::= prim(P) LC renamings(S) RC(E).         { R = rename_expr(b, P, S, E); }
prim(R) ::= NAME(N) DOT steps(P).                  { R = path_expr(b, N, P); }
prim(R) ::= INT(T).                                { R = number_expr(b, T); }
prim(R) ::= FLOAT(T).                              { R = number_expr(b, T); }
prim(R) ::= PERCENT(T).                            { R = percent_expr(b, T); }
prim(R) ::= STRING(T).                             { R = string_expr(b, T); }
prim(R) ::= LP expr(E) RP.                         { R = E; }
prim(R) ::= LP(O) expr(F) COMMA exprs(L) RP(E).       { R = tuple_expr(b, O, F, L, E); }
prim(R) ::= LP(O) expr(F) COMMA exprs(L) COMMA RP(E). { R = tuple_expr(b, O, F, L, E); }
prim(R) ::= REPEAT(K) count(C) LP carried(L) RP LC expr(X) RC(E).         { R = repeat_expr(b, K, C, L, X, NULL, E); }
prim(R) ::= REPEAT(K) count(C) LP carried(L) RP LC repeat_stmts(S) RC(E). { R = repeat_expr(b, K, C, L, NULL, S, E); }

// Were the count any expression, `depth (x = x0)` would be a call.
%type count { ast_expr * }
count(R) ::= NAME(T).                         { R = name_expr(b, T); }
count(R) ::= INT(T).                          { R = number_expr(b, T); }
count(R) ::= LP expr(E) RP.                   { R = E; }
%type carried { ast_bindings * }
carried(R) ::= NAME(N) ASSIGN expr(E).                    { R = bindings_add(b, NULL, N, E); }
carried(R) ::= carried(L) COMMA NAME(N) ASSIGN expr(E).   { R = bindings_add(b, L, N, E); }
%type repeat_stmts { ast_stmts * }
repeat_stmts(R) ::= plain_stmt(S).                        { R = stmts_add(b, stmts_new(b), S); }
repeat_stmts(R) ::= repeat_stmts(L) plain_stmt(S).        { R = stmts_add(b, L, S); }

%type slices { ast_bindings * }
slices(R) ::= NAME(N) ASSIGN expr(E).                   { R = bindings_add(b, NULL, N, E); }
slices(R) ::= slices(L) COMMA NAME(N) ASSIGN expr(E).   { R = bindings_add(b, L, N, E); }
%type renamings { ast_renamings * }
renamings(R) ::= NAME(F) ARROW NAME(T).                     { R = renamings_add(b, NULL, F, T); }
renamings(R) ::= renamings(L) COMMA NAME(F) ARROW NAME(T).  { R = renamings_add(b, L, F, T); }

%type exprs { ast_exprs * }
exprs(R) ::= expr(E).                         { R = exprs_add(b, NULL, E); }
exprs(R) ::= exprs(L) COMMA expr(E).          { R = exprs_add(b, L, E); }

%type args { ast_args * }
args(R) ::= .                                 { R = args_new(b); }
args(R) ::= arg_list(L).                      { R = L; }
args(R) ::= arg_list(L) COMMA.                { R = L; }
%type arg_list { ast_args * }
arg_list(R) ::= arg(A).                       { R = args_add(b, NULL, A); }
arg_list(R) ::= arg_list(L) COMMA arg(A).     { R = args_add(b, L, A); }
%type arg { ast_arg }
arg(R) ::= expr(E).                           { R = arg_positional(E); }
arg(R) ::= NAME(N) ASSIGN expr(E).            { R = arg_named(N, E); }
arg(R) ::= NAME(N) ASSIGN LB(O) names(L) RB(E). { R = arg_named(N, axes_expr(b, O, L, E)); }
arg(R) ::= NAME(N) ASSIGN LB(O) RB(E).        { R = arg_named(N, axes_expr(b, O, NULL, E)); }
arg(R) ::= expr(F) ARROW expr(T).             { R = arg_pair(AST_ARG_ARROW, F, T); }
arg(R) ::= expr(F) DOTDOT expr(T).            { R = arg_pair(AST_ARG_RANGE, F, T); }

// ---- paths --------------------------------------------------------------------------------------

%type path { ast_names * }
path(R) ::= NAME(N).                          { R = names_add(b, NULL, N); }
path(R) ::= NAME(N) DOT steps(L).             { R = names_before(b, N, L); }
%type steps { ast_names * }
steps(R) ::= step(S).                         { R = names_add(b, NULL, S); }
steps(R) ::= steps(L) DOT step(S).            { R = names_add(b, L, S); }
// After a point every word is a name, reserved or not.
%type step { const token * }
step(R) ::= NAME(T).                          { R = T; }
step(R) ::= INT(T).                           { R = T; }
step(R) ::= RECURRENCE(T).                    { R = T; }
step(R) ::= FN(T).                            { R = T; }
step(R) ::= LAYER(T).                         { R = T; }
step(R) ::= MODEL(T).                         { R = T; }
step(R) ::= INIT(T).                          { R = T; }
step(R) ::= TRAIN(T).                         { R = T; }
step(R) ::= EVALUATE(T).                      { R = T; }
step(R) ::= IMPORT(T).                        { R = T; }
step(R) ::= INPUT(T).                         { R = T; }
step(R) ::= PARAM(T).                         { R = T; }
step(R) ::= STATE(T).                         { R = T; }
step(R) ::= OUTPUT(T).                        { R = T; }
step(R) ::= LET(T).                           { R = T; }
step(R) ::= REPEAT(T).                        { R = T; }
step(R) ::= IN(T).                            { R = T; }
step(R) ::= FOR(T).                           { R = T; }
step(R) ::= AFTER(T).                         { R = T; }

// ---- a view of the parser's tables --------------------------------------------------------------

%code {
// Here Lemon's tables and stack are visible. parser_state.h says what these do; nothing below
// changes the parser.

const int token_kind_count = YYNTOKEN;
static_assert(YYNTOKEN <= TOKEN_KINDS_MAX, "enlarge TOKEN_KINDS_MAX");

parser *parser_new(void) { return rec_parserAlloc(malloc); }
void parser_free(parser *p) { rec_parserFree(p, free); }
void parser_feed(parser *p, int kind, const token *t, builder *b) { rec_parser(p, kind, t, b); }

int parser_depth(const parser *p) {
  const yyParser *state = p;
  return (int)(state->yytos - state->yystack);
}

const token *parser_stack_token(const parser *p, int i) {
  const yyParser *state = p;
  const yyStackEntry *entry = &state->yystack[i + 1];
  return entry->major > 0 && entry->major < YYNTOKEN ? entry->minor.yy0 : NULL;
}

trial parser_try(const parser *p) { return (trial){.parser = p, .base = parser_depth(p)}; }

static YYACTIONTYPE trial_state(const trial *t) {
  const yyParser *state = t->parser;
  return t->pushed ? t->states[t->pushed - 1] : state->yystack[t->base].stateno;
}

static bool trial_push(trial *t, YYACTIONTYPE state) {
  if (t->pushed == TRIAL_STATES) return false;
  t->states[t->pushed++] = state;
  return true;
}

static void trial_pop(trial *t, int count) {
  int own = count < t->pushed ? count : t->pushed;
  t->pushed -= own;
  t->base -= count - own;
}

bool trial_accepts(trial *t, int kind) {
  for (;;) {
    YYACTIONTYPE action = yy_find_shift_action((YYCODETYPE)kind, trial_state(t));
    if (action >= YY_MIN_REDUCE) {
      int rule = action - YY_MIN_REDUCE;
      trial_pop(t, -yyRuleInfoNRhs[rule]);
      if (!trial_push(t, yy_find_reduce_action(trial_state(t), yyRuleInfoLhs[rule]))) return false;
    } else if (action <= YY_MAX_SHIFTREDUCE) {
      if (action > YY_MAX_SHIFT) action += YY_MIN_REDUCE - YY_MIN_SHIFTREDUCE;
      return trial_push(t, action);
    } else {
      return action == YY_ACCEPT_ACTION;
    }
  }
}
}
