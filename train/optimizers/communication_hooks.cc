// SPDX-License-Identifier: Apache-2.0
#include "train/optimizers/communication_hooks.h"

#include <algorithm>
#include <vector>

#include "framework/core/status.h"
#include "ops/all/ops.h"
#include "train/numeric_options.h"

namespace mirrorflow {
namespace hooks {
namespace {

constexpr VariableSynchronization kOnRead = VariableSynchronization::kOnRead;

GradientReducer Compress(DataType narrow, bool use_error_feedback) {
  return [=](GradientReduction& r) {
    const Scope& s = r.scope();
    const DataType dtype = r.gradient().dtype();
    Output part = ops::LocalPart(s, r.gradient());
    if (!use_error_feedback) {
      const Output sum = ops::AllReduce(s, ops::Cast(s, part, narrow));
      return ops::Cast(s, sum, dtype);
    }
    const Variable error = r.State("error", r.shape(), initializers::Zeros(), dtype, kOnRead);
    const Output before = ops::LocalPart(s, error.value);
    part = ops::AddV2(s, part, before);
    const Output compressed = ops::Cast(s, part, narrow);
    r.Update(error, ops::Sub(s, part, ops::Cast(s, compressed, dtype)), before);
    return ops::Cast(s, ops::AllReduce(s, compressed), dtype);
  };
}

// ---- PowerSGD -------------------------------------------------------------------------------

bool CheckOptions(const Scope& s, const PowerSGDOptions& o) {
  return CheckNumbers(s, "powersgd",
                      {{"matrix_approximation_rank", o.matrix_approximation_rank, kAtLeastOne},
                       {"start_powersgd_iter", o.start_powersgd_iter, kNotNegative},
                       {"min_compression_rate", o.min_compression_rate, kNotNegative},
                       {"orthogonalization_epsilon", o.orthogonalization_epsilon, kNotNegative}});
}

Output Columns(const Scope& s, Output matrix, int64_t first, int64_t count, int64_t rows) {
  return ops::Slice(s, matrix, ops::VectorConst(s, {0, first}), ops::VectorConst(s, {rows, count}));
}

// Orthonormalises the columns of `matrix` [n,r] by the Gram-Schmidt process. Removes the
// projections twice: if a column is nearly dependent on the others, the rounding errors that remain
// after one pass are not orthogonal to them.
Output Orthogonalize(const Scope& scope, Output matrix, int64_t n, int64_t rank, double epsilon) {
  const Scope s = scope.SubScope("orthogonalize");
  std::vector<Output> columns;
  for (int64_t i = 0; i < rank; ++i) {
    Output column = rank == 1 ? matrix : Columns(s, matrix, i, 1, n);
    for (int pass = 0; pass < 2 && i > 0; ++pass) {
      const Output before = i == 1 ? columns[0] : ops::ConcatV2(s, columns, 1);
      const Output along = ops::MatMul(s, before, column, {.transpose_a = true});
      column = ops::Sub(s, column, ops::MatMul(s, before, along));
    }
    Output norm = ops::Sqrt(s, ops::Sum(s, ops::Square(s, column), {0, 1}));
    if (epsilon > 0) norm = ops::AddV2(s, norm, ops::ScalarConst(s, norm.dtype(), epsilon));
    columns.push_back(ops::DivNoNan(s, column, norm));
  }
  return rank == 1 ? columns[0] : ops::ConcatV2(s, columns, 1);
}

struct LowRank {
  int64_t rows = 0;     // n
  int64_t columns = 0;  // m
  int64_t rank = 0;
  double epsilon = 0;
};

// Runs one step of the power method on this replica's `matrix`, starting from the factor `q`.
// Returns the reduced gradient, the factor for the next step, and this replica's error.
std::vector<Output> Approximate(const Scope& s, Output matrix, Output q, const LowRank& shape) {
  const Output before = q;
  q = Orthogonalize(s, q, shape.columns, shape.rank, shape.epsilon);
  const Output p = Orthogonalize(s, ops::AllReduce(s.WithName("p"), ops::MatMul(s, matrix, q)),
                                 shape.rows, shape.rank, shape.epsilon);
  const Output own_q = ops::MatMul(s, matrix, p, {.transpose_a = true});
  q = ops::AllReduce(s.WithName("q"), own_q);
  const Output error = ops::Sub(s, matrix, ops::MatMul(s, p, own_q, {.transpose_b = true}));
  // If a column of the new factor is zero, for example after a zero gradient, keep the previous
  // column, because the next steps could not recover from a column of zeros.
  const Output size = ops::Sum(s, ops::Abs(s, q), {0}, {.keep_dims = true});
  const Output moves = ops::Greater(s, size, ops::ScalarConst(s, size.dtype(), 0));
  const Output next = ops::SelectV2(s, moves, q, before);
  return {ops::MatMul(s, p, q, {.transpose_b = true}), next, error};
}

Output ReduceByPowerSGD(GradientReduction& r, const PowerSGDOptions& options) {
  const Scope& s = r.scope();
  if (!CheckOptions(s, options)) return Output();
  const Shape& shape = r.shape();
  const DataType dtype = r.gradient().dtype();
  const int64_t columns = shape.rank() > 0 ? shape.dim(shape.rank() - 1) : 1;
  const int64_t rows = columns > 0 ? shape.num_elements() / columns : 0;
  const LowRank low = {rows, columns, std::min({rows, columns, options.matrix_approximation_rank}),
                       options.orthogonalization_epsilon};
  const double compressed = static_cast<double>(rows + columns) * static_cast<double>(low.rank);
  if (shape.rank() < 2 || compressed * options.min_compression_rate >=
                              static_cast<double>(rows) * static_cast<double>(columns)) {
    return ops::AllReduce(s, r.gradient());
  }
  const Shape matrix_shape({rows, columns}), q_shape({columns, low.rank});
  Output matrix = ops::Reshape(s, ops::LocalPart(s, r.gradient()), matrix_shape);
  Variable q, error;
  Output factor, before;
  if (options.warm_start) {
    q = r.State("q", q_shape, initializers::RandomNormal(1), dtype);
    factor = q.value;
  } else {
    factor =
        ops::RandomStandardNormal(s.WithName("random"), ops::VectorConst(s, q_shape.dims()), dtype);
  }
  if (options.use_error_feedback) {
    error = r.State("error", matrix_shape, initializers::Zeros(), dtype, kOnRead);
    before = ops::LocalPart(s, error.value);
    matrix = ops::AddV2(s, matrix, before);
  }
  std::vector<Output> results;
  if (options.start_powersgd_iter == 0) {
    results = Approximate(s, matrix, factor, low);
  } else {
    const Variable iter = r.State("iter", {}, initializers::Zeros(), DT_INT64);
    const Output start =
        ops::ScalarConst(s, DT_INT64, static_cast<double>(options.start_powersgd_iter));
    r.Update(iter, ops::AddV2(s, iter.value, ops::ScalarConst(s, DT_INT64, 1)));
    // Until compression starts, the error is zero and the factor does not change.
    results = ops::If(
        s, ops::Less(s, iter.value, start), {matrix, factor},
        [](const Scope& in, absl::Span<const Output> args) {
          return std::vector<Output>{ops::AllReduce(in, args[0]), args[1],
                                     ops::ZerosLike(in, args[0])};
        },
        [&](const Scope& in, absl::Span<const Output> args) {
          return Approximate(in, args[0], args[1], low);
        });
  }
  if (results.size() < 3) return Output();  // after an error
  if (options.warm_start) r.Update(q, results[1]);
  if (options.use_error_feedback) r.Update(error, results[2], before);
  return ops::Reshape(s, results[0], shape);
}

// ---- Adasum ---------------------------------------------------------------------------------

Output Int(const Scope& s, int64_t value) {
  return ops::ScalarConst(s, DT_INT32, static_cast<double>(value));
}

// Combines one level of the tree. Row i of `coefficients` [n,n] expresses the gradient of replica
// i's subtree, which has `size` leaves, as a weighted sum of all replicas' gradients. `gram` [n,n]
// holds the dot products of the replicas' gradients. Returns the coefficients for subtrees of twice
// the size.
Output CombinePairs(const Scope& s, Output size, Output coefficients, Output gram, Output n) {
  const DataType dtype = gram.dtype();
  const Output index = ops::Range(s, Int(s, 0), n, Int(s, 1));
  const Output subtree = ops::FloorDiv(s, index, size);
  const Output is_second = ops::FloorMod(s, subtree, Int(s, 2));
  const Output partner =
      ops::Sub(s, ops::AddV2(s, subtree, Int(s, 1)), ops::AddV2(s, is_second, is_second));
  const Output leaf = ops::Mul(s, partner, size);  // first replica of the partner subtree
  const Output has_partner = ops::ExpandDims(s, ops::Less(s, leaf, n), 1);
  // A replica without a partner ignores the row, so any valid index will do.
  const Output row = ops::Minimum(s, leaf, ops::Sub(s, n, Int(s, 1)));
  const Output theirs = ops::GatherV2(s, coefficients, row, Int(s, 0));
  const ops::ReductionOptions keep = {.keep_dims = true};
  const Output own_products = ops::MatMul(s, coefficients, gram);
  const Output own = ops::Sum(s, ops::Mul(s, own_products, coefficients), {1}, keep);
  const Output both = ops::Sum(s, ops::Mul(s, own_products, theirs), {1}, keep);
  const Output other = ops::Sum(s, ops::Mul(s, ops::MatMul(s, theirs, gram), theirs), {1}, keep);
  const Output one = ops::ScalarConst(s, dtype, 1), half = ops::ScalarConst(s, dtype, 0.5);
  const auto share = [&](const Output& square) {  // 1 - a·b / (2 a·a)
    return ops::Sub(s, one, ops::Mul(s, half, ops::DivNoNan(s, both, square)));
  };
  const Output sum =
      ops::AddV2(s, ops::Mul(s, share(own), coefficients), ops::Mul(s, share(other), theirs));
  return ops::SelectV2(s, has_partner, sum, coefficients);
}

// Returns the weights [n,1] of the replicas' gradients in their Adasum.
Output AdasumCoefficients(const Scope& s, Output gram, Output n) {
  const DataType dtype = gram.dtype();
  const Output one = ops::ScalarConst(s, dtype, 1), zero = ops::ScalarConst(s, dtype, 0);
  const Output identity = ops::OneHot(s, ops::Range(s, Int(s, 0), n, Int(s, 1)), n, one, zero);
  const std::vector<Output> last = ops::While(
      s, {Int(s, 1), identity, gram, n},
      [](const Scope& in, absl::Span<const Output> args) {
        return std::vector<Output>{ops::Less(in, args[0], args[3])};
      },
      [](const Scope& in, absl::Span<const Output> args) {
        return std::vector<Output>{ops::AddV2(in, args[0], args[0]),
                                   CombinePairs(in, args[0], args[1], args[2], args[3]), args[2],
                                   args[3]};
      });
  if (last.size() < 2) return Output();  // after an error
  return ops::ExpandDims(s, ops::GatherV2(s, last[1], Int(s, 0), Int(s, 0)), 1);
}

Output ReduceByAdasum(GradientReduction& r) {
  const Scope& s = r.scope();
  const DataType dtype = r.gradient().dtype();
  const int64_t size = r.shape().num_elements();
  const Output n = ops::NumReplicas(s);
  // Pad the gradient so that all replicas get shards of equal size.
  const Output shard_size =
      ops::FloorDiv(s, ops::AddV2(s, ops::Sub(s, n, Int(s, 1)), Int(s, size)), n);
  const Output padding = ops::Sub(s, ops::Mul(s, shard_size, n), Int(s, size));
  const Output part = ops::Reshape(s, ops::LocalPart(s, r.gradient()), Shape({size}));
  const Output padded =
      ops::Pad(s, part, ops::Reshape(s, ops::Pack(s, {Int(s, 0), padding}), Shape({1, 2})));
  // [elements, replicas]: this replica's gradient in its own column, zeros in all others.
  const Output scale = ops::Cast(s, n, dtype);
  const Output column =
      ops::OneHot(s, ops::ReplicaIndex(s), n, scale, ops::ScalarConst(s, dtype, 0));
  const Output spread = ops::Mul(s, ops::ExpandDims(s, padded, 1), ops::ExpandDims(s, column, 0));
  const Output all = ops::ReduceScatter(s, spread);  // a shard of each replica's gradient
  const Output gram = ops::AllReduce(s, ops::MatMul(s, all, all, {.transpose_a = true}));
  const Output sum = ops::AllGather(s, ops::MatMul(s, all, AdasumCoefficients(s, gram, n)));
  const Output whole =
      ops::Slice(s, sum, ops::VectorConst(s, {0, 0}), ops::VectorConst(s, {size, 1}));
  return ops::Reshape(s, whole, r.shape());
}

}  // namespace

GradientReducer AllReduce() {
  return [](GradientReduction& r) { return ops::AllReduce(r.scope(), r.gradient()); };
}

GradientReducer Bf16Compress(const CompressOptions& options) {
  return Compress(DT_BFLOAT16, options.use_error_feedback);
}

GradientReducer Fp16Compress(const CompressOptions& options) {
  return Compress(DT_HALF, options.use_error_feedback);
}

GradientReducer PowerSGD(const PowerSGDOptions& options) {
  return [options](GradientReduction& r) { return ReduceByPowerSGD(r, options); };
}

GradientReducer Adasum() { return ReduceByAdasum; }

}  // namespace hooks
}  // namespace mirrorflow
