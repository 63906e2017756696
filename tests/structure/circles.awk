# Circles of objects that call each other, and calls between folders, from what `nm -A -P -g` prints of the objects of one program.
#
#   input      PATH/compiler/FOLDER/NAME.c.o: SYMBOL TYPE ..
#   output     circle COUNT FILE ..          each circle of more than one file, the largest first
#              twice SYMBOL FILE FILE        a function of two files: libraries link one of them in silence
#              call FOLDER FOLDER COUNT FILE FILE SYMBOL      calls between two folders, with one of them
# Behind folders.awk, which knows the folder of a file.

{
  file = $1
  sub(/^.*CMakeFiles\/[^\/]*\.dir\//, "", file); sub(/^build\/[^\/]*\//, "", file); sub(/(\.c)?\.o:$/, ".c", file)
  if ($3 == "U") { uses[++use_count] = $2; user[use_count] = file }
  else if ($3 ~ /^[TDBRCVW]$/) {
    if ($2 in owner) print "twice", $2, owner[$2], file
    owner[$2] = file
  }
  if (!(file in seen)) { seen[file]; files[++file_count] = file }
}

# Everything that can be reached from a file, into reach[from, ..].
function spread(from,    top, stack, at, i) {
  stack[top = 1] = from
  while (top) {
    at = stack[top--]
    for (i = 1; i <= callee_count[at]; i++) {
      if ((from, callee[at, i]) in reach) continue
      reach[from, callee[at, i]]
      stack[++top] = callee[at, i]
    }
  }
}

END {
  for (u = 1; u <= use_count; u++) {
    from = user[u]; to = owner[uses[u]]
    if (to == "" || to == from) continue
    f = folder_of(from); t = folder_of(to)
    if (f != t) { if (!calls[f " " t]++) one[f " " t] = from " " to " " uses[u] }
    if ((from, to) in edge) continue
    edge[from, to]; callee[from, ++callee_count[from]] = to
  }
  for (i = 1; i <= file_count; i++) spread(files[i])
  for (i = 1; i <= file_count; i++) {
    a = files[i]
    if (a in done || !((a, a) in reach)) continue
    list = ""; count = 0
    for (j = 1; j <= file_count; j++) {
      b = files[j]
      if ((a, b) in reach && (b, a) in reach) { done[b]; list = list " " b; count++ }
    }
    print "circle " count list
  }
  for (pair in calls) print "call " pair " " calls[pair] " " one[pair]
}
