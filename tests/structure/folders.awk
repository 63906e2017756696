# The folder whose place among the others limits.txt has: of the compiler a folder with all below it, of the runtime every folder by
# itself, tools/ as one.
#
#   compiler/lower/gpu/mma.c -> compiler/lower; compiler/passes.h -> compiler; runtime/train/model/pool.c -> runtime/train/model
function folder_of(file) {
  sub(/\/[^\/]*$/, "", file)
  if (file ~ /^compiler\//) sub(/^compiler\/[^\/]*/, "&\n", file)
  if (file ~ /^tools\//) sub(/^tools/, "&\n", file)
  sub(/\n.*/, "", file)
  return file
}
