// SPDX-License-Identifier: Apache-2.0
//
// A CPU device that behaves like a GPU. Its lanes are real queues, each with its own thread and
// random delays between instructions. The host cannot access the device's memory: only kernels
// receive valid addresses. A test that passes on it relies only on the plan's events for ordering.
#ifndef MIRRORFLOW_TESTS_SUPPORT_QUEUED_DEVICE_H_
#define MIRRORFLOW_TESTS_SUPPORT_QUEUED_DEVICE_H_

#include <cstdint>
#include <memory>

#include "framework/runtime/device.h"

namespace mirrorflow {

struct QueuedDeviceOptions {
  uint64_t seed = 1;  // of the delays
  // Plants a bug: in each step, the wait with this number (counted over all lanes, from 0) returns
  // immediately.
  int ignored_wait = -1;
};

std::unique_ptr<Device> CreateQueuedDevice(int index, const QueuedDeviceOptions& options = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_QUEUED_DEVICE_H_
