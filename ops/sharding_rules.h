// SPDX-License-Identifier: Apache-2.0
//
// Sharding rules shared by many ops.
#ifndef MIRRORFLOW_OPS_SHARDING_RULES_H_
#define MIRRORFLOW_OPS_SHARDING_RULES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/graph/shape_inference.h"
#include "framework/graph/sharding.h"

namespace mirrorflow {

// The rule for an element-wise op with broadcasting: dimension i from the right has the same letter
// in every operand; a broadcast dimension of size 1 must not be sharded. Not linear.
absl::StatusOr<ShardingRule> ElementwiseSharding(const ShardContext& c);
// ElementwiseSharding, but linear in all inputs jointly (Add, Sub, Neg). Not linear for bool.
absl::StatusOr<ShardingRule> JointlyLinearSharding(const ShardContext& c);
// ElementwiseSharding, but linear in each input separately (Mul).
absl::StatusOr<ShardingRule> MultilinearSharding(const ShardContext& c);
// ElementwiseSharding, but linear in input 0 while all other inputs are replicated (as for the
// numerator of a quotient).
absl::StatusOr<ShardingRule> LinearInFirstSharding(const ShardContext& c);

// The rule for an op that every replica computes as a whole: all operands must be replicated.
absl::StatusOr<ShardingRule> ReplicatedSharding(const ShardContext& c);

// Returns the rule with terms `dims` for an op that only moves elements of `inputs`. It is jointly
// linear in those inputs, unless they are bool, which cannot be summed.
ShardingRule MoveSharding(const ShardContext& c, std::string dims, std::vector<int> inputs);

// Returns one letter per dimension, such as `abcd`; at most kMaxRank of them.
std::string LettersFor(const Shape& shape);
// Returns one dot per dimension, such as `....`.
std::string DotsFor(const Shape& shape);
// Returns the term of an operand whose last dimension is aligned with that of the result, which has
// one letter per dimension: a dimension in which they differ must not be sharded.
std::string AlignedTerm(const Shape& operand, const Shape& result);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_SHARDING_RULES_H_
