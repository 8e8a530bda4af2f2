// SPDX-License-Identifier: Apache-2.0
//
// InferAndFold: global shapes and dtypes for this feed signature, folding constants as it goes,
// because shape arithmetic needs both. Afterwards every value has a fully defined shape and every
// static operand is a constant; a graph for which that is impossible has shapes that depend on
// data, which is an error that names the node.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PASSES_INFER_AND_FOLD_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PASSES_INFER_AND_FOLD_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

// What the value is whatever is fed and whatever variables hold: what constants alone make of it,
// by a few nodes. Nothing if that is not so.
Tensor KnownValue(Compilation& c, const Output& value);

class InferAndFold final : public Pass {
 public:
  absl::string_view name() const override { return "infer"; }
  Facts needs() const override { return kPruned; }
  Facts gives() const override { return kShapesKnown; }
  bool enters_bodies() const override {
    return true;
  }  // they say what shapes the node's outputs have
  absl::StatusOr<bool> Run(Compilation& c) override;

 private:
  absl::Status InferBodies(Compilation& c, const Node& node);
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PASSES_INFER_AND_FOLD_H_
