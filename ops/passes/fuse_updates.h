// SPDX-License-Identifier: Apache-2.0
//
// FuseUpdates: an optimizer's updates are fewer kernels, in the way for which the device has some.
//
// By a product of matrices, the gradient of a layer's weights of one replica: the weights are
// updated while the product is made. The gradient is as large as the weights; neither to write nor
// to read it saves most of the memory traffic of a layer with a small batch. Replicas that share
// memory and would reduce the gradient in the update divide the rows of the product instead of the
// batch: each reads the rows of all, and nothing is left to reduce.
//
// Of a bucket's variables by one optimizer: they are one node. A model has many small variables,
// and starting a kernel on a GPU takes longer than updating one of them. The order of collectives
// stays as it is.
#ifndef MIRRORFLOW_OPS_PASSES_FUSE_UPDATES_H_
#define MIRRORFLOW_OPS_PASSES_FUSE_UPDATES_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

class FuseUpdates final : public Pass {
 public:
  absl::string_view name() const override { return "fuse_updates"; }
  // An update that joins others waits for all that these wait for, so it has to see all edges and
  // the order of collectives.
  Facts needs() const override { return kShapesKnown | kVariablesOrdered | kCollectivesOrdered; }
  bool optional() const override { return true; }
  absl::StatusOr<bool> Run(Compilation& c) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_PASSES_FUSE_UPDATES_H_
