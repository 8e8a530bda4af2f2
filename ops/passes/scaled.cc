// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/scaled.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "ops/binary.h"
#include "ops/passes/match.h"
#include "ops/unary.h"

namespace mirrorflow {
namespace {

// If `node` multiplies input `i` by a constant, returns the constant; otherwise, nullopt.
std::optional<double> FactorOf(const Compilation& c, const Node& node, int i) {
  const std::string& op = node.op().name;
  if (op == ops::kNeg) return -1;
  if (op == ops::kMul) return ScalarOf(c, node.input(1 - i));
  const std::optional<double> divisor =
      op == ops::kRealDiv && i == 0 ? ScalarOf(c, node.input(1)) : std::nullopt;
  return divisor.has_value() ? std::make_optional(1 / *divisor) : std::nullopt;
}

}  // namespace

Multiples ScalingsOf(const Compilation& c, const Output& value) {
  Multiples all = {{1, value}};
  for (size_t at = 0; at < all.size() && at < kMaxScalings; ++at) {
    const Scaled last = all[at];
    const Node& node = *last.value.node;
    if (!node.control_inputs().empty()) break;
    for (int i = 0; i < std::min(node.num_inputs(), 2); ++i) {
      const std::optional<double> factor = FactorOf(c, node, i);
      if (!factor.has_value()) continue;
      all.push_back({last.factor * *factor, node.input(i)});
      break;
    }
  }
  return all;
}

std::optional<double> ScalarOf(const Compilation& c, const Output& value) {
  return c.values().shape(value).rank() == 0 ? ConstantOf(c, value) : std::nullopt;
}

bool IsNear(double a, double b) { return std::abs(a - b) <= 1e-6 * std::abs(b); }

}  // namespace mirrorflow
