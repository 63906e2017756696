#include "runtime/predict/show.h"

#include <inttypes.h>

#include "runtime/train/report/plot.h"

static const double MS = 1e-3, MIB = 1 << 20, PERCENT = 100;
static const double LEAST_LOSS = 0.01;  // of a step, that is worth a word

// ---- the table ----------------------------------------------------------------------------------

static void print_link(FILE *out, const network_link *link) {
  fprintf(out, "%g us, %g Gbit/s", link->latency * 1e6, link->bandwidth * 8e-9);
}

static void print_network(FILE *out, const shown_predictions *s) {
  const network *n = s->request->network;
  fprintf(out, "network, %s%s: ", s->network_from ? "of " : "measured",
          s->network_from ? s->network_from : "");
  if (n->node > 1) {
    fprintf(out, "%" PRId64 " ranks a node with ", n->node);
    print_link(out, &n->within);
    fprintf(out, ", between nodes ");
  }
  print_link(out, &n->between);
  fputc('\n', out);
}

static void print_prediction_head(FILE *out, const shown_predictions *s) {
  const predicted_program *p = s->program;
  const train_block *b = p->block;
  fprintf(out,
          "train %s: %s, %" PRId64 " weights; %" PRId64 " x %" PRId64
          " tokens a step, cut into %d shard%s x %d segment%s\n",
          b->name, p->of.model->text, p->of.model->weight_count, b->batch, b->context,
          p->leaves.shards, p->leaves.shards == 1 ? "" : "s", p->leaves.segments,
          p->leaves.segments == 1 ? "" : "s");
  fprintf(out, "operations, %s%s: %" PRId64 " tokens, one thread a rank\n",
          s->times_from ? "of " : "measured here", s->times_from ? s->times_from : "",
          p->times->tokens);
  print_network(out, s);
}

static const char *exchange_of(const prediction *p) {
  return p->grid.time > 1 ? exchange_names[p->grid.exchange] : "-";
}

// The two causes that cost most, in percent of the step.
static void print_losses(FILE *out, const prediction *p) {
  enum { SHOWN = 2 };
  double before = 0;
  int shown = 0;
  for (; shown < SHOWN; shown++) {
    int most = -1;
    for (int i = 0; i < LOSSES; i++)
      if ((most < 0 || p->losses[i] > p->losses[most]) && (!shown || p->losses[i] < before))
        most = i;
    if (most < 0 || p->losses[most] < LEAST_LOSS * p->seconds) break;
    before = p->losses[most];
    fprintf(out, "%s%s %.0f %%", shown ? ", " : "", predicted_loss_names[most],
            before / p->seconds * PERCENT);
  }
  fprintf(out, "%s\n", p->fits ? shown ? "" : "-" : shown ? "; memory" : "memory");
}

static void print_prediction(FILE *out, const prediction *p) {
  char grid[48];
  snprintf(grid, sizeof grid, "%" PRId64 " x %" PRId64, p->grid.data, p->grid.time);
  fprintf(out, "%7" PRId64 " %12s  %-8s %12.3f %10.1f %% %11.1f  ", p->ranks, grid, exchange_of(p),
          p->seconds / MS, p->efficiency * PERCENT,
          (double)predicted_memory_bytes(&p->memory) / MIB);
  print_losses(out, p);
}

// The best of each number of ranks; one that does not fit where none does.
static void print_rows(FILE *out, const shown_predictions *s) {
  const predictions *all = s->found;
  fprintf(out, "\n  ranks  data x time  exchange      step ms   efficiency  MiB a rank  lost to\n");
  for (int64_t i = 0; i < all->count; i++) {
    if (i && all->list[i].ranks == all->list[i - 1].ranks) continue;
    const prediction *best = predictions_best(all, all->list[i].ranks);
    print_prediction(out, best ? best : &all->list[i]);
  }
}

// ---- conclusions --------------------------------------------------------------------------------

static void print_grid(FILE *out, const prediction *p) {
  fprintf(out, "%" PRId64 " x %" PRId64 " ranks%s%s, %.3f ms a step, %.1f %% efficient",
          p->grid.data, p->grid.time, p->grid.time > 1 ? " by " : "",
          p->grid.time > 1 ? exchange_names[p->grid.exchange] : "", p->seconds / MS,
          p->efficiency * PERCENT);
  if (p->fewer) fprintf(out, " with --under-way %" PRId64, p->grid.under_way);
}

static const char *advice_of(predicted_loss loss) {
  static const char *const advice[LOSSES] = {
      [LOSS_LEAVES] =
          "some ranks have more shards than others: a batch of a power of two shares out evenly",
      [LOSS_EXTRA] = "sums and summaries are computed that one rank alone would not need",
      [LOSS_BUBBLE] =
          "ranks wait for the states of the segments before theirs: fewer time ranks lose less",
      [LOSS_LATENCY] =
          "messages take longer to begin than to pass: fewer ranks, or more tokens a rank",
      [LOSS_BANDWIDTH] =
          "gradients and weights take long to pass: fewer ranks, or more tokens a rank"};
  return advice[loss];
}

static void print_advice(FILE *out, const prediction *p) {
  predicted_loss bound = prediction_bound(p);
  if (p->losses[bound] >= LEAST_LOSS * p->seconds) fprintf(out, "; %s", advice_of(bound));
}

static void print_limit(FILE *out, const shown_predictions *s) {
  const leaves *l = &s->program->leaves;
  int64_t data = 1;
  while (2 * data <= l->shards) data *= 2;
  if (data * l->segments >= s->request->last) return;
  fprintf(out,
          "no more than %" PRId64
          " ranks: the program has %d shard%s, which decide how many data ranks there can be, and "
          "%d segment%s, how many time ranks\n",
          data * l->segments, l->shards, l->shards == 1 ? "" : "s", l->segments,
          l->segments == 1 ? "" : "s");
}

// Which exchange is better, where both are known.
static void print_other(FILE *out, const shown_predictions *s, const prediction *best) {
  const prediction *other = predictions_best_other(s->found);
  const char *asked = exchange_names[s->found->asked];
  if (!other) return;
  const char *name = exchange_names[other->grid.exchange];
  if (other->seconds >= best->seconds) {
    fprintf(out, "a %s is better than a %s for the states of segments\n", asked, name);
    return;
  }
  fprintf(out,
          "a %s would be better for the states of segments; to have it, write `exchange %s` in "
          "train %s: ",
          name, name, s->program->block->name);
  print_grid(out, other);
  fputc('\n', out);
}

static void print_conclusions(FILE *out, const shown_predictions *s) {
  static const double GOOD = 0.8;
  const prediction *best = predictions_best(s->found, 0),
                   *good = predictions_best_efficient(s->found, GOOD);
  fputc('\n', out);
  if (!best) {
    fprintf(out, "none fits into %.1f MiB a rank\n", (double)s->request->memory / MIB);
    return;
  }
  fprintf(out, "fastest: ");
  print_grid(out, best);
  print_advice(out, best);
  if (good && good != best) {
    fprintf(out, "\nat %.0f %% and more: ", GOOD * PERCENT);
    print_grid(out, good);
  }
  fputc('\n', out);
  print_other(out, s, best);
  print_limit(out, s);
}

void predictions_print(FILE *out, const shown_predictions *s) {
  print_prediction_head(out, s);
  print_rows(out, s);
  print_conclusions(out, s);
}

// ---- JSON ---------------------------------------------------------------------------------------

static void describe_program(const predicted_program *p, cJSON *object) {
  cJSON_AddStringToObject(object, "block", p->block->name);
  cJSON_AddNumberToObject(object, "weights", (double)p->of.model->weight_count);
  cJSON_AddNumberToObject(object, "batch", (double)p->block->batch);
  cJSON_AddNumberToObject(object, "context", (double)p->block->context);
  cJSON_AddNumberToObject(object, "shards", p->leaves.shards);
  cJSON_AddNumberToObject(object, "segments", p->leaves.segments);
}

static void describe_memory(const predicted_memory *m, cJSON *object) {
  cJSON_AddNumberToObject(object, "weights", (double)m->weights);
  cJSON_AddNumberToObject(object, "gradients", (double)m->gradients);
  cJSON_AddNumberToObject(object, "moments", (double)m->moments);
  cJSON_AddNumberToObject(object, "activations", (double)m->activations);
  cJSON_AddNumberToObject(object, "states", (double)m->states);
}

static void describe_messages(const message_count *sent, cJSON *object) {
  for (int k = 0; k < MESSAGE_KINDS; k++) {
    if (!sent[k].messages) continue;
    cJSON *of = cJSON_AddObjectToObject(object, message_kind_name((message_kind)k));
    cJSON_AddNumberToObject(of, "messages", (double)sent[k].messages);
    cJSON_AddNumberToObject(of, "bytes", (double)sent[k].bytes);
  }
}

static void describe_prediction(const prediction *p, cJSON *object) {
  cJSON_AddNumberToObject(object, "ranks", (double)p->ranks);
  cJSON_AddNumberToObject(object, "data", (double)p->grid.data);
  cJSON_AddNumberToObject(object, "time", (double)p->grid.time);
  if (p->grid.time > 1 || p->grid.exchange == EXCHANGE_CHAIN)
    cJSON_AddStringToObject(object, "exchange", exchange_names[p->grid.exchange]);
  if (p->grid.time > 1) cJSON_AddNumberToObject(object, "under_way", (double)p->grid.under_way);
  cJSON_AddNumberToObject(object, "step_us", p->seconds * 1e6);
  cJSON_AddNumberToObject(object, "efficiency", p->efficiency);
  cJSON *lost = cJSON_AddObjectToObject(object, "lost_us");
  for (int i = 0; i < LOSSES; i++)
    cJSON_AddNumberToObject(lost, predicted_loss_names[i], p->losses[i] * 1e6);
  describe_memory(&p->memory, cJSON_AddObjectToObject(object, "memory_bytes"));
  describe_messages(p->sent, cJSON_AddObjectToObject(object, "sent"));
  cJSON_AddBoolToObject(object, "fits", p->fits);
}

rec_status predictions_print_json(FILE *out, const shown_predictions *s) {
  cJSON *json = cJSON_CreateObject();
  describe_program(s->program, cJSON_AddObjectToObject(json, "program"));
  op_times_describe(s->program->times, &s->program->of, cJSON_AddObjectToObject(json, "times"));
  network_describe(s->request->network, cJSON_AddObjectToObject(json, "network"));
  cJSON *list = cJSON_AddArrayToObject(json, "predictions");
  for (int64_t i = 0; i < s->found->count; i++) {
    cJSON *item = cJSON_CreateObject();
    cJSON_AddItemToArray(list, item);
    describe_prediction(&s->found->list[i], item);
  }
  char *text = cJSON_Print(json);
  if (text) fprintf(out, "%s\n", text);
  cJSON_free(text);
  cJSON_Delete(json);
  return text ? REC_OK : rec_no_memory();
}

// ---- the picture --------------------------------------------------------------------------------

typedef bool chosen(const predictions *all, const prediction *p);

static bool is_best(const predictions *all, const prediction *p) {
  return predictions_best(all, p->ranks) == p;
}
static bool is_data(const predictions *all, const prediction *p) {
  return p->grid.time == 1 && p->grid.exchange == all->asked;
}
static bool is_pipeline(const predictions *all, const prediction *p) {
  return (void)all, p->grid.data == 1 && p->grid.exchange == EXCHANGE_PIPELINE;
}
static bool is_chain(const predictions *all, const prediction *p) {
  return (void)all, p->grid.data == 1 && p->grid.exchange == EXCHANGE_CHAIN;
}

static void put_prediction_curve(plot *p, const char *name, const predictions *all, chosen *which) {
  made_text points;
  if (!text_open(&points)) return;
  for (int64_t i = 0; i < all->count; i++)
    if (which(all, &all->list[i]))
      fprintf(points.out, "%" PRId64 " %.4f\n", all->list[i].ranks,
              all->list[i].efficiency * PERCENT);
  plot_curve(p, name, &points);
}

static const picture efficiency = {.name = "plan",
                                   .title = "predicted efficiency by ranks",
                                   .x = "ranks",
                                   .y = "percent",
                                   .log_axis = true,
                                   .marks = true};

rec_status predictions_may_draw(const char *folder, bool again) {
  return plot_allowed(&efficiency, folder, again);
}

rec_status predictions_draw(const shown_predictions *s, const char *folder, bool *drawn) {
  plot p;
  if (!plot_open(&p)) return rec_no_memory();
  put_prediction_curve(&p, "best grid", s->found, is_best);
  put_prediction_curve(&p, "data ranks alone", s->found, is_data);
  put_prediction_curve(&p, "time ranks alone, pipeline", s->found, is_pipeline);
  put_prediction_curve(&p, "time ranks alone, chain", s->found, is_chain);
  return plot_close(&p, &efficiency, folder, drawn);
}
