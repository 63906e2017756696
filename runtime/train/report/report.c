// RUNS/report.html: the plots of all blocks that have run, their numbers and the program's text, in
// one file that needs no other. gnuplot draws; without it the page has the tables alone.
#include "runtime/train/report/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/escape.h"
#include "runtime/train/model/optimizer.h"
#include "runtime/train/report/page.h"

// ---- pictures -----------------------------------------------------------------------------------

static int64_t block_first_step(const report_source *s, const train_block *block) {
  int64_t first = 0;
  for (; block->after; first += block->steps) block = train_program_block(s->program, block->after);
  return first;
}

static bool is_asked(const evaluate_block *e, int number) {
  return number == PICTURE_POSITIONS     ? e->until > 0
         : number == PICTURE_STATES      ? e->state_until > 0
         : number == PICTURE_REMEMBRANCE ? e->remembrance > 0
                                         : e->length_count > 0;
}

static void put_report_curve(const report_source *s, plot *p, int number, const char *block,
                             int64_t first) {
  char *text = report_read(s->runs, block, pictures[number].file);
  p->first_step = first;
  if (text) pictures[number].put(p, block, text);
  free(text);
}

// The context of the last curve's block.
static void put_context(const report_source *s, plot *p) {
  int64_t context = 0;
  for (int i = 0; i < s->program->evaluate_count; i++) {
    const evaluate_block *e = &s->program->evaluates[i];
    if (e->until) context = train_program_block(s->program, e->after)->context;
  }
  if (!context) return;
  fprintf(p->script.out,
          "set arrow 1 from %" PRId64 ", graph 0 to %" PRId64
          ", graph 1 nohead dt 2 lc rgb '#888888'\n",
          context, context);
  fprintf(p->script.out,
          "set label 1 'context' at %" PRId64 ", graph 0.95 offset 0.5,0 textcolor rgb '#666666'\n",
          context);
}

static rec_status draw_picture(const report_source *s, int number, bool *drawn) {
  plot p;
  if (plot_open(&p)) {
    for (int i = 0; number == PICTURE_LOSS && i < s->program->block_count; i++) {
      const train_block *b = &s->program->blocks[i];
      put_report_curve(s, &p, number, b->name, block_first_step(s, b));
    }
    for (int i = 0; number != PICTURE_LOSS && i < s->program->evaluate_count; i++)
      if (is_asked(&s->program->evaluates[i], number))
        put_report_curve(s, &p, number, s->program->evaluates[i].name, 0);
    if (number == PICTURE_POSITIONS) put_context(s, &p);
  }
  return plot_close(&p, &pictures[number], s->runs, drawn);
}

// ---- the page -----------------------------------------------------------------------------------

// One table of all evaluations.
static void put_ranges(FILE *out, const report_source *s) {
  int count = s->program->evaluate_count;
  const char **names = calloc((size_t)count + 1, sizeof *names);
  for (int i = 0; names && i < count; i++) names[i] = s->program->evaluates[i].name;
  if (names) page_ranges(out, s->runs, names, count);
  free(names);
}

// A CSV file of a block as a table.
static void put_table(FILE *out, const report_source *s, const evaluate_block *e,
                      const char *file) {
  char *csv = report_read(s->runs, e->name, file);
  if (!csv) return;
  fputs("<h3>", out);
  put_html(out, e->name);
  fputs("</h3>\n<table>", out);
  for (char *line = csv, *end; *line; line = end) {
    end = strchr(line, '\n');
    if (!end) break;
    *end++ = 0;
    fprintf(out, "<tr>");
    for (char *cell = line; cell;) {
      char *comma = strchr(cell, ',');
      if (comma) *comma = 0;
      fputs(line == csv ? "<th>" : "<td>", out);
      put_html(out, cell);
      fputs(line == csv ? "</th>" : "</td>", out);
      cell = comma ? comma + 1 : NULL;
    }
    fprintf(out, "</tr>\n");
  }
  fprintf(out, "</table>\n");
  free(csv);
}

static void put_accuracy(FILE *out, const report_source *s) {
  for (int i = 0; i < s->program->evaluate_count; i++) {
    if (!s->program->evaluates[i].length_count) continue;
    put_table(out, s, &s->program->evaluates[i], "accuracy.csv");
    put_table(out, s, &s->program->evaluates[i], "accuracy_depth.csv");
  }
}

static void put_overflow(FILE *out, const report_source *s) {
  for (int i = 0; i < s->program->evaluate_count; i++) {
    const evaluate_block *e = &s->program->evaluates[i];
    if (!e->overflow) continue;
    fputs("<h2>Growth of the states: ", out);
    put_html(out, e->name);
    fprintf(out,
            "</h2>\n<p>The largest decay a and input b of each head, the largest number that was "
            "read, a bound for T = %" PRId64
            " and for any T, and the first T at which b (1 - a^T) / (1 - a) passes the largest "
            "number of a type that the bound for any T passes.</p>\n",
            e->overflow);
    put_table(out, s, e, "overflow.csv");
  }
}

static void put_attention(FILE *out, const report_source *s) {
  for (int i = 0; i < s->program->evaluate_count; i++) {
    const evaluate_block *e = &s->program->evaluates[i];
    char *csv = e->attention ? report_read(s->runs, e->name, "attention.csv") : NULL;
    file_path folder = rec_path("%s/%s", s->runs, e->name);
    if (csv && report_attention(e, csv, folder.text)) {
      fputs("<h2>Attention maps: ", out);
      put_html(out, e->name);
      fputs(
          "</h2>\n<p>How the output of a recurrence at i follows its input at j, meaned over "
          "heads, and how its state after i follows that after j.</p>\n",
          out);
      page_svg(out, folder.text, "attention");
    }
    free(csv);
    put_table(out, s, e, "attention_found.csv");
  }
}

static void put_block(FILE *out, const report_source *s, const train_block *b) {
  char stepped_by[OPTIMIZER_TEXT];
  fputs("<tr><td>", out);
  put_html(out, b->name);
  if (b->after) fputs(" after ", out), put_html(out, b->after);
  fputs("</td><td>", out);
  put_html(out, s->program->models[b->model].text);
  if (b->init) fputs(", init ", out), put_html(out, b->init);
  fprintf(out,
          "</td><td>%" PRId64 "</td><td>%" PRId64 "</td><td>%" PRId64
          "</td><td>%g</td><td>%s</td></tr>\n",
          b->context, b->batch, b->steps, b->rate,
          optimizer_text(&s->program->models[b->model], b, stepped_by));
}

static void put_picture(FILE *out, const report_source *s, int number, const bool drawn[PICTURES]) {
  if (drawn[number]) page_picture(out, &pictures[number], s->runs);
}

static void put_page(FILE *out, const report_source *s, const bool drawn[PICTURES]) {
  page_open(out, s->path);
  put_picture(out, s, PICTURE_POSITIONS, drawn);
  put_ranges(out, s);
  put_picture(out, s, PICTURE_STATES, drawn);
  put_picture(out, s, PICTURE_REMEMBRANCE, drawn);
  put_picture(out, s, PICTURE_ACCURACY, drawn);
  put_accuracy(out, s);
  put_overflow(out, s);
  put_attention(out, s);
  put_picture(out, s, PICTURE_LOSS, drawn);
  fputs(
      "<table><tr><th>block</th><th>model</th><th>context</th><th>batch</th><th>steps</th><th>lr</"
      "th><th>optimizer</th></tr>\n",
      out);
  for (int i = 0; i < s->program->block_count; i++) put_block(out, s, &s->program->blocks[i]);
  fputs("</table>\n<h2>The program</h2>\n<pre>", out);
  put_html(out, s->text);
  fputs("</pre>\n", out);
}

rec_status report_write(const report_source *s) {
  bool drawn[PICTURES];
  made_text page;
  rec_status status = text_open(&page) ? REC_OK : rec_no_memory();
  for (int i = 0; !status && i < PICTURES; i++) status = draw_picture(s, i, &drawn[i]);
  if (!status) put_page(page.out, s, drawn);
  return page_save(&page, status, s->runs);
}
