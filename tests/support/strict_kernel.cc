// SPDX-License-Identifier: Apache-2.0
#include "tests/support/strict_kernel.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/runtime/device.h"

namespace mirrorflow {
namespace {

constexpr unsigned char kGarbage = 0xff;  // NaN, -1

// Memory between guards, at an address that is aligned to `alignment` but not to more.
class Guarded {
 public:
  Guarded(size_t bytes, size_t alignment) : bytes_(bytes), memory_(bytes + 3 * kGuard, kGarbage) {
    const size_t to_guard = kGuard - reinterpret_cast<uintptr_t>(memory_.data()) % kGuard;
    begin_ = to_guard + alignment;
  }
  std::byte* data() { return reinterpret_cast<std::byte*>(memory_.data() + begin_); }
  void Fill(const Tensor& tensor) {
    if (bytes_ > 0) std::memcpy(data(), tensor.raw(), bytes_);
  }
  bool Holds(const Tensor& tensor) {
    return bytes_ == 0 || std::memcmp(data(), tensor.raw(), bytes_) == 0;
  }
  void CopyTo(const Tensor& tensor) {
    if (bytes_ > 0) std::memcpy(tensor.raw(), data(), bytes_);
  }
  bool GuardsHold() const {
    auto is_garbage = [](unsigned char c) { return c == kGarbage; };
    return std::all_of(memory_.begin(), memory_.begin() + begin_, is_garbage) &&
           std::all_of(memory_.begin() + begin_ + bytes_, memory_.end(), is_garbage);
  }

 private:
  static constexpr size_t kGuard = 64;

  size_t bytes_;
  size_t begin_ = 0;
  std::vector<unsigned char> memory_;
};

class Context final : public KernelContext {
 public:
  Context(const Node& node, absl::Span<const Tensor> inputs, absl::Span<const Shape> outputs,
          const EvaluateOptions& options)
      : node_(node), inputs_(inputs), outputs_(outputs), options_(options) {}

  const Node& node() const override { return node_; }
  const Shape& input_shape(int i) const override { return inputs_[i].shape(); }
  const Shape& output_shape(int i) const override { return outputs_[i]; }
  const Tensor& constant(int i) const override {
    MF_CHECK(node_.is_static_input(i));
    return inputs_[i];
  }
  const Sharding& output_sharding(int i) const override {
    return options_.output_shardings.empty() ? replicated_ : options_.output_shardings[i];
  }
  const Shape& global_output_shape(int i) const override {
    return options_.global_output_shapes.empty() ? outputs_[i] : options_.global_output_shapes[i];
  }
  int num_threads() const override { return 1; }

 private:
  const Node& node_;
  const absl::Span<const Tensor> inputs_;
  const absl::Span<const Shape> outputs_;
  const EvaluateOptions& options_;
  const Sharding replicated_ = Replicated();
};

class NoLane final : public Lane {
 public:
  absl::Status Wait(EventId) override { return absl::OkStatus(); }
  absl::Status Record(EventId) override { return absl::OkStatus(); }
};

class StrictRun {
 public:
  StrictRun(const Node& node, absl::Span<const Tensor> inputs, absl::Span<const Shape> shapes,
            const KernelPlan& plan, const StepParams& params)
      : node_(node), inputs_(inputs), shapes_(shapes), plan_(plan), params_(params) {}

  // Runs the kernel. With `pair`, output pair.second overwrites input pair.first. `variables` has
  // one tensor per input: the variable after the run, or no value if the input is not a handle.
  absl::StatusOr<std::vector<Tensor>> Run(const std::pair<int, int>* pair,
                                          std::vector<Tensor>* variables);

 private:
  bool IsVariable(int i) const { return node_.input(i).dtype() == DT_RESOURCE; }
  absl::Status CheckMemory(std::vector<Guarded>& memory, const std::pair<int, int>* pair) const;
  absl::Status Wrong(absl::string_view what) const {
    return absl::InternalError(absl::StrCat("the kernel of ", node_.op().name, " ", what));
  }

  const Node& node_;
  const absl::Span<const Tensor> inputs_;
  const absl::Span<const Shape> shapes_;
  const KernelPlan& plan_;
  const StepParams& params_;
};

absl::Status StrictRun::CheckMemory(std::vector<Guarded>& memory,
                                    const std::pair<int, int>* pair) const {
  for (size_t i = 0; i < memory.size(); ++i) {
    if (!memory[i].GuardsHold()) return Wrong(absl::StrCat("writes outside of operand ", i));
  }
  for (int i = 0; i < node_.num_inputs(); ++i) {
    const bool may_change =
        IsVariable(i) || node_.is_static_input(i) || (pair != nullptr && pair->first == i);
    if (!may_change && !memory[i].Holds(inputs_[i])) {
      return Wrong(absl::StrCat("writes to input ", i));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> StrictRun::Run(const std::pair<int, int>* pair,
                                                   std::vector<Tensor>* variables) {
  std::vector<Guarded> memory;  // inputs, outputs, scratch
  for (int i = 0; i < node_.num_inputs(); ++i) {
    memory.emplace_back(inputs_[i].bytes(), DataTypeSize(inputs_[i].dtype()));
    if (!node_.is_static_input(i)) memory.back().Fill(inputs_[i]);
  }
  std::vector<Tensor> outputs;
  for (int i = 0; i < node_.num_outputs(); ++i) {
    MF_ASSIGN_OR_RETURN(Tensor output, Tensor::Allocate(node_.output_dtype(i), shapes_[i]));
    memory.emplace_back(output.bytes(), DataTypeSize(output.dtype()));
    outputs.push_back(std::move(output));
  }
  memory.emplace_back(plan_.scratch_bytes, kBufferAlignment);

  StepParams params = params_;
  std::vector<std::byte*> bases = {reinterpret_cast<std::byte*>(&params)};
  std::vector<Operand> operands;
  for (size_t i = 0; i < memory.size(); ++i) {
    const bool over = pair != nullptr && static_cast<int>(i) == node_.num_inputs() + pair->second;
    operands.push_back({static_cast<RegionId>(bases.size()), 0});
    bases.push_back(memory[over ? pair->first : i].data());
  }
  NoLane lane;
  const KernelArgs args(bases.data(), operands.data(), node_.num_inputs(), node_.num_outputs());
  MF_RETURN_IF_ERROR(plan_.kernel->Run(args, lane));
  MF_RETURN_IF_ERROR(CheckMemory(memory, pair));
  for (int i = 0; i < node_.num_outputs(); ++i) {
    const bool over = pair != nullptr && pair->second == i;
    memory[over ? pair->first : node_.num_inputs() + i].CopyTo(outputs[i]);
  }
  variables->assign(node_.num_inputs(), Tensor());
  for (int i = 0; i < node_.num_inputs(); ++i) {
    if (!IsVariable(i)) continue;
    MF_ASSIGN_OR_RETURN((*variables)[i], inputs_[i].Clone());
    memory[i].CopyTo((*variables)[i]);
  }
  return outputs;
}

}  // namespace

absl::StatusOr<std::vector<Tensor>> EvaluateStrictly(const Node& node,
                                                     absl::Span<const Tensor> inputs,
                                                     absl::Span<const Shape> output_shapes,
                                                     const KernelRegistry& kernels,
                                                     const EvaluateOptions& options) {
  if (!kernels.Has(node.op().name, options.device_type)) {  // a view or a collective
    return EvaluateNode(node, inputs, output_shapes, kernels, options);
  }
  const Context context(node, inputs, output_shapes, options);
  MF_ASSIGN_OR_RETURN(const KernelPlan plan, kernels.Create(options.device_type, context));
  StrictRun run(node, inputs, output_shapes, plan, options.params);
  std::vector<Tensor> variables, ignored;
  MF_ASSIGN_OR_RETURN(std::vector<Tensor> outputs, run.Run(nullptr, &variables));
  for (const std::pair<int, int>& pair : plan.in_place) {
    // A plan uses the pair only if the sizes are equal.
    if (inputs[pair.first].bytes() != outputs[pair.second].bytes()) continue;
    MF_ASSIGN_OR_RETURN(const std::vector<Tensor> over, run.Run(&pair, &ignored));
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (Tensor::Identical(outputs[i], over[i])) continue;
      return absl::InternalError(absl::StrCat("the kernel of ", node.op().name,
                                              " gives a different output ", i, " when output ",
                                              pair.second, " is written over input ", pair.first));
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (variables[i].has_value() && variables[i].bytes() > 0) {
      std::memcpy(inputs[i].raw(), variables[i].raw(), variables[i].bytes());
    }
  }
  return outputs;
}

}  // namespace mirrorflow
