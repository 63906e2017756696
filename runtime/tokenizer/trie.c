#include "runtime/tokenizer/trie.h"

#include <stdlib.h>

#include "runtime/tokenizer/text.h"

enum { MOST_NODES = 1 << 24 };  // so that node and byte have 32 bits

static size_t edge_slot(const trie *t, uint32_t key) {
  return (key * 0x9e3779b97f4a7c15u >> 20) & (t->edge_room - 1);
}

int32_t trie_next(const trie *t, int32_t node, unsigned char byte) {
  if (!node) return t->first[byte];
  uint32_t key = (uint32_t)node << 8 | byte;
  for (size_t i = edge_slot(t, key); t->edges[i]; i = (i + 1) & (t->edge_room - 1))
    if (t->edges[i] >> 32 == key) return (int32_t)t->edges[i];
  return 0;
}

static void put_edge(trie *t, uint64_t edge) {
  size_t i = edge_slot(t, (uint32_t)(edge >> 32));
  while (t->edges[i]) i = (i + 1) & (t->edge_room - 1);
  t->edges[i] = edge;
}

// At most half of the places are taken.
static bool grow_trie(trie *t) {
  trie old = *t;
  t->edge_room = old.edge_room ? 2 * old.edge_room : 1024;
  t->edges = calloc(t->edge_room, sizeof *t->edges);
  if (!t->edges) {
    *t = old;
    return false;
  }
  for (size_t i = 0; i < old.edge_room; i++)
    if (old.edges[i]) put_edge(t, old.edges[i]);
  free(old.edges);
  return true;
}

static bool new_node(trie *t) {
  if (t->node_count == MOST_NODES ||
      !rec_list_grow(&t->values, &t->node_room, t->node_count, 1, sizeof *t->values))
    return false;
  t->values[t->node_count++] = -1;
  return true;
}

bool trie_open(trie *t) {
  *t = (trie){0};
  return grow_trie(t) && new_node(t);
}

void trie_close(trie *t) {
  free(t->edges);
  free(t->values);
  *t = (trie){0};
}

static int32_t add_child(trie *t, int32_t node, unsigned char byte) {
  int32_t child = (int32_t)t->node_count;
  if ((2 * t->node_count >= t->edge_room && !grow_trie(t)) || !new_node(t)) return 0;
  if (node)
    put_edge(t, (uint64_t)((uint32_t)node << 8 | byte) << 32 | (uint32_t)child);
  else
    t->first[byte] = child;
  return child;
}

int32_t trie_put(trie *t, const char *bytes, size_t size, int32_t value) {
  int32_t node = 0;
  for (size_t i = 0; i < size; i++) {
    int32_t next = trie_next(t, node, (unsigned char)bytes[i]);
    node = next ? next : add_child(t, node, (unsigned char)bytes[i]);
    if (!node) return -2;
  }
  int32_t before = t->values[node];
  t->values[node] = value;
  return before;
}

int32_t trie_find(const trie *t, const char *bytes, size_t size) {
  int32_t node = 0;
  for (size_t i = 0; i < size; i++)
    if (!(node = trie_next(t, node, (unsigned char)bytes[i]))) return -1;
  return t->values[node];
}

int32_t trie_longest(const trie *t, const char *bytes, size_t size, size_t *length) {
  int32_t node = 0, found = -1;
  for (size_t i = 0; i < size && (node = trie_next(t, node, (unsigned char)bytes[i])); i++)
    if (t->values[node] >= 0) found = t->values[node], *length = i + 1;
  return found;
}
