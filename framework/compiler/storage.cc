// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/storage.h"

#include <algorithm>

#include "framework/compiler/gradient_places.h"
#include "framework/core/status.h"
#include "framework/runtime/plan.h"

namespace mirrorflow {
namespace {

// All-reduces have as many outputs as inputs; the other collectives make one new value.
bool ReducesInPlace(const Node& node) {
  return node.op().role == OpRole::kCollective && !ChangesRows(node);
}

}  // namespace

StorageTable::StorageTable(const Compilation& c, const LocalShapes& shapes,
                           const std::vector<Node*>& order,
                           const std::vector<KernelPlan>& kernel_plans,
                           RegionId first_layout_region, bool owns_feeds)
    : c_(c), shapes_(shapes), first_layout_region_(first_layout_region), owns_feeds_(owns_feeds) {
  PlaceCollectives();
  for (const Node* node : order) AssignNode(*node);
  for (const Output& fetch : c.fetches) {
    if (of(fetch) >= 0) storages_[Root(of(fetch))].fetched = true;
  }
  ShareInPlace(order, kernel_plans);
}

int StorageTable::of(const Output& output) const {
  const auto it = of_.find(output);
  return it != of_.end() ? it->second : -1;
}

int StorageTable::Root(int storage) const {
  while (storages_[storage].parent >= 0) storage = storages_[storage].parent;
  return storage;
}

int64_t StorageTable::OffsetInRoot(int storage) const {
  int64_t offset = 0;
  for (; storages_[storage].parent >= 0; storage = storages_[storage].parent) {
    offset += storages_[storage].offset;
  }
  return offset;
}

int StorageTable::Add(Storage storage) {
  storages_.push_back(storage);
  return static_cast<int>(storages_.size()) - 1;
}

int64_t StorageTable::Bytes(const Output& output) const {
  return shapes_[output.node->id()][output.index].num_elements() *
         static_cast<int64_t>(DataTypeSize(output.dtype()));
}

// Whether anybody needs the value at run time: a static operand is read when the plan is made.
bool StorageTable::IsOperand(const Output& output) const {
  for (const Use& use : output.node->uses()) {
    if (use.slot != Use::kControl && use.user->input(use.slot) == output &&
        !use.user->is_static_input(use.slot)) {
      return true;
    }
  }
  return std::find(c_.fetches.begin(), c_.fetches.end(), output) != c_.fetches.end();
}

Output StorageTable::SoleProducer(const Output& value) const {
  Output at = value;
  while (true) {
    int uses = 0;
    for (const Use& use : at.node->uses()) {
      if (use.slot != Use::kControl && use.user->input(use.slot) == at) ++uses;
    }
    if (uses != 1 || std::find(c_.fetches.begin(), c_.fetches.end(), at) != c_.fetches.end()) {
      return Output();
    }
    const OpDef& op = at.node->op();
    if (!Computes(op)) return Output();
    if (!op.has(kView)) return at;
    at = at.node->input(0);
  }
}

// Gives the operands of each all-reduce their places before anything else, and lets the kernels
// that make them write there.
void StorageTable::PlaceCollectives() {
  const GradientPlaces places = FindGradientPlaces(c_);
  for (const Node* node : c_.collectives) {
    if (!ReducesInPlace(*node)) continue;
    Slots& slots = slots_[node->id()];
    const int64_t element = static_cast<int64_t>(DataTypeSize(node->output_dtype(0)));
    const auto first = places.find(node->output(0));
    const bool in_bucket = first != places.end() && node->attr<int64_t>("bucket") >= 0;
    int group = -1;
    int64_t end = 0;
    if (!in_bucket) group = Add({.pinned = true});
    for (int i = 0; i < node->num_outputs(); ++i) {
      Storage slot{.bytes = Bytes(node->output(i)), .pinned = true};
      if (in_bucket) {
        const VariableInfo& v = c_.layout->variables()[places.at(node->output(i))];
        slot.region = first_layout_region_ + c_.layout->buckets()[v.bucket].gradient_region;
        slot.offset = v.offset;
        end = v.offset + slot.bytes;
      } else {
        slot.parent = group;
        slot.offset = end;
        end += slot.bytes;
      }
      slots.storages.push_back(Add(slot));
      of_[node->output(i)] = slots.storages.back();
      const Output producer = SoleProducer(node->input(i));
      const bool direct = producer.valid() && of(producer) < 0;
      if (direct) of_[producer] = slots.storages.back();
      slots.needs_copy.push_back(!direct);
    }
    if (!in_bucket) storages_[group].bytes = end;
    slots.count = (end - (in_bucket ? storages_[slots.storages[0]].offset : 0)) / element;
  }
}

void StorageTable::AssignNode(const Node& node) {
  const OpDef& op = node.op();
  if (op.role == OpRole::kPlaceholder) {
    const auto it = std::find(c_.feeds.begin(), c_.feeds.end(), node.output(0));
    of_[node.output(0)] =
        Add({.bytes = Bytes(node.output(0)),
             .region = Plan::kFirstFeedRegion + static_cast<RegionId>(it - c_.feeds.begin()),
             .pinned = !owns_feeds_});
  } else if (op.role == OpRole::kVariable) {
    const VariableInfo& v = c_.layout->variables()[c_.layout->FindHandle(node.output(0))];
    of_[node.output(0)] = Add({.bytes = v.bytes(),
                               .region = first_layout_region_ + v.region,
                               .offset = v.offset,
                               .pinned = true});
  } else if (op.role == OpRole::kConstant) {
    if (!IsOperand(node.output(0))) return;
    of_[node.output(0)] = Add({.bytes = Bytes(node.output(0)),
                               .region = Plan::kConstantsRegion,
                               .offset = constants_bytes_,
                               .pinned = true});
    constants_.emplace_back(&node, constants_bytes_);
    constants_bytes_ += static_cast<int64_t>(AlignUp(Bytes(node.output(0))));
  } else if ((op.role == OpRole::kRead && !node.has_attr(kCopyAttr)) ||
             (Computes(op) && op.has(kView))) {
    // A handle that came through an identity has the variable's storage too.
    if (of(node.input(0)) >= 0) of_[node.output(0)] = of(node.input(0));
  } else {
    for (int i = 0; i < node.num_outputs(); ++i) {
      if (of(node.output(i)) >= 0) continue;  // placed by a collective
      const bool gathers = op.role == OpRole::kCollective;
      of_[node.output(i)] = Add({.bytes = Bytes(node.output(i)), .pinned = gathers});
    }
    if (!IsCollective(node) || ReducesInPlace(node)) return;
    for (const Output& in : node.inputs()) {
      if (of(in) >= 0) storages_[Root(of(in))].pinned = true;
    }
  }
}

void StorageTable::ShareInPlace(const std::vector<Node*>& order,
                                const std::vector<KernelPlan>& kernel_plans) {
  std::vector<int> last_read(storages_.size(), -1);
  for (size_t p = 0; p < order.size(); ++p) {
    // A view reads nothing, but its users are behind it in the order and are seen there.
    for (const Output& in : order[p]->inputs()) {
      if (of(in) >= 0) last_read[Root(of(in))] = static_cast<int>(p);
    }
  }
  for (size_t p = 0; p < order.size(); ++p) {
    const Node& node = *order[p];
    const KernelPlan& plan = kernel_plans[node.id()];
    for (const auto& [i, o] : plan.in_place) {
      const int in = of(node.input(i)) >= 0 ? Root(of(node.input(i))) : -1;
      const int out = of(node.output(o));
      if (in < 0 || out < 0 || storages_[out].parent >= 0) continue;
      const Storage &from = storages_[in], &to = storages_[out];
      const bool both_free = !from.pinned && !from.fetched && to.region == kNoRegion &&
                             !to.pinned && from.bytes == to.bytes && in != out;
      if (!both_free || last_read[in] != static_cast<int>(p)) continue;
      int readers = 0;  // the same memory as another operand of this node could be read too late
      for (const Output& other : node.inputs()) readers += of(other) >= 0 && Root(of(other)) == in;
      for (int k = 0; k < node.num_outputs(); ++k) readers += Root(of(node.output(k))) == in;
      if (readers != 1) continue;
      storages_[out].parent = in;
      storages_[out].offset = 0;
      storages_[in].fetched = storages_[out].fetched;
      last_read[in] = std::max(last_read[in], last_read[out]);
    }
  }
}

}  // namespace mirrorflow
