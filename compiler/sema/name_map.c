#include "compiler/sema/name_map.h"

#include <stdint.h>

enum { FIRST_CAPACITY = 32 };

// Open addressing; at most half of the capacity, a power of two, is in use.
static int map_slot(const name_map *map, const void *key) {
  uint64_t hash = (uint64_t)(uintptr_t)key * UINT64_C(0x9E3779B97F4A7C15);
  int mask = map->capacity - 1;
  int i = (int)(hash >> 40) & mask;
  while (map->keys[i] && map->keys[i] != key) i = (i + 1) & mask;
  return i;
}

int name_map_find(const name_map *map, const void *key) {
  if (map->capacity == 0) return -1;
  int i = map_slot(map, key);
  return map->keys[i] ? map->values[i] : -1;
}

static void grow_name_map(arena *memory, name_map *map) {
  name_map larger = {.capacity = map->capacity ? 2 * map->capacity : FIRST_CAPACITY};
  larger.keys = ARENA_ARRAY(memory, const void *, larger.capacity);
  larger.values = ARENA_ARRAY(memory, int, larger.capacity);
  for (int i = 0; i < map->capacity; i++) {
    if (!map->keys[i]) continue;
    int place = map_slot(&larger, map->keys[i]);
    larger.keys[place] = map->keys[i];
    larger.values[place] = map->values[i];
  }
  larger.count = map->count;
  *map = larger;
}

void name_map_set(arena *memory, name_map *map, const void *key, int value) {
  if (2 * (map->count + 1) > map->capacity) grow_name_map(memory, map);
  int i = map_slot(map, key);
  map->count += map->keys[i] == NULL;
  map->keys[i] = key;
  map->values[i] = value;
}
