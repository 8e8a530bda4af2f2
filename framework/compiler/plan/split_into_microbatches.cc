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

// A node that would need at most this many micro-batches is not worth splitting: its operands and
// results mostly stay in the cache anyway.
constexpr int64_t kTooFewMicrobatches = 4;
// Bounds the size of a plan and the time to compile it.
constexpr int64_t kMaxMicrobatches = 64;

// A slice keeps the global shape of the whole batch and has fewer local rows, like the shard of a
// replica.
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

// This replica's rows of one axis, and the values that are sharded along it.
class BatchRows {
 public:
  BatchRows(const PlanState& s, AxisId axis)
      : s_(s), axis_(axis), count_(s.plan->axis_rows[static_cast<size_t>(axis)]) {
    std::vector<Node*> feeds;
    for (const Output& feed : s.feeds) feeds.push_back(feed.node);
    depends_on_feed_ = Dependents(s.graph, feeds);
  }

  int64_t count() const { return count_; }

  // Returns whether the value is sharded along this axis and its rows are contiguous in memory.
  // REQUIRES: the value existed when this object was created.
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

// Nodes in topological order, and the size of a micro-batch in rows. The last one may be smaller.
struct Section {
  std::vector<Node*> nodes;
  int64_t rows = 0;
};

// Chooses the section to split.
class SectionFinder {
 public:
  SectionFinder(const PlanState& s, const BatchRows& rows) : s_(s), rows_(rows) {}

  // Returns the section that saves the most memory traffic, or nullopt if splitting saves none. No
  // node outside the section is on a path between two of its nodes.
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
  // Returns the range of `order` whose row-wise nodes save the most memory traffic when they run in
  // micro-batches. The results of a large node stay in the cache if their last use is also in the
  // range. On the other hand, every micro-batch reads the weights again.
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

  // Returns whether each row of the node's results depends only on the same row of its sharded
  // operands and on replicated operands.
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
      // A per-replica result, such as a mean over the replica's rows, depends on all rows. The
      // node's other results may depend on all rows, too.
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

  // Returns the total size of the node's operands and results that have rows of this axis.
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

  // Returns the size of the operands that every micro-batch has to read.
  int64_t BytesOfWeights(const Node& node) const {
    int64_t bytes = 0;
    for (int i = 0; i < node.num_inputs(); ++i) {
      const Output& in = node.input(i);
      if (!rows_.In(in) && !node.is_static_input(i)) bytes += s_.LocalBytes(in);
    }
    return bytes;
  }

  // Returns, for each node of `order`, the producers of which it is the last user. A view does not
  // count as a user, but its own users do.
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

  // Returns the memory traffic saved by keeping the node's results in the cache until their last
  // use.
  int64_t BytesKept(const Node& node) const {
    return IsLarge(BytesOfRows(node)) ? 2 * BytesOfResults(node) : 0;
  }

  bool IsLarge(int64_t bytes) const {
    return bytes / kTooFewMicrobatches > s_.options.microbatch_bytes;
  }

  // Returns the size of a micro-batch, in rows, for a node that accesses `bytes` for the whole
  // batch. Prefers a divisor of the batch size, so that all micro-batches have the same shapes.
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

// Replaces a section with one clone for each micro-batch.
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

  // Returns the results that are used outside the section. For a view, it returns the value that
  // the kernel behind the view writes; the view itself is kept and reads the joined value.
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

  // Clones the section for rows [first, first + count). Maps each value with rows that the section
  // reads or writes to its slice.
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

  // Sets the sharding and local shape of `value`, which holds `count` rows of `original`.
  void Describe(const Output& value, const Output& original, int64_t count) {
    const Sharding sharding = s_.shardings.at(original);
    Shape shape = s_.local_shape(original);
    // An unused result need not be sharded.
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
