// SPDX-License-Identifier: Apache-2.0
//
// MatMul, BatchMatMulV2 and MatMul fused with bias and Relu. Uses cuBLASLt, or the hand-written
// plain product for dtypes and broadcasting that cuBLASLt does not support.
#include "ops/matmul.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/libraries/cublas_lt.h"
#include "kernels/cuda/libraries/program.h"
#include "kernels/cuda/plain_product.h"
#include "kernels/cuda/reduce_stages.h"
#include "ops/fused_ops.h"
#include "ops/unary.h"

namespace mirrorflow {
namespace {

Epilogue EpilogueOf(const KernelContext& c) {
  const Node& node = c.node();
  if (node.input_index(ops::kFusedBias) < 0) return Epilogue::kNone;
  if (node.op().name == ops::Fused(ops::kMatMul)) return Epilogue::kBias;
  return node.num_outputs() == 2 ? Epilogue::kBiasReluMask : Epilogue::kBiasRelu;
}

// Returns the product of one matrix of each operand.
CublasProduct ProductOf(const KernelContext& c, bool transpose_a, bool transpose_b) {
  const Shape &a = c.input_shape(0), &out = c.output_shape(0);
  return {.dtype = c.output_dtype(0),
          .m = out.dim(out.rank() - 2),
          .n = out.dim(out.rank() - 1),
          .k = a.dim(a.rank() - (transpose_a ? 2 : 1)),
          .transpose_a = transpose_a,
          .transpose_b = transpose_b,
          .allow_tf32 = c.options().allow_tf32};
}

int64_t FlopsOf(const KernelContext& c, const CublasProduct& p) {
  // Computed in double precision, which is exact below 2^53 and cannot overflow here.
  return static_cast<int64_t>(std::min(2.0 * c.output_shape(0).num_elements() * p.k, 9e18));
}

// Runs two kernels one after the other. They share the scratch memory.
KernelPlan Sequence(KernelPlan first, KernelPlan second) {
  return {.kernel = MakeKernel([first = std::move(first.kernel), second = std::move(second.kernel)](
                                   const KernelArgs& args, Lane& lane) -> absl::Status {
            MF_RETURN_IF_ERROR(first->Run(args, lane));
            return second->Run(args, lane);
          }),
          .scratch_bytes = std::max(first.scratch_bytes, second.scratch_bytes)};
}

// Makes a kernel that adds the bias to the product in output 0 and, if the epilogue includes it,
// applies Relu.
KernelPlan MakeBiasEpilogue(const KernelContext& c, const CublasProduct& p) {
  const std::string sum = absl::StrCat("op::Add(Load(z0[i]), Load(a2[i % ", p.n, "]))");
  return MakeIndexed(c, p.epilogue == Epilogue::kBias ? sum : absl::StrCat("op::Relu(", sum, ")"),
                     {.includes = {"math.cuh"}});
}

// Makes a kernel that turns the product in output 0 into the gradient before Relu, and sums its
// rows into output 1.
KernelPlan MakeReluGradEpilogue(const KernelContext& c) {
  const Shape& out = c.output_shape(0);
  CudaKernelOptions options{.includes = {"math.cuh", "reduce.cuh"}};
  const std::string type = CudaValueType(SumType(c.output_dtype(0)));
  std::vector<CudaStage> stages = ReductionStages(
      ReduceToChannels(out, 1),
      {.op = absl::StrCat("Sum<", type, ">"),
       .op_bytes = std::max<int64_t>(DataTypeSize(SumType(c.output_dtype(0))), 4),
       .value = "Load(z0[i])",
       .finish = absl::StrCat("z1[o] = Store<", CudaType(c.output_dtype(1)), ">(result);")},
      &options.scratch_bytes);
  stages.insert(stages.begin(), IndexedStage(c, 0, "Load(a3[i]) > 0 ? Load(z0[i]) : 0"));
  return MakeCudaKernel(c, std::move(stages), std::move(options));
}

// Makes a kernel that computes the product, then its epilogue (without a mask) in a separate step.
absl::StatusOr<KernelPlan> MakeInSteps(const KernelContext& c, const CublasProduct& p) {
  CublasProduct alone = p;
  alone.epilogue = Epilogue::kNone;
  absl::StatusOr<KernelPlan> product = MakeCublasProduct(c, alone);
  if (absl::IsUnimplemented(product.status())) {
    product = MakePlainProduct(c, p.transpose_a, p.transpose_b);
  }
  MF_RETURN_IF_ERROR(product.status());
  if (p.epilogue == Epilogue::kNone) return product;
  return Sequence(*std::move(product), p.epilogue == Epilogue::kReluGrad ? MakeReluGradEpilogue(c)
                                                                         : MakeBiasEpilogue(c, p));
}

// Makes a kernel that computes the product with its epilogue, in the library if possible. The
// kernel may leave a mask unwritten: CreateReluGrad reads only the masks that are recorded here.
absl::StatusOr<KernelPlan> MakeProduct(const KernelContext& c, CublasProduct p) {
  absl::StatusOr<KernelPlan> plan = MakeCublasProduct(c, p);
  if (p.epilogue == Epilogue::kBiasReluMask) {
    if (plan.ok()) ProgramOf(c).AddMaskWriter(c.node());
    if (!absl::IsUnimplemented(plan.status())) return plan;
    p.epilogue = Epilogue::kBiasRelu;
    plan = MakeCublasProduct(c, p);
  }
  return absl::IsUnimplemented(plan.status()) ? MakeInSteps(c, p) : std::move(plan);
}

absl::StatusOr<KernelPlan> CreateProduct(const KernelContext& c, bool transpose_a,
                                         bool transpose_b) {
  const Shape &a = c.input_shape(0), &b = c.input_shape(1), &out = c.output_shape(0);
  CublasProduct p = ProductOf(c, transpose_a, transpose_b);
  // Products with a bias always have k > 0, because FuseEpilogues requires it.
  if (out.num_elements() == 0 || p.k == 0) return MakeIndexed(c, "0");
  p.epilogue = EpilogueOf(c);
  p.batch = BatchDims(out).num_elements();
  const int64_t in_a = BatchDims(a).num_elements(), in_b = BatchDims(b).num_elements();
  // Every matrix in the batch multiplies the same `b`, so the batch folds into the rows
  // of one product.
  if (p.batch > 1 && in_a == p.batch && in_b == 1 && !transpose_a) {
    p.m *= p.batch;
    p.batch = 1;
  }
  p.batch_a = in_a > 1;
  p.batch_b = in_b > 1;
  const bool simple = (!p.batch_a || in_a == p.batch) && (!p.batch_b || in_b == p.batch);
  absl::StatusOr<KernelPlan> plan;
  if (simple || p.batch == 1) {
    plan = MakeProduct(c, p);
  } else {
    plan = MakePlainProduct(c, transpose_a, transpose_b);
  }
  if (plan.ok()) plan->flops = FlopsOf(c, p);
  return plan;
}

// Creates a kernel that reads the mask if the library writes it and can read it, and otherwise
// reads the elements.
absl::StatusOr<KernelPlan> CreateReluGrad(const KernelContext& c) {
  CublasProduct p = ProductOf(c, c.attr<bool>("transpose_a"), c.attr<bool>("transpose_b"));
  if (p.m == 0) return MakeCudaKernel(c, {IndexedStage(c, 1, "0")});
  if (p.k == 0) return Sequence(MakeIndexed(c, "0"), MakeReluGradEpilogue(c));
  p.epilogue = Epilogue::kReluGrad;
  absl::StatusOr<KernelPlan> plan =
      ProgramOf(c).WritesMask(*c.node().input(2).node) ? MakeProduct(c, p) : MakeInSteps(c, p);
  if (plan.ok()) plan->flops = FlopsOf(c, p);
  return plan;
}

}  // namespace

void RegisterMatMulCuda(KernelRegistry& kernels) {
  kernels.Register("BatchMatMulV2", kGpu, [](const KernelContext& c) {
    return CreateProduct(c, c.attr<bool>("adj_x"), c.attr<bool>("adj_y"));
  });
  kernels.Register(ops::kMatMulReluGrad, kGpu, CreateReluGrad);
  for (const std::string& op : {std::string(ops::kMatMul), ops::Fused(ops::kMatMul),
                                ops::Fused(ops::kMatMul, {.activation = ops::kRelu})}) {
    kernels.Register(op, kGpu, [](const KernelContext& c) {
      return CreateProduct(c, c.attr<bool>("transpose_a"), c.attr<bool>("transpose_b"));
    });
  }
}

}  // namespace mirrorflow
