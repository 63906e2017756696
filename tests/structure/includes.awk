# Headers of other folders that the compiler's files include, from what `grep -Ho '^#include "compiler/..."'` prints.
#
#   input      compiler/FOLDER/NAME.c:#include "compiler/FOLDER/NAME.h"
#   output     include FOLDER FOLDER FILE HEADER

# compiler/lower/gpu/mma.c -> lower; compiler/passes.h -> .
function folder_of(file) { sub(/^compiler\//, "", file); if (file !~ /\//) return "."; sub(/\/.*/, "", file); return file }

{
  file = header = $0
  sub(/:.*/, "", file)
  sub(/^[^"]*"/, "", header); sub(/"$/, "", header)
  if (folder_of(file) != folder_of(header)) print "include", folder_of(file), folder_of(header), file, header
}
