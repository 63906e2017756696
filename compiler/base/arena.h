// Memory whose lifetime has a name: everything allocated from an arena is freed with it, in one
// call. Passes allocate from the arena they are given and never free.
#pragma once

#include <stdarg.h>
#include <stddef.h>

typedef struct arena arena;

arena *arena_new(void);
void arena_free(arena *a);  // NULL is allowed

// Ends the process with that message.
_Noreturn void out_of_memory(void);

// What `from` holds lives as long as what `a` holds; `from` ends.
void arena_adopt(arena *a, arena *from);

// Zeroed memory, aligned for every type. Never NULL: running out of memory ends the process with a
// message. A size of 0 gives a pointer that is valid and distinct from NULL.
void *arena_alloc(arena *a, size_t size);

// As arena_alloc for `count` elements of `size` bytes; an overflow of the product counts as out of
// memory.
void *arena_alloc_array(arena *a, size_t count, size_t size);

char *arena_strdup(arena *a, const char *text);
char *arena_strndup(arena *a, const char *text, size_t length);
char *arena_printf(arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *arena_vprintf(arena *a, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

#define ARENA_NEW(a, T) ((T *)arena_alloc((a), sizeof(T)))
#define ARENA_ARRAY(a, T, n) ((T *)arena_alloc_array((a), (size_t)(n), sizeof(T)))
