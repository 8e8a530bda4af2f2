// SPDX-License-Identifier: Apache-2.0
//
// Foundation of all device code. The files in this folder are compiled when a plan is made,
// with the plan's shapes as constants and without a standard library. The test fakes compile
// them for the host.
#ifndef MIRRORFLOW_KERNELS_CUDA_CODE_BASE_CUH_
#define MIRRORFLOW_KERNELS_CUDA_CODE_BASE_CUH_

using int64 = long long;
using uint64 = unsigned long long;
using uint32 = unsigned int;
using uint8 = unsigned char;

// ---- Types ----

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

// 16-bit floats as stored in memory; arithmetic uses float.
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

// Converts an element to the type that is used to compute with it: 16-bit floats become float.
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

// Converts a computed value to an element. Floats are rounded to nearest, ties to even.
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
// Converts a computed value to an element. A value that already has type T keeps its bits.
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
// The type that is used to compute with elements of type T.
template <typename T>
using Value = typename ValueType<T>::Type;

// Lowest and Highest are infinite for types that have infinities.
template <typename T>
struct Traits {  // integers
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
  static constexpr float kSmallest = 0x1p-126f;  // the smallest normal number
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

// ---- Interface to the runtime ----

// The layout must match framework/runtime/kernel.h.
struct StepParams {
  uint64 step, seed, iteration;
  int64 replica;
  int64 first_row[MF_MAX_AXES];
};

// Reports invalid data to the host, which reads this struct after each step. Only a step's first
// failure is kept. `writes` shows whether the step has written variables.
struct DataFailure {
  uint64 what;  // 0 if nothing failed
  int64 value;
  uint64 writes;
};
__device__ inline void Fail(DataFailure* failure, uint64 what, int64 value) {
  if (atomicCAS(&failure->what, 0ull, what) == 0) failure->value = value;
}

// ---- Loops ----

constexpr int kThreads = 256;  // per block of ForEach and Elementwise
constexpr int kPerThread = 4;  // elements, or more if a pack is larger

// The type of indices below kN. 32-bit integer division is faster than 64-bit division.
template <int64 kN>
using Index = typename If<(kN < (int64{1} << 31)), uint32, int64>::Type;

// Calls body(i) for all i < kN. Each thread makes several calls.
template <int64 kN, typename Body>
__device__ inline void ForEach(Body body) {
  const int64 first = static_cast<int64>(blockIdx.x) * (kThreads * kPerThread) + threadIdx.x;
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    const int64 i = first + k * kThreads;
    if (i < kN) body(static_cast<Index<kN>>(i));
  }
}

// Adjacent elements that are loaded or stored together: up to 16 bytes in one instruction.
template <typename T, int kWidth>
struct alignas(sizeof(T) * kWidth < 16 ? sizeof(T) * kWidth : 16) PackOf {
  T values[kWidth];

  __device__ T operator[](int j) const { return values[j]; }
};
// LoadPack and StorePack require that the address is aligned to the pack size.
template <int kWidth, typename T>
__device__ inline PackOf<T, kWidth> LoadPack(const T* at) {
  return *reinterpret_cast<const PackOf<T, kWidth>*>(at);
}
template <typename T, int kWidth>
__device__ inline void StorePack(T* at, const PackOf<T, kWidth>& pack) {
  *reinterpret_cast<PackOf<T, kWidth>*>(at) = pack;
}
// The number of packs per thread.
template <int kWidth>
constexpr int kPacks = kWidth < kPerThread ? kPerThread / kWidth : 1;

// An operand of Elementwise. Element i of the output uses data[offset(i)]. The elements for i to
// i + kWidth - 1, where i is a multiple of kWidth, are adjacent and aligned like a pack.
template <typename T, typename Offset>
struct Adjacent {
  const T* data;
  Offset offset;

  template <int kWidth, typename I>
  __device__ PackOf<T, kWidth> At(I i) const {
    return LoadPack<kWidth>(data + offset(i));
  }
};
template <typename T, typename Offset>
Adjacent(const T*, Offset) -> Adjacent<T, Offset>;

// Like Adjacent, but all elements of a pack use the same operand element.
template <typename T, typename Offset>
struct Repeated {
  const T* data;
  Offset offset;

  struct Element {
    T value;

    __device__ T operator[](int) const { return value; }
  };
  template <int kWidth, typename I>
  __device__ Element At(I i) const {
    return {data[offset(i)]};
  }
};
template <typename T, typename Offset>
Repeated(const T*, Offset) -> Repeated<T, Offset>;

// Computes elements i to i + kWidth - 1 of a formula's results.
template <typename T, int kWidth, typename I, typename Formula, typename... Elements>
__device__ inline PackOf<T, kWidth> Compute(I i, const Formula& formula, const Elements&... x) {
  PackOf<T, kWidth> results;
#pragma unroll
  for (int j = 0; j < kWidth; ++j) {
    results.values[j] = Store<T>(formula(static_cast<I>(i + j), Load(x[j])...));
  }
  return results;
}

// Sets out[i] = formula(i, x...) for all i < kN, where each x is an operand's element for i. If an
// operand or the formula reads the memory of `out`, it may read only element i.
template <int64 kN, int kWidth = 1, typename T, typename Formula, typename... Operands>
__device__ inline void Elementwise(T* out, Formula formula, Operands... operands) {
  using I = Index<kN>;
  constexpr int64 kPacksOfBlock = kThreads * kPacks<kWidth>;
  const int64 first = blockIdx.x * kPacksOfBlock + threadIdx.x;
  // Issues all loads before the first store, because later loads cannot move ahead of a store.
  PackOf<T, kWidth> packs[kPacks<kWidth>];
#pragma unroll
  for (int k = 0; k < kPacks<kWidth>; ++k) {
    const int64 pack = first + k * kThreads;
    if (pack >= kN / kWidth) continue;
    const I i = static_cast<I>(pack * kWidth);
    packs[k] = Compute<T, kWidth>(i, formula, operands.template At<kWidth>(i)...);
  }
#pragma unroll
  for (int k = 0; k < kPacks<kWidth>; ++k) {
    const int64 pack = first + k * kThreads;
    if (pack < kN / kWidth) StorePack(out + pack * kWidth, packs[k]);
  }
  // The last block computes the elements after the last whole pack, one per thread.
  if constexpr (kN % kWidth != 0) {
    const int64 rest = kN / kWidth * kWidth + threadIdx.x;
    if (rest >= kN || blockIdx.x != (kN - 1) / (kPacksOfBlock * kWidth)) return;
    const I i = static_cast<I>(rest);
    StorePack(out + rest, Compute<T, 1>(i, formula, operands.template At<1>(i)...));
  }
}

#endif  // MIRRORFLOW_KERNELS_CUDA_CODE_BASE_CUH_
