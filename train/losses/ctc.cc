// SPDX-License-Identifier: Apache-2.0
#include "train/losses/ctc.h"

#include <limits>
#include <numeric>
#include <vector>

#include "ops/binary.h"
#include "ops/cast.h"
#include "ops/constant.h"
#include "ops/control_flow/control_flow.h"
#include "ops/control_flow/tensor_list.h"
#include "ops/gather.h"
#include "ops/identity.h"
#include "ops/one_hot.h"
#include "ops/reduction.h"
#include "ops/reshape.h"
#include "ops/select.h"
#include "ops/slice.h"
#include "ops/softmax.h"
#include "ops/transpose.h"
#include "ops/unary.h"

namespace mirrorflow {
namespace losses {
namespace {

// Stands for log(0). It is finite because the difference of two infinities is NaN, and small enough
// in magnitude that sums of a few such values are also finite.
constexpr double kImpossible = -1e30;

Output Number(const Scope& s, DataType dtype, double value) {
  return ops::ScalarConst(s, dtype, value);
}

Output PadRows(const Scope& s, Output x, int64_t before, int64_t after, double value) {
  const Output paddings =
      ops::Reshape(s, ops::VectorConst(s, {0, 0, before, after}), Shape({2, 2}));
  return ops::PadV2(s, x, paddings, Number(s, x.dtype(), value));
}

// Shifts x [batch, states] right by `count` columns; `value` fills the first columns.
Output Shifted(const Scope& s, Output x, int64_t states, int64_t count, double value) {
  const Output kept =
      ops::Slice(s, x, ops::VectorConst(s, {0, 0}), ops::VectorConst(s, {-1, states - count}));
  return PadRows(s, kept, count, 0, value);
}

// Returns 0 where `condition` is true and kImpossible elsewhere.
Output LogOf(const Scope& s, Output condition, DataType dtype) {
  return ops::SelectV2(s, condition, Number(s, dtype, 0), Number(s, dtype, kImpossible));
}

// Returns log(sum(exp(terms))), element-wise. The result does not depend on the maximum that is
// subtracted before the exponentials, so no gradient needs to flow through it.
Output LogSumExp(const Scope& s, const std::vector<Output>& terms) {
  Output largest = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) largest = ops::Maximum(s, largest, terms[i]);
  largest = ops::StopGradient(s, largest);
  Output sum;
  for (const Output& term : terms) {
    const Output share = ops::Exp(s, ops::Sub(s, term, largest));
    sum = sum.valid() ? ops::AddV2(s, sum, share) : share;
  }
  return ops::AddV2(s, largest, ops::Log(s, sum));
}

// Returns the states of an alignment, blank label blank label … blank: [batch, 2 length + 1].
Output States(const Scope& s, Output labels, int64_t length) {
  const Output column = ops::Reshape(s, labels, Shape({kUnknownDim, 1}));
  const Output pairs = PadRows(s, column, 1, 0, 0);
  return PadRows(s, ops::Reshape(s, pairs, Shape({kUnknownDim, 2 * length})), 0, 1, 0);
}

bool CheckShapes(const Scope& s, const Shape& logits, const Shape& labels) {
  const bool ranks =
      !logits.unknown_rank() && !labels.unknown_rank() && logits.rank() == 3 && labels.rank() == 2;
  if (ranks && logits.dim(1) >= 1 && logits.dim(2) >= 1 && labels.dim(1) >= 1 &&
      Shape({logits.dim(0)}).IsCompatibleWith(Shape({labels.dim(0)}))) {
    return true;
  }
  FailLoss(s, "ctc",
           "expected logits [batch, time, classes] and labels [batch, length], with all dimensions "
           "except the batch known, got ",
           logits.ToString(), " and ", labels.ToString());
  return false;
}

// Returns, for each state, the log of the total probability of all paths that end there after
// `time` steps: [batch, states]. `steps` is a list of log-probabilities [batch, states]. `log_skip`
// is 0 for states that a path can enter by skipping a blank, and kImpossible for the others.
Output LogPaths(const Scope& s, Output steps, Output log_skip, int64_t time, int64_t num_states) {
  const DataType dtype = log_skip.dtype();
  // Before the first step, all paths are in the first blank.
  const Output start = ops::OneHot(s, Number(s, DT_INT32, 0), Number(s, DT_INT32, num_states),
                                   Number(s, dtype, 0), Number(s, dtype, kImpossible));
  const Output starts = ops::AddV2(s, ops::ZerosLike(s, log_skip), start);
  return ops::While(
      s, {Number(s, DT_INT32, 0), starts, steps, log_skip},
      [&](const Scope& s, absl::Span<const Output> in) {
        return std::vector<Output>{ops::Less(s, in[0], Number(s, DT_INT32, time))};
      },
      [&](const Scope& s, absl::Span<const Output> in) {
        const Output next = Shifted(s, in[1], num_states, 1, kImpossible);
        const Output skip = ops::AddV2(s, Shifted(s, in[1], num_states, 2, kImpossible), in[3]);
        const Output now = ops::TensorListGetItem(s, in[2], in[0], dtype);
        return std::vector<Output>{ops::AddV2(s, in[0], Number(s, DT_INT32, 1)),
                                   ops::AddV2(s, now, LogSumExp(s, {in[1], next, skip})), in[2],
                                   in[3]};
      })[1];
}

// Returns 0 for the states where a path can end (the last label and the blank after it), and
// kImpossible for the others: [batch, states].
Output LogEnds(const Scope& s, Output labels, int64_t num_states, DataType dtype) {
  const Output is_used = ops::NotEqual(s, labels, Number(s, labels.dtype(), 0));
  const Output length = ops::Sum(s, ops::Cast(s, is_used, DT_INT32), {-1}, {.keep_dims = true});
  std::vector<int64_t> numbers(num_states);
  std::iota(numbers.begin(), numbers.end(), 0);
  const Output last = ops::Mul(s, length, Number(s, DT_INT32, 2));
  const Output distance = ops::Sub(s, last, ops::VectorConst(s, numbers));
  const Output is_end = ops::LogicalOr(s, ops::Equal(s, distance, Number(s, DT_INT32, 0)),
                                       ops::Equal(s, distance, Number(s, DT_INT32, 1)));
  return LogOf(s, is_end, dtype);
}

// Returns log(sum(exp(x))) for each row.
Output LogSumExpOfRows(const Scope& s, Output x) {
  const Output largest = ops::StopGradient(s, ops::Max(s, x, {-1}, {.keep_dims = true}));
  const Output sum = ops::Sum(s, ops::Exp(s, ops::Sub(s, x, largest)), {-1});
  return ops::AddV2(s, ops::Squeeze(s, largest, {.axis = {-1}}), ops::Log(s, sum));
}

}  // namespace

Output CTC(const Scope& scope, Output logits, Output labels, const LossOptions& options) {
  const Scope s = scope.SubScope(options.name);
  const Shape shape = s.shape(logits), labels_shape = s.shape(labels);
  if (!s.ok() || !CheckShapes(s, shape, labels_shape)) return Output();
  const DataType given = logits.dtype(), dtype = given == DT_DOUBLE ? DT_DOUBLE : DT_FLOAT;
  const int64_t num_states = 2 * labels_shape.dim(1) + 1;

  const Output states = States(s, labels, labels_shape.dim(1));
  const Output log_probabilities = ops::LogSoftmax(s, AsType(s, logits, dtype));
  const Output of_states =
      ops::GatherV2(s, log_probabilities, states, Number(s, DT_INT32, 2), {.batch_dims = 1});
  const Output steps = ops::TensorListFromTensor(s, ops::Transpose(s, of_states, {1, 0, 2}));

  // A path can pass from one label to the next without a blank, unless the two are equal.
  const Output is_label = ops::NotEqual(s, states, Number(s, states.dtype(), 0));
  const Output before = Shifted(s, states, num_states, 2, 0);
  const Output may_skip = ops::LogicalAnd(s, is_label, ops::NotEqual(s, states, before));
  const Output log_paths = LogPaths(s, steps, LogOf(s, may_skip, dtype), shape.dim(1), num_states);
  if (!s.ok()) return Output();

  const Output log_total =
      LogSumExpOfRows(s, ops::AddV2(s, log_paths, LogEnds(s, labels, num_states, dtype)));
  const Output is_possible = ops::Greater(s, log_total, Number(s, dtype, kImpossible / 2));
  const Output infinity = Number(s, dtype, std::numeric_limits<double>::infinity());
  const Output losses = ops::SelectV2(s, is_possible, ops::Neg(s, log_total), infinity);
  return ReduceLosses(s, "ctc", AsType(s, losses, given), options);
}

}  // namespace losses
}  // namespace mirrorflow
