// SPDX-License-Identifier: Apache-2.0
#include "train/optimizers/adafactor.h"

#include <vector>

#include "ops/reduction.h"
#include "train/optimizers/term.h"

namespace mirrorflow {
namespace {

Term RootMeanSquare(const Term& x) { return Sqrt(MeanOf(Square(x))); }

// Returns the mean along one dimension, and keeps that dimension with size 1.
Term MeanAlong(const Term& x, int64_t dim) {
  return x.With(ops::Mean(x.scope(), x, {dim}, {.keep_dims = true}));
}

Shape WithSizeOne(const Shape& shape, int dim) {
  std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
  dims[dim] = 1;
  return Shape(dims);
}

}  // namespace

Adafactor::Adafactor(const Options& o)
    : Optimizer("Adafactor", o.learning_rate,
                {{"beta2_decay", o.beta2_decay, kNotPositive},
                 {"epsilon1", o.epsilon1, kNotNegative},
                 {"epsilon2", o.epsilon2, kNotNegative},
                 {"clip_threshold", o.clip_threshold, kPositive}}),
      options_(o) {}

// Returns, in this order: learning_rate, step, beta2.
Optimizer::Shared Adafactor::Prepare(const Scope& scope, Output learning_rate, Output step) const {
  return {learning_rate, step, 1 - Pow(Term(scope, step), options_.beta2_decay)};
}

void Adafactor::Update(VariableUpdate& u, const Shared& shared) const {
  const Term g = u.ReducedGradient(), variable = u.Read();
  const Term rate = u.term(shared[0]), step = u.term(shared[1]), beta2 = u.term(shared[2]);
  const Term square = Square(g) + options_.epsilon1;
  auto average = [&](const Variable& slot, const Term& value) {
    const Term next = beta2 * u.term(slot.value) + (1 - beta2) * value;
    u.Assign(slot, next);
    return next;
  };
  auto velocity = [&] {
    const int rank = u.shape().rank();
    if (rank < 2) return average(u.Slot("v"), square);
    const Variable r = u.Slot("r", WithSizeOne(u.shape(), rank - 1));
    const Variable c = u.Slot("c", WithSizeOne(u.shape(), rank - 2));
    const Term rows = average(r, MeanAlong(square, rank - 1));
    const Term columns = average(c, MeanAlong(square, rank - 2));
    return rows / MeanAlong(rows, rank - 2) * columns;
  };
  const Term direction = g / Sqrt(velocity());
  const Term excess = RootMeanSquare(direction) / options_.clip_threshold;
  const Term rho = Min(rate, 1 / Sqrt(step));
  const Term size = RootMeanSquare(variable);
  const Term alpha = Max(size, size.Number(options_.epsilon2)) * rho;
  u.Subtract(alpha * direction / Max(excess, excess.Number(1)));
}

}  // namespace mirrorflow
