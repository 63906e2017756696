// The parts that the page of a run and that of a comparison share.
#include "runtime/train/report/page.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/escape.h"

void page_open(FILE *out, const char *title) {
  fputs(PAGE_BEGIN, out);
  put_html(out, title);
  fputs(
      "</title>\n<style>body{font:15px/1.5 sans-serif;max-width:940px;margin:2em auto;padding:0 "
      "1em;color:#222}figure{margin:1em "
      "0}svg{max-width:100%;height:auto}table{border-collapse:collapse;margin:1em "
      "0}td,th{padding:.2em .8em;border-bottom:1px solid "
      "#ddd;text-align:right}td:first-child,th:first-child{text-align:left}pre{background:#f6f6f4;"
      "padding:1em;overflow:auto;font-size:13px}</style>\n<h1>",
      out);
  put_html(out, title);
  fputs("</h1>\n", out);
}

void page_svg(FILE *out, const char *folder, const char *name) {
  char file[64];
  snprintf(file, sizeof file, "%s.svg", name);
  char *svg = report_read("", folder, file);
  const char *start = svg ? strstr(svg, "<svg") : NULL;
  if (start) fprintf(out, "<figure>%s</figure>\n", start);
  free(svg);
}

void page_picture(FILE *out, const picture *of, const char *folder) {
  fprintf(out, "<h2>%s</h2>\n<p>%s</p>\n", of->heading, of->words);
  page_svg(out, folder, of->name);
}

rec_status page_save(made_text *page, rec_status status, const char *folder) {
  if (!status) fprintf(page->out, "</html>\n<!-- %s -->\n", OUTPUT_MARK_TEXT);
  return text_save(page, status, rec_path("%s/report.html", folder).text, 0);
}

// ---- ranges -------------------------------------------------------------------------------------

typedef struct range_column {
  const char *name;
  char *ranges, *verdict;  // the texts of ranges.csv and verdict.csv, NULL: not there
} range_column;

// The last row of the table of ranges: how far each evaluation found the model to
// length-generalise.
static void put_verdicts(FILE *out, const range_column *columns, int count) {
  fprintf(out, "<tr><td>length extension, generalises to</td>");
  for (int i = 0; i < count; i++) {
    long long reaches, until;
    char extension[16];
    const char *line = columns[i].verdict ? strchr(columns[i].verdict, '\n') : NULL;
    if (line &&
        sscanf(line + 1, "%*d,%*f,%*f,%lld,%lld,%15[a-z]", &reaches, &until, extension) == 3)
      fprintf(out, "<td>%s, %lld of %lld</td>", extension, reaches, until);
    else
      fprintf(out, "<td></td>");
  }
  fprintf(out, "</tr>\n");
}

// The line of the range that begins at `from`, or the first one behind it.
static const char *range_at(const char *csv, long long least, long long *from, long long *to,
                            double *bits) {
  for (const char *line = strchr(csv, '\n'); line && line[1]; line = strchr(line + 1, '\n'))
    if (sscanf(line + 1, "%lld,%lld,%lf", from, to, bits) == 3 && *from >= least) return line;
  return NULL;
}

static void put_ranges(FILE *out, const range_column *columns, int count) {
  bits_unit unit = {0};
  char text[BITS_TEXT];
  for (int i = 0; i < count; i++) bits_unit_of(&unit, columns[i].ranges);
  fprintf(out, "<table><tr><th>positions, %s</th>", bits_unit_text(&unit, text));
  for (int i = 0; i < count; i++) {
    fprintf(out, "<th>");
    put_html(out, columns[i].name);
    fprintf(out, "</th>");
  }
  fprintf(out, "</tr>\n");
  for (long long least = 0;;) {
    long long from, to, first = INT64_MAX, end = 0;
    double bits;
    for (int i = 0; i < count; i++)
      if (range_at(columns[i].ranges, least, &from, &to, &bits) && from < first)
        first = from, end = to;
    if (first == INT64_MAX) break;
    fprintf(out, "<tr><td>%lld .. %lld</td>", first, end);
    for (int i = 0; i < count; i++)
      if (range_at(columns[i].ranges, first, &from, &to, &bits) && from == first && to == end)
        fprintf(out, "<td>%.3f</td>", bits);
      else
        fprintf(out, "<td></td>");
    fprintf(out, "</tr>\n");
    least = first + 1;
  }
  put_verdicts(out, columns, count);
  fprintf(out, "</table>\n");
}

void page_ranges(FILE *out, const char *folder, const char *const *names, int count) {
  range_column *columns = calloc((size_t)count + 1, sizeof *columns);
  int found = 0;
  for (int i = 0; columns && i < count; i++) {
    char *ranges = report_read(folder, names[i], "ranges.csv");
    if (ranges)
      columns[found++] =
          (range_column){names[i], ranges, report_read(folder, names[i], "verdict.csv")};
  }
  if (found) put_ranges(out, columns, found);
  for (int i = 0; i < found; i++) {
    free(columns[i].ranges);
    free(columns[i].verdict);
  }
  free(columns);
}
