// SPDX-License-Identifier: Apache-2.0
//
// Host tensors cut, put together, compared: what the checks of ops are made of.
#ifndef MIRRORFLOW_TESTS_SUPPORT_TENSORS_H_
#define MIRRORFLOW_TESTS_SUPPORT_TENSORS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "framework/core/tensor.h"
#include "framework/graph/sharding.h"

namespace mirrorflow {

// What a float or double may differ by: |got - want| <= relative * |want| + absolute.
struct Tolerance {
  double relative = 0;
  double absolute = 0;
};

// Empty if `got` is `want`: dtype, shape, and every element; else what differs first. NaN equals
// NaN, -0 equals 0, infinities and other dtypes than float and double compare exactly.
std::string Difference(const Tensor& want, const Tensor& got, const Tolerance& tolerance);

// The largest finite |element|; 0 if there is none, or for a dtype without numbers.
double LargestFinite(const Tensor& tensor);
bool AllFinite(const Tensor& tensor);

// Elements [begin, end) along dimension `dim`, a copy.
Tensor SliceAlong(const Tensor& tensor, int dim, int64_t begin, int64_t end);
// `parts` one after the other along dimension `dim`.
Tensor ConcatenateAlong(absl::Span<const Tensor> parts, int dim);
// `parts` combined element by element; `weights` are those of kMean and sum to 1. Integers wrap
// around, NaN wins over every number.
Tensor Combine(absl::Span<const Tensor> parts, Reduction reduction,
               absl::Span<const double> weights);

// A generator whose numbers are the same everywhere (SplitMix64).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next();
  double Uniform(double low, double high);
  int64_t Below(int64_t limit) { return static_cast<int64_t>(Next() % limit); }

 private:
  uint64_t state_;
};

// Uniform: in [-1, 1) if floating, else in [0, limit).
Tensor RandomTensor(DataType dtype, const Shape& shape, Random* random, int64_t limit = 2);

// `count` tensors that add up to `tensor`, up to rounding. What is not finite is in the first one
// alone; parts of an integer never leave the range between 0 and it.
std::vector<Tensor> RandomParts(const Tensor& tensor, int count, Random* random);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_TENSORS_H_
