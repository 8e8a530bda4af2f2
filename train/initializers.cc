// SPDX-License-Identifier: Apache-2.0
#include "train/initializers.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/binary.h"
#include "ops/cast.h"
#include "ops/constant.h"
#include "ops/control_flow/control_flow.h"
#include "ops/gather.h"
#include "ops/matmul.h"
#include "ops/one_hot.h"
#include "ops/random.h"
#include "ops/reduction.h"
#include "ops/reshape.h"
#include "ops/shape_ops.h"
#include "ops/transpose.h"
#include "ops/unary.h"
#include "train/numeric_options.h"

namespace mirrorflow {
namespace initializers {
namespace {

struct Fans {
  double in = 1;
  double out = 1;
};

Fans FansOf(const Shape& shape) {
  Fans fans;
  const int rank = shape.rank();
  if (rank == 0) return fans;
  double receptive = 1;
  for (int d = 0; d + 2 < rank; ++d) receptive *= static_cast<double>(shape.dim(d));
  fans.in = receptive * static_cast<double>(shape.dim(rank >= 2 ? rank - 2 : 0));
  fans.out = receptive * static_cast<double>(shape.dim(rank - 1));
  return fans;
}

Output ShapeConst(const Scope& scope, const Shape& shape) {
  return ops::VectorConst(scope, shape.dims());
}

// Returns factor * x + offset.
Output Scale(const Scope& scope, Output x, double factor, double offset, DataType dtype) {
  const Output scaled = ops::Mul(scope, x, ops::ScalarConst(scope, dtype, factor));
  if (offset == 0) return scaled;
  return ops::AddV2(scope, scaled, ops::ScalarConst(scope, dtype, offset));
}

Output Fail(const Scope& scope, absl::string_view what) {
  scope.Fail(absl::InvalidArgumentError(what));
  return Output();
}

bool CheckNormal(const Scope& scope, absl::string_view owner, double stddev, double mean) {
  return CheckNumbers(scope, owner, {{"stddev", stddev, kNotNegative}, {"mean", mean, kAnyNumber}});
}

// Orthonormalises `rows` [count, width], count <= width, row by row (Gram-Schmidt). If the rows are
// normally distributed, the result is uniformly distributed: it is the transposed Q of the QR
// decomposition whose R has a positive diagonal.
Output Orthonormal(const Scope& scope, Output rows, int64_t count, DataType dtype) {
  const Output first = ops::ScalarConst(scope, DT_INT32, 0);
  return ops::While(
      scope, {first, ops::ZerosLike(scope, rows), rows},
      [&](const Scope& s, absl::Span<const Output> in) {
        const auto end = static_cast<double>(count);
        return std::vector<Output>{ops::Less(s, in[0], ops::ScalarConst(s, DT_INT32, end))};
      },
      [&](const Scope& s, absl::Span<const Output> in) {
        const Output zero = ops::ScalarConst(s, DT_INT32, 0);
        Output row = ops::ExpandDims(s, ops::GatherV2(s, in[2], in[0], zero), int64_t{0});
        // Rounding leaves a small component along the earlier rows; the second pass removes it.
        for (int pass = 0; pass < 2; ++pass) {
          const Output parts = ops::MatMul(s, row, in[1], {.transpose_b = true});
          row = ops::Sub(s, row, ops::MatMul(s, parts, in[1]));
          const Output length = ops::EuclideanNorm(s, row, {1}, {.keep_dims = true});
          row = ops::RealDiv(s, row, length);
        }
        const Output place =
            ops::OneHot(s, in[0], ops::ScalarConst(s, DT_INT32, static_cast<double>(count)),
                        ops::ScalarConst(s, dtype, 1), ops::ScalarConst(s, dtype, 0));
        const Output placed = ops::Mul(s, ops::ExpandDims(s, place, int64_t{1}), row);
        return std::vector<Output>{ops::AddV2(s, in[0], ops::ScalarConst(s, DT_INT32, 1)),
                                   ops::AddV2(s, in[1], placed), in[2]};
      })[1];
}

}  // namespace

Initializer Constant(double value) {
  return [value](const Scope& scope, const Shape& shape, DataType dtype) {
    if (std::isnan(value)) return Fail(scope, "Constant: value: expected a number, got nan");
    return ops::Fill(scope, ShapeConst(scope, shape), ops::ScalarConst(scope, dtype, value));
  };
}

Initializer Zeros() { return Constant(0); }
Initializer Ones() { return Constant(1); }

Initializer Identity(double gain) {
  return [gain](const Scope& scope, const Shape& shape, DataType dtype) {
    if (!CheckNumbers(scope, "Identity()", {{"gain", gain, kAnyNumber}})) return Output();
    if (shape.rank() != 2) {
      return Fail(scope, absl::StrCat("Identity: expected a matrix, got shape ", shape.ToString()));
    }
    const auto integer = [&](int64_t value) {
      return ops::ScalarConst(scope, DT_INT32, static_cast<double>(value));
    };
    const Output rows = ops::Range(scope, integer(0), integer(shape.dim(0)), integer(1));
    return ops::OneHot(scope, rows, integer(shape.dim(1)), ops::ScalarConst(scope, dtype, gain),
                       ops::ScalarConst(scope, dtype, 0));
  };
}

Initializer RandomNormal(double stddev, double mean) {
  return [stddev, mean](const Scope& scope, const Shape& shape, DataType dtype) {
    if (!CheckNormal(scope, "RandomNormal", stddev, mean)) return Output();
    return Scale(scope, ops::RandomStandardNormal(scope, ShapeConst(scope, shape), dtype), stddev,
                 mean, dtype);
  };
}

Initializer TruncatedNormal(double stddev, double mean) {
  return [stddev, mean](const Scope& scope, const Shape& shape, DataType dtype) {
    if (!CheckNormal(scope, "TruncatedNormal", stddev, mean)) return Output();
    return Scale(scope, ops::TruncatedNormal(scope, ShapeConst(scope, shape), dtype), stddev, mean,
                 dtype);
  };
}

Initializer RandomUniform(double minval, double maxval) {
  return [minval, maxval](const Scope& scope, const Shape& shape, DataType dtype) {
    if (!CheckNumbers(scope, "RandomUniform",
                      {{"minval", minval, kAnyNumber},
                       {"maxval", maxval, {.min = minval}},
                       {"maxval - minval", maxval - minval, kAnyNumber}})) {
      return Output();
    }
    return Scale(scope, ops::RandomUniform(scope, ShapeConst(scope, shape), dtype), maxval - minval,
                 minval, dtype);
  };
}

Initializer VarianceScaling(const VarianceScalingOptions& options) {
  return [options](const Scope& scope, const Shape& shape, DataType dtype) {
    if (!CheckNumbers(scope, "VarianceScaling", {{"scale", options.scale, kPositive}})) {
      return Output();
    }
    const Fans fans = FansOf(shape);
    const double fan = options.mode == Fan::kIn    ? fans.in
                       : options.mode == Fan::kOut ? fans.out
                                                   : (fans.in + fans.out) / 2;
    const double variance = options.scale / std::max(1.0, fan);
    switch (options.distribution) {
      case Distribution::kTruncatedNormal:
        // Truncation at two standard deviations reduces the standard deviation by a factor of
        // 0.8796.
        return TruncatedNormal(std::sqrt(variance) / 0.87962566103423978)(scope, shape, dtype);
      case Distribution::kUntruncatedNormal:
        return RandomNormal(std::sqrt(variance))(scope, shape, dtype);
      case Distribution::kUniform:
        break;
    }
    const double limit = std::sqrt(3 * variance);
    return RandomUniform(-limit, limit)(scope, shape, dtype);
  };
}

Initializer GlorotNormal() { return VarianceScaling({.mode = Fan::kAverage}); }
Initializer GlorotUniform() {
  return VarianceScaling({.mode = Fan::kAverage, .distribution = Distribution::kUniform});
}
Initializer HeNormal() { return VarianceScaling({.scale = 2}); }
Initializer HeUniform() {
  return VarianceScaling({.scale = 2, .distribution = Distribution::kUniform});
}
Initializer LecunNormal() { return VarianceScaling({}); }
Initializer LecunUniform() { return VarianceScaling({.distribution = Distribution::kUniform}); }

Initializer Orthogonal(double gain) {
  return [gain](const Scope& scope, const Shape& shape, DataType dtype) {
    if (!CheckNumbers(scope, "Orthogonal", {{"gain", gain, kAnyNumber}})) return Output();
    if (shape.rank() < 2) {
      return Fail(scope, absl::StrCat("Orthogonal: expected at least two dimensions, got shape ",
                                      shape.ToString()));
    }
    const int64_t columns = shape.dim(shape.rank() - 1);
    if (columns == 0 || shape.num_elements() == 0) return Zeros()(scope, shape, dtype);
    const int64_t rows = shape.num_elements() / columns;
    const int64_t count = std::min(rows, columns), width = std::max(rows, columns);
    // Dot products in half or bfloat16 are too inexact to make the rows orthogonal.
    const DataType wide = dtype == DT_DOUBLE ? DT_DOUBLE : DT_FLOAT;
    const Output normal = ops::RandomStandardNormal(scope, ShapeConst(scope, {count, width}), wide);
    Output q = Orthonormal(scope, normal, count, wide);
    if (rows > columns) q = ops::Transpose(scope, q, {1, 0});
    if (wide != dtype) q = ops::Cast(scope, q, dtype);
    return Scale(scope, ops::Reshape(scope, q, shape), gain, 0, dtype);
  };
}

}  // namespace initializers
}  // namespace mirrorflow
