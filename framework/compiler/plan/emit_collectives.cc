// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/plan/emit_collectives.h"

#include <string>
#include <utility>

#include "framework/compiler/plan/assign_storage.h"

namespace mirrorflow {

namespace {

Reduction ReductionOf(const Node& node) {
  return *ParseReduction(node.attr<std::string>("reduction"));
}

}  // namespace

void EmitCollectives::Start(const Node& node) {
  PlannedCollective collective{.name = node.name()};
  InFlight flight{.index = last() + 1, .name = writer_.AddName(node)};
  if (node.op().role == OpRole::kWrite) {
    StartUpdate(node, &collective, &flight);
  } else if (IsBarrier(node)) {
    collective.operation = Barrier{};
  } else if (ChangesRows(node)) {
    StartRows(node, &collective, &flight);
  } else {
    StartReduction(node, &collective, &flight);
  }
  plan_.collectives.push_back(std::move(collective));
  Launch(std::move(flight));
  if (node.op().role != OpRole::kWrite) return;
  last_update_ = last();
  FinishUpTo(update_before_work_);
}

void EmitCollectives::StartReduction(const Node& node, PlannedCollective* collective,
                                     InFlight* flight) {
  const StorageTable::Slots& slots = s_.storage.slots.at(node.id());
  for (int i = 0; i < node.num_inputs(); ++i) {
    flight->uses.push_back({slots.storages[i], false});
    flight->uses.push_back({slots.storages[i], true});
    if (slots.needs_copy[i]) Copy(s_.storage.of(node.input(i)), slots.storages[i], flight->name);
  }
  // The all-reduce also changes the padding between the slots.
  const int group = s_.storage.all[slots.storages[0]].parent;
  if (group >= 0) flight->uses.push_back({group, true});
  collective->operation = PlannedAllReduce{ReductionOf(node)};
  collective->dtype = node.output_dtype(0);
  collective->count = slots.count;
  collective->in = collective->out = Unplaced(slots.storages[0]);
}

// Starts a collective that gathers or scatters rows; each rank has a shard of them.
void EmitCollectives::StartRows(const Node& node, PlannedCollective* collective, InFlight* flight) {
  const Shape& whole = s_.values().shape(node.output(0));
  const SplitRows split{
      .axis = static_cast<AxisId>(node.attr<int64_t>("axis")),
      .elements_per_row = node.attr<int64_t>("factor") * whole.num_elements_from(1)};
  if (node.has_attr("reduction")) {
    collective->operation = PlannedReduceScatter{ReductionOf(node), split};
  } else {
    collective->operation = PlannedAllGather{split};
  }
  collective->dtype = node.output_dtype(0);
  collective->count = whole.num_elements();
  const int in = s_.storage.of(node.input(0)), out = s_.storage.of(node.output(0));
  flight->uses = {{in, false}, {out, true}};
  collective->in = Unplaced(in);
  collective->out = Unplaced(out);
}

// Starts an update that the ranks divide among themselves. Once the update has started, other ranks
// may write the variables.
void EmitCollectives::StartUpdate(const Node& node, PlannedCollective* collective,
                                  InFlight* flight) {
  UpdateCall call{.kernel = static_cast<int32_t>(plan_.kernels.size()),
                  .first_operand = writer_.NextOperand(),
                  .num_inputs = node.num_inputs()};
  for (int i = 0; i < node.num_inputs(); ++i) {
    const int storage = s_.storage.of(node.input(i));
    writer_.AddOperand(storage);
    flight->uses.push_back({storage, false});
    if (node.input(i).dtype() != DT_RESOURCE) continue;
    flight->uses.push_back({storage, true});
    call.variables.push_back(i);
  }
  KernelPlan& kernel = s_.kernel_plans[node.id()];
  if (kernel.scratch_bytes > 0) {
    flight->uses.push_back({writer_.AddScratch(kernel.scratch_bytes), true});
  }
  if (node.op().update_gradient.empty()) {
    DescribeProduct(node, std::move(call), collective);
  } else {
    const Output& gradient = node.input(node.input_index(node.op().update_gradient));
    PlannedUpdate update{.call = std::move(call)};
    const std::string& reduction = node.attr<std::string>(kReductionAttr);
    if (reduction != kNoReduction) update.reduction = *ParseReduction(reduction);
    collective->operation = std::move(update);
    collective->dtype = gradient.dtype();
    collective->count = s_.local_shape(gradient).num_elements();
    collective->in = Unplaced(s_.storage.of(gradient));
  }
  plan_.kernels.push_back(std::move(kernel.kernel));
  plan_.kernel_flops.push_back(kernel.flops);
  plan_.kernel_fails.push_back(kernel.fails_on_data);
}

// Describes an update by a product of two matrices whose rows are split over the ranks.
void EmitCollectives::DescribeProduct(const Node& node, UpdateCall call,
                                      PlannedCollective* collective) {
  const Output& left = node.input(node.input_index(kLeftOfProduct));
  const Output& right = node.input(node.input_index(kRightOfProduct));
  const Shape& a = s_.values().shape(left);
  const Shape& b = s_.values().shape(right);
  collective->operation =
      PlannedProductUpdate{.right = Unplaced(s_.storage.of(right)),
                           .split = {.axis = static_cast<AxisId>(node.attr<int64_t>(kAxisAttr)),
                                     .elements_per_row = node.attr<int64_t>(kFactorAttr)},
                           .rows = a.dim(1),
                           .row_bytes = b.dim(1) * static_cast<int64_t>(DataTypeSize(left.dtype())),
                           .call = std::move(call)};
  collective->dtype = left.dtype();
  collective->count = a.num_elements() + b.num_elements();
  collective->in = Unplaced(s_.storage.of(left));
}

// Emits the start of a collective, which may read and write all of its memory until it is finished.
void EmitCollectives::Launch(InFlight flight) {
  FinishUpTo(flight.index - Communicator::kMaxInFlight);
  writer_.Order(LaneKind::kCompute, LaneKind::kCommunicate);
  writer_.Append({.kind = InstructionKind::kStart,
                  .lane = LaneKind::kCommunicate,
                  .index = flight.index,
                  .node = flight.name},
                 flight.uses);
  if (s_.traits.enqueues_collectives) {
    flight.done = plan_.num_events++;
    writer_.AppendEvent(InstructionKind::kRecord, LaneKind::kCommunicate, flight.done);
  }
  in_flight_.push_back(std::move(flight));
}

void EmitCollectives::Copy(int from, int to, int name) {
  const int64_t bytes = s_.storage.all[to].bytes;
  const Instruction copy{.kind = InstructionKind::kCopy,
                         .first_operand = writer_.NextOperand(),
                         .num_inputs = 1,
                         .num_outputs = 1,
                         .node = name,
                         .bytes = bytes};
  writer_.AddOperand(from);
  writer_.AddOperand(to);
  plan_.copied_to_buckets += bytes;
  writer_.Append(copy, {{from, false}, {to, true}});
}

void EmitCollectives::FinishUpTo(int sequence) {
  while (!in_flight_.empty() && in_flight_.front().index <= sequence) {
    const InFlight flight = std::move(in_flight_.front());
    in_flight_.pop_front();
    // Waits for this collective's own event, because its lane may already be running the next
    // collective.
    const bool enqueued = s_.traits.enqueues_collectives;
    if (enqueued) writer_.AppendEvent(InstructionKind::kWait, LaneKind::kCompute, flight.done);
    writer_.Append({.kind = InstructionKind::kFinish,
                    .lane = enqueued ? LaneKind::kCompute : LaneKind::kCommunicate,
                    .index = flight.index,
                    .node = flight.name},
                   flight.uses);
    if (!enqueued) writer_.Order(LaneKind::kCommunicate, LaneKind::kCompute);
  }
}

}  // namespace mirrorflow
