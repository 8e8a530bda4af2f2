// SPDX-License-Identifier: Apache-2.0
//
// Reductions along some or all dimensions.
#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/reduce_stages.h"
#include "ops/shape_values.h"

namespace mirrorflow {
namespace {

absl::StatusOr<ReducedDims> DimsOf(const KernelContext& c) {
  const Shape& in = c.input_shape(0);
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, c.integers(1));
  MF_ASSIGN_OR_RETURN(const std::vector<bool> reduced, ReducedDimsMask(in.rank(), axes));
  return ReduceDims(in, reduced);
}

KernelPlan MakeReduction(const KernelContext& c, const ReducedDims& dims, const ReduceCode& r) {
  CudaKernelOptions options{.includes = {"reduce.cuh"}};
  std::vector<CudaStage> stages = ReductionStages(dims, r, &options.scratch_bytes);
  return MakeCudaKernel(c, std::move(stages), std::move(options));
}

// Returns code that applies an operation of reduce.cuh to the unchanged elements. `result` is the
// expression for the output element.
ReduceCode Simple(const KernelContext& c, absl::string_view op, DataType type,
                  absl::string_view result = "result") {
  const std::string out = CudaType(c.output_dtype(0));
  return {.op = absl::StrCat(op, "<", CudaValueType(type), ">"),
          .op_bytes = std::max<int64_t>(DataTypeSize(type), 4),
          .value = "Load(a0[i])",
          .finish = absl::StrCat("z0[o] = Store<", out, ">(", result, ");")};
}

// Returns the dtype that is used to compare elements.
DataType OrderedType(DataType dtype) {
  if (IsFloating(dtype) || DataTypeSize(dtype) >= 4) return dtype;
  return dtype == DT_BOOL ? DT_UINT32 : DT_INT32;
}

// `type_of` returns the dtype that is used to compute.
template <const char* op, DataType (*type_of)(DataType)>
absl::StatusOr<KernelPlan> CreateSimple(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(const ReducedDims dims, DimsOf(c));
  return MakeReduction(c, dims, Simple(c, op, type_of(c.output_dtype(0))));
}

// The mean of no elements is 0/0, which is NaN, or 0 for integers, which have no NaN.
absl::StatusOr<KernelPlan> CreateMean(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(const ReducedDims dims, DimsOf(c));
  const bool floating = IsFloating(c.output_dtype(0));
  const DataType type = floating ? c.output_dtype(0) : DT_INT64;
  const int64_t count = floating ? dims.count() : std::max<int64_t>(dims.count(), 1);
  return MakeReduction(
      c, dims,
      Simple(c, "Sum", type,
             absl::StrCat("result / static_cast<", CudaValueType(type), ">(", count, ")")));
}

// Integer results are rounded towards zero. The root of a sum that wraps around to a negative
// number is the smallest integer, as on x86.
absl::StatusOr<KernelPlan> CreateEuclideanNorm(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(const ReducedDims dims, DimsOf(c));
  ReduceCode r = Simple(c, "Sum", SumType(c.output_dtype(0)),
                        absl::StrCat("RootOfSum<", CudaValueType(c.output_dtype(0)), ">(result)"));
  r.value = absl::StrCat("op::Square(static_cast<", CudaValueType(SumType(c.output_dtype(0))),
                         ">(Load(a0[i])))");
  return MakeReduction(c, dims, r);
}

absl::StatusOr<KernelPlan> CreateL2Loss(const KernelContext& c) {
  ReduceCode r = Simple(c, "Sum", c.output_dtype(0), "result / 2");
  r.value = "op::Square(Load(a0[i]))";
  const Shape& in = c.input_shape(0);
  return MakeReduction(c, ReduceDims(in, std::vector<bool>(in.rank(), true)), r);
}

absl::StatusOr<KernelPlan> CreateBiasAddGrad(const KernelContext& c) {
  const Shape& in = c.input_shape(0);
  const bool nchw = c.attr<std::string>("data_format") == "NCHW";
  return MakeReduction(c, ReduceToChannels(in, nchw ? 1 : in.rank() - 1),
                       Simple(c, "Sum", SumType(c.output_dtype(0))));
}

template <const char* op>
absl::StatusOr<KernelPlan> CreateArg(const KernelContext& c) {
  const Shape& in = c.input_shape(0);
  MF_ASSIGN_OR_RETURN(const int axis, c.axis(1, in.rank(), "dimension"));
  std::vector<bool> reduced(in.rank(), false);
  reduced[axis] = true;
  const DataType type = OrderedType(c.input_dtype(0));
  const bool small = in.dim(axis) <= std::numeric_limits<int32_t>::max();
  ReduceCode r = Simple(c, op, type, "result.index");
  r.op = absl::StrCat(op, "<", CudaValueType(type), small ? ", uint32>" : ", int64>");
  r.op_bytes = 16;
  r.value = absl::StrCat(r.op, "::Of(Load(a0[i]), k)");
  return MakeReduction(c, ReduceDims(in, reduced), r);
}

constexpr char kSum[] = "Sum", kProduct[] = "Product", kLargest[] = "Largest",
               kSmallest[] = "Smallest", kFirstLargest[] = "FirstLargest",
               kFirstSmallest[] = "FirstSmallest";

}  // namespace

void RegisterReductionCuda(KernelRegistry& kernels) {
  kernels.Register("All", kGpu, CreateSimple<kSmallest, OrderedType>);
  kernels.Register("Any", kGpu, CreateSimple<kLargest, OrderedType>);
  kernels.Register("ArgMax", kGpu, CreateArg<kFirstLargest>);
  kernels.Register("ArgMin", kGpu, CreateArg<kFirstSmallest>);
  kernels.Register("BiasAddGrad", kGpu, CreateBiasAddGrad);
  kernels.Register("EuclideanNorm", kGpu, CreateEuclideanNorm);
  kernels.Register("L2Loss", kGpu, CreateL2Loss);
  kernels.Register("Max", kGpu, CreateSimple<kLargest, OrderedType>);
  kernels.Register("Mean", kGpu, CreateMean);
  kernels.Register("Min", kGpu, CreateSimple<kSmallest, OrderedType>);
  kernels.Register("Prod", kGpu, CreateSimple<kProduct, SumType>);
  kernels.Register("Sum", kGpu, CreateSimple<kSum, SumType>);
}

}  // namespace mirrorflow
