// SPDX-License-Identifier: Apache-2.0
//
// VariableLayout: the region and offset of each variable in a replica's memory, and of the gradient
// of each variable that an optimizer updates. It is fixed once per session, from all updates in the
// graph and before any step is prepared, so the plans of all steps and batch sizes agree on it.
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

// Marks the handle of a variable that only an optimizer uses.
inline constexpr char kOptimizerStateAttr[] = "_optimizer_state";
// Marks the handle of an accumulated gradient of a scaled loss: an infinite value only makes the
// optimizer skip an update.
inline constexpr char kMayOverflowAttr[] = "_may_overflow";

struct VariableInfo {
  std::string name;
  DataType dtype = DT_INVALID;
  Shape shape;
  int region = 0;  // index into VariableLayout::regions()
  int64_t offset = 0;
  int bucket = -1;       // the bucket whose regions hold it, or -1
  bool is_slot = false;  // true for optimizer state of another variable
  // True for a slot or other optimizer state (kOptimizerStateAttr), such as a schedule's step
  // count.
  bool is_optimizer_state = false;
  bool may_overflow = false;  // kMayOverflowAttr
  NodeId handle = 0;          // one of its VarHandleOps in the session's graph
  std::string initializer;    // the node that computes the initial value; may be empty
  // True if the variable is synchronised on read, not on write: its value is the sum over the
  // replicas.
  bool on_read = false;
  // True if only optimizers write the variable, so the replicas of a process can share one copy.
  bool can_share = false;

  int64_t bytes() const { return shape.num_elements() * static_cast<int64_t>(DataTypeSize(dtype)); }
};

struct BucketInfo {
  DataType dtype = DT_INVALID;
  int gradient_region = 0;
  int64_t bytes = 0;    // in use, without the regions' padding
  bool shared = false;  // if true, the regions of its weights and slots are shared
};

struct LayoutRegion {
  std::string name;  // `weights/0`, `gradients/0`, `slot1/0`, `variables`
  int64_t bytes = 0;
  bool shared = false;     // if true, all local replicas use one allocation
  bool gradients = false;  // if true, collectives reduce it in place
};

class VariableLayout {
 public:
  // Lays out the variables of `graph`. A bucket is closed before it exceeds `bucket_bytes`. A
  // bucket's regions are padded to a multiple of world_size × 64 bytes, so every rank can own an
  // equal shard. Returns InvalidArgument if a variable's shape is not fully defined, or if handles
  // of the same name disagree.
  //
  // If `share`, the replicas share one copy of each variable that only optimizers write. Each
  // update of such a variable must then be a collective Update (ReduceInUpdates).
  static absl::StatusOr<VariableLayout> Create(const Graph& graph, int64_t bucket_bytes,
                                               int world_size, bool share = false);

  const std::vector<VariableInfo>& variables() const { return variables_; }
  const std::vector<BucketInfo>& buckets() const { return buckets_; }
  const std::vector<LayoutRegion>& regions() const { return regions_; }
  // Returns the index of a variable in variables(), or -1 if there is none of that name.
  int Find(absl::string_view name) const;
  // Returns the index of the variable that a handle (an output of a kVariable node) refers to; -1
  // if it is unknown.
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
