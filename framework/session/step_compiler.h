// SPDX-License-Identifier: Apache-2.0
//
// StepCompiler: compiles the steps of one graph for one CompileTarget.
#ifndef MIRRORFLOW_FRAMEWORK_SESSION_STEP_COMPILER_H_
#define MIRRORFLOW_FRAMEWORK_SESSION_STEP_COMPILER_H_

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/compiler/compilation.h"
#include "framework/compiler/pass.h"
#include "framework/runtime/device.h"
#include "framework/runtime/plan.h"
#include "framework/runtime/tuning_table.h"
#include "framework/runtime/variable_layout.h"

namespace mirrorflow {

// The world that steps are compiled for, and the ops, kernels and passes to use.
struct CompileTarget {
  const OpRegistry* ops = nullptr;
  const KernelRegistry* kernels = nullptr;  // for the devices and the host
  std::vector<PassMaker> passes = {};       // the user's passes, for the first half of the compiler
  World world;                              // size, domains and the link between domains
};

// The two halves of the compiler, which are defined in a higher layer (distribute/pipeline.h).
using CompileProgramFn = absl::StatusOr<std::shared_ptr<const Program>> (*)(
    const Graph& graph, const GlobalSignature& signature, const VariableLayout& layout,
    const CompileTarget& target, const CompileOptions& options);
// Compiles the plan of a replica with `rows[axis]` rows of each program axis, on a device with
// `traits`. `tuning` is null without autotune.
using CompilePlanFn = absl::StatusOr<std::shared_ptr<const Plan>> (*)(
    const Program& program, const std::vector<int64_t>& rows, const DeviceTraits& traits,
    TuningTable* tuning);

class StepCompiler {
 public:
  // `graph` must outlive the compiler. `tuning` is null without autotune.
  StepCompiler(const Graph& graph, CompileTarget target, CompileProgramFn program,
               CompilePlanFn plan, CompileOptions options, std::unique_ptr<TuningTable> tuning)
      : graph_(graph),
        target_(std::move(target)),
        program_(program),
        plan_(plan),
        options_(std::move(options)),
        tuning_(std::move(tuning)) {}

  const CompileTarget& target() const { return target_; }
  TuningTable* tuning() const { return tuning_.get(); }
  int tuning_version() const { return tuning_ != nullptr ? tuning_->version() : 0; }

  absl::StatusOr<std::shared_ptr<const Program>> MakeProgram(const GlobalSignature& signature,
                                                             const VariableLayout& layout) const {
    return program_(graph_, signature, layout, target_, options_);
  }
  // Compiles a plan for `device`, which becomes this thread's current device. `rows` has one entry
  // per axis. `num_threads` is the number of threads per replica; the default is the device's.
  absl::StatusOr<std::shared_ptr<const Plan>> MakePlan(const Program& program,
                                                       const std::vector<int64_t>& rows,
                                                       Device& device,
                                                       std::optional<int> num_threads = {}) const {
    if (absl::Status status = device.MakeCurrent(); !status.ok()) return status;
    DeviceTraits traits = device.traits();
    traits.num_threads = num_threads.value_or(traits.num_threads);
    return plan_(program, rows, traits, tuning_.get());
  }
  // Returns a compiler for the same kind of replicas in another world. It does not autotune.
  StepCompiler For(const World& world) const {
    CompileTarget target = target_;
    target.world = world;
    return StepCompiler(graph_, std::move(target), program_, plan_, options_, nullptr);
  }

 private:
  const Graph& graph_;
  const CompileTarget target_;
  const CompileProgramFn program_;
  const CompilePlanFn plan_;
  const CompileOptions options_;
  const std::unique_ptr<TuningTable> tuning_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_SESSION_STEP_COMPILER_H_
