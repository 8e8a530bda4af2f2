// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_BENCH_MACHINE_H_
#define MIRRORFLOW_TOOLS_BENCH_MACHINE_H_

#include <sched.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace mirrorflow {

// Describes this machine, for example
// `AMD EPYC (family 26, model 2), 24 GB, Linux 6.18.5, 2 cores`.
std::string DescribeMachine();

// Returns the version of oneDNN in this process, such as `2.6.3`, or `none` without oneDNN.
std::string OneDnnVersion();

// Returns a memory figure of a process, such as `VmHWM`, in bytes, or nothing if the process has
// ended. `process` is its process id, or `self`.
std::optional<int64_t> MemoryFigure(absl::string_view process, absl::string_view figure);

// Pins the calling thread, and the threads that it starts, to `count` cores starting at `core`,
// during the lifetime of the object.
class PinnedTo {
 public:
  explicit PinnedTo(int core, int count = 1);
  ~PinnedTo();
  PinnedTo(const PinnedTo&) = delete;
  PinnedTo& operator=(const PinnedTo&) = delete;

 private:
  cpu_set_t before_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_MACHINE_H_
