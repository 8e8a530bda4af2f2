// SPDX-License-Identifier: Apache-2.0
//
// Compilation is the state that the compiler's passes transform: the graph of one step, with global
// shapes, and its side tables. The passes of the first half produce a Program; those of the second
// half work on a PlanState. A Program is valid for all replicas and device types: it contains no
// rank.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_COMPILATION_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_COMPILATION_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/compiler/compile_options.h"
#include "framework/core/shape.h"
#include "framework/graph/graph.h"
#include "framework/graph/op_registry.h"
#include "framework/graph/scope.h"
#include "framework/graph/shape_inference.h"
#include "framework/graph/sharding.h"
#include "framework/runtime/kernel_registry.h"
#include "framework/runtime/topology.h"
#include "framework/runtime/variable_layout.h"

namespace mirrorflow {

// Facts about a Compilation that passes need, establish (`gives`) or invalidate (`ends`). They
// determine which pass orders are valid; Pipeline::Run checks them.
enum Fact : uint32_t {
  // Facts about a program.
  kPruned = 1u << 0,      // the graph holds only what feeds, fetches and targets need
  kBodiesMade = 1u << 1,  // branches and loops have bodies, which contain no variables
  // Every value has a fully defined global shape; shape operands are constant.
  kShapesKnown = 1u << 2,
  kListsLowered = 1u << 3,      // no value is a list of tensors
  kDuplicatesMerged = 1u << 4,  // no two nodes compute, and later communicate, the same value
  // The ops are final, except that some may be fused later, so shardings can be chosen.
  kReadyToShard = 1u << 5,
  kSharded = 1u << 6,            // every value has a sharding
  kShardingsMet = 1u << 7,       // every use receives the sharding that it requires
  kDtypesFinal = 1u << 8,        // values have their final dtypes, for compute and communication
  kReductionsKnown = 1u << 9,    // each gradient is reduced either by a collective or in its update
  kCollectivesFinal = 1u << 10,  // no later pass adds, merges or removes collectives
  kVariablesOrdered = 1u << 11,  // control edges order reads and writes of each variable
  kCollectivesOrdered = 1u << 12,  // Compilation::collectives is complete
  // Facts about a plan.
  kReadersFree = 1u << 13,    // no control edges lead from a variable's readers to its writes
  kLayersFused = 1u << 14,    // layers are fused; only single operations remain
  kLocal = 1u << 15,          // PlanState::shapes is filled
  kKernelsChosen = 1u << 16,  // PlanState::kernel_plans is filled
  // No replica writes before the data of all replicas are known to be valid.
  kWritesGuarded = 1u << 17,
  kScheduled = 1u << 18,        // PlanState::order is filled
  kStorageAssigned = 1u << 19,  // PlanState::storage is filled
  kEmitted = 1u << 20,          // Plan::instructions is filled; operands name storages
  kPlaced = 1u << 21,           // operands have addresses
  kThreadsOrdered = 1u << 22,   // Plan::waits and the dispatch lists are filled
};
using Facts = uint32_t;

// The feeds, fetches and targets of a step, as nodes of the user's graph.
struct StepSignature {
  std::vector<Output> feeds;
  std::vector<Output> fetches;
  std::vector<Node*> targets;
  // If true, fetches that are split over the replicas are gathered, except for `local_fetches`. A
  // single worker already holds all shards, so it gathers nothing.
  bool gathers_fetches = false;
  std::vector<Output> local_fetches = {};
};

// The inputs that determine a Program.
struct GlobalSignature {
  StepSignature step;
  std::vector<Shape> feed_shapes;  // global, by feed
  // For each variable of the layout, whether it has a value before the step; empty if that is
  // unknown.
  std::vector<char> initialized = {};
  // If true, values are split over the replicas. False for a step that runs on a single replica.
  bool shard = true;
};

// The sharding of every output; the default is replicated.
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
  std::vector<Shardings> rows_;  // indexed by node id and output
};

// Returns whether the op only computes outputs from inputs, so that the compiler need not treat its
// role specially.
inline bool Computes(const OpDef& op) {
  return op.role == OpRole::kNone || op.role == OpRole::kAddAll || op.role == OpRole::kOnesLike;
}

// Returns whether nodes of this op run functions (Compilation::bodies).
inline bool IsControlFlow(const OpDef& op) {
  return op.role == OpRole::kBranch || op.role == OpRole::kLoop;
}
// Marks a read that must copy the value, because the variable is written before the value's last
// use.
inline constexpr char kCopyAttr[] = "_copy";
// Turns an update into a collective: each rank updates its shard of the variable for all ranks. The
// attribute names the reduction over the ranks' gradients, or is kNoReduction if the gradients are
// equal.
inline constexpr char kReductionAttr[] = "_reduction";
inline constexpr char kNoReduction[] = "none";
// For an update by a product, the sharding of its two matrices: the axis that splits their rows,
// and the factor.
inline constexpr char kAxisAttr[] = "_axis";
inline constexpr char kFactorAttr[] = "_factor";
inline bool IsCollective(const Node& node) {
  return node.op().role == OpRole::kCollective ||
         (node.op().role == OpRole::kWrite && node.has_attr(kReductionAttr));
}

// Returns the index of the input that is the first argument of the bodies. Input 0 of a branch is
// its predicate.
inline int FirstArgument(const OpDef& op) { return op.role == OpRole::kBranch ? 1 : 0; }

// Returns whether a fed value of this shape is split over the replicas. It is split if the
// placeholder's leading dimension is unknown. Other fed nodes declare no shape; their values are
// split unless they are scalars.
bool IsSplit(const Output& feed, const Shape& shape);

// The topology properties that a program may depend on.
struct World {
  int size = 1;
  int num_domains = 1;  // memory domains
  bool one_domain() const { return num_domains == 1; }
  // If true, the ranks of a domain can divide an update among themselves.
  bool has_teams = false;
  LinkCosts link = {};  // between domains
};

// A split of rows over the replicas. Feeds with the same number of rows share an axis.
struct Axis {
  int64_t size = 0;
  // True for the axis where every replica has exactly one row, regardless of its shard of the
  // feeds.
  bool of_replicas = false;
};

struct Compilation {
  Compilation() = default;
  Compilation(Compilation&&) = default;
  Compilation& operator=(Compilation&&) = default;
  virtual ~Compilation() = default;  // PlanState derives from this class
  // Returns the graph as text, with at most `max_elements` elements of each constant. A PlanState
  // adds the results of its passes.
  virtual std::string ToString(int max_elements) const;

  Graph graph;
  const OpRegistry* ops = nullptr;
  const KernelRegistry* kernels = nullptr;  // host kernels, for folding, and device kernels
  std::string device_type;                  // empty for a program
  const VariableLayout* layout = nullptr;
  CompileOptions options;
  // If true, the plan can keep values that change rarely as forms (framework/runtime/forms.h). Only
  // host memory can hold forms, and a body's operands are its arguments.
  bool keeps_forms = false;
  // If false, no value is distributed and no collective is inserted; shardings only mark rows of
  // the batch (FindBatchRows). False on a single replica.
  bool shard = true;
  Facts facts = 0;  // the facts that the passes run so far have established

  // Outputs and nodes of `graph`. A pass that replaces one in the graph must also replace it here.
  std::vector<Output> feeds;
  std::vector<Output> fetches;
  std::vector<Node*> targets;
  std::vector<char> gathered;  // for each fetch, whether every replica needs the whole value
  std::vector<Shape> feed_shapes;
  std::vector<char> initialized;   // as in GlobalSignature
  std::vector<int> states_needed;  // variables whose entry in `initialized` affects the result

  std::vector<Axis> axes;
  ShardingTable shardings;
  // The sharding that each node requires for each of its inputs, by node id. An empty entry means
  // that all inputs are replicated.
  std::vector<Shardings> required_inputs;
  // The collectives, and the branches and loops that contain collectives, in start order, which is
  // the same on every rank.
  std::vector<Node*> collectives;
  // The control edges that order the users of reads before the writes.
  std::vector<std::pair<Node*, Node*>> reader_edges;

  // The functions that a branch (then, else) or a loop (condition, body) runs, by node id. A body's
  // feeds and fetches are its arguments and results. Bodies contain no variables.
  using Bodies = std::vector<std::unique_ptr<Compilation>>;
  std::map<NodeId, Bodies> bodies;
  // For bodies only: the known argument values, and the shardings of arguments and results.
  std::vector<Tensor> argument_values;
  Shardings argument_shardings;
  Shardings result_shardings;
  bool is_body = false;
  World world;

  Compilation& body(NodeId id, size_t i) const { return *bodies.at(id)[i]; }

  ShapeTable& values() const { return graph.values(); }
  Scope scope() { return Scope(&graph); }
  int64_t ValueBytes(const Output& output) const {
    return values().shape(output).num_elements() *
           static_cast<int64_t>(DataTypeSize(output.dtype()));
  }
  bool IsFetched(const Output& value) const;
  // Returns whether the value has exactly one user and is not fetched.
  bool IsUsedOnce(const Output& value) const {
    return value.node->uses().size() == 1 && !IsFetched(value);
  }
  // Replaces `from` with `to` in all uses and fetches.
  void ReplaceValue(Output from, Output to);
  // Replaces `from` with `to` among the targets and collectives, and as the source of control
  // edges.
  void ReplaceOperation(Node* from, Node* to);
  // Replaces a node that has one output with `value`, and moves the node's control inputs to
  // `value`, so that the node's users still wait for them. None of these inputs may depend on
  // `value`.
  void ReplaceNode(Node* node, const Output& value);
  // Removes nodes that no fetch, target, feed or other node needs. Returns whether it removed any.
  bool RemoveDeadNodes();
  // Returns whether the op can run on the plan's device. Passes check this before they add a node.
  bool HasKernel(absl::string_view op) const { return kernels->Has(op, device_type); }
  // Returns whether the node is a collective or has a body that contains one.
  bool Communicates(const Node& node) const;
};

// The result of the compiler's first half. It is immutable; the plans of all device types and
// shards share it.
struct Program {
  Compilation state;

  // Returns the graph as text, with the shape and sharding of each value as a comment. The text
  // must be equal on all ranks.
  std::string ToString() const;
  // Returns a hash of ToString() that is stable across machines.
  uint64_t Fingerprint() const;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_COMPILATION_H_
