// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_SHARD_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_SHARD_H_

#include <algorithm>
#include <cstdint>

namespace mirrorflow {

// Elements [first, first + count).
struct Shard {
  int64_t first = 0;
  int64_t count = 0;

  int64_t end() const { return first + count; }
};

// Returns the part of `count` elements that member `index` of `size` works on. Shards are whole
// cache lines, so that no two members write to the same line, and as even as that allows.
inline Shard ShardOf(int64_t count, int64_t element_bytes, int index, int size) {
  constexpr int64_t kLineBytes = 64;
  const int64_t per_line = kLineBytes / element_bytes;
  const int64_t lines = (count + per_line - 1) / per_line;
  const int64_t first = std::min(count, lines * index / size * per_line);
  return {first, std::min(count, lines * (index + 1) / size * per_line) - first};
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_SHARD_H_
