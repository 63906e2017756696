return {cmd = {'rec', 'lsp'}, filetypes = {'rec'}, root_markers = {'.git'}}
