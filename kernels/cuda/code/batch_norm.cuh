// SPDX-License-Identifier: Apache-2.0
//
// Batch normalisation: what the sums over a channel become, and what an element becomes with it.
// Sums are taken in double, as a channel may have millions of numbers.
#ifndef MIRRORFLOW_KERNELS_CUDA_CODE_BATCH_NORM_CUH_
#define MIRRORFLOW_KERNELS_CUDA_CODE_BATCH_NORM_CUH_

#include "base.cuh"
#include "reduce.cuh"

// Deviations are summed, of some number of the channel: nothing cancels then, where the numbers are
// far from 0 and near to one another.
template <typename V>
__device__ inline double Pivot(V x) {
  return x - x == 0 ? static_cast<double>(x) : 0.0;
}
__device__ inline Two<double> Deviation(double x, double pivot) {
  const double d = x - pivot;
  return {d, d * d};
}

// Mean and variance of kCount numbers from the sums of Deviation.
template <int64 kCount>
__device__ inline Two<double> Moments(Two<double> sums, double pivot) {
  constexpr double kN = kCount > 0 ? kCount : 1;
  const double mean = sums.first / kN;
  const double variance = (sums.second - sums.first * mean) / kN;
  return {pivot + mean, variance < 0 ? 0.0 : variance};
}

// The moving averages move by `weight`; by all of it, `old` is not read and may be missing.
template <typename U>
__device__ inline U Moved(const U* old, int64 channel, U now, U weight) {
  return weight == 1 ? now : old[channel] * (1 - weight) + now * weight;
}

template <typename U>
__device__ inline U InverseDeviation(U variance, U epsilon) {
  return U(1) / sqrt(variance + epsilon);
}

#endif  // MIRRORFLOW_KERNELS_CUDA_CODE_BATCH_NORM_CUH_
