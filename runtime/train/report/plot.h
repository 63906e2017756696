// Pictures of curves: SVG by gnuplot, and their points as CSV beside them.
#pragma once

#include "runtime/train/report/whole_file.h"

// What a token is in texts that have a column or a field bits_per_byte, bits_per_character or
// bits_per_token.
typedef struct bits_unit {
  char word[16];  // byte, character or token; empty: not known
  bool mixed;     // it is one here, another there
} bits_unit;

enum { BITS_TEXT = 32 };
void bits_unit_of(bits_unit *unit, const char *text);
// "bits a byte", or "bits" alone.
const char *bits_unit_text(const bits_unit *unit, char to[BITS_TEXT]);

typedef struct plot {
  made_text script, table;  // what gnuplot reads; the CSV
  int curves;
  bits_unit unit;
  int64_t first_step;  // of the training block whose curve comes next
} plot;

// What a picture shows: the files that its curves are read from, as training and judging leave
// them.
typedef struct picture {
  const char *name;  // of NAME.svg and NAME.csv
  const char *heading, *words;
  const char *title, *x, *y;  // y NULL: the bits of a token
  bool log_axis, marks;
  const char *file;  // RUNS/BLOCK/FILE
  void (*put)(plot *p, const char *curve, const char *text);
} picture;

enum {
  PICTURE_POSITIONS,
  PICTURE_STATES,
  PICTURE_REMEMBRANCE,
  PICTURE_ACCURACY,
  PICTURE_LOSS,
  PICTURES
};
extern const picture pictures[PICTURES];

// An error if FOLDER/NAME.csv or FOLDER/NAME.svg is an input, or another's.
rec_status plot_allowed(const picture *of, const char *folder, bool again);
bool plot_open(plot *p);
// Adds a curve of lines `x y`, which are closed and freed; one without a point is left out.
void plot_curve(plot *p, const char *name, made_text *points);
// The end of a picture: FOLDER/NAME.csv, and FOLDER/NAME.svg if gnuplot is there; *drawn says
// whether. Without curves neither is written.
rec_status plot_close(plot *p, const picture *of, const char *folder, bool *drawn);

// Runs gnuplot on a script, which prints the picture; false without gnuplot or if it fails.
bool report_draw(const char *script, size_t size, const char *svg);
// FOLDER/NAME/FILE, or with the folder "" NAME/FILE, as text, which the caller frees; NULL: it is
// not there.
char *report_read(const char *folder, const char *name, const char *file);
