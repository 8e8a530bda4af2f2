// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/fuse_layer_norm.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "framework/core/status.h"
#include "ops/binary.h"
#include "ops/constant.h"
#include "ops/layer_norm.h"
#include "ops/passes/match.h"
#include "ops/reduction.h"
#include "ops/reshape.h"
#include "ops/unary.h"

namespace mirrorflow {
namespace {

// One term of a sum: a signed product.
struct Term {
  bool negative = false;
  absl::InlinedVector<Output, 3> factors;
};

// The formulas have at most this many terms and factors, and are at most this deep.
constexpr size_t kMaxTerms = 3, kMaxFactors = 3;
constexpr int kMaxSums = 2, kMaxProducts = 3;

// Appends the factors of `value`, which is `depth` products below the whole product.
void FindFactors(const Output& value, int depth, Term* term) {
  if (depth < kMaxProducts && IsFree(value, ops::kNeg)) {
    term->negative = !term->negative;
    FindFactors(value.node->input(0), depth + 1, term);
  } else if (depth < kMaxProducts && IsFree(value, ops::kMul)) {
    for (const Output& factor : value.node->inputs()) FindFactors(factor, depth + 1, term);
  } else {
    term->factors.push_back(value);
  }
}

// Appends the terms of `value`, which is `depth` sums below the whole sum.
void FindTerms(const Output& value, bool negative, int depth, std::vector<Term>* terms) {
  const bool subtracts = IsFree(value, ops::kSub);
  if (depth < kMaxSums && (subtracts || IsFreeSum(value))) {
    FindTerms(value.node->input(0), negative, depth + 1, terms);
    FindTerms(value.node->input(1), negative != subtracts, depth + 1, terms);
    return;
  }
  Term term = {.negative = negative};
  FindFactors(value, 0, &term);
  terms->push_back(std::move(term));
}

struct LayerNorm {
  Output x, mean, gamma, beta;
  float epsilon;
};

class Finder {
 public:
  explicit Finder(const Compilation& c) : c_(c) {}

  // Returns the layer normalisation that `y` computes, in one of two forms:
  //   x * (inverse * gamma) + (beta - mean * (inverse * gamma))
  //   (x - mean) * inverse * gamma + beta
  std::optional<LayerNorm> Find(const Output& y) const {
    // The root may have control inputs, because its replacement takes them over.
    if (y.node->op().name != ops::kAddV2 && y.node->op().name != ops::kAdd) return std::nullopt;
    std::vector<Term> terms;
    for (const Output& term : y.node->inputs()) FindTerms(term, false, 1, &terms);
    if (terms.size() < 2 || terms.size() > kMaxTerms) return std::nullopt;
    // Sorts the terms by sign and size: the product with x or x - mean is first, beta second.
    std::stable_sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) {
      return a.negative != b.negative ? b.negative : a.factors.size() > b.factors.size();
    });
    const Term &scaled = terms[0], &shift = terms[1];
    if (scaled.negative || shift.negative || scaled.factors.size() != kMaxFactors ||
        shift.factors.size() != 1) {
      return std::nullopt;
    }
    for (const Output& inverse : scaled.factors) {
      std::optional<LayerNorm> norm = FindStatistics(inverse);
      if (!norm.has_value()) continue;
      norm->beta = shift.factors[0];
      for (const Output& gamma : scaled.factors) {
        norm->gamma = gamma;
        const bool is_norm =
            terms.size() == 2 ? IsProduct(scaled, {Difference(scaled, *norm), inverse, gamma})
                              : terms[2].negative && IsProduct(scaled, {norm->x, inverse, gamma}) &&
                                    IsProduct(terms[2], {norm->mean, inverse, gamma});
        if (is_norm && Fits(*norm, y)) return norm;
      }
    }
    return std::nullopt;
  }

 private:
  const Shape& shape(const Output& output) const { return c_.values().shape(output); }

  // Returns whether the term is the product of these factors, in any order.
  static bool IsProduct(const Term& term, const std::vector<Output>& factors) {
    return std::is_permutation(term.factors.begin(), term.factors.end(), factors.begin(),
                               factors.end());
  }

  // Returns the factor x - mean, or an invalid output if there is none.
  static Output Difference(const Term& term, const LayerNorm& norm) {
    for (const Output& factor : term.factors) {
      if (IsFree(factor, ops::kSub) && factor.node->input(0) == norm.x &&
          factor.node->input(1) == norm.mean) {
        return factor;
      }
    }
    return Output();
  }

  // Returns x, its mean and epsilon if `inverse` is 1 / √(variance + epsilon) and only this
  // normalisation uses it.
  std::optional<LayerNorm> FindStatistics(const Output& inverse) const {
    if (!IsFree(inverse, ops::kRsqrt) || !c_.IsUsedOnce(inverse)) return std::nullopt;
    const Output sum = inverse.node->input(0);
    if (!IsFreeSum(sum) || !c_.IsUsedOnce(sum)) return std::nullopt;
    for (const int i : {0, 1}) {
      const Output variance = sum.node->input(i);
      const std::optional<float> epsilon = ConstantOf(c_, sum.node->input(1 - i));
      if (!IsMeanOfRows(variance) || !c_.IsUsedOnce(variance) || !epsilon.has_value()) continue;
      const Output squares = variance.node->input(0);
      if (!c_.IsUsedOnce(squares)) continue;
      // Both forms of the variance have x and the mean as operands.
      const Output difference = IsFree(squares, ops::kSquare) ? squares.node->input(0) : squares;
      if (!IsFree(difference, difference == squares ? ops::kSquaredDifference : ops::kSub)) {
        continue;
      }
      const Output x = difference.node->input(0), mean = difference.node->input(1);
      if (IsMeanOfRows(mean) && mean.node->input(0) == x) {
        return LayerNorm{.x = x, .mean = mean, .epsilon = *epsilon};
      }
    }
    return std::nullopt;
  }

  // Returns whether the value is the mean over the last dimension, which is kept.
  bool IsMeanOfRows(const Output& value) const {
    if (!IsFree(value, ops::kMean) || !value.node->attr<bool>("keep_dims")) return false;
    const Output& dimensions = value.node->input(1);
    const absl::StatusOr<std::vector<int64_t>> axes =
        IntegersOf(c_.values().at(dimensions).constant);
    const int64_t last = shape(value).rank() - 1;
    return dimensions.node->control_inputs().empty() && axes.ok() && axes->size() == 1 &&
           ((*axes)[0] == -1 || (*axes)[0] == last);
  }

  // Returns whether gamma and beta have one element per column and y has the shape of x.
  bool Fits(const LayerNorm& norm, const Output& y) const {
    const Shape& x = shape(norm.x);
    if (shape(y) != x || x.dim(x.rank() - 1) == 0) return false;
    for (const Output& value : {norm.gamma, norm.beta}) {
      const Shape& columns = shape(value);
      if (columns.rank() == 0 || columns.dim(columns.rank() - 1) != x.dim(x.rank() - 1) ||
          columns.num_elements() != x.dim(x.rank() - 1)) {
        return false;
      }
    }
    return true;
  }

  const Compilation& c_;
};

// Reshapes gamma or beta to a vector.
Output AsVector(Compilation& c, const Output& value) {
  const Shape& shape = c.values().shape(value);
  if (shape.rank() == 1) return value;
  return ops::Reshape(c.scope(), value, ops::VectorConst(c.scope(), {shape.num_elements()}));
}

}  // namespace

absl::StatusOr<bool> FuseLayerNorm::Run(Compilation& c) {
  bool changed = false;
  const Finder finder(c);
  for (Node* node : c.graph.Nodes()) {
    if (node->num_outputs() != 1 || node->output(0).dtype() != DT_FLOAT) continue;
    const std::optional<LayerNorm> norm = finder.Find(node->output(0));
    if (!norm.has_value()) continue;
    const Output fused =
        ops::LayerNorm(c.scope().WithName(node->name()), norm->x, AsVector(c, norm->gamma),
                       AsVector(c, norm->beta), {.epsilon = norm->epsilon})
            .y;
    MF_RETURN_IF_ERROR(c.graph.status());
    c.ReplaceNode(node, fused);
    changed = true;
  }
  return changed && c.RemoveDeadNodes();
}

}  // namespace mirrorflow
