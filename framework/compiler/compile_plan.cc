// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/compile_plan.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <map>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "framework/compiler/check_plan.h"
#include "framework/compiler/memory_planner.h"
#include "framework/compiler/scheduler.h"
#include "framework/compiler/storage.h"
#include "framework/core/status.h"
#include "framework/runtime/update_kernel.h"

namespace mirrorflow {

LocalShapes Localise(const Compilation& c, const std::vector<int64_t>& rows) {
  LocalShapes shapes(c.graph.id_limit());
  for (const Node* node : c.graph.Nodes()) {
    for (int i = 0; i < node->num_outputs(); ++i) {
      Shape shape = c.values().shape(node->output(i));
      if (const Sharded* s = AsSharded(c.shardings.at(node->output(i)))) {
        shape.set_dim(s->dim, rows[s->axis] * s->factor);
      }
      shapes[node->id()].push_back(std::move(shape));
    }
  }
  return shapes;
}

namespace {

class LocalContext final : public KernelContext {
 public:
  LocalContext(const Compilation& c, const LocalShapes& shapes, const Node& node, int num_threads,
               KernelLibrary* library)
      : c_(c), shapes_(shapes), node_(node), num_threads_(num_threads), library_(library) {}

  const Node& node() const override { return node_; }
  const Shape& input_shape(int i) const override {
    const Output& in = node_.input(i);
    return shapes_[in.node->id()][in.index];
  }
  const Shape& output_shape(int i) const override { return shapes_[node_.id()][i]; }
  const Tensor& constant(int i) const override { return c_.values().at(node_.input(i)).constant; }
  const Sharding& output_sharding(int i) const override { return c_.shardings.at(node_.output(i)); }
  const Shape& global_output_shape(int i) const override {
    return c_.values().shape(node_.output(i));
  }
  int num_threads() const override { return num_threads_; }
  const KernelOptions& options() const override { return c_.options.kernels; }
  KernelLibrary* library() const override { return library_; }

 private:
  const Compilation& c_;
  const LocalShapes& shapes_;
  const Node& node_;
  const int num_threads_;
  KernelLibrary* const library_;
};

bool HasKernel(const Node& node) {
  const OpDef& op = node.op();
  return op.role == OpRole::kWrite || (op.role == OpRole::kRead && node.has_attr(kCopyAttr)) ||
         (Computes(op) && !op.has(kView));
}

class PlanBuilder {
 public:
  // `library`: of the kernels, may be null. `owns_feeds`: the plan may write over what it is fed
  // (the body of a loop, whose values lie there from iteration to iteration).
  PlanBuilder(const Compilation& c, const std::vector<int64_t>& rows, const DeviceTraits& traits,
              std::shared_ptr<KernelLibrary> library, bool owns_feeds = false)
      : c_(c),
        shapes_(Localise(c_, rows)),
        traits_(traits),
        owns_feeds_(owns_feeds),
        plan_(std::make_shared<Plan>()) {
    plan_->axis_rows = rows;
    plan_->library = std::move(library);
    for (const Axis& axis : c_.axes) plan_->axis_sizes.push_back(axis.size);
  }

  absl::StatusOr<std::shared_ptr<const Plan>> Build(const KernelRegistry& kernels) {
    MF_RETURN_IF_ERROR(CreateKernels(kernels));
    std::vector<Node*> failing;
    for (Node* node : c_.graph.Nodes()) {
      if (kernel_plans_[node->id()].fails_on_data) failing.push_back(node);
    }
    MF_ASSIGN_OR_RETURN(order_, ScheduleNodes(c_, failing, [&](const Node& node) {
                          return kernel_plans_[node.id()].flops > 0;
                        }));
    AddFeeds();
    const RegionId first_layout_region = plan_->layout_region(0);
    StorageTable storage(c_, shapes_, order_, kernel_plans_, first_layout_region, owns_feeds_);
    storage_ = &storage;
    lifetimes_.resize(storage.storages().size(), {std::numeric_limits<int>::max(), -1, 0});
    const Node* const guard = LastUnguarded(failing);
    for (Node* node : order_) {
      EmitNode(*node);
      if (node == guard) EmitBarrier();
    }
    FinishUpTo(static_cast<int>(c_.collectives.size()) - 1);
    AddFetches();
    MF_RETURN_IF_ERROR(FillConstants());
    MF_RETURN_IF_ERROR(PlaceArena());
    plan_->num_regions = first_layout_region +
                         (c_.layout != nullptr ? static_cast<int>(c_.layout->regions().size()) : 0);
    if (c_.options.check_plan) MF_RETURN_IF_ERROR(CheckPlan(*plan_));
    plan_->dispatch = MakeDispatchList(*plan_, traits_.inline_lanes || c_.is_body);
    return std::shared_ptr<const Plan>(std::move(plan_));
  }

 private:
  using Uses = absl::InlinedVector<std::pair<int, bool>, 4>;  // (storage, is write)

  struct InFlight {
    int index = 0;
    int name = 0;
    Uses uses;          // from its start until it is finished
    int scratch = -1;   // the same
    EventId done = -1;  // of a device that enqueues collectives
  };

  absl::Status CreateKernels(const KernelRegistry& kernels) {
    kernel_plans_.resize(c_.graph.id_limit());
    for (Node* node : c_.graph.Nodes()) {
      KernelPlan& kernel = kernel_plans_[node->id()];
      if (IsControlFlow(node->op())) {
        MF_RETURN_IF_ERROR(PlanControl(*node, kernels, &kernel));
      } else if (HasKernel(*node)) {
        const LocalContext context(c_, shapes_, *node, traits_.num_threads, plan_->library.get());
        MF_ASSIGN_OR_RETURN(kernel, kernels.Create(traits_.type, context));
        if (IsCollective(*node) &&
            dynamic_cast<const UpdateKernel*>(kernel.kernel.get()) == nullptr &&
            dynamic_cast<const UpdateByProductKernel*>(kernel.kernel.get()) == nullptr) {
          return absl::InternalError(
              absl::StrCat(OpAndName(*node), ": its kernel cannot update a part of the variable"));
        }
      }
      plan_->flops += kernel.flops;
      plan_->fails_on_data |= kernel.fails_on_data;
    }
    return absl::OkStatus();
  }

  // Compiles the functions of a branch or loop. Their arena, and room for results that must wait
  // for others, is the node's scratch.
  absl::Status PlanControl(const Node& node, const KernelRegistry& kernels, KernelPlan* kernel) {
    PlannedControl& control = controls_[node.id()];
    const Compilation::Bodies& bodies = c_.bodies.at(node.id());
    const bool loops = node.op().role == OpRole::kLoop;
    control.first_argument = FirstArgument(node.op());
    kernel->scratch_bytes = kBufferAlignment;
    for (int i = 0; i < 2; ++i) {
      MF_ASSIGN_OR_RETURN(control.plans[i], PlanBuilder(*bodies[i], plan_->axis_rows, traits_,
                                                        plan_->library, loops && i == 1)
                                                .Build(kernels));
      const Plan& plan = *control.plans[i];
      kernel->scratch_bytes = std::max(kernel->scratch_bytes, plan.arena_bytes);
      kernel->fails_on_data |= plan.fails_on_data;
      kernel->flops = std::max(kernel->flops, plan.flops);
    }
    kernel->scratch_bytes = static_cast<int64_t>(AlignUp(kernel->scratch_bytes));
    const Output& predicate = loops ? bodies[0]->fetches[0] : node.input(0);
    const Shape& shape = (loops ? *bodies[0] : c_).values().shape(predicate);
    control.has_elements = shape.num_elements() > 0;
    if (shape.rank() == 0) control.predicate = predicate.dtype();
    for (int i = 0; i < node.num_outputs(); ++i) {
      // A loop's values lie where its outputs are: best where they lay before.
      if (loops) kernel->in_place.emplace_back(i, i);
      control.bytes.push_back(Bytes(node.output(i)));
      const Operand& result = control.plans[1]->fetches[i].operand;
      const bool is_other_argument = loops && result.region >= Plan::kFirstFeedRegion &&
                                     result.region != control.plans[1]->feed_region(i);
      control.staging.push_back(is_other_argument ? kernel->scratch_bytes : -1);
      if (is_other_argument) {
        kernel->scratch_bytes += static_cast<int64_t>(AlignUp(control.bytes.back()));
      }
    }
    return absl::OkStatus();
  }

  int64_t Bytes(const Output& output) const {
    return shapes_[output.node->id()][output.index].num_elements() *
           static_cast<int64_t>(DataTypeSize(output.dtype()));
  }

  void AddFeeds() {
    for (const Output& feed : c_.feeds) {
      plan_->feeds.push_back({feed.dtype(), shapes_[feed.node->id()][feed.index],
                              c_.values().shape(feed), c_.shardings.at(feed)});
    }
  }

  // Notes that instruction `at` uses the storage, which keeps its memory alive.
  void Touch(int storage, int at) {
    Lifetime& life = lifetimes_[storage_->Root(storage)];
    life.first = std::min(life.first, at);
    life.last = std::max(life.last, at);
  }

  int NextIndex() const { return static_cast<int>(plan_->instructions.size()); }

  // An operand that names the storage; its offset is filled in when the arena is planned.
  void AddOperand(int storage) {
    operand_storage_.push_back(storage);
    plan_->operands.push_back({});
  }

  void Append(Instruction instruction, Uses uses) {
    for (const auto& [storage, is_write] : uses) Touch(storage, NextIndex());
    plan_->instructions.push_back(instruction);
    uses_.push_back(std::move(uses));
  }

  void AppendEvent(InstructionKind kind, LaneKind lane, EventId event) {
    Append({.kind = kind, .lane = lane, .event = event}, {});
  }

  // Makes `to` wait for all that `from` holds so far.
  void Order(LaneKind from, LaneKind to) {
    const EventId event = plan_->num_events++;
    AppendEvent(InstructionKind::kRecord, from, event);
    AppendEvent(InstructionKind::kWait, to, event);
  }

  int AddName(const Node& node) {
    plan_->node_names.push_back(node.name());
    plan_->node_ops.push_back(node.op().name);
    return static_cast<int>(plan_->node_names.size()) - 1;
  }

  // What the node waits for: the last collective among its inputs, seen through nodes that emit
  // nothing.
  int LastCollective(const Node& node) const {
    int last = -1;
    auto see = [&](const Node* in) { last = std::max(last, seen_collective_[in->id()]); };
    for (const Output& in : node.inputs()) see(in.node);
    for (const Node* control : node.control_inputs()) see(control);
    return last;
  }

  void EmitNode(const Node& node) {
    if (seen_collective_.empty()) seen_collective_.assign(c_.graph.id_limit(), -1);
    const int wait_for = LastCollective(node);
    if (IsCollective(node)) {
      FinishUpTo(wait_for);
      if (node.op().role == OpRole::kWrite) {
        EmitUpdate(node);
      } else {
        EmitStart(node);
      }
      seen_collective_[node.id()] = static_cast<int>(plan_->collectives.size()) - 1;
    } else if (IsControlFlow(node.op())) {
      // Collectives inside come behind all that were started before, as on every rank.
      FinishUpTo(c_.Communicates(node) ? static_cast<int>(plan_->collectives.size()) - 1
                                       : wait_for);
      EmitControl(node);
    } else if (HasKernel(node)) {
      FinishUpTo(wait_for);
      EmitKernel(node);
    } else {
      seen_collective_[node.id()] = wait_for;
    }
  }

  // The last node that can fail on its data, if replicas could write variables after it without
  // having heard of one another: no collective is behind it.
  const Node* LastUnguarded(const std::vector<Node*>& failing) const {
    if (!c_.options.shard) return nullptr;
    bool has_write = false;
    for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
      if (std::find(failing.begin(), failing.end(), *it) != failing.end()) {
        return has_write ? *it : nullptr;
      }
      if (IsCollective(**it)) return nullptr;
      has_write |= (*it)->op().role == OpRole::kWrite;
    }
    return nullptr;
  }

  // No rank goes on before all have come here.
  void EmitBarrier() {
    const int sequence = static_cast<int>(plan_->collectives.size());
    plan_->node_names.push_back("before_writes");
    plan_->node_ops.push_back("Barrier");
    AddCollective({.operation = Barrier{}, .name = "before_writes"}, -1);
    Launch({.index = sequence, .name = static_cast<int>(plan_->node_names.size()) - 1});
    FinishUpTo(sequence);
  }

  void EmitKernel(const Node& node) {
    EmitCompute(node, InstructionKind::kKernel, static_cast<int32_t>(plan_->kernels.size()));
    plan_->kernels.push_back(std::move(kernel_plans_[node.id()].kernel));
    plan_->kernel_flops.push_back(kernel_plans_[node.id()].flops);
    if (plan_->kernel_flops.back() > 0) {
      started_before_work_ = static_cast<int>(plan_->collectives.size()) - 1;
    }
  }

  void EmitControl(const Node& node) {
    const bool loops = node.op().role == OpRole::kLoop;
    EmitCompute(node, loops ? InstructionKind::kLoop : InstructionKind::kBranch,
                static_cast<int32_t>(plan_->controls.size()));
    plan_->controls.push_back(std::move(controls_.at(node.id())));
  }

  // An instruction on the node's inputs, outputs and scratch.
  void EmitCompute(const Node& node, InstructionKind kind, int32_t index) {
    Instruction instruction{.kind = kind,
                            .index = index,
                            .first_operand = static_cast<int32_t>(plan_->operands.size()),
                            .num_inputs = static_cast<int32_t>(node.num_inputs()),
                            .num_outputs = static_cast<int32_t>(node.num_outputs()),
                            .node = AddName(node)};
    Uses uses;
    for (int i = 0; i < node.num_inputs(); ++i) {
      const int storage = storage_->of(node.input(i));
      if (node.is_static_input(i) || storage < 0) {
        AddOperand(-1);
        continue;
      }
      AddOperand(storage);
      uses.emplace_back(storage, false);
      const bool written = node.op().role == OpRole::kWrite && node.input(i).dtype() == DT_RESOURCE;
      if (written) uses.emplace_back(storage, true);
    }
    for (int i = 0; i < node.num_outputs(); ++i) {
      AddOperand(storage_->of(node.output(i)));
      uses.emplace_back(storage_->of(node.output(i)), true);
    }
    const int64_t scratch_bytes = kernel_plans_[node.id()].scratch_bytes;
    if (scratch_bytes > 0) {
      // Alive during this instruction only: a storage of its own behind those of the table.
      const int scratch = static_cast<int>(lifetimes_.size());
      lifetimes_.push_back({NextIndex(), NextIndex(), scratch_bytes});
      AddOperand(scratch);
      scratch_uses_.emplace_back(NextIndex(), scratch);
    }
    Append(instruction, std::move(uses));
  }

  // Its operands are in these storages, or there are none.
  void AddCollective(PlannedCollective collective, int in, int out = -1, int right = -1) {
    plan_->collectives.push_back(std::move(collective));
    collective_storage_.push_back({in, out, right});
  }

  void EmitStart(const Node& node) {
    InFlight flight{.index = static_cast<int>(plan_->collectives.size()), .name = AddName(node)};
    if (ChangesRows(node)) {
      EmitChangeOfRows(node, std::move(flight));
      return;
    }
    const StorageTable::Slots& slots = storage_->slots(node);
    for (int i = 0; i < node.num_inputs(); ++i) {
      flight.uses.emplace_back(slots.storages[i], false);
      flight.uses.emplace_back(slots.storages[i], true);
      if (!slots.needs_copy[i]) continue;
      EmitCopy(storage_->of(node.input(i)), slots.storages[i], flight.name);
    }
    const int memory = slots.storages[0];
    AddCollective({.operation = PlannedAllReduce{ReductionOf(node)},
                   .name = node.name(),
                   .dtype = node.output_dtype(0),
                   .count = slots.count},
                  memory, memory);
    Launch(std::move(flight));
  }

  static Reduction ReductionOf(const Node& node) {
    return *ParseReduction(node.attr<std::string>("reduction"));
  }

  // A reduce-scatter or an all-gather.
  void EmitChangeOfRows(const Node& node, InFlight flight) {
    const Shape& whole = c_.values().shape(node.output(0));
    SplitRows split{.axis = static_cast<AxisId>(node.attr<int64_t>("axis")),
                    .elements_per_row = node.attr<int64_t>("factor")};
    for (int d = 1; d < whole.rank(); ++d) split.elements_per_row *= whole.dim(d);
    PlannedCollective collective{
        .name = node.name(), .dtype = node.output_dtype(0), .count = whole.num_elements()};
    if (node.has_attr("reduction")) {
      collective.operation = PlannedReduceScatter{ReductionOf(node), split};
    } else {
      collective.operation = PlannedAllGather{split};
    }
    const int in = storage_->of(node.input(0)), out = storage_->of(node.output(0));
    flight.uses = {{in, false}, {out, true}};
    AddCollective(std::move(collective), in, out);
    Launch(std::move(flight));
  }

  // An update that the ranks divide. From its start on others may write the variables.
  void EmitUpdate(const Node& node) {
    InFlight flight{.index = static_cast<int>(plan_->collectives.size()), .name = AddName(node)};
    UpdateCall call{.kernel = static_cast<int32_t>(plan_->kernels.size()),
                    .first_operand = static_cast<int32_t>(plan_->operands.size()),
                    .num_inputs = static_cast<int32_t>(node.num_inputs())};
    for (int i = 0; i < node.num_inputs(); ++i) {
      const int storage = storage_->of(node.input(i));
      AddOperand(storage);
      flight.uses.emplace_back(storage, false);
      if (node.input(i).dtype() != DT_RESOURCE) continue;
      flight.uses.emplace_back(storage, true);
      call.variables.push_back(i);
    }
    if (const int64_t bytes = kernel_plans_[node.id()].scratch_bytes; bytes > 0) {
      flight.scratch = static_cast<int>(lifetimes_.size());
      lifetimes_.push_back({NextIndex(), NextIndex(), bytes});
      AddOperand(flight.scratch);
    }
    if (node.op().update_gradient.empty()) {
      AddProductUpdate(node, std::move(call));
    } else {
      const std::string& reduction = node.attr<std::string>(kReductionAttr);
      PlannedUpdate update{.call = std::move(call)};
      if (reduction != kNoReduction) update.reduction = *ParseReduction(reduction);
      const int input = node.input_index(node.op().update_gradient);
      const Output& gradient = node.input(input);
      AddCollective({.operation = std::move(update),
                     .name = node.name(),
                     .dtype = gradient.dtype(),
                     .count = shapes_[gradient.node->id()][gradient.index].num_elements()},
                    storage_->of(gradient));
    }
    plan_->kernels.push_back(std::move(kernel_plans_[node.id()].kernel));
    plan_->kernel_flops.push_back(kernel_plans_[node.id()].flops);
    Launch(std::move(flight));
    // Nothing in the step waits for an update; it is time for those that the other ranks have had
    // the time of a product to start.
    FinishUpTo(started_before_work_);
  }

  // An update by a product of two matrices, whose rows all ranks have together.
  void AddProductUpdate(const Node& node, UpdateCall call) {
    const Output& left = node.input(node.input_index(kLeftOfProduct));
    const Output& right = node.input(node.input_index(kRightOfProduct));
    const Shape& a = c_.values().shape(left);
    const Shape& b = c_.values().shape(right);
    const SplitRows split{.axis = static_cast<AxisId>(node.attr<int64_t>(kAxisAttr)),
                          .elements_per_row = node.attr<int64_t>(kFactorAttr)};
    AddCollective({.operation =
                       PlannedProductUpdate{
                           .split = split,
                           .rows = a.dim(1),
                           .row_bytes = b.dim(1) * static_cast<int64_t>(DataTypeSize(left.dtype())),
                           .call = std::move(call)},
                   .name = node.name(),
                   .dtype = left.dtype(),
                   .count = a.num_elements() + b.num_elements()},
                  storage_->of(left), -1, storage_->of(right));
  }

  // Starts a collective whose operands are known.
  void Launch(InFlight flight) {
    FinishUpTo(flight.index - Communicator::kMaxInFlight);
    Order(LaneKind::kCompute, LaneKind::kCommunicate);
    // From here on until it is finished the collective may read and write all of its memory.
    Append({.kind = InstructionKind::kStart,
            .lane = LaneKind::kCommunicate,
            .index = flight.index,
            .node = flight.name},
           flight.uses);
    if (flight.scratch >= 0) scratch_uses_.emplace_back(NextIndex() - 1, flight.scratch);
    if (traits_.enqueues_collectives) {
      flight.done = plan_->num_events++;
      AppendEvent(InstructionKind::kRecord, LaneKind::kCommunicate, flight.done);
    }
    in_flight_.push_back(std::move(flight));
  }

  void EmitCopy(int from, int to, int name) {
    const int64_t bytes = storage_->storages()[to].bytes;
    Instruction copy{.kind = InstructionKind::kCopy,
                     .first_operand = static_cast<int32_t>(plan_->operands.size()),
                     .num_inputs = 1,
                     .num_outputs = 1,
                     .node = name,
                     .bytes = bytes};
    AddOperand(from);
    AddOperand(to);
    plan_->copied_to_buckets += bytes;
    Append(copy, {{from, false}, {to, true}});
  }

  // Finishes collectives in the order of their starts until `sequence` is done.
  void FinishUpTo(int sequence) {
    while (!in_flight_.empty() && in_flight_.front().index <= sequence) {
      const InFlight flight = std::move(in_flight_.front());
      in_flight_.erase(in_flight_.begin());
      // An event of this collective alone: its lane may be at the next one already.
      const bool enqueued = traits_.enqueues_collectives;
      if (enqueued) AppendEvent(InstructionKind::kWait, LaneKind::kCompute, flight.done);
      Append({.kind = InstructionKind::kFinish,
              .lane = enqueued ? LaneKind::kCompute : LaneKind::kCommunicate,
              .index = flight.index,
              .node = flight.name},
             flight.uses);
      if (flight.scratch >= 0) scratch_uses_.emplace_back(NextIndex() - 1, flight.scratch);
      if (!enqueued) Order(LaneKind::kCommunicate, LaneKind::kCompute);
      // Memory may be used again when the compute lane knows that the collective is done.
      for (const auto& [storage, is_write] : flight.uses) Touch(storage, NextIndex() - 1);
      if (flight.scratch >= 0) lifetimes_[flight.scratch].last = NextIndex() - 1;
    }
  }

  void AddFetches() {
    for (const Output& fetch : c_.fetches) {
      PlannedFetch planned;
      planned.dtype = fetch.dtype();
      planned.local_shape = shapes_[fetch.node->id()][fetch.index];
      planned.global_shape = c_.values().shape(fetch);
      planned.sharding = c_.shardings.at(fetch);
      const int storage = storage_->of(fetch);
      fetch_storage_.push_back(storage);
      if (storage >= 0) {
        planned.value = storage_->Root(storage);
        Touch(storage, NextIndex());  // until after the last instruction
      }
      plan_->fetches.push_back(std::move(planned));
    }
  }

  absl::Status FillConstants() {
    plan_->constants_bytes = storage_->constants_bytes();
    MF_ASSIGN_OR_RETURN(plan_->constants, Buffer::Allocate(plan_->constants_bytes));
    for (const auto& [node, offset] : storage_->constants()) {
      const Tensor& value = c_.values().at(node->output(0)).constant;
      std::memcpy(plan_->constants->data() + offset, value.raw(), value.bytes());
    }
    return absl::OkStatus();
  }

  absl::Status PlaceArena() {
    const std::vector<Storage>& storages = storage_->storages();
    std::vector<Lifetime> values;
    std::vector<int> owner;
    int64_t total_bytes = 0;
    for (size_t s = 0; s < lifetimes_.size(); ++s) {
      const bool in_table = s < storages.size();
      if (in_table && (storages[s].region != kNoRegion || storages[s].parent >= 0)) continue;
      if (lifetimes_[s].last < 0) continue;  // nobody touches it
      if (in_table) lifetimes_[s].bytes = storages[s].bytes;
      // Far from what offsets can hold, and from any machine.
      constexpr int64_t kMaxBytes = int64_t{1} << 60;
      total_bytes += std::min(lifetimes_[s].bytes, kMaxBytes);
      if (total_bytes > kMaxBytes) {
        return absl::ResourceExhaustedError(
            absl::StrCat("the values of this step need more than ", kMaxBytes, " bytes"));
      }
      values.push_back(lifetimes_[s]);
      owner.push_back(static_cast<int>(s));
    }
    const MemoryPlan memory = PlanMemory(values);
    plan_->arena_bytes = memory.peak_bytes;
    plan_->live_bytes = memory.live_bytes;
    plan_->num_arena_values = static_cast<int64_t>(values.size());
    std::vector<int64_t> arena_offset(lifetimes_.size(), 0);
    for (size_t i = 0; i < values.size(); ++i) arena_offset[owner[i]] = memory.offsets[i];

    auto resolve = [&](int storage) -> Operand {
      if (storage < 0) return {};
      if (storage >= static_cast<int>(storages.size())) {
        return {Plan::kArenaRegion, arena_offset[storage]};
      }
      const int root = storage_->Root(storage);
      const int64_t inside = storage_->OffsetInRoot(storage);
      if (storages[root].region != kNoRegion) {
        return {storages[root].region, storages[root].offset + inside};
      }
      return {Plan::kArenaRegion, arena_offset[root] + inside};
    };
    for (size_t i = 0; i < plan_->operands.size(); ++i) {
      plan_->operands[i] = resolve(operand_storage_[i]);
    }
    for (size_t i = 0; i < plan_->collectives.size(); ++i) {
      PlannedCollective& collective = plan_->collectives[i];
      collective.in = resolve(collective_storage_[i][0]);
      collective.out = resolve(collective_storage_[i][1]);
      if (auto* update = std::get_if<PlannedProductUpdate>(&collective.operation)) {
        update->right = resolve(collective_storage_[i][2]);
      }
    }
    for (size_t i = 0; i < plan_->fetches.size(); ++i) {
      plan_->fetches[i].operand = resolve(fetch_storage_[i]);
    }
    plan_->accesses.resize(plan_->instructions.size());
    for (size_t i = 0; i < uses_.size(); ++i) {
      for (const auto& [storage, is_write] : uses_[i]) {
        plan_->accesses[i].push_back(
            {resolve(storage), storages[storage].bytes, is_write, storage_->Root(storage)});
      }
    }
    for (const auto& [instruction, scratch] : scratch_uses_) {
      plan_->accesses[instruction].push_back(
          {resolve(scratch), lifetimes_[scratch].bytes, true, scratch});
    }
    return absl::OkStatus();
  }

  const Compilation& c_;
  const LocalShapes shapes_;
  const DeviceTraits& traits_;
  const bool owns_feeds_;
  std::shared_ptr<Plan> plan_;
  std::vector<KernelPlan> kernel_plans_;       // by node id; without a kernel for control flow
  std::map<NodeId, PlannedControl> controls_;  // until they are emitted
  std::vector<Node*> order_;
  const StorageTable* storage_ = nullptr;
  std::vector<Lifetime> lifetimes_;                     // by storage, then scratch
  std::vector<int> operand_storage_;                    // by operand; -1: none
  std::vector<Uses> uses_;                              // by instruction
  std::vector<std::pair<int, int>> scratch_uses_;       // (instruction, storage)
  std::vector<std::array<int, 3>> collective_storage_;  // in, out, right
  std::vector<int> fetch_storage_;
  std::vector<int> seen_collective_;  // by node id
  std::vector<InFlight> in_flight_;
  int started_before_work_ = -1;  // the last collective before the last product or convolution
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Plan>> CompilePlan(const Program& program,
                                                        const std::vector<int64_t>& rows,
                                                        const DeviceTraits& traits,
                                                        const KernelRegistry& kernels) {
  const std::shared_ptr<KernelLibrary> library = kernels.NewLibrary(traits.type);
  MF_ASSIGN_OR_RETURN(auto plan, PlanBuilder(program.state, rows, traits, library).Build(kernels));
  if (library != nullptr) MF_RETURN_IF_ERROR(library->Finish());
  return plan;
}

}  // namespace mirrorflow
