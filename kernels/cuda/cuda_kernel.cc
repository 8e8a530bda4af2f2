// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cuda_kernel.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/status.h"
#include "framework/graph/variable_handle.h"
#include "kernels/cuda/device/cuda_device.h"

namespace mirrorflow {
namespace {

// The number of parameters that fit into the 4096 bytes that CUDA allows, and how many of them can
// be inputs and outputs.
constexpr size_t kMaxParameters = 4096 / sizeof(void*);
constexpr size_t kMaxOperands = kMaxParameters - 4;

class CudaKernel final : public Kernel {
 public:
  CudaKernel(const Node& node, bool has_scratch, std::string error)
      : num_outputs_(node.num_outputs()), has_scratch_(has_scratch), error_(std::move(error)) {
    for (int i = 0; i < node.num_inputs(); ++i) {
      if (!node.is_static_input(i)) inputs_.push_back(i);
    }
  }
  void Add(const CudaFunction* function, const CudaGrid& grid) {
    stages_.emplace_back(function, grid);
  }

  // Passes the arguments in the order of Parameters().
  absl::Status Run(const KernelArgs& args, Lane& lane) const override {
    const size_t operands = inputs_.size() + num_outputs_;
    if (operands > kMaxOperands) {
      return absl::UnimplementedError(
          absl::StrCat("too many inputs and outputs for a kernel; expected at most ", kMaxOperands,
                       ", got ", operands));
    }
    const void* values[kMaxParameters];
    void* addresses[kMaxParameters];
    int count = 0;
    const auto add = [&](const void* value) {
      values[count] = value;
      addresses[count] = &values[count];
      ++count;
    };
    for (int i : inputs_) add(args.input<std::byte>(i));
    for (int i = 0; i < num_outputs_; ++i) add(args.output<std::byte>(i));
    add(has_scratch_ ? args.scratch<std::byte>() : nullptr);
    add(&args.params());
    add(static_cast<CudaLane&>(lane).failure());
    add(&error_);  // a failing kernel reports this address
    for (const auto& [function, grid] : stages_) {
      MF_RETURN_IF_ERROR(function->LaunchWith(lane, grid, addresses));
    }
    return absl::OkStatus();
  }

 private:
  std::vector<int> inputs_;
  const int num_outputs_;
  const bool has_scratch_;
  const std::string error_;
  std::vector<std::pair<const CudaFunction*, CudaGrid>> stages_;
};

std::string Parameters(const KernelContext& c) {
  std::vector<std::string> all;
  const Node& node = c.node();
  for (int i = 0; i < node.num_inputs(); ++i) {
    if (node.is_static_input(i)) continue;
    const bool is_variable = node.input(i).dtype() == DT_RESOURCE;
    all.push_back(
        absl::StrCat(is_variable ? "" : "const ", CudaType(InputDataType(c, i)), "* a", i));
  }
  for (int i = 0; i < node.num_outputs(); ++i) {
    all.push_back(absl::StrCat(CudaType(c.output_dtype(i)), "* z", i));
  }
  all.push_back("char* scratch, const StepParams* params, DataFailure* failure, uint64 error");
  return absl::StrJoin(all, ", ");
}

}  // namespace

DataType InputDataType(const KernelContext& c, int i) {
  const Output& input = c.node().input(i);
  if (input.dtype() != DT_RESOURCE) return input.dtype();
  return VariableOf(input).attr<DataType>("dtype");
}

KernelPlan MakeCudaKernel(const KernelContext& c, std::vector<CudaStage> stages,
                          CudaKernelOptions options) {
  const bool can_fail = !options.error.empty();
  auto kernel = std::make_unique<CudaKernel>(
      c.node(), options.scratch_bytes > 0,
      can_fail ? absl::StrCat(OpAndName(c.node()), ": ", options.error) : "");
  const std::string parameters = Parameters(c);
  for (CudaStage& stage : stages) {
    if (stage.grid.x == 0 || stage.grid.y == 0 || stage.grid.z == 0) continue;
    if (can_fail) {
      stage.body = absl::StrCat(
          "const auto fail = [&](int64 value) { Fail(failure, error, value); };\n", stage.body);
    }
    // Appended to the body, so that a body that returns early because a gate is false does not
    // count as a write.
    if (c.node().op().role == OpRole::kWrite) {
      absl::StrAppend(&stage.body,
                      "\n  if (blockIdx.x == 0 && threadIdx.x == 0) failure->writes += 1;");
    }
    kernel->Add(
        ProgramOf(c).Add({.parameters = parameters,
                          .body = std::move(stage.body),
                          .includes = options.includes,
                          .threads = static_cast<int>(stage.grid.threads * stage.grid.threads_y)}),
        stage.grid);
  }
  return {.kernel = std::move(kernel),
          .scratch_bytes = options.scratch_bytes,
          .in_place = std::move(options.in_place),
          .fails_on_data = can_fail};
}

}  // namespace mirrorflow
