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
  bool HasGarbage(int64_t offset, int64_t bytes) {
    const unsigned char* const begin = memory_.data() + begin_ + offset;
    return std::all_of(begin, begin + bytes, [](unsigned char c) { return c == kGarbage; });
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

// Which operands of a run share memory. By default, none do.
struct Sharing {
  const std::pair<int, int>* over = nullptr;  // output `second` is written over input `first`
  bool slices_in_place = false;               // KernelPlan::slices are parts of output 0
};

// Rows of equal sizes in memory; sizes and distances are in bytes.
struct RowsInMemory {
  RowsInMemory(const Tensor& tensor, int64_t row_stride)
      : row(static_cast<int64_t>(tensor.bytes())), stride(row) {
    const Shape& shape = tensor.shape();
    if (row_stride == 0 || row == 0) return;
    count = shape.num_elements_before(shape.rank() - 1);
    row /= count;
    stride = row_stride;
  }
  int64_t bytes() const { return (count - 1) * stride + row; }

  int64_t count = 1, row, stride;
};

class Context final : public KernelContext {
 public:
  // `row_stride` is 0 for contiguous rows.
  Context(const Node& node, absl::Span<const Tensor> inputs, absl::Span<const Shape> outputs,
          const EvaluateOptions& options, int64_t row_stride = 0)
      : node_(node),
        inputs_(inputs),
        outputs_(outputs),
        options_(options),
        row_stride_(row_stride) {}

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
  int64_t row_stride() const override {
    return row_stride_ > 0 ? row_stride_ : KernelContext::row_stride();
  }

 private:
  const Node& node_;
  const absl::Span<const Tensor> inputs_;
  const absl::Span<const Shape> outputs_;
  const EvaluateOptions& options_;
  const int64_t row_stride_;
  const Sharding replicated_ = Replicated();
};

class NoLane final : public Lane {
 public:
  absl::Status Wait(EventId) override { return absl::OkStatus(); }
  absl::Status Record(EventId) override { return absl::OkStatus(); }
};

class StrictRun {
 public:
  // `row_stride` is the distance between the rows of output 0 in elements, or 0 if they are
  // contiguous.
  StrictRun(const Node& node, absl::Span<const Tensor> inputs, absl::Span<const Shape> shapes,
            const KernelPlan& plan, const StepParams& params, int64_t row_stride = 0)
      : node_(node),
        inputs_(inputs),
        shapes_(shapes),
        plan_(plan),
        params_(params),
        row_stride_(row_stride) {}

  // Runs the kernel. `variables` has one tensor per input: the variable after the run, or no value
  // if the input is not a handle.
  absl::StatusOr<std::vector<Tensor>> Run(const Sharing& sharing, std::vector<Tensor>* variables);

 private:
  bool IsVariable(int i) const { return node_.input(i).dtype() == DT_RESOURCE; }
  absl::Status CheckMemory(std::vector<Guarded>& memory, const std::pair<int, int>* pair) const;
  RowsInMemory RowsOf(const Tensor& output, int i) const {
    return RowsInMemory(
        output, i == 0 ? row_stride_ * static_cast<int64_t>(DataTypeSize(output.dtype())) : 0);
  }
  absl::Status Wrong(absl::string_view what) const {
    return absl::InternalError(absl::StrCat("the kernel of ", node_.op().name, " ", what));
  }

  const Node& node_;
  const absl::Span<const Tensor> inputs_;
  const absl::Span<const Shape> shapes_;
  const KernelPlan& plan_;
  const StepParams& params_;
  const int64_t row_stride_;
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

absl::StatusOr<std::vector<Tensor>> StrictRun::Run(const Sharing& sharing,
                                                   std::vector<Tensor>* variables) {
  const std::pair<int, int>* const pair = sharing.over;
  std::vector<Guarded> memory;  // inputs, outputs, scratch
  for (int i = 0; i < node_.num_inputs(); ++i) {
    memory.emplace_back(inputs_[i].bytes(), DataTypeSize(inputs_[i].dtype()));
    if (!node_.is_static_input(i)) memory.back().Fill(inputs_[i]);
  }
  std::vector<Tensor> outputs;
  for (int i = 0; i < node_.num_outputs(); ++i) {
    MF_ASSIGN_OR_RETURN(Tensor output, Tensor::Allocate(node_.output_dtype(i), shapes_[i]));
    memory.emplace_back(RowsOf(output, i).bytes(), DataTypeSize(output.dtype()));
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
  for (const InputSlice& slice : plan_.slices) {
    if (!sharing.slices_in_place) break;
    const Tensor& input = inputs_[slice.input];
    std::byte* const in_output = memory[node_.num_inputs()].data() + slice.offset;
    const RowsInMemory rows(input, slice.row_stride);
    for (int64_t r = 0; r < rows.count && rows.row > 0; ++r) {
      std::memcpy(in_output + r * rows.stride, input.raw() + r * rows.row, rows.row);
    }
    bases[operands[slice.input].region] = in_output;
  }
  NoLane lane;
  const KernelArgs args(bases.data(), operands.data(), node_.num_inputs(), node_.num_outputs());
  MF_RETURN_IF_ERROR(plan_.kernel->Run(args, lane));
  MF_RETURN_IF_ERROR(CheckMemory(memory, pair));
  for (int i = 0; i < node_.num_outputs(); ++i) {
    const bool over = pair != nullptr && pair->second == i;
    Guarded& from = memory[over ? pair->first : node_.num_inputs() + i];
    const RowsInMemory rows = RowsOf(outputs[i], i);
    for (int64_t r = 0; r < rows.count && rows.row > 0; ++r) {
      std::memcpy(outputs[i].raw() + r * rows.row, from.data() + r * rows.stride, rows.row);
      if (r + 1 < rows.count &&
          !from.HasGarbage(r * rows.stride + rows.row, rows.stride - rows.row)) {
        return Wrong(absl::StrCat("writes between the rows of output ", i));
      }
    }
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
  std::vector<Tensor> variables;
  MF_ASSIGN_OR_RETURN(std::vector<Tensor> outputs, run.Run(Sharing(), &variables));
  const auto expect_same = [&](StrictRun& other, const Sharing& sharing,
                               absl::string_view when) -> absl::Status {
    std::vector<Tensor> ignored;
    MF_ASSIGN_OR_RETURN(const std::vector<Tensor> got, other.Run(sharing, &ignored));
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (Tensor::Identical(outputs[i], got[i])) continue;
      return absl::InternalError(absl::StrCat("the kernel of ", node.op().name,
                                              " gives a different output ", i, " when ", when));
    }
    return absl::OkStatus();
  };
  for (const std::pair<int, int>& pair : plan.in_place) {
    // A plan uses the pair only if the sizes are equal.
    if (inputs[pair.first].bytes() != outputs[pair.second].bytes()) continue;
    MF_RETURN_IF_ERROR(
        expect_same(run, {.over = &pair},
                    absl::StrCat("output ", pair.second, " is written over input ", pair.first)));
  }
  MF_RETURN_IF_ERROR(
      expect_same(run, {.slices_in_place = true}, "its inputs are parts of output 0"));
  if (plan.supports_row_stride) {
    const int64_t row_stride = context.row_stride() + 3;
    const Context strided(node, inputs, output_shapes, options, row_stride);
    MF_ASSIGN_OR_RETURN(const KernelPlan with_gaps, kernels.Create(options.device_type, strided));
    StrictRun apart(node, inputs, output_shapes, with_gaps, options.params, row_stride);
    for (const bool in_place : {false, true}) {
      MF_RETURN_IF_ERROR(expect_same(apart, {.slices_in_place = in_place},
                                     "there are gaps between the rows of output 0"));
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
