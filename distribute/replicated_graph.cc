// SPDX-License-Identifier: Apache-2.0
#include "distribute/replicated_graph.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "distribute/all_kernels.h"
#include "distribute/collective/collective_functions.h"
#include "distribute/collective/collective_ops.h"
#include "distribute/pipeline.h"
#include "framework/compiler/passes/order_variables.h"
#include "framework/compiler/plan/infer_local_shapes.h"
#include "framework/compiler/row_shards.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/all/ops.h"
#include "ops/registry.h"

namespace mirrorflow {
namespace {

// Returns whether `sizes` lists the dimensions of `shape`; -1 matches any dimension.
bool SaysShape(const Tensor& sizes, const Shape& shape) {
  const bool is_vector = sizes.has_value() && sizes.shape().rank() == 1;
  if (!is_vector || sizes.shape().dim(0) != shape.rank()) return false;
  for (int d = 0; d < shape.rank(); ++d) {
    int64_t size;
    if (sizes.dtype() == DT_INT32) {
      size = sizes.flat<int32_t>()[d];
    } else if (sizes.dtype() == DT_INT64) {
      size = sizes.flat<int64_t>()[d];
    } else {
      return false;
    }
    if (size != kUnknownDim && size != shape.dim(d)) return false;
  }
  return true;
}

// Builds the graph of all replicas. `c` is the program that `original` was compiled to for `step`.
class Replicator {
 public:
  Replicator(const Graph& original, const ReplicatedStep& step, const Compilation& c,
             RowShards rows)
      : original_(original),
        step_(step),
        c_(c),
        rows_(std::move(rows)),
        num_replicas_(step.num_replicas) {
    for (int r = 0; r < num_replicas_; ++r) {
      std::vector<int64_t> own;
      for (const std::vector<int64_t>& shards : rows_) own.push_back(shards[r]);
      local_.push_back(ShapesOfShard(c, own));
    }
    const auto has_prefix = [&](const Node* node) {
      return absl::StartsWith(node->name(), prefix_);
    };
    while (std::ranges::any_of(original.Nodes(), has_prefix)) prefix_ += "_";
  }

  absl::StatusOr<Graph> Run() {
    out_.functions() = original_.functions();
    copies_.resize(c_.graph.id_limit());
    KeepNamesFree();
    MF_RETURN_IF_ERROR(AddVariables());
    MF_RETURN_IF_ERROR(AddFeeds());
    MF_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(c_.graph));
    for (const Node* node : order) MF_RETURN_IF_ERROR(AddNode(*node));
    MF_RETURN_IF_ERROR(AddFetches());
    MF_RETURN_IF_ERROR(AddTargets());
    MF_RETURN_IF_ERROR(out_.status());
    // Remove copies that nothing uses: a write uses the values of only one replica.
    Compilation sweep;
    sweep.graph = std::move(out_);
    sweep.targets = kept_;
    sweep.RemoveDeadNodes();
    return std::move(sweep.graph);
  }

 private:
  using Copies = std::vector<Node*>;   // one per replica, or one that all replicas share
  using Values = std::vector<Output>;  // one per replica

  std::string OfReplica(int r, absl::string_view name) const {
    return absl::StrCat(prefix_, r, "/", name);
  }
  // Returns the scope for a new node that all replicas share and that the program does not contain.
  Scope Made(absl::string_view name) {
    return Scope(&out_).WithName(out_.UniqueName(absl::StrCat(prefix_, "all/", name)));
  }

  // Reserves the original names of fetches and targets whose nodes the program names differently.
  void KeepNamesFree() {
    for (size_t i = 0; i < step_.fetches.size(); ++i) {
      const std::string& name = step_.fetches[i].node->name();
      if (c_.fetches[i].node->name() != name) kept_free_.insert(name);
    }
    for (size_t i = 0; i < step_.targets.size(); ++i) {
      const std::string& name = step_.targets[i].node->name();
      if (c_.targets[i]->name() != name) kept_free_.insert(name);
    }
  }

  // Returns a name for the copy of `node` that all replicas share.
  absl::StatusOr<std::string> OwnName(const Node& node) {
    const std::string& name = node.name();
    if (out_.FindNode(name) == nullptr && !kept_free_.contains(name)) return name;
    if (!node.op().has(kRandom)) return out_.UniqueName(absl::StrCat(prefix_, "all/", name));
    // The name seeds the random numbers, so it must not change.
    return Unimplemented(node, "a random op that is an initializer or replaces another value");
  }

  static absl::Status Unimplemented(const Node& node, absl::string_view what) {
    return absl::UnimplementedError(
        absl::StrCat(OpAndName(node), ": ", what, " cannot be written out as explicit replicas"));
  }

  absl::StatusOr<Node*> Add(absl::string_view name, const Node& like, Values inputs,
                            std::vector<Node*> controls) {
    const bool unknown = like.op().role == OpRole::kUnknown;  // known only to this graph
    const OpDef& op = unknown ? out_.UnknownOp(like.op().name, like.num_outputs()) : like.op();
    AttrMap attrs = like.attrs();
    attrs.erase(kCopyAttr);
    return out_.AddNode(name, op, std::move(attrs), std::move(inputs), std::move(controls));
  }

  // Copies `last` from the original graph, with all nodes that it depends on.
  absl::Status AddOriginal(const Node& last) {
    std::vector<const Node*> pending = {&last};
    while (!pending.empty()) {
      const Node& node = *pending.back();
      std::vector<Node*> controls;
      Values inputs;
      const size_t before = pending.size();
      const auto in_result = [&](const Node* in) {
        Node* found = out_.FindNode(in->name());
        if (found == nullptr) pending.push_back(in);
        return found;
      };
      for (const Output& in : node.inputs()) inputs.push_back({in_result(in.node), in.index});
      for (const Node* control : node.control_inputs()) controls.push_back(in_result(control));
      if (pending.size() > before) continue;
      pending.pop_back();
      if (out_.FindNode(node.name()) != nullptr) continue;
      MF_ASSIGN_OR_RETURN(Node * added,
                          Add(node.name(), node, std::move(inputs), std::move(controls)));
      if (node.op().role != OpRole::kUnknown) MF_RETURN_IF_ERROR(out_.values().Infer(*added));
    }
    kept_.push_back(out_.FindNode(last.name()));
    return absl::OkStatus();
  }

  absl::Status AddVariables() {
    for (const VariableInfo& variable : c_.layout->variables()) {
      MF_RETURN_IF_ERROR(AddOriginal(*original_.node(variable.handle)));
      if (variable.initializer.empty()) continue;
      const absl::string_view name = variable.initializer;
      const Node* initial = original_.FindNode(name.substr(0, name.find(':')));
      if (initial == nullptr) {
        return absl::NotFoundError(absl::StrCat("variable ", variable.name, ": its initializer '",
                                                name, "' is not in the graph"));
      }
      MF_RETURN_IF_ERROR(AddOriginal(*initial));
    }
    return absl::OkStatus();
  }

  absl::Status AddFeeds() {
    for (size_t i = 0; i < step_.feeds.size(); ++i) {
      const Output& original = step_.feeds[i];
      const Output& feed = c_.feeds[i];
      const std::string& name = original.node->name();
      if (original.index != 0 || out_.FindNode(name) != nullptr) {
        return Unimplemented(*original.node, absl::StrCat("the feed ", original.ToString()));
      }
      const Output whole =
          ops::Placeholder(Scope(&out_).WithName(name), feed.dtype(), c_.values().shape(feed));
      MF_RETURN_IF_ERROR(out_.status());
      kept_.push_back(whole.node);
      copies_[feed.node->id()] = {whole.node};
      Distribute(feed, whole);
    }
    return absl::OkStatus();
  }

  // Records `whole` as the value of `value` on all replicas, split among them if it is sharded.
  void Distribute(const Output& value, const Output& whole) {
    whole_.emplace(value, whole);
    const Sharded* s = AsSharded(c_.shardings.at(value));
    if (s == nullptr || num_replicas_ == 1) {
      values_[value] = Values(num_replicas_, whole);
      return;
    }
    std::vector<int64_t> sizes;
    for (const int64_t rows : rows_[s->axis]) sizes.push_back(rows * s->factor);
    const std::string name = absl::StrCat(value.node->name(), "/shares");
    values_[value] = ops::SplitV(Made(name), whole, sizes, s->dim);
  }

  // Returns whether all replicas share one copy of the node.
  bool IsMadeOnce(const Node& node) const {
    const OpDef& op = node.op();
    if (op.role == OpRole::kWrite || op.role == OpRole::kNoOp || op.role == OpRole::kConstant ||
        op.role == OpRole::kVariable) {
      return true;
    }
    bool makes_rows = false;
    for (int i = 0; i < node.num_outputs(); ++i) {
      if (node.output_dtype(i) == DT_RESOURCE) return true;
      makes_rows |= AsSharded(c_.shardings.at(node.output(i))) != nullptr;
    }
    if (!Computes(op) || !(makes_rows || op.has(kRandom))) return false;
    return std::ranges::all_of(node.inputs(),
                               [&](const Output& in) { return IsReplicated(c_.shardings.at(in)); });
  }

  absl::Status AddNode(const Node& node) {
    if (!copies_[node.id()].empty()) return absl::OkStatus();  // a feed
    const std::string& op = node.op().name;
    if (IsControlFlow(node.op())) return Unimplemented(node, "a branch or loop");
    if (node.op().role == OpRole::kCollective) return AddCollective(node);
    if (op == kShardSlice) return AddShards(node);
    if (op == kFirstReplicaOnly) return AddParts(node);
    if (node.op().has(kPerReplica) && node.num_inputs() == 0) return AddIndex(node);
    if (IsMadeOnce(node)) return AddOnce(node);
    if (node.op().has(kRandom)) return Unimplemented(node, "a random op with sharded inputs");
    for (int r = 0; r < num_replicas_; ++r) {
      MF_ASSIGN_OR_RETURN(copies_[node.id()].emplace_back(), AddCopy(node, r));
    }
    for (int i = 0; i < node.num_outputs(); ++i) {
      for (const Node* copy : copies_[node.id()]) {
        values_[node.output(i)].push_back(copy->output(i));
      }
    }
    // In a program, each replica holds its own summand of a variable that is synchronised on read.
    // Here replica 0 holds the whole value, and all others hold zeros.
    if (node.op().role == OpRole::kRead && IsOnRead(node)) KeepOnFirst(node.output(0));
    return absl::OkStatus();
  }

  // Returns the control inputs for replica r's copy of `node`, or for a copy that all replicas
  // share (r < 0).
  std::vector<Node*> Controls(const Node& node, int r) const {
    std::vector<Node*> controls;
    for (const Node* in : node.control_inputs()) {
      const Copies& copies = copies_[in->id()];
      if (r >= 0) {
        controls.push_back(copies.size() == 1 ? copies[0] : copies[r]);
      } else {
        controls.insert(controls.end(), copies.begin(), copies.end());
      }
    }
    return controls;
  }

  bool IsOnRead(const Node& node) const {
    const int v = c_.layout->FindHandle(node.input(0));
    return v >= 0 && c_.layout->variables()[v].on_read;
  }

  absl::Status AddOnce(const Node& node) {
    Values inputs;
    for (const Output& in : node.inputs()) {
      // A variable that is synchronised on read stores the sum of the replicas' values.
      const Sharding& sharding = c_.shardings.at(in);
      const bool is_sum = AsPartial(sharding) != nullptr || IsPerReplica(sharding);
      inputs.push_back(is_sum ? ops::AddN(Made(absl::StrCat(node.name(), "/sum")), values_.at(in))
                              : values_.at(in)[0]);
    }
    MF_RETURN_IF_ERROR(out_.status());
    Node* made = nullptr;
    if (node.op().role == OpRole::kVariable) made = out_.FindNode(node.name());
    if (made == nullptr) {
      MF_ASSIGN_OR_RETURN(const std::string name, OwnName(node));
      MF_ASSIGN_OR_RETURN(made, Add(name, node, std::move(inputs), Controls(node, -1)));
      MF_RETURN_IF_ERROR(out_.values().Infer(*made));
    }
    copies_[node.id()] = {made};
    for (int i = 0; i < node.num_outputs(); ++i) Distribute(node.output(i), made->output(i));
    return absl::OkStatus();
  }

  // Adds replica `r`'s copy of the node. Replaces operands that spell out the output's global shape
  // with the replica's local shape.
  absl::StatusOr<Node*> AddCopy(const Node& node, int r) {
    Values inputs;
    for (const Output& in : node.inputs()) inputs.push_back(values_.at(in)[r]);
    MF_ASSIGN_OR_RETURN(Node * copy,
                        Add(OfReplica(r, node.name()), node, std::move(inputs), Controls(node, r)));
    const std::vector<Shape>& local = local_[r][node.id()];
    const auto fits = [&] {
      if (!out_.values().Infer(*copy).ok()) return false;
      for (int i = 0; i < node.num_outputs(); ++i) {
        if (out_.values().shape(copy->output(i)) != local[i]) return false;
      }
      return true;
    };
    if (fits()) return copy;
    for (int i = 0; i < node.num_inputs(); ++i) {
      const Tensor& sizes = c_.values().at(node.input(i)).constant;
      if (!node.is_static_input(i) || !SaysShape(sizes, c_.values().shape(node.output(0))))
        continue;
      const Output own =
          ops::VectorConst(Scope(&out_).WithName(absl::StrCat(copy->name(), "/shape")),
                           local[0].dims(), sizes.dtype());
      MF_RETURN_IF_ERROR(out_.status());
      out_.SetInput(copy, i, own);
    }
    if (fits()) return copy;
    return Unimplemented(node, "an op whose local shape does not follow from its operands");
  }

  // Adds a function call that takes the values of all replicas, and an Identity for each result.
  absl::Status AddCollective(const Node& node) {
    Values inputs;
    for (int r = 0; r < num_replicas_; ++r) {
      for (const Output& in : node.inputs()) inputs.push_back(values_.at(in)[r]);
    }
    std::vector<int64_t> rows;
    if (node.has_attr("axis")) rows = rows_[node.attr<int64_t>("axis")];
    MF_ASSIGN_OR_RETURN(const FunctionRef function,
                        DefineCollective(node, inputs, rows, num_replicas_, out_));
    const int num_values = node.num_outputs();
    MF_ASSIGN_OR_RETURN(const std::string name, OwnName(node));
    MF_ASSIGN_OR_RETURN(
        Node * call, out_.AddNode(name, out_.UnknownOp(function.name, num_replicas_ * num_values),
                                  {}, std::move(inputs), Controls(node, -1)));
    copies_[node.id()] = {call};
    for (int r = 0; r < num_replicas_; ++r) {
      for (int i = 0; i < num_values; ++i) {
        const Output result = call->output(r * num_values + i);
        ValueInfo info;
        info.shape = local_[r][node.id()][i];
        out_.values().Set(result, std::move(info));
        // The call's output dtypes are unknown, so the Identity is created on the input, which has
        // the result's dtype, and then connected to the result.
        const std::string result_name = OfReplica(r, absl::StrCat(node.name(), "/", i));
        const Output value =
            ops::Identity(Scope(&out_).WithName(result_name), values_.at(node.input(i))[r]);
        MF_RETURN_IF_ERROR(out_.status());
        out_.SetInput(value.node, 0, result);
        MF_RETURN_IF_ERROR(out_.values().Infer(*value.node));
        values_[node.output(i)].push_back(value);
      }
    }
    return out_.status();
  }

  absl::Status AddShards(const Node& node) {
    const Sharded& s = *AsSharded(c_.shardings.at(node.output(0)));
    int64_t first = 0;
    for (int r = 0; r < num_replicas_; ++r) {
      const Shape& local = local_[r][node.id()][0];
      std::vector<int64_t> begin(local.rank(), 0);
      begin[s.dim] = first;
      first += local.dim(s.dim);
      const Scope scope = CopyScope(node, r);
      const Output shard =
          ops::Slice(scope, values_.at(node.input(0))[r], ops::VectorConst(Made("begin"), begin),
                     ops::VectorConst(Made("size"), local.dims()));
      Take(node, shard);
    }
    return out_.status();
  }

  absl::Status AddParts(const Node& node) {
    for (int r = 0; r < num_replicas_; ++r) {
      const Scope scope = CopyScope(node, r);
      const Output& whole = values_.at(node.input(0))[r];
      Take(node, r == 0 ? ops::Identity(scope, whole) : ops::ZerosLike(scope, whole));
    }
    return out_.status();
  }

  absl::Status AddIndex(const Node& node) {
    if (node.num_inputs() != 0 || node.num_outputs() != 1 || node.output_dtype(0) != DT_INT32) {
      return Unimplemented(node, "an op that differs between replicas");
    }
    for (int r = 0; r < num_replicas_; ++r) {
      Take(node, ops::Const(CopyScope(node, r), Tensor::Scalar<int32_t>(r)));
    }
    return out_.status();
  }

  Scope CopyScope(const Node& node, int r) {
    std::vector<Operation> controls;
    for (Node* control : Controls(node, r)) controls.push_back({control});
    return Scope(&out_).WithControlDependencies(controls).WithName(OfReplica(r, node.name()));
  }

  // Records `value` as output 0 of `node` on the next replica.
  void Take(const Node& node, const Output& value) {
    copies_[node.id()].push_back(value.node);
    values_[node.output(0)].push_back(value);
  }

  void KeepOnFirst(const Output& value) {
    Values& values = values_.at(value);
    for (int r = 1; r < num_replicas_; ++r) {
      const std::string name = OfReplica(r, absl::StrCat(value.node->name(), "/part"));
      values[r] = ops::ZerosLike(Scope(&out_).WithName(name), values[r]);
    }
  }

  // Returns the global value: the concatenated rows of all replicas, or the value that they share.
  absl::StatusOr<Output> Global(const Output& value) {
    const auto known = whole_.find(value);
    if (known != whole_.end()) return known->second;
    const Sharding& sharding = c_.shardings.at(value);
    if (num_replicas_ == 1) return values_.at(value)[0];
    if (const Sharded* s = AsSharded(sharding)) {
      const std::string name = absl::StrCat(value.node->name(), "/rows");
      const Output whole = ops::ConcatV2(Made(name), values_.at(value), s->dim);
      MF_RETURN_IF_ERROR(out_.status());
      return whole_[value] = whole;
    }
    if (IsReplicated(sharding)) return values_.at(value)[0];
    return Unimplemented(*value.node, "a fetch that differs between replicas");
  }

  absl::Status AddFetches() {
    std::map<std::string, std::vector<Output>> fetched;  // by node, then output
    for (size_t i = 0; i < step_.fetches.size(); ++i) {
      std::vector<Output>& outputs = fetched[step_.fetches[i].node->name()];
      const size_t index = step_.fetches[i].index;
      if (outputs.size() <= index) outputs.resize(index + 1);
      MF_ASSIGN_OR_RETURN(outputs[index], Global(c_.fetches[i]));
    }
    for (auto& [name, outputs] : fetched) {
      if (Node* node = out_.FindNode(name)) {
        for (size_t i = 0; i < outputs.size(); ++i) {
          if (!outputs[i].valid() || outputs[i] == node->output(static_cast<int>(i))) continue;
          return Unimplemented(*node, "a fetch whose name another value already has");
        }
        kept_.push_back(node);
        continue;
      }
      const Scope scope = Scope(&out_).WithName(name);
      if (outputs.size() == 1) {
        kept_.push_back(ops::Identity(scope, outputs[0]).node);
      } else {
        for (Output& output : outputs) {
          // Stands in for an output that is not fetched.
          if (!output.valid()) output = ops::Const(Made("none"), Tensor::Vector<float>({}));
        }
        kept_.push_back(ops::IdentityN(scope, outputs)[0].node);
      }
      MF_RETURN_IF_ERROR(out_.status());
    }
    return absl::OkStatus();
  }

  absl::Status AddTargets() {
    for (size_t i = 0; i < step_.targets.size(); ++i) {
      const std::string& name = step_.targets[i].node->name();
      Node* target = out_.FindNode(name);
      if (target == nullptr) target = ops::NoOp(Scope(&out_).WithName(name)).node;
      MF_RETURN_IF_ERROR(out_.status());
      // The edge closes no cycle: `target` is the only copy itself, a fetch that no node depends
      // on, or a new node.
      for (Node* copy : copies_[c_.targets[i]->id()]) out_.AddControlEdge(copy, target);
      kept_.push_back(target);
    }
    return absl::OkStatus();
  }

  const Graph& original_;
  const ReplicatedStep& step_;
  const Compilation& c_;
  const RowShards rows_;
  const int num_replicas_;
  std::vector<LocalShapes> local_;   // by replica
  std::string prefix_ = "replica_";  // no name in the original graph starts with it
  absl::flat_hash_set<std::string> kept_free_;

  Graph out_;
  std::vector<Copies> copies_;  // by node id of the program
  absl::flat_hash_map<Output, Values> values_;
  absl::flat_hash_map<Output, Output> whole_;  // global values held by one node
  std::vector<Node*> kept_;                    // not removed, even if unused
};

}  // namespace

absl::StatusOr<Graph> ReplicatedGraph(const Graph& graph, const ReplicatedStep& step) {
  MF_RETURN_IF_ERROR(graph.status());
  if (step.num_replicas < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_replicas: expected at least 1, got ", step.num_replicas));
  }
  MF_ASSIGN_OR_RETURN(
      const VariableLayout layout,
      VariableLayout::Create(graph, DeviceTraits().bucket_bytes, step.num_replicas));
  const CompileTarget target = {
      .ops = &AllOps(),
      .kernels = &AllKernels(),
      .world = {.size = step.num_replicas, .num_domains = step.num_replicas}};
  GlobalSignature signature{{step.feeds, step.fetches, {}}, step.feed_shapes};
  for (const Operation& target : step.targets) signature.step.targets.push_back(target.node);
  MF_ASSIGN_OR_RETURN(const std::shared_ptr<const Program> program,
                      CompileProgram(graph, signature, layout, target, CompileOptions()));
  MF_ASSIGN_OR_RETURN(RowShards rows,
                      ShardRows(program->state.axes, step.replica_rows, step.num_replicas));
  return Replicator(graph, step, program->state, std::move(rows)).Run();
}

}  // namespace mirrorflow
