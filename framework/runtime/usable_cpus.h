// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_USABLE_CPUS_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_USABLE_CPUS_H_

#include <vector>

namespace mirrorflow {

// The CPUs that the calling thread may use, as Linux numbers them (a core with two hardware threads
// is two), in ascending order. Empty if the system does not tell.
std::vector<int> UsableCpus();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_USABLE_CPUS_H_
