// SPDX-License-Identifier: Apache-2.0
//
// CpuDevice: a replica on the CPU. One thread, the one that calls Execute, runs all lanes inline in
// the order of the plan: no queue and no wait between nodes.
#ifndef MIRRORFLOW_KERNELS_CPU_CPU_DEVICE_H_
#define MIRRORFLOW_KERNELS_CPU_CPU_DEVICE_H_

#include <memory>

#include "framework/runtime/device.h"

namespace mirrorflow {

// Device `CPU:index`.
std::unique_ptr<Device> CreateCpuDevice(int index);

// The cores that this process may run on; two CPUs that share one count once.
int NumUsableCores();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_CPU_DEVICE_H_
