// SPDX-License-Identifier: Apache-2.0
//
// Batch normalisation: computes the statistics of a channel from sums over its elements. Sums are
// accumulated in double precision because a channel can have millions of elements.
#ifndef MIRRORFLOW_KERNELS_CUDA_CODE_BATCH_NORM_CUH_
#define MIRRORFLOW_KERNELS_CUDA_CODE_BATCH_NORM_CUH_

#include "base.cuh"
#include "reduce.cuh"

// Returns the pivot of a channel: one of its elements, or 0 if that element is not finite. Sums are
// taken over deviations from the pivot, which avoids cancellation if the elements are far from 0
// and close to each other.
template <typename V>
__device__ inline double Pivot(V x) {
  return x - x == 0 ? static_cast<double>(x) : 0.0;
}
__device__ inline Two<double> Deviation(double x, double pivot) {
  const double d = x - pivot;
  return {d, d * d};
}

// Returns the mean and variance of kCount numbers, from the sums of their Deviation().
template <int64 kCount>
__device__ inline Two<double> Moments(Two<double> sums, double pivot) {
  constexpr double kN = kCount > 0 ? kCount : 1;
  const double mean = sums.first / kN;
  const double variance = (sums.second - sums.first * mean) / kN;
  return {pivot + mean, variance < 0 ? 0.0 : variance};
}

// Returns the moving average, moved towards `now` by `weight`. With a weight of 1, `old` is not
// read and need not exist.
template <typename U>
__device__ inline U Moved(const U* old, int64 channel, U now, U weight) {
  return weight == 1 ? now : old[channel] * (1 - weight) + now * weight;
}

template <typename U>
__device__ inline U InverseDeviation(U variance, U epsilon) {
  return U(1) / sqrt(variance + epsilon);
}

#endif  // MIRRORFLOW_KERNELS_CUDA_CODE_BATCH_NORM_CUH_
