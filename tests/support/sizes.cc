// SPDX-License-Identifier: Apache-2.0
#include "tests/support/sizes.h"

#include <cstdlib>
#include <vector>

#include "absl/strings/numbers.h"

namespace mirrorflow {

std::vector<int> SizesUpTo(const char* variable, std::vector<int> sizes) {
  const char* text = std::getenv(variable);
  int limit;
  if (text != nullptr && absl::SimpleAtoi(text, &limit)) {
    std::erase_if(sizes, [limit](int size) { return size > limit; });
  }
  return sizes;
}

}  // namespace mirrorflow
