// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/sharding.h"

#include <algorithm>
#include <iterator>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/core/status.h"

namespace mirrorflow {

namespace {

// By Reduction.
constexpr absl::string_view kReductionNames[] = {"sum", "mean", "max", "min", "all", "any"};
static_assert(std::size(kReductionNames) == static_cast<size_t>(Reduction::kAny) + 1);

}  // namespace

absl::string_view ReductionName(Reduction reduction) {
  const auto index = static_cast<size_t>(reduction);
  return index < std::size(kReductionNames) ? kReductionNames[index] : "unknown";
}

absl::StatusOr<Reduction> ParseReduction(absl::string_view name) {
  const auto* const found = absl::c_find(kReductionNames, name);
  if (found != std::end(kReductionNames)) {
    return static_cast<Reduction>(found - std::begin(kReductionNames));
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
                        ShardingTerms::Terms* terms) -> absl::Status {
    absl::string_view rest = side;
    const size_t commas = std::count(side.begin(), side.end(), ',');
    const size_t count = side.empty() && shapes.empty() ? 0 : commas + 1;
    if (count != shapes.size()) {
      return fail(absl::StrCat("expected ", shapes.size(), " terms, got '", side, "'"));
    }
    for (const Shape& shape : shapes) {
      const absl::string_view term = rest.substr(0, rest.find(','));
      if (term != "*" && term != "~" && static_cast<int>(term.size()) != shape.rank()) {
        return fail(absl::StrCat("term '", term, "' does not fit shape ", shape.ToString()));
      }
      terms->push_back(term);
      rest.remove_prefix(std::min(rest.size(), term.size() + 1));
    }
    return absl::OkStatus();
  };
  const size_t arrow = dims.find("->");
  if (arrow == absl::string_view::npos || dims.find("->", arrow + 2) != absl::string_view::npos) {
    return fail("expected one '->'");
  }
  ShardingTerms terms;
  MF_RETURN_IF_ERROR(parse_side(dims.substr(0, arrow), inputs, &terms.inputs));
  MF_RETURN_IF_ERROR(parse_side(dims.substr(arrow + 2), outputs, &terms.outputs));
  return terms;
}

}  // namespace mirrorflow
