// SPDX-License-Identifier: Apache-2.0
//
// Sharding: how a value of the global program lies on the replicas, and the rule by which an op
// turns the shardings of its inputs into those of its outputs. The model is that of GSPMD and
// DTensor, restricted to what data parallelism needs.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_SHARDING_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_SHARDING_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/core/shape.h"

namespace mirrorflow {

// Names the split that rows come from: feeds with as many rows share one.
using AxisId = int;
inline constexpr int kMaxAxes = 4;

enum class Reduction { kSum, kMean, kMax, kMin, kAll, kAny };
absl::string_view ReductionName(Reduction reduction);
absl::StatusOr<Reduction> ParseReduction(absl::string_view name);

// Every replica holds the same value.
struct Replicated {
  friend bool operator==(const Replicated&, const Replicated&) { return true; }
};

// Each replica holds some rows of dimension `dim`: `factor` of them per row of `axis`.
struct Sharded {
  AxisId axis;
  int dim;
  int64_t factor;
  friend bool operator==(const Sharded& a, const Sharded& b) {
    return a.axis == b.axis && a.dim == b.dim && a.factor == b.factor;
  }
};

// The replicas' values must still be combined.
struct Partial {
  Reduction reduction;
  AxisId axis = 0;  // of a mean: each replica's value counts by its rows of this one
  friend bool operator==(const Partial& a, const Partial& b) {
    return a.reduction == b.reduction && (a.reduction != Reduction::kMean || a.axis == b.axis);
  }
};

// Values that differ and mean nothing together.
struct PerReplica {
  friend bool operator==(const PerReplica&, const PerReplica&) { return true; }
};

using Sharding = std::variant<Replicated, Sharded, Partial, PerReplica>;
// Those of a node's inputs or outputs.
using Shardings = absl::InlinedVector<Sharding, 2>;

inline bool IsReplicated(const Sharding& s) { return std::holds_alternative<Replicated>(s); }
inline bool IsPerReplica(const Sharding& s) { return std::holds_alternative<PerReplica>(s); }
inline const Sharded* AsSharded(const Sharding& s) { return std::get_if<Sharded>(&s); }
inline const Partial* AsPartial(const Sharding& s) { return std::get_if<Partial>(&s); }
// `replicated`, `sharded(a0, dim 0, x1)`, `partial(sum)`, `per-replica`.
std::string ShardingToString(const Sharding& sharding);

// How partial sums pass through an op.
enum class Linearity {
  kNone,   // they do not: a partial input is reduced first
  kJoint,  // f(a + a', b + b') = f(a, b) + f(a', b'): if all linear inputs are partial (Add, Sum)
  kMulti,  // linear in each input alone: if exactly one linear input is partial (Mul, MatMul)
};

struct ShardingRule {
  // One term an input, `->`, one term an output, as in einsum: "mk,kn->mn". A letter names a
  // dimension that may be sharded; `.` one that must be whole; `*` an operand of any rank that must
  // be replicated; `~` one of any rank that differs between replicas as soon as a letter is
  // sharded, which only an input with this term accepts. A letter in inputs only is contracted: the
  // outputs come out partial. A letter in an input and an output of other sizes keeps the sharding
  // with the factor scaled, where that is a whole number (reshapes). A letter in outputs only makes
  // rows from nothing (Fill, random ops): the op computes the rows that its users need.
  std::string dims;
  Linearity linearity = Linearity::kNone;
  // The inputs that linearity speaks of; all the others must be replicated. Empty: all inputs.
  std::vector<int> linear_inputs = {};
  // What a contracted letter leaves to be done.
  Reduction contracted = Reduction::kSum;
  // Where a letter would be contracted, replace the op by its decomposition (OpDef::expand).
  bool expand = false;
};

// Parsed `dims`: terms[i] is the term of input i, then of the outputs.
struct ShardingTerms {
  using Terms = absl::InlinedVector<absl::string_view, 4>;  // of the text that was parsed
  Terms inputs;
  Terms outputs;
};
// Splits `dims`, which must have as many terms as the node has inputs and outputs and, but for `*`
// and `~`, as many letters a term as the value has dimensions; InvalidArgument otherwise.
absl::StatusOr<ShardingTerms> ParseShardingTerms(absl::string_view dims,
                                                 absl::Span<const Shape> inputs,
                                                 absl::Span<const Shape> outputs);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_SHARDING_H_
