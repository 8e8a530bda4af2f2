// SPDX-License-Identifier: Apache-2.0
//
// Compilation: what passes work on: one step's graph, on global shapes, with its side tables.
// Program is what those of the first half leave behind, PlanState what those of the second work on.
// The former are about all replicas and any device: no rank and no world size is in them.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_COMPILATION_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_COMPILATION_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "framework/compiler/facts.h"
#include "framework/core/shape.h"
#include "framework/graph/graph.h"
#include "framework/graph/op_registry.h"
#include "framework/graph/scope.h"
#include "framework/graph/shape_inference.h"
#include "framework/graph/sharding.h"
#include "framework/runtime/kernel_registry.h"
#include "framework/runtime/variable_layout.h"

namespace mirrorflow {

// What a step is asked to do, in names of the user's graph: `node`, `node:1`.
struct StepSignature {
  std::vector<Output> feeds;
  std::vector<Output> fetches;
  std::vector<Node*> targets;
  // Whether fetches that are split over the replicas are gathered, but for `local_fetches`: those
  // of one worker alone need not be, as it has all parts.
  bool gathers_fetches = false;
  std::vector<Output> local_fetches = {};
};

// What a Program is compiled for.
struct GlobalSignature {
  StepSignature step;
  std::vector<Shape> feed_shapes;  // global, by feed
  // By variable of the layout: whether it is initialised before the step. Empty: nobody knows.
  std::vector<char> initialized = {};
};

struct CompileOptions {
  // False on one device: every value is replicated and no collective is inserted.
  bool shard = true;
  // Passes by name that are left out; only passes that may be left out can be named.
  absl::flat_hash_set<std::string> disabled_passes;
  KernelOptions kernels;
  // DT_BFLOAT16: mixed precision. Products, convolutions and attention of floats compute with
  // operands and results of this type, and so does what only passes these on; variables, losses,
  // reductions over replicas and updates stay floats.
  DataType compute_dtype = DT_FLOAT;
  // Verify the graph after every pass.
  bool verify = false;
  // Run CheckPlan on every plan.
  bool check_plan = false;
  // Called around every pass of both halves, if set: (pass name, state before or after it, is it
  // after). Of the second half the state is a PlanState.
  void (*observer)(absl::string_view pass, const struct Compilation&, bool after,
                   void* arg) = nullptr;
  void* observer_arg = nullptr;
};

// The sharding of every output; replicated where nothing was said.
class ShardingTable {
 public:
  const Sharding& at(const Output& output) const {
    static constexpr Sharding kReplicated = Replicated();
    const size_t id = output.node->id();
    return id >= rows_.size() || rows_[id].empty() ? kReplicated : rows_[id][output.index];
  }
  void Set(const Output& output, Sharding sharding);
  void Clear() { rows_.clear(); }

 private:
  std::vector<Shardings> rows_;  // by node id, then output
};

// Whether the node is a plain function of its inputs: none of the roles that the compiler treats by
// itself.
inline bool Computes(const OpDef& op) {
  return op.role == OpRole::kNone || op.role == OpRole::kAddAll || op.role == OpRole::kOnesLike;
}

// Whether the node runs functions: its Compilation::bodies.
inline bool IsControlFlow(const OpDef& op) {
  return op.role == OpRole::kBranch || op.role == OpRole::kLoop;
}
// The attribute of a read that must be a copy (OrderVariables).
inline constexpr char kCopyAttr[] = "_copy";
// An update that has this attribute is a collective: each rank updates a part of the variable for
// all. It names the reduction of the gradients of the ranks, or says that all have the same.
inline constexpr char kReductionAttr[] = "_reduction";
inline constexpr char kNoReduction[] = "none";
// Such an update by a product has these of its two matrices: `axis` splits their rows.
inline constexpr char kAxisAttr[] = "_axis";
inline constexpr char kFactorAttr[] = "_factor";
inline bool IsCollective(const Node& node) {
  return node.op().role == OpRole::kCollective ||
         (node.op().role == OpRole::kWrite && node.has_attr(kReductionAttr));
}

// The input that is the first argument of these: a branch has its predicate before it.
inline int FirstArgument(const OpDef& op) { return op.role == OpRole::kBranch ? 1 : 0; }

// Whether a fed value of this shape is split over the replicas: its leading dimension is not
// declared. What is fed in place of another node declares nothing.
bool IsSplit(const Output& feed, const Shape& shape);

// What a program may know of the topology.
struct World {
  int size = 1;
  bool one_domain = true;  // of memory, for all ranks
  // The ranks of a domain can share updates (LocalTeam).
  bool has_teams = false;
};

// A split of rows over the replicas; feeds with as many rows share one.
struct Axis {
  int64_t size = 0;
};

struct Compilation {
  Compilation() = default;
  Compilation(Compilation&&) = default;
  Compilation& operator=(Compilation&&) = default;
  virtual ~Compilation() = default;  // a PlanState is one

  Graph graph;
  const OpRegistry* ops = nullptr;
  const KernelRegistry* kernels = nullptr;  // of the host, for folding, and of the devices
  std::string device_type;                  // of a plan; a program is for any, and this is empty
  const VariableLayout* layout = nullptr;
  CompileOptions options;
  Facts facts = 0;  // what holds, by the passes that have run

  // Outputs and nodes of `graph`. Passes that replace a value replace it here too.
  std::vector<Output> feeds;
  std::vector<Output> fetches;
  std::vector<Node*> targets;
  std::vector<char> gathered;  // by fetch: whether it must be whole on every replica
  std::vector<Shape> feed_shapes;
  std::vector<char> initialized;   // as in GlobalSignature
  std::vector<int> states_needed;  // the variables whose entry there the result depends on

  std::vector<Axis> axes;
  ShardingTable shardings;
  // By node id: the sharding that the node needs of each input; empty: all replicated.
  std::vector<Shardings> required_inputs;
  // The collectives, in the one order in which every rank starts them; among them the branches and
  // loops that have some inside.
  std::vector<Node*> collectives;
  // The control edges that OrderVariables has added from users of reads to writes.
  std::vector<std::pair<Node*, Node*>> reader_edges;

  // The functions that a branch (then, else) or a loop (condition, body) runs, by its id. Feeds and
  // fetches are their arguments and results; they have no variables (FunctionalizeControlFlow).
  using Bodies = std::vector<std::unique_ptr<Compilation>>;
  std::map<NodeId, Bodies> bodies;
  // Of a body: the values of arguments that are known, and how arguments and results lie.
  std::vector<Tensor> argument_values;
  Shardings argument_shardings;
  Shardings result_shardings;
  bool is_body = false;
  World world;

  ShapeTable& values() const { return graph.values(); }
  Scope scope() { return Scope(&graph); }
  int64_t ValueBytes(const Output& output) const {
    return values().shape(output).num_elements() *
           static_cast<int64_t>(DataTypeSize(output.dtype()));
  }
  // Makes `to` stand in for `from` in all uses and fetches.
  void ReplaceValue(Output from, Output to);
  // Makes `to` stand in for `from` among the targets and the collectives, and for what waits for
  // it.
  void ReplaceOperation(Node* from, Node* to);
  // Makes `value` stand in for a node with one output. What had to happen before the node still has
  // to happen before its users: before `value`, which must not come before that itself.
  void ReplaceNode(Node* node, const Output& value);
  // Removes nodes that neither fetches, targets, feeds nor other nodes need. True if there were
  // any.
  bool RemoveDeadNodes();
  // Whether the op can run on the plan's device: what passes ask before they make such a node.
  bool HasKernel(absl::string_view op) const;
  // Whether a collective is inside the node: it is one, or has a body with one.
  bool Communicates(const Node& node) const;
};

// The result of the first half. Immutable; shared by the plans of all device types and local sizes.
struct Program {
  Compilation state;

  // The graph with the sharding of each value as a comment: what the ranks must agree on.
  std::string ToString() const;
  // A hash of that text, equal on all machines; workers compare it before the first step.
  uint64_t Fingerprint() const;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_COMPILATION_H_
