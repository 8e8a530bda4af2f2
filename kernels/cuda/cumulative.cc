// SPDX-License-Identifier: Apache-2.0
//
// Cumsum and Cumprod. If the input has few columns, they are divided into parts: a first stage
// reduces each part, and a second stage scans it, starting from the combination of the parts before
// it.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/reduce_stages.h"

namespace mirrorflow {
namespace {

absl::StatusOr<KernelPlan> CreateScan(const KernelContext& c, absl::string_view op) {
  const Shape& in = c.input_shape(0);
  MF_ASSIGN_OR_RETURN(const int axis, c.axis(1, in.rank()));
  std::vector<bool> is_axis(in.rank(), false);
  is_axis[axis] = true;
  const ReducedDims dims = ReduceDims(in, is_axis);
  const int64_t rows = in.dim(axis), width = in.Strides()[axis];
  const int64_t columns = rows == 0 ? 0 : dims.results();
  const bool exclusive = c.attr<bool>("exclusive"), reverse = c.attr<bool>("reverse");

  const TeamShape team = ChooseTeam(columns, rows, width == 1 ? 0 : width);
  const Parts parts = ChooseParts(team, columns, rows);
  const DataType type = SumType(c.output_dtype(0));
  const std::string row = reverse ? absl::StrCat("(", rows - 1, " - k)") : "k";
  const ReduceCode code = {
      .op = absl::StrCat(op, "<", CudaValueType(type), ">"),
      .op_bytes = std::max<int64_t>(DataTypeSize(type), 4),
      .value = absl::StrCat("Load(a0[", OffsetText("o", dims.kept), " + ", row, " * ", width, "])"),
      .finish = ""};
  const std::string partials = parts.parts > 1 ? PartialsText(code, 0) : "nullptr";
  CudaKernelOptions options{.includes = {"scan.cuh"}};
  std::vector<CudaStage> stages;
  if (parts.parts > 1) {
    options.scratch_bytes = parts.parts * columns * code.op_bytes;
    stages.push_back(PartialStage(dims, code, team, parts, partials));
  }
  stages.push_back(
      {.body = absl::StrCat("  Scan<", code.op, ", ", columns, ", ", rows, ", ", width, ", ",
                            team.ToString(), ", ", parts.chunk, ", ", exclusive ? "true" : "false",
                            ", ", reverse ? "true" : "false", ">(a0, z0, ", partials, ");"),
       .grid = {.x = team.BlocksFor(columns),
                .y = static_cast<unsigned int>(parts.parts),
                .threads = team.threads()}});
  return MakeCudaKernel(c, std::move(stages), std::move(options));
}

}  // namespace

void RegisterCumulativeCuda(KernelRegistry& kernels) {
  kernels.Register("Cumprod", kGpu,
                   [](const KernelContext& c) { return CreateScan(c, "Product"); });
  kernels.Register("Cumsum", kGpu, [](const KernelContext& c) { return CreateScan(c, "Sum"); });
}

}  // namespace mirrorflow
