// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/sharding.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "framework/core/status.h"

namespace mirrorflow {

absl::string_view ReductionName(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return "sum";
    case Reduction::kMean:
      return "mean";
    case Reduction::kMax:
      return "max";
    case Reduction::kMin:
      return "min";
    case Reduction::kAll:
      return "all";
    case Reduction::kAny:
      return "any";
  }
  return "unknown";
}

absl::StatusOr<Reduction> ParseReduction(absl::string_view name) {
  for (Reduction reduction : {Reduction::kSum, Reduction::kMean, Reduction::kMax, Reduction::kMin,
                              Reduction::kAll, Reduction::kAny}) {
    if (ReductionName(reduction) == name) return reduction;
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown reduction '", name, "'"));
}

std::string ShardingToString(const Sharding& sharding) {
  if (const Sharded* s = AsSharded(sharding)) {
    return absl::StrCat("sharded(a", s->axis, ", dim ", s->dim, ", x", s->factor, ")");
  }
  if (const Partial* p = AsPartial(sharding)) {
    return absl::StrCat("partial(", ReductionName(p->reduction), ")");
  }
  return IsReplicated(sharding) ? "replicated" : "per-replica";
}

absl::StatusOr<ShardingTerms> ParseShardingTerms(absl::string_view dims,
                                                 absl::Span<const Shape> inputs,
                                                 absl::Span<const Shape> outputs) {
  auto fail = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("sharding rule '", dims, "': ", what));
  };
  auto parse_side = [&](absl::string_view side, absl::Span<const Shape> shapes,
                        std::vector<std::string>* terms) -> absl::Status {
    if (!shapes.empty()) *terms = absl::StrSplit(side, ',');
    if (terms->size() != shapes.size()) {
      return fail(absl::StrCat("expected ", shapes.size(), " terms, got '", side, "'"));
    }
    for (size_t i = 0; i < shapes.size(); ++i) {
      const std::string& term = (*terms)[i];
      if (term != "*" && static_cast<int>(term.size()) != shapes[i].rank()) {
        return fail(absl::StrCat("term '", term, "' does not fit shape ", shapes[i].ToString()));
      }
    }
    return absl::OkStatus();
  };
  const std::vector<absl::string_view> sides = absl::StrSplit(dims, "->");
  if (sides.size() != 2) return fail("expected one '->'");
  ShardingTerms terms;
  MF_RETURN_IF_ERROR(parse_side(sides[0], inputs, &terms.inputs));
  MF_RETURN_IF_ERROR(parse_side(sides[1], outputs, &terms.outputs));
  return terms;
}

}  // namespace mirrorflow
