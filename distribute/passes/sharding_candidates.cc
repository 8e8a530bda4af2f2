// SPDX-License-Identifier: Apache-2.0
#include "distribute/passes/sharding_candidates.h"

#include "absl/memory/memory.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

char LetterAt(absl::string_view term, int dim) {
  return term == "*" || term == "~" ? '.' : term[dim];
}

}  // namespace

absl::StatusOr<std::unique_ptr<NodeSharding>> NodeSharding::Create(const Compilation& c,
                                                                   const Node& node) {
  auto sharding = absl::WrapUnique(new NodeSharding(c, node));
  if (node.op().sharding == nullptr) return sharding;
  MF_ASSIGN_OR_RETURN(sharding->rule_, Annotate(node.op().sharding(ShardContext(node, c.values())),
                                                OpAndName(node)));
  absl::InlinedVector<Shape, 4> inputs, outputs;
  for (const Output& in : node.inputs()) inputs.push_back(c.values().shape(in));
  for (int i = 0; i < node.num_outputs(); ++i) outputs.push_back(c.values().shape(node.output(i)));
  MF_ASSIGN_OR_RETURN(
      sharding->terms_,
      Annotate(ParseShardingTerms(sharding->rule_.dims, inputs, outputs), OpAndName(node)));
  return sharding;
}

char NodeSharding::InputLetter(int i, int dim) const {
  return terms_.has_value() ? LetterAt(terms_->inputs[i], dim) : '.';
}

char NodeSharding::OutputLetter(int i, int dim) const {
  return terms_.has_value() ? LetterAt(terms_->outputs[i], dim) : '.';
}

ShardingCandidate NodeSharding::Whole() const {
  ShardingCandidate candidate;
  candidate.inputs.assign(node_.num_inputs(), Replicated());
  candidate.outputs.assign(node_.num_outputs(), Replicated());
  return candidate;
}

std::optional<ShardingCandidate> NodeSharding::ForLetter(char letter, AxisId axis) const {
  if (!terms_.has_value() || letter == '.') return std::nullopt;
  const int64_t rows = c_.axes[axis].size;
  bool found = false;
  // Returns the sharding of one operand: `otherwise` if the operand lacks the letter; nullopt if it
  // has the letter twice, or if the dimension's size is not a multiple of the axis size.
  auto shard = [&](absl::string_view term, const Shape& shape,
                   const Sharding& otherwise) -> std::optional<Sharding> {
    if (term == "*") return otherwise;
    if (term == "~") return PerReplica();
    std::optional<Sharding> result;
    for (int d = 0; d < shape.rank(); ++d) {
      if (term[d] != letter) continue;
      if (result.has_value() || shape.dim(d) % rows != 0) return std::nullopt;
      result = Sharded{axis, d, shape.dim(d) / rows};
      found = true;
    }
    return result.has_value() ? result : otherwise;
  };
  ShardingCandidate candidate;
  for (int i = 0; i < node_.num_inputs(); ++i) {
    std::optional<Sharding> s =
        shard(terms_->inputs[i], c_.values().shape(node_.input(i)), Replicated());
    if (!s.has_value()) return std::nullopt;
    candidate.inputs.push_back(*s);
  }
  const bool contracts = found;
  const Sharding left =
      contracts ? Sharding(Partial{rule_.contracted, axis}) : Sharding(Replicated());
  for (int i = 0; i < node_.num_outputs(); ++i) {
    std::optional<Sharding> s = shard(terms_->outputs[i], c_.values().shape(node_.output(i)), left);
    if (!s.has_value()) return std::nullopt;
    if (AsPartial(*s) && rule_.expand) candidate.expand = true;
    candidate.outputs.push_back(*s);
  }
  if (!found) return std::nullopt;
  return candidate;
}

std::optional<ShardingCandidate> NodeSharding::ForPartial(
    const std::vector<const Partial*>& partial, const std::vector<bool>& is_zero) const {
  std::vector<int> linear = rule_.linear_inputs;
  if (linear.empty()) {
    for (int i = 0; i < node_.num_inputs(); ++i) linear.push_back(i);
  }
  ShardingCandidate candidate = Whole();
  int num_partial = 0;
  bool all_partial = true;
  Partial kind{Reduction::kSum};
  for (int i : linear) {
    if (partial[i] != nullptr) {
      // Partial values with different reductions cannot be combined.
      if (num_partial > 0 && !(*partial[i] == kind)) return std::nullopt;
      ++num_partial;
      kind = *partial[i];
      candidate.inputs[i] = *partial[i];
    } else if (!is_zero[i]) {
      all_partial = false;
    }
  }
  if (num_partial == 0) return std::nullopt;
  // A view passes partial values of any reduction through.
  const bool moves_nothing = node_.op().has(kView) && partial[0] != nullptr;
  if (!moves_nothing && kind.reduction != Reduction::kSum) return std::nullopt;
  const bool joint = rule_.linearity == Linearity::kJoint && all_partial;
  const bool multi = rule_.linearity == Linearity::kMulti && num_partial == 1;
  if (!moves_nothing && !joint && !multi) return std::nullopt;
  candidate.outputs.assign(node_.num_outputs(), kind);
  return candidate;
}

std::optional<ShardingCandidate> NodeSharding::AllAsParts() const {
  if (rule_.linearity != Linearity::kJoint || !rule_.linear_inputs.empty()) return std::nullopt;
  ShardingCandidate candidate;
  candidate.inputs.assign(node_.num_inputs(), Partial{Reduction::kSum});
  candidate.outputs.assign(node_.num_outputs(), Partial{Reduction::kSum});
  return candidate;
}

int64_t ConversionBytes(const Sharding& have, const Sharding& want, int64_t value_bytes) {
  if (have == want || IsReplicated(have)) return 0;
  if (AsPartial(have)) return IsReplicated(want) ? 2 * value_bytes : value_bytes;
  return value_bytes;
}

}  // namespace mirrorflow
