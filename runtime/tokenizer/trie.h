// Texts as a trie: from a text, or its longest beginning that is there, to a number.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Nodes are numbers; 0 is the root. The edges are a hash table by node and byte, those of the root
// a table.
typedef struct trie {
  uint64_t *edges;  // 32 bits of node and byte, 32 of the child; 0: free
  size_t edge_room;
  int32_t *values;  // of nodes; -1: no text ends here
  size_t node_count, node_room;
  int32_t first[256];
} trie;

bool trie_open(trie *t);
void trie_close(trie *t);
// The value that the text had (-1: none), and now has; -2: no memory, or too many texts.
int32_t trie_put(trie *t, const char *bytes, size_t size, int32_t value);

// The node behind a node by a byte; 0: none.
int32_t trie_next(const trie *t, int32_t node, unsigned char byte);
int32_t trie_find(const trie *t, const char *bytes, size_t size);  // the value, or -1
// The value and length of the longest text that the bytes begin with; -1: none.
int32_t trie_longest(const trie *t, const char *bytes, size_t size, size_t *length);
