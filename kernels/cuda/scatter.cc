// SPDX-License-Identifier: Apache-2.0
//
// Ops that write or add rows at indices: UnsortedSegmentSum, ScatterNd, TensorScatterUpdate and the
// ResourceScatter ops.
#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/status.h"
#include "framework/graph/variable_handle.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/moves.h"

namespace mirrorflow {
namespace {

// A scatter of rows. Operands have the same names as in the device code.
struct Scatter {
  int indices;                      // input
  int updates;                      // input
  std::string into;                 // `z0`, or `a0` for a variable
  absl::Span<const int64_t> sizes;  // sizes of the indexed dimensions
  int64_t positions;
  int64_t size;                 // elements per row
  bool one = false;             // whether the updates are one scalar for all rows
  bool drops_negative = false;  // whether indices below 0 are ignored
  // The initial value of z0[i], as an expression in terms of `i`. Empty for variables.
  std::string before = {};
  // The new value of a row's element `x` after an update `y`, as an expression in terms of both.
  // Empty if the last update wins.
  std::string fold = {};
};

absl::StatusOr<KernelPlan> ScatterKernel(const KernelContext& c, const Scatter& s,
                                         std::vector<std::pair<int, int>> in_place = {}) {
  const DataType dtype = c.input_dtype(s.updates);
  MF_RETURN_IF_ERROR(CheckMovable(dtype));
  int64_t rows = 1;
  for (const int64_t size : s.sizes) rows *= size;
  if (std::max(rows, s.positions) >= std::numeric_limits<int32_t>::max()) {
    return absl::UnimplementedError(
        "too many rows or indices for a scatter; expected fewer than 2^31 - 1");
  }
  const std::string notes = absl::StrCat("<", s.positions, ", ", rows);
  const std::string indices = absl::StrCat("a", s.indices);
  const std::string sizes = absl::StrJoin(s.sizes, ", ");
  const std::string find = absl::StrCat(
      "FindRows", notes, ">(scratch, [&](auto i, auto bad) {\n  const auto at = ", indices,
      " + i * ", s.sizes.size(), ";\n  return ", s.drops_negative ? "*at < 0 ? int64{-1} : " : "",
      "RowAt<", sizes, ">(at, bad);\n}, fail);");
  std::vector<CudaStage> stages = {
      {.body = absl::StrCat("ClearNotes", notes, ">(scratch);"), .grid = ElementwiseGrid(rows + 1)},
      {.body = find, .grid = ElementwiseGrid(s.positions)}};
  if (!s.before.empty()) {
    const std::string bad = absl::StrCat("*ScatterNotes", notes, ">(scratch).bad != 0");
    CudaStage stage =
        IndexedStage(c, 0, absl::StrCat(bad, " ? Missing<", CudaType(dtype), ">() : ", s.before));
    if (!in_place.empty()) {  // the output may already hold the initial value
      stage.body = absl::StrCat("  if (z0 == a0 && !(", bad, ")) return;\n", stage.body);
    }
    stages.push_back(std::move(stage));
  }
  const std::string which = absl::StrCat(notes, ", ", s.size);
  const std::string operands = absl::StrCat("(scratch, ", s.into, ", a", s.updates);
  const std::string one = s.one ? ", true>" : ", false>";
  if (s.fold.empty()) {
    stages.push_back({.body = absl::StrCat("WriteLast", which, one, operands, ");"),
                      .grid = ElementwiseGrid(s.positions * s.size)});
  } else {
    constexpr int64_t kThreads = 256, kMaxPositions = 4096;  // if more, blocks process several
    const int64_t split = DivideUp(s.size, kThreads);
    const int64_t blocks = split * std::min(s.positions, kMaxPositions);
    if (blocks > std::numeric_limits<int32_t>::max()) {
      return absl::UnimplementedError(
          "rows too long for a scatter, which would need more than 2^31 - 1 thread blocks");
    }
    stages.push_back({.body = absl::StrCat("FoldRows", which, ", ", split, one, operands,
                                           ", [](auto x, auto y) { return ", s.fold, "; });"),
                      .grid = {.x = static_cast<unsigned int>(blocks)}});
  }
  return MakeCudaKernel(
      c, std::move(stages),
      {.includes = {"math.cuh", "scatter.cuh"},
       .scratch_bytes = static_cast<int64_t>(sizeof(int32_t)) * (1 + s.positions + 2 * rows),
       .in_place = std::move(in_place),
       .error = absl::StrCat("index out of range; expected indices of at least 0 and below [",
                             sizes, "], got")});
}

absl::StatusOr<KernelPlan> CreateSegmentSum(const KernelContext& c) {
  const Shape& out = c.output_shape(0);
  return ScatterKernel(c, {.indices = 1,
                           .updates = 0,
                           .into = "z0",
                           .sizes = out.dims().first(1),
                           .positions = c.input_shape(1).num_elements(),
                           .size = out.num_elements_from(1),
                           .drops_negative = true,
                           .before = ZeroText(c.output_dtype(0)),
                           .fold = "op::Add(x, y)"});
}

// Returns a scatter into the output. The indices [i…,K] select rows in its first K dimensions.
Scatter IntoOutput(const KernelContext& c, int indices, int updates) {
  const Shape &which = c.input_shape(indices), &out = c.output_shape(0);
  const int last = which.rank() - 1, depth = static_cast<int>(which.dim(last));
  return {.indices = indices,
          .updates = updates,
          .into = "z0",
          .sizes = out.dims().first(depth),
          .positions = which.num_elements_before(last),
          .size = out.num_elements_from(depth)};
}

absl::StatusOr<KernelPlan> CreateScatterNd(const KernelContext& c) {
  Scatter scatter = IntoOutput(c, 0, 1);
  scatter.before = ZeroText(c.output_dtype(0));
  scatter.fold = "op::Add(x, y)";
  return ScatterKernel(c, scatter);
}

// The output may overwrite the tensor, because only one stage reads the tensor, and it writes each
// element to the same position.
absl::StatusOr<KernelPlan> CreateTensorScatterUpdate(const KernelContext& c) {
  Scatter scatter = IntoOutput(c, 1, 2);
  scatter.before = "a0[i]";
  return ScatterKernel(c, scatter, {{0, 0}});
}

// Leaves the variable unchanged if an index is out of range.
template <const char* kFold>
absl::StatusOr<KernelPlan> CreateResourceScatter(const KernelContext& c) {
  const Shape& whole = VariableOf(c.node().input(0)).attr<Shape>("shape");
  if (!whole.IsFullyDefined() || whole.rank() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot scatter into the variable; expected a known shape with at least 1 "
                     "dimension, got ",
                     whole.ToString()));
  }
  return ScatterKernel(c, {.indices = 1,
                           .updates = 2,
                           .into = "a0",
                           .sizes = whole.dims().first(1),
                           .positions = c.input_shape(1).num_elements(),
                           .size = whole.num_elements_from(1),
                           .one = c.input_shape(2).rank() == 0,
                           .fold = kFold});
}

constexpr char kAdd[] = "op::Add(x, y)", kSub[] = "op::Sub(x, y)", kMul[] = "op::Mul(x, y)",
               kDiv[] = "op::Div(x, y)", kUpdate[] = "";
// A NaN in the variable stays; a NaN in an update is ignored.
constexpr char kMax[] = "x < y ? y : x", kMin[] = "y < x ? y : x";

}  // namespace

void RegisterScatterCuda(KernelRegistry& kernels) {
  kernels.Register("ResourceScatterAdd", kGpu, CreateResourceScatter<kAdd>);
  kernels.Register("ResourceScatterDiv", kGpu, CreateResourceScatter<kDiv>);
  kernels.Register("ResourceScatterMax", kGpu, CreateResourceScatter<kMax>);
  kernels.Register("ResourceScatterMin", kGpu, CreateResourceScatter<kMin>);
  kernels.Register("ResourceScatterMul", kGpu, CreateResourceScatter<kMul>);
  kernels.Register("ResourceScatterSub", kGpu, CreateResourceScatter<kSub>);
  kernels.Register("ResourceScatterUpdate", kGpu, CreateResourceScatter<kUpdate>);
  kernels.Register("ScatterNd", kGpu, CreateScatterNd);
  kernels.Register("TensorScatterUpdate", kGpu, CreateTensorScatterUpdate);
  kernels.Register("UnsortedSegmentSum", kGpu, CreateSegmentSum);
}

}  // namespace mirrorflow
