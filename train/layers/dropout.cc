// SPDX-License-Identifier: Apache-2.0
#include "train/layers/dropout.h"

#include <cmath>
#include <optional>
#include <vector>

#include "ops/binary.h"
#include "ops/constant.h"
#include "ops/random.h"
#include "ops/shape_ops.h"
#include "train/inference.h"
#include "train/layers/layer_support.h"
#include "train/numeric_options.h"

namespace mirrorflow {
namespace layers {
namespace {

Output Unchanged(const Scope& scope, Output x) { return scope.Owns(x) ? x : Output(); }

// Makes x the inference form of y. Returns y.
Output InTraining(const Scope& scope, Output x, Output y) {
  if (y.valid() && y != x) scope.graph().SetAttr(y.node, kInferenceAttr, x.ToString());
  return y;
}

Output SpatialDropout(const Scope& scope, Output x, double rate, int rank, const char* layer) {
  const Scope s = scope.SubScope(layer);
  if (!s.ok()) return Output();
  const std::optional<int64_t> channels = InputDepth(s, x, rank, layer);
  if (!channels) return Output();
  if (rate == 0) return Unchanged(s, x);
  std::vector<int64_t> ends(rank - 2, 1);
  ends.push_back(*channels);
  const Output ones = ops::Fill(s, BatchShape(s, x, ends), ops::ScalarConst(s, x.dtype(), 1));
  return InTraining(s, x, ops::Mul(s, x, ops::Dropout(s, ones, rate)));
}

Output NormalLike(const Scope& s, Output x, double deviation) {
  return ops::Mul(s, ops::RandomStandardNormal(s, ops::ShapeOperand(s, x), x.dtype()),
                  ops::ScalarConst(s, x.dtype(), deviation));
}

}  // namespace

Output Dropout(const Scope& scope, Output x, double rate) {
  return InTraining(scope, x, ops::Dropout(scope, x, rate));
}

Output SpatialDropout1D(const Scope& scope, Output x, double rate) {
  return SpatialDropout(scope, x, rate, 3, "spatial_dropout1d");
}
Output SpatialDropout2D(const Scope& scope, Output x, double rate) {
  return SpatialDropout(scope, x, rate, 4, "spatial_dropout2d");
}
Output SpatialDropout3D(const Scope& scope, Output x, double rate) {
  return SpatialDropout(scope, x, rate, 5, "spatial_dropout3d");
}

Output GaussianNoise(const Scope& scope, Output x, double stddev) {
  const Scope s = scope.SubScope("gaussian_noise");
  if (!CheckNumbers(s, "gaussian_noise", {{"stddev", stddev, kNotNegative}})) return Output();
  if (stddev == 0) return Unchanged(s, x);
  return InTraining(s, x, ops::AddV2(s, x, NormalLike(s, x, stddev)));
}

Output GaussianDropout(const Scope& scope, Output x, double rate) {
  const Scope s = scope.SubScope("gaussian_dropout");
  if (!CheckNumbers(s, "gaussian_dropout", {{"rate", rate, kBelowOne}})) return Output();
  if (rate == 0) return Unchanged(s, x);
  const Output noise = NormalLike(s, x, std::sqrt(rate / (1 - rate)));
  const Output factor = ops::AddV2(s, noise, ops::ScalarConst(s, x.dtype(), 1));
  return InTraining(s, x, ops::Mul(s, x, factor));
}

}  // namespace layers
}  // namespace mirrorflow
