# What most scripts `check` share; they source it from the root of the repository, with the build folder as first word:
#
#   cd "$(dirname "$0")/../.." || exit 2
#   . tests/check.sh
#   ok "recc has a version" "$recc" --version
#   finish
#
# $work is a folder that goes in the end, and so does the process $child, where there is one.
root=$PWD
rec=$PWD/$1/bin/rec
recc=$PWD/$1/bin/recc
compare=$PWD/$1/bin/rec-compare
work=$(mktemp -d) || exit 2
child=
trap '[ -z "$child" ] || kill -9 "$child" 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
passed=0 failed=0 full=$2 turn=

pass() { passed=$((passed + 1)); }
fail() {
  failed=$((failed + 1))
  printf 'FAILED: %s\n' "$1"
}

# draws: says by which REC_SEED a run draws, and hands it to the programs that it starts. With the second word `full` nothing is drawn.
draws() {
  [ ! "$full" ] || return 0
  export REC_SEED="${REC_SEED:-$(date +%s)}"
  echo "REC_SEED=$REC_SEED"
}
# drawn EACH: whether this call is one in EACH of all.
drawn() {
  [ ! "$full" ] || return 0
  [ "$turn" ] || { draws && turn=$REC_SEED; }
  turn=$((turn + 1))
  [ $((turn % $1)) = 0 ]
}

# result NAME STATUS: counts one test; what the command said in $work/out is shown if it failed.
result() {
  if [ "$2" -eq 0 ]; then pass; return; fi
  fail "$1"
  tail -n 15 "$work/out" 2>/dev/null
}

# ok NAME COMMAND..: passes if the command succeeds; what it printed is shown if not.
ok() {
  name=$1
  shift
  if "$@" >"$work/output" 2>&1; then pass; return; fi
  fail "$name"
  cat "$work/output"
}

# fails MESSAGE COMMAND..: exit status 2 and one line, in the file out, that holds the message.
fails() {
  message=$1
  shift
  "$@" >out 2>&1
  [ $? -eq 2 ] && [ "$(wc -l <out)" -eq 1 ] && grep -qF -- "$message" out
}

# killed_and_resumed PROGRAM BLOCK RUNS STEP: trains on three threads, killed after the step, resumed to the end.
killed_and_resumed() {
  "$rec" train "$1" "$2" --runs "$3" --threads 3 --checkpoint-steps 1 >out 2>&1 &
  child=$!
  while ! grep -qs "\"step\":$4," "$3/$2/log.jsonl" && kill -0 "$child" 2>/dev/null; do sleep 0.01; done
  kill -9 "$child" 2>/dev/null
  wait "$child" 2>/dev/null
  child=
  "$rec" train "$1" "$2" --runs "$3" --threads 3 --resume >out 2>&1
}
# A number of each line of a log.
field() { sed -n "s/.*\"$1\":\([0-9.e+-]*\).*/\1/p"; }

# counted COMMAND..: adds the counts of a program, whose last line they are; one failure where it was stopped.
counted() {
  "$@" >"$work/said" 2>&1
  counts=$(sed -n '$s/^\([0-9][0-9]*\) passed, \([0-9][0-9]*\) failed$/\1 \2/p' "$work/said")
  [ -n "$counts" ] || { counts="0 1"; echo "FAILED: no counts from $*"; }
  [ "${counts#* }" = 0 ] || cat "$work/said"
  passed=$((passed + ${counts% *})) failed=$((failed + ${counts#* }))
}

finish() {
  echo "$passed passed, $failed failed"
  [ "$failed" -eq 0 ]
  exit
}
