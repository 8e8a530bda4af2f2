// SPDX-License-Identifier: Apache-2.0
#include "ops/sharding_rules.h"

#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "framework/core/status.h"

namespace mirrorflow {

std::string LettersFor(const Shape& shape) {
  std::string letters;
  for (int i = 0; i < shape.rank(); ++i) letters += static_cast<char>('a' + i);
  return letters;
}

std::string DotsFor(const Shape& shape) { return std::string(shape.rank(), '.'); }

std::string AlignedTerm(const Shape& operand, const Shape& result) {
  const int offset = result.rank() - operand.rank();
  std::string term = LettersFor(result).substr(offset);
  for (int d = 0; d < operand.rank(); ++d) {
    if (operand.dim(d) != result.dim(offset + d)) term[d] = '.';
  }
  return term;
}

absl::StatusOr<ShardingRule> ElementwiseSharding(const ShardContext& c) {
  const Shape& out = c.output(0);
  std::vector<std::string> terms;
  for (int i = 0; i < c.num_inputs(); ++i) terms.push_back(AlignedTerm(c.input(i), out));
  return ShardingRule{.dims = absl::StrCat(absl::StrJoin(terms, ","), "->", LettersFor(out))};
}

absl::StatusOr<ShardingRule> JointlyLinearSharding(const ShardContext& c) {
  MF_ASSIGN_OR_RETURN(ShardingRule rule, ElementwiseSharding(c));
  if (c.node().output_dtype(0) != DT_BOOL) rule.linearity = Linearity::kJoint;
  return rule;
}

absl::StatusOr<ShardingRule> MultilinearSharding(const ShardContext& c) {
  MF_ASSIGN_OR_RETURN(ShardingRule rule, ElementwiseSharding(c));
  rule.linearity = Linearity::kMulti;
  return rule;
}

absl::StatusOr<ShardingRule> LinearInFirstSharding(const ShardContext& c) {
  MF_ASSIGN_OR_RETURN(ShardingRule rule, ElementwiseSharding(c));
  rule.linearity = Linearity::kMulti;
  rule.linear_inputs = {0};
  return rule;
}

absl::StatusOr<ShardingRule> ReplicatedSharding(const ShardContext& c) {
  const std::vector<absl::string_view> in(c.num_inputs(), "*");
  std::vector<std::string> out;
  for (int i = 0; i < c.num_outputs(); ++i) out.push_back(DotsFor(c.output(i)));
  return ShardingRule{.dims = absl::StrCat(absl::StrJoin(in, ","), "->", absl::StrJoin(out, ","))};
}

ShardingRule MoveSharding(const ShardContext& c, std::string dims, std::vector<int> inputs) {
  ShardingRule rule{.dims = std::move(dims)};
  if (c.node().input(inputs[0]).dtype() == DT_BOOL) return rule;
  rule.linearity = Linearity::kJoint;
  rule.linear_inputs = std::move(inputs);
  return rule;
}

}  // namespace mirrorflow
