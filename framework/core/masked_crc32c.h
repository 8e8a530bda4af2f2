// SPDX-License-Identifier: Apache-2.0
//
// The checksum of TFRecord files. Its mask makes the checksum of bytes that contain their own
// checksum as good as any other. Source: TensorFlow, core/lib/hash/crc32c.h.
#ifndef MIRRORFLOW_FRAMEWORK_CORE_MASKED_CRC32C_H_
#define MIRRORFLOW_FRAMEWORK_CORE_MASKED_CRC32C_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "framework/core/crc32c.h"

namespace mirrorflow {

inline uint32_t MaskedCrc32c(absl::string_view bytes) {
  const uint32_t crc = Crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_MASKED_CRC32C_H_
