autocmd BufNewFile,BufRead *.rec setfiletype rec
