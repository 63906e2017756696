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
#include <unistd.h>

#include "runtime/train/report/page.h"

// Folders that hold what a block left, in the order of the runs, then of their names.
typedef struct folders {
  char **names;
  int count;
  bool failed;  // memory was short
} folders;

static void add_folder(folders *all, const char *name) {
  char **grown = realloc(all->names, sizeof *grown * ((size_t)all->count + 1));
  if (grown) all->names = grown;
  if (grown && (grown[all->count] = strdup(name)))
    all->count++;
  else
    all->failed = true;
}

static bool holds_a_block(const char *folder) {
  bool any = false;
  for (int i = 0; i < PICTURES && !any; i++) {
    char *text = report_read("", folder, pictures[i].file);
    any = text != NULL;
    free(text);
  }
  return any;
}

// The run itself if it is a block's folder, else those in it. Pictures of whole runs have the names
// of some of a block's files.
static rec_status add_run(folders *all, const char *run) {
  struct dirent **entries;
  int before = all->count, count = scandir(run, &entries, NULL, alphasort);
  if (count < 0) return rec_file_failed(run);
  for (int i = 0; i < count; i++) {
    file_path folder = rec_path("%s/%s", run, entries[i]->d_name);
    if (entries[i]->d_name[0] != '.' && holds_a_block(folder.text)) add_folder(all, folder.text);
    free(entries[i]);
  }
  free(entries);
  if (all->count == before && holds_a_block(run)) add_folder(all, run);
  if (all->failed) return rec_no_memory();
  if (all->count > before) return REC_OK;
  return rec_fail(REC_ERROR_FILE,
                  "%s: expected a folder of runs, found no block that was trained or judged in it",
                  run);
}

static rec_status draw_comparison(const folders *all, const picture *of, const char *folder,
                                  bool *drawn) {
  plot p;
  if (plot_open(&p))
    for (int i = 0; i < all->count; i++) {
      char *text = report_read("", all->names[i], of->file);
      if (text) of->put(&p, all->names[i], text);
      free(text);
    }
  return plot_close(&p, of, folder, drawn);
}

static rec_status make_page(const folders *all, const char *folder) {
  bool drawn[PICTURES];
  made_text page;
  rec_status status = text_open(&page) ? REC_OK : rec_no_memory();
  for (int i = 0; !status && i < PICTURES; i++)
    status = draw_comparison(all, &pictures[i], folder, &drawn[i]);
  if (!status) page_open(page.out, "runs compared");
  for (int i = 0; !status && i < PICTURES; i++) {
    if (drawn[i]) page_picture(page.out, &pictures[i], folder);
    if (i == PICTURE_POSITIONS)
      page_ranges(page.out, "", (const char *const *)all->names, all->count);
  }
  return page_save(&page, status, folder);
}

static bool is_same_folder(const char *one, const char *other) {
  struct stat a, b;
  return !stat(one, &a) && !stat(other, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// The folder of a run has its own page and pictures, which another process may be writing.
static rec_status check_compare_folder(const folders *all, const char *const *runs, int count,
                                       const char *folder, bool again) {
  bool run = !access(rec_path("%s/lock", folder).text, F_OK);
  for (int i = 0; i < count; i++) run |= is_same_folder(folder, runs[i]);
  for (int i = 0; i < all->count; i++) run |= is_same_folder(folder, all->names[i]);
  if (run)
    return rec_fail(REC_ERROR_FILE, "%s: expected a folder for the comparison, found that of a run",
                    folder);
  rec_status status = whole_file_allowed(rec_path("%s/report.html", folder).text, NULL, again);
  for (int i = 0; i < PICTURES && !status; i++) status = plot_allowed(&pictures[i], folder, again);
  return status;
}

rec_status compare_runs(const char *const *runs, int count, const char *folder, bool again) {
  folders all = {0};
  rec_status status = REC_OK;
  for (int i = 0; !status && i < count; i++) status = add_run(&all, runs[i]);
  if (!status) status = check_compare_folder(&all, runs, count, folder, again);
  if (!status && mkdir(folder, 0777) && errno != EEXIST) status = rec_file_failed(folder);
  if (!status) status = make_page(&all, folder);
  for (int i = 0; i < all.count; i++) free(all.names[i]);
  free(all.names);
  return status;
}
