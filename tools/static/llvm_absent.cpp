// What lld names but recc never needs, for programs that hold LLVM themselves (REC_STATIC): the code generators of other
// processors, which lld sets up before it links, and Polly, which Debian's LLVM adds to link-time optimisation.
#include "llvm/Plugins/PassPlugin.h"

#define ABSENT(target)                                    \
  extern "C" void LLVMInitialize##target##TargetInfo() {} \
  extern "C" void LLVMInitialize##target##Target() {}     \
  extern "C" void LLVMInitialize##target##TargetMC() {}   \
  extern "C" void LLVMInitialize##target##AsmPrinter() {} \
  extern "C" void LLVMInitialize##target##AsmParser() {}
ABSENT_TARGETS

llvm::PassPluginLibraryInfo getPollyPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "absent", "", [](llvm::PassBuilder &) {}};
}
