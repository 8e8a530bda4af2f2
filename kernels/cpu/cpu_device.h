// SPDX-License-Identifier: Apache-2.0
//
// CpuDevice: the device of a replica on the CPU. The thread that calls Execute runs all lanes
// inline, in the order of the plan, without queues or waits between nodes.
#ifndef MIRRORFLOW_KERNELS_CPU_CPU_DEVICE_H_
#define MIRRORFLOW_KERNELS_CPU_CPU_DEVICE_H_

#include <memory>

#include "framework/runtime/device.h"

namespace mirrorflow {

// Creates device `CPU:index`.
std::unique_ptr<Device> CreateCpuDevice(int index);

// Number of cores that this process may run on. CPUs that share a core count once.
int NumUsableCores();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_CPU_DEVICE_H_
