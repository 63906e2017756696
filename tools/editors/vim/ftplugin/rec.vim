" Neovim 0.11 finds lsp/rec.lua: `:lua vim.lsp.enable('rec')` starts `rec lsp`. For older ones:
"   autocmd FileType rec lua vim.lsp.start({name = 'rec', cmd = {'rec', 'lsp'}})
if exists('b:did_ftplugin')
  finish
endif
let b:did_ftplugin = 1
setlocal commentstring=//\ %s comments=:///,:// expandtab shiftwidth=2 softtabstop=2 suffixesadd=.rec
setlocal formatprg=rec\ fmt\ -
let b:undo_ftplugin = 'setlocal commentstring< comments< expandtab< shiftwidth< softtabstop< suffixesadd< formatprg<'
