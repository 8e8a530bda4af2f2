// SPDX-License-Identifier: Apache-2.0
//
// GroupUpdates: the updates of a bucket's variables by one optimizer are one node, hence one
// kernel, where devices have such kernels. A model has many small variables, and starting a kernel
// on a GPU takes longer than updating one of them. The order of collectives stays as it is.
#ifndef MIRRORFLOW_OPS_PASSES_GROUP_UPDATES_H_
#define MIRRORFLOW_OPS_PASSES_GROUP_UPDATES_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

class GroupUpdates final : public Pass {
 public:
  absl::string_view name() const override { return "group_updates"; }
  // An update that joins others waits for all that these wait for, so it has to see all edges and
  // the order of collectives.
  Facts needs() const override { return kVariablesOrdered | kCollectivesOrdered; }
  bool optional() const override { return true; }
  absl::StatusOr<bool> Run(Compilation& c) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_PASSES_GROUP_UPDATES_H_
