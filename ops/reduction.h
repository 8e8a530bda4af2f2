// SPDX-License-Identifier: Apache-2.0
//
// Reductions along given dimensions: Sum, Mean, Max, Min, Prod, EuclideanNorm, All, Any.
#ifndef MIRRORFLOW_OPS_REDUCTION_H_
#define MIRRORFLOW_OPS_REDUCTION_H_

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "framework/graph/scope.h"

namespace mirrorflow::ops {

// Op names, for passes that match these ops.
inline constexpr char kMean[] = "Mean";
inline constexpr char kSum[] = "Sum";

// The dimensions to reduce; negative ones count from the end. They are either C++ integers, such as
// `{0, -1}`, or an output, an integer scalar or vector that must be known when the step is
// compiled. The default is all dimensions; `{}` reduces none.
class ReductionAxes {
 public:
  static ReductionAxes All() { return ReductionAxes(Output()); }
  ReductionAxes(Output axes) : output_(axes) {}
  ReductionAxes(std::initializer_list<int64_t> axes) : numbers_(std::in_place, axes) {}
  ReductionAxes(std::vector<int64_t> axes) : numbers_(std::move(axes)) {}

  // Returns an output that holds the axes for `input` as a vector.
  Output ToOutput(const Scope& scope, Output input) const;

 private:
  Output output_;
  std::optional<std::vector<int64_t>> numbers_;
};

struct ReductionOptions {
  bool keep_dims = false;  // reduced dimensions are kept, with size 1
};

// Shapes:   any. If there are no axes, each element is reduced by itself. A reduction of no
//           elements yields the identity: 0 for Sum, 1 for Prod, -inf (or the lowest integer) for
//           Max, NaN for Mean.
// Dtypes:   half, bfloat16, float, double, int32, int64, uint8; the mean of integers is rounded
//           towards zero.
// Errors:   InvalidArgument if an axis is out of range or given twice.
// Sharding: reducing a sharded dimension leaves partial values, except for Prod, which gathers;
//           Mean then becomes a Sum divided by the global count.
// Gradient: TensorFlow's. For Max and Min, equal elements share the gradient evenly.
// Determinism: floats are added in blocks, in a fixed order; the rounding error grows with the
//           logarithm of the count.
Output Sum(const Scope& scope, Output input, const ReductionAxes& axes = ReductionAxes::All(),
           const ReductionOptions& options = {});
Output Mean(const Scope& scope, Output input, const ReductionAxes& axes = ReductionAxes::All(),
            const ReductionOptions& options = {});
Output Max(const Scope& scope, Output input, const ReductionAxes& axes = ReductionAxes::All(),
           const ReductionOptions& options = {});
Output Min(const Scope& scope, Output input, const ReductionAxes& axes = ReductionAxes::All(),
           const ReductionOptions& options = {});
Output Prod(const Scope& scope, Output input, const ReductionAxes& axes = ReductionAxes::All(),
            const ReductionOptions& options = {});
// The square root of the sum of squares. For integers, the sum wraps around and the root is rounded
// towards zero.
Output EuclideanNorm(const Scope& scope, Output input,
                     const ReductionAxes& axes = ReductionAxes::All(),
                     const ReductionOptions& options = {});
// Logical reductions of bool tensors.
Output All(const Scope& scope, Output input, const ReductionAxes& axes = ReductionAxes::All(),
           const ReductionOptions& options = {});
Output Any(const Scope& scope, Output input, const ReductionAxes& axes = ReductionAxes::All(),
           const ReductionOptions& options = {});

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_REDUCTION_H_
