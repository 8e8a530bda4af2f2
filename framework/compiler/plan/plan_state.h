// SPDX-License-Identifier: Apache-2.0
//
// PlanState: the state of the second half of the compiler. It is a Compilation for one device type
// and one shard size, together with the results of each stage up to the Plan. It owns a copy of the
// program's graph, which passes rewrite, and is independent of the rank. PlanPass is the base class
// of the passes that fill its tables.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_PLAN_STATE_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_PLAN_STATE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/compiler/compilation.h"
#include "framework/compiler/pass.h"
#include "framework/compiler/plan/storage.h"
#include "framework/runtime/plan.h"

namespace mirrorflow {

// The shapes on one replica, indexed by node id and output.
using LocalShapes = std::vector<std::vector<Shape>>;

class Invariants;

// An input of a Concat that is stored in the Concat's output.
struct ConcatSlice {
  const Node* concat = nullptr;
  InputSlice slice;

  const Output& value() const { return concat->input(slice.input); }
  Output whole() const { return concat->output(0); }
};

// The part of a node that one of the replica's threads computes (DivideAmongThreads).
struct NodePart {
  // By input and output: the range that the kernel accesses, or nullopt for the whole operand.
  std::vector<std::optional<DimRange>> inputs, outputs;
  std::vector<Shape> input_shapes, output_shapes;
  // True if the node is divided along one of KernelPlan::divisible_dims.
  bool by_kernel = false;
  // True if the node updates a variable. The kernel then receives whole operands, and ranges along
  // dimension 0 are in elements.
  bool of_update = false;
  KernelPlan kernel = {};
};

struct PlanState final : Compilation {
  // `rows[axis]` is the replica's row count on each axis of the program; it may be 0. Creates a
  // separate state for each function of a branch or loop. The kernels use `library` and `tuning`,
  // which may be null.
  PlanState(const Compilation& program, const std::vector<int64_t>& rows,
            const DeviceTraits& device, std::shared_ptr<KernelLibrary> library,
            TuningTable* tuning = nullptr);

  // Returns the state of function `i` of a branch or loop.
  PlanState& body(NodeId id, size_t i) const { return *plan_bodies_.at(id)[i]; }
  const Shape& local_shape(const Output& o) const { return shapes[o.node->id()][o.index]; }
  int64_t LocalBytes(const Output& o) const {
    return local_shape(o).num_elements() * static_cast<int64_t>(DataTypeSize(o.dtype()));
  }
  // Returns whether the value is not fetched and has exactly one use, as a node input.
  bool IsUsedOnce(const Output& value) const;
  // Returns the graph and all results so far as text.
  std::string ToString(int max_elements) const override;

  const DeviceTraits traits;
  TuningTable* const tuning;
  // If true, the plan may overwrite its feeds. It is true for a loop body, whose feeds hold the
  // loop's values between iterations.
  bool owns_feeds = false;

  LocalShapes shapes;                            // by InferLocalShapes
  std::shared_ptr<const Invariants> invariants;  // by ChooseKernels
  std::vector<KernelPlan> kernel_plans;  // by ChooseKernels, by node id; control flow has no kernel
  // By ConcatInPlace. Each slice precedes the slices inside it.
  std::vector<ConcatSlice> slices;
  // By DivideAmongThreads, by node id: the parts of a divided node; thread t computes part t. Empty
  // if the replica has a single thread.
  std::vector<std::vector<NodePart>> parts;
  std::vector<Node*> order;  // by ScheduleNodes: all nodes, in a valid single-threaded order
  StorageTable storage;      // by AssignStorage

  // EmitInstructions creates Unplaced operands; PlanMemory later assigns their addresses.
  const std::shared_ptr<Plan> plan = std::make_shared<Plan>();

 private:
  // Points to the objects that `bodies` owns.
  std::map<NodeId, std::vector<PlanState*>> plan_bodies_;
};

// On a node of a micro-batch (SplitIntoMicrobatches): the index of the micro-batch's first row in
// the replica's shard, in rows of the axis that is split.
inline constexpr char kFirstRowAttr[] = "_first_row";

// A placeholder for a storage's address, or an empty operand if `storage` is -1.
inline constexpr RegionId kUnplaced = -2;
inline Operand Unplaced(int storage) {
  return storage >= 0 ? Operand{kUnplaced, storage} : Operand();
}

using PlanPass = PassOver<PlanState>;

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_PLAN_STATE_H_
