// SPDX-License-Identifier: Apache-2.0
//
// Replica: the mutable state of a running step, which consists of a device's memory regions, its
// lanes and its communicator endpoint. A BoundPlan is a plan bound to a replica's memory. A replica
// runs on one thread at a time or, if the plan has several dispatch lists, on one thread per list.
// Replicas share only plans, which are const, communicators, and the shared regions of the variable
// layout.
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_REPLICA_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_REPLICA_H_

#include <array>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/tensor.h"
#include "framework/runtime/bound_collective.h"
#include "framework/runtime/bound_forms.h"
#include "framework/runtime/communicator.h"
#include "framework/runtime/device.h"
#include "framework/runtime/forms.h"
#include "framework/runtime/plan.h"
#include "framework/runtime/run_progress.h"
#include "framework/runtime/step_transfers.h"
#include "framework/runtime/thread_progress.h"
#include "framework/runtime/variable_layout.h"

namespace mirrorflow {

class BoundPlan;

// The time span of one instruction, for traces. Times are those of absl::GetCurrentTimeNanos().
struct TraceSpan {
  int32_t instruction;
  bool waits;  // true for the wait for another thread before the instruction
  int64_t begin_ns;
  int64_t end_ns;
  int64_t update_ns;  // how much of the span a collective spent updating variables
};

class Replica {
 public:
  // Creates a replica that takes the regions of `layout` from `memory`. Allocates and zeroes the
  // regions that are null there.
  static absl::StatusOr<std::unique_ptr<Replica>> Create(
      Device* device, int rank, const VariableLayout& layout,
      absl::Span<const std::shared_ptr<std::byte>> memory);

  Device& device() const { return *device_; }
  int rank() const { return rank_; }
  // Sets the replica's communicator endpoint, which is not owned. It is null in a world of one
  // rank. `domain_spans_processes` says whether the replica's memory domain has ranks in other
  // processes; if so, their updates write this replica's variables.
  void set_communicator(Communicator* communicator, bool domain_spans_processes = false) {
    communicator_ = communicator;
    shares_variables_ = domain_spans_processes;
  }
  Communicator* communicator() const { return communicator_; }

  // Sets the log of the replica's collectives.
  void set_collective_log(std::shared_ptr<CollectiveLog> log) { collective_log_ = std::move(log); }

  // Sets the forms that this replica shares with others. Without it, every run makes its forms
  // anew, because nothing records writes.
  void set_forms(std::shared_ptr<Forms> forms) { forms_ = std::move(forms); }

  // Registers the gradients' memory, which collectives reduce in place, with the communicator.
  absl::Status RegisterGradients();

  // Returns the memory of the layout's regions, for other replicas to share.
  absl::Span<const std::shared_ptr<std::byte>> layout_memory() const { return layout_; }
  // Returns the device address of a layout region.
  std::byte* layout_region(int region) const { return layout_[region].get(); }
  // Returns the address that kernels and collectives use for a variable.
  std::byte* VariableAddress(const VariableInfo& variable) const {
    return device_->KernelAddress(layout_region(variable.region)) + variable.offset;
  }

  // Returns the size of the arena: the memory for intermediate values, which all plans of this
  // replica share.
  int64_t arena_bytes() const { return arena_bytes_; }
  // Frees the arena until the next Run. REQUIRES: recordings of earlier Runs have been dropped
  void FreeArena() {
    arena_ = nullptr;
    arena_bytes_ = 0;
  }

  // Binds `plan` to this replica. `rows[axis][rank]` holds the row counts of all replicas. `inner`
  // says whether `plan` is a sub-plan, which uses the enclosing plan's arguments and scratch; the
  // first Run of any other plan allocates the arena.
  absl::StatusOr<std::unique_ptr<BoundPlan>> Bind(std::shared_ptr<const Plan> plan,
                                                  const std::vector<std::vector<int64_t>>& rows,
                                                  bool inner = false);

 private:
  friend class BoundPlan;
  Replica(Device* device, int rank, const VariableLayout& layout)
      : device_(device), rank_(rank), regions_(layout.regions()) {}

  Device* const device_;
  const int rank_;
  const std::vector<LayoutRegion> regions_;  // of the variable layout
  Communicator* communicator_ = nullptr;
  bool shares_variables_ = false;  // whether other processes write the variables
  std::shared_ptr<CollectiveLog> collective_log_ = std::make_shared<CollectiveLog>();
  std::shared_ptr<Forms> forms_;                    // may be null
  std::vector<std::shared_ptr<std::byte>> layout_;  // the memory of regions_
  // Shared by all plans: grows to the largest size that a Run has needed.
  std::shared_ptr<std::byte> arena_;
  int64_t arena_bytes_ = 0;
};

class BoundPlan {
 public:
  const Plan& plan() const { return *plan_; }
  const std::shared_ptr<const Plan>& shared_plan() const { return plan_; }

  // Sets feed `i` of the next Run: this replica's shard, which must stay valid until that Run has
  // ended.
  void SetFeed(int i, const std::byte* host);
  // Announces the Run after the next one: its feeds are copied to the device while the next Run
  // computes. The copy is used if the announced Run then has the same step and feeds at the same
  // addresses, whose contents must not have changed. Does nothing on devices that use host memory.
  void SetNext(uint64_t step, absl::Span<const std::byte* const> feeds) {
    if (transfers_ != nullptr) transfers_->SetNext(step, feeds);
  }
  void ForgetNext() {
    if (transfers_ != nullptr) transfers_->ForgetNext();
  }

  // Makes every Run copy these fetches to the host, unless kernels write host memory directly.
  absl::Status BringToHost(absl::Span<const int> fetches) {
    return transfers_ != nullptr ? transfers_->BringToHost(*plan_, fetches) : absl::OkStatus();
  }
  // Returns the host address of fetch `i` after Run. REQUIRES: BringToHost named it.
  const std::byte* fetched(int i) const {
    return transfers_ != nullptr ? transfers_->fetched(i) : fetch_address(i);
  }

  // Returns whether Run checks its deadline. It does not for a short plan without loops or
  // collectives, because reading the clock could take as long as the kernels.
  bool checks_deadline() const {
    return !replica_.device().traits().inline_lanes || replica_.communicator_ != nullptr ||
           plan_->dispatch.stops.size() > 1 || !plan_->controls.empty() || plan_->num_threads > 1;
  }
  // Runs one step. Errors name the node, op, device and rank. Returns DeadlineExceeded after
  // `deadline`, which is checked at intervals. Overwrites the arena contents left by the replica's
  // last Run of any plan. If the plan has several threads, each of the others must call
  // RunOtherThread concurrently.
  absl::Status Run(uint64_t step, uint64_t seed, MonotonicTime deadline);
  // Runs the instructions of `thread`, which is not 0, as part of the Run that thread 0 calls. That
  // Run returns any error. Does nothing if the plan has no such thread.
  void RunOtherThread(int thread, MonotonicTime deadline);
  // Like Run, but records when each instruction ran, and checks the deadline before each.
  absl::Status RunTraced(uint64_t step, uint64_t seed, MonotonicTime deadline,
                         std::vector<TraceSpan>* spans);

  // Returns whether updates of the last Run are still in flight. The next Run of this plan finishes
  // them; call FinishLate before anything else uses the variables or the arena.
  bool unfinished() const { return unfinished_; }
  absl::Status FinishLate();
  // Forgets the updates in flight, because the communicator has failed and cannot finish them.
  void ForgetLate() { unfinished_ = false; }
  // Returns whether the last Run failed to finish an update of the Run before it.
  bool lost_late() const { return late_left_ > 0; }

  // Returns whether the last Run reached its first write of a variable.
  bool wrote() const {
    if (updated_.load(std::memory_order_relaxed) || other_threads_wrote_) return true;
    return outcome_.wrote && reached_ > plan_->dispatch.first_write;
  }

  // Returns how long the host took to enqueue the last Run; zero if the host itself computes.
  absl::Duration host_time() const { return host_time_; }
  // Returns whether the next Run must allocate a new arena, because there is none or it is too
  // small.
  bool moves_arena() const {
    return plan_->arena_bytes > replica_.arena_bytes_ || replica_.arena_ == nullptr;
  }
  // Drops the device's recording of a Run. Call it when the arena has moved. A recording can
  // contain collectives of the communicator, so call it before the communicator is destroyed, and
  // on all replicas: either all record such a step, or all replay it.
  void DropRecording() { recording_ = nullptr; }

  // Returns whether the last Run executed all its instructions. If not, other replicas may be
  // waiting for it.
  bool completed() const { return outcome_.completed; }

  // Returns this replica's first row of each axis.
  absl::Span<const int64_t> first_rows() const { return params_.first_row; }

  // Returns the device address of fetch `i` after Run. The value is valid until the next Run.
  std::byte* fetch_address(int i) const;

 private:
  friend class Replica;

  BoundPlan(Replica* replica, std::shared_ptr<const Plan> plan)
      : replica_(*replica), plan_(std::move(plan)) {}

  // Runs the whole step on a device with inline lanes. On an error, `reached_` is the instruction
  // that failed.
  absl::Status RunInline(MonotonicTime deadline);
  // Runs one thread's instructions, if the plan has several threads.
  absl::Status RunThread(int thread, MonotonicTime deadline);
  // Calls `run`, which runs the instructions of thread 0, and waits for the other threads. Returns
  // the first error.
  absl::Status WithOtherThreads(absl::FunctionRef<absl::Status()> run);
  absl::Status RunInstruction(const Instruction& instruction);
  // Runs entry `i` of a dispatch list and records its time in `span`.
  absl::Status RunTraced(const DispatchList& list, int i, TraceSpan* span);
  absl::Status FinishCollective(int index, Lane& lane);
  // Adds the instruction to the message and, unless the payload already specifies where the error
  // occurred, to the payload.
  absl::Status WithInstruction(const absl::Status& status, const Instruction& instruction) const;
  absl::Status Begin(uint64_t step, uint64_t seed, MonotonicTime deadline);
  absl::Status EndRun(const absl::Status& status);
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

  // `recording` holds the device's recording of `run`; it is null if the device must not record.
  absl::Status Execute(absl::FunctionRef<absl::Status(int)> run, MonotonicTime deadline,
                       std::unique_ptr<Recording>* recording);
  Repetition RepetitionOf(const Instruction& instruction) const;

  Replica& replica_;
  const std::shared_ptr<const Plan> plan_;
  std::unique_ptr<StepTransfers> transfers_;  // null if kernels read host memory, or in sub-plans
  std::vector<std::byte*> bases_;             // device addresses, by region
  std::vector<std::byte*> kernel_bases_;      // the same, as kernels address them
  std::vector<std::unique_ptr<BoundCollective>> collectives_;  // for plan_->collectives
  std::vector<const Collective*> announced_;                   // the same, in start order
  std::vector<std::shared_ptr<std::byte>> owned_;
  std::unique_ptr<BoundForms> forms_;                                // null if the plan has none
  std::vector<std::array<std::unique_ptr<BoundPlan>, 2>> controls_;  // for plan_->controls
  std::unique_ptr<Recording> recording_;                             // of Run
  std::unique_ptr<ThreadProgress> progress_;  // null if the plan has one thread
  // One thread's state in the last Run.
  struct alignas(64) ThreadRun {
    absl::Status status;
    int reached = 0;               // number of entries of its dispatch list that have run
    std::vector<TraceSpan> spans;  // of RunTraced
  };
  std::vector<ThreadRun> threads_;    // empty if the plan has one thread
  bool other_threads_wrote_ = false;  // whether a thread other than 0 reached its first write
  StepParams params_;
  StepInput input_;                   // of this step
  MonotonicTime deadline_;            // of this step
  bool has_run_ = false;              // true once a Run has completed
  int reached_ = 0;                   // 1 + the last instruction of plan_->dispatch that has run
  Outcome outcome_;                   // of the last Run, as reported by the device
  std::atomic<bool> updated_{false};  // whether an update has begun to write
  bool unfinished_ = false;           // whether the last Run left plan_->late in flight
  size_t late_left_ = 0;              // how many of plan_->late are still to be finished
  std::atomic<uint64_t> run_{0};      // counts runs
  std::atomic<bool> traced_{false};
  absl::Duration host_time_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_REPLICA_H_
