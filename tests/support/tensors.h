// SPDX-License-Identifier: Apache-2.0
//
// Slices, joins and compares host tensors, for the checks of ops.
#ifndef MIRRORFLOW_TESTS_SUPPORT_TENSORS_H_
#define MIRRORFLOW_TESTS_SUPPORT_TENSORS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "framework/core/tensor.h"
#include "framework/graph/sharding.h"

namespace mirrorflow {

// The allowed difference of a float or double: |got - want| <= relative * |want| + absolute.
struct Tolerance {
  double relative = 0;
  double absolute = 0;
};

// Returns "" if `got` equals `want` in dtype, shape and every element, else the first difference.
// NaN equals NaN and -0 equals 0. Infinities and dtypes that are not floating-point compare
// exactly.
std::string Difference(const Tensor& want, const Tensor& got, const Tolerance& tolerance);

// The largest finite |element|; 0 if there is none, or for a dtype without numbers.
double LargestFinite(const Tensor& tensor);
bool AllFinite(const Tensor& tensor);

// A copy of the elements [begin, end) along dimension `dim`.
Tensor SliceAlong(const Tensor& tensor, int dim, int64_t begin, int64_t end);
// `parts`, concatenated along dimension `dim`.
Tensor ConcatenateAlong(absl::Span<const Tensor> parts, int dim);
// Combines `parts` element by element. `weights` are those of kMean and sum to 1. Integers wrap
// around; NaN takes precedence over every number.
Tensor Combine(absl::Span<const Tensor> parts, Reduction reduction,
               absl::Span<const double> weights);

// A generator that gives the same numbers on every platform (SplitMix64).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next();
  double Uniform(double low, double high);
  int64_t Below(int64_t limit) { return static_cast<int64_t>(Next() % limit); }

 private:
  uint64_t state_;
};

// Uniform numbers: in [-1, 1) for a floating-point dtype, else in [0, limit).
Tensor RandomTensor(DataType dtype, const Shape& shape, Random* random, int64_t limit = 2);

// `count` tensors that add up to `tensor`, up to rounding. Elements that are not finite are only in
// the first one; parts of an integer never leave the range between 0 and it.
std::vector<Tensor> RandomParts(const Tensor& tensor, int count, Random* random);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_TENSORS_H_
