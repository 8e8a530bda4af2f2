// SPDX-License-Identifier: Apache-2.0
//
// Ops whose values are mostly known when the step is compiled: Shape and related ops, Const,
// ListDiff, BroadcastArgs, BroadcastGradientArgs, Fill, Range and LinSpace. Most are constants in a
// plan; their kernels are for nodes that run outside a plan.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/moves.h"
#include "ops/broadcast_gradient.h"
#include "ops/list_diff.h"

namespace mirrorflow {
namespace {

absl::StatusOr<KernelPlan> CreateShapeN(const KernelContext& c) {
  std::vector<CudaStage> stages;
  for (int i = 0; i < c.node().num_outputs(); ++i) {
    stages.push_back(IntegersStage(c, i, c.input_shape(i).dims()));
  }
  return MakeCudaKernel(c, std::move(stages));
}

absl::StatusOr<KernelPlan> CreateSize(const KernelContext& c) {
  return MakeCudaKernel(c, {IntegersStage(c, 0, {c.input_shape(0).num_elements()})});
}

absl::StatusOr<KernelPlan> CreateRank(const KernelContext& c) {
  return MakeCudaKernel(c, {IntegersStage(c, 0, {c.input_shape(0).rank()})});
}

absl::StatusOr<KernelPlan> CreateConst(const KernelContext& c) {
  MF_RETURN_IF_ERROR(CheckMovable(c.output_dtype(0)));
  return MakeCudaKernel(c, {ConstantStage(0, c.attr<Tensor>("value"))});
}

absl::StatusOr<KernelPlan> CreateListDiff(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(const ListDifference difference,
                      DifferenceOfLists(c.constant(0), c.constant(1), c.output_dtype(1)));
  return MakeCudaKernel(c, {ConstantStage(0, difference.out), ConstantStage(1, difference.idx)});
}

absl::StatusOr<KernelPlan> CreateBroadcastArgs(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> s0, c.integers(0));
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> s1, c.integers(1));
  MF_ASSIGN_OR_RETURN(const Shape both, BroadcastShapes(Shape(s0), Shape(s1)));
  return MakeCudaKernel(c, {IntegersStage(c, 0, both.dims())});
}

absl::StatusOr<KernelPlan> CreateBroadcastGradientArgs(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> s0, c.integers(0));
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> s1, c.integers(1));
  const auto axes = BroadcastAxes(Shape(s0), Shape(s1));
  return MakeCudaKernel(c, {IntegersStage(c, 0, axes[0]), IntegersStage(c, 1, axes[1])});
}

absl::StatusOr<KernelPlan> CreateFill(const KernelContext& c) { return MoveKernel(c, "a1[0]"); }

// Returns the expression for the index of this replica's first element in output 0, which is a
// vector.
std::string FirstElement(const KernelContext& c) {
  const Sharded* sharded = AsSharded(c.output_sharding(0));
  if (sharded == nullptr) return "0ll";
  return absl::StrCat("params->first_row[", sharded->axis, "] * ", sharded->factor);
}

// Returns the scalar's value as a literal of the type that is used to compute with it.
std::string ScalarText(const Tensor& scalar) {
  switch (scalar.dtype()) {
    case DT_INT32:
      return absl::StrCat("static_cast<int>(", static_cast<uint32_t>(scalar.scalar<int32_t>()),
                          "u)");
    case DT_INT64:
      return absl::StrCat("static_cast<int64>(", static_cast<uint64_t>(scalar.scalar<int64_t>()),
                          "ull)");
    case DT_FLOAT:
      return absl::StrCat("static_cast<float>(", CudaLiteral(scalar.scalar<float>()), ")");
    case DT_DOUBLE:
      return CudaLiteral(scalar.scalar<double>());
    default:
      return absl::StrCat("Load(", CudaType(scalar.dtype()), "{",
                          *static_cast<const uint16_t*>(static_cast<const void*>(scalar.raw())),
                          "})");
  }
}

absl::StatusOr<KernelPlan> CreateRange(const KernelContext& c) {
  return MoveKernel(c, absl::StrCat("NumberOfRange(", ScalarText(c.constant(0)), ", ",
                                    ScalarText(c.constant(2)), ", ", FirstElement(c), " + i)"));
}

absl::StatusOr<KernelPlan> CreateLinSpace(const KernelContext& c) {
  const int64_t last = c.global_output_shape(0).num_elements() - 1;
  return MoveKernel(c, absl::StrCat("NumberOfLinSpace<", last, ">(Load(a0[0]), Load(a1[0]), ",
                                    FirstElement(c), " + i)"));
}

}  // namespace

void RegisterShapeOpsCuda(KernelRegistry& kernels) {
  kernels.Register("BroadcastArgs", kGpu, CreateBroadcastArgs);
  kernels.Register("BroadcastGradientArgs", kGpu, CreateBroadcastGradientArgs);
  kernels.Register("Const", kGpu, CreateConst);
  kernels.Register("Fill", kGpu, CreateFill);
  kernels.Register("LinSpace", kGpu, CreateLinSpace);
  kernels.Register("ListDiff", kGpu, CreateListDiff);
  kernels.Register("Range", kGpu, CreateRange);
  kernels.Register("Rank", kGpu, CreateRank);
  kernels.Register("Shape", kGpu, CreateShapeN);
  kernels.Register("ShapeN", kGpu, CreateShapeN);
  kernels.Register("Size", kGpu, CreateSize);
  kernels.Register("VariableShape", kGpu, CreateShapeN);
}

}  // namespace mirrorflow
