// Tile IR: shared values, simplification, text there and back, the verifier.
#include "compiler/tile/tile.h"
#include "tests/unit/unit.h"

enum { G, N, M };

// A chunk program over axes G (run time), N = 4, M = 4.
static tile_program *empty(arena *a, tile_form form) {
  typed_body *body = ARENA_NEW(a, typed_body);
  body->name = "r";
  vec_push(a, &body->axes, (typed_axis){.name = "G", .size = TYPED_RUNTIME_SIZE});
  vec_push(a, &body->axes, (typed_axis){.name = "N", .size = 4});
  vec_push(a, &body->axes, (typed_axis){.name = "M", .size = 4});
  return tile_program_new(a, "r.forward", body, form, 8);
}

static tile_id input(tile_program *p, const char *name, axis_set axes, bool time) {
  tile_place place = {.role = time ? TILE_INPUT : TILE_STATE,
                      .tensor = p->arguments.count,
                      .lag = -1,
                      .stash = -1,
                      .time = time,
                      .name = name};
  for (int i = 0; i < 3; i++)
    if (axis_in(axes, i)) place.axes[place.axis_count++] = i;
  return tile_argument(p, place);
}

static tile_place output(axis_set axes, bool time) {
  tile_place place = {
      .role = TILE_OUTPUT, .tensor = 9, .lag = -1, .stash = -1, .time = time, .name = "y"};
  for (int i = 0; i < 3; i++)
    if (axis_in(axes, i)) place.axes[place.axis_count++] = i;
  return place;
}

TEST(equal_values_are_one) {
  arena *a = arena_new();
  tile_program *p = empty(a, TILE_STEP);
  tile_id first[300];
  for (int i = 0; i < 300; i++) first[i] = tile_number(p, i * 0.25);
  for (int i = 0; i < 300; i++) assert_int_equal(first[i], tile_number(p, i * 0.25));
  tile_id x = input(p, "x", axis_bit(N), true), y = input(p, "y", axis_bit(G), true);
  assert_int_equal(tile_binary(p, TILE_MUL, x, y), tile_binary(p, TILE_MUL, y, x));
  assert_int_not_equal(tile_binary(p, TILE_SUB, x, y), tile_binary(p, TILE_DIV, x, y));
  tile_id product = tile_binary(p, TILE_MUL, x, y);
  assert_int_equal(p->values.items[product].axes, axis_bit(N) | axis_bit(G));
  arena_free(a);
}

TEST(appending_simplifies) {
  arena *a = arena_new();
  tile_program *p = empty(a, TILE_STEP);
  tile_id x = input(p, "x", axis_bit(N), true), y = input(p, "y", axis_bit(N), true);
  tile_id zero = tile_number(p, 0), one = tile_number(p, 1), two = tile_number(p, 2);
  assert_int_equal(tile_binary(p, TILE_ADD, x, zero), x);
  assert_int_equal(tile_binary(p, TILE_MUL, one, x), x);
  // 0 times infinity is no number: only what is finite for sure vanishes.
  assert_int_not_equal(tile_binary(p, TILE_MUL, x, zero), zero);
  assert_int_equal(tile_binary(p, TILE_MUL, tile_leaf(p, TILE_INDEX, N), zero), zero);
  assert_int_equal(tile_binary(p, TILE_MUL, zero, tile_binary(p, TILE_LESS, x, y)), zero);
  tile_id minus_x = tile_unary(p, TILE_NEG, x), minus_y = tile_unary(p, TILE_NEG, y);
  assert_int_equal(tile_unary(p, TILE_NEG, minus_x), x);
  assert_int_equal(tile_binary(p, TILE_ADD, y, minus_x), tile_binary(p, TILE_SUB, y, x));
  assert_int_equal(tile_binary(p, TILE_MUL, minus_x, minus_y), tile_binary(p, TILE_MUL, x, y));
  assert_int_equal(tile_unary(p, TILE_NEG, tile_binary(p, TILE_SUB, x, y)),
                   tile_binary(p, TILE_SUB, y, x));
  tile_id four_x = tile_binary(p, TILE_MUL, two, tile_binary(p, TILE_MUL, x, two));
  assert_true(tile_is_number(p, p->values.items[four_x].args[0], 4));
  assert_true(tile_is_number(p, tile_unary(p, TILE_EXP, zero), 1));
  assert_int_equal(tile_select(p, one, x, y), x);
  tile_id c = tile_binary(p, TILE_LESS, x, y);
  tile_id inner = tile_select(p, c, x, zero);
  assert_int_equal(tile_select(p, c, inner, y), tile_select(p, c, x, y));
  // Masks of disjoint sides meet in one.
  assert_int_equal(tile_binary(p, TILE_ADD, inner, tile_select(p, c, zero, y)),
                   tile_select(p, c, x, y));
  arena_free(a);
}

TEST(reductions_and_axes_simplify) {
  arena *a = arena_new();
  tile_program *p = empty(a, TILE_STEP);
  axis_set n = axis_bit(N), g = axis_bit(G);
  tile_id x = input(p, "x", n, true), k = input(p, "k", g, true);
  // The factor that lacks the axis moves out; an axis that nobody has counts by its size.
  tile_id sum = tile_reduce(p, TILE_SUM, tile_binary(p, TILE_MUL, x, k), n);
  assert_int_equal(sum, tile_binary(p, TILE_MUL, k, tile_reduce(p, TILE_SUM, x, n)));
  tile_id four_k = tile_reduce(p, TILE_SUM, k, n);
  assert_true(tile_is_number(p, p->values.items[four_k].args[0], 4));
  assert_int_equal(tile_dot(p, x, k, n), sum);
  tile_id wide = tile_reduce(p, TILE_EXPAND, k, n);
  assert_int_equal(tile_binary(p, TILE_MUL, wide, x), tile_binary(p, TILE_MUL, k, x));
  tile_id wide_exp = tile_unary(p, TILE_EXP, wide);
  assert_int_equal(p->values.items[wide_exp].op, TILE_EXPAND);
  assert_int_equal(tile_reduce(p, TILE_SUM, wide, n), four_k);
  tile_id placed = tile_indexed(p, TILE_PLACE, k, M, 2);
  assert_int_equal(tile_indexed(p, TILE_SLICE, placed, M, 2), k);
  assert_true(tile_is_number(p, tile_indexed(p, TILE_SLICE, placed, M, 1), 0));
  assert_int_equal(tile_reduce(p, TILE_SUM, placed, axis_bit(M)), k);
  // A sum of one entry is that entry; but along a grid axis it says which instance counts it.
  tile_id at_2 = tile_binary(p, TILE_EQUAL, tile_number(p, 2), tile_leaf(p, TILE_INDEX, N));
  tile_id alone = tile_select(p, at_2, x, tile_number(p, 0));
  p->grid = n;
  tile_id counted = tile_reduce(p, TILE_SUM, alone, n);
  assert_int_equal(p->values.items[counted].op, TILE_SUM);
  p->grid = 0;
  assert_int_equal(tile_reduce(p, TILE_SUM, alone, n), tile_indexed(p, TILE_SLICE, x, N, 2));
  tile_id there = tile_indexed(p, TILE_RENAME, x, N, M);
  assert_int_equal(tile_indexed(p, TILE_RENAME, there, M, N), x);
  arena_free(a);
}

static tile_program *sample(arena *a) {
  tile_program *p = empty(a, TILE_CHUNK);
  axis_set n = axis_bit(N), g = axis_bit(G);
  tile_id x = input(p, "x", n | g, true), k = input(p, "k", n, true), h = input(p, "h", g, false);
  int t = p->time_axis, s = p->pair_axis;
  tile_id scores = tile_dot(p, k, tile_indexed(p, TILE_RENAME, k, t, s), n);
  tile_id decay = tile_unary(p, TILE_EXP, tile_indexed(p, TILE_SEGMENT, x, 0, 0));
  tile_id causal = tile_leaf(p, TILE_CAUSAL, 0);
  tile_id masked = tile_select(p, causal, decay, tile_number(p, 0));
  tile_id y = tile_dot(p, tile_binary(p, TILE_MUL, scores, masked),
                       tile_indexed(p, TILE_RENAME, x, t, s), axis_bit(s));
  y = tile_binary(p, TILE_ADD, y, tile_binary(p, TILE_MUL, tile_number(p, 0.1), h));
  tile_id total = tile_reduce(p, TILE_SUM, tile_indexed(p, TILE_PREFIX, x, 3, 0), n);
  y = tile_binary(p, TILE_ADD, y, total);
  tile_add_result(p, output(g | n, true), y);
  tile_find_grid(p);
  return p;
}

static tile_program *parse(arena *a, const char *text, char **message) {
  sources *all = sources_new(a);
  const char *error = NULL;
  const source *file = sources_add(all, "text.tile", text, strlen(text), &error);
  assert_non_null(file);
  diag *messages = diag_new(a, all);
  tile_program *p = tile_parse(a, interner_new(a), messages, file);
  size_t size;
  FILE *out = open_memstream(message, &size);
  diag_print(messages, out);
  fclose(out);
  return p;
}

TEST(text_reads_back) {
  arena *a = arena_new();
  tile_program *p = sample(a);
  assert_null(tile_verify(a, p));
  assert_int_equal(p->grid, axis_bit(G) | axis_bit(M));
  char *text = tile_print(a, p), *message;
  tile_program *again = parse(a, text, &message);
  assert_string_equal(message, "");
  assert_non_null(again);
  assert_null(tile_verify(a, again));
  assert_string_equal(tile_print(a, again), text);
  assert_int_equal(again->grid, p->grid);
  free(message);
  tile_program *commented =
      parse(a, arena_printf(a, "// a note\n\n  %s  // the end", text), &message);
  assert_non_null(commented);
  assert_string_equal(tile_print(a, commented), text);
  free(message);
  arena_free(a);
}

TEST(damaged_text_gets_a_message) {
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"program p step\naxis N 4\n%0 [] = number x\n", "text.tile:3:16: error: expected a number"},
      {"program p step\n%0 [] = neg %0\n", "text.tile:2:13: error: expected a value that stands"},
      {"program p step\naxis N 4\n%0 [] = index N\n", "expected the axes that follow"},
      {"program p step\n%0 [] = causal\n", "expected an operation of a step program"},
      {"program p chunk 4\n", "expected a 'time' and a 'pair' axis"},
      {"program p step\nresult output y[Q] tensor 0 = %0\n", "expected an axis of the program"},
      {"program p step\n%0 [] = number 1\n%1 [] = number 1\n", "expected values that differ"},
      {"", "error: expected program"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    arena *a = arena_new();
    char *message;
    assert_null(parse(a, cases[i].text, &message));
    if (!strstr(message, cases[i].message)) fail_msg("case %zu: %s", i, message);
    free(message);
    arena_free(a);
  }
}

// Every prefix and every damaged byte of a program is refused or read, never a crash.
TEST(damaged_bytes_do_no_harm) {
  arena *a = arena_new();
  char *text = tile_print(a, sample(a));
  size_t size = strlen(text);
  int refused = 0;
  for (size_t i = 0; i < size; i++) {
    arena *inner = arena_new();
    char *damaged = arena_strdup(inner, text), *message;
    if (i % 2)
      damaged[i] = "x%[] 9-\n"[i / 2 % 8];
    else
      damaged[i] = '\0';
    tile_program *p = parse(inner, damaged, &message);
    refused += p == NULL;
    if (p) tile_verify(inner, p);
    free(message);
    arena_free(inner);
  }
  assert_true(refused > 0);
  arena_free(a);
}

TEST(the_verifier_sees_damage) {
  arena *a = arena_new();
  tile_program *p = sample(a);
  for (int i = 0; i < p->values.count; i++) {
    tile_value kept = p->values.items[i];
    p->values.items[i].axes ^= axis_bit(M);
    assert_non_null(tile_verify(a, p));
    p->values.items[i] = kept;
    if (tile_arity(kept.op) > 0) {
      p->values.items[i].args[0] = i;
      assert_non_null(tile_verify(a, p));
      p->values.items[i] = kept;
    }
  }
  assert_null(tile_verify(a, p));
  p->results.items[0].place.axis_count = 0;
  assert_non_null(tile_verify(a, p));
  arena_free(a);
}

TEST(sections_follow_from_operands) {
  arena *a = arena_new();
  tile_program *p = empty(a, TILE_STEP);
  tile_place place = {
      .role = TILE_PARAM, .tensor = 0, .lag = -1, .stash = -1, .axis_count = 1, .axes = {N}};
  tile_id w = tile_argument(p, place);
  tile_id ew = tile_unary(p, TILE_EXP, w);
  tile_id x = input(p, "x", axis_bit(N), true);
  tile_id product = tile_binary(p, TILE_MUL, ew, x);
  tile_id sum = tile_unary(p, TILE_ACCUMULATE, product);
  tile_id d = tile_binary(p, TILE_MUL, sum, ew);
  tile_section *section = tile_sections(a, p);
  assert_int_equal(section[ew], TILE_PROLOGUE);
  assert_int_equal(section[product], TILE_BODY);
  assert_int_equal(section[sum], TILE_EPILOGUE);
  assert_int_equal(section[d], TILE_EPILOGUE);
  assert_null(tile_verify(a, p));
  int64_t sizes[3] = {2, 4, 4};
  assert_true(tile_value_cost(p, product, sizes) == 4);
  tile_binary(p, TILE_ADD, d, x);
  assert_non_null(tile_verify(a, p));
  arena_free(a);
}

TEST(a_part_of_a_program) {
  arena *a = arena_new();
  tile_program *p = empty(a, TILE_STEP);
  tile_id x = input(p, "x", axis_bit(N), true), h = input(p, "h", axis_bit(N), false);
  tile_id y = tile_unary(p, TILE_EXP, x), next = tile_binary(p, TILE_MUL, h, tile_number(p, 0.5));
  tile_add_result(p, output(axis_bit(N), true), y);
  tile_place place = output(axis_bit(N), false);
  place.role = TILE_NEXT_STATE;
  tile_add_result(p, place, next);
  tile_program *states = tile_restrict(a, p, 1u << TILE_NEXT_STATE);
  assert_null(tile_verify(a, states));
  assert_int_equal(states->arguments.count, 1);
  assert_string_equal(states->arguments.items[0].name, "h");
  assert_int_equal(states->values.count, 3);
  assert_int_equal(states->results.count, 1);
  arena_free(a);
}
