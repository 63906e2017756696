// RUNS/report.html: the plots of all blocks that have run, their numbers and the program's text, in
// one file that needs no other. gnuplot draws; without it the page has the tables alone.
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/train/report.h"

static char *read_text(const char *path) {
  FILE *file = path ? fopen(path, "rb") : NULL;
  char *text = NULL, block[4096];
  size_t size = 0;
  if (!file) return NULL;
  FILE *memory = open_memstream(&text, &size);
  for (size_t got; memory && (got = fread(block, 1, sizeof block, file)) > 0;)
    fwrite(block, 1, got, memory);
  if (memory) fclose(memory);
  fclose(file);
  return text;
}

char *report_text(const session *s, const char *name, const char *file) {
  char *path = session_path(s, name, file), *text = read_text(path);
  free(path);
  return text;
}

static void put_escaped(FILE *out, const char *text) {
  for (; *text; text++) {
    if (*text == '<')
      fputs("&lt;", out);
    else if (*text == '&')
      fputs("&amp;", out);
    else
      putc(*text, out);
  }
}

// ---- plots --------------------------------------------------------------------------------------

static const char *const colours[] = {"#c0392b", "#2471a3", "#7d8083", "#239b56", "#8e44ad",
                                      "#d68910", "#17a2b8", "#1b2631", "#e59bb6", "#7e5109"};
enum { COLOUR_COUNT = sizeof colours / sizeof *colours };

typedef struct plot {
  char *script;  // what gnuplot reads; curves are appended
  size_t size;
  FILE *out;
  int curves;
} plot;

static bool plot_open(plot *p, const char *svg, const char *title, const char *x, const char *y,
                      bool log_axis) {
  *p = (plot){0};
  p->out = open_memstream(&p->script, &p->size);
  if (!p->out) return false;
  fprintf(p->out,
          "set terminal svg size 900,480 dynamic font 'sans-serif,13' background '#ffffff'\nset "
          "output '%s'\n",
          svg);
  fprintf(p->out,
          "set title '%s'\nset xlabel '%s'\nset ylabel '%s'\nset grid lc rgb '#dddddd'\nset border "
          "lc rgb '#888888'\n",
          title, x, y);
  fprintf(p->out, "set key top %s noenhanced\nset offsets graph 0, 0, 0.05, 0.05\n%s",
          log_axis ? "left" : "right", log_axis ? "set logscale x 2\n" : "");
  return true;
}

static void plot_curve(plot *p, const char *name, const char *points) {
  fprintf(p->out, "$c%d << END\n%sEND\n", p->curves, points);
  fprintf(p->out, "name%d = '", p->curves);
  for (; *name; name++)
    if (*name == '\'' || (unsigned char)*name < ' ')
      fputs(*name == '\'' ? "''" : " ", p->out);
    else
      putc(*name, p->out);
  fputs("'\n", p->out);
  p->curves++;
}

// Without gnuplot the pipe breaks; that must not end the process.
bool report_draw(const char *script, size_t size) {
  struct sigaction ignore = {.sa_handler = SIG_IGN}, old;
  sigaction(SIGPIPE, &ignore, &old);
  FILE *gnuplot = popen("gnuplot 2>/dev/null", "w");
  bool good = gnuplot != NULL;
  if (gnuplot) {
    fwrite(script, 1, size, gnuplot);
    good = pclose(gnuplot) == 0;
  }
  sigaction(SIGPIPE, &old, NULL);
  return good;
}

// `marks`: lines with points. Draws into the file; false if gnuplot is not there or fails.
static bool plot_close(plot *p, bool marks) {
  for (int i = 0; i < p->curves; i++)
    fprintf(p->out, "%s $c%d using 1:2 with %s lw 2 %s lc rgb '%s' title name%d", i ? "," : "plot",
            i, marks ? "linespoints" : "lines", marks ? "pt 7 ps 0.4" : "",
            colours[i % COLOUR_COUNT], i);
  fprintf(p->out, "\n");
  fclose(p->out);
  bool good = p->curves && report_draw(p->script, p->size);
  free(p->script);
  return good;
}

// The training loss in bits a byte: means over a hundredth of the block each.
static char *loss_points(const char *log, int64_t first_step, int64_t steps) {
  char *points = NULL;
  size_t size;
  FILE *out = open_memstream(&points, &size);
  int64_t every = steps / 100 > 0 ? steps / 100 : 1, count = 0;
  double sum = 0;
  if (!out) return NULL;
  for (const char *line = log; line && *line;
       line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
    const char *bits = strstr(line, "\"bits_per_byte\":");
    if (!bits) break;
    sum += strtod(bits + strlen("\"bits_per_byte\":"), NULL);
    if (++count % every == 0)
      fprintf(out, "%" PRId64 " %.5f\n", first_step + count - every / 2, sum / (double)every),
          sum = 0;
  }
  fclose(out);
  return points;
}

static int64_t first_step_of(const session *s, const train_block *block) {
  int64_t first = 0;
  for (; block->after; first += block->steps) block = train_program_block(s->program, block->after);
  return first;
}

static bool plot_loss(const session *s, const char *svg) {
  plot p;
  if (!plot_open(&p, svg, "training loss", "step", "bits a byte", false)) return false;
  for (int i = 0; i < s->program->block_count; i++) {
    const train_block *b = &s->program->blocks[i];
    char *log = report_text(s, b->name, "log.jsonl"),
         *points = log ? loss_points(log, first_step_of(s, b), b->steps) : NULL;
    if (points && *points) plot_curve(&p, b->name, points);
    free(points);
    free(log);
  }
  return plot_close(&p, false);
}

// from,to,bits: a point in the middle of the range on the logarithmic axis.
static char *position_points(const char *csv) {
  char *points = NULL;
  size_t size;
  FILE *out = open_memstream(&points, &size);
  if (!out) return NULL;
  for (const char *line = strchr(csv, '\n'); line && line[1]; line = strchr(line + 1, '\n')) {
    double from, to, bits;
    if (sscanf(line + 1, "%lf,%lf,%lf", &from, &to, &bits) == 3)
      fprintf(out, "%.3f %.5f\n", (from + to) / 2 + 0.5, bits);
  }
  fclose(out);
  return points;
}

static bool plot_positions(const session *s, const char *svg) {
  plot p;
  int64_t context = 0;
  if (!plot_open(&p, svg, "bits a byte by position", "position", "bits a byte", true)) return false;
  for (int i = 0; i < s->program->evaluate_count; i++) {
    const evaluate_block *e = &s->program->evaluates[i];
    char *csv = report_text(s, e->name, "perplexity.csv"),
         *points = csv ? position_points(csv) : NULL;
    if (points && *points) {
      plot_curve(&p, e->name, points);
      context = train_program_block(s->program, e->after)->context;
    }
    free(points);
    free(csv);
  }
  fprintf(p.out,
          "set arrow 1 from %" PRId64 ", graph 0 to %" PRId64
          ", graph 1 nohead dt 2 lc rgb '#888888'\n",
          context, context);
  fprintf(p.out,
          "set label 1 'context' at %" PRId64 ", graph 0.95 offset 0.5,0 textcolor rgb '#666666'\n",
          context);
  return plot_close(&p, true);
}

// position,layer,mean,deviation,norm,largest,state: the points of one state, and the line behind.
static const char *state_points(const char *line, FILE *out, char name[256]) {
  double position, norm;
  char of[256];
  for (bool first = true; *line; line = strchr(line, '\n') + 1, first = false) {
    if (sscanf(line, "%lf,%*d,%*f,%*f,%lf,%*f,%255[^\n]", &position, &norm, of) != 3) return "";
    if (first) memcpy(name, of, sizeof of);
    if (strcmp(name, of) != 0) break;
    fprintf(out, "%.0f %.6g\n", position, norm);
  }
  return line;
}

static void plot_block_states(plot *p, const char *block, const char *csv) {
  for (const char *line = strchr(csv, '\n') + 1; *line;) {
    char *points = NULL, state[256], name[512];
    size_t size;
    FILE *out = open_memstream(&points, &size);
    if (!out) return;
    line = state_points(line, out, state);
    fclose(out);
    snprintf(name, sizeof name, "%s: %s", block, size ? state : "");
    if (size) plot_curve(p, name, points);
    free(points);
  }
}

static bool plot_states(const session *s, const char *svg) {
  plot p;
  if (!plot_open(&p, svg, "norm of the states by position", "position", "norm", true)) return false;
  for (int i = 0; i < s->program->evaluate_count; i++) {
    const evaluate_block *e = &s->program->evaluates[i];
    char *csv = e->state_until ? report_text(s, e->name, "state_norm.csv") : NULL;
    size_t size = csv ? strlen(csv) : 0;
    if (size && csv[size - 1] == '\n') plot_block_states(&p, e->name, csv);
    free(csv);
  }
  return plot_close(&p, true);
}

static bool plot_remembrance(const session *s, const char *svg) {
  plot p;
  if (!plot_open(&p, svg, "effective remembrance", "t", "distance without the first t tokens",
                 false))
    return false;
  for (int i = 0; i < s->program->evaluate_count; i++) {
    const evaluate_block *e = &s->program->evaluates[i];
    char *csv = e->remembrance ? report_text(s, e->name, "remembrance.csv") : NULL,
         *points = csv ? strchr(csv, '\n') : NULL;
    for (char *at = points; at && *at; at++)
      if (*at == ',') *at = ' ';
    if (points && points[1]) plot_curve(&p, e->name, points + 1);
    free(csv);
  }
  return plot_close(&p, true);
}

// The numbers behind `length` in the second column, or the third.
static bool plot_accuracy(const session *s, const char *svg) {
  plot p;
  if (!plot_open(&p, svg, "accuracy by length", "length", "share", true)) return false;
  fprintf(p.out, "set yrange [-0.02:1.02]\n");
  for (int i = 0; i < s->program->evaluate_count; i++) {
    const evaluate_block *e = &s->program->evaluates[i];
    char *csv = e->length_count ? report_text(s, e->name, "accuracy.csv") : NULL;
    for (int exact = 0; csv && exact < 2; exact++) {
      char *points = NULL, name[300];
      size_t size;
      double length, share[2];
      FILE *out = open_memstream(&points, &size);
      for (const char *line = strchr(csv, '\n'); out && line && line[1];
           line = strchr(line + 1, '\n'))
        if (sscanf(line + 1, "%lf,%lf,%lf", &length, &share[0], &share[1]) == 3)
          fprintf(out, "%.0f %.6f\n", length, share[exact]);
      if (out) fclose(out);
      snprintf(name, sizeof name, "%s: %s", e->name, exact ? "sequences" : "answers");
      if (points && *points) plot_curve(&p, name, points);
      free(points);
    }
    free(csv);
  }
  return plot_close(&p, true);
}

// ---- the page -----------------------------------------------------------------------------------

static void put_svg(FILE *out, const char *path) {
  char *svg = read_text(path);
  const char *start = svg ? strstr(svg, "<svg") : NULL;
  if (start) fprintf(out, "<figure>%s</figure>\n", start);
  free(svg);
}

// The last row of the table of ranges: how far each evaluation found the model to length-generalise.
static void put_verdicts(FILE *out, const session *s, const char *const *of) {
  fprintf(out, "<tr><td>length extension, generalises to</td>");
  for (int i = 0; i < s->program->evaluate_count; i++) {
    long long reaches, until;
    char extension[16];
    if (!of[i]) continue;
    char *csv = report_text(s, s->program->evaluates[i].name, "verdict.csv");
    const char *line = csv ? strchr(csv, '\n') : NULL;
    if (line &&
        sscanf(line + 1, "%*d,%*f,%*f,%lld,%lld,%15[a-z]", &reaches, &until, extension) == 3)
      fprintf(out, "<td>%s, %lld of %lld</td>", extension, reaches, until);
    else
      fprintf(out, "<td></td>");
    free(csv);
  }
  fprintf(out, "</tr>\n");
}

// One table of all evaluations: a row for each range of positions.
static void put_ranges(FILE *out, const session *s) {
  int count = s->program->evaluate_count;
  char **texts = calloc((size_t)count + 1, sizeof *texts);
  const char *lines[64] = {0};
  if (!texts || count > 64) {
    free(texts);
    return;
  }
  fprintf(out, "<table><tr><th>positions</th>");
  for (int i = 0; i < count; i++) {
    texts[i] = report_text(s, s->program->evaluates[i].name, "ranges.csv");
    lines[i] = texts[i] ? strchr(texts[i], '\n') : NULL;
    if (lines[i]) fprintf(out, "<th>%s</th>", s->program->evaluates[i].name);
  }
  fprintf(out, "</tr>\n");
  for (bool more = true; more;) {
    more = false;
    bool first = true;
    for (int i = 0; i < count; i++) {
      long long from, to;
      double bits;
      if (!lines[i] || sscanf(lines[i] + 1, "%lld,%lld,%lf", &from, &to, &bits) != 3) continue;
      if (first) fprintf(out, "<tr><td>%lld .. %lld</td>", from, to);
      fprintf(out, "<td>%.3f</td>", bits);
      first = false, more = true;
      lines[i] = strchr(lines[i] + 1, '\n');
    }
    if (more) fprintf(out, "</tr>\n");
  }
  put_verdicts(out, s, (const char *const *)texts);
  fprintf(out, "</table>\n");
  for (int i = 0; i < count; i++) free(texts[i]);
  free(texts);
}

// A CSV file of a block as a table.
static void put_table(FILE *out, const session *s, const evaluate_block *e, const char *file) {
  char *csv = report_text(s, e->name, file);
  if (!csv) return;
  fprintf(out, "<h3>%s</h3>\n<table>", e->name);
  for (char *line = csv, *end; *line; line = end) {
    end = strchr(line, '\n');
    if (!end) break;
    *end++ = 0;
    fprintf(out, "<tr>");
    for (char *cell = line; cell;) {
      char *comma = strchr(cell, ',');
      if (comma) *comma = 0;
      fprintf(out, line == csv ? "<th>%s</th>" : "<td>%s</td>", cell);
      cell = comma ? comma + 1 : NULL;
    }
    fprintf(out, "</tr>\n");
  }
  fprintf(out, "</table>\n");
  free(csv);
}

static void put_accuracy(FILE *out, const session *s, const char *svg) {
  bool any = false;
  for (int i = 0; i < s->program->evaluate_count; i++)
    any |= s->program->evaluates[i].length_count > 0;
  if (!any) return;
  fputs(
      "<h2>Accuracy</h2>\n<p>The share of answers, and of sequences without a wrong one, by "
      "length; "
      "by the depth of what the answer follows from, where it follows from one place.</p>\n",
      out);
  if (svg) put_svg(out, svg);
  for (int i = 0; i < s->program->evaluate_count; i++) {
    if (!s->program->evaluates[i].length_count) continue;
    put_table(out, s, &s->program->evaluates[i], "accuracy.csv");
    put_table(out, s, &s->program->evaluates[i], "accuracy_depth.csv");
  }
}

static void put_overflow(FILE *out, const session *s) {
  for (int i = 0; i < s->program->evaluate_count; i++) {
    const evaluate_block *e = &s->program->evaluates[i];
    if (!e->overflow) continue;
    fprintf(out,
            "<h2>Growth of the states: %s</h2>\n<p>The largest decay a and input b of each head, "
            "the largest number that was read, a bound for T = %" PRId64
            " and for any T, and the first T at which b (1 - a^T) / (1 - a) passes the largest "
            "number of a type that the bound for any T passes.</p>\n",
            e->name, e->overflow);
    put_table(out, s, e, "overflow.csv");
  }
}

static void put_attention(FILE *out, const session *s) {
  for (int i = 0; i < s->program->evaluate_count; i++) {
    const evaluate_block *e = &s->program->evaluates[i];
    char *svg = e->attention ? session_path(s, e->name, "attention.svg") : NULL;
    if (svg && report_attention(s, e, svg)) {
      fprintf(out, "<h2>Attention maps: %s</h2>\n", e->name);
      fputs(
          "<p>How the output of a recurrence at i follows its input at j, meaned over heads, and "
          "how "
          "its state after i follows that after j.</p>\n",
          out);
      put_svg(out, svg);
    }
    free(svg);
    put_table(out, s, e, "attention_found.csv");
  }
}

static void put_block(FILE *out, const session *s, const train_block *b) {
  fprintf(out,
          "<tr><td>%s%s%s</td><td>%s%s%s</td><td>%" PRId64 "</td><td>%" PRId64 "</td><td>%" PRId64
          "</td><td>%g</td></tr>\n",
          b->name, b->after ? " after " : "", b->after ? b->after : "",
          s->program->models[b->model].text, b->init ? ", init " : "", b->init ? b->init : "",
          b->context, b->batch, b->steps, b->rate);
}

// Files of the plots; NULL: not drawn.
typedef struct plots {
  const char *loss, *positions, *states, *remembrance, *accuracy;
} plots;

static void put_page(FILE *out, const session *s, plots drawn) {
  fputs("<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>rec: ", out);
  put_escaped(out, s->source_path);
  fputs(
      "</title>\n<style>body{font:15px/1.5 sans-serif;max-width:940px;margin:2em auto;padding:0 "
      "1em;color:#222}"
      "figure{margin:1em "
      "0}svg{max-width:100%;height:auto}table{border-collapse:collapse;margin:1em 0}"
      "td,th{padding:.2em .8em;border-bottom:1px solid "
      "#ddd;text-align:right}td:first-child,th:first-child{text-align:left}"
      "pre{background:#f6f6f4;padding:1em;overflow:auto;font-size:13px}</style>\n<h1>",
      out);
  put_escaped(out, s->source_path);
  fputs("</h1>\n", out);
  if (drawn.positions) {
    fputs(
        "<h2>Bits a byte by position</h2>\n<p>Held-out text, the state carried from window to "
        "window; the dashed line is the "
        "context of training.</p>\n",
        out);
    put_svg(out, drawn.positions);
  }
  if (s->program->evaluate_count) put_ranges(out, s);
  if (drawn.states) {
    fputs(
        "<h2>States</h2>\n<p>The norm of a head's state, averaged over the heads of a layer and "
        "over streams of held-out text.</p>\n",
        out);
    put_svg(out, drawn.states);
  }
  if (drawn.remembrance) {
    fputs(
        "<h2>Effective remembrance</h2>\n<p>How far the prediction moves if the first t tokens "
        "were "
        "never read.</p>\n",
        out);
    put_svg(out, drawn.remembrance);
  }
  put_accuracy(out, s, drawn.accuracy);
  put_overflow(out, s);
  put_attention(out, s);
  if (drawn.loss) {
    fputs("<h2>Training</h2>\n", out);
    put_svg(out, drawn.loss);
  }
  fputs(
      "<table><tr><th>block</th><th>model</th><th>context</th><th>batch</th><th>steps</th><th>lr</"
      "th></tr>\n",
      out);
  for (int i = 0; i < s->program->block_count; i++) put_block(out, s, &s->program->blocks[i]);
  fputs("</table>\n<h2>The program</h2>\n<pre>", out);
  put_escaped(out, s->source_text);
  fputs("</pre>\n</html>\n", out);
}

rec_status session_report(const session *s) {
  char *loss = session_path(s, NULL, "loss.svg"),
       *positions = session_path(s, NULL, "positions.svg"),
       *states = session_path(s, NULL, "states.svg"),
       *remembrance = session_path(s, NULL, "remembrance.svg"),
       *accuracy = session_path(s, NULL, "accuracy.svg");
  char *page = session_path(s, NULL, "report.html");
  rec_status status =
      loss && positions && states && remembrance && accuracy && page ? REC_OK : rec_no_memory();
  if (!status) {
    plots drawn = {.loss = plot_loss(s, loss) ? loss : NULL,
                   .positions = plot_positions(s, positions) ? positions : NULL,
                   .states = plot_states(s, states) ? states : NULL,
                   .remembrance = plot_remembrance(s, remembrance) ? remembrance : NULL,
                   .accuracy = plot_accuracy(s, accuracy) ? accuracy : NULL};
    FILE *out = fopen(page, "w");
    if (out) put_page(out, s, drawn);
    if (!out || fclose(out)) status = rec_fail(REC_ERROR_FILE, "%s: %s", page, strerror(errno));
  }
  free(loss);
  free(positions);
  free(states);
  free(remembrance);
  free(accuracy);
  free(page);
  return status;
}
