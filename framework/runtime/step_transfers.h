// SPDX-License-Identifier: Apache-2.0
//
// StepTransfers: what a bound plan exchanges with the host in each step, on a device whose memory
// is not the host's. Parameters and feeds travel to the device as one block, those of the next step
// while this one computes, if they are announced. Fetches travel to memory that the device can
// write while the host goes on.
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
  // Waits for copies that are under way.
  ~StepTransfers();

  // Where the step finds its parameters and its feeds: addresses of the device.
  std::byte* params() const { return device_block_.get(); }
  std::byte* feed(int i) const { return device_block_.get() + offsets_[i]; }

  // A feed of the next step, which must stay valid until Prepare has returned.
  void SetFeed(int i, const std::byte* host) { feeds_[i] = host; }
  // The number and all feeds of the step after it: they are used if that step has these parameters
  // and feeds at these addresses, which must then be unchanged.
  void SetNext(uint64_t step, absl::Span<const std::byte* const> feeds);
  void ForgetNext();

  // The input of a step with these parameters, which is complete in the host's memory or already on
  // its way.
  absl::StatusOr<StepInput> Prepare(const StepParams& params, MonotonicTime deadline);
  // Sends the input of the announced step, if there is one. Called while a step runs.
  void SendNext();

  // Provides host memory for these fetches of the plan.
  absl::Status BringToHost(const Plan& plan, absl::Span<const int> fetches);
  // The fetches, at `address_of(fetch)` in the device's memory.
  absl::Span<const StepFetch> Fetches(absl::FunctionRef<const std::byte*(int)> address_of);
  // Where the host finds fetch `i` of the last step; null if BringToHost did not name it.
  const std::byte* fetched(int i) const { return fetched_[i]; }

 private:
  explicit StepTransfers(Device* device) : device_(*device) {}

  // Copies parameters and feeds to the half that the last step does not use.
  void Fill(const StepParams& params, absl::Span<const std::byte* const> feeds);
  StepInput Input() const;

  Device& device_;
  std::vector<size_t> offsets_, sizes_;  // by feed
  size_t bytes_ = 0;                     // of a block
  std::shared_ptr<std::byte> device_block_, ahead_;
  // One half may be filled while the other one is read: an input stays until its step has ended.
  std::shared_ptr<std::byte> host_[2];
  int half_ = 0;                         // the last that was filled
  std::vector<const std::byte*> feeds_;  // of the next step
  StepParams last_params_;               // of the last step

  // The next step: announced by SetNext, and sent by SendNext.
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
