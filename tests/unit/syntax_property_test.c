// Properties of the front end on random input and on every .rec file of the repository. The seed
// changes with each run and is printed; REC_SEED=N repeats one.
//   - an expression printed with the fewest parentheses reads back as the same tree
//   - newlines, spaces and comments between tokens do not change the tree
//   - formatting keeps the tree and every comment, and formatting twice changes nothing
//   - one damaged token gives few messages, mostly one
#include <ftw.h>
#include <time.h>
#include <unistd.h>

#include "compiler/syntax/syntax.h"
#include "compiler/syntax/token.h"
#include "tests/unit/unit.h"

static uint64_t random_state;

static unsigned random_below(unsigned n) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return (unsigned)((random_state >> 20) % n);
}

// ---- parsing and printing -----------------------------------------------------------------------

typedef struct parsed {
  int errors;
  diag *messages;
  char *tree;       // --emit=ast, in the arena
  char *formatted;  // or NULL
} parsed;

static char *tree_text(arena *a, const ast_file *file) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  print_ast(out, file);
  fclose(out);
  char *copy = arena_strdup(a, text);
  free(text);
  return copy;
}

static parsed parse_text(arena *a, const char *text) {
  sources *all = sources_new(a);
  diag *d = diag_new(a, all);
  const char *error = NULL;
  const source *s = sources_add(all, "x.rec", text, strlen(text), &error);
  parsed result = {.errors = 1};
  if (!s) return result;
  ast_file *file = parse_source(a, interner_new(a), d, s);
  result.errors = diag_error_count(d);
  result.messages = d;
  if (result.errors) return result;
  result.tree = tree_text(a, file);
  result.formatted = format_source(a, interner_new(a), diag_new(a, all), s);
  return result;
}

// ---- random expressions -------------------------------------------------------------------------

static const char *random_name(void) {
  static const char *const names[] = {"a", "b", "x_1", "sum", "Mamba2", "if", "mix"};
  return names[random_below(sizeof names / sizeof *names)];
}

static ast_name a_name(void) { return (ast_name){.text = random_name()}; }

static ast_names some_names(arena *a, int at_least) {
  ast_names names = {0};
  int count = at_least + (int)random_below(3);
  for (int i = 0; i < count; i++) vec_push(a, &names, a_name());
  return names;
}

static ast_expr *number(arena *a, const char *text) {
  ast_expr *e = ARENA_NEW(a, ast_expr);
  e->kind = AST_NUMBER;
  e->number.text = text;
  e->number.is_integer = strspn(text, "0123456789") == strlen(text);
  return e;
}

static ast_expr *random_expr(arena *a, int depth);

static ast_args some_args(arena *a, int depth) {
  ast_args args = {0};
  for (int i = (int)random_below(4); i > 0; i--) {
    ast_arg arg = {.kind = (ast_arg_kind)random_below(4), .value = random_expr(a, depth)};
    if (arg.kind == AST_ARG_NAMED) arg.name = a_name();
    if (arg.kind >= AST_ARG_ARROW) arg.to = random_expr(a, depth);
    vec_push(a, &args, arg);
  }
  return args;
}

static ast_bindings some_bindings(arena *a, int depth) {
  ast_bindings list = {0};
  for (int i = 1 + (int)random_below(2); i > 0; i--)
    vec_push(a, &list, (ast_binding){.name = a_name(), .value = random_expr(a, depth)});
  return list;
}

static ast_stmts some_statements(arena *a, int depth) {
  ast_stmts list = {0};
  for (int i = 1 + (int)random_below(3); i > 0; i--) {
    ast_stmt *stmt = ARENA_NEW(a, ast_stmt);
    stmt->kind = random_below(2) ? AST_LET : AST_ASSIGN;
    if (stmt->kind == AST_ASSIGN) {
      stmt->assign.name = a_name();
      stmt->assign.value = random_expr(a, depth);
    } else {
      ast_bind bind = {.name = a_name()};
      if (random_below(2)) bind.axes = some_names(a, 1);
      vec_push(a, &stmt->let.binds, bind);
      stmt->let.is_tuple = random_below(2);
      stmt->let.value = random_expr(a, depth);
    }
    vec_push(a, &list, stmt);
  }
  return list;
}

static void random_leaf(arena *a, ast_expr *e) {
  static const char *const numbers[] = {"0", "17", "0.5", "1e-3", "2.5e+10"};
  e->kind = (ast_expr_kind[]){AST_NUMBER, AST_PERCENT, AST_STRING, AST_NAME,
                              AST_PATH,   AST_INDEXED, AST_LAG}[random_below(7)];
  switch (e->kind) {
    case AST_NUMBER: *e = *number(a, numbers[random_below(5)]); break;
    case AST_PERCENT: e->percent.text = "10%"; break;
    case AST_STRING: e->string.text = random_below(2) ? "a \"b\\\n\t" : ""; break;
    case AST_NAME: e->name = a_name(); break;
    case AST_PATH:
      e->path.steps = some_names(a, 2);
      e->path.steps.items[1].text = random_below(2) ? "3" : "state";
      break;
    case AST_INDEXED:
      e->indexed.name = a_name();
      e->indexed.axes = some_names(a, 1);
      break;
    default:
      e->lag.name = a_name();
      e->lag.time.text = "t";
      e->lag.steps = number(a, random_below(2) ? "1" : "12");
      break;
  }
}

static ast_expr *random_expr(arena *a, int depth) {
  ast_expr *e = ARENA_NEW(a, ast_expr);
  if (depth == 0 || random_below(8) == 0) {
    random_leaf(a, e);
    return e;
  }
  e->kind = (ast_expr_kind[]){AST_NEGATE, AST_BINARY, AST_BINARY, AST_BINARY, AST_CALL,
                              AST_SLICE,  AST_RENAME, AST_TUPLE,  AST_REPEAT}[random_below(9)];
  depth--;
  switch (e->kind) {
    case AST_NEGATE: e->negate.operand = random_expr(a, depth); break;
    case AST_BINARY:
      e->binary.op = (ast_binary_op)random_below(10);
      e->binary.left = random_expr(a, depth);
      e->binary.right = random_expr(a, depth);
      break;
    case AST_CALL:
      e->call.callee = a_name();
      if (random_below(2)) e->call.axes = some_names(a, 1);
      e->call.args = some_args(a, depth);
      break;
    case AST_SLICE:
      e->slice.operand = random_expr(a, depth);
      e->slice.slices = some_bindings(a, depth);
      break;
    case AST_RENAME:
      e->rename.operand = random_expr(a, depth);
      vec_push(a, &e->rename.renamings, (ast_renaming){.from = a_name(), .to = a_name()});
      break;
    case AST_TUPLE:
      for (int i = 2 + (int)random_below(2); i > 0; i--)
        vec_push(a, &e->tuple.items, random_expr(a, depth));
      break;
    default:
      e->repeat.count = random_expr(a, depth);
      e->repeat.carried = some_bindings(a, depth);
      if (random_below(2))
        e->repeat.body = random_expr(a, depth);
      else
        e->repeat.statements = some_statements(a, depth);
      break;
  }
  return e;
}

TEST(printed_expressions_read_back) {
  for (int round = 0; round < 3000; round++) {
    arena *a = arena_new();
    ast_item item = {.kind = AST_FN, .name.text = "f", .fn.value = random_expr(a, 5)};
    vec_push(a, &item.fn.params, (ast_name){.text = "x"});
    ast_file file = {0};
    vec_push(a, &file.items, &item);
    char *text = arena_printf(a, "fn f(x) = %s", expr_to_text(a, item.fn.value));
    parsed p = parse_text(a, text);
    if (p.errors) diag_print(p.messages, stderr);
    assert_int_equal(p.errors, 0);
    assert_string_equal(p.tree, tree_text(a, &file));
    assert_non_null(p.formatted);
    assert_string_equal(parse_text(a, p.formatted).tree, p.tree);
    arena_free(a);
  }
}

// ---- the programs of the repository -------------------------------------------------------------

static arena *corpus_memory;
static VEC(const char *) corpus;  // paths

static int collect(const char *path, const struct stat *status, int kind, struct FTW *walk) {
  (void)status;
  if (kind == FTW_D && (strcmp(path + walk->base, "build") == 0 || path[walk->base] == '.') &&
      walk->level > 0) {
    return FTW_SKIP_SUBTREE;
  }
  size_t length = strlen(path);
  if (kind == FTW_F && length > 4 && strcmp(path + length - 4, ".rec") == 0)
    vec_push(corpus_memory, &corpus, arena_strdup(corpus_memory, path));
  return FTW_CONTINUE;
}

static char *read_program(arena *a, const char *path) {
  const char *error = NULL;
  const source *s = sources_load(sources_new(a), path, &error);
  return s ? arena_strndup(a, s->text, s->size) : NULL;
}

// The lexemes of a program; comments are not among them.
typedef struct lexeme {
  char *text;
  bool first_on_line;
} lexeme;
typedef VEC(lexeme) lexemes;

static lexemes lexemes_of(arena *a, const char *text) {
  sources *all = sources_new(a);
  const char *error = NULL;
  const source *s = sources_add(all, "x.rec", text, strlen(text), &error);
  token_stream stream = lex_source(a, interner_new(a), diag_new(a, all), s);
  lexemes list = {0};
  for (int i = 0; i + 1 < stream.tokens.count; i++) {
    const token *t = &stream.tokens.items[i];
    char *copy = arena_strndup(a, text + t->span.begin, t->span.end - t->span.begin);
    vec_push(a, &list, (lexeme){.text = copy, .first_on_line = t->first_on_line});
  }
  return list;
}

// The comments of a text, one a line, in order.
static char *comments_of(arena *a, const char *text) {
  sources *all = sources_new(a);
  const char *error = NULL;
  const source *s = sources_add(all, "x.rec", text, strlen(text), &error);
  token_stream stream = lex_source(a, interner_new(a), diag_new(a, all), s);
  char *list = arena_strdup(a, "");
  for (int i = 0; i < stream.comments.count; i++) {
    span where = stream.comments.items[i].span;
    list = arena_printf(a, "%s%.*s\n", list, (int)(where.end - where.begin), text + where.begin);
  }
  return list;
}

// The program again: with its own lines, or with random space and comments.
static char *joined(arena *a, const lexemes *list, bool random_space) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  for (int i = 0; i < list->count; i++) {
    fputs(list->items[i].text, out);
    static const char *const spaces[] = {" ", "  ", "\n", " \t", "\n\n\n", "\r\n", "\n\t"};
    unsigned choice = random_space ? random_below(9) : 0;
    bool breaks = i + 1 < list->count && list->items[i + 1].first_on_line;
    if (!random_space) {
      fputc(breaks ? '\n' : ' ', out);
    } else if (choice >= 7) {
      fprintf(out, "%s// comment %d%s\n", choice == 7 ? " " : "\n", i,
              random_below(2) ? " \xC3\xA4" : "");
    } else {
      fputs(spaces[choice], out);
    }
  }
  fclose(out);
  char *copy = arena_strdup(a, text);
  free(text);
  return copy;
}

static void assert_formatting_keeps(arena *a, const char *path, const char *text,
                                    const char *tree) {
  parsed p = parse_text(a, text);
  if (p.errors) {
    print_error("%s does not parse with other space\n", path);
    diag_print(p.messages, stderr);
  }
  assert_int_equal(p.errors, 0);
  assert_string_equal(p.tree, tree);
  assert_non_null(p.formatted);
  parsed again = parse_text(a, p.formatted);
  if (again.errors || strcmp(p.formatted, again.formatted) != 0)
    print_error("%s:\n%s\n", path, text);
  assert_int_equal(again.errors, 0);
  assert_string_equal(again.tree, tree);
  assert_string_equal(again.formatted, p.formatted);
  assert_string_equal(comments_of(a, p.formatted), comments_of(a, text));
}

TEST(space_and_formatting_keep_the_program) {
  int programs = 0;
  for (int i = 0; i < corpus.count; i++) {
    arena *a = arena_new();
    char *text = read_program(a, corpus.items[i]);
    parsed p = text ? parse_text(a, text) : (parsed){.errors = 1};
    if (p.errors == 0) {
      programs++;
      assert_formatting_keeps(a, corpus.items[i], text, p.tree);
      lexemes list = lexemes_of(a, text);
      char *tree = parse_text(a, joined(a, &list, false)).tree;  // without documentation
      for (int round = 0; round < 5; round++)
        assert_formatting_keeps(a, corpus.items[i], joined(a, &list, true), tree);
    }
    arena_free(a);
  }
  assert_true(programs >= 3);
}

// ---- damage -------------------------------------------------------------------------------------

static void damage(arena *a, lexemes *list) {
  static const char *const words[] = {"(", ")",   "[",   "]",     "{",     "}",     ",",      ":",
                                      ".", "..",  "->",  "~",     "=",     "+",     "-",      "*",
                                      "/", "^",   "<",   "let",   "state", "layer", "repeat", "x",
                                      "3", "0.5", "10%", "\"s\"", "**",    ";",     "@"};
  char *word = arena_strdup(a, words[random_below(sizeof words / sizeof *words)]);
  int at = (int)random_below((unsigned)list->count);
  switch (random_below(4)) {
    case 0: list->items[at].text = ""; break;
    case 1: list->items[at].text = arena_printf(a, "%s %s", word, list->items[at].text); break;
    case 2: list->items[at].text = word; break;
    default:
      if (at > 0) {
        char *other = list->items[at].text;
        list->items[at].text = list->items[at - 1].text;
        list->items[at - 1].text = other;
      }
  }
}

TEST(one_damaged_token_gives_few_messages) {
  int rejected = 0, one = 0, two = 0;
  int rounds = 1 + 5000 / (corpus.count + 1);
  for (int i = 0; i < corpus.count; i++) {
    for (int round = 0; round < rounds; round++) {
      arena *a = arena_new();
      char *text = read_program(a, corpus.items[i]);
      if (!text || parse_text(a, text).errors) round = rounds;
      lexemes list = lexemes_of(a, text ? text : "");
      if (round < rounds && list.count > 0) {
        damage(a, &list);
        char *damaged = joined(a, &list, false);
        parsed p = parse_text(a, damaged);
        int errors = p.errors;
        rejected += errors > 0;
        one += errors == 1;
        two += errors == 1 || errors == 2;
        if (errors > 8 || (errors > 1 && getenv("REC_TEST_SHOW"))) {
          print_error("%d messages for one mistake:\n%s\n", errors, damaged);
          diag_print(p.messages, stderr);
        }
        assert_true(errors <= 8);
      }
      arena_free(a);
    }
  }
  print_message("%d damaged programs: one message for %.1f %%, at most two for %.1f %%\n", rejected,
                100.0 * one / rejected, 100.0 * two / rejected);
  assert_true(one >= 0.9 * rejected);
}

static int set_up(void **state) {
  (void)state;
  const char *seed = getenv("REC_SEED");
  random_state =
      seed ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL) * 1000003 + (uint64_t)getpid();
  print_message("REC_SEED=%llu\n", (unsigned long long)random_state);
  if (random_state == 0) random_state = 1;
  corpus_memory = arena_new();
  return nftw(REC_SOURCE_DIR, collect, 16, FTW_ACTIONRETVAL | FTW_PHYS);
}

static int tear_down(void **state) {
  (void)state;
  arena_free(corpus_memory);
  return 0;
}

TEST_AROUND(set_up, tear_down)
