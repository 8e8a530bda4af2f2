// SPDX-License-Identifier: Apache-2.0
//
// Optimizer updates. Each uses the formula of the same name in code/update.cuh.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "framework/core/status.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/device/cuda_device.h"
#include "ops/fused_ops.h"

namespace mirrorflow {
namespace {

// Returns the update's boolean attribute, if any, as the second template argument.
std::string ChoiceText(const KernelContext& c) {
  for (const char* name : {"use_nesterov", "update_slots"}) {
    if (c.node().has_attr(name)) return c.attr<bool>(name) ? ", true" : ", false";
  }
  return "";
}

// One variable with its slots and gradient.
struct Tensors {
  std::vector<int> variables;  // inputs
  int gradient;
  int64_t size;
  unsigned int first_block;  // first of the blocks that update this variable
};

// Returns statements that determine which of `all` the block updates. All threads of a block take
// the same branches.
std::string Choice(absl::Span<const Tensors> all, const std::string& indent) {
  if (all.size() == 1) {
    const Tensors& t = all[0];
    std::string text = absl::StrCat(indent, "block = blockIdx.x - ", t.first_block,
                                    ", size = ", t.size, ", gradient = a", t.gradient);
    for (size_t i = 0; i < t.variables.size(); ++i) {
      absl::StrAppend(&text, ", v", i, " = a", t.variables[i]);
    }
    return text + ";\n";
  }
  const size_t half = all.size() / 2;
  return absl::StrCat(indent, "if (blockIdx.x < ", all[half].first_block, ") {\n",
                      Choice(all.first(half), indent + "  "), indent, "} else {\n",
                      Choice(all.subspan(half), indent + "  "), indent, "}\n");
}

// Creates an update of one or several variables.
absl::StatusOr<KernelPlan> CreateUpdate(const KernelContext& c) {
  const Node& node = c.node();
  std::vector<Tensors> all;
  std::vector<std::string> scalars;
  ArgRange gates = {0, 0};
  for (const ArgDef& arg : node.op().inputs) {
    MF_ASSIGN_OR_RETURN(const ArgRange range, FindArg(node.op().inputs, node.attrs(), arg.name));
    const bool is_gradient = arg.name == node.op().update_gradient;
    if (arg.name == "predicate") {
      gates = range;
    } else if (!is_gradient && arg.dtype != DT_RESOURCE) {
      scalars.push_back(absl::StrCat("Load(*a", range.first, ")"));
    } else {
      all.resize(range.last - range.first);
      for (size_t i = 0; i < all.size(); ++i) {
        const int input = range.first + static_cast<int>(i);
        if (is_gradient) {
          all[i].gradient = input;
        } else {
          all[i].variables.push_back(input);
        }
      }
    }
  }
  const DataType dtype = c.attr<DataType>("T");
  const int width = static_cast<int>(16 / DataTypeSize(dtype));
  CudaGrid grid = ElementwiseGrid(0);
  for (Tensors& t : all) {
    t.size = c.input_shape(t.gradient).num_elements();
    t.first_block = grid.x;
    grid.x += ElementwiseGrid(t.size, width).x;
  }
  std::string body;
  // Gates are read on the device, so the host need not wait. All threads see the same values.
  for (int i = gates.first; i < gates.last; ++i) {
    absl::StrAppend(&body, "  if (!*a", i, ") return;\n");
  }
  absl::StrAppend(&body, "  int64 block, size;\n  const ", CudaType(dtype), "* gradient;\n");
  std::string variables;
  for (size_t i = 0; i < all[0].variables.size(); ++i) {
    absl::StrAppend(&body, "  ", CudaType(dtype), "* v", i, ";\n");
    absl::StrAppend(&variables, ", v", i);
  }
  const absl::string_view formula =
      absl::StripSuffix(absl::StripPrefix(node.op().name, "ResourceApply"), ops::MultiTensor(""));
  absl::StrAppend(&body, Choice(all, "  "), "  const update::", formula, "<", CudaValueType(dtype),
                  ChoiceText(c), "> formula = {", absl::StrJoin(scalars, ", "),
                  "};\n  update::Update(formula, block, size, gradient", variables, ");");
  return MakeCudaKernel(c, {{.body = std::move(body), .grid = grid}}, {.includes = {"update.cuh"}});
}

}  // namespace

void RegisterUpdateCuda(KernelRegistry& kernels) {
  for (const char* op : {"Adagrad", "AdagradV2", "Adam", "GradientDescent", "KerasAdam",
                         "KerasMomentum", "Momentum", "RMSProp"}) {
    const std::string update = absl::StrCat("ResourceApply", op);
    kernels.Register(update, kGpu, CreateUpdate);
    kernels.Register(ops::MultiTensor(update), kGpu, CreateUpdate);
  }
}

}  // namespace mirrorflow
