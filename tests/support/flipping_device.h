// SPDX-License-Identifier: Apache-2.0
//
// A device that plants a difference between replicas: it flips one bit of a value that is copied to
// it.
#ifndef MIRRORFLOW_TESTS_SUPPORT_FLIPPING_DEVICE_H_
#define MIRRORFLOW_TESTS_SUPPORT_FLIPPING_DEVICE_H_

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "tests/support/forwarding_device.h"

namespace mirrorflow {

class FlippingDevice final : public ForwardingDevice {
 public:
  // If `*flips` is set, the next CopyIn of at least one byte flips one bit of the last byte and
  // resets `*flips`. `flips` must outlive the device.
  FlippingDevice(std::unique_ptr<Device> device, std::atomic<bool>* flips)
      : ForwardingDevice(std::move(device)), flips_(*flips) {}

  absl::Status CopyIn(const std::byte* host, std::byte* device, size_t bytes) override {
    if (bytes == 0 || !flips_.exchange(false)) return ForwardingDevice::CopyIn(host, device, bytes);
    std::string flipped(reinterpret_cast<const char*>(host), bytes);
    flipped.back() ^= 1;
    return ForwardingDevice::CopyIn(reinterpret_cast<const std::byte*>(flipped.data()), device,
                                    bytes);
  }

 private:
  std::atomic<bool>& flips_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_FLIPPING_DEVICE_H_
