// Attention maps in the report: for each recurrence |M|, meaned over the heads, and the mask beside
// it.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/escape.h"
#include "runtime/train/report/plot.h"
#include "runtime/train/report/report.h"

enum { MOST_LAYERS = 8, MOST_CELLS = 96 };

typedef struct layer_map {
  char name[256];
  int heads;
  double *m, *mask;  // [cells][cells]; cell c holds the positions from c * time / cells on
} layer_map;

typedef struct maps {
  layer_map layers[MOST_LAYERS];
  int count, cells;
  int64_t time;
} maps;

static bool add_line(maps *all, const char *line) {
  char name[256];
  int head;
  long long i, j;
  double m, mask;
  if (sscanf(line, "%255[^,],%d,%lld,%lld,%lf,%lf", name, &head, &i, &j, &m, &mask) != 6 || i < 0 ||
      i >= all->time || j < 0 || j > i || head < 0 || head == INT_MAX)
    return false;
  int place = 0, n = all->cells;
  while (place < all->count && strcmp(all->layers[place].name, name) != 0) place++;
  if (place == MOST_LAYERS) return true;
  layer_map *l = &all->layers[place];
  if (place == all->count) {
    memcpy(l->name, name, sizeof name);
    l->m = calloc((size_t)(n * n), sizeof *l->m);
    l->mask = calloc((size_t)(n * n), sizeof *l->mask);
    all->count++;
  }
  if (!l->m || !l->mask) return false;
  int64_t row = i * n / all->time, column = j * n / all->time;
  double cell = (double)all->time / n;
  if (head >= l->heads) l->heads = head + 1;
  l->m[row * n + column] += (m < 0 ? -m : m) / (cell * cell);
  if (head == 0) l->mask[row * n + column] += mask / (cell * cell);
  return true;
}

static void put_cells(FILE *out, const char *name, int number, const double *cells, int n,
                      double scale) {
  fprintf(out, "$%s%d << END\n", name, number);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++)
      fprintf(out, "%.4g%c", cells[i * n + j] * scale, j + 1 < n ? ' ' : '\n');
  fprintf(out, "END\n");
}

// The greatest entry below the diagonal, which has besides what an output takes from its input
// without the state.
static double largest(const double *cells, int n) {
  double most = 0;
  for (int i = 0; i < n; i++)
    for (int j = 0; j < i; j++)
      if (cells[i * n + j] > most) most = cells[i * n + j];
  return most > 0 ? most : 1;
}

static void put_script(FILE *out, const maps *all) {
  for (int l = 0; l < all->count; l++) {
    put_cells(out, "m", l, all->layers[l].m, all->cells, 1.0 / all->layers[l].heads);
    put_cells(out, "k", l, all->layers[l].mask, all->cells, 1);
  }
  fprintf(out, "set terminal svg size 760,%d font 'sans-serif,12' background '#ffffff'\n",
          330 * all->count);
  fprintf(out,
          "set multiplot layout %d,2\nset size square\nset yrange [%d:-1] \nset xrange [-1:%d]\n",
          all->count, all->cells, all->cells);
  fprintf(out,
          "unset key\nunset tics\nset xlabel 'j'\nset ylabel 'i'\nset palette defined (0 "
          "'#ffffff', 0.2 '#aed6f1', 0.6 '#2471a3', 1 '#1b2631')\n");
  for (int l = 0; l < all->count; l++) {
    const layer_map *map = &all->layers[l];
    char title[sizeof map->name + 8];
    snprintf(title, sizeof title, "|M| of %s", map->name);
    fprintf(out, "set cbrange [0:%.4g]\nset title ", largest(map->m, all->cells) / map->heads);
    put_gnuplot_string(out, title);
    fprintf(out, " noenhanced\nplot $m%d matrix with image pixels\n", l);
    fprintf(out,
            "set cbrange [0:1]\nset title 'mask' noenhanced\nplot $k%d matrix with image pixels\n",
            l);
  }
  fprintf(out, "unset multiplot\n");
}

bool report_attention(const evaluate_block *e, const char *csv, const char *folder) {
  maps all = {.time = e->attention,
              .cells = e->attention < MOST_CELLS ? (int)e->attention : MOST_CELLS};
  file_path svg = rec_path("%s/attention.svg", folder);
  made_text script;
  bool good = text_open(&script);
  for (const char *line = strchr(csv, '\n'); good && line && line[1]; line = strchr(line + 1, '\n'))
    good = add_line(&all, line + 1);
  if (good) put_script(script.out, &all);
  good =
      text_close(&script) && good && all.count && report_draw(script.text, script.size, svg.text);
  for (int l = 0; l < all.count; l++) {
    free(all.layers[l].m);
    free(all.layers[l].mask);
  }
  free(script.text);
  return good;
}
