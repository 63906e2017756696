// Segments of a chunk and their halves: axes, and values cut along them.
//
//   level 3 of 64 steps     segments of 8 steps, pairs of which are the halves of those of level 4
//   level_rows x            x at the second halves, where steps read;  level_columns x: at the first, where they wrote
#include "compiler/chunk/scan.h"

// Levels of segments need a whole power of two; masks take any length.
void decay_check_length(scan *s, const char *what) {
  int length = s->program->chunk;
  bool power = (length & (length - 1)) == 0 && length >= 2 && length <= 1 << (LEVELS_MAX - 1);
  if (power) return;
  scan_refuse(s, arena_printf(s->arena, "%s needs chunks of 2, 4, .., %d steps", what,
                              1 << (LEVELS_MAX - 1)));
}

int decay_levels(const scan *s) {
  int levels = 0;
  while ((1 << levels) < s->program->chunk) levels++;
  return levels;
}

static int new_axis(scan *s, const char *name, int number, int size) {
  return tile_axis_new(s->program, number ? arena_printf(s->arena, "%s%d", name, number) : name,
                       size);
}

// Segments of one step are the steps themselves; the one segment of all steps has no axis.
const scan_axes *level_axes(scan *s, int level) {
  if (level < 0) level = -level;
  scan_axes *axes = &s->axes[level];
  int n = 1 << level, last = decay_levels(s);
  if (axes->segment >= 0 || axes->step >= 0) return axes;
  axes->segment = level == 0     ? s->program->time_axis
                  : level < last ? new_axis(s, "segment", n, s->program->chunk / n)
                                 : -1;
  axes->step = level == 0 ? -1 : level < last ? new_axis(s, "step", n, n) : s->program->time_axis;
  axes->pair_step = level == 0     ? -1
                    : level < last ? new_axis(s, "other", n, n)
                                   : s->program->pair_axis;
  return axes;
}

int level_half_axis(scan *s, bool other) {
  int *axis = other ? &s->other_half : &s->half;
  if (*axis < 0) *axis = new_axis(s, other ? "other_half" : "half", 0, 2);
  return *axis;
}

// Inner axis of one half, both halves: the steps of a segment twice as long.
tile_pair level_join_halves(scan *s, tile_pair x, int half, int inner, int joined) {
  if (inner < 0) return pair_on_axes(s->program, TILE_RENAME, x, half, joined, 0);
  return pair_on_axes(s->program, TILE_JOIN, x, joined, half, inner);
}

tile_pair level_join(scan *s, tile_pair x, int level) {
  int inner = level_axes(s, level)->step, joined = level_axes(s, level + 1)->step;
  return level_join_halves(s, x, level_half_axis(s, false), inner, joined);
}

// Segments to pairs of them.
tile_pair level_halve(scan *s, tile_pair x, int level) {
  int segment = level_axes(s, level)->segment, pair = level_axes(s, level + 1)->segment;
  int half = level_half_axis(s, false);
  if (!axis_in(pair_axes(s->program, x), segment)) return x;
  if (pair < 0) return pair_on_axes(s->program, TILE_RENAME, x, segment, half, 0);
  return pair_on_axes(s->program, TILE_SPLIT, x, segment, pair, half);
}

tile_pair level_unhalve(scan *s, tile_pair x, int level) {
  int segment = level_axes(s, level)->segment, pair = level_axes(s, level + 1)->segment;
  int half = level_half_axis(s, false);
  if (pair < 0) return pair_on_axes(s->program, TILE_RENAME, x, half, segment, 0);
  return pair_on_axes(s->program, TILE_JOIN, x, segment, pair, half);
}

tile_pair level_half(scan *s, tile_pair x, int level, int half) {
  x = level_halve(s, x, level);
  if (!axis_in(pair_axes(s->program, x), level_half_axis(s, false))) return x;
  return pair_on_axes(s->program, TILE_SLICE, x, level_half_axis(s, false), half, 0);
}

tile_pair level_place_half(scan *s, tile_pair x, int half) {
  return pair_on_axes(s->program, TILE_PLACE, x, level_half_axis(s, false), half, 0);
}

tile_id level_is_half(scan *s, int half) {
  return tile_binary(s->program, TILE_EQUAL,
                     tile_leaf(s->program, TILE_INDEX, level_half_axis(s, false)),
                     tile_number(s->program, half));
}

tile_pair level_split(scan *s, tile_pair x, int level) {
  if (level < 0) level = -level;
  bool apart = level > 0 && level < decay_levels(s);
  if (!apart || !axis_in(pair_axes(s->program, x), s->program->time_axis)) return x;
  const scan_axes *axes = level_axes(s, level);
  return pair_on_axes(s->program, TILE_SPLIT, x, s->program->time_axis, axes->segment, axes->step);
}

tile_pair level_to_pair_step(scan *s, tile_pair x, int level) {
  const scan_axes *axes = level_axes(s, level);
  if (level == 0 || !axis_in(pair_axes(s->program, x), axes->step)) return x;
  return pair_on_axes(s->program, TILE_RENAME, x, axes->step, axes->pair_step, 0);
}

tile_pair level_rows(scan *s, tile_pair x, int level) {
  if (level < 0) return level_split(s, x, level);
  return level_half(s, level_split(s, x, level), level, 1);
}

tile_pair level_columns(scan *s, tile_pair x, int level) {
  if (level < 0) return level_to_pair_step(s, level_split(s, x, level), level);
  return level_to_pair_step(s, level_half(s, level_split(s, x, level), level, 0), level);
}

tile_pair level_place_rows(scan *s, tile_pair x, int level) {
  const scan_axes *axes = level_axes(s, level);
  if (level < 0) {
    if (axes->segment < 0) return x;
    return pair_on_axes(s->program, TILE_JOIN, x, s->program->time_axis, axes->segment, axes->step);
  }
  x = level_unhalve(s, pair_on_axes(s->program, TILE_PLACE, x, level_half_axis(s, false), 1, 0),
                    level);
  return level == 0 ? x
                    : pair_on_axes(s->program, TILE_JOIN, x, s->program->time_axis, axes->segment,
                                   axes->step);
}

int level_first(const scan *s, int state) { return -s->states[state].block; }
int level_next(int level) { return level < 0 ? -level : level + 1; }
int level_place(int level) { return level < 0 ? -level - 1 : level; }

// The blocks on the diagonal so far, 0 beside them, and the scores of this level below it.
tile_pair level_assemble(scan *s, int first, const tile_pair *scores) {
  int half = level_half_axis(s, false), other = level_half_axis(s, true), levels = decay_levels(s);
  tile_pair zero = pair_number(s->program, 0);
  tile_pair all = first < 0 ? scores[level_place(first)] : zero;
  tile_id same = tile_binary(s->program, TILE_EQUAL, tile_leaf(s->program, TILE_INDEX, half),
                             tile_leaf(s->program, TILE_INDEX, other));
  for (int level = -first; level < levels; level++) {
    const scan_axes *axes = level_axes(s, level), *next = level_axes(s, level + 1);
    tile_pair below = pair_on_axes(s->program, TILE_PLACE, scores[level], half, 1, 0);
    below = pair_on_axes(s->program, TILE_PLACE, below, other, 0, 0);
    if (level) {
      tile_pair diagonal = pair_where(s->program, same, level_halve(s, all, level), zero);
      below = pair_linear(s->program, TILE_ADD, diagonal, below);
    }
    all = level_join_halves(s, below, half, axes->step, next->step);
    all = level_join_halves(s, all, other, axes->pair_step, next->pair_step);
  }
  return all;
}
