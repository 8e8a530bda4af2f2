// SPDX-License-Identifier: Apache-2.0
//
// VariableLayout: the place of each variable in a replica's memory, and of the gradient of each
// variable that an optimizer updates. It is fixed once per session, from all updates in the graph
// and before any step is prepared, so that the plans of all steps and batch sizes fit together.
//
// Variables that optimizers update are laid out in buckets, in the order in which the backward pass
// computes their gradients. A bucket has one region for its weights, one for its gradients and one
// for each kind of slot, all with the same offsets. One collective therefore carries all gradients
// of a bucket, which are written directly into place, and one pass over contiguous memory can
// update all its weights. All other variables share one region.
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_VARIABLE_LAYOUT_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_VARIABLE_LAYOUT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/core/shape.h"
#include "framework/graph/graph.h"
#include "framework/graph/variable_handle.h"

namespace mirrorflow {

// The attribute of the handle of a variable that only an optimizer uses.
inline constexpr char kOptimizerStateAttr[] = "_optimizer_state";
// The same, of a sum of gradients of a scaled loss: an infinite one makes the optimizer skip an
// update, and does no harm.
inline constexpr char kMayOverflowAttr[] = "_may_overflow";

struct VariableInfo {
  std::string name;
  DataType dtype = DT_INVALID;
  Shape shape;
  int region = 0;  // index into VariableLayout::regions()
  int64_t offset = 0;
  int bucket = -1;       // the bucket in whose regions it is placed; -1: none
  bool is_slot = false;  // state of an optimizer that updates another variable
  // A slot, or other state of an optimizer (kOptimizerStateAttr): the step count of a schedule.
  bool is_optimizer_state = false;
  bool may_overflow = false;  // kMayOverflowAttr
  NodeId handle = 0;          // one of its VarHandleOps in the session's graph
  std::string initializer;    // the node that makes the initial value; may be empty
  // Synchronised on read, not on write: the value is the sum over the replicas.
  bool on_read = false;
  // Only optimizers write it, so the replicas of a process can share one copy of it.
  bool can_share = false;

  int64_t bytes() const { return shape.num_elements() * static_cast<int64_t>(DataTypeSize(dtype)); }
};

struct BucketInfo {
  DataType dtype = DT_INVALID;
  int gradient_region = 0;
  int64_t bytes = 0;    // used; the regions are padded
  bool shared = false;  // whether the regions of its weights and slots are shared
};

struct LayoutRegion {
  std::string name;  // `weights/0`, `gradients/0`, `slot1/0`, `variables`
  int64_t bytes = 0;
  bool shared = false;     // one allocation for all local replicas
  bool gradients = false;  // collectives reduce it in place
};

class VariableLayout {
 public:
  // Lays out the variables of `graph`. A bucket is closed before it grows above `bucket_bytes`. The
  // regions of a bucket are padded to a multiple of world_size × 64 bytes, so that any rank can own
  // a share. InvalidArgument if a variable's shape is not fully defined, or if handles of one name
  // disagree.
  //
  // `share`: the replicas share one copy of each variable that only optimizers write. Each update
  // of such a variable must then be a collective Update (ReduceInUpdates).
  static absl::StatusOr<VariableLayout> Create(const Graph& graph, int64_t bucket_bytes,
                                               int world_size, bool share = false);

  const std::vector<VariableInfo>& variables() const { return variables_; }
  const std::vector<BucketInfo>& buckets() const { return buckets_; }
  const std::vector<LayoutRegion>& regions() const { return regions_; }
  // Index into variables(), or -1.
  int Find(absl::string_view name) const;
  // The index of the variable behind a handle (an output of a kVariable node), or -1.
  int FindHandle(const Output& handle) const;

 private:
  absl::Status CollectVariables(const Graph& graph, bool share);
  absl::Status FillBuckets(const Graph& graph, int64_t bucket_bytes, int world_size);

  std::vector<VariableInfo> variables_;
  std::vector<BucketInfo> buckets_;
  std::vector<LayoutRegion> regions_;
  std::map<std::string, int, std::less<>> by_name_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_VARIABLE_LAYOUT_H_
