// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_FRAMEWORK_CORE_HASH_H_
#define MIRRORFLOW_FRAMEWORK_CORE_HASH_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace mirrorflow {

// The same on all machines and for ever: FNV-1a, 64 bits (Fowler, Noll, Vo).
inline uint64_t StableHash(absl::string_view bytes) {
  uint64_t hash = 14695981039346656037u;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_HASH_H_
