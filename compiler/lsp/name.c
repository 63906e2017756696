// Names of a text: what sema noted about the present one, or about the last one without errors.
#include <string.h>

#include "compiler/lsp/server.h"

// An edit lies between the beginning and the end that two texts share.
typedef struct change {
  uint32_t begin, old_end, new_end;
} change;

static change change_between(const source *old, const source *new) {
  uint32_t shorter = old->size < new->size ? old->size : new->size, first = 0, last = 0;
  while (first < shorter && old->text[first] == new->text[first]) first++;
  while (last < shorter - first &&
         old->text[old->size - 1 - last] == new->text[new->size - 1 - last])
    last++;
  return (change){first, old->size - last, new->size - last};
}

static const name_use *use_at(const lsp_analysis *a, uint32_t offset) {
  return a->text ? name_uses_at(a->uses, a->text->id, offset) : NULL;
}

lsp_named lsp_name_at(const lsp_question *q) {
  lsp_named found = {q->analysis, use_at(q->analysis, q->offset)};
  const lsp_analysis *good = q->document->good;
  if (found.use || !good || good == q->analysis || !q->analysis->text) return found;
  change c = change_between(good->text, q->analysis->text);
  if (q->offset > c.begin && q->offset < c.new_end) return found;
  uint32_t offset = q->offset <= c.begin ? q->offset : q->offset - c.new_end + c.old_end;
  const name_use *use = use_at(good, offset);
  // The edit may have changed the name itself.
  if (use && lsp_present(q, good, use->where).source) found = (lsp_named){good, use};
  return found;
}

span lsp_present(const lsp_question *q, const lsp_analysis *a, span where) {
  if (a == q->analysis || !a->text || where.source != a->text->id) return where;
  change c = change_between(a->text, q->analysis->text);
  if (where.end <= c.begin) return where;
  if (where.begin < c.old_end) return (span){0};
  where.begin += c.new_end - c.old_end;
  where.end += c.new_end - c.old_end;
  return where;
}
