# Packages of what install.cmake lays down: an archive by default, and a Debian package by `cpack -G DEB`.
#
# /usr/bin/rec is sox's, and librec.so and librec-dev are those of GNU recutils. A package must not take the names of others for
# another purpose, and one that conflicts with sox would be refused by many. So the Debian package is called rec-lang, its command
# /usr/bin/rec-lang beside /usr/bin/recc, its manual page and completions likewise, and librec is left out.
set(CPACK_GENERATOR TGZ)
set(CPACK_PACKAGE_CONTACT "The authors of rec <maintainers@rec-lang.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "language and compiler for linear-recurrent sequence layers")
set(CPACK_PACKAGE_DESCRIPTION "A .rec file says a recurrence, its layer and its model once. The compiler
recc finds its structure, derives the chunked forward and backward, and
writes a shared library with plain C entry points, for CPUs and NVIDIA GPUs.
The command rec-lang trains, judges and samples such models, and checks any
kernel against a double-precision interpreter.")
set(CPACK_STRIP_FILES ON)
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_SOURCE_DIR}/tools/cmake/package_debian.cmake)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_NAME rec-lang)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS gnuplot-nox)  # the pictures of reports
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "pkg-config, cmake, python3")
set(CPACK_REC_DEBIAN_FILES ${CMAKE_SOURCE_DIR}/tools/cmake/package_debian_files.cmake)
install_manual(rec-lang vendor-completions COMPONENT debian EXCLUDE_FROM_ALL)
install_manual(recc vendor-completions COMPONENT debian EXCLUDE_FROM_ALL)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/rec-lang RENAME copyright COMPONENT debian EXCLUDE_FROM_ALL)
install_documents(${CMAKE_INSTALL_DATADIR}/doc/rec-lang COMPONENT debian EXCLUDE_FROM_ALL)
install(DIRECTORY tools/python/rec_lang DESTINATION lib/python3/dist-packages COMPONENT debian EXCLUDE_FROM_ALL
  PATTERN "__pycache__" EXCLUDE)
include(CPack)
