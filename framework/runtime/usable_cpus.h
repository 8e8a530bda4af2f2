// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_USABLE_CPUS_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_USABLE_CPUS_H_

#include <vector>

#include "framework/core/cgroup.h"

namespace mirrorflow {

// The CPUs that the calling thread may use, as Linux numbers them (a core with two hardware threads
// is two), in ascending order. Empty if the system does not tell.
std::vector<int> UsableCpus();

// How many CPUs this thread can use at once, at least 1: those of UsableCpus(), or the CPU time
// that the control group allows if that is less. A fraction counts as a whole CPU; it would be left
// unused otherwise.
int NumUsableCpus(const Cgroup& cgroup = Cgroup());

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_USABLE_CPUS_H_
