// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TESTS_SUPPORT_PROCESS_MEMORY_H_
#define MIRRORFLOW_TESTS_SUPPORT_PROCESS_MEMORY_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace mirrorflow {

// Returns a field of /proc/self/status, such as VmHWM, in bytes, or 0 if it does not exist.
int64_t MemoryFigure(absl::string_view name);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_PROCESS_MEMORY_H_
