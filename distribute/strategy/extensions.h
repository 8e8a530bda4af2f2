// SPDX-License-Identifier: Apache-2.0
//
// Extensions: a user's ops, kernels and passes, in addition to the built-in ones.
//
//   Extensions extensions;
//   extensions.ops().Define("Swish").Doc(…).Input("x: T").Output("y: T")…;
//   extensions.kernels().Register("Swish", "CPU", MakeSwish);
//   extensions.AddPass<DropDoubleSwish>();
//   MF_ASSIGN_OR_RETURN(auto strategy, MirroredStrategy::Create({.extensions = &extensions}));
//   Output y = scope.Build(extensions.ops(), "Swish").Input(x).One();
#ifndef MIRRORFLOW_DISTRIBUTE_STRATEGY_EXTENSIONS_H_
#define MIRRORFLOW_DISTRIBUTE_STRATEGY_EXTENSIONS_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "framework/compiler/pass.h"
#include "framework/graph/op_registry.h"
#include "framework/runtime/kernel_registry.h"

namespace mirrorflow {

// Add all ops, kernels and passes before you create a strategy. The object must outlive all graphs,
// strategies and sessions that use it.
class Extensions {
 public:
  Extensions();
  Extensions(const Extensions&) = delete;
  Extensions& operator=(const Extensions&) = delete;

  // Returns the registry of built-in and user-defined ops; call Define on it to add an op. To read
  // a graph that contains user-defined ops, call ReadGraphFile(path, extensions.ops()).
  OpRegistry& ops() { return ops_; }
  const OpRegistry& ops() const { return ops_; }

  // Returns the registry of built-in and user-defined kernels; call Register on it to add a kernel.
  KernelRegistry& kernels() { return kernels_; }
  const KernelRegistry& kernels() const { return kernels_; }

  // Adds a pass that rewrites each step's graph while its shapes are still global. It runs before
  // the built-in simplifications and before sharding, when all shapes are known (kShapesKnown in
  // compilation.h). `P` must have a default constructor. Passes run in the order of these calls.
  template <typename P>
  void AddPass() {
    passes_.push_back([] { return std::unique_ptr<Pass>(std::make_unique<P>()); });
  }
  const std::vector<PassMaker>& passes() const { return passes_; }

  // Returns InvalidArgument, listing everything that is missing, malformed or defined twice. The
  // Create function of each strategy calls this.
  absl::Status Check() const;

 private:
  OpRegistry ops_;
  KernelRegistry kernels_;
  std::vector<PassMaker> passes_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_STRATEGY_EXTENSIONS_H_
