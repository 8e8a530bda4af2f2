// SPDX-License-Identifier: Apache-2.0
//
// CpuDevice: the device of a replica on the CPU. The thread that calls Execute runs all lanes
// inline, in the order of the plan, without queues or waits between nodes.
#ifndef MIRRORFLOW_KERNELS_CPU_CPU_DEVICE_H_
#define MIRRORFLOW_KERNELS_CPU_CPU_DEVICE_H_

#include <cstddef>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "framework/core/cgroup.h"
#include "framework/runtime/device.h"

namespace mirrorflow {

// Returns zeroed memory, aligned to 64 bytes.
using AllocateFn = std::function<absl::StatusOr<std::shared_ptr<std::byte>>(size_t bytes)>;

// Creates device `CPU:index`, whose memory comes from `allocate` or, if it is null, from the
// process's own.
std::unique_ptr<Device> CreateCpuDevice(int index, AllocateFn allocate = nullptr);

// Number of cores that this process may use at once (NumUsableCpus). CPUs that share a core count
// once.
int NumUsableCores(const Cgroup& cgroup = Cgroup());
// Whether no one has limited this process to some of the machine's CPUs.
bool MayUseAllCores();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_CPU_DEVICE_H_
