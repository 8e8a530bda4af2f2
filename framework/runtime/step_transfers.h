// SPDX-License-Identifier: Apache-2.0
//
// StepTransfers: the data that a bound plan exchanges with the host in each step, on a device with
// its own memory. Parameters and feeds are copied to the device as one block; those of an announced
// next step are copied while the current step computes. Fetches are copied asynchronously to host
// memory that the device can write.
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_STEP_TRANSFERS_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_STEP_TRANSFERS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/core/monotonic_time.h"
#include "framework/runtime/device.h"
#include "framework/runtime/kernel.h"
#include "framework/runtime/plan.h"

namespace mirrorflow {

class StepTransfers {
 public:
  static absl::StatusOr<std::unique_ptr<StepTransfers>> Create(Device* device, const Plan& plan);
  // Waits for copies in flight.
  ~StepTransfers();

  // Return the device addresses of the step's parameters and feeds.
  std::byte* params() const { return device_block_.get(); }
  std::byte* feed(int i) const { return device_block_.get() + offsets_[i]; }

  // Sets a feed of the next step. It must stay valid until Prepare has returned.
  void SetFeed(int i, const std::byte* host) { feeds_[i] = host; }
  // Announces the number and all feeds of the step after the next. Their copy is used if that step
  // then has the same parameters, and feeds at the same addresses, whose contents must not have
  // changed.
  void SetNext(uint64_t step, absl::Span<const std::byte* const> feeds);
  void ForgetNext();

  // Returns the input of a step with these parameters, complete in host memory or already in
  // flight.
  absl::StatusOr<StepInput> Prepare(const StepParams& params, MonotonicTime deadline);
  // Sends the announced step's input, if any. Called while a step runs.
  void SendNext();

  // Allocates host memory for these fetches of the plan.
  absl::Status BringToHost(const Plan& plan, absl::Span<const int> fetches);
  // Returns the copies to make; fetch `i` is at `address_of(i)` in device memory.
  absl::Span<const StepFetch> Fetches(absl::FunctionRef<const std::byte*(int)> address_of);
  // Returns the host address of fetch `i` of the last step, or null if BringToHost did not name it.
  const std::byte* fetched(int i) const { return fetched_[i]; }

 private:
  explicit StepTransfers(Device* device) : device_(*device) {}

  // Copies parameters and feeds to the host buffer that the last step does not use.
  void Fill(const StepParams& params, absl::Span<const std::byte* const> feeds);
  StepInput Input() const;

  Device& device_;
  std::vector<size_t> offsets_, sizes_;  // by feed
  size_t bytes_ = 0;                     // of a block
  std::shared_ptr<std::byte> device_block_, ahead_;
  // Double-buffered: one buffer can be filled while the device reads the other. A buffer keeps its
  // input until the step that reads it has ended.
  std::shared_ptr<std::byte> host_[2];
  int half_ = 0;                         // index of the buffer filled last
  std::vector<const std::byte*> feeds_;  // of the next step
  StepParams last_params_;               // of the last step

  // `announced_`: true once SetNext has announced the next step. `sent_`: true once SendNext has
  // sent that step's input.
  bool announced_ = false, sent_ = false;
  uint64_t next_step_ = 0;
  std::vector<const std::byte*> next_feeds_, sent_feeds_;
  StepParams sent_params_;

  std::vector<StepFetch> fetches_;
  std::vector<int> fetch_of_;  // by entry of fetches_
  std::vector<const std::byte*> fetched_;
  std::shared_ptr<std::byte> host_fetches_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_STEP_TRANSFERS_H_
