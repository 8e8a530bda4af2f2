// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/plan/split_into_microbatches.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

// A node whose operands and results fit into this many micro-batches is not worth splitting: they
// mostly stay in the cache anyway.
constexpr int64_t kTooFewMicrobatches = 4;
// Limits the size of plans, and the time to compile them.
constexpr int64_t kMaxMicrobatches = 64;

// The global shape stays that of the whole batch. Only the number of local rows differs, as between
// the shards of two replicas.
absl::Status ShapeOfWholeBatch(ShapeContext& c) {
  c.set_info(0, c.input_info(0));
  return absl::OkStatus();
}

const OpDef& SliceRowsOp() {
  static const auto* const op = new OpDef{.name = "_SliceRows",
                                          .inputs = {{.name = "x", .type_attr = "T"}},
                                          .outputs = {{.name = "y", .type_attr = "T"}},
                                          .attrs = {{.name = "T", .type = "type"}},
                                          .role = OpRole::kSliceRows,
                                          .shape = ShapeOfWholeBatch};
  return *op;
}

const OpDef& JoinRowsOp() {
  static const auto* const op =
      new OpDef{.name = "_JoinRows",
                .inputs = {{.name = "x", .type_attr = "T", .number_attr = "N"}},
                .outputs = {{.name = "y", .type_attr = "T"}},
                .attrs = {{.name = "N", .type = "int"}, {.name = "T", .type = "type"}},
                .role = OpRole::kJoinRows,
                .shape = ShapeOfWholeBatch};
  return *op;
}

bool IsView(const Node& node) { return node.op().has(kView); }

bool IsUsed(const PlanState& s, const Output& value) {
  return s.IsFetched(value) || absl::c_any_of(value.node->uses(), [&](const Use& use) {
           return use.slot != Use::kControl && use.user->input(use.slot) == value;
         });
}

// The rows of one axis that this replica has, and the values that consist of them.
class BatchRows {
 public:
  BatchRows(const PlanState& s, AxisId axis)
      : s_(s), axis_(axis), count_(s.plan->axis_rows[static_cast<size_t>(axis)]) {
    std::vector<Node*> feeds;
    for (const Output& feed : s.feeds) feeds.push_back(feed.node);
    depends_on_feed_ = Dependents(s.graph, feeds);
  }

  int64_t count() const { return count_; }

  // Returns whether the value consists of these rows, contiguous in memory. REQUIRES: the value
  // existed when this object was created.
  bool In(const Output& value) const {
    const Sharded* sharded = AsSharded(s_.shardings.at(value));
    return sharded != nullptr && sharded->axis == axis_ && sharded->dim == 0 &&
           depends_on_feed_[value.node->id()];
  }

 private:
  const PlanState& s_;
  const AxisId axis_;
  const int64_t count_;
  std::vector<char> depends_on_feed_;  // by node id
};

// Nodes in topological order, and the number of rows of each micro-batch; the last may have fewer.
struct Section {
  std::vector<Node*> nodes;
  int64_t rows = 0;
};

// Chooses the section to split.
class SectionFinder {
 public:
  SectionFinder(const PlanState& s, const BatchRows& rows) : s_(s), rows_(rows) {}

  // Returns the section that saves the most memory traffic. No node between its nodes depends on
  // them unless it belongs to the section, too. Returns nullopt if no split saves anything.
  absl::StatusOr<std::optional<Section>> Find() {
    MF_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(s_.graph));
    FindRowWise(order);
    const int64_t largest = MostBytesOfRows(order);
    if (rows_.count() < 2 || !IsLarge(largest)) return std::nullopt;
    const absl::Span<Node* const> range =
        RangeThatSavesMost(order, rows_.count() / RowsOfMicrobatch(largest));
    if (range.empty()) return std::nullopt;
    Section section{.rows = RowsOfMicrobatch(MostBytesOfRows(range))};
    absl::c_copy_if(range, std::back_inserter(section.nodes),
                    [this](const Node* node) { return row_wise_[node->id()]; });
    return section;
  }

 private:
  // Returns the part of `order` whose row-wise nodes save the most bytes of memory traffic if they
  // run in micro-batches. The results of a large node stay in the cache until their last use, if
  // that is in the range, too. But each of the `microbatches` reads the weights.
  absl::Span<Node* const> RangeThatSavesMost(absl::Span<Node* const> order,
                                             int64_t microbatches) const {
    const std::vector<std::vector<size_t>> last_used = FindLastUses(order);
    absl::Span<Node* const> best;
    int64_t most_saved = 0;
    size_t first = 0;
    int64_t saved = 0;    // by [first, i]
    int64_t pending = 0;  // what the results that later nodes use can still save
    for (size_t i = 0; i < order.size(); ++i) {
      const Node& node = *order[i];
      if (row_wise_[node.id()]) {
        saved -= microbatches * BytesOfWeights(node);
        pending += BytesKept(node);
        for (const size_t producer : last_used[i]) {
          if (producer < first || !row_wise_[order[producer]->id()]) continue;
          saved += BytesKept(*order[producer]);
          pending -= BytesKept(*order[producer]);
        }
        if (saved > most_saved) {
          most_saved = saved;
          best = order.subspan(first, i + 1 - first);
        }
      }
      const bool ends = !row_wise_[node.id()] && depends_on_rows_[node.id()];
      if (ends || saved + pending < 0) {
        first = i + 1;
        saved = pending = 0;
      }
    }
    return best;
  }

  void FindRowWise(absl::Span<Node* const> order) {
    row_wise_.resize(s_.graph.id_limit());
    std::vector<Node*> row_wise;
    for (Node* node : order) {
      if (!IsRowWise(*node)) continue;
      row_wise_[node->id()] = true;
      row_wise.push_back(node);
    }
    depends_on_rows_ = Dependents(s_.graph, row_wise);
  }

  // Returns whether the node computes each row of its results from the same row of its operands and
  // from values that all rows share.
  bool IsRowWise(const Node& node) const {
    const OpDef& op = node.op();
    if (!Computes(op) || op.has(kStateful) || op.has(kRandom) || op.has(kPerReplica)) return false;
    if (!node.control_inputs().empty() || absl::c_linear_search(s_.targets, &node)) return false;
    const auto orders = [](const Use& use) { return use.slot == Use::kControl; };
    if (absl::c_any_of(node.uses(), orders)) return false;
    bool takes_rows = false;
    for (const Output& in : node.inputs()) {
      if (!rows_.In(in) && !IsReplicated(s_.shardings.at(in))) return false;
      takes_rows |= rows_.In(in);
    }
    for (int i = 0; i < node.num_outputs(); ++i) {
      const Output result = node.output(i);
      // A result that differs between replicas, such as the mean of their rows, depends on all
      // rows; so may the other results.
      if (IsPerReplica(s_.shardings.at(result))) return false;
      if (!rows_.In(result) && IsUsed(s_, result)) return false;
    }
    return takes_rows;
  }

  int64_t MostBytesOfRows(absl::Span<Node* const> nodes) const {
    int64_t most = 0;
    for (const Node* node : nodes) {
      if (row_wise_[node->id()]) most = std::max(most, BytesOfRows(*node));
    }
    return most;
  }

  // Returns the bytes of all rows that the node reads and writes.
  int64_t BytesOfRows(const Node& node) const {
    if (IsView(node)) return 0;
    int64_t bytes = 0;
    for (const Output& in : node.inputs()) bytes += rows_.In(in) ? s_.LocalBytes(in) : 0;
    return bytes + BytesOfResults(node);
  }

  int64_t BytesOfResults(const Node& node) const {
    int64_t bytes = 0;
    for (int i = 0; i < node.num_outputs(); ++i) {
      if (rows_.In(node.output(i))) bytes += s_.LocalBytes(node.output(i));
    }
    return bytes;
  }

  // Returns the bytes that each micro-batch reads anew.
  int64_t BytesOfWeights(const Node& node) const {
    int64_t bytes = 0;
    for (int i = 0; i < node.num_inputs(); ++i) {
      const Output& in = node.input(i);
      if (!rows_.In(in) && !node.is_static_input(i)) bytes += s_.LocalBytes(in);
    }
    return bytes;
  }

  // Returns, for each node of `order`, the nodes whose results it is the last to use. Views use
  // nothing themselves.
  std::vector<std::vector<size_t>> FindLastUses(absl::Span<Node* const> order) const {
    std::vector<std::vector<size_t>> last_used(order.size());
    std::vector<size_t> last_use(s_.graph.id_limit());
    std::vector<size_t> position(s_.graph.id_limit());
    for (size_t i = order.size(); i-- > 0;) {
      const Node& node = *order[i];
      position[node.id()] = i;
      bool fetched = false;
      for (int o = 0; o < node.num_outputs(); ++o) fetched |= s_.IsFetched(node.output(o));
      size_t& last = last_use[node.id()] = fetched ? order.size() : i;
      for (const Use& use : node.uses()) {
        const NodeId user = use.user->id();
        last = std::max(last, IsView(*use.user) ? last_use[user] : position[user]);
      }
      if (last < order.size() && !IsView(node)) last_used[last].push_back(i);
    }
    return last_used;
  }

  // Returns the memory traffic that the node's results save if all their users are in the section.
  int64_t BytesKept(const Node& node) const {
    return IsLarge(BytesOfRows(node)) ? 2 * BytesOfResults(node) : 0;
  }

  bool IsLarge(int64_t bytes) const {
    return bytes / kTooFewMicrobatches > s_.options.microbatch_bytes;
  }

  // Returns the rows of a micro-batch with `microbatch_bytes` of a node that accesses `bytes` for
  // all rows. Prefers equal micro-batches, so that all have the same shapes.
  int64_t RowsOfMicrobatch(int64_t bytes) const {
    const int64_t count = rows_.count();
    const int64_t bytes_of_row = std::max<int64_t>(bytes / count, 1);
    const int64_t most = std::max(
        {s_.options.microbatch_bytes / bytes_of_row, CeilDiv(count, kMaxMicrobatches), int64_t{1}});
    for (int64_t rows = most; 2 * rows > most && CeilDiv(count, rows) <= kMaxMicrobatches; --rows) {
      if (count % rows == 0) return rows;
    }
    return CeilDiv(count, CeilDiv(count, most));
  }

  static int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

  const PlanState& s_;
  const BatchRows& rows_;
  std::vector<char> row_wise_;         // by node id
  std::vector<char> depends_on_rows_;  // by node id: whether it depends on a row-wise node
};

// Replaces a section with copies of it.
class Splitter {
 public:
  Splitter(PlanState& s, const BatchRows& rows, const Section& section)
      : s_(s), rows_(rows), section_(section) {}

  absl::Status Run() {
    const std::vector<Output> results = Results();
    std::vector<std::vector<Output>> parts(results.size());
    for (int64_t first = 0; first < rows_.count(); first += section_.rows) {
      MF_ASSIGN_OR_RETURN(const CopiesOfValues copies,
                          Copy(first, std::min(section_.rows, rows_.count() - first)));
      for (size_t i = 0; i < results.size(); ++i) parts[i].push_back(copies.at(results[i]));
    }
    for (size_t i = 0; i < results.size(); ++i) {
      const Output joined = s_.scope()
                                .WithName(absl::StrCat(results[i].node->name(), "/rows"))
                                .Build(JoinRowsOp())
                                .InputList(parts[i])
                                .One();
      MF_RETURN_IF_ERROR(s_.graph.status());
      Describe(joined, results[i], rows_.count());
      s_.ReplaceValue(results[i], joined);
    }
    s_.RemoveDeadNodes();
    return absl::OkStatus();
  }

 private:
  using CopiesOfValues = absl::flat_hash_map<Output, Output>;

  // Returns the values that leave the section. Only kernels can write rows in place, so a view that
  // leaves stays as it is, and reads the value behind it.
  std::vector<Output> Results() const {
    std::vector<char> inside(s_.graph.id_limit());
    for (const Node* node : section_.nodes) inside[node->id()] = true;
    std::vector<Output> results;
    for (Node* node : section_.nodes) {
      for (int i = 0; i < node->num_outputs(); ++i) {
        const Output value = node->output(i);
        const bool leaves =
            s_.IsFetched(value) || absl::c_any_of(node->uses(), [&](const Use& use) {
              return use.user->input(use.slot) == value && !inside[use.user->id()];
            });
        const Output result = StripViews(value);
        if (!leaves || !inside[result.node->id()]) continue;
        if (!absl::c_linear_search(results, result)) results.push_back(result);
      }
    }
    return results;
  }

  // Copies the section for rows [first, first + count). Returns the copies of all values with rows
  // that it reads and writes.
  absl::StatusOr<CopiesOfValues> Copy(int64_t first, int64_t count) {
    CopiesOfValues copies;
    for (const Node* node : section_.nodes) {
      std::vector<Output> inputs(node->inputs().begin(), node->inputs().end());
      for (Output& in : inputs) {
        if (!rows_.In(in)) continue;
        Output& copy = copies[in];
        if (!copy.valid()) {
          copy = s_.scope()
                     .WithName(absl::StrCat(in.node->name(), "/rows_from_", first))
                     .Build(SliceRowsOp())
                     .Input(in)
                     .Attr(kFirstRowAttr, first)
                     .One();
          MF_RETURN_IF_ERROR(s_.graph.status());
          Describe(copy, in, count);
        }
        in = copy;
      }
      const std::string name = absl::StrCat(node->name(), "/rows_from_", first);
      MF_ASSIGN_OR_RETURN(Node * copy, s_.graph.AddNode(s_.graph.UniqueName(name), node->op(),
                                                        node->attrs(), std::move(inputs)));
      s_.graph.SetAttr(copy, kFirstRowAttr, first);
      for (int i = 0; i < node->num_outputs(); ++i) {
        s_.values().Set(copy->output(i), s_.values().at(node->output(i)));
        Describe(copy->output(i), node->output(i), count);
        copies[node->output(i)] = copy->output(i);
      }
    }
    return copies;
  }

  // Records the sharding and local shape of `value`, which has `count` of the rows of `original`.
  void Describe(const Output& value, const Output& original, int64_t count) {
    const Sharding sharding = s_.shardings.at(original);
    Shape shape = s_.local_shape(original);
    // A result that nothing uses need not have rows.
    if (rows_.In(original)) shape.set_dim(0, count * AsSharded(sharding)->factor);
    s_.shardings.Set(value, sharding);
    s_.shapes.resize(s_.graph.id_limit());
    s_.shapes[value.node->id()].push_back(std::move(shape));
  }

  PlanState& s_;
  const BatchRows& rows_;
  const Section& section_;
};

bool Writes(const PlanState& s) {
  return absl::c_any_of(s.graph.Nodes(),
                        [](const Node* node) { return node->op().role == OpRole::kWrite; });
}

}  // namespace

absl::StatusOr<bool> SplitIntoMicrobatches::Run(PlanState& s) {
  if (!s.traits.host_memory || s.options.microbatch_bytes <= 0 || Writes(s)) return false;
  for (AxisId axis = 0; axis < static_cast<AxisId>(s.axes.size()); ++axis) {
    const BatchRows rows(s, axis);
    MF_ASSIGN_OR_RETURN(const std::optional<Section> section, SectionFinder(s, rows).Find());
    if (!section.has_value()) continue;
    MF_RETURN_IF_ERROR(Splitter(s, rows, *section).Run());
    return true;
  }
  return false;
}

}  // namespace mirrorflow
