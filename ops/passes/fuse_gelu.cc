// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/fuse_gelu.h"

#include <cmath>
#include <optional>

#include "framework/core/status.h"
#include "ops/binary.h"
#include "ops/gelu.h"
#include "ops/passes/match.h"
#include "ops/passes/scaled.h"
#include "ops/unary.h"
#include "ops/unary_math.h"

namespace mirrorflow {
namespace {

class Finder {
 public:
  explicit Finder(const Compilation& c) : c_(c) {}

  struct Gelu {
    Output x;
    bool approximate;
  };

  // Returns the Gelu that `y` = x * cdf(x) computes, where cdf is half of 1 + erf(x / √2) or of its
  // approximation; nullopt if `y` is something else.
  std::optional<Gelu> Find(const Output& y) const {
    for (const Scaled& product : ScalingsOf(c_, y)) {
      if (!IsFree(product.value, ops::kMul)) continue;
      for (const int i : {0, 1}) {
        const Output& factor = product.value.node->input(1 - i);
        if (!c_.IsUsedOnce(factor)) continue;
        const Multiples cdfs = ScalingsOf(c_, factor);
        for (const Scaled& x : ScalingsOf(c_, product.value.node->input(i))) {
          if (shape(x.value) != shape(y)) continue;
          for (const Scaled& cdf : cdfs) {
            if (!IsNear(product.factor * x.factor * cdf.factor, 0.5)) continue;
            if (IsTwiceCdf(cdf.value, x.value)) return Gelu{x.value, false};
            if (IsTwiceApproximateCdf(cdf.value, x.value)) return Gelu{x.value, true};
          }
        }
      }
    }
    return std::nullopt;
  }

 private:
  const Shape& shape(const Output& output) const { return c_.values().shape(output); }

  bool IsMultiple(const Output& value, double factor, const Output& x) const {
    for (const Scaled& scaled : ScalingsOf(c_, value)) {
      if (scaled.value == x && IsNear(scaled.factor, factor)) return true;
    }
    return false;
  }

  // If `sum` is 1 + op(z) and nothing else uses `sum` or op(z), returns z. In training, the
  // gradient often uses them too.
  Output OnePlus(const Output& sum, absl::string_view op) const {
    if (!IsFreeSum(sum) || !c_.IsUsedOnce(sum)) return Output();
    for (const int i : {0, 1}) {
      const Output value = sum.node->input(i);
      if (IsFree(value, op) && c_.IsUsedOnce(value) &&
          ScalarOf(c_, sum.node->input(1 - i)) == 1.0) {
        return value.node->input(0);
      }
    }
    return Output();
  }

  bool IsTwiceCdf(const Output& cdf, const Output& x) const {
    if (IsFree(cdf, ops::kErfc)) {
      return c_.IsUsedOnce(cdf) && IsMultiple(cdf.node->input(0), -std::sqrt(0.5), x);
    }
    const Output z = OnePlus(cdf, ops::kErf);
    return z.valid() && IsMultiple(z, std::sqrt(0.5), x);
  }

  // Recognises 1 + tanh(√(2/π) * (x + 0.044715 x³)).
  bool IsTwiceApproximateCdf(const Output& cdf, const Output& x) const {
    const Output z = OnePlus(cdf, ops::kTanh);
    if (!z.valid()) return false;
    for (const Scaled& sum : ScalingsOf(c_, z)) {
      if (!IsFreeSum(sum.value) || !IsNear(sum.factor, kRootOfTwoOverPi)) continue;
      for (const int i : {0, 1}) {
        if (sum.value.node->input(i) != x) continue;
        for (const Scaled& cube : ScalingsOf(c_, sum.value.node->input(1 - i))) {
          if (IsNear(cube.factor, 0.044715) && IsPower(cube.value, x, 3)) return true;
        }
      }
    }
    return false;
  }

  // Returns whether the value is xⁿ.
  bool IsPower(const Output& value, const Output& x, int n) const {
    if (n == 1) return value == x;
    const Node& node = *value.node;
    if (IsFree(value, ops::kPow)) return node.input(0) == x && ScalarOf(c_, node.input(1)) == n;
    if (IsFree(value, ops::kSquare)) return n == 2 && node.input(0) == x;
    return IsFree(value, ops::kMul) && ((node.input(0) == x && IsPower(node.input(1), x, n - 1)) ||
                                        (node.input(1) == x && IsPower(node.input(0), x, n - 1)));
  }

  static constexpr double kRootOfTwoOverPi = 0.79788456080286535588;

  const Compilation& c_;
};

}  // namespace

absl::StatusOr<bool> FuseGelu::Run(Compilation& c) {
  bool changed = false;
  const Finder finder(c);
  for (Node* node : c.graph.Nodes()) {
    if (node->num_outputs() != 1 || node->output(0).dtype() != DT_FLOAT) continue;
    const std::optional<Finder::Gelu> gelu = finder.Find(node->output(0));
    if (!gelu.has_value()) continue;
    const Output fused =
        ops::Gelu(c.scope().WithName(node->name()), gelu->x, {.approximate = gelu->approximate});
    MF_RETURN_IF_ERROR(c.graph.status());
    c.ReplaceNode(node, fused);
    changed = true;
  }
  return changed && c.RemoveDeadNodes();
}

}  // namespace mirrorflow
