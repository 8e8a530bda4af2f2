// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/fuse_attention.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "framework/core/status.h"
#include "ops/attention.h"
#include "ops/binary.h"
#include "ops/matmul.h"
#include "ops/reduction.h"
#include "ops/softmax.h"

namespace mirrorflow {
namespace {

// A mask value at or below this excludes a pair of query and key.
constexpr double kOut = -1e9;

bool Is(const Node& node, absl::string_view op) { return node.op().name == op; }

bool IsProduct(const Node& node, bool adj_x, bool adj_y) {
  return Is(node, ops::kBatchMatMulV2) && node.attr<bool>("adj_x") == adj_x &&
         node.attr<bool>("adj_y") == adj_y;
}

// Returns the other operand of a binary op, or an invalid output if `value` is not one of its
// operands.
Output Other(const Node& node, const Output& value) {
  if (node.num_inputs() != 2) return Output();
  if (node.input(0) == value) return node.input(1);
  return node.input(1) == value ? node.input(0) : Output();
}

// The nodes that compute an attention, from the scores to the product with the values. Absent nodes
// are null.
struct Attention {
  Node *scores = nullptr, *scaled = nullptr, *masked = nullptr, *weights = nullptr,
       *values = nullptr;
  double scale = 1;
  Output mask;
  bool causal = false;

  Output q() const { return scores->input(0); }
  Output k() const { return scores->input(1); }
  Output v() const { return values->input(1); }
};

// The nodes of an attention's gradient, in backward order.
struct Gradient {
  Node *dweights = nullptr, *product = nullptr, *sum = nullptr, *difference = nullptr,
       *dscores = nullptr, *unscaled = nullptr;
  Node *dq = nullptr, *dk = nullptr, *dv = nullptr;

  Output dy() const { return dweights->input(0); }
};

class Finder {
 public:
  explicit Finder(const Compilation& c) : c_(c) {}

  // Finds the attention whose weights `softmax` computes. `last` multiplies these weights by the
  // values.
  std::optional<Attention> Find(Node* softmax, Node* last) const {
    Attention a;
    a.weights = softmax;
    a.values = last;
    if (!IsInner(*softmax, softmax->uses().size())) return std::nullopt;
    Node* node = softmax->input(0).node;
    if (Is(*node, ops::kAddV2) && IsInner(*node, 1)) {
      const bool first = IsScores(*node->input(0).node);
      a.masked = node;
      a.mask = node->input(first ? 1 : 0);
      node = node->input(first ? 0 : 1).node;
      if (shape(a.masked->output(0)) != shape(node->output(0))) return std::nullopt;
      a.causal = IsCausal(a.mask, shape(a.masked->output(0)));
    }
    if (std::optional<double> scale = Scale(*node)) {
      a.scaled = node;
      a.scale = *scale;
      node = node->input(IsProduct(*node->input(0).node, false, true) ? 0 : 1).node;
    }
    if (!IsProduct(*node, false, true) || !IsInner(*node, 1)) return std::nullopt;
    a.scores = node;
    return Fits(a) ? std::make_optional(a) : std::nullopt;
  }

  // Finds the gradient. Returns nullopt if anything other than the gradient and the product with
  // the values uses the weights.
  std::optional<Gradient> FindGradient(const Attention& a) const {
    Gradient g;
    const Output weights = a.weights->output(0);
    for (const Use& use : a.weights->uses()) {
      Node* const user = use.user;
      if (user == a.values) continue;
      if (IsProduct(*user, true, false) && user->input(0) == weights && Take(user, &g.dv)) continue;
      if (!Is(*user, ops::kMul)) return std::nullopt;
      const Output other = Other(*user, weights);
      if (!other.valid()) return std::nullopt;
      if (!Take(user, Is(*other.node, ops::kSub) ? &g.dscores : &g.product)) return std::nullopt;
    }
    if (g.dv == nullptr || g.dscores == nullptr || g.product == nullptr) return std::nullopt;
    g.dweights = Other(*g.product, weights).node;
    g.difference = Other(*g.dscores, weights).node;
    g.sum = g.difference->input(1).node;
    if (!IsSoftmaxGradient(a, g)) return std::nullopt;
    g.unscaled = g.dscores;
    if (a.scaled != nullptr) {
      g.unscaled = OnlyUser(*g.dscores);
      if (g.unscaled == nullptr || Scale(*g.unscaled) != a.scale) return std::nullopt;
    }
    return FindOperands(a, &g) ? std::make_optional(g) : std::nullopt;
  }

 private:
  const Shape& shape(const Output& output) const { return c_.values().shape(output); }

  // Returns whether the node can be removed together with its `uses` users.
  bool IsInner(const Node& node, size_t uses) const {
    const auto is_its = [&](const Output& value) { return value.node == &node; };
    return node.uses().size() == uses && node.control_inputs().empty() &&
           std::none_of(c_.fetches.begin(), c_.fetches.end(), is_its) &&
           std::none_of(c_.feeds.begin(), c_.feeds.end(), is_its) &&
           std::none_of(node.uses().begin(), node.uses().end(),
                        [](const Use& use) { return use.slot == Use::kControl; });
  }

  static bool Take(Node* node, Node** slot) {
    if (*slot != nullptr) return false;
    *slot = node;
    return true;
  }
  static Node* OnlyUser(const Node& node) {
    return node.uses().size() == 1 ? node.uses()[0].user : nullptr;
  }

  std::optional<double> Number(const Output& output) const {
    const Tensor& value = c_.values().at(output).constant;
    if (!value.has_value() || value.num_elements() != 1 || shape(output).rank() > 0) {
      return std::nullopt;
    }
    if (value.dtype() == DT_FLOAT) return value.flat<float>()[0];
    if (value.dtype() == DT_DOUBLE) return value.flat<double>()[0];
    return std::nullopt;
  }

  // Returns the constant factor that the node multiplies its other operand by, or nullopt if it has
  // no such factor.
  std::optional<double> Scale(const Node& node) const {
    if (!IsFree(node)) return std::nullopt;
    if (Is(node, ops::kMul)) {
      const std::optional<double> second = Number(node.input(1));
      return second.has_value() ? second : Number(node.input(0));
    }
    const bool divides = Is(node, ops::kRealDiv);
    const std::optional<double> divisor = divides ? Number(node.input(1)) : std::nullopt;
    if (!divisor.has_value()) return std::nullopt;
    return 1 / *divisor;
  }
  bool IsFree(const Node& node) const { return IsInner(node, node.uses().size()); }

  bool IsScores(const Node& node) const {
    if (IsProduct(node, false, true)) return true;
    if (!Scale(node).has_value()) return false;
    return std::any_of(node.inputs().begin(), node.inputs().end(),
                       [](const Output& in) { return IsProduct(*in.node, false, true); });
  }

  // Returns whether the mask is 0 up to the diagonal and excludes all pairs beyond it.
  bool IsCausal(const Output& mask, const Shape& scores) const {
    const Tensor& value = c_.values().at(mask).constant;
    if (!value.has_value() || value.dtype() != DT_FLOAT) return false;
    const int64_t n = scores.dim(2), m = scores.dim(3);
    if (value.num_elements() != n * m || shape(mask).rank() < 2 ||
        shape(mask).dim(shape(mask).rank() - 1) != m) {
      return false;
    }
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < m; ++j) {
        const float x = value.flat<float>()[i * m + j];
        if (j <= i ? x != 0 : !(x <= kOut)) return false;
      }
    }
    return true;
  }

  // Returns whether the operands have four dimensions and equal batch and head sizes, enough keys,
  // and a scale that is exact in a float.
  bool Fits(const Attention& a) const {
    for (const Output& operand : {a.k(), a.v()}) {
      if (shape(operand).rank() != 4 || shape(a.q()).rank() != 4) return false;
      for (const int d : {0, 1}) {
        if (shape(operand).dim(d) != shape(a.q()).dim(d)) return false;
      }
    }
    if (shape(a.k()).dim(2) < FuseAttention::kMinKeys) return false;
    if (a.scaled != nullptr && !IsInner(*a.scaled, 1)) return false;
    const float scale = static_cast<float>(a.scale);
    return a.q().dtype() == DT_FLOAT || static_cast<double>(scale) == a.scale;
  }

  // Checks that dscores = (dweights - sum(dweights * weights)) * weights.
  bool IsSoftmaxGradient(const Attention& a, const Gradient& g) const {
    if (!IsProduct(*g.dweights, false, true) || g.dweights->input(1) != a.v()) return false;
    if (g.difference->input(0) != g.dweights->output(0)) return false;
    if (!Is(*g.sum, ops::kSum) || g.sum->input(0) != g.product->output(0)) return false;
    const absl::StatusOr<std::vector<int64_t>> axes =
        IntegersOf(c_.values().at(g.sum->input(1)).constant);
    if (!axes.ok() || axes->size() != 1 || ((*axes)[0] != -1 && (*axes)[0] != 3)) return false;
    if (!g.sum->attr<bool>("keep_dims") || g.dv->input(1) != g.dy()) return false;
    return IsInner(*g.dweights, 2) && IsInner(*g.product, 1) && IsInner(*g.sum, 1) &&
           IsInner(*g.difference, 1) && IsFree(*g.dscores) && g.dv->control_inputs().empty();
  }

  // Finds dq = unscaled · k and dk = unscaledᵀ · q, which must be the only users of the scores'
  // gradient.
  bool FindOperands(const Attention& a, Gradient* g) const {
    if (!IsInner(*g->unscaled, 2)) return false;
    for (const Use& use : g->unscaled->uses()) {
      Node* const user = use.user;
      if (user->input(0) != g->unscaled->output(0) || !user->control_inputs().empty()) return false;
      if (IsProduct(*user, false, false) && user->input(1) == a.k()) g->dq = user;
      if (IsProduct(*user, true, false) && user->input(1) == a.q()) g->dk = user;
    }
    return g->dq != nullptr && g->dk != nullptr;
  }

  const Compilation& c_;
};

absl::Status Fuse(Compilation& c, const Attention& a, const std::optional<Gradient>& g) {
  ops::AttentionOptions options{.scale = static_cast<float>(a.scale), .causal = a.causal};
  if (!a.causal) options.mask = a.mask;
  const Scope scope = c.scope().WithControlInputsOf(*a.values);
  const auto fused = ops::ScaledDotProductAttention(scope.WithName(a.values->name()), a.q(), a.k(),
                                                    a.v(), options);
  MF_RETURN_IF_ERROR(c.graph.status());
  if (g.has_value()) {
    const auto d =
        ops::ScaledDotProductAttentionGrad(c.scope().WithName(g->dweights->name()), g->dy(), a.q(),
                                           a.k(), a.v(), fused.y, fused.log_sum, options);
    MF_RETURN_IF_ERROR(c.graph.status());
    c.ReplaceNode(g->dq, d.dq);
    c.ReplaceNode(g->dk, d.dk);
    c.ReplaceNode(g->dv, d.dv);
  }
  c.ReplaceNode(a.values, fused.y);
  return absl::OkStatus();
}

// Returns the node that multiplies the weights, which `softmax` computes, by the values, or null if
// no such node exists.
Node* FindValues(const Node& softmax) {
  for (const Use& use : softmax.uses()) {
    if (use.slot == 0 && IsProduct(*use.user, false, false)) return use.user;
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<bool> FuseAttention::Run(Compilation& c) {
  bool changed = false;
  for (Node* node : c.graph.Nodes()) {
    if (!Is(*node, ops::kSoftmax)) continue;
    Node* const values = FindValues(*node);
    if (values == nullptr) continue;
    const Finder finder(c);
    const std::optional<Attention> attention = finder.Find(node, values);
    if (!attention.has_value()) continue;
    std::optional<Gradient> gradient;
    if (node->uses().size() > 1) {
      gradient = finder.FindGradient(*attention);
      if (!gradient.has_value()) continue;
    }
    MF_RETURN_IF_ERROR(Fuse(c, *attention, gradient));
    changed = true;
  }
  return changed && c.RemoveDeadNodes();
}

}  // namespace mirrorflow
