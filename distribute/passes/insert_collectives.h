// SPDX-License-Identifier: Apache-2.0
//
// InsertCollectives: converts each value to the sharding that its uses require. It inserts a
// conversion, such as an all-reduce, wherever the required sharding differs from the value's own.
// All uses that require the same sharding share one conversion.
#ifndef MIRRORFLOW_DISTRIBUTE_PASSES_INSERT_COLLECTIVES_H_
#define MIRRORFLOW_DISTRIBUTE_PASSES_INSERT_COLLECTIVES_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

class InsertCollectives final : public Pass {
 public:
  absl::string_view name() const override { return "insert_collectives"; }
  Facts needs() const override { return kSharded; }
  Facts gives() const override { return kShardingsMet; }
  absl::StatusOr<bool> Run(Compilation& c) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_PASSES_INSERT_COLLECTIVES_H_
