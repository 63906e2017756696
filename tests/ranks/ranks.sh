# For the checks of this folder, which read it first: . tests/ranks/ranks.sh, with their arguments, BUILD [full].
#
# `$mpis` names the MPI libraries that are here, `$first` one of them: open (Open MPI), mpich (MPICH), standard (the ABI of MPI-5,
# which MPICH has). The checks run in a folder of their own, `$work`.
cd "$(dirname "$0")/../.." || exit 2
root=$PWD build=$PWD/$1 full=
[ "$2" != full ] || full=full
rec=$build/bin/rec recc=$build/bin/recc wire=$build/tests/rec-wire
: "${REC_SEED:=$(date +%s)}"
export REC_SEED
work=$(mktemp -d) || exit 2
child=
# A launcher that is told to end takes its ranks along.
trap '[ -z "$child" ] || kill "$child" 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
passed=0 failed=0

# result NAME STATUS: counts one test; the end of what the command said is shown if it failed.
result() {
  if [ "$2" -eq 0 ]; then passed=$((passed + 1)); return; fi
  failed=$((failed + 1))
  echo "FAILED ranks/$1"
  tail -n 15 "$work/out" 2>/dev/null
}
finish() {
  echo "$passed passed, $failed failed"
  [ "$failed" -eq 0 ]
  exit
}

# A build with sanitizers tells of leaks, but not of those of MPI libraries. Their calls are seen in whole stacks alone.
ASAN_OPTIONS="${ASAN_OPTIONS:-detect_leaks=1}:fast_unwind_on_malloc=0"
LSAN_OPTIONS="suppressions=$root/tests/ranks/leaks.txt:print_suppressions=0"
export ASAN_OPTIONS LSAN_OPTIONS

# ---- the libraries and their launchers ------------------------------------------------------------------------------

# More ranks than processors, started by root, as tests are in containers. The ranks of Open MPI 5 read the names of PRTE.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
  OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PRTE_MCA_hwloc_default_binding_policy=none
unset REC_MPI REC_PATIENCE
mpich=$root/build/mpi
mpis=
case $(mpirun --version 2>/dev/null) in
  *"Open MPI"*) mpis=open ;;
  *) echo "without Open MPI: no mpirun of it is in the path (tools/setup)" ;;
esac
if [ -e "$mpich/complete" ]; then mpis="$mpis mpich standard"; else echo "without MPICH: it is not in build/mpi (tools/setup)"; fi
[ -n "$mpis" ] || finish
first=${mpis%% *}

# with MPI COMMAND..: the launcher of this library is `mpirun`, and rec opens this library.
with() {
  case $1 in
    open) shift; "$@" ;;
    mpich) shift; PATH=$mpich/bin:$PATH REC_MPI=$mpich/lib/libmpi.so.12 "$@" ;;
    standard) shift; PATH=$mpich/bin:$PATH REC_MPI=$mpich/lib/libmpi_abi.so.1 "$@" ;;
  esac
}

# Each rank leaves the number of its process in pids/RANK, and becomes the command. $BEFORE_N: what rank N does first.
cat >"$work/rank" <<'END'
#!/bin/sh
number=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
echo $$ >"pids/$number.part" && mv "pids/$number.part" "pids/$number"
eval "eval \"\$BEFORE_$number\""
exec "$@"
END
chmod +x "$work/rank"
cd "$work" || exit 2

# ranks MPI COUNT COMMAND..: runs the command as so many ranks; without a launcher if it is one.
ranks() {
  mpi=$1 count=$2
  shift 2
  rm -rf pids && mkdir pids
  if [ "$count" = 1 ]; then "$@"; else with "$mpi" mpirun -n "$count" ./rank "$@"; fi
}
# started COUNT..: as `ranks`, in the background; $child is the launcher, `pid N` the process of rank N once it has one.
started() {
  mpi=$1 count=$2
  shift 2
  rm -rf pids && mkdir pids
  with "$mpi" exec mpirun -n "$count" ./rank "$@" >started 2>&1 &
  child=$!
}
pid() { cat "pids/$1" 2>/dev/null; }
# How the launcher ended.
ended() {
  wait "$child"
  ended=$?
  child=
  return $ended
}
# gone SECONDS: none of the ranks is left within this time. A process that has ended, and which nobody has asked about, runs nothing.
gone() {
  end=$(($(date +%s) + $1))
  while [ "$(date +%s)" -le $end ]; do
    left=
    for file in pids/*; do readlink "/proc/$(cat "$file")/exe" >/dev/null 2>&1 && left=yes; done
    [ "$left" ] || return 0
    sleep 0.05
  done
  return 1
}

# drawn COUNT: a random number below COUNT. The next call draws another.
state=$REC_SEED
drawn() {
  state=$((state * 6364136223846793005 + 1442695040888963407))
  drawn=$((((state >> 33) & 0x3fffffff) % $1))
}

# ---- trainings ------------------------------------------------------------------------------------------------------

# compiled NAME: NAME.so of tests/ranks/NAME.rec and the text that it reads.
compiled() {
  cat "$root"/stdlib/*.rec "$root"/compiler/*.md >text.txt
  "$recc" "$root/tests/ranks/$1.rec" --target "$("$root/tests/tools/processor")" -O1 -o "$1.so"
}
# The bytes of text.txt as tokens of 16 bits.
tokens() { LC_ALL=C sed 's/./&\x00/g; 2,$s/^/\x00/' text.txt | head -c 200000; }
# same RUNS RUNS: two trainings have the same weights, checkpoint and log, but for the speed.
same() {
  for block in "$1"/*/; do
    other=$2/${block#"$1/"}
    cmp "$block/model.safetensors" "$other/model.safetensors" && cmp "$block/checkpoint.safetensors" "$other/checkpoint.safetensors" || return 1
    for run in "$block" "$other"; do sed 's/"tokens_per_second":[0-9]*//' "$run/log.jsonl" >"$run/log.same" || return 1; done
    cmp "$block/log.same" "$other/log.same" || return 1
  done
}
# steps RUNS BLOCK: how many steps the log has.
steps() { wc -l 2>/dev/null <"$1/$2/log.jsonl" || echo 0; }
# until_step RUNS BLOCK STEP: waits until the log has that many, or until the launcher has ended.
until_step() {
  while [ "$(steps "$1" "$2")" -lt "$3" ] && kill -0 "$child" 2>/dev/null; do sleep 0.01; done
  kill -0 "$child" 2>/dev/null
}
