#include "tests/random/coverage.h"

#include <stdio.h>

enum { RAREST = 5 };

typedef struct rare {
  int times, first, second;
} rare;

void coverage_add(coverage *all, const contents *has) {
  int count = construct_count();
  all->programs++;
  for (int i = 0; i < count; i++) {
    for (int p = 0; p < PLACES; p++) all->places[i][p] += has->places[i] >> p & 1;
    for (int k = 0; k < i; k++) all->pairs[i][k] += has->places[i] && has->places[k];
  }
}

// Keeps the rarest in order.
static void keep(rare *list, rare x) {
  for (int i = 0; i < RAREST; i++) {
    if (x.times >= list[i].times) continue;
    rare kept = list[i];
    list[i] = x;
    x = kept;
  }
}

static int find_rarest(const coverage *all, rare *places, rare *pairs) {
  int count = construct_count(), pair_count = 0;
  for (int i = 0; i < RAREST; i++) places[i] = pairs[i] = (rare){.times = all->programs + 1};
  for (int i = 0; i < count; i++) {
    for (int p = 0; p < PLACES; p++)
      if (has_place(i, (place)p)) keep(places, (rare){all->places[i][p], i, p});
    for (int k = 0; k < i; k++, pair_count++) keep(pairs, (rare){all->pairs[i][k], i, k});
  }
  return pair_count;
}

void coverage_print(const coverage *all) {
  static const char *const place_names[PLACES] = {"update", "decay", "gate",  "key",
                                                  "read",   "let",   "output"};
  rare places[RAREST], pairs[RAREST];
  int pair_count = find_rarest(all, places, pairs), count = construct_count(), expressions = 0;
  for (int i = 0; i < count; i++) expressions += has_places(i);
  printf("%d constructs in %d places, the rarest:", expressions, PLACES);
  for (int i = 0; i < RAREST; i++)
    printf("%s %s in %s %d", i ? "," : "", construct_name(places[i].first),
           place_names[places[i].second], places[i].times);
  printf("\n%d pairs of %d constructs, the rarest:", pair_count, count);
  for (int i = 0; i < RAREST; i++)
    printf("%s %s with %s %d", i ? "," : "", construct_name(pairs[i].first),
           construct_name(pairs[i].second), pairs[i].times);
  printf("\n");
}

int coverage_least(const coverage *all) {
  rare places[RAREST], pairs[RAREST];
  find_rarest(all, places, pairs);
  return places[0].times < pairs[0].times ? places[0].times : pairs[0].times;
}
