// SPDX-License-Identifier: Apache-2.0
//
// Replica: the mutable half of a running step: one device's memory (regions), its lanes and its end
// of a communicator. A BoundPlan is a plan tied to a replica's memory. One thread at a time runs a
// replica; different replicas share nothing but plans, which are const, and communicators.
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_REPLICA_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_REPLICA_H_

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "framework/core/tensor.h"
#include "framework/runtime/bound_collective.h"
#include "framework/runtime/communicator.h"
#include "framework/runtime/device.h"
#include "framework/runtime/plan.h"
#include "framework/runtime/variable_layout.h"

namespace mirrorflow {

class BoundPlan;

// A span of time of one instruction, for traces. Times are absl::GetCurrentTimeNanos().
struct TraceSpan {
  int32_t instruction;
  int64_t begin_ns;
  int64_t end_ns;
  int64_t update_ns;  // of them, those in which a collective updated variables
};

class Replica {
 public:
  // The regions of `layout`, which outlives the replica, are allocated and zeroed here; those that
  // are shared are `first`'s, if there is one.
  static absl::StatusOr<std::unique_ptr<Replica>> Create(Device* device, int rank,
                                                         const VariableLayout& layout,
                                                         const Replica* first);

  Device& device() const { return *device_; }
  int rank() const { return rank_; }
  // The replica's end of the communicator, null for a world of one. Borrowed.
  void set_communicator(Communicator* communicator) { communicator_ = communicator; }
  Communicator* communicator() const { return communicator_; }

  // Tells the communicator of the memory whose gradients it reduces where they are.
  absl::Status RegisterGradients();

  // The memory of a region of the layout; a device address.
  std::byte* layout_region(int region) const { return layout_[region].get(); }
  // Where kernels and collectives find a variable.
  std::byte* VariableAddress(const VariableInfo& variable) const {
    return device_->KernelAddress(layout_region(variable.region)) + variable.offset;
  }

  // Ties `plan` to this replica. `rows[axis][rank]` are the shares of all replicas. The arena is
  // not made before the plan runs.
  absl::StatusOr<std::unique_ptr<BoundPlan>> Bind(std::shared_ptr<const Plan> plan,
                                                  const std::vector<std::vector<int64_t>>& rows);

 private:
  friend class BoundPlan;
  Replica(Device* device, int rank, const VariableLayout& layout)
      : device_(device), rank_(rank), variable_layout_(layout) {}

  // `inner`: a sub-plan, which has the arguments and the scratch of the plan around it.
  absl::StatusOr<std::unique_ptr<BoundPlan>> Bind(std::shared_ptr<const Plan> plan,
                                                  const std::vector<std::vector<int64_t>>& rows,
                                                  bool inner);

  Device* const device_;
  const int rank_;
  const VariableLayout& variable_layout_;
  Communicator* communicator_ = nullptr;
  std::vector<std::shared_ptr<std::byte>> layout_;
  // One for all plans: grows to the largest that any of them has needed in a Run.
  std::shared_ptr<std::byte> arena_;
  int64_t arena_bytes_ = 0;
};

class BoundPlan {
 public:
  const Plan& plan() const { return *plan_; }
  const std::shared_ptr<const Plan>& shared_plan() const { return plan_; }

  // Feed `i` for the next Run: this replica's share, which must stay valid until it is done. Copied
  // to the device where kernels cannot read host memory.
  absl::Status SetFeed(int i, const std::byte* host);
  // The same for the Run after the next, if it is known by now: it is copied while that one
  // computes. SetFeed then has to be told the same address, whose memory has not changed. For
  // devices whose memory is not the host's.
  absl::Status SetNextFeed(int i, const std::byte* host);
  void ForgetNextFeeds();

  // Runs one step. The error is annotated with node, op, device and rank; DeadlineExceeded after
  // `deadline`, which is looked at now and then. What the last Run of any plan of this replica left
  // in the arena is gone.
  absl::Status Run(uint64_t step, uint64_t seed, absl::Time deadline);
  // The same, noting when each instruction ran, and looking at the deadline before each.
  absl::Status RunTraced(uint64_t step, uint64_t seed, absl::Time deadline,
                         std::vector<TraceSpan>* spans);

  // Whether the last Run came to its first write of a variable.
  bool wrote() const {
    return updated_.load(std::memory_order_relaxed) ||
           (outcome_.wrote && reached_ > plan_->dispatch.first_write);
  }

  // How long the host took to enqueue the last Run; zero where it computes itself.
  absl::Duration host_time() const { return host_time_; }
  // What a device keeps of a Run has the collectives of a communicator in it, and goes before that.
  void DropRecording() { recording_ = nullptr; }

  // Whether the last Run did all that it had to, so that other replicas need not wait for it.
  bool completed() const { return outcome_.completed; }

  // By axis: the first of this replica's rows.
  absl::Span<const int64_t> first_rows() const { return params_.first_row; }

  // Where fetch `i` lies on the device after Run.
  std::byte* fetch_address(int i) const;

 private:
  friend class Replica;

  BoundPlan(Replica* replica, std::shared_ptr<const Plan> plan)
      : replica_(*replica), plan_(std::move(plan)) {}

  absl::Status RunInstruction(const Instruction& instruction);
  absl::Status Locate(const absl::Status& status, const Instruction& instruction) const;
  absl::Status Begin(uint64_t step, uint64_t seed, absl::Time deadline);
  absl::Status WriteParams();

  // Branches and loops (bound_control.cc).
  std::byte* Address(const Operand& operand) const {
    return kernel_bases_[operand.region] + operand.offset;
  }
  absl::Status RunControl(const Instruction& instruction);
  absl::Status RunInside(const BoundPlan& outer, std::byte* arena, uint64_t iteration);
  void SetArguments(const BoundPlan& outer, const Operand* arguments);
  absl::Status CopyResults(const BoundPlan& body, const PlannedControl& control,
                           const Operand* results, std::byte* scratch, Lane& lane) const;

  // `recording`: what the device may keep of it, or null.
  absl::Status Execute(absl::FunctionRef<absl::Status(int)> run, absl::Time deadline,
                       std::unique_ptr<Recording>* recording);
  Repetition RepetitionOf(const Instruction& instruction) const;

  void CopyNextFeeds();

  // A feed on its way to the device.
  struct NextFeed {
    const std::byte* host = nullptr;   // whose copy it is; null for none
    bool copied = false;               // it was sent
    std::shared_ptr<std::byte> ahead;  // where to
  };

  Replica& replica_;
  const std::shared_ptr<const Plan> plan_;
  std::vector<NextFeed> next_feeds_;      // by feed
  std::vector<std::byte*> bases_;         // by region; device addresses
  std::vector<std::byte*> kernel_bases_;  // the same, as kernels must be given them
  std::vector<std::unique_ptr<BoundCollective>> collectives_;  // of plan_->collectives
  std::vector<std::shared_ptr<std::byte>> owned_;
  std::vector<std::array<std::unique_ptr<BoundPlan>, 2>> controls_;  // of plan_->controls
  std::unique_ptr<Recording> recording_;  // of Run, where the arena was at `recorded_arena_`
  const std::byte* recorded_arena_ = nullptr;
  StepParams params_;
  absl::Time deadline_;               // of this step
  int reached_ = 0;                   // of plan_->dispatch
  Outcome outcome_;                   // of the last Run, as far as the device knows
  std::atomic<bool> updated_{false};  // an Update has begun to write
  bool traced_ = false;
  absl::Duration host_time_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_REPLICA_H_
