// SPDX-License-Identifier: Apache-2.0
//
// A device that plants a difference between replicas: it flips a bit of a value that is copied in.
#ifndef MIRRORFLOW_TESTS_SUPPORT_FLIPPING_DEVICE_H_
#define MIRRORFLOW_TESTS_SUPPORT_FLIPPING_DEVICE_H_

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "framework/runtime/device.h"

namespace mirrorflow {

class FlippingDevice final : public Device {
 public:
  // While `*flips` is set, the next CopyIn flips a bit of its last byte, and resets it. `flips`
  // must outlive the device.
  FlippingDevice(std::unique_ptr<Device> device, std::atomic<bool>* flips)
      : device_(std::move(device)), flips_(*flips) {}
  absl::string_view name() const override { return device_->name(); }
  const DeviceTraits& traits() const override { return device_->traits(); }
  absl::StatusOr<std::shared_ptr<std::byte>> Allocate(size_t bytes) override {
    return device_->Allocate(bytes);
  }
  std::byte* KernelAddress(std::byte* address) const override {
    return device_->KernelAddress(address);
  }
  absl::Status CopyIn(const std::byte* host, std::byte* device, size_t bytes) override {
    if (bytes == 0 || !flips_.exchange(false)) return device_->CopyIn(host, device, bytes);
    std::string flipped(reinterpret_cast<const char*>(host), bytes);
    flipped.back() ^= 1;
    return device_->CopyIn(reinterpret_cast<const std::byte*>(flipped.data()), device, bytes);
  }
  absl::Status CopyOut(const std::byte* device, std::byte* host, size_t bytes) override {
    return device_->CopyOut(device, host, bytes);
  }
  Lane& lane(LaneKind kind) override { return device_->lane(kind); }
  absl::Status ReserveEvents(int count) override { return device_->ReserveEvents(count); }
  absl::Status Execute(const Execution& execution) override { return device_->Execute(execution); }

 private:
  const std::unique_ptr<Device> device_;
  std::atomic<bool>& flips_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_FLIPPING_DEVICE_H_
