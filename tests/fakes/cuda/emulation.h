// SPDX-License-Identifier: Apache-2.0
//
// Turns GPU code into C++ for the host: the NVRTC fake compiles this file in front of the GPU code.
// The threads of a block take turns at the points where they would wait for each other. In most
// rounds, a warp runs up to the next __syncthreads() before another warp starts. If a barrier is
// missing, the warp reads values that other warps have not yet written, and overwrites values that
// they have not yet read.
//
// A race goes unnoticed if no order of whole warps, or of threads between two waits, changes a
// result: if the racing thread writes the value that the memory already holds, or does not use the
// value that it reads.

#ifndef MIRRORFLOW_TESTS_FAKES_CUDA_EMULATION_H_
#define MIRRORFLOW_TESTS_FAKES_CUDA_EMULATION_H_

// This file includes nothing, because headers would take most of the compile time.
extern "C" {
#define MF_FUNCTION(name) \
  double name(double);    \
  float name##f(float);
#define MF_FUNCTION2(name)     \
  double name(double, double); \
  float name##f(float, float);
// clang-format off
#define MF_FUNCTIONS(F, F2)                                                                       \
  F(acos) F(acosh) F(asin) F(asinh) F(atan) F(atanh) F(ceil) F(cos) F(cosh) F(erf) F(erfc) F(exp) \
  F(exp2) F(expm1) F(fabs) F(floor) F(lgamma) F(log) F(log1p) F(log2) F(rint) F(sin) F(sinh)      \
  F(sqrt) F(tan) F(tanh) F(trunc) F2(atan2) F2(fmod) F2(fmax) F2(fmin) F2(nextafter) F2(pow)
// clang-format on
MF_FUNCTIONS(MF_FUNCTION, MF_FUNCTION2)
}
#undef MF_FUNCTION
#undef MF_FUNCTION2
#define MF_FUNCTION(name) \
  inline float name(float x) { return name##f(x); }
#define MF_FUNCTION2(name) \
  inline float name(float x, float y) { return name##f(x, y); }
MF_FUNCTIONS(MF_FUNCTION, MF_FUNCTION2)
inline float rsqrtf(float x) { return 1 / sqrtf(x); }

#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
// Each stream is a host thread and runs one block at a time.
#define __shared__ static thread_local

struct uint3 {
  unsigned int x, y, z;
};
// The layout must match EmulatedHere in block_emulator.h.
struct Here {
  uint3 thread, block, block_dim, grid_dim;
  void (*wait)(int kind);  // 0: for the block, 1: for the warp
};
extern "C" {
thread_local Here mf_here;
Here* MfHere() { return &mf_here; }
}
#define threadIdx mf_here.thread
#define blockIdx mf_here.block
#define blockDim mf_here.block_dim
#define gridDim mf_here.grid_dim

inline void __syncthreads() { mf_here.wait(0); }
inline void __syncwarp(unsigned int = 0xffffffffu) { mf_here.wait(1); }

inline int MfThread() {
  return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}
// Each lane passes a value and gets the value of lane `from`, or its own value if no such lane
// exists.
template <typename T>
inline T MfExchange(T value, int from) {
  static thread_local T slots[1024];
  const int thread = MfThread(), lane = thread % 32;
  slots[thread] = value;
  mf_here.wait(1);
  const T taken = slots[thread - lane + (from >= 0 && from < 32 ? from : lane)];
  mf_here.wait(1);
  return taken;
}
template <typename T>
inline T __shfl_down_sync(unsigned int, T value, int delta) {
  return MfExchange(value, MfThread() % 32 + delta);
}
template <typename T>
inline T __shfl_xor_sync(unsigned int, T value, int mask) {
  return MfExchange(value, (MfThread() % 32) ^ mask);
}
template <typename T>
inline T __shfl_sync(unsigned int, T value, int lane) {
  return MfExchange(value, lane);
}
template <typename T>
inline T __shfl_up_sync(unsigned int, T value, int delta) {
  return MfExchange(value, MfThread() % 32 - delta);
}
// Requires that all lanes of the warp call this function.
inline unsigned int __ballot_sync(unsigned int, int predicate) {
  static thread_local int votes[1024];
  const int thread = MfThread(), first = thread - thread % 32;
  votes[thread] = predicate;
  mf_here.wait(1);
  unsigned int bits = 0;
  for (int lane = 0; lane < 32; ++lane) bits |= (votes[first + lane] != 0 ? 1u : 0u) << lane;
  mf_here.wait(1);
  return bits;
}
inline int __syncthreads_or(int predicate) {
  static thread_local int any;
  mf_here.wait(0);
  any = 0;
  mf_here.wait(0);
  if (predicate) any = 1;
  mf_here.wait(0);
  return any;
}

// Emulates the warp-wide tensor-core operations mma.m16n8k16, whose registers hold two numbers
// each, and mma.m16n8k8, whose registers hold one. See mma.cuh; the PTX ISA specifies which lane
// holds which elements.
template <typename Number, typename Load>
inline void MfMultiplyAdd(const unsigned int (&a)[4], unsigned int b0, unsigned int b1,
                          float (&sums)[4], Load load) {
  constexpr int kPerRegister = 4 / sizeof(Number), kHalf = 4 * kPerRegister;
  struct Numbers {
    unsigned int a[4], b[2];
  };
  static thread_local Numbers slots[1024];
  const int thread = MfThread(), lane = thread % 32;
  slots[thread] = {{a[0], a[1], a[2], a[3]}, {b0, b1}};
  mf_here.wait(1);
  const Numbers* const warp = slots + thread - lane;
  const auto number = [&](unsigned int bits, int k) {
    return load(static_cast<Number>(bits >> (k % kPerRegister * 16)));
  };
  for (int e = 0; e < 4; ++e) {
    const int row = lane / 4, column = lane % 4 * 2 + e % 2;
    for (int k = 0; k < 2 * kHalf; ++k) {
      const int holder = k % kHalf / kPerRegister, half = k / kHalf;
      sums[e] += number(warp[4 * row + holder].a[2 * half + e / 2], k) *
                 number(warp[4 * column + holder].b[half], k);
    }
  }
  mf_here.wait(1);
}
// Emulates ldmatrix.m8n8.x4: lanes 8i to 8i+7 provide the row addresses of matrix i.
inline void MfLoadMatrices(const void* row, bool transposed, unsigned int (&matrices)[4]) {
  static thread_local const unsigned short* slots[1024];
  const int thread = MfThread(), lane = thread % 32;
  if (reinterpret_cast<unsigned long long>(row) % 16 != 0) __builtin_trap();
  slots[thread] = static_cast<const unsigned short*>(row);
  mf_here.wait(1);
  const unsigned short* const* const warp = slots + thread - lane;
  for (int i = 0; i < 4; ++i) {
    unsigned int pair[2];
    for (int j = 0; j < 2; ++j) {
      const int other = lane % 4 * 2 + j;
      pair[j] = transposed ? warp[8 * i + other][lane / 4] : warp[8 * i + lane / 4][other];
    }
    matrices[i] = pair[0] | pair[1] << 16;
  }
  mf_here.wait(1);
}

// Emulates cp.async. The hardware can complete a copy at any time before its thread's wait returns.
// Here, every second copy completes immediately, and the others complete in the wait.
struct MfCopy {
  void* to;
  const void* from;
  int bytes;
  bool exists;
  MfCopy* next;

  void Run() const {
    if (exists) {
      __builtin_memcpy(to, from, bytes);
    } else {
      __builtin_memset(to, 0, bytes);
    }
  }
};
inline MfCopy** MfPendingCopies() {
  static thread_local MfCopy* of_thread[1024];
  return &of_thread[MfThread()];
}
inline void MfStartCopy(void* to, const void* from, int bytes, bool exists) {
  if (reinterpret_cast<unsigned long long>(to) % bytes != 0 ||
      reinterpret_cast<unsigned long long>(from) % bytes != 0) {
    __builtin_trap();
  }
  static thread_local bool late;
  late = !late;
  const MfCopy copy = {to, from, bytes, exists, *MfPendingCopies()};
  if (late) {
    *MfPendingCopies() = new MfCopy(copy);
  } else {
    copy.Run();
  }
}
inline void MfWaitForCopies() {
  MfCopy** const pending = MfPendingCopies();
  while (*pending != nullptr) {
    MfCopy* const copy = *pending;
    copy->Run();
    *pending = copy->next;
    delete copy;
  }
}

// These operations are atomic on the host, because each stream is a host thread.
template <typename T, typename V>
inline T atomicCAS(T* at, T expected, V desired) {
  T found = expected;
  __atomic_compare_exchange_n(at, &found, static_cast<T>(desired), false, __ATOMIC_SEQ_CST,
                              __ATOMIC_SEQ_CST);
  return found;
}
template <typename T, typename V>
inline T atomicAdd(T* at, V value) {
  return __atomic_fetch_add(at, static_cast<T>(value), __ATOMIC_SEQ_CST);
}

template <typename T, typename V>
inline T atomicMax(T* at, V value) {
  T found = __atomic_load_n(at, __ATOMIC_SEQ_CST);
  while (found < static_cast<T>(value) &&
         !__atomic_compare_exchange_n(at, &found, static_cast<T>(value), false, __ATOMIC_SEQ_CST,
                                      __ATOMIC_SEQ_CST)) {
  }
  return found;
}

inline int __popc(unsigned int bits) { return __builtin_popcount(bits); }
inline unsigned int __umulhi(unsigned int a, unsigned int b) {
  return static_cast<unsigned int>((static_cast<unsigned long long>(a) * b) >> 32);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>((static_cast<unsigned __int128>(a) * b) >> 64);
}

inline float HalfToFloat(unsigned short bits) {
  const unsigned int sign = (bits & 0x8000u) << 16, exponent = (bits >> 10) & 31;
  unsigned int fraction = bits & 1023u, out;
  if (exponent == 31) {
    out = 0x7f800000u | (fraction << 13);
  } else if (exponent != 0) {
    out = ((exponent + 112) << 23) | (fraction << 13);
  } else {
    const float tiny = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -tiny : tiny;
  }
  out |= sign;
  float value;
  __builtin_memcpy(&value, &out, sizeof value);
  return value;
}
inline unsigned short FloatToHalf(float value) {
  unsigned int bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  const unsigned short sign = static_cast<unsigned short>((bits >> 16) & 0x8000u);
  const float size = value < 0 ? -value : value;
  if (value != value) return static_cast<unsigned short>(sign | 0x7e00u);
  if (size >= 65520.0f) return static_cast<unsigned short>(sign | 0x7c00u);
  if (size < 0x1p-14f) return static_cast<unsigned short>(sign | (unsigned)rintf(size * 0x1p24f));
  bits &= 0x7fffffffu;
  bits += 0xfffu + ((bits >> 13) & 1u);
  return static_cast<unsigned short>(sign | ((bits - (112u << 23)) >> 13));
}

// Calls a kernel with any parameters, given their addresses.
template <int... kI>
struct Indices {};
template <int kN, int... kI>
struct MakeIndices : MakeIndices<kN - 1, kN - 1, kI...> {};
template <int... kI>
struct MakeIndices<0, kI...> {
  using Type = Indices<kI...>;
};
template <typename... Params, int... kI>
inline void MfCall(void (*kernel)(Params...), void** args, Indices<kI...>) {
  kernel(*static_cast<Params*>(args[kI])...);
}
template <typename... Params>
inline void MfCall(void (*kernel)(Params...), void** args) {
  MfCall(kernel, args, typename MakeIndices<sizeof...(Params)>::Type());
}
// Returns the sizes of the parameters, followed by 0.
template <typename... Params>
inline const int* MfSizes(void (*)(Params...)) {
  static const int sizes[] = {static_cast<int>(sizeof(Params))..., 0};
  return sizes;
}

#endif  // MIRRORFLOW_TESTS_FAKES_CUDA_EMULATION_H_
