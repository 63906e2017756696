// rec compare: several runs in one page.
#include <stdlib.h>

#include "runtime/command/command.h"
#include "runtime/train/report/compare.h"

const char compare_usage[] =
    "rec compare RUN RUN...\n"
    "\n"
    "Lays runs over one another: DIR/report.html has the pictures of all blocks of all runs, and "
    "DIR "
    "their points as CSV.\n"
    "A RUN is a folder that `rec train --runs` wrote, or the folder of one block in it.\n"
    "\n"
    "  -o DIR            where the page is written (default: compare)\n";

int command_compare(int count, char **list) {
  words w = {.command = "compare", .count = count, .list = list};
  const char **runs = calloc((size_t)count + 1, sizeof *runs), *folder = "compare";
  int run_count = 0, status = runs ? 0 : report_failure("compare");
  while (runs && w.next < w.count && !w.failed) {
    if (take_value(&w, "-o", &folder) || w.failed) continue;
    if (take_word(&w, &runs[run_count]))
      run_count++;
    else
      usage_error(&w, "unknown option `%s`", w.list[w.next]);
  }
  if (w.failed) status = EXIT_USAGE;
  if (!status && !run_count) status = usage_error(&w, "expected RUN, a folder of runs");
  if (!status && compare_runs(runs, run_count, folder)) status = report_failure("compare");
  if (!status) printf("report: %s/report.html\n", folder);
  free(runs);
  return status;
}
