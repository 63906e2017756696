# Headers of other folders that files include, from what `grep -Ho '^#include "compiler/..."'` prints. Behind folders.awk.
#
#   input      compiler/FOLDER/NAME.c:#include "compiler/FOLDER/NAME.h"
#   output     include FOLDER FOLDER FILE HEADER

{
  file = header = $0
  sub(/:.*/, "", file)
  sub(/^[^"]*"/, "", header); sub(/"$/, "", header)
  if (folder_of(file) != folder_of(header)) print "include", folder_of(file), folder_of(header), file, header
}
