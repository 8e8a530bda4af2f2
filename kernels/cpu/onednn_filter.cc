// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/onednn_filter.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/transpose8.h"
#include "kernels/cpu/vectorize.h"

namespace mirrorflow {
namespace {

// How many input channels ahead to prefetch. A large filter comes from memory, and the pieces of
// one block are far apart there, so the hardware prefetcher misses them.
constexpr int64_t kFetchAhead = 32;
constexpr int64_t kCacheLineFloats = 16;

// Fetches `floats` floats into the second-level cache.
MF_INLINE inline void Fetch(const float* from, int64_t floats) {
  for (int64_t i = 0; i < floats; i += kCacheLineFloats) {
    __builtin_prefetch(from + i, /*rw=*/0, /*locality=*/2);
  }
}

// Copies one element of the window in blocks of kOutBlock adjacent output channels.
template <int kOutBlock>
void CopyRows(const BlockedFilter& f, const float* from, float* to) {
  for (int64_t o = 0; o < f.out_channels; o += kOutBlock, to += f.out_stride) {
    const int64_t count = std::min<int64_t>(kOutBlock, f.out_channels - o);
    for (int64_t i = 0; i < f.in_channels; ++i) {
      const float* const row = from + i * f.from_channels + o;
      float* const out = to + i / f.in_block * f.in_stride + i % f.in_block * kOutBlock;
      if (count == kOutBlock) [[likely]] {
        Fetch(row + kFetchAhead * f.from_channels, kOutBlock);
        std::memcpy(out, row, kOutBlock * sizeof(float));
      } else {
        std::memcpy(out, row, count * sizeof(float));
        std::memset(out + count, 0, (kOutBlock - count) * sizeof(float));
      }
    }
  }
}

// Copies one element of the window and transposes each block.
void CopyTransposed(const BlockedFilter& f, const float* from, float* to) {
  constexpr int kTile = 8;
  for (int64_t i = 0; i < f.in_channels; i += f.in_block, to += f.in_stride) {
    float* block = to;
    for (int64_t o = 0; o < f.out_channels; o += f.out_block, block += f.out_stride) {
      const float* const rows = from + i * f.from_channels + o;
      for (int64_t k = 0; k < f.in_block; ++k) {
        Fetch(rows + (k + kFetchAhead) * f.from_channels, f.out_block);
      }
      for (int64_t k = 0; k < f.in_block; k += kTile) {
        for (int64_t l = 0; l < f.out_block; l += kTile) {
          Transpose8(rows + k * f.from_channels + l, f.from_channels, block + l * f.in_block + k,
                     f.in_block);
        }
      }
    }
  }
}

using CopyFunction = void (*)(const BlockedFilter& f, const float* from, float* to);

// Returns null for a layout that is not supported.
CopyFunction CopyFunctionOf(const BlockedFilter& f) {
  if (f.in_channels % f.in_block != 0) return nullptr;
  if (f.in_is_innermost) {
    const bool is_whole = f.out_channels % f.out_block == 0;
    return is_whole && f.in_block % 8 == 0 && f.out_block % 8 == 0 ? CopyTransposed : nullptr;
  }
  switch (f.out_block) {
    case 8:
      return CopyRows<8>;
    case 16:
      return CopyRows<16>;
    case 32:
      return CopyRows<32>;
    case 48:
      return CopyRows<48>;
    case 64:
      return CopyRows<64>;
    default:
      return nullptr;
  }
}

}  // namespace

bool BlockedFilter::CanCopy() const { return CopyFunctionOf(*this) != nullptr; }

bool BlockedFilter::IsPlain() const {
  return from_channels == out_channels && !in_is_innermost && in_block == 1 &&
         out_block == out_channels && in_stride == out_channels &&
         width_stride == in_channels * in_stride && height_stride == width * width_stride;
}

void BlockedFilter::Copy(const float* from, float* to) const {
  const CopyFunction copy = CopyFunctionOf(*this);
  from += from_channel;
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      copy(*this, from, to + y * height_stride + x * width_stride);
      from += in_channels * from_channels;
    }
  }
}

}  // namespace mirrorflow
