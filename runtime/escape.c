#include "runtime/escape.h"

static int printable(char c) { return (unsigned char)c < ' ' || c == 0x7f ? ' ' : c; }

void put_html(FILE *out, const char *text) {
  for (; *text; text++) {
    switch (*text) {
      case '<': fputs("&lt;", out); break;
      case '>': fputs("&gt;", out); break;
      case '&': fputs("&amp;", out); break;
      case '"': fputs("&quot;", out); break;
      case '\'': fputs("&#39;", out); break;
      default: putc(*text, out);
    }
  }
}

void put_gnuplot_string(FILE *out, const char *text) {
  putc('\'', out);
  for (; *text; text++) {
    if (*text == '\'') putc('\'', out);
    putc(printable(*text), out);
  }
  putc('\'', out);
}

void put_csv_cell(FILE *out, const char *text) {
  for (; *text; text++) putc(*text == ',' || *text == '"' ? ' ' : printable(*text), out);
}
