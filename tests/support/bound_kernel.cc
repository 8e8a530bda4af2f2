// SPDX-License-Identifier: Apache-2.0
#include "tests/support/bound_kernel.h"

#include "framework/core/status.h"
#include "framework/runtime/device.h"

namespace mirrorflow {
namespace {

class Context final : public KernelContext {
 public:
  Context(const Node& node, absl::Span<const Tensor> inputs, absl::Span<const Shape> outputs)
      : node_(node), inputs_(inputs), outputs_(outputs) {}

  const Node& node() const override { return node_; }
  const Shape& input_shape(int i) const override { return inputs_[i].shape(); }
  const Shape& output_shape(int i) const override { return outputs_[i]; }
  const Tensor& constant(int i) const override { return inputs_[i]; }
  const Sharding& output_sharding(int) const override { return replicated_; }
  const Shape& global_output_shape(int i) const override { return outputs_[i]; }

 private:
  const Node& node_;
  const absl::Span<const Tensor> inputs_;
  const absl::Span<const Shape> outputs_;
  const Sharding replicated_ = Replicated();
};

class NoLane final : public Lane {
 public:
  absl::Status Wait(EventId) override { return absl::OkStatus(); }
  absl::Status Record(EventId) override { return absl::OkStatus(); }
};

}  // namespace

absl::StatusOr<KernelPlan> CreateKernel(const Node& node, absl::Span<const Tensor> inputs,
                                        absl::Span<const Shape> outputs,
                                        const KernelRegistry& kernels) {
  return kernels.Create("CPU", Context(node, inputs, outputs));
}

absl::StatusOr<KernelMemory> KernelMemory::Create(const Node& node, const KernelPlan& plan,
                                                  std::vector<Tensor> inputs,
                                                  absl::Span<const Shape> outputs) {
  KernelMemory memory;
  memory.inputs_ = std::move(inputs);
  for (int i = 0; i < node.num_outputs(); ++i) {
    MF_ASSIGN_OR_RETURN(Tensor output, Tensor::Allocate(node.output_dtype(i), outputs[i]));
    memory.outputs_.push_back(std::move(output));
  }
  MF_ASSIGN_OR_RETURN(memory.scratch_, Buffer::Allocate(plan.scratch_bytes));
  memory.bases_.push_back(nullptr);  // the step parameters, which Run() sets
  for (const std::vector<Tensor>* tensors : {&memory.inputs_, &memory.outputs_}) {
    for (const Tensor& tensor : *tensors) memory.bases_.push_back(tensor.raw());
  }
  memory.bases_.push_back(memory.scratch_->data());
  for (size_t i = 1; i < memory.bases_.size(); ++i) {
    memory.operands_.push_back({static_cast<RegionId>(i), 0});
  }
  return memory;
}

absl::Status KernelMemory::Run(const Kernel& kernel) {
  StepParams params;
  bases_[kParamsRegion] = reinterpret_cast<std::byte*>(&params);
  NoLane lane;
  return kernel.Run(KernelArgs(bases_.data(), operands_.data(), static_cast<int>(inputs_.size()),
                               static_cast<int>(outputs_.size())),
                    lane);
}

}  // namespace mirrorflow
