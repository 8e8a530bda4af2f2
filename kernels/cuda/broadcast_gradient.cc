// SPDX-License-Identifier: Apache-2.0
//
// Which dimensions broadcasting adds up, and to what it leads. The operands are static, so what the
// kernels write is known when they are made.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_kernel.h"

namespace mirrorflow {
namespace {

using Integers = std::vector<int64_t>;

absl::StatusOr<std::pair<Integers, Integers>> ShapesOf(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(Integers first, IntegersOf(c.constant(0)));
  MF_ASSIGN_OR_RETURN(Integers second, IntegersOf(c.constant(1)));
  return std::pair(std::move(first), std::move(second));
}

// Output i is values[i].
absl::StatusOr<KernelPlan> MakeConstants(const KernelContext& c,
                                         const std::vector<Integers>& values) {
  std::string body;
  for (size_t k = 0; k < values.size(); ++k) {
    const int64_t n = static_cast<int64_t>(values[k].size());
    const Shape& out = c.output_shape(static_cast<int>(k));
    if (out != Shape({n})) {
      return absl::InvalidArgumentError(
          absl::StrCat("output ", k, " has ", n, " elements; expected shape ", out.ToString()));
    }
    for (int64_t i = 0; i < n; ++i) {
      absl::StrAppend(&body, "  z", k, "[", i, "] = ", values[k][i], ";\n");
    }
  }
  return MakeCudaKernel(c, {{.body = std::move(body), .grid = {.threads = 1}}});
}

absl::StatusOr<KernelPlan> CreateBroadcastGradientArgs(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(const auto shapes, ShapesOf(c));
  const size_t rank = std::max(shapes.first.size(), shapes.second.size());
  std::vector<Integers> axes(2);
  for (int k = 0; k < 2 && shapes.first != shapes.second; ++k) {
    const Integers& shape = k == 0 ? shapes.first : shapes.second;
    const size_t missing = rank - shape.size();
    for (size_t i = 0; i < rank; ++i) {
      if (i < missing || shape[i - missing] == 1) axes[k].push_back(static_cast<int64_t>(i));
    }
  }
  return MakeConstants(c, axes);
}

absl::StatusOr<KernelPlan> CreateBroadcastArgs(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(auto shapes, ShapesOf(c));
  auto& [both, shorter] = shapes;
  if (shorter.size() > both.size()) both.swap(shorter);
  for (size_t d = 1; d <= shorter.size(); ++d) {
    int64_t& size = both[both.size() - d];
    if (size == 1) size = shorter[shorter.size() - d];
  }
  return MakeConstants(c, {both});
}

}  // namespace

void RegisterBroadcastGradientCuda(KernelRegistry& kernels) {
  kernels.Register("BroadcastArgs", kGpu, CreateBroadcastArgs);
  kernels.Register("BroadcastGradientArgs", kGpu, CreateBroadcastGradientArgs);
}

}  // namespace mirrorflow
