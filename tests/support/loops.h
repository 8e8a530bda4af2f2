// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TESTS_SUPPORT_LOOPS_H_
#define MIRRORFLOW_TESTS_SUPPORT_LOOPS_H_

#include <vector>

#include "ops/all/ops.h"

namespace mirrorflow {

inline Output Integer(const Scope& scope, int32_t value) {
  return ops::Const(scope, Tensor::Scalar<int32_t>(value));
}

// Builds a loop of `times` iterations. Each iteration applies `next` to its number and the values.
inline std::vector<Output> CountedLoop(const Scope& scope, int times, std::vector<Output> values,
                                       ops::FunctionBuilder next) {
  using Outputs = std::vector<Output>;
  using Args = absl::Span<const Output>;
  values.insert(values.begin(), Integer(scope, 0));
  Outputs results = ops::While(
      scope, values,
      [&](const Scope& s, Args in) { return Outputs{ops::Less(s, in[0], Integer(s, times))}; },
      [&](const Scope& s, Args in) {
        Outputs out = next(s, in);
        out.insert(out.begin(), ops::AddV2(s, in[0], Integer(s, 1)));
        return out;
      });
  results.erase(results.begin());
  return results;
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_LOOPS_H_
