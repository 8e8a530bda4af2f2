// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/usable_cpus.h"

#include <sched.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cmath>

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

int NumUsableCpus(const Cgroup& cgroup) {
  const double cpus = std::max<double>(static_cast<double>(UsableCpus().size()), 1);
  return static_cast<int>(std::ceil(std::min(cpus, cgroup.Cpus().value_or(cpus))));
}

namespace {

// oneDNN depends on libgomp. With OMP_PROC_BIND, OMP_PLACES or GOMP_CPU_AFFINITY in the
// environment, libgomp's constructor pins the main thread to one OpenMP place, and every later
// thread and child process would inherit that one core. Replicas are not OpenMP threads, so this
// file undoes the pinning before main() starts: it records the affinity before any constructor
// runs, and restores it in a constructor that runs after libgomp's because libgomp is a dependency.
// The recorded affinity includes what the user or a launcher has set (taskset, srun, a cpuset).
cpu_set_t at_start;
long at_start_bytes = 0;  // bytes of it that the kernel wrote; 0 or less on failure

}  // namespace

#if defined(__x86_64__)

// The dynamic linker calls ifunc resolvers during relocation, in programs as well as in shared
// libraries, and therefore before any constructor. Relocation is incomplete at that point, so the
// resolver calls no function and is not instrumented.
#if defined(__clang__)
#define MF_NOT_INSTRUMENTED __attribute__((disable_sanitizer_instrumentation))
#else
#define MF_NOT_INSTRUMENTED __attribute__((no_sanitize("address", "thread", "undefined")))
#endif

extern "C" {
using MirrorflowAffinityFunction = long();
__attribute__((visibility("hidden"))) long MirrorflowRecordedAffinity() { return at_start_bytes; }
__attribute__((visibility("hidden"))) MF_NOT_INSTRUMENTED MirrorflowAffinityFunction*
MirrorflowRecordAffinity() {
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "0"(static_cast<long>(SYS_sched_getaffinity)), "D"(0L), "S"(sizeof at_start),
                     "d"(&at_start)
                   : "rcx", "r11", "memory");
  at_start_bytes = result;
  return MirrorflowRecordedAffinity;
}
__attribute__((visibility("hidden"), ifunc("MirrorflowRecordAffinity"))) long
MirrorflowAffinityBytes();
}

namespace {

const bool restored = [] {
  cpu_set_t now;
  if (MirrorflowAffinityBytes() <= 0 || sched_getaffinity(0, sizeof now, &now) != 0) return false;
  return CPU_EQUAL(&now, &at_start) || sched_setaffinity(0, sizeof at_start, &at_start) == 0;
}();

}  // namespace

#endif  // defined(__x86_64__)

}  // namespace mirrorflow
