// rec plan: what training takes on many ranks, before there are any.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "compiler/abi/output.h"
#include "runtime/command/session.h"
#include "runtime/predict/show.h"
#include "runtime/ranks/ping.h"
#include "runtime/train/model/chain.h"

typedef struct plan_command_request {
  session_options options;
  module_request module;
  const char *block, *ranks, *network, *times, *plot;
  int64_t batch, context, segments, memory, under_way;
  int64_t first, last;  // ranks
  network links;
  bool json, measures, again;  // measures: the network
} plan_command_request;

#define REQUEST plan_command_request
static const option options[] = {
    TEXT("--ranks", "A..B", ranks, "numbers of ranks (default: 1..64); a single number is allowed"),
    TEXT("--network", "FILE|measured", network,
         "latency and bandwidth between ranks, as JSON; or measured between the ranks that mpirun "
         "has started"),
    TEXT("--times", "FILE", times, "times of operations, as JSON (default: measured here)"),
    NUMBER("--segments", "N", segments, 1,
           "segments of the context, in place of those of the program"),
    NUMBER("--batch", "N", batch, 1, "sequences of a batch, in place of those of the program"),
    NUMBER("--context", "N", context, 1, "steps of a sequence, in place of those of the program"),
    NUMBER("--memory", "MIB", memory, 1,
           "memory of one rank, in MiB: what takes more is not chosen"),
    NUMBER("--under-way", "N", under_way, 1,
           "shards that a rank has under way at most, as of rec train (default: 4, or as many as "
           "fit into the memory)"),
    FLAG("--json", json, "print one JSON object, all grids in it"),
    TEXT("--plot", "DIR", plot, "write plan.svg and plan.csv there: the efficiency by ranks"),
    AGAIN(again),
    SESSION_MODULE_OPTIONS,
    OPTIONS_END};

// ---- words --------------------------------------------------------------------------------------

// "8" or "1..4096"
static bool read_range(const char *text, int64_t *first, int64_t *last) {
  char *end;
  *first = *last = strtoll(text, &end, 10);
  if (end == text) return false;
  if (!strncmp(end, "..", 2)) {
    const char *second = end + 2;
    *last = strtoll(second, &end, 10);
    if (end == second) return false;
  }
  return !*end && *first >= 1 && *last >= *first && *last <= INT32_MAX;
}

static int read_words(words *w, plan_command_request *r) {
  if (read_options(w, options, r)) return EXIT_USAGE;
  if (!w->given_count) return usage_error(w, "expected FILE, a compiled library or a .rec file");
  if (w->given_count > 2)
    return usage_error(w, "expected at most one BLOCK, found `%s`", w->given[2]);
  if (!read_range(r->ranks, &r->first, &r->last))
    return usage_error(
        w, "expected a number of ranks or a range as 1..4096 after `--ranks`, found `%s`",
        r->ranks);
  if (!r->network) return usage_error(w, "expected --network FILE or --network measured");
  r->module.file = w->given[0];
  r->block = w->given_count > 1 ? w->given[1] : NULL;
  return 0;
}

// The block with this name, or the first one.
static const train_block *find_block(const plan_command_request *r, const train_program *p) {
  const train_block *found = r->block         ? train_program_block(p, r->block)
                             : p->block_count ? p->blocks
                                              : NULL;
  if (found) return found;
  fprintf(stderr, "rec plan: expected a train block in %s", r->module.file);
  if (r->block) fprintf(stderr, " named `%s`", r->block);
  fprintf(stderr, ", found %s", p->block_count ? "" : "none");
  for (int i = 0; i < p->block_count; i++)
    fprintf(stderr, "%s%s", i ? ", " : "", p->blocks[i].name);
  fprintf(stderr, "\n");
  return NULL;
}

// ---- the program --------------------------------------------------------------------------------

// The block with the sizes that were asked for.
static rec_status resize(const plan_command_request *r, train_block *b) {
  if (r->batch) b->batch = r->batch;
  if (r->context) b->context = r->context;
  if (r->segments) b->segments = r->segments;
  if (b->batch < b->accumulate)
    return rec_fail(
        REC_ERROR_ARGUMENT,
        "train %s: expected a batch of at least %lld, the parts of `accumulate`, found %lld",
        b->name, (long long)b->accumulate, (long long)b->batch);
  if (b->segments == 1 ||
      (b->context % b->segments == 0 && b->context / b->segments % SEGMENT_STEPS == 0))
    return REC_OK;
  return rec_fail(REC_ERROR_ARGUMENT,
                  "train %s: expected segments of a multiple of %d steps each, found %lld segments "
                  "of a context of %lld steps",
                  b->name, SEGMENT_STEPS, (long long)b->segments, (long long)b->context);
}

static rec_status make_plot_folder(const plan_command_request *r) {
  bool missing = r->plot && mkdir(r->plot, 0777) && errno != EEXIST;
  return missing ? rec_file_failed(r->plot) : REC_OK;
}

// The folder of the pictures is made once all files are read, before anything is measured. A rank
// goes through its segments layer by layer: activations leave the cache between two operations.
static rec_status find_times(const plan_command_request *r, const predicted_program *p,
                             op_times *times) {
  enum { MOST_SEGMENTS = 4 };
  const leaves *l = &p->leaves;
  int64_t sequences = (p->block->batch + l->shards - 1) / l->shards;
  int segments = l->segments < MOST_SEGMENTS ? l->segments : MOST_SEGMENTS;
  rec_status status = r->times ? op_times_read(r->times, p->of.model, times) : REC_OK;
  if (!status) status = make_plot_folder(r);
  if (status || r->times) return status;
  return op_times_measure(&p->of, p->block, sequences, p->block->context / l->segments, segments,
                          times);
}

static rec_status show_predictions(const plan_command_request *r, const shown_predictions *s) {
  bool drawn;
  rec_status status = REC_OK;
  if (r->json)
    status = predictions_print_json(stdout, s);
  else
    predictions_print(stdout, s);
  return !status && r->plot ? predictions_draw(s, r->plot, &drawn) : status;
}

static rec_status plan_block(session *s, const plan_command_request *r, const train_block *given) {
  train_block block = *given;
  op_times times = {0};
  rec_blocks memory = {0};
  predictions found = {0};
  rec_status status = resize(r, &block);
  if (status) return status;
  const leaf_sizes sizes = {block.batch, block.accumulate, block.context, block.segments,
                            compute_is_host(s->where)};
  const trained_model of = session_model(s, given);
  predicted_program program = {
      .of = of, .block = &block, .leaves = leaves_of(&sizes), .times = &times};
  int64_t *instances = chain_instances(&of, block.context / block.segments);
  prediction_request request = {&program, &r->links,       r->first,
                                r->last,  r->memory << 20, r->under_way};
  program.instances = instances;
  piece_list_make(&memory, program.of.model, &block, compute_is_host(s->where), &program.pieces);
  status = memory.failed || !instances ? rec_no_memory() : find_times(r, &program, &times);
  if (!status) status = predict(&request, &found);
  if (!status)
    status = show_predictions(r, &(shown_predictions){&program, &request, &found, r->times,
                                                      r->measures ? NULL : r->network});
  predictions_free(&found);
  op_times_free(&times);
  rec_blocks_free(&memory);
  free(instances);
  return status;
}

static int run_session(session *s, void *request) {
  const plan_command_request *r = request;
  const train_block *block = find_block(r, s->program);
  if (!block) return EXIT_USAGE;
  return plan_block(s, r, block) ? report_failure("plan") : 0;
}

static rec_status check_plan_outputs(const plan_command_request *r) {
  output_note_input_path(r->times);
  return r->plot ? predictions_may_draw(r->plot, r->again) : REC_OK;
}

// *speaks: this process is to go on; the other ranks of a job have done their part.
static rec_status find_network(plan_command_request *r, bool *speaks) {
  ranks *job;
  *speaks = true;
  if (!r->measures) return network_read(r->network, &r->links);
  rec_status status = ranks_open(&(ranks_settings){0}, &job);
  if (!status) status = network_measure(job, &r->links);
  *speaks = ranks_number(job) == 0;
  ranks_close(job);
  return status;
}

static int run_plan(words *w) {
  plan_command_request r = {.module = module_request_of(w), .ranks = "1..64"};
  bool speaks;
  int status = read_words(w, &r);
  if (status) return status;
  // so that chains are predicted
  if (is_source(r.module.file)) r.module.recc_words[r.module.recc_word_count++] = "--summary";
  r.measures = !strcmp(r.network, "measured");
  rec_status found = find_network(&r, &speaks);
  if (!speaks) return 0;
  if (!found) found = check_plan_outputs(&r);
  return found ? report_failure("plan") : with_session(&r.module, &r.options, run_session, &r);
}

const subcommand plan_command = {
    .name = "plan",
    .purpose = "predicts what training takes on many ranks",
    .synopsis = "FILE [BLOCK]",
    .text =
        "Predicts a step of a train block on each number of ranks and each grid of them, data "
        "ranks x time ranks: time,\n"
        "efficiency, memory, and what is lost to what. Nothing is trained.\n",
    .options = options,
    .run = run_plan};
