// SPDX-License-Identifier: Apache-2.0
//
// LayerNorm and its gradient. Threads share a row; the gradients of gamma and beta are reductions
// over rows.
#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "framework/core/status.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/reduce.h"

namespace mirrorflow {
namespace {

struct Rows {
  int64_t rows, columns;
  TeamShape team;

  static absl::StatusOr<Rows> Create(const KernelContext& c) {
    const DataType u = c.attr<DataType>("U");
    if (CudaValueType(c.attr<DataType>("T")) != CudaType(u)) return UnsupportedDataType(u);
    const Shape& x = c.output_shape(0);
    int64_t rows = 1;
    for (int d = 0; d + 1 < x.rank(); ++d) rows *= x.dim(d);
    const int64_t columns = x.dim(x.rank() - 1);
    return Rows{rows, columns, TeamForRows(rows, columns)};
  }
  // A stage that calls `function` of layer_norm.cuh.
  CudaStage Stage(absl::string_view function, absl::string_view operands) const {
    return {.body = absl::StrCat("  ", function, "<", rows, ", ", columns, ", ", team.along, ", ",
                                 team.across, ">(", operands, ");"),
            .grid = {.x = columns == 0 ? 0 : team.BlocksFor(rows), .threads = team.threads()}};
  }
};

absl::StatusOr<KernelPlan> CreateLayerNorm(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(const Rows r, Rows::Create(c));
  const std::string type = CudaType(c.attr<DataType>("U"));
  CudaStage stage = r.Stage(
      "LayerNorm", absl::StrCat("a0, a1, a2, z0, z1, z2, static_cast<", type, ">(",
                                CudaLiteral(static_cast<double>(c.attr<float>("epsilon"))), ")"));
  if (r.columns == 0) {  // the mean of an empty row is NaN
    stage = {.body = absl::StrCat("  ForEach<", r.rows,
                                  ">([&](auto r) { z1[r] = z2[r] = BitsToFloat(0x7fc00000); });"),
             .grid = ElementwiseGrid(r.rows)};
  }
  return MakeCudaKernel(c, {stage}, {.includes = {"layer_norm.cuh"}, .in_place = {{0, 0}}});
}

absl::StatusOr<KernelPlan> CreateLayerNormGrad(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(const Rows r, Rows::Create(c));
  const std::string type = CudaType(c.attr<DataType>("U"));
  CudaKernelOptions options{.includes = {"layer_norm.cuh"}};
  const std::string of_element = absl::Substitute(
      "Two<$0>{Load(a0[i]) * (Load(a1[i]) - a3[i / $1]) * a4[i / $1], Load(a0[i])}", type,
      r.columns);
  const ReducedDims dims = ReduceToChannels(Shape({r.rows, r.columns}), /*channel_dim=*/1);
  std::vector<CudaStage> stages =
      ReductionStages(dims,
                      {.op = absl::StrCat("Sums<", type, ">"),
                       .op_bytes = 2 * static_cast<int64_t>(DataTypeSize(c.attr<DataType>("U"))),
                       .value = of_element,
                       .finish = "z1[o] = result.first; z2[o] = result.second;"},
                      &options.scratch_bytes);
  stages.push_back(r.Stage("LayerNormGrad", "a0, a1, a2, a3, a4, z0"));
  return MakeCudaKernel(c, std::move(stages), std::move(options));
}

}  // namespace

void RegisterLayerNormCuda(KernelRegistry& kernels) {
  kernels.Register("LayerNorm", kGpu, CreateLayerNorm);
  kernels.Register("LayerNormGrad", kGpu, CreateLayerNormGrad);
}

}  // namespace mirrorflow
