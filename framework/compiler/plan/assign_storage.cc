// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/plan/assign_storage.h"

#include <algorithm>

#include "framework/compiler/bucket_gradients.h"
#include "framework/compiler/invariants.h"
#include "framework/compiler/passes/order_variables.h"

namespace mirrorflow {
namespace {

// Returns true for all-reduces, which have as many outputs as inputs; other collectives produce one
// new value.
bool ReducesInPlace(const Node& node) {
  return node.op().role == OpRole::kCollective && !IsBarrier(node) && !ChangesRows(node);
}

class Assigner {
 public:
  explicit Assigner(PlanState& s) : s_(s), table_(s.storage) {}

  void Run() {
    PlaceCollectives();
    for (const Node* node : s_.order) {
      if (node->op().role == OpRole::kJoinRows) PlaceJoin(*node);
    }
    for (const ConcatSlice& slice : s_.slices) PlaceSlice(slice);
    // EmitInstructions assigns storage to the values that are computed as forms.
    for (const Node* node : s_.order) {
      if (!s_.invariants->IsComputed(*node)) AssignNode(*node);
    }
    for (const Output& fetch : s_.fetches) {
      if (const int root = table_.RootOf(fetch); root >= 0) table_.all[root].fetched = true;
    }
    ShareInPlace();
  }

 private:
  bool ReadsForm(const Node& node, int input) const {
    if (s_.invariants->IsComputed(node)) return true;
    const std::vector<OperandForm>& forms = s_.kernel_plans[node.id()].forms;
    return std::any_of(forms.begin(), forms.end(),
                       [input](const OperandForm& form) { return form.input == input; });
  }

  // Returns true if the value is needed at run time. A static operand is not: it is read when the
  // plan is made.
  bool IsOperand(const Output& output) const {
    for (const Use& use : output.node->uses()) {
      if (use.slot != Use::kControl && use.user->input(use.slot) == output &&
          !use.user->is_static_input(use.slot) && !ReadsForm(*use.user, use.slot)) {
        return true;
      }
    }
    return s_.IsFetched(output);
  }

  // Follows views from `value` back to the output of a kernel, and returns that output. Returns an
  // invalid output if there is no such kernel, or if anything else uses the output or a view in
  // between.
  Output SoleProducer(const Output& value) const {
    Output at = value;
    while (true) {
      if (!s_.IsUsedOnce(at)) return Output();
      const OpDef& op = at.node->op();
      if (!Computes(op)) return Output();
      if (!op.has(kView)) return at;
      at = at.node->input(0);
    }
  }

  // Assigns storage to the operands of all-reduces before any other value, so that the kernels that
  // produce them write there directly.
  void PlaceCollectives() {
    const BucketGradients bucket_gradients = FindBucketGradients(s_);
    for (const Node* node : s_.collectives) {
      if (!ReducesInPlace(*node)) continue;
      StorageTable::Slots& slots = table_.slots[node->id()];
      const int64_t element = static_cast<int64_t>(DataTypeSize(node->output_dtype(0)));
      const auto first = bucket_gradients.find(node->output(0));
      const bool in_bucket = first != bucket_gradients.end() && node->attr<int64_t>("bucket") >= 0;
      int group = -1;
      int64_t end = 0;
      if (!in_bucket) group = table_.Add({.pinned = true});
      for (int i = 0; i < node->num_outputs(); ++i) {
        Storage slot{.bytes = s_.LocalBytes(node->output(i)), .pinned = true};
        if (in_bucket) {
          const VariableInfo& v = s_.layout->variables()[bucket_gradients.at(node->output(i))];
          slot.region = s_.plan->layout_region(s_.layout->buckets()[v.bucket].gradient_region);
          slot.offset = v.offset;
          end = v.offset + slot.bytes;
        } else {
          // Slots are aligned like any operand, so the all-reduce also covers the padding.
          slot.parent = group;
          slot.offset = static_cast<int64_t>(AlignUp(end));
          end = slot.offset + slot.bytes;
        }
        slots.storages.push_back(table_.Add(node->output(i), slot));
        const Output producer = SoleProducer(node->input(i));
        const bool direct = producer.valid() && table_.of(producer) < 0;
        if (direct) table_.Set(producer, slots.storages.back());
        slots.needs_copy.push_back(!direct);
      }
      if (!in_bucket) table_.all[group].bytes = end;
      slots.count = (end - (in_bucket ? table_.all[slots.storages[0]].offset : 0)) / element;
    }
  }

  // Places all joined rows in one storage. The kernels that produce them write directly into it.
  void PlaceJoin(const Node& node) {
    const int joined = table_.Add(node.output(0), {.bytes = s_.LocalBytes(node.output(0))});
    int64_t end = 0;
    for (const Output& rows : node.inputs()) {
      table_.Add(rows, {.bytes = s_.LocalBytes(rows), .offset = end, .parent = joined});
      end += s_.LocalBytes(rows);
    }
  }

  // Places an input of a Concat in its output.
  void PlaceSlice(const ConcatSlice& placed) {
    const InputSlice& slice = placed.slice;
    int whole = table_.of(placed.whole());
    if (whole < 0) whole = table_.Add(placed.whole(), {.bytes = s_.LocalBytes(placed.whole())});
    Storage storage = {
        .bytes = s_.LocalBytes(placed.value()), .offset = slice.offset, .parent = whole};
    if (slice.row_stride > 0) {
      const Shape& shape = s_.local_shape(placed.value());
      storage.rows = shape.num_elements_before(shape.rank() - 1);
      storage.row_stride = slice.row_stride;
    }
    table_.Add(placed.value(), storage);
  }

  void AssignNode(const Node& node) {
    const OpDef& op = node.op();
    if (op.role == OpRole::kPlaceholder) {
      const auto it = std::find(s_.feeds.begin(), s_.feeds.end(), node.output(0));
      table_.Add(node.output(0),
                 {.bytes = s_.LocalBytes(node.output(0)),
                  .region = s_.plan->feed_region(static_cast<int>(it - s_.feeds.begin())),
                  .pinned = !s_.owns_feeds});
    } else if (op.role == OpRole::kVariable) {
      const VariableInfo& v = s_.layout->variables()[s_.layout->FindHandle(node.output(0))];
      table_.Add(node.output(0), {.bytes = v.bytes(),
                                  .region = s_.plan->layout_region(v.region),
                                  .offset = v.offset,
                                  .pinned = true});
    } else if (op.role == OpRole::kConstant) {
      if (!IsOperand(node.output(0))) return;
      table_.Add(node.output(0), {.bytes = s_.LocalBytes(node.output(0)),
                                  .region = Plan::kConstantsRegion,
                                  .offset = table_.constants_bytes,
                                  .pinned = true});
      table_.constants.emplace_back(&node, table_.constants_bytes);
      table_.constants_bytes += static_cast<int64_t>(AlignUp(s_.LocalBytes(node.output(0))));
    } else if ((op.role == OpRole::kRead && !node.has_attr(kCopyAttr)) ||
               (Computes(op) && op.has(kView))) {
      // A handle that passed through an Identity also has the variable's storage.
      const int in = table_.of(node.input(0));
      if (in >= 0) table_.Set(node.output(0), in);
    } else if (op.role == OpRole::kSliceRows) {
      const Output& whole = node.input(0);
      const int64_t rows = s_.plan->axis_rows[AsSharded(s_.shardings.at(whole))->axis];
      const int64_t first = node.attr<int64_t>(kFirstRowAttr);
      table_.Add(node.output(0), {.bytes = s_.LocalBytes(node.output(0)),
                                  .offset = s_.LocalBytes(whole) / rows * first,
                                  .parent = table_.of(whole)});
    } else {
      for (int i = 0; i < node.num_outputs(); ++i) {
        if (table_.of(node.output(i)) >= 0) continue;  // it is already placed
        const bool gathers = op.role == OpRole::kCollective;
        table_.Add(node.output(i), {.bytes = s_.LocalBytes(node.output(i)), .pinned = gathers});
      }
      if (!IsCollective(node) || ReducesInPlace(node)) return;
      for (const Output& in : node.inputs()) {
        if (const int root = table_.RootOf(in); root >= 0) table_.all[root].pinned = true;
      }
    }
  }

  void ShareInPlace() {
    std::vector<int> last_read(table_.all.size(), -1);
    for (size_t p = 0; p < s_.order.size(); ++p) {
      // A view itself reads nothing, but its users run later and have the same root storage.
      for (const Output& in : s_.order[p]->inputs()) {
        if (const int root = table_.RootOf(in); root >= 0) last_read[root] = static_cast<int>(p);
      }
    }
    for (size_t p = 0; p < s_.order.size(); ++p) {
      const Node& node = *s_.order[p];
      for (const auto& [i, o] : s_.kernel_plans[node.id()].in_place) {
        const int in = table_.RootOf(node.input(i));
        const int out = table_.of(node.output(o));
        if (in < 0 || out < 0 || table_.all[out].parent >= 0) continue;
        const Storage &from = table_.all[in], &to = table_.all[out];
        // If the input is a slice of `from`, the sizes differ.
        const bool both_free = !from.pinned && !from.fetched && to.region == kNoRegion &&
                               !to.pinned && from.bytes == to.bytes && in != out;
        if (!both_free || last_read[in] != static_cast<int>(p)) continue;
        int readers = 0;  // operands in this memory: a second one could be read after the write
        for (const Output& other : node.inputs()) readers += table_.RootOf(other) == in;
        for (int k = 0; k < node.num_outputs(); ++k) readers += table_.RootOf(node.output(k)) == in;
        if (readers != 1) continue;
        table_.all[out].parent = in;
        table_.all[out].offset = 0;
        table_.all[in].fetched = table_.all[out].fetched;
        last_read[in] = std::max(last_read[in], last_read[out]);
      }
    }
  }

  PlanState& s_;
  StorageTable& table_;
};

}  // namespace

absl::StatusOr<bool> AssignStorage::Run(PlanState& s) {
  s.storage = StorageTable(s.graph);
  Assigner(s).Run();
  return true;
}

}  // namespace mirrorflow
