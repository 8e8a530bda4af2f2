// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/reduce_in_rank_order.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "framework/core/reduced_float.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

// Half of a small L1 cache, so a block that one pass writes is still cached for the next.
constexpr int64_t kBlockBytes = 16 << 10;

// Adds signed integers as unsigned, so overflow wraps instead of being undefined.
template <typename T>
struct Wrapping {
  using type = T;
};
template <typename T>
requires std::is_integral_v<T>
struct Wrapping<T> {
  using type = std::make_unsigned_t<T>;
};

template <typename T>
T Sum(T a, T b) {
  using U = typename Wrapping<T>::type;
  return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
}

// Combines two contributions in one pass. Each element is read before it is written, so `out` may
// be `a` or `b`; the pragma asserts that there is no other overlap.
template <typename T, typename Op>
void Combine(const T* a, const T* b, T* out, int64_t count, Op op) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) out[i] = op(a[i], b[i]);
}

// Applies `last` instead of `op` to the last contribution, so that a mean can also divide there.
template <typename T, typename Op, typename Last>
void Reduce(absl::Span<const void* const> in, absl::Span<void* const> out, int64_t count, Op op,
            Last last) {
  constexpr int64_t kBlock = kBlockBytes / sizeof(T);
  alignas(64) T partial[kBlock];
  const size_t ranks = in.size();
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t n = std::min(kBlock, count - begin);
    const auto source = [&](size_t rank) { return static_cast<const T*>(in[rank]) + begin; };
    // Reads all contributions of a block before it writes the first `out`.
    const T* so_far = source(0);
    for (size_t rank = 1; rank + 1 < ranks; ++rank) {
      Combine(so_far, source(rank), partial, n, op);
      so_far = partial;
    }
    T* const result = static_cast<T*>(out[0]) + begin;
    if (ranks > 1) {
      Combine(so_far, source(ranks - 1), result, n, last);
    } else if (result != so_far) {
      std::memcpy(result, so_far, n * sizeof(T));
    }
    for (void* const other : out.subspan(1)) {
      T* const copy = static_cast<T*>(other) + begin;
      if (copy != result) std::memcpy(copy, result, n * sizeof(T));
    }
  }
}

template <typename T>
void ReduceNumbers(Reduction reduction, absl::Span<const void* const> in,
                   absl::Span<void* const> out, int64_t count) {
  const auto sum = [](T a, T b) { return Sum(a, b); };
  // Comparisons with NaN are false: `a != a` selects a NaN in `a`; otherwise a NaN in `b` is the
  // default.
  const auto max = [](T a, T b) { return ((a > b) | (a != a)) ? a : b; };
  const auto min = [](T a, T b) { return ((a < b) | (a != a)) ? a : b; };
  switch (reduction) {
    case Reduction::kSum:
      return Reduce<T>(in, out, count, sum, sum);
    case Reduction::kMean:
      if constexpr (std::is_floating_point_v<T>) {
        const T scale = T{1} / static_cast<T>(in.size());
        return Reduce<T>(in, out, count, sum, [scale](T a, T b) { return (a + b) * scale; });
      } else {
        const int64_t ranks = static_cast<int64_t>(in.size());
        return Reduce<T>(in, out, count, sum,
                         [ranks](T a, T b) { return static_cast<T>(Sum(a, b) / ranks); });
      }
    case Reduction::kMax:
      return Reduce<T>(in, out, count, max, max);
    case Reduction::kMin:
      return Reduce<T>(in, out, count, min, min);
    case Reduction::kAll:
    case Reduction::kAny:
      break;
  }
}

// Reduces bools as bytes: any nonzero byte is true, and reading it as a byte is well-defined.
void ReduceBools(Reduction reduction, absl::Span<const void* const> in, absl::Span<void* const> out,
                 int64_t count) {
  using Byte = uint8_t;
  const auto all = [](Byte a, Byte b) { return static_cast<Byte>((a != 0) & (b != 0)); };
  const auto any = [](Byte a, Byte b) { return static_cast<Byte>((a | b) != 0); };
  if (reduction == Reduction::kAll) return Reduce<Byte>(in, out, count, all, all);
  if (reduction == Reduction::kAny) return Reduce<Byte>(in, out, count, any, any);
}

// Reduces half and bfloat16 in float and rounds once. As in Reduce, all contributions of a block
// are read before the first `out` is written.
void ReduceReduced(Reduction reduction, DataType dtype, absl::Span<const void* const> in,
                   absl::Span<void* const> out, int64_t count) {
  constexpr int64_t kBlock = kBlockBytes / sizeof(float);
  alignas(64) float sum[kBlock];
  alignas(64) float part[kBlock];
  const Reduction pairwise = reduction == Reduction::kMean ? Reduction::kSum : reduction;
  const float scale = reduction == Reduction::kMean ? 1.0f / static_cast<float>(in.size()) : 1.0f;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t n = std::min(kBlock, count - begin);
    for (size_t rank = 0; rank < in.size(); ++rank) {
      const uint16_t* from = static_cast<const uint16_t*>(in[rank]) + begin;
      float* const to = rank == 0 ? sum : part;
      for (int64_t i = 0; i < n; ++i) to[i] = ReducedToFloat(dtype, from[i]);
      if (rank > 0) ReduceNumbers<float>(pairwise, {sum, part}, {sum}, n);
    }
    for (void* const result : out) {
      uint16_t* to = static_cast<uint16_t*>(result) + begin;
      for (int64_t i = 0; i < n; ++i) to[i] = ReducedFrom(dtype, sum[i] * scale);
    }
  }
}

bool IsLogical(Reduction reduction) {
  return reduction == Reduction::kAll || reduction == Reduction::kAny;
}

}  // namespace

bool CanReduce(Reduction reduction, DataType dtype) {
  if (IsReducedFloat(dtype)) return !IsLogical(reduction);
  const auto can = [&](auto tag) {
    return IsLogical(reduction) == std::is_same_v<typename decltype(tag)::type, bool>;
  };
  return DispatchDataType(dtype, can, false);
}

void ReduceInRankOrder(Reduction reduction, DataType dtype, absl::Span<const void* const> in,
                       absl::Span<void* const> out, int64_t count) {
  if (IsReducedFloat(dtype)) return ReduceReduced(reduction, dtype, in, out, count);
  const auto reduce = [&]<typename T>(TypeTag<T>) {
    if constexpr (std::is_same_v<T, bool>) {
      ReduceBools(reduction, in, out, count);
    } else {
      ReduceNumbers<T>(reduction, in, out, count);
    }
    return true;
  };
  MF_CHECK(DispatchDataType(dtype, reduce, false));
}

void DivideSums(DataType dtype, void* sums, int64_t count, int64_t ranks) {
  if (IsReducedFloat(dtype)) {
    auto* values = static_cast<uint16_t*>(sums);
    const float scale = 1.0f / static_cast<float>(ranks);
    for (int64_t i = 0; i < count; ++i) {
      values[i] = ReducedFrom(dtype, ReducedToFloat(dtype, values[i]) * scale);
    }
    return;
  }
  const auto divide = [&]<typename T>(TypeTag<T>) {
    T* const values = static_cast<T*>(sums);
    if constexpr (std::is_floating_point_v<T>) {
      const T scale = T{1} / static_cast<T>(ranks);
      for (int64_t i = 0; i < count; ++i) values[i] *= scale;
    } else if constexpr (!std::is_same_v<T, bool>) {
      for (int64_t i = 0; i < count; ++i) values[i] = static_cast<T>(values[i] / ranks);
    }
    return true;
  };
  MF_CHECK(DispatchDataType(dtype, divide, false));
}

void NarrowToBFloat16(const float* from, int64_t count, void* to) {
  auto* const narrow = static_cast<uint16_t*>(to);
  for (int64_t i = 0; i < count; ++i) narrow[i] = BFloat16Format::FromFloat(from[i]);
}

void WidenBFloat16(const void* from, int64_t count, float* to) {
  const auto* const narrow = static_cast<const uint16_t*>(from);
  for (int64_t i = 0; i < count; ++i) to[i] = BFloat16Format::ToFloat(narrow[i]);
}

}  // namespace mirrorflow
