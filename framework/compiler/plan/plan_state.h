// SPDX-License-Identifier: Apache-2.0
//
// PlanState: what the second half of the compiler works on: a Compilation for one device type and
// one share of rows, with what its stages find out, up to the Plan. It owns a copy of the program's
// graph, which stages rewrite; no rank is in it. PlanStage is the base of passes that work on it.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_PLAN_STATE_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_PLAN_STATE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "framework/compiler/compilation.h"
#include "framework/compiler/pass.h"
#include "framework/compiler/plan/storage.h"
#include "framework/runtime/plan.h"

namespace mirrorflow {

// The shapes that one replica sees. By node id, then output.
using LocalShapes = std::vector<std::vector<Shape>>;

struct PlanState final : Compilation {
  // `rows[axis]` are the replica's rows of each axis of the program; zeros are fine. The functions
  // of branches and loops get states of their own. `library` and `tuning` are of the kernels and
  // may be null.
  PlanState(const Compilation& program, const std::vector<int64_t>& rows,
            const DeviceTraits& device, std::shared_ptr<KernelLibrary> library,
            TuningTable* tuning = nullptr);

  // The state of a function of a branch or loop, which `bodies` holds.
  PlanState& body(const Node& node, int i) const {
    return static_cast<PlanState&>(*bodies.at(node.id())[i]);
  }
  const Shape& local_shape(const Output& o) const { return shapes[o.node->id()][o.index]; }
  int64_t LocalBytes(const Output& o) const {
    return local_shape(o).num_elements() * static_cast<int64_t>(DataTypeSize(o.dtype()));
  }
  // The graph and all that is known so far.
  std::string ToString(int max_elements) const;

  const DeviceTraits traits;
  TuningTable* const tuning;
  // The plan may write over what it is fed: the body of a loop, whose values lie there from
  // iteration to iteration.
  bool owns_feeds = false;

  LocalShapes shapes;                    // by Localise
  std::vector<KernelPlan> kernel_plans;  // by ChooseKernels, by node id; control flow has no kernel
  std::vector<Node*> order;              // by ScheduleNodes: all nodes, legal for one thread
  StorageTable storage;                  // by AssignStorage

  // Until PlanMemory gives addresses, operands of EmitInstructions are Unplaced.
  const std::shared_ptr<Plan> plan = std::make_shared<Plan>();
};

// Stands for the place of the storage; none if that is -1.
inline constexpr RegionId kUnplaced = -2;
inline Operand Unplaced(int storage) {
  return storage >= 0 ? Operand{kUnplaced, storage} : Operand();
}

// Runs on the functions of branches and loops first, as every pass does.
class PlanStage : public Pass {
 public:
  absl::StatusOr<bool> Run(Compilation& c) final { return RunOn(static_cast<PlanState&>(c)); }

 private:
  virtual absl::StatusOr<bool> RunOn(PlanState& s) = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_PLAN_STATE_H_
