#include "compiler/lsp/server.h"

const lsp_word lsp_words[] = {
#define WORD(kind, name, signature, text) {WORD_##kind, name, signature, text},
#include "compiler/lsp/words.def"
#undef WORD
    {WORD_KINDS, NULL, NULL, NULL}};

unsigned lsp_kind_bit(lsp_word_kind kind) { return 1u << kind; }
