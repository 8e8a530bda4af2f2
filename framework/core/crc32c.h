// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_FRAMEWORK_CORE_CRC32C_H_
#define MIRRORFLOW_FRAMEWORK_CORE_CRC32C_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace mirrorflow {

// Computes the CRC-32C (Castagnoli) of RFC 3720: 0xe3069283 for "123456789". `crc` is the checksum
// of the preceding bytes: Crc32c(b, Crc32c(a)) is the checksum of `a` followed by `b`.
uint32_t Crc32c(absl::string_view bytes, uint32_t crc = 0);

// Computes the checksum of TFRecord files. The mask exists because it is problematic to compute
// the CRC of a string that contains embedded CRCs. Source: TensorFlow, core/lib/hash/crc32c.h.
inline uint32_t MaskedCrc32c(absl::string_view bytes) {
  const uint32_t crc = Crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_CRC32C_H_
