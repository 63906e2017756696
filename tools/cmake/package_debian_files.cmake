# The files of the Debian package before they are packed: names, compression, licence and changelog as its policy asks.
set(usr ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr)
file(RENAME ${usr}/bin/rec ${usr}/bin/rec-lang)
file(GLOB pages ${usr}/share/man/man1/*.1)
foreach(page ${pages})
  execute_process(COMMAND gzip -9n ${page} COMMAND_ERROR_IS_FATAL ANY)
endforeach()

# The text of the licence itself is Debian's; what rec adds to it stands here.
set(documents ${usr}/share/doc/rec-lang)
file(READ ${documents}/copyright license)
string(FIND "${license}" "--- LLVM Exceptions" exceptions)
string(SUBSTRING "${license}" ${exceptions} -1 exceptions)
file(WRITE ${documents}/copyright "rec is free software under the Apache License, Version 2.0, with LLVM Exceptions
(SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception).

Copyright 2026 The authors of rec

On Debian systems, the text of the Apache License, Version 2.0, is in
/usr/share/common-licenses/Apache-2.0.

${exceptions}")

string(TIMESTAMP day "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(WRITE ${documents}/changelog "rec-lang (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * Version ${CPACK_PACKAGE_VERSION}.

 -- ${CPACK_PACKAGE_CONTACT}  ${day}
")
execute_process(COMMAND gzip -9n ${documents}/changelog COMMAND_ERROR_IS_FATAL ANY)
