// rec compare: several runs in one page.
#include "runtime/train/report/compare.h"
#include "runtime/command/command.h"

typedef struct compare_request {
  const char *folder;
  bool again;
} compare_request;

#define REQUEST compare_request
static const option options[] = {
    TEXT("-o", "DIR", folder, "where the page is written (default: compare)"), AGAIN(again),
    OPTIONS_END};

static int run_compare(words *w) {
  compare_request r = {.folder = "compare"};
  if (read_options(w, options, &r)) return EXIT_USAGE;
  if (!w->given_count) return usage_error(w, "expected RUN, a folder of runs");
  if (compare_runs((const char *const *)w->given, w->given_count, r.folder, r.again))
    return report_failure("compare");
  printf("report: %s/report.html\n", r.folder);
  return 0;
}

const subcommand compare_command = {
    .name = "compare",
    .purpose = "lays runs over one another",
    .synopsis = "RUN RUN...",
    .text =
        "Lays runs over one another: DIR/report.html has the pictures of all blocks of all runs, "
        "and DIR their points as CSV.\n"
        "A RUN is a folder that `rec train --runs` wrote, or the folder of one block in it.\n",
    .options = options,
    .run = run_compare};
