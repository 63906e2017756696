# The tables of one example from the rows that tools/figures collects. A cell is the median over the seeds and, in brackets, the
# least and the largest. The columns are the evaluate blocks of the program in their order; for tasks, the rows are the blocks.
#
#   accuracy 1 of_base 20 0.5 0.1 ..     | answers right | length 20              |
#   accuracy 2 of_base 20 0.7 0.2 ..     |---------------|------------------------|
#                                        | `of_base`     | 0.600 (0.500 .. 0.700) |
#
# Words of a row: FILE SEED ARM and the columns of the CSV file of that name.

function keep(table, row, arm, seed, value) {
  if (!((table, row) in order)) { order[table, row] = ++rows[table]; label[table, rows[table]] = row }
  value_of[table, row, arm, seed] = value
  has[table, arm] = 1
}

$1 == "arm" { arms++; arm[arms] = $3; next }
$1 == "seconds" { seeds++; seed[seeds] = $2; taken += $4; text_name = $5; next }
$1 == "ranges" { keep("bits", $4 " .. " $5, $3, $2, $6); next }
$1 == "verdict" { context = $4; at[$3, $2] = $5; keep("reach", "generalises in length to", $3, $2, $7); next }
$1 == "accuracy" { keep("right", "length " $4, $3, $2, $5); keep("exact", "length " $4, $3, $2, $6); next }
$1 == "steps" { keep("steps", "steps to half the loss", $3, $2, $4 == "inf" ? 1e301 : $4); next }
$1 == "attention_found" { keep("found", "M of `" $4 "` leads to", $3, $2, $5); next }
$1 == "accuracy_depth" { keep("depth", $4 ", depth " $5 " .. " $6, $3, $2, $7); next }
$1 == "remembrance" { keep("remembrance", $4, $3, $2, $5); next }
$1 == "overflow" { keep("growth", $4 ", head " $5, $3, $2, $10 == "inf" ? 1e301 : $10); next }
$1 == "state_norm" { keep("norm", "layer " $5 ", position " $4, $3, $2, $8); next }

# Places after the point that show the number.
function text(x, table) {
  if (table == "reach" || table == "steps") return x > 1e300 ? "none" : sprintf("%d", x)
  if (table == "growth") return x > 1e300 ? "grows" : sprintf("%.3g", x)
  if (table == "norm") return sprintf("%.2f", x)
  return sprintf("%.3f", x)
}

function cell(table, row, arm, n, i, k, x, sorted) {
  n = 0
  for (i = 1; i <= seeds; i++) {
    if (!((table, row, arm, seed[i]) in value_of)) continue
    x = value_of[table, row, arm, seed[i]] + 0
    for (k = n++; k > 0 && sorted[k] > x; k--) sorted[k + 1] = sorted[k]
    sorted[k + 1] = x
  }
  if (!n) return ""
  x = n % 2 ? sorted[(n + 1) / 2] : (sorted[n / 2] + sorted[n / 2 + 1]) / 2
  return text(x, table) (n > 1 ? " (" text(sorted[1], table) " .. " text(sorted[n], table) ")" : "")
}

# Rows that the page shows: of many positions some.
function shown(table, row) {
  if (table == "norm") { sub(/.* /, "", row); return row == 32 || row == 256 || row == 4096 }
  if (table == "remembrance") return row == 32 || row == 128 || row == 240 || row == 256 || row == 384 || row == 480
  return 1
}

function print_table(table, first, i, line, rule, found) {
  for (i = 1; i <= arms; i++) found += has[table, arm[i]]
  if (!found) return
  line = "| " first " |"
  rule = "|---|"
  for (i = 1; i <= arms; i++)
    if (has[table, arm[i]]) { line = line " `" arm[i] "` |"; rule = rule "---|" }
  print "\n" line "\n" rule
  for (found = 1; found <= rows[table]; found++) {
    if (!shown(table, label[table, found])) continue
    line = "| " label[table, found] " |"
    for (i = 1; i <= arms; i++)
      if (has[table, arm[i]]) line = line " " cell(table, label[table, found], arm[i]) " |"
    print line
  }
}

# The tables named, side by side, with a line for each arm.
function print_by_arm(tables, first, i, k, n, j, name, line, rule, cells, found) {
  n = split(tables, name, " ")
  line = "| " first " |"
  rule = "|---|"
  for (k = 1; k <= n; k++)
    for (j = 1; j <= rows[name[k]]; j++) { line = line " " label[name[k], j] " |"; rule = rule "---|" }
  for (i = 1; i <= arms; i++) {
    cells = ""
    found = 0
    for (k = 1; k <= n; k++) {
      found += has[name[k], arm[i]]
      for (j = 1; j <= rows[name[k]]; j++) cells = cells " " cell(name[k], label[name[k], j], arm[i]) " |"
    }
    if (!found) continue
    if (line) print "\n" line "\n" rule
    line = ""
    print "| `" arm[i] "` |" cells
  }
}

# What an arm does to the gap of the first one, by seed. The gap is the bits at a range, less the first arm's in the second half
# of the context.
function compare(far, i, k, s, base, row, gap) {
  base = arm[1]
  row = 16 * context " .. " 32 * context
  for (i = 2; i <= arms; i++)
    for (k = 1; k <= seeds; k++) {
      s = seed[k]
      if (!((base, s) in at) || !((arm[i], s) in at) || !(("bits", row, base, s) in value_of)) continue
      gap = value_of["bits", row, base, s] - at[base, s]
      if (gap > 0) keep("gap", "share of the gap of `" base "` at " row " removed", arm[i], s, 1 - (value_of["bits", row, arm[i], s] - at[base, s]) / gap)
      keep("gap", "bits more in the second half of the context", arm[i], s, at[arm[i], s] - at[base, s])
    }
}

END {
  list = seed[1]
  for (i = 2; i <= seeds; i++) list = list ", " seed[i]
  printf("\nSeed%s %s%s; %d seconds each. %s are `evaluate` blocks%s.\n", seeds > 1 ? "s" : "", list,
    rows["bits"] ? ", text: `" text_name "`" : "", taken / seeds + 0.5, rows["bits"] ? "Columns" : "Lines", seeds > 1 ? ", cells the median over the seeds (least .. largest)" : "")
  compare()
  print_table("bits", "positions, bits a byte")
  print_table("reach", "verdict")
  print_table("gap", "against `" arm[1] "`")
  print_by_arm("right", "answers right")
  print_by_arm("exact", "sequences without a wrong answer")
  print_by_arm("steps found", "answers")
  print_table("depth", "length and depth, answers right")
  print_table("remembrance", "effective remembrance without the first")
  print_table("norm", "norm of the state")
  print_table("growth", "bound of a state, any length")
  print ""
}
