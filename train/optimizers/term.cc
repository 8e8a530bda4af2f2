// SPDX-License-Identifier: Apache-2.0
#include "train/optimizers/term.h"

#include "ops/binary.h"
#include "ops/constant.h"
#include "ops/reduction.h"
#include "ops/unary.h"

namespace mirrorflow {
Term Term::Number(double value) const {
  // After an error, there is no dtype, and no node is added.
  if (!output_.valid()) return *this;
  return With(ops::ScalarConst(scope_, output_.dtype(), value));
}

Term operator+(const Term& x, const Term& y) { return x.With(ops::AddV2(x.scope(), x, y)); }
Term operator-(const Term& x, const Term& y) { return x.With(ops::Sub(x.scope(), x, y)); }
Term operator*(const Term& x, const Term& y) { return x.With(ops::Mul(x.scope(), x, y)); }
Term operator/(const Term& x, const Term& y) { return x.With(ops::RealDiv(x.scope(), x, y)); }
Term operator+(const Term& x, double y) { return x + x.Number(y); }
Term operator-(const Term& x, double y) { return x - x.Number(y); }
Term operator*(const Term& x, double y) { return x * x.Number(y); }
Term operator/(const Term& x, double y) { return x / x.Number(y); }
Term operator+(double x, const Term& y) { return y.Number(x) + y; }
Term operator-(double x, const Term& y) { return y.Number(x) - y; }
Term operator*(double x, const Term& y) { return y.Number(x) * y; }
Term operator/(double x, const Term& y) { return y.Number(x) / y; }
Term operator-(const Term& x) { return x.With(ops::Neg(x.scope(), x)); }

Term Abs(const Term& x) { return x.With(ops::Abs(x.scope(), x)); }
Term Sign(const Term& x) { return x.With(ops::Sign(x.scope(), x)); }
Term Sqrt(const Term& x) { return x.With(ops::Sqrt(x.scope(), x)); }
Term Square(const Term& x) { return x.With(ops::Square(x.scope(), x)); }
Term Max(const Term& x, const Term& y) { return x.With(ops::Maximum(x.scope(), x, y)); }
Term Min(const Term& x, const Term& y) { return x.With(ops::Minimum(x.scope(), x, y)); }
Term Pow(const Term& x, double y) { return x.With(ops::Pow(x.scope(), x, x.Number(y))); }
Term Pow(double x, const Term& y) { return y.With(ops::Pow(y.scope(), y.Number(x), y)); }

Term SumOf(const Term& x) { return x.With(ops::Sum(x.scope(), x)); }
Term MeanOf(const Term& x) { return x.With(ops::Mean(x.scope(), x)); }

}  // namespace mirrorflow
