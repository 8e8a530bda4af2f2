// SPDX-License-Identifier: Apache-2.0
//
// FusedBatchNormV3 and its gradient: a reduction to channels, whose last stage writes per-channel
// factors to scratch memory, and a stage that applies the factors to the elements.
#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "framework/core/status.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/reduce_stages.h"

namespace mirrorflow {
namespace {

constexpr char kSums[] = "Sums<double>";
constexpr int64_t kSumsBytes = 2 * sizeof(double);

// The parameters that all stages of a node share.
struct BatchNorm {
  static absl::StatusOr<BatchNorm> Create(const KernelContext& c) {
    BatchNorm b;
    const DataType x = c.attr<DataType>("T"), u = c.attr<DataType>("U");
    if (CudaValueType(x) != CudaType(u)) return UnsupportedDataType(u);
    const Shape& images = c.output_shape(0);
    b.channel_dim = c.attr<std::string>("data_format")[1] == 'C' ? 1 : images.rank() - 1;
    b.channels = images.dim(b.channel_dim);
    b.dims = ReduceToChannels(images, b.channel_dim);
    b.count = b.dims.count();
    b.type = CudaType(u);
    b.bytes = DataTypeSize(u);
    b.epsilon = b.Literal(c.attr<float>("epsilon"));
    Shape vector({b.channels});
    for (int d = b.channel_dim + 1; d < images.rank(); ++d) vector.AddDim(1);
    b.channel = BroadcastText("i", images, vector);
    return b;
  }

  std::string Literal(double value) const {
    return absl::StrCat("static_cast<", type, ">(", CudaLiteral(value), ")");
  }
  // Returns the declaration of the per-channel vectors in scratch memory, for code that uses them.
  std::string Vectors() const {
    return absl::StrCat("auto* const of_channel = reinterpret_cast<", type, "*>(scratch);\n");
  }
  int64_t ScratchBytes(int vectors) const { return (vectors * channels * bytes + 63) / 64 * 64; }
  std::string Vector(int v, absl::string_view index) const {
    return absl::StrCat("of_channel[", v * channels, " + ", index, "]");
  }

  int channel_dim = 0;
  int64_t channels = 0, count = 0;
  ReducedDims dims;
  std::string type;  // type of the per-channel vectors and of the computation
  int64_t bytes = 0;
  std::string epsilon;
  std::string channel;  // expression for the channel of element i
};

// Returns the stages that compute the statistics. If the channels have no elements, outputs 1 and 2
// are NaN.
std::vector<CudaStage> Statistics(const KernelContext& c, const BatchNorm& b,
                                  CudaKernelOptions* o) {
  const double n = static_cast<double>(b.count), nan = std::numeric_limits<double>::quiet_NaN();
  const std::string pivot =
      b.count == 0 ? "0.0" : absl::StrCat("Pivot(Load(a0[", OffsetText("o", b.dims.kept), "]))");
  const std::string finish = absl::Substitute(
      R"(
        $0
        const Two<double> moments = Moments<$1>(result, $2);
        const $3 mean = moments.first, variance = moments.second;
        z3[o] = mean;
        z4[o] = variance;
        z1[o] = Moved(a3, o, mean * $4, $6);
        z2[o] = Moved(a4, o, variance * $5, $6);
        $7 = a1[o] / sqrt(variance + $8);
        if (o == 0) z5[0] = 0;
      )",
      b.Vectors(), b.count, pivot, b.type, b.Literal(b.count == 0 ? nan : 1),
      b.Literal(b.count == 0 ? nan : n / std::max(n - 1, 1.0)),
      b.Literal(c.attr<float>("exponential_avg_factor")), b.Vector(0, "o"), b.epsilon);
  return ReductionStages(b.dims,
                         {.op = kSums,
                          .op_bytes = kSumsBytes,
                          .value = absl::StrCat("Deviation(Load(a0[i]), ", pivot, ")"),
                          .finish = finish},
                         &o->scratch_bytes);
}

// Returns the stage that reads the statistics from the inputs, for use outside training.
CudaStage GivenStatistics(const BatchNorm& b) {
  return {.body = absl::Substitute(R"(
  $0
  ForEach<$1>([&](auto o) {
    z1[o] = a3[o];
    z2[o] = a4[o];
    z3[o] = z4[o] = 0;
    $2 = a1[o] / sqrt(a4[o] + $3);
    if (o == 0) z5[0] = 0;
  });)",
                                   b.Vectors(), b.channels, b.Vector(0, "o"), b.epsilon),
          .grid = ElementwiseGrid(b.channels)};
}

// Returns the stage that computes output 0. `value` is an expression in terms of element `i` and
// its `channel`.
CudaStage ImagesStage(const KernelContext& c, const BatchNorm& b, absl::string_view value) {
  const int64_t n = c.output_shape(0).num_elements();
  return {.body = absl::StrCat("  const ", b.Vectors(), "  Elementwise<", n,
                               ">(z0, [&](auto i) {\n    const auto channel = ", b.channel,
                               ";\n    return ", value, ";\n  });"),
          .grid = ElementwiseGrid(n)};
}

absl::StatusOr<KernelPlan> CreateBatchNorm(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(const BatchNorm b, BatchNorm::Create(c));
  const bool training = c.attr<bool>("is_training");
  CudaKernelOptions options{.includes = {"batch_norm.cuh"}, .scratch_bytes = b.ScratchBytes(1)};
  std::vector<CudaStage> stages =
      training ? Statistics(c, b, &options) : std::vector<CudaStage>{GivenStatistics(b)};
  if (b.channels == 0) stages.push_back({.body = "  z5[0] = 0;", .grid = {.threads = 1}});
  stages.push_back(
      ImagesStage(c, b,
                  absl::StrCat("(Load(a0[i]) - ", training ? "z3" : "a3", "[channel]) * ",
                               b.Vector(0, "channel"), " + a2[channel]")));
  return MakeCudaKernel(c, std::move(stages), std::move(options));
}

absl::StatusOr<KernelPlan> CreateBatchNormGrad(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(const BatchNorm b, BatchNorm::Create(c));
  CudaKernelOptions options{.includes = {"batch_norm.cuh"}, .scratch_bytes = b.ScratchBytes(3)};
  const std::string n = b.Literal(static_cast<double>(std::max<int64_t>(b.count, 1)));
  const std::string finish = absl::Substitute(
      R"(
        $0
        const $1 inverse = InverseDeviation(a4[o], $2);
        z2[o] = static_cast<$1>(result.first);
        z1[o] = static_cast<$1>(result.second) * inverse;
        $3 = a2[o] * inverse;
        $4 = z2[o] / $5;
        $6 = z1[o] * inverse / $5;
      )",
      b.Vectors(), b.type, b.epsilon, b.Vector(0, "o"), b.Vector(1, "o"), n, b.Vector(2, "o"));
  std::vector<CudaStage> stages = ReductionStages(
      b.dims,
      {.op = kSums,
       .op_bytes = kSumsBytes,
       .value =
           "Two<double>{Load(a0[i]), static_cast<double>(Load(a0[i])) * (Load(a1[i]) - a3[o])}",
       .finish = finish},
      &options.scratch_bytes);
  const std::string factor = b.Vector(0, "channel");
  const std::string value = c.attr<bool>("is_training")
                                ? absl::StrCat("(Load(a0[i]) - ", b.Vector(1, "channel"),
                                               " - (Load(a1[i]) - a3[channel]) * ",
                                               b.Vector(2, "channel"), ") * ", factor)
                                : absl::StrCat("Load(a0[i]) * ", factor);
  stages.push_back(ImagesStage(c, b, value));
  return MakeCudaKernel(c, std::move(stages), std::move(options));
}

}  // namespace

void RegisterBatchNormCuda(KernelRegistry& kernels) {
  kernels.Register("FusedBatchNormGradV3", kGpu, CreateBatchNormGrad);
  kernels.Register("FusedBatchNormV3", kGpu, CreateBatchNorm);
}

}  // namespace mirrorflow
