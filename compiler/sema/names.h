// Where names stand in the text, and what each means there: kept for editors, by the code that
// resolves names.
//
//   recurrence r(K = 4) {           r          recurrence, declared here
//     input k[K]                    k, K, K    input [K = 4], axis of 4 entries
//     let a = 2 * k                 a, k       let [K = 4]; k is declared on line 2
#pragma once

#include "compiler/sema/name_map.h"
#include "compiler/sema/typed.h"

typedef struct name_use {
  span where;                   // the name in the text
  span declared;                // the name in its declaration, the same text or another one
  const char *name, *kind;      // interned; "state", "axis", "layer"
  const struct symbol *symbol;  // of a body; NULL: an item, or a name about which no more is known
  const typed_body *body;       // of the symbol
  const ast_item *item;         // an item; NULL: a name of a body
} name_use;

typedef struct name_uses {
  arena *memory;
  VEC(name_use) list;  // each place of a text once
  name_map places;
} name_uses;

name_uses *name_uses_new(arena *memory);

// What stands at a place of a source (its id), which may be that behind the last letter; NULL: no
// known name.
const name_use *name_uses_at(const name_uses *all, uint32_t text, uint32_t offset);
// Its declaration; NULL if that has not been looked at.
const name_use *name_uses_declaration(const name_uses *all, const name_use *use);

// "state S[H,K = 16,V = 16]", "let a[H] : complex", "axis K = 16".
char *name_use_text(arena *memory, const name_use *use);
// The position of the tensor in the body, or -1.
int name_use_tensor(const name_use *use);
