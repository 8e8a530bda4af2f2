// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/fuse_elementwise.h"

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/compiler/invariants.h"
#include "framework/core/status.h"
#include "framework/graph/text_form.h"
#include "ops/binary.h"
#include "ops/control.h"
#include "ops/fused_ops.h"
#include "ops/registry.h"
#include "ops/unary.h"

namespace mirrorflow {
namespace {

// Limits on the number of values that one kernel reads, and on the number of nodes that it fuses.
constexpr size_t kMaxInputs = 12;
constexpr size_t kMaxNodes = 32;

// Excludes integers, because integer division can fail and training does not need them.
bool IsComputed(DataType dtype) { return IsFloating(dtype) || dtype == DT_BOOL; }

bool MayFuse(const Node& node) {
  const OpDef& op = node.op();
  return op.has(kElementwise) && Computes(op) && !op.has(kFailsOnData) && node.num_outputs() == 1 &&
         AllOps().Find(op.name) != nullptr && IsComputed(node.output_dtype(0)) &&
         absl::c_all_of(node.inputs(), [](const Output& in) { return IsComputed(in.dtype()); });
}

// Returns whether each replica holds the same elements of both values.
bool HaveSameShards(const Compilation& c, const Output& a, const Output& b) {
  if (!c.shard) return c.values().shape(a) == c.values().shape(b);
  const Sharded *of_a = AsSharded(c.shardings.at(a)), *of_b = AsSharded(c.shardings.at(b));
  const bool same = of_a == nullptr ? of_b == nullptr : of_b != nullptr && *of_a == *of_b;
  return same && c.values().shape(a) == c.values().shape(b);
}

// Returns whether several trees can each compute the node's value. That is as fast as reading the
// value if it is cheap to compute and the node reads at most one other value of its size. If all
// trees compute it, it need not be stored.
bool CanRepeat(const Compilation& c, const Node& node) {
  static constexpr absl::string_view kCheap[] = {ops::kAdd, ops::kAddV2,  ops::kMul, ops::kNeg,
                                                 ops::kSub, ops::kSquare, ops::kRelu};
  const Output value = node.output(0);
  return absl::c_linear_search(kCheap, node.op().name) &&
         absl::c_count_if(node.inputs(),
                          [&](const Output& in) {
                            return c.values().shape(in) == c.values().shape(value);
                          }) <= 1 &&
         absl::c_all_of(node.uses(), [&](const Use& use) {
           return use.slot >= 0 && MayFuse(*use.user) &&
                  HaveSameShards(c, value, use.user->output(0));
         });
}

// The nodes that compute one value, collected backwards from the node that produces it.
class Tree {
 public:
  // `positions` has the topological index of each node, by id.
  Tree(const Compilation& c, const Invariants& invariants, const std::vector<int>& positions,
       Node* root)
      : c_(c), invariants_(invariants), positions_(positions), root_(root), nodes_{root} {
    // A node with several users is added once all its users are in the tree, unless it can be
    // computed repeatedly.
    for (bool grows = true; grows;) {
      grows = false;
      for (size_t i = 0; i < nodes_.size(); ++i) {
        for (const Output& input : nodes_[i]->inputs()) grows |= Take(input);
      }
    }
  }

  bool has(const Node* node) const { return absl::c_linear_search(nodes_, node); }
  // Returns whether all uses of the node are in the tree.
  bool OnlyTreeReads(const Node& node) const {
    return absl::c_all_of(node.uses(),
                          [this](const Use& use) { return use.slot >= 0 && has(use.user); });
  }
  size_t size() const { return nodes_.size(); }
  const std::vector<Node*>& nodes() const { return nodes_; }

  // Returns the nodes in topological order.
  std::vector<Node*> InOrder() const {
    std::vector<Node*> nodes = nodes_;
    absl::c_sort(nodes,
                 [&](Node* a, Node* b) { return positions_[a->id()] < positions_[b->id()]; });
    return nodes;
  }

  // Returns the values that the tree reads, without duplicates.
  std::vector<Output> Inputs() const {
    std::vector<Output> inputs;
    for (const Node* node : nodes_) {
      for (const Output& input : node->inputs()) {
        if (!has(input.node) && !absl::c_linear_search(inputs, input)) inputs.push_back(input);
      }
    }
    return inputs;
  }

 private:
  bool Take(const Output& value) {
    Node* const node = value.node;
    if (nodes_.size() == kMaxNodes || has(node) || !MayFuse(*node) ||
        !HaveSameShards(c_, value, root_->output(0)) || absl::c_linear_search(c_.fetches, value) ||
        absl::c_linear_search(c_.targets, node)) {
      return false;
    }
    // The plan computes invariants only once.
    if (invariants_.IsComputed(*node) && !invariants_.IsComputed(*root_)) return false;
    if (!OnlyTreeReads(*node) && !CanRepeat(c_, *node)) return false;
    nodes_.push_back(node);
    if (Inputs().size() <= kMaxInputs) return true;
    nodes_.pop_back();
    return false;
  }

  const Compilation& c_;
  const Invariants& invariants_;
  const std::vector<int>& positions_;
  Node* const root_;
  std::vector<Node*> nodes_;
};

// Returns the text form of the tree as a separate graph, whose placeholders x0, x1, … are `inputs`.
// Nodes are named by index, so that trees of the same ops have the same text.
absl::StatusOr<std::string> BodyOf(const Tree& tree, const std::vector<Output>& inputs) {
  Graph body;
  std::map<std::pair<NodeId, int>, Output> own;
  const auto key = [](const Output& of) { return std::make_pair(of.node->id(), of.index); };
  for (const Output& input : inputs) {
    const std::string name = absl::StrCat("x", own.size());
    const Output x =
        ops::Placeholder(Scope(&body).WithName(name), input.dtype(), Shape::UnknownRank());
    own[key(input)] = x;
  }
  int number = 0;
  for (const Node* node : tree.InOrder()) {
    std::vector<Output> operands;
    for (const Output& input : node->inputs()) operands.push_back(own.at(key(input)));
    MF_ASSIGN_OR_RETURN(Node* const copy,
                        body.AddNode(absl::StrCat("t", number++), *AllOps().Find(node->op().name),
                                     node->attrs(), operands));
    own[key(node->output(0))] = copy->output(0);
  }
  return GraphToText(body, {.omit_defaults = true});
}

absl::Status Fuse(Compilation& c, Node* root, const Tree& tree) {
  const std::vector<Output> inputs = tree.Inputs();
  MF_ASSIGN_OR_RETURN(std::string body, BodyOf(tree, inputs));
  AttrList dtypes;
  for (const Output& input : inputs) dtypes.push_back(input.dtype());
  std::vector<Node*> before;
  for (const Node* node : tree.nodes()) {
    before.insert(before.end(), node->control_inputs().begin(), node->control_inputs().end());
  }
  const DataType dtype = root->output_dtype(0);
  MF_ASSIGN_OR_RETURN(
      Node* const fused,
      c.graph.AddNode(c.graph.UniqueName(root->name()), *FusedOps().Find(ops::kFusedElementwise),
                      {{"Tin", dtypes}, {"T", dtype}, {ops::kBodyAttr, std::move(body)}}, inputs,
                      before));
  MF_RETURN_IF_ERROR(c.values().Infer(*fused));
  c.shardings.Set(fused->output(0), c.shardings.at(root->output(0)));
  c.ReplaceNode(root, fused->output(0));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> FuseElementwise::Run(Compilation& c) {
  if (!c.HasKernel(ops::kFusedElementwise)) return false;
  bool changed = false;
  MF_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(c.graph));
  std::vector<int> positions(c.graph.id_limit());
  for (size_t i = 0; i < order.size(); ++i) positions[order[i]->id()] = static_cast<int>(i);
  const Invariants invariants(c);
  std::set<const Node*> fused;
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    if (fused.count(*it) > 0 || !MayFuse(**it)) continue;
    const Tree tree(c, invariants, positions, *it);
    if (tree.size() < 2 || tree.Inputs().empty() || tree.Inputs().size() > kMaxInputs) continue;
    for (const Node* node : tree.nodes()) {
      if (node == *it || tree.OnlyTreeReads(*node)) fused.insert(node);
    }
    MF_RETURN_IF_ERROR(Fuse(c, *it, tree));
    changed = true;
  }
  return changed && c.RemoveDeadNodes();
}

}  // namespace mirrorflow
