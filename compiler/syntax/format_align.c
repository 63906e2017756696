// Alignment of neighbouring lines: names of declarations, values of settings, signs, comments
// behind the text.
#include <string.h>

#include "compiler/syntax/format.h"

enum {
  // columns that a line is moved at most; a group that needs more stays as it is
  SPREAD_MAX = 16,
  SETTING_WIDTH_MAX = 10,  // longer setting names stay out of the alignment
  COMMENT_GAP = 2,
};

static int characters(const char *text) {
  int count = 0;
  for (; *text; text++) count += ((unsigned char)*text & 0xC0) != 0x80;
  return count;
}

static void insert_spaces(arena *a, line *l, int offset, int count) {
  l->text = arena_printf(a, "%.*s%*s%s", offset, l->text, count, "", l->text + offset);
  if (l->word_end > offset) l->word_end += count;
  if (l->sign >= offset && l->sign) l->sign += count;
}

// Index behind the group of line i: the following lines of its class at its indent, comments
// between them included.
static int group_end(const lines *all, int i) {
  const line *first = &all->items[i];
  int end = i + 1;
  for (int k = end; k < all->count; k++) {
    const line *l = &all->items[k];
    if (l->blank_before || l->indent != first->indent) break;
    if (l->class == LINE_COMMENT) continue;
    if (l->class != first->class) break;
    end = k + 1;
  }
  return end;
}

static bool takes_part(const line *l, bool words) {
  if (l->class == LINE_COMMENT) return false;
  if (!words) return l->sign > 0;
  if (l->class == LINE_SETTING)
    return l->word_end <= SETTING_WIDTH_MAX && strchr(l->text + l->word_end, '{') == NULL;
  return l->word_end > 0;
}

// Moves what stands behind the first word, or the sign, of lines [from, to) to one column.
static void align_group(arena *a, lines *all, int from, int to, bool words) {
  int widest = 0, narrowest = 1 << 20;
  for (int i = from; i < to; i++) {
    line *l = &all->items[i];
    if (!takes_part(l, words)) continue;
    int at = words ? l->word_end : l->sign;
    if (at > widest) widest = at;
    if (at < narrowest) narrowest = at;
  }
  if (widest - narrowest > SPREAD_MAX) return;
  for (int i = from; i < to; i++) {
    line *l = &all->items[i];
    int at = words ? l->word_end : l->sign;
    if (takes_part(l, words) && at < widest) insert_spaces(a, l, at, widest - at);
  }
}

// Comments behind the text of neighbouring lines start in one column.
static void align_comments(arena *a, lines *all) {
  for (int i = 0; i < all->count;) {
    int end = i, widest = 0;
    for (; end < all->count && all->items[end].comment; end++) {
      const line *l = &all->items[end];
      if (end > i && (l->blank_before || l->indent != all->items[i].indent)) break;
      int width = characters(l->text);
      if (width > widest) widest = width;
    }
    for (int k = i; k < end; k++) {
      line *l = &all->items[k];
      int gap = widest - characters(l->text) + COMMENT_GAP;
      l->comment = arena_printf(a, "%*s%s", gap, "", l->comment);
    }
    i = end > i ? end : i + 1;
  }
}

void align_lines(arena *a, lines *all) {
  for (int i = 0; i < all->count;) {
    line_class class = all->items[i].class;
    int end = class == LINE_OTHER || class == LINE_COMMENT ? i + 1 : group_end(all, i);
    if (class == LINE_DECLARATION || class == LINE_SETTING) align_group(a, all, i, end, true);
    if (class != LINE_OTHER && class != LINE_COMMENT) align_group(a, all, i, end, false);
    i = end;
  }
  align_comments(a, all);
}
