// SPDX-License-Identifier: Apache-2.0
#include "tests/support/process_memory.h"

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace mirrorflow {

int64_t MemoryFigure(absl::string_view name) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kibibytes;
    if (word == absl::StrCat(name, ":") && status >> kibibytes) return kibibytes << 10;
  }
  return 0;
}

}  // namespace mirrorflow
