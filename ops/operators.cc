// SPDX-License-Identifier: Apache-2.0
#include "ops/operators.h"

#include "framework/graph/scope.h"
#include "ops/binary.h"
#include "ops/constant.h"
#include "ops/unary.h"

namespace mirrorflow {
namespace {

using Builder = Output (*)(const Scope&, Output, Output);

// An invalid operand means that its graph has already recorded an error.
Output Apply(Builder build, const Output& x, const Output& y) {
  if (!x.valid() || !y.valid()) return Output();
  return build(Scope(&x.node->graph()), x, y);
}

Output NumberLike(const Output& like, double value) {
  if (!like.valid()) return Output();
  return ops::ScalarConst(Scope(&like.node->graph()), like.dtype(), value);
}

}  // namespace

Output operator-(const Output& x) {
  return x.valid() ? ops::Neg(Scope(&x.node->graph()), x) : Output();
}

Output operator+(const Output& x, const Output& y) { return Apply(ops::AddV2, x, y); }
Output operator-(const Output& x, const Output& y) { return Apply(ops::Sub, x, y); }
Output operator*(const Output& x, const Output& y) { return Apply(ops::Mul, x, y); }
Output operator/(const Output& x, const Output& y) { return Apply(ops::Div, x, y); }

Output operator+(const Output& x, double y) { return x + NumberLike(x, y); }
Output operator-(const Output& x, double y) { return x - NumberLike(x, y); }
Output operator*(const Output& x, double y) { return x * NumberLike(x, y); }
Output operator/(const Output& x, double y) { return x / NumberLike(x, y); }
Output operator+(double x, const Output& y) { return NumberLike(y, x) + y; }
Output operator-(double x, const Output& y) { return NumberLike(y, x) - y; }
Output operator*(double x, const Output& y) { return NumberLike(y, x) * y; }
Output operator/(double x, const Output& y) { return NumberLike(y, x) / y; }

}  // namespace mirrorflow
