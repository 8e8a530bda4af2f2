// SPDX-License-Identifier: Apache-2.0
#include "train/optimizers/clipping.h"

#include "ops/add_n.h"
#include "ops/clip_by_value.h"
#include "train/numeric_options.h"
#include "train/optimizers/term.h"

namespace mirrorflow {
namespace {

// Returns 1 if the norm is below the limit, otherwise limit / norm. Never divides by zero.
Term FactorFor(const Term& norm, double limit) {
  return norm.Number(limit) / Max(norm, norm.Number(limit));
}

}  // namespace

std::vector<GradientAndVariable> ClipByValue(const Scope& scope,
                                             absl::Span<const GradientAndVariable> gradients,
                                             double clipvalue) {
  const Scope s = scope.SubScope("clip_by_value");
  if (!CheckNumbers(s, "clip_by_value", {{"clipvalue", clipvalue, kPositive}})) return {};
  std::vector<GradientAndVariable> clipped;
  for (const GradientAndVariable& gv : gradients) {
    const Term g(s, gv.gradient);
    clipped.push_back(
        {ops::ClipByValue(s, g, g.Number(-clipvalue), g.Number(clipvalue)), gv.variable});
  }
  return clipped;
}

std::vector<GradientAndVariable> ClipByNorm(const Scope& scope,
                                            absl::Span<const GradientAndVariable> gradients,
                                            double clipnorm) {
  const Scope s = scope.SubScope("clip_by_norm");
  if (!CheckNumbers(s, "clip_by_norm", {{"clipnorm", clipnorm, kPositive}})) return {};
  std::vector<GradientAndVariable> clipped;
  for (const GradientAndVariable& gv : gradients) {
    const Term g(s, gv.gradient);
    clipped.push_back({g * FactorFor(Sqrt(SumOf(Square(g))), clipnorm), gv.variable});
  }
  return clipped;
}

std::vector<GradientAndVariable> ClipByGlobalNorm(const Scope& scope,
                                                  absl::Span<const GradientAndVariable> gradients,
                                                  double clipnorm) {
  const Scope s = scope.SubScope("clip_by_global_norm");
  if (!CheckNumbers(s, "clip_by_global_norm", {{"clipnorm", clipnorm, kPositive}})) return {};
  std::vector<Output> squares;
  for (const GradientAndVariable& gv : gradients) {
    squares.push_back(SumOf(Square(Term(s, gv.gradient))));
  }
  if (squares.empty() || !s.ok()) return {};
  const Term factor = FactorFor(Sqrt(Term(s, ops::AddN(s, squares))), clipnorm);
  std::vector<GradientAndVariable> clipped;
  for (const GradientAndVariable& gv : gradients) {
    clipped.push_back({Term(s, gv.gradient) * factor, gv.variable});
  }
  return clipped;
}

}  // namespace mirrorflow
