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

absl::StatusOr<ShardingRule> ElementwiseSharding(const ShardContext& c) {
  const Shape& out = c.output(0);
  const std::string letters = LettersFor(out);
  std::vector<std::string> terms;
  for (int i = 0; i < c.num_inputs(); ++i) {
    const Shape& in = c.input(i);
    const int offset = out.rank() - in.rank();
    std::string term = letters.substr(offset);
    for (int d = 0; d < in.rank(); ++d) {
      if (in.dim(d) != out.dim(offset + d)) term[d] = '.';
    }
    terms.push_back(term);
  }
  return ShardingRule{.dims = absl::StrCat(absl::StrJoin(terms, ","), "->", letters)};
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

ShardingRule MoveSharding(const ShardContext& c, std::string dims, std::vector<int> inputs) {
  ShardingRule rule{.dims = std::move(dims)};
  if (c.node().input(inputs[0]).dtype() == DT_BOOL) return rule;
  rule.linearity = Linearity::kJoint;
  rule.linear_inputs = std::move(inputs);
  return rule;
}

}  // namespace mirrorflow
