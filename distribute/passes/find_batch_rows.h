// SPDX-License-Identifier: Apache-2.0
//
// FindBatchRows: finds the values of a single-replica inference step that have one row, or a fixed
// number of rows, for each row of the feeds. It records them as sharded, although the replica holds
// all rows, so that SplitIntoMicrobatches can split the batch.
//
// A node qualifies if PropagateSharding would shard it over two replicas without converting its
// inputs, and if none of its results would be per-replica. The pass does nothing if the step
//  * writes a variable, or has branches or loops;
//  * has no feed with an unknown leading dimension, or feeds with different numbers of rows;
//  * has no node that accesses more than CompileOptions::microbatch_bytes.
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
