// SPDX-License-Identifier: Apache-2.0
#include "framework/core/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace mirrorflow {

uint32_t Crc32c(absl::string_view bytes, uint32_t crc) {
  constexpr size_t kMaxBytes = size_t{1} << 30;  // per call; the length is an int
  crc = ~crc;
  while (!bytes.empty()) {
    const size_t count = std::min(bytes.size(), kMaxBytes);
    // crc32_iscsi does not write to its argument.
    auto* const data = reinterpret_cast<unsigned char*>(const_cast<char*>(bytes.data()));
    crc = crc32_iscsi(data, static_cast<int>(count), crc);
    bytes.remove_prefix(count);
  }
  return ~crc;
}

}  // namespace mirrorflow
