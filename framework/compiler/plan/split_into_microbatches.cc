// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/plan/split_into_microbatches.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

// The operands and results of a node that fit into this many micro-batches are not worth a split:
// they stay in the cache long enough without it.
constexpr int64_t kMinMicrobatches = 4;

// The whole batch and the rows of a micro-batch differ only in the number of local rows, as the
// shards of two replicas do.
absl::Status ShapeOfRows(ShapeContext& c) {
  c.set_info(0, c.input_info(0));
  return absl::OkStatus();
}

const OpDef& SliceRowsOp() {
  static const auto* const op = new OpDef{.name = "_SliceRows",
                                          .inputs = {{.name = "x", .type_attr = "T"}},
                                          .outputs = {{.name = "y", .type_attr = "T"}},
                                          .attrs = {{.name = "T", .type = "type"}},
                                          .role = OpRole::kSliceRows,
                                          .shape = ShapeOfRows};
  return *op;
}

const OpDef& JoinRowsOp() {
  static const auto* const op =
      new OpDef{.name = "_JoinRows",
                .inputs = {{.name = "x", .type_attr = "T", .number_attr = "N"}},
                .outputs = {{.name = "y", .type_attr = "T"}},
                .attrs = {{.name = "N", .type = "int"}, {.name = "T", .type = "type"}},
                .role = OpRole::kJoinRows,
                .shape = ShapeOfRows};
  return *op;
}

struct Section {
  std::vector<Node*> nodes;  // in topological order
  int64_t largest = 0;       // the most bytes of rows that one node accesses
  int64_t saved = 0;         // bytes of memory traffic
};

// Splits the rows of one axis.
class Splitter {
 public:
  Splitter(PlanState& s, AxisId axis)
      : s_(s), axis_(axis), rows_(s.plan->axis_rows[static_cast<size_t>(axis)]) {}

  absl::StatusOr<bool> Run() {
    MF_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(s_.graph));
    FindRowWise(order);
    const Section section = FindSection(order);
    if (section.nodes.empty()) return false;
    MF_RETURN_IF_ERROR(Split(section.nodes, RowsOfMicrobatch(section.largest)));
    s_.RemoveDeadNodes();
    return true;
  }

 private:
  // Returns whether the value consists of rows of the axis that depend on the rows of a feed. The
  // rows are contiguous in memory.
  bool HasRows(const Output& value) const {
    const Sharded* sharded = AsSharded(s_.shardings.at(value));
    return sharded != nullptr && sharded->axis == axis_ && sharded->dim == 0 &&
           fed_[value.node->id()];
  }

  // Returns whether each row of the node's results is computed from the same row of its operands
  // and from values that all rows share.
  bool IsRowWise(const Node& node) const {
    const OpDef& op = node.op();
    constexpr uint32_t kUnsplit = kStateful | kRandom | kPerReplica;
    if (!Computes(op) || (op.traits & kUnsplit) != 0) return false;
    if (!node.control_inputs().empty() || absl::c_linear_search(s_.targets, &node)) return false;
    const auto orders = [](const Use& use) { return use.slot == Use::kControl; };
    if (absl::c_any_of(node.uses(), orders)) return false;
    bool takes_rows = false;
    for (const Output& in : node.inputs()) {
      if (!HasRows(in) && !IsReplicated(s_.shardings.at(in))) return false;
      takes_rows |= HasRows(in);
    }
    for (int i = 0; i < node.num_outputs(); ++i) {
      if (!HasRows(node.output(i))) return false;
    }
    return takes_rows;
  }

  void FindRowWise(const std::vector<Node*>& order) {
    std::vector<Node*> feeds;
    for (const Output& feed : s_.feeds) feeds.push_back(feed.node);
    fed_ = Dependents(s_.graph, feeds);
    row_wise_.resize(s_.graph.id_limit());
    std::vector<Node*> row_wise;
    for (Node* node : order) {
      if (!IsRowWise(*node)) continue;
      row_wise_[node->id()] = true;
      row_wise.push_back(node);
    }
    depends_on_rows_ = Dependents(s_.graph, row_wise);
  }

  static bool IsView(const Node& node) { return node.op().has(kView); }

  // Returns the bytes of all rows that the node reads and writes.
  int64_t BytesOfRows(const Node& node) const {
    if (IsView(node)) return 0;
    int64_t bytes = 0;
    for (const Output& in : node.inputs()) bytes += HasRows(in) ? s_.LocalBytes(in) : 0;
    for (int i = 0; i < node.num_outputs(); ++i) bytes += s_.LocalBytes(node.output(i));
    return bytes;
  }

  // Returns the bytes that each micro-batch reads anew.
  int64_t BytesOfWeights(const Node& node) const {
    int64_t bytes = 0;
    for (int i = 0; i < node.num_inputs(); ++i) {
      const Output& in = node.input(i);
      if (!HasRows(in) && !node.is_static_input(i)) bytes += s_.LocalBytes(in);
    }
    return bytes;
  }

  bool IsLarge(int64_t bytes) const {
    return bytes / kMinMicrobatches > s_.options.microbatch_bytes;
  }

  // Returns the rows of a micro-batch with `microbatch_bytes` of a node that accesses `bytes` for
  // all rows. Prefers micro-batches of equal sizes, which need the kernels of one size only.
  int64_t RowsOfMicrobatch(int64_t bytes) const {
    const int64_t bytes_of_row = std::max<int64_t>(bytes / rows_, 1);
    const int64_t most = std::max<int64_t>(s_.options.microbatch_bytes / bytes_of_row, 1);
    for (int64_t rows = most; 2 * rows > most; --rows) {
      if (rows_ % rows == 0) return rows;
    }
    const int64_t count = (rows_ + most - 1) / most;
    return (rows_ + count - 1) / count;
  }

  // Returns the section that saves the most memory traffic: a large node reads and writes its rows
  // in the cache, but each micro-batch reads the weights. No node between those of a section
  // depends on them unless it belongs to the section, too. Returns an empty section if no split
  // saves anything.
  Section FindSection(const std::vector<Node*>& order) const {
    int64_t largest = 0;
    for (const Node* node : order) {
      if (row_wise_[node->id()]) largest = std::max(largest, BytesOfRows(*node));
    }
    if (rows_ < 2 || !IsLarge(largest)) return {};
    const int64_t microbatches = rows_ / RowsOfMicrobatch(largest);
    Section section, best;
    for (Node* node : order) {
      if (row_wise_[node->id()]) {
        const int64_t bytes = BytesOfRows(*node);
        section.nodes.push_back(node);
        section.largest = std::max(section.largest, bytes);
        section.saved += (IsLarge(bytes) ? bytes : 0) - microbatches * BytesOfWeights(*node);
        if (section.saved > best.saved) best = section;
      }
      const bool ends = !row_wise_[node->id()] && depends_on_rows_[node->id()];
      if (ends || section.saved < 0) section = {};
    }
    return best;
  }

  // Splits the nodes into micro-batches of `rows` rows; the last can have fewer.
  absl::Status Split(const std::vector<Node*>& nodes, int64_t rows) {
    std::vector<char> inside(s_.graph.id_limit());
    for (const Node* node : nodes) inside[node->id()] = true;
    std::vector<Output> results;
    for (Node* node : nodes) {
      for (int i = 0; i < node->num_outputs(); ++i) {
        const Output value = node->output(i);
        const bool leaves = absl::c_any_of(node->uses(), [&](const Use& use) {
          return use.user->input(use.slot) == value && !inside[use.user->id()];
        });
        if (leaves || s_.IsFetched(value)) results.push_back(value);
      }
    }
    std::vector<std::vector<Output>> parts(results.size());
    for (int64_t first = 0; first < rows_; first += rows) {
      MF_ASSIGN_OR_RETURN(const CopiesOfValues copies,
                          Copy(nodes, first, std::min(rows, rows_ - first)));
      for (size_t i = 0; i < results.size(); ++i) parts[i].push_back(copies.at(results[i]));
    }
    for (size_t i = 0; i < results.size(); ++i) {
      Node* const join = s_.scope()
                             .WithName(absl::StrCat(results[i].node->name(), "/rows"))
                             .Build(JoinRowsOp())
                             .InputList(parts[i])
                             .Finish();
      MF_RETURN_IF_ERROR(s_.graph.status());
      SetRows(join->output(0), results[i], rows_);
      s_.ReplaceValue(results[i], join->output(0));
    }
    return absl::OkStatus();
  }

  using CopiesOfValues = absl::flat_hash_map<Output, Output>;

  // Copies the nodes for rows [first, first + rows). Returns the copies of all values with rows
  // that they read and write.
  absl::StatusOr<CopiesOfValues> Copy(const std::vector<Node*>& nodes, int64_t first,
                                      int64_t rows) {
    CopiesOfValues copies;
    for (const Node* node : nodes) {
      std::vector<Output> inputs(node->inputs().begin(), node->inputs().end());
      for (Output& in : inputs) {
        if (!HasRows(in)) continue;
        Output& copy = copies[in];
        if (!copy.valid()) {
          copy = s_.scope()
                     .WithName(absl::StrCat(in.node->name(), "/rows_from_", first))
                     .Build(SliceRowsOp())
                     .Input(in)
                     .Attr(kFirstRowAttr, first)
                     .One();
          MF_RETURN_IF_ERROR(s_.graph.status());
          SetRows(copy, in, rows);
        }
        in = copy;
      }
      const std::string name = absl::StrCat(node->name(), "/rows_from_", first);
      MF_ASSIGN_OR_RETURN(Node * copy, s_.graph.AddNode(s_.graph.UniqueName(name), node->op(),
                                                        node->attrs(), std::move(inputs)));
      s_.graph.SetAttr(copy, kFirstRowAttr, first);
      for (int i = 0; i < node->num_outputs(); ++i) {
        s_.values().Set(copy->output(i), s_.values().at(node->output(i)));
        SetRows(copy->output(i), node->output(i), rows);
        copies[node->output(i)] = copy->output(i);
      }
    }
    return copies;
  }

  // Gives `value` the sharding of `original`, and its local shape with `rows` rows.
  void SetRows(const Output& value, const Output& original, int64_t rows) {
    const Sharding sharding = s_.shardings.at(original);
    s_.shardings.Set(value, sharding);
    Shape shape = s_.local_shape(original);
    shape.set_dim(0, rows * AsSharded(sharding)->factor);
    s_.shapes.resize(s_.graph.id_limit());
    s_.shapes[value.node->id()].push_back(std::move(shape));
  }

  PlanState& s_;
  const AxisId axis_;
  const int64_t rows_;                 // of the whole batch, on this replica
  std::vector<char> fed_;              // by node id: whether it depends on a feed
  std::vector<char> row_wise_;         // by node id; false for the nodes that the pass adds
  std::vector<char> depends_on_rows_;  // by node id: whether it depends on a row-wise node
};

bool Writes(const PlanState& s) {
  return absl::c_any_of(s.graph.Nodes(),
                        [](const Node* node) { return node->op().role == OpRole::kWrite; });
}

}  // namespace

absl::StatusOr<bool> SplitIntoMicrobatches::Run(PlanState& s) {
  if (!s.traits.host_memory || s.options.microbatch_bytes == 0 || Writes(s)) return false;
  for (AxisId axis = 0; axis < static_cast<AxisId>(s.axes.size()); ++axis) {
    MF_ASSIGN_OR_RETURN(const bool split, Splitter(s, axis).Run());
    if (split) return true;
  }
  return false;
}

}  // namespace mirrorflow
