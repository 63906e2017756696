// rec lsp: the language server, for editors.
#include <stdlib.h>
#include <unistd.h>

#include "compiler/lsp/server.h"
#include "runtime/command/command.h"

typedef struct lsp_request {
  bool stdio;
} lsp_request;

#define REQUEST lsp_request
static const option options[] = {
    FLAG("--stdio", stdio, "speak over standard input and output; it does so without being asked"),
    OPTIONS_END};

static int serve(words *w) {
  lsp_request r = {0};
  if (read_options(w, options, &r)) return EXIT_USAGE;
  if (w->given_count)
    return usage_error(w, "expected no file, found `%s`: editors send the texts", w->given[0]);
  lsp_input in = {.file = STDIN_FILENO};
  int status = lsp_serve(&in, stdout);
  free(in.bytes);
  return status;
}

const subcommand lsp_command = {
    .name = "lsp",
    .purpose = "serves an editor: messages, hovers, completions",
    .synopsis = "",
    .text =
        "A server of the Language Server Protocol: the messages of recc as one types, with what "
        "mends them; hovers with axes,\n"
        "types and the structure of states; definitions, references, completion, outlines, the "
        "standard layout (rec fmt).\n"
        "An installation has files for VS Code, Vim, Neovim and tree-sitter in "
        "share/rec/editors.\n",
    .options = options,
    .run = serve,
};
