// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic on graph values, so that an update rule reads like its formula:
//
//   const Term v = beta2 * slot + (1 - beta2) * Square(gradient);
//
// Each operator adds one node, in the scope of its first term. (The operators on Output in
// ops/operators.h add nodes outside any scope.) Numbers take the other operand's dtype.
#ifndef MIRRORFLOW_TRAIN_OPTIMIZERS_TERM_H_
#define MIRRORFLOW_TRAIN_OPTIMIZERS_TERM_H_

#include "framework/graph/scope.h"

namespace mirrorflow {

class Term {
 public:
  // New nodes are added to `scope`.
  Term(const Scope& scope, Output output) : scope_(scope), output_(output) {}

  const Scope& scope() const { return scope_; }
  const Output& output() const { return output_; }
  operator Output() const { return output_; }  // NOLINT: operand of an op

  // Returns `value` as a constant of this term's dtype.
  Term Number(double value) const;
  Term With(Output output) const { return Term(scope_, output); }

 private:
  Scope scope_;
  Output output_;
};

// These functions work element-wise, with broadcasting.
Term operator+(const Term& x, const Term& y);
Term operator-(const Term& x, const Term& y);
Term operator*(const Term& x, const Term& y);
Term operator/(const Term& x, const Term& y);
Term operator+(const Term& x, double y);
Term operator-(const Term& x, double y);
Term operator*(const Term& x, double y);
Term operator/(const Term& x, double y);
Term operator+(double x, const Term& y);
Term operator-(double x, const Term& y);
Term operator*(double x, const Term& y);
Term operator/(double x, const Term& y);
Term operator-(const Term& x);

Term Abs(const Term& x);
Term Sign(const Term& x);
Term Sqrt(const Term& x);
Term Square(const Term& x);
Term Max(const Term& x, const Term& y);
Term Min(const Term& x, const Term& y);
Term Pow(const Term& x, double y);
Term Pow(double x, const Term& y);

// These functions reduce over all elements, to a scalar.
Term SumOf(const Term& x);
Term MeanOf(const Term& x);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_OPTIMIZERS_TERM_H_
