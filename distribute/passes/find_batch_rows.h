// SPDX-License-Identifier: Apache-2.0
//
// FindBatchRows: finds the values of an inference step on a single replica whose rows come from the
// rows of its feeds, and records them as shardings, although the replica has all rows. A plan can
// then compute a few rows at a time (SplitIntoMicrobatches).
//
// A node counts if PropagateSharding would shard it between two replicas without converting any of
// its inputs, and without results that differ between replicas. Finds nothing in a step that writes
// variables, has branches or loops, has no feed with an unknown leading dimension or several with
// different numbers of rows, or has no node that accesses more than
// CompileOptions::microbatch_bytes.
#ifndef MIRRORFLOW_DISTRIBUTE_PASSES_FIND_BATCH_ROWS_H_
#define MIRRORFLOW_DISTRIBUTE_PASSES_FIND_BATCH_ROWS_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

class FindBatchRows final : public Pass {
 public:
  absl::string_view name() const override { return "find_batch_rows"; }
  Facts needs() const override { return kSharded; }
  bool enters_bodies() const override { return true; }
  absl::StatusOr<bool> Run(Compilation& c) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_PASSES_FIND_BATCH_ROWS_H_
