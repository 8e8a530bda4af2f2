// SPDX-License-Identifier: Apache-2.0
//
// Sharding candidates: the ways that a node can run on the replicas according to its op's sharding
// rule. Each candidate consists of the shardings that the node requires of its inputs and the
// resulting shardings of its outputs.
#ifndef MIRRORFLOW_DISTRIBUTE_PASSES_SHARDING_CANDIDATES_H_
#define MIRRORFLOW_DISTRIBUTE_PASSES_SHARDING_CANDIDATES_H_

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/compiler/compilation.h"

namespace mirrorflow {

struct ShardingCandidate {
  Shardings inputs;     // required by the node
  Shardings outputs;    // produced by the node
  bool expand = false;  // whether the op must be replaced by its decomposition first
};

// The sharding rule of a node, parsed for its global shapes.
class NodeSharding {
 public:
  // Parses the rule. Returns an error, naming the node, if the op's rule has a bug.
  static absl::StatusOr<std::unique_ptr<NodeSharding>> Create(const Compilation& c,
                                                              const Node& node);

  // Returns the candidate with everything replicated, which is always valid.
  ShardingCandidate Whole() const;
  // Returns the candidate that shards every dimension with letter `letter` along `axis`. Returns
  // nullopt if the size of such a dimension is not a multiple of the axis size, or if no operand
  // has the letter.
  std::optional<ShardingCandidate> ForLetter(char letter, AxisId axis) const;
  // Returns the candidate that passes partial values through, given which inputs are partial (or
  // zero). Returns nullopt if the op is not linear in them.
  std::optional<ShardingCandidate> ForPartial(const std::vector<const Partial*>& partial,
                                              const std::vector<bool>& is_zero) const;

  // Returns the candidate whose inputs, and therefore outputs, are all parts of sums. Returns
  // nullopt if the op is not jointly linear in all inputs.
  std::optional<ShardingCandidate> AllAsParts() const;
  // Returns whether the op applies to each replica's part of a sum separately (LocalPart).
  bool TakesParts() const {
    return node_.op().has(kPerReplica) && rule_.linearity == Linearity::kJoint;
  }

  // Return the letter of dimension `dim` of input or output `i`; `.` if the dimension must be
  // whole.
  char InputLetter(int i, int dim) const;
  char OutputLetter(int i, int dim) const;

 private:
  NodeSharding(const Compilation& c, const Node& node) : c_(c), node_(node) {}

  const Compilation& c_;
  const Node& node_;
  ShardingRule rule_;
  std::optional<ShardingTerms> terms_;  // parsed rule_.dims; unset if the op gathers its inputs
};

// Returns how many bytes a conversion from sharding `have` to `want` moves, as a cost estimate.
int64_t ConversionBytes(const Sharding& have, const Sharding& want, int64_t value_bytes);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_PASSES_SHARDING_CANDIDATES_H_
