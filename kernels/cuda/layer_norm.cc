// SPDX-License-Identifier: Apache-2.0
//
// LayerNorm and its gradient. Several threads share a row. The gradient's blocks write partial sums
// for gamma and beta, and a second stage adds them up.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/reduce_stages.h"

namespace mirrorflow {
namespace {

struct Rows {
  int64_t rows, columns;

  static absl::StatusOr<Rows> Create(const KernelContext& c) {
    const DataType u = c.attr<DataType>("U");
    if (CudaValueType(c.attr<DataType>("T")) != CudaType(u)) return UnsupportedDataType(u);
    const Shape& x = c.output_shape(0);
    const int last = x.rank() - 1;
    return Rows{.rows = x.num_elements_before(last), .columns = x.dim(last)};
  }
  // Returns a stage whose blocks call `function` of layer_norm.cuh.
  CudaStage Stage(absl::string_view function, const TeamShape& team, unsigned int blocks,
                  absl::string_view operands) const {
    return {.body = absl::StrCat("  ", function, "<", rows, ", ", columns, ", ", team.along, ", ",
                                 team.across, ">(", operands, ");"),
            .grid = {.x = columns == 0 ? 0 : blocks, .threads = team.threads()}};
  }
};

absl::StatusOr<KernelPlan> CreateLayerNorm(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(const Rows r, Rows::Create(c));
  const std::string type = CudaType(c.attr<DataType>("U"));
  const TeamShape team = TeamForRows(r.rows, r.columns);
  CudaStage stage =
      r.Stage("LayerNorm", team, team.BlocksFor(r.rows),
              absl::StrCat("a0, a1, a2, z0, z1, z2, static_cast<", type, ">(",
                           CudaLiteral(static_cast<double>(c.attr<float>("epsilon"))), ")"));
  if (r.columns == 0) {  // the mean of an empty row is NaN
    stage = {.body = absl::StrCat("  ForEach<", r.rows,
                                  ">([&](auto r) { z1[r] = z2[r] = BitsToFloat(0x7fc00000); });"),
             .grid = ElementwiseGrid(r.rows)};
  }
  return MakeCudaKernel(c, {stage}, {.includes = {"layer_norm.cuh"}, .in_place = {{0, 0}}});
}

// Returns the gradient's team, with 8 elements per thread, or more if rows are longer than 4096.
TeamShape GradientTeam(int64_t columns) {
  const int64_t along = std::min<int64_t>(PowerOfTwoFor((columns + 7) / 8), 512);
  return {.along = static_cast<int>(along),
          .across = static_cast<int>(std::max<int64_t>(256 / along, 1)),
          .along_first = true};
}

// Returns the number of blocks for the gradient. Each block writes 2 sums per column, which costs
// less than processing 8 rows.
unsigned int GradientBlocks(int64_t rows, const TeamShape& team) {
  constexpr int64_t kMinRows = 8, kManyBlocks = 512;
  const int64_t rows_of_block = std::max<int64_t>(kMinRows, team.across);
  return static_cast<unsigned int>(std::min(DivideUp(rows, rows_of_block), kManyBlocks));
}

absl::StatusOr<KernelPlan> CreateLayerNormGrad(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(const Rows r, Rows::Create(c));
  const DataType u = c.attr<DataType>("U");
  const ReduceCode sums = {.op = absl::StrCat("Sums<", CudaType(u), ">"),
                           .op_bytes = 2 * static_cast<int64_t>(DataTypeSize(u)),
                           .finish = "z1[o] = result.first; z2[o] = result.second;"};
  const TeamShape team = GradientTeam(r.columns);
  const unsigned int blocks = GradientBlocks(r.rows, team);
  const std::string partials = PartialsText(sums, 0);
  // Adjacent loads of 8 columns span 64 bytes. More columns would leave fewer threads per column.
  const TeamShape last = ChooseTeam(r.columns, blocks, std::min<int64_t>(r.columns, 8));
  return MakeCudaKernel(
      c,
      {r.Stage("LayerNormGrad", team, blocks, absl::StrCat("a0, a1, a2, a3, a4, z0, ", partials)),
       LastStage(r.columns, blocks, sums, last, partials)},
      {.includes = {"layer_norm.cuh"},
       .scratch_bytes = blocks * r.columns * sums.op_bytes,
       .in_place = {{0, 0}, {1, 0}}});
}

}  // namespace

void RegisterLayerNormCuda(KernelRegistry& kernels) {
  kernels.Register("LayerNorm", kGpu, CreateLayerNorm);
  kernels.Register("LayerNormGrad", kGpu, CreateLayerNormGrad);
}

}  // namespace mirrorflow
