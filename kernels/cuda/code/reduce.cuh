// SPDX-License-Identifier: Apache-2.0
//
// Reductions. In a block, kAlong threads process the elements of each of kAcross results. The
// values of the threads are combined by halves, in an order that depends only on the shape.
#ifndef MIRRORFLOW_KERNELS_CUDA_CODE_REDUCE_CUH_
#define MIRRORFLOW_KERNELS_CUDA_CODE_REDUCE_CUH_

#include "base.cuh"
#include "math.cuh"

// ---- Operations ----

// Type is the accumulator's type. Its size is a multiple of 4 bytes.
template <typename A>
struct Sum {
  using Type = A;
  __device__ static A Identity() { return A(0); }
  __device__ static A Combine(A a, A b) { return op::Add(a, b); }
};
template <typename A>
struct Product {
  using Type = A;
  __device__ static A Identity() { return A(1); }
  __device__ static A Combine(A a, A b) { return op::Mul(a, b); }
};
// NaN wins: Largest treats it as larger than any number, and Smallest as smaller.
template <typename A>
struct Largest {
  using Type = A;
  __device__ static A Identity() { return Traits<A>::Lowest(); }
  __device__ static A Combine(A a, A b) { return op::Maximum(a, b); }
};
template <typename A>
struct Smallest {
  using Type = A;
  __device__ static A Identity() { return Traits<A>::Highest(); }
  __device__ static A Combine(A a, A b) { return op::Minimum(a, b); }
};

template <typename A>
struct Two {
  A first, second;
};
// Computes two sums at the same time.
template <typename A>
struct Sums {
  using Type = Two<A>;
  __device__ static Type Identity() { return {A(0), A(0)}; }
  __device__ static Type Combine(Type a, Type b) {
    return {a.first + b.first, a.second + b.second};
  }
};

// The best element and its index; the first of equal elements wins. If every element is NaN or
// equal to the identity, the index is 0.
template <typename V, typename I>
struct At {
  V value;
  I index;
};
template <typename V, typename I>
struct FirstLargest {
  using Type = At<V, I>;
  __device__ static Type Identity() { return {Traits<V>::Lowest(), I(0)}; }
  __device__ static Type Of(V value, I index) {
    return value > Traits<V>::Lowest() ? Type{value, index} : Identity();
  }
  __device__ static Type Combine(Type a, Type b) {
    if (a.value == b.value) return a.index < b.index ? a : b;
    return a.value > b.value ? a : b;
  }
};
template <typename V, typename I>
struct FirstSmallest {
  using Type = At<V, I>;
  __device__ static Type Identity() { return {Traits<V>::Highest(), I(0)}; }
  __device__ static Type Of(V value, I index) {
    return value < Traits<V>::Highest() ? Type{value, index} : Identity();
  }
  __device__ static Type Combine(Type a, Type b) {
    if (a.value == b.value) return a.index < b.index ? a : b;
    return a.value < b.value ? a : b;
  }
};

// Returns the square root of a sum of squares, rounded towards zero if T is an integer. A sum that
// wrapped around to a negative number gives the smallest integer.
template <typename T, typename A>
__device__ inline T RootOfSum(A sum) {
  if constexpr (Traits<T>::kIsFloating) {
    return sqrt(sum);
  } else {
    const T wrapped = static_cast<T>(sum);
    return wrapped < 0 ? Traits<T>::Lowest() : static_cast<T>(sqrt(static_cast<double>(wrapped)));
  }
}

// ---- Threads ----

// __shfl_xor_sync for any type made of 4-byte words.
template <typename A>
__device__ inline A ShuffleXor(A value, int mask) {
  constexpr int kWords = sizeof(A) / 4;
  union {
    A value;
    uint32 words[kWords];
  } own = {value}, other;
#pragma unroll
  for (int w = 0; w < kWords; ++w) {
    other.words[w] = __shfl_xor_sync(0xffffffffu, own.words[w], mask);
  }
  return other.value;
}

// A block of kAlong * kAcross threads, both powers of two. Neighbouring threads process elements
// that are adjacent in memory: with kAlongFirst, these belong to the same result, otherwise to
// neighbouring results.
template <int kAlong, int kAcross, bool kAlongFirst>
struct Team {
  __device__ static int Along() {
    return kAlongFirst ? threadIdx.x % kAlong : threadIdx.x / kAcross;
  }
  __device__ static int Across() {
    return kAlongFirst ? threadIdx.x / kAlong : threadIdx.x % kAcross;
  }

  // Combines the values of the threads along a result. With kAlongFirst, each of these threads gets
  // the combination, otherwise only the one whose Along() is 0. Every thread of the block must call
  // this function.
  template <typename Op>
  __device__ static typename Op::Type Combine(typename Op::Type value) {
    using A = typename Op::Type;
    if constexpr (kAlong == 1) {
      return value;
    } else if constexpr (kAlongFirst) {
      constexpr int kLanes = kAlong < 32 ? kAlong : 32;
#pragma unroll
      for (int mask = kLanes / 2; mask > 0; mask /= 2) {
        value = Op::Combine(value, ShuffleXor(value, mask));
      }
      if constexpr (kAlong > 32) {
        constexpr int kWarps = kAlong / 32;
        __shared__ A of_warp[kAcross * kWarps];
        __syncthreads();  // the values of the last call have been read
        if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
        __syncthreads();
        const A* own = of_warp + Across() * kWarps;
        value = own[0];
#pragma unroll
        for (int w = 1; w < kWarps; ++w) value = Op::Combine(value, own[w]);
      }
      return value;
    } else {
      // No barrier is needed before this write: since the barrier at the end of the last call,
      // threads have read only their own slots.
      __shared__ A slots[kAlong * kAcross];
      slots[threadIdx.x] = value;
      __syncthreads();
#pragma unroll
      for (int half = kAlong / 2; half > 0; half /= 2) {
        if (Along() < half) {
          slots[threadIdx.x] = Op::Combine(slots[threadIdx.x], slots[threadIdx.x + half * kAcross]);
        }
        __syncthreads();
      }
      return slots[threadIdx.x];
    }
  }
};

// Combines at(k) for every kStep-th k in [first, end).
template <typename Op, int kStep, typename I, typename At>
__device__ inline typename Op::Type CombineElements(I first, I end, At at) {
  using A = typename Op::Type;
  constexpr int kParts = 4;  // loads in flight; separate sums also lose less precision
  A parts[kParts];
#pragma unroll
  for (int p = 0; p < kParts; ++p) parts[p] = Op::Identity();
  I k = first;
  for (; k + (kParts - 1) * kStep < end; k += kParts * kStep) {
    A values[kParts];
#pragma unroll
    for (int p = 0; p < kParts; ++p) values[p] = at(static_cast<I>(k + p * kStep));
#pragma unroll
    for (int p = 0; p < kParts; ++p) parts[p] = Op::Combine(parts[p], values[p]);
  }
#pragma unroll
  for (int p = 0; p < kParts - 1; ++p) {
    const I rest = k + p * kStep;
    if (rest < end) parts[p] = Op::Combine(parts[p], at(rest));
  }
  return Op::Combine(Op::Combine(parts[0], parts[1]), Op::Combine(parts[2], parts[3]));
}

// Calls finish(o, result) for all o < kResults. The result combines value(o, k) for all k < kCount
// or, if kChunk is less than kCount, for kChunk values of k starting at blockIdx.y * kChunk.
template <typename Op, int64 kResults, int64 kCount, int kAlong, int kAcross, bool kAlongFirst,
          int64 kChunk, typename Value, typename Finish>
__device__ inline void Reduce(Value value, Finish finish) {
  using Threads = Team<kAlong, kAcross, kAlongFirst>;
  using I = Index<kResults * kCount>;
  using A = typename Op::Type;
  const int64 result = static_cast<int64>(blockIdx.x) * kAcross + Threads::Across();
  const I o = static_cast<I>(result);
  A combined = Op::Identity();
  if (result < kResults) {
    const int64 begin = blockIdx.y * kChunk;
    const int64 end = begin + kChunk < kCount ? begin + kChunk : kCount;
    combined =
        CombineElements<Op, kAlong>(static_cast<I>(begin + Threads::Along()), static_cast<I>(end),
                                    [&](I k) -> A { return value(o, k); });
  }
  combined = Threads::template Combine<Op>(combined);
  if (result < kResults && Threads::Along() == 0) finish(o, combined);
}

#endif  // MIRRORFLOW_KERNELS_CUDA_CODE_REDUCE_CUH_
