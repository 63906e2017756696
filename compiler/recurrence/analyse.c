// The passes of the analysis: from a typed body to its normal form and the structure of its states.
#include "compiler/base/ice.h"
#include "compiler/base/pass.h"
#include "compiler/recurrence/normalise.h"
#include "compiler/recurrence/structure.h"
#include "compiler/recurrence/text.h"

static void normalise_recurrence(arena *a, recurrence *r) { r->body = normalise_body(a, &r->body); }

// States that are changed have another structure.
static void sum_heads(arena *a, recurrence *r) {
  if (sum_heads_last(a, r)) find_structure(a, r);
}

static const struct {
  const char *name;
  void (*run)(arena *, recurrence *);
} passes[] = {
    {"normalise", normalise_recurrence},
    {"dead values", remove_dead_values},
    // Before structure, which reads the entries of shift registers as they are written out here.
    {"shifts", write_out_shifts},
    {"reads", make_reads_plain},
    {"structure", find_structure},
    {"heads", sum_heads},
    {"dead values again", remove_dead_values},
};

enum { PASSES = sizeof passes / sizeof *passes };

static const char *analysis_pass_name(int pass) { return passes[pass].name; }

static const pass_stage stage = {"analysis", PASSES, analysis_pass_name, NULL};

recurrence *recurrence_analyse(arena *a, const typed_body *body) {
  recurrence *r = ARENA_NEW(a, recurrence);
  r->body = *body;
  for (int i = 0; i < PASSES; i++) {
    double start = pass_clock();
    passes[i].run(a, r);
    const char *wrong = verify_body(a, &r->body);
    if (wrong) ICE(passes[i].name, "%s: %s", body->name, wrong);
    pass_ran(&stage, i, pass_clock() - start, 1);
  }
  return r;
}
