# What `cmake --install` and `cpack` lay down.
#
#   bin/recc, bin/rec                  share/man/man1, completions of bash, zsh and fish
#   lib/librec.so, include/rec         lib/pkgconfig/rec.pc, share/cmake/rec (find_package(rec))
#   share/rec/stdlib, share/rec/examples, share/rec/kernels (where the target `kernels` was made), share/doc/rec
#   share/rec/editors: files for VS Code, Vim, Neovim and tree-sitter
#
# The Debian package has another choice of these, by components: tools/cmake/debian.cmake says which and why.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
include(library)
include(manual)
make_manual(recc recc)
make_manual(rec rec)
make_manual(rec-lang rec)

# The documents, and what they link to where the links say. Further words are those of install().
function(install_documents destination)
  install(FILES README.md compiler/LANGUAGE.md DESTINATION ${destination} ${ARGN})
  foreach(document compiler/bindings/README.md examples/01_lm/positions.svg tools/editors/README.md tools/python/README.md
      tools/python/rec_lang/transformers/README.md)
    get_filename_component(folder ${document} DIRECTORY)
    install(FILES ${document} DESTINATION ${destination}/${folder} ${ARGN})
  endforeach()
endfunction()

# ---- the programs ----------------------------------------------------------------------------------------------------------

# They find LLVM where it was linked from, unless the loader looks there anyway.
find_library(LLVM_WHERE_THE_LOADER_LOOKS NAMES LLVM-22 LLVM)
if(NOT LLVM_WHERE_THE_LOADER_LOOKS AND NOT REC_STATIC)
  set_target_properties(recc PROPERTIES INSTALL_RPATH ${LLVM_LIBDIR})
endif()
install(TARGETS recc rec RUNTIME COMPONENT programs)
install(DIRECTORY stdlib examples DESTINATION ${CMAKE_INSTALL_DATADIR}/rec COMPONENT programs
  PATTERN "*.so" EXCLUDE PATTERN "runs" EXCLUDE PATTERN "__pycache__" EXCLUDE)
install(DIRECTORY tools/editors DESTINATION ${CMAKE_INSTALL_DATADIR}/rec COMPONENT programs)
install(DIRECTORY ${CMAKE_BINARY_DIR}/kernels/ DESTINATION ${CMAKE_INSTALL_DATADIR}/rec/kernels COMPONENT programs OPTIONAL)
install_manual(recc site-functions COMPONENT manual)
install_manual(rec site-functions COMPONENT manual)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT manual)
install_documents(${CMAKE_INSTALL_DOCDIR} COMPONENT manual)

# ---- the library -----------------------------------------------------------------------------------------------------------

install(TARGETS librec_shared LIBRARY COMPONENT library)
install(FILES ${REC_INCLUDE}/rec.h ${REC_INCLUDE}/launch.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/rec COMPONENT library)
file(RELATIVE_PATH PREFIX_FROM_PKGCONFIG /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(tools/cmake/rec.pc.in rec.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/rec.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)

# ---- find_package(rec) -----------------------------------------------------------------------------------------------------

configure_file(tools/cmake/rec-config.cmake.in rec-config.cmake @ONLY)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/rec-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/rec-config.cmake ${CMAKE_BINARY_DIR}/rec-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_DATADIR}/cmake/rec COMPONENT programs)
