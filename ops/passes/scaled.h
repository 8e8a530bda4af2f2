// SPDX-License-Identifier: Apache-2.0
//
// Constant factors in formulas. Programs write the same formula in several ways: x / 2, 0.5 * x and
// (0.25 * x) * 2 are the same multiple of x.
#ifndef MIRRORFLOW_OPS_PASSES_SCALED_H_
#define MIRRORFLOW_OPS_PASSES_SCALED_H_

#include <cstddef>
#include <optional>

#include "absl/container/inlined_vector.h"
#include "framework/compiler/compilation.h"

namespace mirrorflow {

// A value, expressed as `factor` times `value`.
struct Scaled {
  double factor;
  Output value;
};

// No known formula scales a value more often. The limit keeps long chains of products cheap.
inline constexpr size_t kMaxScalings = 3;
using Multiples = absl::InlinedVector<Scaled, kMaxScalings + 1>;

// Returns `value`, followed by the values of which it is a constant multiple, nearest first. The
// search stops at a node with control inputs.
Multiples ScalingsOf(const Compilation& c, const Output& value);

// Returns the number that a constant of rank 0 holds; nullopt for any other value.
std::optional<double> ScalarOf(const Compilation& c, const Output& value);

// Returns whether the numbers are equal, up to the rounding of a float constant.
bool IsNear(double a, double b);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_PASSES_SCALED_H_
