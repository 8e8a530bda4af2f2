// SPDX-License-Identifier: Apache-2.0
//
// VariableLayout: where each variable lies in a replica's memory, and the gradient of each variable
// that an optimizer updates. Fixed once per session from all updates in its graph, before any step
// is prepared, so the plans of all steps and batch sizes fit together.
//
// Variables that optimizers update are laid out in buckets, in the order in which the backward pass
// makes their gradients. A bucket has one region for its weights, one for its gradients and one for
// each kind of slot, all with the same offsets; so one collective carries a bucket's gradients,
// which are written straight into place, and one pass over plain memory can update all its weights.
// All other variables share one region.
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

struct VariableInfo {
  std::string name;
  DataType dtype = DT_INVALID;
  Shape shape;
  int region = 0;  // index into VariableLayout::regions()
  int64_t offset = 0;
  int bucket = -1;          // the bucket whose gradients it has a place in; -1: none
  bool is_slot = false;     // belongs to an optimizer's update of another variable
  NodeId handle = 0;        // a VarHandleOp of it in the session's graph
  std::string initializer;  // the node that makes the initial value; may be empty
  // Synchronised when it is read, not when it is written: the value is the sum over the replicas.
  bool on_read = false;
  // Nobody but optimizers writes it, so the replicas of a process can have one copy of it.
  bool can_share = false;

  int64_t bytes() const { return shape.num_elements() * static_cast<int64_t>(DataTypeSize(dtype)); }
};

struct BucketInfo {
  DataType dtype = DT_INVALID;
  int gradient_region = 0;
  int64_t bytes = 0;    // used; the regions hold more
  bool shared = false;  // the regions of its weights and slots are
};

struct LayoutRegion {
  std::string name;  // `weights/0`, `gradients/0`, `slot1/0`, `variables`
  int64_t bytes = 0;
  bool shared = false;     // one piece of memory for all local replicas
  bool gradients = false;  // that collectives reduce where they lie
};

class VariableLayout {
 public:
  // Lays out the variables of `graph`. A bucket is closed before it grows above `bucket_bytes`.
  // Regions are padded to a multiple of world_size × 64 bytes, so that any rank can own a share.
  // InvalidArgument if a variable's shape is not fully defined, if handles of one name disagree, or
  // if two variables would have one name.
  // `share`: replicas have one copy of what only optimizers write. Each of its updates must then be
  // a collective Update (ReduceInUpdates).
  static absl::StatusOr<VariableLayout> Create(const Graph& graph, int64_t bucket_bytes,
                                               int world_size, bool share = false);

  const std::vector<VariableInfo>& variables() const { return variables_; }
  const std::vector<BucketInfo>& buckets() const { return buckets_; }
  const std::vector<LayoutRegion>& regions() const { return regions_; }
  // Index into variables(), or -1.
  int Find(absl::string_view name) const;
  // The variable behind a handle (an output of a kVariable node).
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
