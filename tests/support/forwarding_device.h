// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TESTS_SUPPORT_FORWARDING_DEVICE_H_
#define MIRRORFLOW_TESTS_SUPPORT_FORWARDING_DEVICE_H_

#include <memory>
#include <utility>

#include "framework/core/monotonic_time.h"
#include "framework/runtime/device.h"

namespace mirrorflow {

// A device that forwards all calls to another device. Tests override the methods that they observe
// or change.
class ForwardingDevice : public Device {
 public:
  explicit ForwardingDevice(std::unique_ptr<Device> device) : device_(std::move(device)) {}

  absl::string_view name() const override { return device_->name(); }
  const DeviceTraits& traits() const override { return device_->traits(); }
  absl::StatusOr<std::shared_ptr<std::byte>> Allocate(size_t bytes) override {
    return device_->Allocate(bytes);
  }
  absl::Status MakeCurrent() override { return device_->MakeCurrent(); }
  absl::StatusOr<std::shared_ptr<std::byte>> AllocateOnHost(size_t bytes) override {
    return device_->AllocateOnHost(bytes);
  }
  absl::Status Send(const StepInput& input) override { return device_->Send(input); }
  absl::Status Synchronize(MonotonicTime deadline) override {
    return device_->Synchronize(deadline);
  }
  std::byte* KernelAddress(std::byte* address) const override {
    return device_->KernelAddress(address);
  }
  absl::Status CopyIn(const std::byte* host, std::byte* device, size_t bytes) override {
    return device_->CopyIn(host, device, bytes);
  }
  absl::Status CopyOut(const std::byte* device, std::byte* host, size_t bytes) override {
    return device_->CopyOut(device, host, bytes);
  }
  Lane& lane(LaneKind kind) override { return device_->lane(kind); }
  Lane& lane_of_thread(int thread) override { return device_->lane_of_thread(thread); }
  absl::Status ReserveEvents(int count) override { return device_->ReserveEvents(count); }
  absl::Status Execute(const Execution& execution) override { return device_->Execute(execution); }

 private:
  const std::unique_ptr<Device> device_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_FORWARDING_DEVICE_H_
