// Pictures of curves.
//
//   log.jsonl   {"step":0,..,"bits_per_byte":7.99,..}     a curve of 100 points   ->   loss.csv   curve,step,bits_a_byte
//   ranges, state_norm, remembrance, accuracy .csv        their columns                           base,20,6.41250
#include "runtime/train/report/plot.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/escape.h"

static const char *const colours[] = {"#c0392b", "#2471a3", "#7d8083", "#239b56", "#8e44ad",
                                      "#d68910", "#17a2b8", "#1b2631", "#e59bb6", "#7e5109"};
enum { COLOUR_COUNT = sizeof colours / sizeof *colours };

// ---- files --------------------------------------------------------------------------------------

char *report_read(const char *folder, const char *name, const char *file) {
  file_path path = rec_path("%s%s%s/%s", folder, *folder ? "/" : "", name, file);
  char *text = NULL;
  return !access(path.text, R_OK) && !whole_file_read(path.text, &text) ? text : NULL;
}

// ---- units --------------------------------------------------------------------------------------

static const char bits_per[] = "bits_per_";

void bits_unit_of(bits_unit *unit, const char *text) {
  const char *at = strstr(text, bits_per);
  char word[sizeof unit->word];
  if (!at || sscanf(at + sizeof bits_per - 1, "%15[a-z]", word) != 1) return;
  if (*unit->word && strcmp(unit->word, word) != 0) unit->mixed = true;
  memcpy(unit->word, word, sizeof word);
}

const char *bits_unit_text(const bits_unit *unit, char to[BITS_TEXT]) {
  bool known = *unit->word && !unit->mixed;
  snprintf(to, BITS_TEXT, "bits%s%s", known ? " a " : "", known ? unit->word : "");
  return to;
}

// ---- plots --------------------------------------------------------------------------------------

// A name of a column: a word.
static void put_column(FILE *csv, const char *name) {
  for (; *name; name++) putc(*name == ' ' ? '_' : *name, csv);
}

// y: what the bits are of, or what the picture says itself.
static void put_columns(FILE *csv, const picture *of, const char *y) {
  fputs("curve,", csv);
  put_column(csv, of->x);
  putc(',', csv);
  put_column(csv, y);
}

rec_status plot_allowed(const picture *of, const char *folder, bool again) {
  made_text columns;
  if (!text_open(&columns)) return rec_no_memory();
  put_columns(columns.out, of, of->y ? of->y : "bits");  // each unit begins so
  rec_status status = text_close(&columns) ? REC_OK : rec_no_memory();
  const output_proof table = {.first = columns.text};  // a CSV has no comments
  if (!status)
    status = whole_file_allowed(rec_path("%s/%s.csv", folder, of->name).text, &table, again);
  if (!status)
    status = whole_file_allowed(rec_path("%s/%s.svg", folder, of->name).text, NULL, again);
  free(columns.text);
  return status;
}

bool plot_open(plot *p) {
  *p = (plot){0};
  return text_open(&p->script) && text_open(&p->table);
}

// Points are lines `x y`. The CSV gets them with the name before.
static void put_plot_points(plot *p, const char *name, const char *points) {
  for (const char *line = points, *end; (end = strchr(line, '\n')); line = end + 1) {
    put_csv_cell(p->table.out, name);
    putc(',', p->table.out);
    for (const char *c = line; c <= end; c++) putc(*c == ' ' ? ',' : *c, p->table.out);
  }
}

void plot_curve(plot *p, const char *name, made_text *points) {
  FILE *out = p->script.out;
  if (text_close(points) && points->size > 0) {
    put_plot_points(p, name, points->text);
    fprintf(out, "$c%d << END\n%sEND\n", p->curves, points->text);
    fprintf(out, "name%d = ", p->curves);
    put_gnuplot_string(out, name);
    putc('\n', out);
    p->curves++;
  }
  free(points->text);
}

// gnuplot with a pipe as its input, and an open file as its output. No name of a file stands in the
// script, and no shell is asked.
static pid_t start_gnuplot(int svg, int *script) {
  int ends[2];
  pid_t child = -1;
  if (pipe2(ends, O_CLOEXEC)) return -1;
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, ends[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, svg, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  char *words[] = {"gnuplot", "-d", NULL};
  if (posix_spawnp(&child, words[0], &files, NULL, words, environ)) child = -1;
  posix_spawn_file_actions_destroy(&files);
  close(ends[0]);
  *script = ends[1];
  if (child < 0) close(ends[1]);
  return child;
}

// Without gnuplot the pipe breaks; that must not end the process.
static bool run_gnuplot(const char *script, size_t size, int svg) {
  struct sigaction ignore = {.sa_handler = SIG_IGN}, old;
  int input, ended = 1;
  sigaction(SIGPIPE, &ignore, &old);
  pid_t child = start_gnuplot(svg, &input);
  if (child >= 0) {
    for (ssize_t written; size > 0; script += written, size -= (size_t)written) {
      written = write(input, script, size);
      if (written < 0 && errno == EINTR) written = 0;
      if (written < 0) break;
    }
    close(input);
    while (waitpid(child, &ended, 0) < 0 && errno == EINTR) continue;
  }
  sigaction(SIGPIPE, &old, NULL);
  return child >= 0 && ended == 0;
}

// gnuplot draws into memory: a picture is replaced as a whole.
bool report_draw(const char *script, size_t size, const char *svg) {
  static char mark[] = "<!-- " OUTPUT_MARK_TEXT " -->\n";
  char last[sizeof mark];
  struct stat about;
  int memory = memfd_create("picture", MFD_CLOEXEC);
  bool drawn = memory >= 0 && run_gnuplot(script, size, memory) && !fstat(memory, &about);
  char *drawing = drawn ? malloc((size_t)about.st_size + 1) : NULL;
  bool good = drawing && pread(memory, drawing, (size_t)about.st_size, 0) == about.st_size;
  memcpy(last, mark, sizeof last);
  const struct iovec parts[] = {{drawing, drawn ? (size_t)about.st_size : 0},
                                {last, sizeof last - 1}};
  good = good && output_write(svg, parts, 2, OUTPUT_MARK);
  if (memory >= 0) close(memory);
  free(drawing);
  return good;
}

static void put_picture_axes(FILE *out, const picture *of, const char *y) {
  fputs("set title ", out);
  put_gnuplot_string(out, of->title);
  fputs("\nset xlabel ", out);
  put_gnuplot_string(out, of->x);
  fputs("\nset ylabel ", out);
  put_gnuplot_string(out, y);
  fputs("\nset grid lc rgb '#dddddd'\nset border lc rgb '#888888'\n", out);
  fprintf(out, "set key top %s noenhanced\nset offsets graph 0, 0, 0.05, 0.05\n%s",
          of->log_axis ? "left" : "right", of->log_axis ? "set logscale x 2\n" : "");
}

// Beyond ten curves the colours come again, broken.
static void put_commands(const plot *p, const picture *of, const char *y) {
  FILE *out = p->script.out;
  put_picture_axes(out, of, y);
  fputs("set terminal svg size 900,480 dynamic font 'sans-serif,13' background '#ffffff'\n", out);
  for (int i = 0; i < p->curves; i++)
    fprintf(out, "%s $c%d using 1:2 with %s lw 2 %s dt %d lc rgb '%s' title name%d",
            i ? "," : "plot", i, of->marks ? "linespoints" : "lines",
            of->marks ? "pt 7 ps 0.4" : "", 1 + i / COLOUR_COUNT % 5, colours[i % COLOUR_COUNT], i);
  fprintf(out, "\n");
}

// The points of all curves below the names of their columns.
static rec_status save_table(const plot *p, const picture *of, const char *y, const char *path) {
  made_text csv;
  if (!text_open(&csv)) return rec_no_memory();
  put_columns(csv.out, of, y);
  putc('\n', csv.out);
  fwrite(p->table.text, 1, p->table.size, csv.out);
  return text_save(&csv, REC_OK, path, 0);
}

rec_status plot_close(plot *p, const picture *of, const char *folder, bool *drawn) {
  file_path svg = rec_path("%s/%s.svg", folder, of->name),
            csv = rec_path("%s/%s.csv", folder, of->name);
  char bits[BITS_TEXT];
  const char *y = of->y ? of->y : bits_unit_text(&p->unit, bits);
  if (p->script.out) put_commands(p, of, y);
  bool whole = text_close(&p->script) && text_close(&p->table);
  rec_status status = whole ? REC_OK : rec_no_memory();
  if (!status && p->curves) status = save_table(p, of, y, csv.text);
  // The picture of an earlier page has no curve any more.
  if (!p->curves && !plot_allowed(of, folder, false)) unlink(csv.text), unlink(svg.text);
  *drawn = !status && p->curves && report_draw(p->script.text, p->script.size, svg.text);
  text_close(&p->table);
  free(p->script.text);
  free(p->table.text);
  return status;
}

// ---- curves -------------------------------------------------------------------------------------

static int64_t count_lines(const char *text) {
  int64_t count = 0;
  for (; (text = strchr(text, '\n')); text++) count++;
  return count;
}

// The training loss in bits: means over a hundredth of the block each.
static void put_loss(plot *p, const char *curve, const char *log) {
  made_text points;
  int64_t steps = count_lines(log), every = steps / 100 > 0 ? steps / 100 : 1, count = 0;
  double sum = 0;
  if (!text_open(&points)) return;
  bits_unit_of(&p->unit, log);
  for (const char *line = log; line && *line;
       line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
    const char *bits = strstr(line, bits_per), *number = bits ? strchr(bits, ':') : NULL;
    if (!number) break;
    sum += strtod(number + 1, NULL);
    if (++count % every) continue;
    fprintf(points.out, "%" PRId64 " %.5f\n", p->first_step + count - every / 2,
            sum / (double)every);
    sum = 0;
  }
  plot_curve(p, curve, &points);
}

// from,to,bits: a point in the middle of the range on the logarithmic axis.
static void put_positions(plot *p, const char *curve, const char *csv) {
  made_text points;
  if (!text_open(&points)) return;
  bits_unit_of(&p->unit, csv);
  for (const char *line = strchr(csv, '\n'); line && line[1]; line = strchr(line + 1, '\n')) {
    double from, to, bits;
    if (sscanf(line + 1, "%lf,%lf,%lf", &from, &to, &bits) == 3)
      fprintf(points.out, "%.3f %.5f\n", (from + to) / 2 + 0.5, bits);
  }
  plot_curve(p, curve, &points);
}

// position,layer,mean,deviation,norm,largest,state: the points of one state, and the line behind.
static const char *put_state_points(const char *line, FILE *out, char name[256]) {
  double position, norm;
  char of[256];
  for (bool first = true; *line; line = strchr(line, '\n') + 1, first = false) {
    if (sscanf(line, "%lf,%*d,%*f,%*f,%lf,%*f,%255[^\n]", &position, &norm, of) != 3) return "";
    if (first) memcpy(name, of, sizeof of);
    if (strcmp(name, of) != 0) break;
    fprintf(out, "%.0f %.9g\n", position, norm);
  }
  return line;
}

static void put_states(plot *p, const char *curve, const char *csv) {
  const char *line = strchr(csv, '\n');
  if (!line || csv[strlen(csv) - 1] != '\n') return;
  for (line++; *line;) {
    made_text points;
    char state[256] = "", name[1024];
    if (!text_open(&points)) return;
    line = put_state_points(line, points.out, state);
    snprintf(name, sizeof name, "%s: %s", curve, state);
    plot_curve(p, name, &points);
  }
}

// t,distance
static void put_remembrance(plot *p, const char *curve, const char *csv) {
  made_text points;
  if (!text_open(&points)) return;
  for (const char *at = strchr(csv, '\n'); at && *++at;) putc(*at == ',' ? ' ' : *at, points.out);
  plot_curve(p, curve, &points);
}

// The numbers behind `length` in the second column, or the third.
static void put_share(plot *p, const char *curve, const char *csv, bool exact) {
  made_text points;
  char name[1024];
  double length, share[2];
  if (!text_open(&points)) return;
  for (const char *line = strchr(csv, '\n'); line && line[1]; line = strchr(line + 1, '\n'))
    if (sscanf(line + 1, "%lf,%lf,%lf", &length, &share[0], &share[1]) == 3)
      fprintf(points.out, "%.0f %.6f\n", length, share[exact]);
  snprintf(name, sizeof name, "%s: %s", curve, exact ? "sequences" : "answers");
  plot_curve(p, name, &points);
}

static void put_accuracy(plot *p, const char *curve, const char *csv) {
  if (!p->curves) fprintf(p->script.out, "set yrange [-0.02:1.02]\n");
  put_share(p, curve, csv, false);
  put_share(p, curve, csv, true);
}

const picture pictures[PICTURES] = {
    [PICTURE_POSITIONS] = {"positions", "Bits by position",
                           "Held-out text, the state carried from window to window; the dashed "
                           "line is the context of training.",
                           "bits by position", "position", NULL, true, true, "perplexity.csv",
                           put_positions},
    [PICTURE_STATES] = {"states", "States",
                        "The norm of a head's state, averaged over the heads of a layer and over "
                        "streams of held-out text.",
                        "norm of the states by position", "position", "norm", true, true,
                        "state_norm.csv", put_states},
    [PICTURE_REMEMBRANCE] = {"remembrance", "Effective remembrance",
                             "How far the prediction moves if the first t tokens were never read.",
                             "effective remembrance", "t", "distance without the first t tokens",
                             false, true, "remembrance.csv", put_remembrance},
    [PICTURE_ACCURACY] =
        {"accuracy", "Accuracy",
         "The share of answers, and of sequences without a wrong one, by length; by the depth of "
         "what the answer follows from, where it follows from one place.",
         "accuracy by length", "length", "share", true, true, "accuracy.csv", put_accuracy},
    [PICTURE_LOSS] = {"loss", "Training", "The loss, in means over a hundredth of each block.",
                      "training loss", "step", NULL, false, false, "log.jsonl", put_loss},
};
