// SPDX-License-Identifier: Apache-2.0
//
// CompileTarget: the world for which steps are compiled, and the ops, kernels and passes to use.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_COMPILE_TARGET_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_COMPILE_TARGET_H_

#include <vector>

#include "framework/compiler/compilation.h"
#include "framework/compiler/pass.h"

namespace mirrorflow {

struct CompileTarget {
  const OpRegistry* ops = nullptr;
  const KernelRegistry* kernels = nullptr;  // for the devices and the host
  std::vector<PassMaker> passes = {};       // user-defined, for the first half of the compiler
  World world;                              // its size, its domains and the link between them
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_COMPILE_TARGET_H_
