// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/evaluate_node.h"

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/runtime/device.h"

namespace mirrorflow {
namespace {

class EagerContext final : public KernelContext {
 public:
  EagerContext(const Node& node, absl::Span<const Tensor> inputs, absl::Span<const Shape> outputs,
               const EvaluateOptions& options)
      : node_(node), inputs_(inputs), outputs_(outputs), options_(options) {}

  const Node& node() const override { return node_; }
  const Shape& input_shape(int i) const override { return inputs_[i].shape(); }
  const Shape& output_shape(int i) const override { return outputs_[i]; }
  const Tensor& constant(int i) const override { return inputs_[i]; }
  const Sharding& output_sharding(int i) const override {
    static const Sharding* const replicated = new Sharding(Replicated());
    return options_.output_shardings.empty() ? *replicated : options_.output_shardings[i];
  }
  const Shape& global_output_shape(int i) const override {
    return options_.global_output_shapes.empty() ? outputs_[i] : options_.global_output_shapes[i];
  }

 private:
  const Node& node_;
  absl::Span<const Tensor> inputs_;
  absl::Span<const Shape> outputs_;
  const EvaluateOptions& options_;
};

// Kernels have finished when they return, so no events are needed.
class EagerLane final : public Lane {
 public:
  absl::Status Wait(EventId) override { return absl::OkStatus(); }
  absl::Status Record(EventId) override { return absl::OkStatus(); }
};

}  // namespace

absl::StatusOr<std::vector<Tensor>> EvaluateNode(const Node& node, absl::Span<const Tensor> inputs,
                                                 absl::Span<const Shape> output_shapes,
                                                 const KernelRegistry& kernels,
                                                 const EvaluateOptions& options) {
  // A view returns its input. So does a collective, because a single node stands for one replica.
  const bool returns_inputs = node.op().has(kView) || node.op().role == OpRole::kCollective;
  if (returns_inputs && !kernels.Has(node.op().name, options.device_type)) {
    std::vector<Tensor> outputs;
    for (int i = 0; i < node.num_outputs(); ++i) {
      outputs.push_back(inputs[i].Reshaped(output_shapes[i]));
    }
    return outputs;
  }
  const EagerContext context(node, inputs, output_shapes, options);
  MF_ASSIGN_OR_RETURN(KernelPlan plan, kernels.Create(options.device_type, context));
  if (plan.flops > options.max_flops) {
    return absl::ResourceExhaustedError(absl::StrCat(OpAndName(node), ": expected at most ",
                                                     options.max_flops, " operations, got ",
                                                     plan.flops));
  }

  // Each tensor has its own region, after the parameter region.
  StepParams params = options.params;
  std::vector<std::byte*> bases = {reinterpret_cast<std::byte*>(&params)};
  std::vector<Operand> operands;
  auto add_operand = [&](const Tensor& tensor) {
    operands.push_back({static_cast<RegionId>(bases.size()), 0});
    bases.push_back(tensor.raw());
  };
  std::vector<Tensor> outputs;
  for (const Tensor& input : inputs) add_operand(input);
  for (int i = 0; i < node.num_outputs(); ++i) {
    MF_ASSIGN_OR_RETURN(Tensor output, Tensor::Allocate(node.output_dtype(i), output_shapes[i]));
    add_operand(output);
    outputs.push_back(std::move(output));
  }
  MF_ASSIGN_OR_RETURN(std::shared_ptr<Buffer> scratch, Buffer::Allocate(plan.scratch_bytes));
  operands.push_back({static_cast<RegionId>(bases.size()), 0});
  bases.push_back(scratch->data());

  EagerLane lane;
  const KernelArgs args(bases.data(), operands.data(), node.num_inputs(), node.num_outputs());
  MF_RETURN_IF_ERROR(Annotate(plan.kernel->Run(args, lane), OpAndName(node)));
  return outputs;
}

}  // namespace mirrorflow
