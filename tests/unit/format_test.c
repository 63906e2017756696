// The formatter: what it writes, that it is idempotent, and that no comment is lost.
#include "compiler/syntax/syntax.h"
#include "tests/unit/unit.h"

static char *format(arena *a, const char *text) {
  sources *all = sources_new(a);
  diag *d = diag_new(a, all);
  const char *error = NULL;
  const source *s = sources_add(all, "x.rec", text, strlen(text), &error);
  assert_non_null(s);
  char *result = format_source(a, interner_new(a), d, s);
  diag_print(d, stderr);
  return result;
}

static void assert_formats(const char *text, const char *expected) {
  arena *a = arena_new();
  char *result = format(a, text);
  assert_non_null(result);
  assert_string_equal(result, expected);
  assert_string_equal(format(a, result), expected);
  arena_free(a);
}

TEST(statements_start_lines) {
  assert_formats(
      "recurrence r(D){input x[D],g [ D ] state h[D] param w[D]~1,b ~ - 2 output y[D]\n"
      "h=g*h[t-1]+x let a=-h^-2 let bb = 1/16 y=a}",
      "recurrence r(D) {\n"
      "  input  x[D], g[D]\n"
      "  state  h[D]\n"
      "  param  w[D] ~ 1, b ~ -2\n"
      "  output y[D]\n"
      "  h = g*h[t-1]+x\n"
      "  let a  = -h^-2\n"
      "  let bb = 1/16\n"
      "  y = a\n"
      "}\n");
}

TEST(every_comment_stays) {
  assert_formats(
      "// head\n\n\n/// doc\nrecurrence r(D, // the width\n N) { // body\n"
      "// first\n  input x[D] // in\n\n\n\n let a = x // one\n   + // two\n // three\n 1 // four\n"
      "h = a\n// last\n} // end\n// tail",
      "// head\n"
      "\n"
      "/// doc\n"
      "recurrence r(D,  // the width\n"
      "    N) {  // body\n"
      "  // first\n"
      "  input x[D]  // in\n"
      "\n"
      "  let a = x  // one\n"
      "      +  // two\n"
      "      // three\n"
      "      1  // four\n"
      "  h = a\n"
      "  // last\n"
      "}  // end\n"
      "// tail\n");
}

TEST(layers_and_blocks) {
  assert_formats(
      "layer L(D){input u[D] let(a[D],b)=linear(u,name=\"in\") let c=repeat 3(x=a){\nlet q=x "
      "x=q{D->D}} output v[D]=repeat (2*D) (x = c) { x+f(x[D=0]) }}",
      "layer L(D) {\n"
      "  input u[D]\n"
      "  let (a[D], b) = linear(u, name = \"in\")\n"
      "  let c = repeat 3 (x = a) {\n"
      "    let q = x\n"
      "    x = q{D -> D}\n"
      "  }\n"
      "  output v[D] = repeat (2*D) (x = c) { x+f(x[D = 0]) }\n"
      "}\n");
}

TEST(settings_keep_their_lines) {
  assert_formats(
      "train a{steps 10 seed -1\noptimizer adamw(lr=1e-3,betas=(0.9,0.95))\n"
      "initial_state{\n0..20:zero 20..100 : mix{0.9:state_passing(dropout=0.1),0.1:zero},\n"
      "layers(0..3):zero}}evaluate e after a{p(until=3) q}",
      "train a {\n"
      "  steps     10   seed -1\n"
      "  optimizer adamw(lr = 1e-3, betas = (0.9, 0.95))\n"
      "  initial_state {\n"
      "    0..20       : zero\n"
      "    20..100     : mix { 0.9: state_passing(dropout = 0.1), 0.1: zero },\n"
      "    layers(0..3): zero\n"
      "  }\n"
      "}\n"
      "\n"
      "evaluate e after a {\n"
      "  p(until = 3)\n"
      "  q\n"
      "}\n");
}

TEST(imports_and_functions_stand_together) {
  assert_formats(
      "import std.mamba2\nimport \"a.rec\"\nfn f[K](x)=x/norm[K](x)\nfn g(x,y)=x\n init m(c=8)for "
      "L{a.b~ -c*x\nlonger~1}",
      "import std.mamba2\n"
      "import \"a.rec\"\n"
      "fn f[K](x) = x/norm[K](x)\n"
      "fn g(x, y) = x\n"
      "\n"
      "init m(c = 8) for L {\n"
      "  a.b    ~ -c*x\n"
      "  longer ~ 1\n"
      "}\n");
}

TEST(a_file_with_errors_is_left_alone) {
  arena *a = arena_new();
  assert_null(format(a, "recurrence r(D) { input x[D }"));
  arena_free(a);
}
