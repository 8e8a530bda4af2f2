// SPDX-License-Identifier: Apache-2.0
//
// BucketCollectives: joins all-reduces, so one collective carries many gradients. The gradients of
// variables that an optimizer updates go into the buckets of the session's VariableLayout, which
// gives each gradient a fixed offset in memory. Other all-reduces that become ready together are
// joined if their dtypes and reductions are equal.
//
// Two all-reduces can be joined only if neither depends on the other. The pass therefore joins only
// all-reduces of the same level. The level is the number of collectives on the longest path to the
// all-reduce.
#ifndef MIRRORFLOW_DISTRIBUTE_PASSES_BUCKET_COLLECTIVES_H_
#define MIRRORFLOW_DISTRIBUTE_PASSES_BUCKET_COLLECTIVES_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

class BucketCollectives final : public Pass {
 public:
  // `small_bucket_bytes` limits the size of buckets that the layout does not define.
  explicit BucketCollectives(int64_t small_bucket_bytes)
      : small_bucket_bytes_(small_bucket_bytes) {}
  absl::string_view name() const override { return "bucket_collectives"; }
  Facts needs() const override { return kDuplicatesMerged | kReductionsKnown; }
  Facts gives() const override { return kCollectivesFinal; }
  bool optional() const override { return true; }
  absl::StatusOr<bool> Run(Compilation& c) override;

 private:
  const int64_t small_bucket_bytes_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_PASSES_BUCKET_COLLECTIVES_H_
