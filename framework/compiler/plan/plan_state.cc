// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/plan/plan_state.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/graph/text_form.h"

namespace mirrorflow {

PlanState::PlanState(const Compilation& program, const std::vector<int64_t>& rows,
                     const DeviceTraits& device, std::shared_ptr<KernelLibrary> library,
                     TuningTable* tuning)
    : traits(device), tuning(tuning) {
  graph = program.graph.Clone();
  // Cloning preserves ids.
  const auto own = [&](const Node* node) { return graph.node(node->id()); };
  for (const Output& feed : program.feeds) feeds.push_back({own(feed.node), feed.index});
  for (const Output& fetch : program.fetches) fetches.push_back({own(fetch.node), fetch.index});
  for (const Node* target : program.targets) targets.push_back(own(target));
  for (const Node* node : program.collectives) collectives.push_back(own(node));
  for (const auto& [reader, write] : program.reader_edges) {
    reader_edges.emplace_back(own(reader), own(write));
  }
  ops = program.ops;
  kernels = program.kernels;
  layout = program.layout;
  options = program.options;
  shard = program.shard;
  axes = program.axes;
  world = program.world;
  shardings = program.shardings;
  is_body = program.is_body;
  keeps_forms = device.host_memory && !is_body;
  facts = program.facts;
  device_type = device.type;
  plan->axis_rows = rows;
  plan->num_layout_regions = layout != nullptr ? static_cast<int>(layout->regions().size()) : 0;
  for (const Axis& axis : axes) plan->axis_sizes.push_back(axis.size);
  for (const auto& [id, functions] : program.bodies) {
    for (size_t i = 0; i < functions.size(); ++i) {
      auto state = std::make_unique<PlanState>(*functions[i], rows, device, library, tuning);
      state->owns_feeds = graph.node(id)->op().role == OpRole::kLoop && i == 1;
      plan_bodies_[id].push_back(state.get());
      bodies[id].push_back(std::move(state));
    }
  }
  plan->library = std::move(library);
}

bool PlanState::IsUsedOnce(const Output& value) const {
  const auto reads = [&value](const Use& use) {
    return use.slot != Use::kControl && use.user->input(use.slot) == value;
  };
  return absl::c_count_if(value.node->uses(), reads) == 1 && !IsFetched(value);
}

std::string PlanState::ToString(int max_elements) const {
  const auto comment_on = [this](const Node& node) {
    std::string comment;
    const size_t id = node.id();
    for (int i = 0; i < node.num_outputs() && id < shapes.size(); ++i) {
      absl::StrAppend(&comment, i > 0 ? "; " : "", shapes[id][i].ToString());
      const int at = storage.of(node.output(i));
      if (at >= 0) absl::StrAppend(&comment, " in storage ", at);
    }
    if (id < kernel_plans.size() && kernel_plans[id].fails_on_data) comment += " fails_on_data";
    return comment;
  };
  std::string text = GraphToText(
      graph, {.omit_defaults = true, .max_elements = max_elements, .comment = comment_on});
  if (!order.empty()) text += "order:\n";
  for (const Node* node : order) absl::StrAppend(&text, "  ", node->name(), "\n");
  if (!storage.all.empty()) text += "storages:\n";
  for (size_t i = 0; i < storage.all.size(); ++i) {
    const Storage& s = storage.all[i];
    absl::StrAppend(&text, "  ", i, ": ", s.bytes, " bytes");
    if (s.parent >= 0) absl::StrAppend(&text, " at ", s.offset, " of storage ", s.parent);
    if (s.rows > 1) absl::StrAppend(&text, ", in ", s.rows, " rows at distance ", s.row_stride);
    if (s.region != kNoRegion) absl::StrAppend(&text, " at ", s.offset, " of region ", s.region);
    text += "\n";
  }
  if (!plan->instructions.empty()) text += "instructions:\n" + plan->ToString();
  return text;
}

}  // namespace mirrorflow
