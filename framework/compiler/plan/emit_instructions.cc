// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/plan/emit_instructions.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "framework/compiler/invariants.h"
#include "framework/compiler/plan/emit_collectives.h"
#include "framework/compiler/plan/plan_forms.h"
#include "framework/compiler/plan/plan_writer.h"

namespace mirrorflow {
namespace {

class Emitter {
 public:
  explicit Emitter(PlanState& s)
      : s_(s),
        plan_(*s.plan),
        writer_(s),
        collectives_(s, writer_),
        seen_collective_(s.graph.id_limit(), -1) {}

  void Run() {
    for (const Node* node : s_.order) EmitNode(*node);
    collectives_.FinishUpTo(collectives_.last());
  }

 private:
  // Returns the last collective that the node waits for, directly or through nodes that emit no
  // instruction, or -1 if there is none.
  int LastCollective(const Node& node) const {
    int last = -1;
    auto see = [&](const Node* in) { last = std::max(last, seen_collective_[in->id()]); };
    for (const Output& in : node.inputs()) see(in.node);
    for (const Node* control : node.control_inputs()) see(control);
    return last;
  }

  void EmitNode(const Node& node) {
    if (s_.invariants->IsComputed(node)) return;
    const int wait_for = LastCollective(node);
    if (IsCollective(node)) {
      collectives_.FinishUpTo(wait_for);
      collectives_.Start(node);
      seen_collective_[node.id()] = collectives_.last();
    } else if (IsControlFlow(node.op())) {
      // On every rank, the collectives inside the node run after all collectives that were started
      // before it.
      collectives_.FinishUpTo(s_.Communicates(node) ? collectives_.last() : wait_for);
      EmitControl(node);
    } else if (s_.kernel_plans[node.id()].kernel != nullptr) {
      collectives_.FinishUpTo(wait_for);
      EmitKernel(node);
    } else {
      seen_collective_[node.id()] = wait_for;
    }
  }

  void EmitKernel(const Node& node) {
    KernelPlan& kernel = s_.kernel_plans[node.id()];
    if (kernel.flops > 0) collectives_.FinishUpdates();
    const int32_t name = writer_.AddName(node);
    const auto emit = [&](KernelPlan& kernel, const NodePart* part, int thread) {
      const Instruction instruction = {.kind = InstructionKind::kKernel,
                                       .thread = static_cast<int16_t>(thread),
                                       .index = static_cast<int32_t>(plan_.kernels.size()),
                                       .node = name};
      std::map<int, int> forms;
      for (const OperandForm& form : kernel.forms) {
        forms[form.input] = forms_.StorageOf(node.input(form.input), form);
      }
      EmitCompute(node, instruction, kernel.scratch_bytes, forms, part);
      plan_.kernels.push_back(std::move(kernel.kernel));
      plan_.kernel_flops.push_back(kernel.flops);
      plan_.kernel_fails.push_back(kernel.fails_on_data);
    };
    if (s_.parts.empty() || s_.parts[node.id()].empty()) return emit(kernel, nullptr, 0);
    int thread = 0;
    for (NodePart& part : s_.parts[node.id()]) emit(part.kernel, &part, thread++);
  }

  // Emits a branch or loop. PlanMemory sets its scratch size later.
  void EmitControl(const Node& node) {
    const bool loops = node.op().role == OpRole::kLoop;
    PlannedControl control{.first_argument = FirstArgument(node.op())};
    for (int i = 0; i < 2; ++i) control.plans[i] = s_.body(node.id(), i).plan;
    const PlanState& condition = s_.body(node.id(), 0);
    const Output& predicate = loops ? condition.fetches[0] : node.input(0);
    const Shape& shape = (loops ? condition : s_).values().shape(predicate);
    control.has_elements = shape.num_elements() > 0;
    if (shape.rank() == 0) control.predicate = predicate.dtype();
    for (int i = 0; i < node.num_outputs(); ++i) {
      control.bytes.push_back(s_.LocalBytes(node.output(i)));
    }
    const Instruction instruction = {
        .kind = loops ? InstructionKind::kLoop : InstructionKind::kBranch,
        .index = static_cast<int32_t>(plan_.controls.size()),
        .node = writer_.AddName(node)};
    EmitCompute(node, instruction, kBufferAlignment);
    plan_.controls.push_back(std::move(control));
  }

  int StorageOf(const Output& value) {
    const int storage = s_.storage.of(value);
    if (storage >= 0) return storage;
    const Node* const source = s_.invariants->SourceOf(value);
    return source != nullptr && s_.invariants->IsComputed(*source) ? forms_.StorageOf(*source) : -1;
  }

  // Emits an instruction with the node's inputs, outputs and scratch as operands. `forms` holds the
  // storage of each input that the kernel reads in a form. `part` is null for the whole node.
  void EmitCompute(const Node& node, Instruction instruction, int64_t scratch_bytes,
                   const std::map<int, int>& forms = {}, const NodePart* part = nullptr) {
    instruction.first_operand = writer_.NextOperand();
    instruction.num_inputs = node.num_inputs();
    instruction.num_outputs = node.num_outputs();
    StorageUses uses;
    for (int i = 0; i < node.num_inputs(); ++i) {
      const auto form = forms.find(i);
      int storage = form != forms.end()       ? form->second
                    : node.is_static_input(i) ? -1
                                              : StorageOf(node.input(i));
      const int whole = storage;
      if (part != nullptr) storage = PartOf(storage, node.input(i), *part, part->inputs[i]);
      writer_.AddOperand(part != nullptr && part->of_update ? whole : storage);
      if (storage < 0) continue;
      uses.push_back({storage, false});
      const bool written = node.op().role == OpRole::kWrite && node.input(i).dtype() == DT_RESOURCE;
      if (written) uses.push_back({storage, true});
    }
    for (int i = 0; i < node.num_outputs(); ++i) {
      int storage = s_.storage.of(node.output(i));
      if (part != nullptr) storage = PartOf(storage, node.output(i), *part, part->outputs[i]);
      writer_.AddOperand(storage);
      if (storage >= 0) uses.push_back({storage, true});
    }
    if (scratch_bytes > 0) uses.push_back({writer_.AddScratch(scratch_bytes), true});
    writer_.Append(instruction, uses);
  }

  // Returns the storage of the range of `value` that a part accesses, or -1 if the range is empty.
  // `storage` is that of `value`.
  int PartOf(int storage, const Output& value, const NodePart& part,
             const std::optional<DimRange>& range) {
    if (storage < 0 || !range.has_value()) return storage;
    if (range->count == 0) return -1;
    if (!part.of_update || range->dim > 0) {
      return s_.storage.AddPart(storage, s_.local_shape(value), value.dtype(), *range);
    }
    DataType dtype = value.dtype();
    if (dtype == DT_RESOURCE) {
      dtype = s_.layout->variables()[s_.layout->FindHandle(value)].dtype;
    }
    const int64_t elements =
        s_.storage.all[storage].bytes / static_cast<int64_t>(DataTypeSize(dtype));
    return s_.storage.AddPart(storage, Shape({elements}), dtype, *range);
  }

  PlanState& s_;
  PlanForms forms_{s_};
  Plan& plan_;
  PlanWriter writer_;
  EmitCollectives collectives_;
  std::vector<int> seen_collective_;  // by node id: the collective that its users wait for, or -1
};

}  // namespace

absl::StatusOr<bool> EmitInstructions::Run(PlanState& s) {
  Emitter(s).Run();
  return true;
}

}  // namespace mirrorflow
