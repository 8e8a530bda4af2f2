// SPDX-License-Identifier: Apache-2.0
//
// C++ operators for arithmetic on outputs, with the dtypes, shapes and gradients of the ops in
// binary.h. A C++ number takes the dtype of the other operand.
//
//   Output loss = 0.5 * ops::Mean(scope, error * error) + penalty;
//
// The operators add nodes to the operands' graph, outside any name scope; to choose a name, call
// the op's builder with a scope instead. As with all builders, the graph records the first error.
// The result is invalid if an operand is.
#ifndef MIRRORFLOW_OPS_OPERATORS_H_
#define MIRRORFLOW_OPS_OPERATORS_H_

#include "framework/graph/graph.h"

namespace mirrorflow {

Output operator-(const Output& x);  // Neg

Output operator+(const Output& x, const Output& y);  // AddV2
Output operator-(const Output& x, const Output& y);  // Sub
Output operator*(const Output& x, const Output& y);  // Mul
Output operator/(const Output& x, const Output& y);  // Div; integers round towards zero

Output operator+(const Output& x, double y);
Output operator-(const Output& x, double y);
Output operator*(const Output& x, double y);
Output operator/(const Output& x, double y);
Output operator+(double x, const Output& y);
Output operator-(double x, const Output& y);
Output operator*(double x, const Output& y);
Output operator/(double x, const Output& y);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_OPERATORS_H_
