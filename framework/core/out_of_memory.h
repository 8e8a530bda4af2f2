// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_FRAMEWORK_CORE_OUT_OF_MEMORY_H_
#define MIRRORFLOW_FRAMEWORK_CORE_OUT_OF_MEMORY_H_

#include <new>
#include <utility>

#include "absl/status/status.h"

namespace mirrorflow {

// Returns what `work` returns, a Status or a StatusOr, or ResourceExhausted if it throws
// std::bad_alloc. Our own code throws nothing, but the standard library does so when memory runs
// out, and on a thread of ours that would end the process.
template <typename Work>
auto CatchOutOfMemory(Work&& work) -> decltype(work()) {
  try {
    return std::forward<Work>(work)();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("cannot allocate memory; expected more free memory");
  }
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_OUT_OF_MEMORY_H_
