# Of the types of recurrences (recc --emit=types), with -v module=NAME of the standard library: for each a program NAME.rec that trains
# a model of two of its layers in four segments. Inputs are small, so that no decay of any kind grows.
function size(axis, given) {
  if (given ~ /^[0-9]+$/ && given < 5) return given
  return axis == "H" || axis == "R" ? 2 : 4
}
function has(axes, axis) { return axes ~ "[[,]" axis "[],]" }
/^recurrence/ {
  name = $2; sub(/\(.*/, "", name)
  text = $0; sub(/^[^(]*\(/, "", text); sub(/\).*/, "", text)
  count = split(text, axes, /, */)
  sizes = inputs = call = inside = ""
  for (i = 1; i <= count; i++) { split(axes[i], part, / *= */); axes[i] = part[1]; of[part[1]] = size(part[1], part[2]) }
}
/^  input/ {
  who = $2; sub(/\[.*/, "", who)
  inputs = inputs (inputs ? ", " : "") $2
  call = call (call ? ", " : "") "0.1 * " who
  inside = inside $2
}
/^  output/ {
  for (i = 1; i <= count; i++) {
    if (has(inside, axes[i]) || has($2, axes[i])) sizes = sizes ", " axes[i] " = " of[axes[i]]
    if (!has(inside, axes[i])) call = call ", " axes[i] " = " of[axes[i]]
  }
  file = name ".rec"
  print "import std." module > file
  print "layer Any(U" sizes ") {\n  input u[U]\n  let (" inputs ") = linear(u, name = \"in\")" > file
  print "  output w[U] = linear(" name "(" call "), name = \"out\")\n}" > file
  print "model LM(vocab = 256, U = 8) {\n  input token\n  let x0[U] = embed(token, vocab)" > file
  print "  let x1 = repeat 2 (x = x0) { x + Any(rms_norm[U](x)) }\n  output logits[vocab] = unembed(rms_norm[U](x1))\n}" > file
  print "train base {\n  model LM\n  data text(\"text.txt\", order = streaming)" > file
  print "  context 512  batch 2  steps 3  segments 4\n  optimizer adamw(lr = 1e-2)" > file
  print "  initial_state mix { 0.7: tbtt, 0.3: learned }\n}" > file
}
