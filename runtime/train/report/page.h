// The parts of a page.
#ifndef REC_TRAIN_PAGE_H
#define REC_TRAIN_PAGE_H

#include <stdio.h>

void page_open(FILE *out, const char *title);
void page_svg(FILE *out, const char *path);

// What judging a block has left, as a column of the table of ranges.
typedef struct range_column {
  const char *name;
  char *ranges, *verdict;  // the texts of ranges.csv and verdict.csv, NULL: not there
} range_column;

// A row for each range of positions, and the verdicts.
void page_ranges(FILE *out, const range_column *columns, int count);

#endif
