// Opening libraries: what recc made is described as the program says; everything else is refused
// with one line.
#include <stdio.h>
#include <string.h>

#include "runtime/module.h"
#include "tests/runtime/compiled.h"

static void refused(const char *path, const char *message) {
  rec_module *module;
  check(rec_module_open(path, &module) && !module, "%s was opened", path);
  check(strstr(rec_message(), message) != NULL, "%s: expected \"%s\", found \"%s\"", path, message,
        rec_message());
  check(!strchr(rec_message(), '\n'), "%s: more than one line", path);
}

static void check_refusals(void) {
  refused("/nowhere/a.so", "/nowhere/a.so: no such file");
  refused(REC_SOURCE_DIR "/README.md", "not a library that can be loaded");
  refused(REC_SOURCE_DIR, "expected a regular file");
  refused(REC_BINARY_DIR "/tests/libother_abi.so",
          "expected binary interface 1, found 2.0; compile it again");
  refused(REC_BINARY_DIR "/tests/libbroken_manifest.so",
          "its manifest lacks or misstates `symbol`");
  refused("libm.so.6", "libm.so.6: no such file");  // a name without a slash is a file, too
}

static const char program[] =
    "/// Two of everything.\n"
    "recurrence pair(G, N = 4, E = 2*G) {\n"
    "  input x[N,G], u[E], c[G] : complex\n"
    "  param a[G]\n"
    "  state h[G,N], z[G] : complex\n"
    "  output y[G], w[E]\n"
    "  let m = a * x\n"
    "  h = sigmoid(a) * h[t-1] + x[t-2] + m[t-1]\n"
    "  z = 0.5 * z[t-1] + c\n"
    "  y = sum[N](h) + re(z)\n"
    "  w = u\n"
    "}\n";

static void check_axes(const rec_signature *s, int variable, const char *expected) {
  char text[64] = "";
  for (int i = 0; i < s->variables[variable].axis_count; i++)
    strcat(text, s->axes[s->variables[variable].axes[i]].name);
  check(strcmp(text, expected) == 0, "axes of %s: %s, expected %s", s->variables[variable].name,
        text, expected);
}

static void check_signature(const rec_signature *s, rec_dtype dtype, const char *how) {
  static const struct {
    const char *name;
    rec_kind kind;
    const char *axes;
    bool complex;
    int depth;
  } expected[] = {{"x", REC_INPUT, "NG", false, 0},   {"u", REC_INPUT, "E", false, 0},
                  {"c", REC_INPUT, "G", true, 0},     {"a", REC_PARAM, "G", false, 0},
                  {"h", REC_STATE, "GN", false, 0},   {"z", REC_STATE, "G", true, 0},
                  {"y", REC_OUTPUT, "G", false, 0},   {"w", REC_OUTPUT, "E", false, 0},
                  {"x.lag", REC_LAG, "NG", false, 2}, {"m.lag", REC_LAG, "GN", false, 1}};
  check(strcmp(s->name, "pair") == 0 && s->doc && strstr(s->doc, "Two of everything"),
        "%s: name and doc", how);
  check(s->token_type == dtype && s->carried_type == dtype, "%s: element type", how);
  check(
      s->axis_count == 3 && s->axes[0].size == -1 && s->axes[1].size == 4 && s->axes[2].size == -1,
      "%s: sizes", how);
  check(s->axes[2].expression && strcmp(s->axes[2].expression, "2 * G") == 0, "%s: expression",
        how);
  if (!check(s->variable_count == 10, "%s: %d variables", how, s->variable_count)) return;
  for (int i = 0; i < 10; i++) {
    const rec_variable *v = &s->variables[i];
    check(strcmp(v->name, expected[i].name) == 0 && v->kind == expected[i].kind &&
              v->complex == expected[i].complex && v->depth == expected[i].depth,
          "%s: variable %d is %s", how, i, v->name);
    check_axes(s, i, expected[i].axes);
  }
  int64_t sizes[] = {3, 4, 6};
  check(rec_variable_numbers(s, 2, sizes) == 6 && rec_variable_numbers(s, 8, sizes) == 24,
        "%s: numbers", how);
}

// The signature from the manifest is the one from the source.
static void check_both_ways(void) {
  const char *const options[] = {"--dtype", "f64", NULL};
  rec_module *compiled = compile_text(program, options);
  if (!check(compiled, "the program does not compile")) return;
  const rec_recurrence *r = rec_module_find(compiled, "pair");
  if (check(r, "no recurrence")) check_signature(rec_recurrence_signature(r), REC_F64, "compiled");
  check(!rec_module_find(compiled, "pai") && rec_module_count(compiled) == 1, "other recurrences");
  rec_module *source;
  if (check(!rec_module_open_source(compiled_path(), NULL, 0, REC_F32, NULL, &source), "%s",
            rec_message())) {
    check_signature(rec_recurrence_signature(rec_module_recurrence(source, 0)), REC_F32, "source");
    rec_module_close(source);
  }
  rec_module_close(compiled);
}

int main(void) {
  check_refusals();
  check_both_ways();
  return checked();
}
