// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/plan/choose_kernels.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/compiler/invariants.h"
#include "framework/compiler/passes/order_variables.h"
#include "framework/core/status.h"
#include "framework/runtime/kernel.h"

namespace mirrorflow {
namespace {

class LocalContext final : public KernelContext {
 public:
  LocalContext(const PlanState& s, const Node& node, int64_t row_stride)
      : s_(s), node_(node), row_stride_(row_stride) {}

  const Node& node() const override { return node_; }
  const Shape& input_shape(int i) const override { return s_.local_shape(node_.input(i)); }
  const Shape& output_shape(int i) const override { return s_.local_shape(node_.output(i)); }
  const Tensor& constant(int i) const override { return s_.values().at(node_.input(i)).constant; }
  const Sharding& output_sharding(int i) const override { return s_.shardings.at(node_.output(i)); }
  const Shape& global_output_shape(int i) const override {
    return s_.values().shape(node_.output(i));
  }
  int64_t first_row() const override {
    return node_.has_attr(kFirstRowAttr) ? node_.attr<int64_t>(kFirstRowAttr) : 0;
  }
  bool changes_rarely(int i) const override {
    // A node that the plan computes as a form runs too rarely to benefit from forms of its inputs.
    return !s_.invariants->IsComputed(node_) && s_.invariants->SourceOf(node_.input(i)) != nullptr;
  }
  int64_t row_stride() const override {
    return row_stride_ > 0 ? row_stride_ : KernelContext::row_stride();
  }
  const KernelOptions& options() const override { return s_.options.kernels; }
  KernelLibrary* library() const override { return s_.plan->library.get(); }
  TuningTable* tuning() const override { return s_.tuning; }

 private:
  const PlanState& s_;
  const Node& node_;
  const int64_t row_stride_;
};

// The kernel context of one part of a divided node.
class PartContext final : public KernelContext {
 public:
  PartContext(const LocalContext& whole, const NodePart& part) : whole_(whole), part_(part) {}

  const Node& node() const override { return whole_.node(); }
  const Shape& input_shape(int i) const override { return part_.input_shapes[i]; }
  const Shape& output_shape(int i) const override { return part_.output_shapes[i]; }
  const Tensor& constant(int i) const override { return whole_.constant(i); }
  const Sharding& output_sharding(int i) const override { return whole_.output_sharding(i); }
  const Shape& global_output_shape(int i) const override { return whole_.global_output_shape(i); }
  int64_t first_row() const override { return whole_.first_row(); }
  int64_t first_index(int dim) const override {
    const std::optional<DimRange>& range = part_.outputs[0];
    return !part_.by_kernel && range.has_value() && range->dim == dim ? range->first : 0;
  }
  bool changes_rarely(int i) const override { return whole_.changes_rarely(i); }
  int64_t row_stride() const override {
    // A single row, or a piece of one, is contiguous whatever the stride between rows.
    const Shape& shape = part_.output_shapes[0];
    const bool is_row = shape.num_elements_before(shape.rank() - 1) == 1;
    return is_row ? KernelContext::row_stride() : whole_.row_stride();
  }
  const KernelContext& undivided() const override { return whole_; }
  const DimRange* part() const override { return part_.by_kernel ? &*part_.outputs[0] : nullptr; }
  const KernelOptions& options() const override { return whole_.options(); }
  KernelLibrary* library() const override { return whole_.library(); }
  TuningTable* tuning() const override { return whole_.tuning(); }

 private:
  const LocalContext& whole_;
  const NodePart& part_;
};

bool NeedsKernel(const Node& node) {
  const OpDef& op = node.op();
  return op.role == OpRole::kWrite || (op.role == OpRole::kRead && node.has_attr(kCopyAttr)) ||
         (Computes(op) && !op.has(kView));
}

// Returns the properties of a branch or loop that are known before its functions have memory plans.
KernelPlan OfControlFlow(const PlanState& s, const Node& node) {
  KernelPlan kernel;
  for (int i = 0; i < 2; ++i) {
    const Plan& plan = *s.body(node.id(), i).plan;
    kernel.fails_on_data |= plan.fails_on_data;
    kernel.flops = std::max(kernel.flops, plan.flops);
  }
  // A loop keeps its values in its outputs' memory, which is ideally the same as its inputs'
  // memory.
  for (int i = 0; i < node.num_outputs() && node.op().role == OpRole::kLoop; ++i) {
    kernel.in_place.emplace_back(i, i);
  }
  return kernel;
}

absl::Status CheckUpdatesParts(const Node& node, const Kernel& kernel) {
  const bool is_by_product = node.op().update_gradient.empty();
  if (is_by_product ? kernel.AsUpdateByProduct() != nullptr : kernel.AsUpdate() != nullptr) {
    return absl::OkStatus();
  }
  return absl::InternalError(
      absl::StrCat(OpAndName(node), ": the kernel cannot update part of a variable"));
}

}  // namespace

absl::StatusOr<KernelPlan> CreateKernel(const PlanState& s, const Node& node, int64_t row_stride) {
  return s.kernels->Create(s.traits.type, LocalContext(s, node, row_stride));
}

absl::StatusOr<KernelPlan> CreateKernel(const PlanState& s, const Node& node, int64_t row_stride,
                                        const NodePart& part) {
  const LocalContext whole(s, node, row_stride);
  return s.kernels->Create(s.traits.type, PartContext(whole, part));
}

absl::StatusOr<bool> ChooseKernels::Run(PlanState& s) {
  s.kernel_plans.resize(s.graph.id_limit());
  s.invariants = std::make_shared<const Invariants>(s);
  for (const Node* node : s.graph.Nodes()) {
    KernelPlan& kernel = s.kernel_plans[node->id()];
    if (IsControlFlow(node->op())) {
      kernel = OfControlFlow(s, *node);
    } else if (NeedsKernel(*node)) {
      MF_ASSIGN_OR_RETURN(kernel, CreateKernel(s, *node));
      if (IsCollective(*node)) MF_RETURN_IF_ERROR(CheckUpdatesParts(*node, *kernel.kernel));
    }
    if (s.invariants->IsComputed(*node)) kernel.flops = 0;  // not in each step
    s.plan->flops += kernel.flops;
    s.plan->fails_on_data |= kernel.fails_on_data;
  }
  // One library contains the kernels of all functions, which have already been chosen.
  if (!s.is_body && s.plan->library != nullptr) MF_RETURN_IF_ERROR(s.plan->library->Finish());
  return true;
}

}  // namespace mirrorflow
