// SPDX-License-Identifier: Apache-2.0
//
// What all code for the GPU begins with. The files of this folder are compiled when a plan is made,
// with the plan's shapes as constants; there is no standard library. Emulators of the tests compile
// them for the host.
#ifndef MIRRORFLOW_KERNELS_CUDA_CODE_BASE_CUH_
#define MIRRORFLOW_KERNELS_CUDA_CODE_BASE_CUH_

using int64 = long long;
using uint64 = unsigned long long;
using uint32 = unsigned int;
using uint8 = unsigned char;

// ---- types
// ---------------------------------------------------------------------------------------

template <bool kCondition, typename A, typename B>
struct If {
  using Type = A;
};
template <typename A, typename B>
struct If<false, A, B> {
  using Type = B;
};
template <typename A, typename B>
struct Same {
  static constexpr bool kValue = false;
};
template <typename A>
struct Same<A, A> {
  static constexpr bool kValue = true;
};

// 16-bit floats as memory has them. Nothing computes in them.
struct half {
  unsigned short bits;
};
struct bfloat16 {
  unsigned short bits;
};

__device__ inline float BitsToFloat(uint32 bits) {
  union {
    uint32 bits;
    float value;
  } u = {bits};
  return u.value;
}
__device__ inline uint32 FloatToBits(float value) {
  union {
    float value;
    uint32 bits;
  } u = {value};
  return u.bits;
}

// The value of an element: floats of 16 bits become floats of 32.
template <typename T>
__device__ inline T Load(T x) {
  return x;
}
__device__ inline float Load(bfloat16 x) { return BitsToFloat(static_cast<uint32>(x.bits) << 16); }
__device__ inline float Load(half x) {
#ifdef __CUDA_ARCH__
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(x.bits));
  return value;
#else
  return HalfToFloat(x.bits);
#endif
}

// An element from its value; floats are rounded to the nearest, to even where there are two.
template <typename T, typename V>
struct Rounded {
  __device__ static T Of(V value) { return static_cast<T>(value); }
};
template <typename V>
struct Rounded<bfloat16, V> {
  __device__ static bfloat16 Of(float value) {
    const uint32 bits = FloatToBits(value);
    if (value != value) return {static_cast<unsigned short>((bits >> 16) | 0x40)};
    return {static_cast<unsigned short>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
  }
};
template <typename V>
struct Rounded<half, V> {
  __device__ static half Of(float value) {
#ifdef __CUDA_ARCH__
    half rounded = {0};
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(rounded.bits) : "f"(value));
    return rounded;
#else
    return {FloatToHalf(value)};
#endif
  }
};
// What is an element already stays as it is, whatever its bits are.
template <typename T, typename V>
__device__ inline T Store(V value) {
  if constexpr (Same<T, V>::kValue) {
    return value;
  } else {
    return Rounded<T, V>::Of(value);
  }
}

template <typename T>
struct ValueType {
  using Type = T;
};
template <>
struct ValueType<half> {
  using Type = float;
};
template <>
struct ValueType<bfloat16> {
  using Type = float;
};
// What T is computed in.
template <typename T>
using Value = typename ValueType<T>::Type;

// Highest and Lowest are infinite where infinities are.
template <typename T>
struct Traits {  // of integers
  static constexpr bool kIsFloating = false;
  static constexpr bool kIsSigned = static_cast<T>(-1) < static_cast<T>(0);
  static constexpr int kBits = 8 * sizeof(T);
  __device__ static constexpr T Lowest() {
    return kIsSigned ? static_cast<T>(uint64{1} << (kBits - 1)) : static_cast<T>(0);
  }
  __device__ static constexpr T Highest() { return static_cast<T>(~Lowest()); }
};
template <>
struct Traits<bool> {
  static constexpr bool kIsFloating = false;
  __device__ static constexpr bool Lowest() { return false; }
  __device__ static constexpr bool Highest() { return true; }
};
template <>
struct Traits<float> {
  static constexpr bool kIsFloating = true;
  static constexpr float kSmallest = 0x1p-126f;  // with all digits
  __device__ static float Lowest() { return -Highest(); }
  __device__ static float Highest() { return BitsToFloat(0x7f800000); }
};
template <>
struct Traits<double> {
  static constexpr bool kIsFloating = true;
  static constexpr double kSmallest = 0x1p-1022;
  __device__ static double Lowest() { return -Highest(); }
  __device__ static double Highest() { return BitsToFloat(0x7f800000); }
};

// ---- what the runtime tells kernels
// --------------------------------------------------------------

// As in framework/runtime/kernel.h.
struct StepParams {
  uint64 step, seed, iteration;
  int64 replica;
  int64 first_row[MF_MAX_AXES];
};

// What went wrong with a kernel's data: the first to write it wins. The host reads it when the step
// is done, and whether variables were written in it.
struct DataFailure {
  uint64 what;  // 0: nothing did
  int64 value;
  uint64 writes;
};
__device__ inline void Fail(DataFailure* failure, uint64 what, int64 value) {
  if (atomicCAS(&failure->what, 0ull, what) == 0) failure->value = value;
}

// ---- loops
// ---------------------------------------------------------------------------------------

constexpr int kThreads = 256;  // of a block of ForEach and Elementwise
constexpr int kPerThread = 4;

// Small numbers are divided faster.
template <int64 kN>
using Index = typename If<(kN < (int64{1} << 31)), uint32, int64>::Type;

// Calls body(i) for all i < kN; several of the calls run in one thread.
template <int64 kN, typename Body>
__device__ inline void ForEach(Body body) {
  const int64 first = static_cast<int64>(blockIdx.x) * (kThreads * kPerThread) + threadIdx.x;
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    const int64 i = first + k * kThreads;
    if (i < kN) body(static_cast<Index<kN>>(i));
  }
}

// out[i] = value(i) for all i < kN. Where `value` reads what lies at `out`, it may be element i
// only.
template <int64 kN, typename T, typename V>
__device__ inline void Elementwise(T* out, V value) {
  const int64 first = static_cast<int64>(blockIdx.x) * (kThreads * kPerThread) + threadIdx.x;
  // All loads go out before the first store, behind which none could.
  T values[kPerThread];
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    const int64 i = first + k * kThreads;
    if (i < kN) values[k] = Store<T>(value(static_cast<Index<kN>>(i)));
  }
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    const int64 i = first + k * kThreads;
    if (i < kN) out[i] = values[k];
  }
}

#endif  // MIRRORFLOW_KERNELS_CUDA_CODE_BASE_CUH_
