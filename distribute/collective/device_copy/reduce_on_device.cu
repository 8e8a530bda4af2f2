// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <type_traits>

#include "distribute/collective/device_copy/reduce_on_device.h"

namespace mirrorflow {
namespace {

struct Ranks {
  const void* in[kMaxLogicalGpus];
  void* out[kMaxLogicalGpus];
  int num_in;
  int num_out;
};

// The type that sums are computed in: float for half and bfloat16, and unsigned types for integers,
// so that overflow wraps.
template <typename T>
struct SumOf {
  using type = T;
};
template <>
struct SumOf<__half> {
  using type = float;
};
template <>
struct SumOf<__nv_bfloat16> {
  using type = float;
};
template <typename T>
requires std::is_integral_v<T>
struct SumOf<T> {
  using type = std::make_unsigned_t<T>;
};

template <typename T>
constexpr bool kIsReal = !std::is_integral_v<T>;

template <Reduction kReduction, typename T, typename S>
__device__ S Combine(S a, S b) {
  if constexpr (kReduction == Reduction::kSum || kReduction == Reduction::kMean) {
    return a + b;
  } else if constexpr (kReduction == Reduction::kAll) {
    return a != 0 && b != 0;
  } else if constexpr (kReduction == Reduction::kAny) {
    return (a | b) != 0;
  } else if constexpr (kIsReal<T>) {
    // Comparisons with NaN are false: `a != a` selects a NaN in `a`, and a NaN in `b` is the
    // default.
    const bool first = kReduction == Reduction::kMax ? a > b : a < b;
    return first || a != a ? a : b;
  } else {
    const T x = static_cast<T>(a), y = static_cast<T>(b);
    return (kReduction == Reduction::kMax ? x > y : x < y) ? a : b;
  }
}

template <Reduction kReduction, typename T>
__global__ void Reduce(Ranks ranks, int64_t count) {
  using S = typename SumOf<T>::type;
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    S sum = static_cast<S>(static_cast<const T*>(ranks.in[0])[i]);
    for (int r = 1; r < ranks.num_in; ++r) {
      sum = Combine<kReduction, T>(sum, static_cast<S>(static_cast<const T*>(ranks.in[r])[i]));
    }
    T result = static_cast<T>(sum);
    if constexpr (kReduction == Reduction::kMean) {
      if constexpr (kIsReal<T>) {
        result = static_cast<T>(sum * (S{1} / static_cast<S>(ranks.num_in)));
      } else {
        result = static_cast<T>(static_cast<T>(sum) / int64_t{ranks.num_in});
      }
    }
    for (int r = 0; r < ranks.num_out; ++r) static_cast<T*>(ranks.out[r])[i] = result;
  }
}

template <Reduction kReduction, typename T>
void Launch(const Ranks& ranks, int64_t count, cudaStream_t stream) {
  constexpr int kThreads = 256, kMaxBlocks = 1024;
  const auto blocks =
      static_cast<int>(std::min<int64_t>((count + kThreads - 1) / kThreads, kMaxBlocks));
  Reduce<kReduction, T><<<blocks, kThreads, 0, stream>>>(ranks, count);
}

template <typename T>
void LaunchNumbers(Reduction reduction, const Ranks& ranks, int64_t count, cudaStream_t stream) {
  switch (reduction) {
    case Reduction::kSum:
      return Launch<Reduction::kSum, T>(ranks, count, stream);
    case Reduction::kMean:
      return Launch<Reduction::kMean, T>(ranks, count, stream);
    case Reduction::kMax:
      return Launch<Reduction::kMax, T>(ranks, count, stream);
    case Reduction::kMin:
      return Launch<Reduction::kMin, T>(ranks, count, stream);
    case Reduction::kAll:
    case Reduction::kAny:
      return;
  }
}

}  // namespace

cudaError_t ReduceOnDevice(Reduction reduction, DataType dtype, absl::Span<const void* const> in,
                           absl::Span<void* const> out, int64_t count, cudaStream_t stream) {
  if (in.size() > kMaxLogicalGpus || out.size() > kMaxLogicalGpus) return cudaErrorInvalidValue;
  if (count == 0) return cudaSuccess;
  Ranks ranks = {.num_in = static_cast<int>(in.size()), .num_out = static_cast<int>(out.size())};
  std::copy(in.begin(), in.end(), ranks.in);
  std::copy(out.begin(), out.end(), ranks.out);
  switch (dtype) {
    case DT_FLOAT:
      LaunchNumbers<float>(reduction, ranks, count, stream);
      break;
    case DT_DOUBLE:
      LaunchNumbers<double>(reduction, ranks, count, stream);
      break;
    case DT_HALF:
      LaunchNumbers<__half>(reduction, ranks, count, stream);
      break;
    case DT_BFLOAT16:
      LaunchNumbers<__nv_bfloat16>(reduction, ranks, count, stream);
      break;
    case DT_INT32:
      LaunchNumbers<int32_t>(reduction, ranks, count, stream);
      break;
    case DT_INT64:
      LaunchNumbers<int64_t>(reduction, ranks, count, stream);
      break;
    case DT_BOOL:
      if (reduction == Reduction::kAll) {
        Launch<Reduction::kAll, uint8_t>(ranks, count, stream);
      } else {
        Launch<Reduction::kAny, uint8_t>(ranks, count, stream);
      }
      break;
    default:
      return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

}  // namespace mirrorflow
