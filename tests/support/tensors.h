// SPDX-License-Identifier: Apache-2.0
//
// Slices, concatenates and compares host tensors, for the op checks.
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

// Returns "" if `got` equals `want` in dtype, shape and every element, and otherwise the first
// difference. NaN equals NaN and -0 equals 0. Infinities and dtypes that are not floating-point are
// compared exactly.
std::string Difference(const Tensor& want, const Tensor& got, const Tolerance& tolerance);

// Returns the largest finite |element|, or 0 if there is none or the dtype is not numeric.
double LargestFinite(const Tensor& tensor);
bool AllFinite(const Tensor& tensor);

// Returns a copy of elements [begin, end) along dimension `dim`.
Tensor SliceAlong(const Tensor& tensor, int dim, int64_t begin, int64_t end);
// Concatenates `parts` along dimension `dim`.
Tensor ConcatenateAlong(absl::Span<const Tensor> parts, int dim);
// Combines `parts` element by element. `weights` apply to kMean and sum to 1. Integers wrap around;
// NaN takes precedence over every number.
Tensor Combine(absl::Span<const Tensor> parts, Reduction reduction,
               absl::Span<const double> weights);

// Returns fn(x) for each element x of a tensor of floats.
template <typename T>
Tensor MapFloats(const Tensor& in, T (*fn)(float)) {
  Tensor out = *Tensor::Allocate(DataTypeOf<T>(), in.shape());
  for (int64_t i = 0; i < in.num_elements(); ++i) out.data<T>()[i] = fn(in.data<float>()[i]);
  return out;
}

// A random number generator that gives the same numbers on every platform (SplitMix64).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next();
  double Uniform(double low, double high);
  int64_t Below(int64_t limit) { return static_cast<int64_t>(Next() % limit); }

 private:
  uint64_t state_;
};

// Returns uniformly distributed elements: in [-1, 1) for a floating-point dtype, otherwise in
// [0, limit).
Tensor RandomTensor(DataType dtype, const Shape& shape, Random* random, int64_t limit = 2);

// Returns `count` tensors whose sum is `tensor`, up to rounding. Only the first contains the
// elements that are not finite. If an element is an integer, each of its terms is between 0 and the
// element.
std::vector<Tensor> RandomParts(const Tensor& tensor, int count, Random* random);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_TENSORS_H_
