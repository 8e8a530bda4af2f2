// SPDX-License-Identifier: Apache-2.0
//
// CpuDevice runs a replica on the CPU. The thread that calls Execute runs all lanes inline, in plan
// order, without queues and without waiting between nodes. Other threads can run parts of nodes.
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

// Creates device `CPU:index`. Its memory comes from `allocate`, or from the process's own memory if
// `allocate` is null. `num_threads` is the number of threads that run its replica.
std::unique_ptr<Device> CreateCpuDevice(int index, AllocateFn allocate = nullptr,
                                        int num_threads = 1);

// Returns how many cores this process may use at once, at most NumUsableCpus(). CPUs that share a
// core count once.
int NumUsableCores(const Cgroup& cgroup = Cgroup());
// Returns whether this process may run on all online CPUs of the machine.
bool MayUseAllCores();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_CPU_DEVICE_H_
