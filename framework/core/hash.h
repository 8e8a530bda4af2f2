// SPDX-License-Identifier: Apache-2.0
//
// A hash that never changes between machines or versions: 64-bit FNV-1a (Fowler, Noll, Vo).
#ifndef MIRRORFLOW_FRAMEWORK_CORE_HASH_H_
#define MIRRORFLOW_FRAMEWORK_CORE_HASH_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace mirrorflow {

class StableHasher {
 public:
  StableHasher& Add(absl::string_view bytes) {
    for (const char c : bytes) Mix(static_cast<unsigned char>(c));
    return *this;
  }
  // Mixes in the whole value in one step, not byte by byte.
  StableHasher& Add(int64_t value) {
    Mix(static_cast<uint64_t>(value));
    return *this;
  }
  uint64_t hash() const { return hash_; }

 private:
  void Mix(uint64_t value) { hash_ = (hash_ ^ value) * 1099511628211u; }

  uint64_t hash_ = 14695981039346656037u;
};

inline uint64_t StableHash(absl::string_view bytes) { return StableHasher().Add(bytes).hash(); }

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_HASH_H_
