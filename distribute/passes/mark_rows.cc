// SPDX-License-Identifier: Apache-2.0
#include "distribute/passes/mark_rows.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "framework/compiler/passes/infer_and_fold.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/collectives.h"

namespace mirrorflow {
namespace {

// The second inference multiplies the row counts of the axes by these factors.
constexpr int64_t kGrowth[kMaxAxes] = {2, 3, 5, 7};

// The shapes of a step and of the bodies inside it.
using StepShapes = std::map<const Compilation*, ShapeTable>;

void CollectShapes(const Compilation& c, StepShapes* shapes) {
  shapes->emplace(&c, c.values());
  for (const auto& [id, bodies] : c.bodies) {
    for (const auto& body : bodies) CollectShapes(*body, shapes);
  }
}

// Sets the output shapes of a node that accepts only one row count, such as the sum of a feed and a
// constant with as many rows. An output dimension grows with the input dimensions that have the
// same letter in the sharding rule. `before` holds the step's original shapes.
void GrowByRule(const ShapeTable& before, Compilation& c, const Node& node) {
  const auto shapes_of = [](const ShapeTable& table, auto count, auto value) {
    std::vector<Shape> shapes;
    for (int i = 0; i < count; ++i) shapes.push_back(table.shape(value(i)));
    return shapes;
  };
  const auto input = [&](int i) { return node.input(i); };
  const auto output = [&](int i) { return node.output(i); };
  const std::vector<Shape> inputs = shapes_of(before, node.num_inputs(), input);
  const std::vector<Shape> grown_inputs = shapes_of(c.values(), node.num_inputs(), input);
  std::vector<Shape> outputs = shapes_of(before, node.num_outputs(), output);
  const auto set = [&](const std::vector<Shape>& shapes) {
    for (int i = 0; i < node.num_outputs(); ++i) {
      ValueInfo info =
          before.at(node.output(i));  // keeps the variable type that a handle refers to
      info.shape = shapes[i];
      info.constant = Tensor();
      info.as_shape.reset();
      c.values().Set(node.output(i), std::move(info));
    }
  };
  const auto unknown = [&] { set(std::vector<Shape>(node.num_outputs(), Shape::UnknownRank())); };
  if (node.op().sharding == nullptr) return unknown();
  const absl::StatusOr<ShardingRule> rule = node.op().sharding(ShardContext(node, before));
  if (!rule.ok()) return unknown();
  const absl::StatusOr<ShardingTerms> terms = ParseShardingTerms(rule->dims, inputs, outputs);
  if (!terms.ok()) return unknown();
  for (size_t o = 0; o < outputs.size(); ++o) {
    const absl::string_view term = terms->outputs[o];  // one letter per dimension, or `*`
    for (int d = 0; d < std::min(outputs[o].rank(), static_cast<int>(term.size())); ++d) {
      const char letter = term[d];
      for (size_t i = 0; i < inputs.size(); ++i) {
        const size_t at = terms->inputs[i].find(letter);
        const bool has_letter = absl::ascii_isalpha(letter) && at != absl::string_view::npos &&
                                grown_inputs[i].rank() == inputs[i].rank();
        if (!has_letter || inputs[i].dim(at) == 0) continue;
        const int64_t old_size = inputs[i].dim(at), new_size = grown_inputs[i].dim(at);
        if (new_size == old_size || new_size % old_size != 0) continue;
        outputs[o].set_dim(d, before.shape(node.output(o)).dim(d) * (new_size / old_size));
      }
    }
  }
  set(outputs);
}

// Returns whether feed i is split and has rows.
bool HasSplitRows(const Compilation& c, size_t i) {
  const Shape& shape = c.feed_shapes[i];
  return shape.IsFullyDefined() && IsSplit(c.feeds[i], shape) && shape.dim(0) > 0;
}

// Returns whether the op takes and produces only whole values under any sharding, like Shape.
bool TakesWhole(const Compilation& c, const Node& node) {
  if (IsControlFlow(node.op())) return false;
  if (node.op().sharding == nullptr) return true;
  const auto is_known = [&](const Output& value) {
    return c.values().shape(value).IsFullyDefined();
  };
  for (const Output& in : node.inputs()) {
    if (!is_known(in)) return false;
  }
  for (int i = 0; i < node.num_outputs(); ++i) {
    if (!is_known(node.output(i))) return false;
  }
  const absl::StatusOr<ShardingRule> rule = node.op().sharding(ShardContext(node, c.values()));
  return rule.ok() && rule->linearity == Linearity::kNone &&
         std::none_of(rule->dims.begin(), rule->dims.end(), absl::ascii_isalpha);
}

// Returns whether each replica's part of the node's inputs is observable, through the node or
// through a node in its bodies.
bool ObservesParts(const Compilation& c, const Node& node) {
  if (node.op().name == kLocalPart) return true;
  if (IsControlFlow(node.op())) {
    const Compilation::Bodies& bodies = c.bodies.at(node.id());
    return std::ranges::any_of(bodies, [](const auto& body) {
      return std::ranges::any_of(body->graph.Nodes(),
                                 [&](const Node* inside) { return ObservesParts(*body, *inside); });
    });
  }
  if (node.op().role != OpRole::kWrite || c.layout == nullptr) return false;
  const int v = c.layout->FindHandle(node.input(0));
  return v >= 0 && c.layout->variables()[v].on_read;
}

// Returns whether a node or fetch of the step may make a replica's part of a value observable. A
// fetched scalar cannot, because it has no rows.
bool MayObserveParts(const Compilation& c) {
  const auto may_have_rows = [&](const Output& fetch) {
    return !c.values().shape(fetch).IsFullyDefined() || c.values().shape(fetch).rank() > 0;
  };
  return std::ranges::any_of(c.fetches, may_have_rows) ||
         std::ranges::any_of(c.graph.Nodes(),
                             [&](const Node* node) { return ObservesParts(c, *node); });
}

class Marker {
 public:
  Marker(std::vector<int64_t> axes, StepShapes before, StepShapes after)
      : axes_(std::move(axes)), before_(std::move(before)), after_(std::move(after)) {}

  // Marks the nodes of a step or body. `results_observable`: whether `c` is a body whose results
  // are observable. Returns whether it has marked any node.
  absl::StatusOr<bool> Mark(Compilation& c, bool results_observable) {
    const std::vector<bool> observable = FindObservable(c, results_observable);
    MF_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(c.graph));
    std::vector<bool> marked(c.graph.id_limit());
    bool any = false;
    for (Node* node : order) {
      if (IsControlFlow(node->op())) {
        for (const auto& body : c.bodies.at(node->id())) {
          MF_ASSIGN_OR_RETURN(const bool inside, Mark(*body, observable[node->id()]));
          any |= inside;
        }
        continue;
      }
      if (!observable[node->id()] || !Computes(node->op()) || TakesWhole(c, *node)) continue;
      const std::optional<AttrList> rows = RowsFor(c, *node, marked);
      if (!rows.has_value()) continue;
      c.graph.SetAttr(node, kRowsAttr, *rows);
      marked[node->id()] = any = true;
    }
    return any;
  }

 private:
  // Returns, by node id, whether a replica's part of any of the node's outputs is observable.
  std::vector<bool> FindObservable(const Compilation& c, bool results_observable) const {
    std::vector<bool> observable(c.graph.id_limit());
    std::vector<const Node*> open;
    const auto mark = [&](const Node* node) {
      if (observable[node->id()]) return;
      observable[node->id()] = true;
      open.push_back(node);
    };
    const auto visit_inputs = [&](const Node& node, auto is_observable) {
      for (const Output& in : node.inputs()) {
        if (is_observable(in)) mark(in.node);
      }
    };
    const auto all = [](const Output&) { return true; };
    for (const Node* node : c.graph.Nodes()) {
      if (ObservesParts(c, *node)) visit_inputs(*node, all);
    }
    for (const Output& fetch : c.fetches) {
      if (results_observable) mark(fetch.node);
    }
    while (!open.empty()) {
      const Node* node = open.back();
      open.pop_back();
      if (!TakesWhole(c, *node)) visit_inputs(*node, all);
    }
    // The rows of a fetch are observable, but rows that are summed on the way to it are not.
    if (c.is_body) return observable;
    for (const Output& fetch : c.fetches) {
      if (RowsOf(c, fetch).has_value()) mark(fetch.node);
    }
    while (!open.empty()) {
      const Node* node = open.back();
      open.pop_back();
      visit_inputs(*node, [&](const Output& in) { return RowsOf(c, in).has_value(); });
    }
    return observable;
  }

  // Returns the sharding along the first dimension that consists of an axis's rows, if any does.
  std::optional<Sharded> RowsOf(const Compilation& c, const Output& output) const {
    const Shape& before = before_.at(&c).shape(output);
    const Shape& after = after_.at(&c).shape(output);
    if (!before.IsFullyDefined() || !after.IsFullyDefined() || before.rank() != after.rank()) {
      return std::nullopt;
    }
    for (int d = 0; d < before.rank(); ++d) {
      for (AxisId axis = 0; axis < static_cast<AxisId>(axes_.size()); ++axis) {
        const int64_t size = before.dim(d);
        if (size == 0 || size % axes_[axis] != 0 || after.dim(d) != size * kGrowth[axis]) continue;
        return Sharded{axis, d, size / axes_[axis]};
      }
    }
    return std::nullopt;
  }

  // Returns the value of kRowsAttr for the node, or nullopt if the node is not marked.
  std::optional<AttrList> RowsFor(const Compilation& c, const Node& node,
                                  const std::vector<bool>& marked) const {
    bool follows = false, has_rows = false;
    for (const Output& in : node.inputs()) {
      follows |= marked[in.node->id()];
      has_rows |= RowsOf(c, in).has_value();
    }
    if (follows) return AttrList();
    if (node.num_outputs() != 1) return std::nullopt;
    const std::optional<Sharded> rows = RowsOf(c, node.output(0));
    if (!rows.has_value()) return std::nullopt;
    if (has_rows) {
      return node.op().role == OpRole::kOnesLike ? std::optional(AttrList()) : std::nullopt;
    }
    return AttrList{int64_t{rows->axis}, int64_t{rows->dim}, rows->factor};
  }

  const std::vector<int64_t> axes_;
  const StepShapes before_, after_;
};

}  // namespace

absl::StatusOr<std::vector<int64_t>> FeedAxes(const Compilation& c) {
  std::vector<int64_t> axes;
  for (size_t i = 0; i < c.feeds.size(); ++i) {
    if (!HasSplitRows(c, i)) continue;
    const int64_t size = c.feed_shapes[i].dim(0);
    if (std::find(axes.begin(), axes.end(), size) != axes.end()) continue;
    if (axes.size() == kMaxAxes) {
      return absl::InvalidArgumentError(absl::StrCat("feed ", c.feeds[i].ToString(),
                                                     ": a step's feeds can have at most ", kMaxAxes,
                                                     " different leading dimensions"));
    }
    axes.push_back(size);
  }
  return axes;
}

std::optional<Sharded> MadeRows(const Node& node) {
  if (!node.has_attr(kRowsAttr)) return std::nullopt;
  const std::vector<int64_t> rows = node.int_list(kRowsAttr);
  if (rows.empty()) return std::nullopt;
  return Sharded{static_cast<AxisId>(rows[0]), static_cast<int>(rows[1]), rows[2]};
}

absl::StatusOr<bool> MarkRows::Run(Compilation& c) {
  if (!c.shard || !MayObserveParts(c)) return false;
  MF_ASSIGN_OR_RETURN(std::vector<int64_t> axes, FeedAxes(c));
  if (axes.empty()) return false;
  // If shape inference fails here, the InferAndFold pass reports the error.
  StepShapes before, after;
  if (!InferAndFold(loop_bound_).InferOnly(c).ok()) return false;
  CollectShapes(c, &before);
  const std::vector<Shape> feed_shapes = c.feed_shapes;
  for (size_t i = 0; i < c.feeds.size(); ++i) {
    if (!HasSplitRows(c, i)) continue;
    Shape& shape = c.feed_shapes[i];
    // Keep a single row: only the first replica holds it, and it is often broadcast like a whole
    // value.
    if (shape.dim(0) == 1) continue;
    const auto axis = std::find(axes.begin(), axes.end(), shape.dim(0)) - axes.begin();
    shape.set_dim(0, shape.dim(0) * kGrowth[axis]);
  }
  const absl::Status grown =
      InferAndFold(loop_bound_).InferOnly(c, [&](Compilation& inner, const Node& node) {
        GrowByRule(before.at(&inner), inner, node);
      });
  c.feed_shapes = feed_shapes;
  if (!grown.ok()) return false;  // for example because of a loop's lists
  CollectShapes(c, &after);
  return Marker(std::move(axes), std::move(before), std::move(after))
      .Mark(c, /*results_observable=*/false);
}

}  // namespace mirrorflow
