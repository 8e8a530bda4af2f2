// SPDX-License-Identifier: Apache-2.0
#include "ops/einsum.h"

#include <algorithm>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "framework/core/status.h"
#include "ops/reduction.h"
#include "ops/registry.h"
#include "ops/shape_values.h"
#include "ops/unary.h"

namespace mirrorflow {
namespace {

constexpr char kEllipsis[] = "...";
constexpr size_t kEllipsisSize = sizeof(kEllipsis) - 1;
constexpr int kMaxOperands = 2;

// Splits the equation into its terms, as written, with the result's term last.
absl::StatusOr<std::vector<std::string>> Split(absl::string_view equation, int operands) {
  const std::vector<std::string> sides = absl::StrSplit(equation, "->");
  if (sides.size() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("equation must have one '->', got '", equation, "'"));
  }
  std::vector<std::string> terms = absl::StrSplit(sides[0], ',');
  if (static_cast<int>(terms.size()) != operands || operands > kMaxOperands) {
    return absl::InvalidArgumentError(
        absl::StrCat("equation must have a term for each operand (1 or 2); got '", equation,
                     "' and ", operands, " operands"));
  }
  terms.push_back(sides[1]);
  return terms;
}

bool HasEllipsis(absl::string_view term) { return absl::StrContains(term, kEllipsis); }

// Returns the labels of a term, except its ellipsis.
std::string Letters(absl::string_view term) {
  std::string letters(term);
  const size_t at = letters.find(kEllipsis);
  if (at != std::string::npos) letters.erase(at, kEllipsisSize);
  return letters;
}

// Returns the term with the ellipsis replaced by labels for `rank` dimensions.
std::string WithDigits(std::string term, int rank) {
  const size_t at = term.find(kEllipsis);
  if (at == std::string::npos) return term;
  std::string digits;
  for (int i = rank - 1; i >= 0; --i) digits += static_cast<char>('0' + i);
  return term.replace(at, kEllipsisSize, digits);
}

absl::Status EinsumShape(ShapeContext& c) {
  const auto& equation = c.attr<std::string>("equation");
  MF_ASSIGN_OR_RETURN(const std::vector<std::string> written, Split(equation, c.num_inputs()));
  std::vector<int> ranks;
  for (int i = 0; i < c.num_inputs(); ++i) {
    const bool known = !c.input(i).unknown_rank();
    if (!known && HasEllipsis(written[i])) return absl::OkStatus();
    ranks.push_back(known ? c.input(i).rank() : static_cast<int>(written[i].size()));
  }
  MF_ASSIGN_OR_RETURN(const EinsumTerms terms, EinsumTermsOf(equation, ranks));
  std::map<char, int64_t> sizes;
  for (int i = 0; i < c.num_inputs(); ++i) {
    for (int d = 0; d < ranks[i]; ++d) {
      const int64_t size = c.input(i).unknown_rank() ? kUnknownDim : c.input(i).dim(d);
      const char label = terms.inputs[i][d];
      const auto [it, is_new] = sizes.emplace(label, size);
      int64_t& merged = it->second;
      const bool broadcasts = absl::ascii_isdigit(label);
      if (is_new || size == merged || (broadcasts && size == 1)) continue;
      if (merged == kUnknownDim || (broadcasts && merged == 1)) {
        merged = size;
      } else if (size != kUnknownDim) {
        return absl::InvalidArgumentError(
            absl::StrCat("dimension ", d, " of operand ", i, " in '", equation,
                         "' must have the same size as all dimensions with its label; expected ",
                         merged, ", got ", size));
      }
    }
  }
  std::vector<int64_t> dims;
  for (const char label : terms.output) dims.push_back(sizes.at(label));
  if (dims.size() > kMaxRank) {
    return absl::InvalidArgumentError(absl::StrCat("the result of '", equation, "' has ",
                                                   dims.size(), " dimensions; at most ", kMaxRank,
                                                   " are supported"));
  }
  return SetOutput(c, Shape(dims));
}

// The rule is the equation with renamed labels. Diagonals and broadcast dimensions must not be
// sharded.
absl::StatusOr<ShardingRule> EinsumSharding(const ShardContext& c) {
  std::vector<int> ranks;
  for (int i = 0; i < c.num_inputs(); ++i) ranks.push_back(c.input(i).rank());
  MF_ASSIGN_OR_RETURN(const EinsumTerms terms,
                      EinsumTermsOf(c.node().attr<std::string>("equation"), ranks));
  std::map<char, char> letters;  // the letter of each label, or '.' if it must not be sharded
  std::map<char, int64_t> sizes;
  auto visit = [&](const std::string& term, const Shape& shape) {
    for (size_t d = 0; d < term.size(); ++d) {
      const char next = static_cast<char>('a' + letters.size());
      letters.emplace(term[d], next);
      const auto [size, is_new] = sizes.emplace(term[d], shape.dim(static_cast<int>(d)));
      const bool is_diagonal = std::count(term.begin(), term.end(), term[d]) > 1;
      const bool is_broadcast = !is_new && size->second != shape.dim(static_cast<int>(d));
      if (is_diagonal || is_broadcast || next > 'z') letters[term[d]] = '.';
    }
  };
  for (int i = 0; i < c.num_inputs(); ++i) visit(terms.inputs[i], c.input(i));
  visit(terms.output, c.output(0));
  auto rewritten = [&](std::string term) {
    for (char& label : term) label = letters.at(label);
    return term;
  };
  std::string dims = rewritten(terms.inputs[0]);
  for (int i = 1; i < c.num_inputs(); ++i) absl::StrAppend(&dims, ",", rewritten(terms.inputs[i]));
  return ShardingRule{.dims = absl::StrCat(dims, "->", rewritten(terms.output)),
                      .linearity = Linearity::kMulti};
}

// Sums `value` over the dimensions of `...` that `x` was broadcast along. `term` is the term of
// `value` as written; its `...` stands for the same dimensions as in the result.
absl::StatusOr<Output> SumEllipsis(const GradContext& c, absl::string_view term, Output value,
                                   const Output& x) {
  const ShapeTable& values = c.scope.graph().values();
  const size_t at = term.find(kEllipsis);
  if (at == absl::string_view::npos || !value.valid()) return value;
  const Shape &from = values.shape(value), &to = values.shape(x);
  if (from.unknown_rank() || to.unknown_rank()) {
    return absl::UnimplementedError("the gradient of '...' requires operands of known ranks");
  }
  const int missing = from.rank() - to.rank(), first = static_cast<int>(at);
  std::vector<int64_t> gone, ones;
  for (int d = 0; d < from.rank() - static_cast<int>(Letters(term).size()); ++d) {
    if (d < missing) {
      gone.push_back(first + d);
    } else if (to.dim(first + d - missing) == 1 && from.dim(first + d) != 1) {
      ones.push_back(first + d);
    }
  }
  if (!ones.empty()) value = ops::Sum(c.scope, value, ones, {.keep_dims = true});
  if (!gone.empty()) value = ops::Sum(c.scope, value, gone);
  return value;
}

// Returns the gradient of operand `k`, an einsum of the reversed equation with dy in place of the
// operand. The op sums over labels that only this operand has, so the gradient is constant along
// them.
absl::StatusOr<Output> OperandGrad(const GradContext& c, const std::vector<std::string>& terms,
                                   int k) {
  const bool is_sole = c.op.num_inputs() == 1;
  const Output x = c.op.input(k);
  const std::string &dy_term = terms.back(), &x_term = terms[k];
  const std::string others = is_sole ? dy_term : absl::StrCat(dy_term, ",", terms[1 - k]);
  // Keeps the dimensions of `...` that x was broadcast along; SumEllipsis sums over them at the
  // end.
  const bool broadcasts = HasEllipsis(others);
  const std::string wanted =
      broadcasts && !HasEllipsis(x_term) ? absl::StrCat(kEllipsis, x_term) : x_term;
  std::string reached;
  for (const char label : Letters(wanted)) {
    if (absl::StrContains(others, label) && !absl::StrContains(reached, label)) reached += label;
  }
  const bool is_whole =
      Letters(reached).size() == Letters(wanted).size() && broadcasts == HasEllipsis(wanted);
  if (is_whole) {
    reached = wanted;
  } else if (broadcasts) {
    reached += kEllipsis;
  }
  std::vector<Output> inputs = {c.dy[0]};
  if (!is_sole) inputs.push_back(c.op.input(1 - k));
  Output grad = ops::Einsum(c.scope, inputs, absl::StrCat(others, "->", reached));
  if (!is_whole) {
    grad = ops::Einsum(c.scope, {grad, ops::OnesLike(c.scope, x)},
                       absl::StrCat(reached, ",", x_term, "->", wanted));
  }
  return SumEllipsis(c, wanted, grad, x);
}

absl::StatusOr<std::vector<Output>> EinsumGrad(const GradContext& c) {
  MF_ASSIGN_OR_RETURN(const std::vector<std::string> terms,
                      Split(c.op.attr<std::string>("equation"), c.op.num_inputs()));
  std::vector<Output> grads;
  for (int k = 0; k < c.op.num_inputs(); ++k) {
    MF_ASSIGN_OR_RETURN(grads.emplace_back(), OperandGrad(c, terms, k));
  }
  return grads;
}

}  // namespace

absl::StatusOr<EinsumTerms> EinsumTermsOf(absl::string_view equation, absl::Span<const int> ranks) {
  MF_ASSIGN_OR_RETURN(const std::vector<std::string> written,
                      Split(equation, static_cast<int>(ranks.size())));
  for (const std::string& term : written) {
    for (const char label : Letters(term)) {
      if (absl::ascii_isalpha(label)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("labels must be letters, and '...' may occur at most once in a term; got '",
                       equation, "'"));
    }
  }
  EinsumTerms terms;
  int widest = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const int rest = ranks[i] - static_cast<int>(Letters(written[i]).size());
    if (rest < 0 || (rest > 0 && !HasEllipsis(written[i]))) {
      return absl::InvalidArgumentError(absl::StrCat("operand ", i, " has ", ranks[i],
                                                     " dimensions, but its term in '", equation,
                                                     "' does not match"));
    }
    widest = std::max(widest, HasEllipsis(written[i]) ? rest : 0);
    terms.inputs.push_back(WithDigits(written[i], rest));
  }
  terms.output = WithDigits(written.back(), widest);
  if (widest > 0 && !HasEllipsis(written.back())) {
    return absl::InvalidArgumentError(
        absl::StrCat("the result of '", equation,
                     "' must also have '...', because '...' stands for at least one dimension"));
  }
  for (const char label : terms.output) {
    const bool known = std::any_of(terms.inputs.begin(), terms.inputs.end(), [&](const auto& term) {
      return absl::StrContains(term, label);
    });
    if (known) continue;
    return absl::InvalidArgumentError(absl::StrCat("label '", std::string(1, label),
                                                   "' of the result is not in any operand of '",
                                                   equation, "'"));
  }
  return terms;
}

void RegisterEinsum(OpRegistry& ops) {
  ops.Define(ops::kEinsum)
      .Doc("output = the sum of products of the inputs, as described by the equation")
      .Input("inputs: N * T")
      .Output("output: T")
      .Attr("equation: string")
      .Attr("N: int >= 1")
      .Attr("T: {half, bfloat16, float, double, int32, int64}")
      .Shape(EinsumShape)
      .Sharding(EinsumSharding)
      .Gradient(EinsumGrad);
}

namespace ops {

Output Einsum(const Scope& scope, absl::Span<const Output> inputs, absl::string_view equation) {
  return Build(scope, kEinsum).InputList(inputs).Attr("equation", std::string(equation)).One();
}

}  // namespace ops
}  // namespace mirrorflow
