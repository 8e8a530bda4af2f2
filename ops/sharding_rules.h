// SPDX-License-Identifier: Apache-2.0
//
// Sharding rules that many ops share.
#ifndef MIRRORFLOW_OPS_SHARDING_RULES_H_
#define MIRRORFLOW_OPS_SHARDING_RULES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/graph/shape_inference.h"
#include "framework/graph/sharding.h"

namespace mirrorflow {

// Element-wise with broadcasting: dimension i from the right of every operand has one letter; a
// size-1 dimension that is broadcast must be whole. No linearity.
absl::StatusOr<ShardingRule> ElementwiseSharding(const ShardContext& c);
// The same, and f(a + a', …) = f(a, …) + f(a', …) in all inputs together (Add, Sub, Neg). Nothing
// is linear in bool.
absl::StatusOr<ShardingRule> JointlyLinearSharding(const ShardContext& c);
// The same, linear in each input alone (Mul).
absl::StatusOr<ShardingRule> MultilinearSharding(const ShardContext& c);
// Linear in input 0, the others replicated (the numerator of a quotient).
absl::StatusOr<ShardingRule> LinearInFirstSharding(const ShardContext& c);

// The rule with the terms `dims` for an op that moves the elements of `inputs` and makes none of
// them anew: jointly linear in those inputs, unless they are bool, which has no sums.
ShardingRule MoveSharding(const ShardContext& c, std::string dims, std::vector<int> inputs);

// Each dimension a letter of its own, `abcd`; at most kMaxRank.
std::string LettersFor(const Shape& shape);
// `....`
std::string DotsFor(const Shape& shape);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_SHARDING_RULES_H_
