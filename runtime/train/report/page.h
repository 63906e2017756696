// The parts of a page.
#pragma once

#include "runtime/train/report/plot.h"

// What every page begins with.
#define PAGE_BEGIN "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>rec: "

void page_open(FILE *out, const char *title);
// FOLDER/NAME.svg, if it is there.
void page_svg(FILE *out, const char *folder, const char *name);
// The same with its heading.
void page_picture(FILE *out, const picture *of, const char *folder);

// A column of the table of ranges for each of the blocks FOLDER/NAME (plot.h), of those that were
// judged by ranges.
void page_ranges(FILE *out, const char *folder, const char *const *names, int count);

// The end of a page, FOLDER/report.html, unless `status` is a failure.
rec_status page_save(made_text *page, rec_status status, const char *folder);
