// SPDX-License-Identifier: Apache-2.0
//
// Sharding describes how a value of the global program is distributed over the replicas.
// ShardingRule describes how an op's output shardings follow from its input shardings. The model
// follows GSPMD and DTensor, restricted to what data parallelism needs.
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

// Identifies how rows are split over the replicas. Feeds with the same number of rows share an
// axis.
using AxisId = int;
inline constexpr int kMaxAxes = 4;

enum class Reduction { kSum, kMean, kMax, kMin, kAll, kAny };
absl::string_view ReductionName(Reduction reduction);
absl::StatusOr<Reduction> ParseReduction(absl::string_view name);

// Every replica holds the same value.
struct Replicated {
  friend bool operator==(const Replicated&, const Replicated&) = default;
};

// Each replica holds some rows of dimension `dim`: `factor` of them per row of `axis`.
struct Sharded {
  AxisId axis;
  int dim;
  int64_t factor;
  friend bool operator==(const Sharded&, const Sharded&) = default;
};

// The replicas' values must still be reduced to one.
struct Partial {
  Reduction reduction;
  AxisId axis = 0;  // for a mean: a replica's weight is its row count on this axis
  friend bool operator==(const Partial& a, const Partial& b) {
    return a.reduction == b.reduction && (a.reduction != Reduction::kMean || a.axis == b.axis);
  }
};

// The replicas' values differ and have no combined meaning.
struct PerReplica {
  friend bool operator==(const PerReplica&, const PerReplica&) = default;
};

using Sharding = std::variant<Replicated, Sharded, Partial, PerReplica>;
// The shardings of a node's inputs or outputs.
using Shardings = absl::InlinedVector<Sharding, 2>;

inline bool IsReplicated(const Sharding& s) { return std::holds_alternative<Replicated>(s); }
inline bool IsPerReplica(const Sharding& s) { return std::holds_alternative<PerReplica>(s); }
inline const Sharded* AsSharded(const Sharding& s) { return std::get_if<Sharded>(&s); }
inline const Partial* AsPartial(const Sharding& s) { return std::get_if<Partial>(&s); }
// Returns `replicated`, `sharded(a0, dim 0, x1)`, `partial(sum)` or `per-replica`.
std::string ShardingToString(const Sharding& sharding);

// How partial sums pass through an op.
enum class Linearity {
  kNone,   // they do not: a partial input is reduced first
  kJoint,  // f(a + a', b + b') = f(a, b) + f(a', b'); needs all linear inputs partial (Add, Sum)
  kMulti,  // linear in each input alone; needs exactly one partial linear input (Mul, MatMul)
};

struct ShardingRule {
  // One term per input, `->`, one term per output, as in einsum: "mk,kn->mn". A letter names a
  // dimension that may be sharded, `.` a dimension that must not be. `*` is an operand of any rank
  // that must be replicated. `~` is an operand of any rank that differs between replicas if any
  // letter is sharded; only an input with this term accepts such a value.
  //
  // A letter that appears only in inputs is contracted: the outputs are partial. A letter whose
  // sizes differ between an input and an output keeps the sharding with a scaled factor if that
  // factor is an integer (reshapes). A letter that appears only in outputs creates rows (Fill,
  // random ops): the op computes the rows that its users need.
  std::string dims;
  Linearity linearity = Linearity::kNone;
  // The inputs that `linearity` applies to; all other inputs must be replicated. If empty, it
  // applies to all inputs.
  std::vector<int> linear_inputs = {};
  // The reduction that the partial outputs need after a letter is contracted.
  Reduction contracted = Reduction::kSum;
  // If true, the compiler replaces the op with its decomposition (OpDef::expand) if a letter would
  // be contracted.
  bool expand = false;
};

// The parsed `dims`: one term per input and one per output.
struct ShardingTerms {
  using Terms = absl::InlinedVector<absl::string_view, 4>;  // views into the parsed text
  Terms inputs;
  Terms outputs;
};
// Parses `dims`. Returns InvalidArgument unless there is one term for each input and output and,
// except in `*` and `~`, one letter for each dimension of the value.
absl::StatusOr<ShardingTerms> ParseShardingTerms(absl::string_view dims,
                                                 absl::Span<const Shape> inputs,
                                                 absl::Span<const Shape> outputs);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_SHARDING_H_
