// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/usable_cpus.h"

#include <sched.h>

namespace mirrorflow {

std::vector<int> UsableCpus() {
  std::vector<int> cpus;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

}  // namespace mirrorflow
