// SPDX-License-Identifier: Apache-2.0
//
// A CPU device that behaves like a GPU: its lanes are real queues with a thread each, which run
// with random delays between instructions, and the host cannot touch its memory (an address of it
// faults unless a kernel is given it). What passes here depends on nothing but the plan's events.
#ifndef MIRRORFLOW_TESTS_SUPPORT_QUEUED_DEVICE_H_
#define MIRRORFLOW_TESTS_SUPPORT_QUEUED_DEVICE_H_

#include <cstdint>
#include <memory>

#include "framework/runtime/device.h"

namespace mirrorflow {

struct QueuedDeviceOptions {
  uint64_t seed = 1;  // of the delays
  // Plants a bug: the wait with this number in each step (of all lanes, from 0) does not wait.
  int ignored_wait = -1;
};

std::unique_ptr<Device> CreateQueuedDevice(int index, const QueuedDeviceOptions& options = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_QUEUED_DEVICE_H_
