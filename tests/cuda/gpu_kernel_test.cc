// SPDX-License-Identifier: Apache-2.0
//
// Tests kernels that a program registers for its own ops, with fakes of CUDA.
#include "kernels/cuda/gpu_kernel.h"

#include <cmath>
#include <memory>

#include "absl/strings/str_cat.h"
#include "distribute/strategy/extensions.h"
#include "distribute/strategy/strategy.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "gtest/gtest.h"
#include "kernels/cuda/device/cuda_device.h"
#include "ops/all/ops.h"
#include "tests/fakes/cuda/fake_cuda.h"
#include "tests/fakes/nccl/fake_nccl.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

// Defines an op on one matrix [b, c] whose output has shape [b, c], or [b] if it `reduces`.
void Define(Extensions& extensions, absl::string_view name, bool reduces, KernelFactory factory) {
  const auto same = [](ShapeContext& c) {
    c.set_output(0, c.input(0));
    return absl::OkStatus();
  };
  const auto rows = [](ShapeContext& c) -> absl::Status {
    MF_ASSIGN_OR_RETURN(const Shape x, c.WithRank(0, 2));
    c.set_output(0, Shape({x.dim(0)}));
    return absl::OkStatus();
  };
  extensions.ops()
      .Define(name)
      .Doc("for this test")
      .Input("x: T")
      .Output("y: T")
      .Attr("T: {half, float}")
      .Shape(reduces ? ShapeFn(rows) : ShapeFn(same))
      .Gathers("for this test")
      .NoGradient("for this test");
  extensions.kernels().Register(name, kGpu, factory);
}

absl::StatusOr<KernelPlan> SwishKernel(const KernelContext& c) {
  return GpuElementwise(c, "x0 / (1 + exp(-x0))");
}

absl::StatusOr<KernelPlan> RowSumKernel(const KernelContext& c) {
  const int64_t rows = c.input_shape(0).dim(0), columns = c.input_shape(0).dim(1);
  return GpuKernel(c,
                   absl::StrCat("if (threadIdx.x >= ", rows,
                                ") return;\nfloat sum = 0;\n"
                                "for (int k = 0; k < ",
                                columns, "; ++k) sum += a0[threadIdx.x * ", columns,
                                " + k];\nz0[threadIdx.x] = sum;"),
                   {.blocks = 1, .threads = 32});
}

// Copies with a CUDA runtime call, as a library call would.
absl::StatusOr<KernelPlan> CopyKernel(const KernelContext& c) {
  const size_t bytes = c.input_shape(0).num_elements() * DataTypeSize(c.input_dtype(0));
  return KernelPlan{.kernel = MakeKernel([bytes](const KernelArgs& args, Lane& lane) {
                      const cudaError_t error = cudaMemcpyAsync(
                          args.output<std::byte>(0), args.input<std::byte>(0), bytes,
                          cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(GpuStream(lane)));
                      return error == cudaSuccess ? absl::OkStatus() : absl::InternalError("copy");
                    })};
}

// Runs the op on a GPU and returns its output from the second step, whose work is captured.
absl::StatusOr<Tensor> RunOp(const Extensions& extensions, absl::string_view op, const Tensor& x) {
  ResetFakeCuda({.num_gpus = 1});
  ResetFakeNccl();
  MF_ASSIGN_OR_RETURN(auto strategy,
                      OneDeviceStrategy::Create({.device = "GPU:0", .extensions = &extensions}));
  Graph graph;
  const Scope root(&graph);
  const Output in = ops::Placeholder(root, x.dtype(), x.shape());
  const Output out = root.Build(extensions.ops(), op).Input(in).One();
  MF_ASSIGN_OR_RETURN(auto session, strategy->NewSession(graph));
  MF_ASSIGN_OR_RETURN(Step step, session->Prepare({in}, {out}));
  MF_RETURN_IF_ERROR(step.Run({x}).status());
  MF_ASSIGN_OR_RETURN(const StepOutputs outputs, step.Run({x}));
  return outputs[0];
}

class GpuKernelTest : public ::testing::Test {
 protected:
  GpuKernelTest() {
    Define(extensions_, "Swish", /*reduces=*/false, SwishKernel);
    Define(extensions_, "RowSum", /*reduces=*/true, RowSumKernel);
    Define(extensions_, "Copy", /*reduces=*/false, CopyKernel);
    Define(extensions_, "Broken", /*reduces=*/false,
           [](const KernelContext& c) { return GpuElementwise(c, "no such name"); });
  }

  Extensions extensions_;
  const Tensor x_ = Tensor::Of<float>({2, 3}, {-1, 0, 1, 2, 3, 4});
};

TEST_F(GpuKernelTest, ElementwiseKernelComputesEachElement) {
  const absl::StatusOr<Tensor> y = RunOp(extensions_, "Swish", x_);
  ASSERT_TRUE(y.ok()) << y.status();
  for (int i = 0; i < 6; ++i) {
    const float x = x_.flat<float>()[i];
    EXPECT_NEAR(y->flat<float>()[i], x / (1 + std::exp(-x)), 1e-6) << x;
  }
}

TEST_F(GpuKernelTest, KernelReadsOperandsByName) {
  const absl::StatusOr<Tensor> y = RunOp(extensions_, "RowSum", x_);
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_TRUE(Tensor::Identical(*y, Tensor::Vector<float>({0, 9})));
}

TEST_F(GpuKernelTest, KernelEnqueuesOnStreamOfLane) {
  const absl::StatusOr<Tensor> y = RunOp(extensions_, "Copy", x_);
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_TRUE(Tensor::Identical(*y, x_));
}

TEST_F(GpuKernelTest, CompilerErrorIsReported) {
  const absl::Status status = RunOp(extensions_, "Broken", x_).status();
  EXPECT_THAT(status, IsError(absl::StatusCode::kInternal, "such"));
}

}  // namespace
}  // namespace mirrorflow
