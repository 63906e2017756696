// The curves of several runs in one picture each.
//
//   runs/seed-1/base/log.jsonl  runs/seed-2/base/log.jsonl     loss.svg, loss.csv    curves runs/seed-1/base, runs/seed-2/base
//   runs/seed-1/of_base/ranges.csv                             a column of the table of positions
#include "runtime/train/report/compare.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/train/report/page.h"
#include "runtime/train/report/plot.h"
#include "runtime/train/report/whole_file.h"

// Folders that hold what a block left, in the order of the runs, then of their names.
typedef struct folders {
  char **names;
  int count;
  bool failed;  // memory was short
} folders;

static void add(folders *all, char *name) {
  char **grown = name ? realloc(all->names, sizeof *grown * ((size_t)all->count + 1)) : NULL;
  if (grown) {
    all->names = grown;
    all->names[all->count++] = name;
    return;
  }
  free(name);
  all->failed = true;
}

static char *read_in(const char *folder, const char *file) {
  char *path = report_path(folder, file, ""), *text = report_read(path);
  free(path);
  return text;
}

static bool holds_a_block(const char *folder) {
  bool any = false;
  for (int i = 0; i < PICTURES && !any; i++) {
    char *text = read_in(folder, pictures[i].file);
    any = text != NULL;
    free(text);
  }
  return any;
}

// The run itself if it is a block's folder, else those in it. Pictures of whole runs have the names of some of a block's files.
static rec_status add_run(folders *all, const char *run) {
  struct dirent **entries;
  int before = all->count, count = scandir(run, &entries, NULL, alphasort);
  if (count < 0) return rec_fail(REC_ERROR_FILE, "%s: %s", run, strerror(errno));
  for (int i = 0; i < count; i++) {
    char *folder = entries[i]->d_name[0] == '.' ? NULL : report_path(run, entries[i]->d_name, "");
    if (folder && holds_a_block(folder))
      add(all, folder);
    else
      free(folder);
    free(entries[i]);
  }
  free(entries);
  if (all->count == before && holds_a_block(run)) add(all, strdup(run));
  if (all->failed) return rec_no_memory();
  if (all->count > before) return REC_OK;
  return rec_fail(REC_ERROR_FILE, "%s: expected a folder of runs, found no block that was trained or judged in it", run);
}

static rec_status draw(const folders *all, const picture *of, const char *folder, bool *drawn) {
  plot p;
  if (plot_open(&p, of))
    for (int i = 0; i < all->count; i++) {
      char *text = read_in(all->names[i], of->file);
      if (text) of->put(&p, all->names[i], text, 0);
      free(text);
    }
  return plot_close(&p, of, folder, drawn);
}

static void put_picture(FILE *out, const picture *of, const char *folder) {
  char *svg = report_path(folder, of->name, ".svg");
  fprintf(out, "<h2>%s</h2>\n<p>%s</p>\n", of->heading, of->words);
  page_svg(out, svg);
  free(svg);
}

static void put_ranges(FILE *out, const folders *all) {
  range_column *columns = calloc((size_t)all->count + 1, sizeof *columns);
  int count = 0;
  for (int i = 0; columns && i < all->count; i++) {
    char *ranges = read_in(all->names[i], "ranges.csv");
    if (ranges) columns[count++] = (range_column){all->names[i], ranges, read_in(all->names[i], "verdict.csv")};
  }
  if (count) page_ranges(out, columns, count);
  for (int i = 0; i < count; i++) {
    free(columns[i].ranges);
    free(columns[i].verdict);
  }
  free(columns);
}

static rec_status make_page(const folders *all, const char *folder) {
  bool drawn[PICTURES];
  char *text = NULL, *page = report_path(folder, "report", ".html");
  size_t size;
  FILE *out = page ? open_memstream(&text, &size) : NULL;
  rec_status status = out ? REC_OK : rec_no_memory();
  for (int i = 0; !status && i < PICTURES; i++) status = draw(all, &pictures[i], folder, &drawn[i]);
  if (!status) page_open(out, "runs compared");
  for (int i = 0; !status && i < PICTURES; i++) {
    if (drawn[i]) put_picture(out, &pictures[i], folder);
    if (i == PICTURE_POSITIONS) put_ranges(out, all);
  }
  if (!status) fputs("</html>\n", out);
  if (out && fclose(out) && !status) status = rec_no_memory();
  if (!status) status = whole_file_write(page, text, size);
  free(text);
  free(page);
  return status;
}

rec_status compare_runs(const char *const *runs, int count, const char *folder) {
  folders all = {0};
  rec_status status = REC_OK;
  for (int i = 0; !status && i < count; i++) status = add_run(&all, runs[i]);
  if (!status && mkdir(folder, 0777) && errno != EEXIST) status = rec_fail(REC_ERROR_FILE, "%s: %s", folder, strerror(errno));
  if (!status) status = make_page(&all, folder);
  for (int i = 0; i < all.count; i++) free(all.names[i]);
  free(all.names);
  return status;
}
