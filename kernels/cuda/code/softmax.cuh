// SPDX-License-Identifier: Apache-2.0
//
// Softmax and the cross entropies. Several threads share a row; short rows are kept in registers,
// and longer rows are read twice. A row becomes all NaN if its largest number is not finite or if
// it contains a NaN.
#ifndef MIRRORFLOW_KERNELS_CUDA_CODE_SOFTMAX_CUH_
#define MIRRORFLOW_KERNELS_CUDA_CODE_SOFTMAX_CUH_

#include "base.cuh"
#include "math.cuh"
#include "reduce.cuh"

// Computes the largest of the numbers x, and the sum of exp(x - largest).
template <typename V>
struct SumOfExp {
  using Type = Two<V>;
  __device__ static Type Identity() { return {Traits<V>::Lowest(), V(0)}; }
  __device__ static Type Combine(Type a, Type b) {
    const V largest = op::Maximum(a.first, b.first);
    return {largest, Scaled(a, largest) + Scaled(b, largest)};
  }

 private:
  // Avoids the exponential if the numbers are equal, because both may be infinite, which would make
  // their difference NaN.
  __device__ static V Scaled(Type a, V largest) {
    return a.first == largest ? a.second : a.second * exp(a.first - largest);
  }
};

// One thread's part of a row that kAlong threads share. All threads of a block must call the same
// functions.
template <int64 kColumns, int kAlong, int kAcross, typename V, typename At>
class Row {
 public:
  using Threads = Team<kAlong, kAcross, true>;
  using I = Index<kColumns>;

  // `exists` is false for threads beyond the last row.
  __device__ Row(bool exists, At at) : exists_(exists), at_(at) {
    if constexpr (kIsKept) {
#pragma unroll
      for (int k = 0; k < kOfThread; ++k) {
        if (Has(k)) kept_[k] = at_(ColumnOf(k));
      }
    }
  }

  // Calls fn(c, x) for each of the thread's elements.
  template <typename Fn>
  __device__ void ForEach(Fn fn) const {
    if constexpr (kIsKept) {
#pragma unroll
      for (int k = 0; k < kOfThread; ++k) {
        if (Has(k)) fn(ColumnOf(k), kept_[k]);
      }
    } else {
#pragma unroll 4
      for (int k = 0; k < kOfThread; ++k) {
        if (Has(k)) fn(ColumnOf(k), at_(ColumnOf(k)));
      }
    }
  }

  // Returns the largest element and the sum of exp(x - largest).
  __device__ Two<V> LargestAndSum() const {
    if constexpr (kIsKept) {
      V largest = Traits<V>::Lowest();
      ForEach([&](I, V x) { largest = op::Maximum(x, largest); });
      largest = Threads::template Combine<Largest<V>>(largest);
      V sum = 0;
      ForEach([&](I, V x) { sum += exp(x - largest); });
      return {largest, Threads::template Combine<Sum<V>>(sum)};
    } else {
      Two<V> both = SumOfExp<V>::Identity();
      ForEach([&](I, V x) { both = SumOfExp<V>::Combine(both, {x, V(1)}); });
      both = Threads::template Combine<SumOfExp<V>>(both);
      return {both.first, both.second + (both.first - both.first)};  // NaN if not finite
    }
  }

 private:
  static constexpr int kOfThread = static_cast<int>((kColumns + kAlong - 1) / kAlong);
  static constexpr bool kIsKept = kOfThread * sizeof(V) <= 128;

  __device__ static I ColumnOf(int k) { return static_cast<I>(Threads::Along()) + I(k) * kAlong; }
  __device__ bool Has(int k) const {
    const bool last = (k + 1) * int64{kAlong} > kColumns;  // known when the loop is unrolled
    return exists_ && (!last || ColumnOf(k) < kColumns);
  }

  const bool exists_;
  const At at_;
  V kept_[kIsKept ? kOfThread : 1];
};

// Calls body(r, exists, row) for the row of this thread, whose elements are at(r, c).
template <int64 kRows, int64 kColumns, int kAlong, int kAcross, typename V, typename At,
          typename Body>
__device__ inline void WithRow(At at, Body body) {
  using I = Index<kRows * kColumns>;
  const int64 number =
      static_cast<int64>(blockIdx.x) * kAcross + Team<kAlong, kAcross, true>::Across();
  const I r = static_cast<I>(number);
  const auto of_row = [=](auto c) -> V { return at(r, static_cast<I>(c)); };
  const Row<kColumns, kAlong, kAcross, V, decltype(of_row)> row(number < kRows, of_row);
  body(r, number < kRows, row);
}

// In the functions below, `out` may be the memory that `at` reads, because a thread overwrites only
// elements that no other thread reads.

template <int64 kRows, int64 kColumns, int kAlong, int kAcross, typename V, typename At, typename T>
__device__ inline void Softmax(At at, T* out) {
  WithRow<kRows, kColumns, kAlong, kAcross, V>(at, [&](auto r, bool, const auto& row) {
    const Two<V> of_row = row.LargestAndSum();
    const V scale = V(1) / of_row.second;
    row.ForEach(
        [&](auto c, V x) { out[r * kColumns + c] = Store<T>(exp(x - of_row.first) * scale); });
  });
}

template <int64 kRows, int64 kColumns, int kAlong, int kAcross, typename V, typename At, typename T>
__device__ inline void LogSoftmax(At at, T* out) {
  WithRow<kRows, kColumns, kAlong, kAcross, V>(at, [&](auto r, bool, const auto& row) {
    const Two<V> of_row = row.LargestAndSum();
    const V log_sum = log(of_row.second);
    row.ForEach(
        [&](auto c, V x) { out[r * kColumns + c] = Store<T>((x - of_row.first) - log_sum); });
  });
}

// The loss and the gradient of a row with an invalid label are NaN.
template <int64 kRows, int64 kColumns, int kAlong, int kAcross, typename V, typename At, typename T,
          typename Label, typename FailFn>
__device__ inline void SparseEntropy(At at, const Label* labels, T* loss, T* gradient,
                                     FailFn fail) {
  WithRow<kRows, kColumns, kAlong, kAcross, V>(at, [&](auto r, bool exists, const auto& row) {
    const Two<V> of_row = row.LargestAndSum();
    if (!exists) return;
    const Label label = labels[r];
    const bool good = label >= 0 && label < kColumns;
    const V nan = BitsToFloat(0x7fc00000);
    if (!good && Team<kAlong, kAcross, true>::Along() == 0) {
      fail(static_cast<int64>(label));
      loss[r] = Store<T>(nan);
    }
    const V log_sum = log(of_row.second), scale = good ? V(1) / of_row.second : nan;
    row.ForEach([&](auto c, V x) {
      const bool is_label = static_cast<Label>(c) == label;
      if (is_label) loss[r] = Store<T>(log_sum - (x - of_row.first));
      const V probability = exp(x - of_row.first) * scale;
      gradient[r * kColumns + c] = Store<T>(is_label ? probability - V(1) : probability);
    });
  });
}

template <int64 kRows, int64 kColumns, int kAlong, int kAcross, typename V, typename At,
          typename Labels, typename T>
__device__ inline void DenseEntropy(At at, Labels labels, T* loss, T* gradient) {
  WithRow<kRows, kColumns, kAlong, kAcross, V>(at, [&](auto r, bool exists, const auto& row) {
    const Two<V> of_row = row.LargestAndSum();
    const V scale = V(1) / of_row.second;
    Two<V> sums = Sums<V>::Identity();  // sums of label and of label * (x - largest)
    row.ForEach([&](auto c, V x) {
      const V label = labels(r, c);
      sums = Sums<V>::Combine(sums, {label, label * (x - of_row.first)});
      gradient[r * kColumns + c] = Store<T>(exp(x - of_row.first) * scale - label);
    });
    sums = Team<kAlong, kAcross, true>::template Combine<Sums<V>>(sums);
    if (exists && Team<kAlong, kAcross, true>::Along() == 0) {
      loss[r] = Store<T>(sums.first * log(of_row.second) - sums.second);
    }
  });
}

#endif  // MIRRORFLOW_KERNELS_CUDA_CODE_SOFTMAX_CUH_
