// SPDX-License-Identifier: Apache-2.0
//
// CountReplicas: replaces each NumReplicas op with a constant, so shapes can depend on it.
#ifndef MIRRORFLOW_DISTRIBUTE_PASSES_COUNT_REPLICAS_H_
#define MIRRORFLOW_DISTRIBUTE_PASSES_COUNT_REPLICAS_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

class CountReplicas final : public Pass {
 public:
  absl::string_view name() const override { return "count_replicas"; }
  Facts needs() const override { return kPruned | kBodiesMade; }
  bool enters_bodies() const override { return true; }  // bodies lack `world`, the replica count
  absl::StatusOr<bool> Run(Compilation& c) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_PASSES_COUNT_REPLICAS_H_
