// SPDX-License-Identifier: Apache-2.0
//
// FuseUpdates: merges an optimizer's updates into fewer kernels in two ways. Each requires that the
// device has the fused kernel.
//
// Updates by a product: if a replica computes a weight gradient as a matrix product, it updates the
// weights while it computes the product. The gradient is as large as the weights, so not storing it
// saves most of the memory traffic of a layer with a small batch. If replicas share memory and
// would reduce the gradient in the update, they divide the product's rows among themselves instead
// of the batch: each replica reads the rows of all replicas, and no reduction is needed.
//
// Updates of a bucket: one optimizer's updates of the variables in a bucket become one node. Models
// have many small variables, and on a GPU, launching a kernel takes longer than updating a small
// variable. The order of collectives does not change.
#ifndef MIRRORFLOW_OPS_PASSES_FUSE_UPDATES_H_
#define MIRRORFLOW_OPS_PASSES_FUSE_UPDATES_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

class FuseUpdates final : public Pass {
 public:
  absl::string_view name() const override { return "fuse_updates"; }
  // A merged update waits for everything that its original updates wait for, so all edges and the
  // order of collectives must be known.
  Facts needs() const override { return kShapesKnown | kVariablesOrdered | kCollectivesOrdered; }
  bool optional() const override { return true; }
  absl::StatusOr<bool> Run(Compilation& c) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_PASSES_FUSE_UPDATES_H_
