// Texts from outside (names in programs, names of files, what files hold) on their way into a page,
// a picture or a table. Whatever is written there goes through one of these.
#pragma once

#include <stdio.h>

// HTML, as text or inside of an attribute's quotes.
void put_html(FILE *out, const char *text);
// A string of gnuplot with its quotes: 'it''s'. Inside of these nothing is read as a command;
// control characters become blanks.
void put_gnuplot_string(FILE *out, const char *text);
// A cell of a CSV file without quotes: commas, quotes and control characters become blanks.
void put_csv_cell(FILE *out, const char *text);
