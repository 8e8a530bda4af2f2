// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_PASSES_MATCH_ACTIVATION_H_
#define MIRRORFLOW_OPS_PASSES_MATCH_ACTIVATION_H_

#include <optional>
#include <string>

#include "framework/compiler/compilation.h"

namespace mirrorflow {

struct AppliedActivation {
  std::string activation;  // one of those of ops::Epilogue
  Output x;                // the value that it is applied to
};

// Returns the activation that `node` computes, either as a single op or as the last node of a
// formula such as x * Sigmoid(x). Returns nullopt if it computes none, or if `x` or an intermediate
// value has other uses.
std::optional<AppliedActivation> MatchActivation(const Compilation& c, const Node& node);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_PASSES_MATCH_ACTIVATION_H_
