// SPDX-License-Identifier: Apache-2.0
//
// A CPU device that behaves like a GPU. Its lanes are real queues, each with its own thread and
// random delays between instructions. The host cannot touch its memory: an address faults unless it
// is passed to a kernel. A test that passes here depends only on the plan's events.
#ifndef MIRRORFLOW_TESTS_SUPPORT_QUEUED_DEVICE_H_
#define MIRRORFLOW_TESTS_SUPPORT_QUEUED_DEVICE_H_

#include <cstdint>
#include <memory>

#include "framework/runtime/device.h"

namespace mirrorflow {

struct QueuedDeviceOptions {
  uint64_t seed = 1;  // of the delays
  // Plants a bug: the wait with this number in each step (counted over all lanes, from 0) does not
  // wait.
  int ignored_wait = -1;
};

std::unique_ptr<Device> CreateQueuedDevice(int index, const QueuedDeviceOptions& options = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_QUEUED_DEVICE_H_
