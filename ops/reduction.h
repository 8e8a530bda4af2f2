// SPDX-License-Identifier: Apache-2.0
//
// Reductions along some dimensions: Sum, Mean, Max, Min, Prod, EuclideanNorm, All, Any.
#ifndef MIRRORFLOW_OPS_REDUCTION_H_
#define MIRRORFLOW_OPS_REDUCTION_H_

#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "framework/graph/scope.h"

namespace mirrorflow {

void RegisterReduction(OpRegistry& ops);

namespace ops {

// For passes that are about them.
inline constexpr char kMean[] = "Mean";
inline constexpr char kSum[] = "Sum";

// The dimensions to reduce, negative ones counted from the end: numbers known here, `{0, -1}`, or
// an integer scalar or vector that is a constant when a plan is made.
class ReductionAxes {
 public:
  ReductionAxes(Output axes) : output_(axes) {}
  ReductionAxes(std::initializer_list<int64_t> axes) : numbers_(axes) {}
  ReductionAxes(std::vector<int64_t> axes) : numbers_(std::move(axes)) {}

  Output ToOutput(const Scope& scope) const;

 private:
  Output output_;
  std::vector<int64_t> numbers_;
};

struct ReductionOptions {
  bool keep_dims = false;  // a reduced dimension stays, with size 1
};

// Shapes:   any; no axes: every element by itself. Nothing reduces to the identity: 0 for Sum, 1
//           for Prod, -inf (or the lowest integer) for Max, NaN for Mean.
// Dtypes:   float, double, int32, int64, uint8; the mean of integers is rounded towards zero.
// Errors:   InvalidArgument for an axis out of range or named twice.
// Sharding: partial values are left along a sharded dimension, but by Prod, which gathers; Mean is
//           then a Sum divided by the global count.
// Gradient: TensorFlow's. That of Max and Min is shared evenly by equal elements.
// Determinism: floats are added in a fixed order of blocks, the error grows with the logarithm of
//           the count.
Output Sum(const Scope& scope, Output input, const ReductionAxes& axes,
           const ReductionOptions& options = {});
Output Mean(const Scope& scope, Output input, const ReductionAxes& axes,
            const ReductionOptions& options = {});
Output Max(const Scope& scope, Output input, const ReductionAxes& axes,
           const ReductionOptions& options = {});
Output Min(const Scope& scope, Output input, const ReductionAxes& axes,
           const ReductionOptions& options = {});
Output Prod(const Scope& scope, Output input, const ReductionAxes& axes,
            const ReductionOptions& options = {});
// The square root of the sum of the squares; of integers, whose sum wraps around, rounded towards
// zero.
Output EuclideanNorm(const Scope& scope, Output input, const ReductionAxes& axes,
                     const ReductionOptions& options = {});
// Of bool.
Output All(const Scope& scope, Output input, const ReductionAxes& axes,
           const ReductionOptions& options = {});
Output Any(const Scope& scope, Output input, const ReductionAxes& axes,
           const ReductionOptions& options = {});

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_REDUCTION_H_
