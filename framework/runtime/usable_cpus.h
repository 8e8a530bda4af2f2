// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_USABLE_CPUS_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_USABLE_CPUS_H_

#include <vector>

#include "framework/core/cgroup.h"

namespace mirrorflow {

// Returns the CPUs that the calling thread may use, in Linux's numbering (a core with two hardware
// threads counts as two), in ascending order. The result is empty if the system does not report
// them.
std::vector<int> UsableCpus();

// Returns how many CPUs this thread can use at once, at least 1: the number of UsableCpus(), or the
// control group's CPU quota if that is lower. Rounds a fraction up, so none of the quota stays
// unused.
int NumUsableCpus(const Cgroup& cgroup = Cgroup());

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_USABLE_CPUS_H_
