// SPDX-License-Identifier: Apache-2.0
//
// Attention and its gradient, in tiles that go through shared memory. Tensor cores compute 16-bit
// floats, and also floats if rounding to TensorFloat-32 is allowed.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/libraries/autotune.h"
#include "kernels/cuda/libraries/cudnn_attention.h"
#include "kernels/cuda/reduce_stages.h"

namespace mirrorflow {
namespace {

// Must match attention.cuh.
constexpr int64_t kLanes = 8;
constexpr int64_t kMaxTile = 32, kMinTile = 4;
constexpr int64_t kSharedBytes = 47 << 10;
// Must match mma.cuh, where a warp has 16 rows.
constexpr int64_t kTensorCoreTile = 64;
constexpr int64_t kTensorCoreThreads = 2;                           // per row
constexpr int64_t kTensorCoreStep = 32, kMaxTensorCoreBytes = 256;  // bytes per row

struct Attention {
  int64_t heads, queries, keys, depth, value_depth;  // `heads` is the total over all examples
  bool causal;
  int64_t spread = 1;  // stride between the rows of a head, in rows
  int64_t tile = kMaxTile, threads_of_row = kLanes;
  const char* where = "";  // suffix of the function names
  std::string type, problem, scale, mask;

  // Reads a node whose q is input `first`. shared(a) returns how many elements each row of a tile
  // takes in shared memory.
  static absl::StatusOr<Attention> Create(const KernelContext& c, int first,
                                          int64_t (*shared)(const Attention& a));
  // Returns a grid with one block per head and row tile.
  CudaGrid GridFor(int64_t rows) const {
    return {.x = static_cast<unsigned int>(heads * DivideUp(rows, tile)),
            .threads = static_cast<unsigned int>(tile * threads_of_row)};
  }
};

// Returns the FLOPs of products with `numbers` multiply-adds per visible query-key pair, for a node
// whose q is input `first`.
int64_t FlopsOf(const KernelContext& c, int first, int64_t numbers) {
  const Shape &q = c.input_shape(first), &v = c.input_shape(first + 2);
  const int64_t keys = v.dim(c.attr<bool>("heads_inside") ? 1 : 2);
  const double pairs = static_cast<double>(q.dim(0) * q.dim(1)) * q.dim(2) * keys;
  const double seen = c.attr<bool>("causal") ? pairs / 2 : pairs;
  return static_cast<int64_t>(std::min(2 * seen * static_cast<double>(numbers), 9e18));
}

// Returns the text of a lambda that returns the mask value of score `i`, or NoMask.
std::string MaskText(const KernelContext& c, const Attention& a, const Shape& q) {
  if (c.attr<int64_t>("num_masks") == 0) return "attention::NoMask()";
  const int mask = c.node().num_inputs() - 1;
  const Shape pairs({q.dim(0), a.heads / std::max<int64_t>(q.dim(0), 1), a.queries, a.keys});
  return absl::StrCat("[&](auto i) { return Load(a", mask, "[",
                      BroadcastText("i", pairs, c.input_shape(mask)), "]); }");
}

// Returns whether tensor cores support rows of `row` elements in the node's dtype.
bool TensorCoresTake(const KernelContext& c, int64_t row) {
  const DataType dtype = c.attr<DataType>("T");
  if (dtype != DT_HALF && dtype != DT_BFLOAT16 && !(dtype == DT_FLOAT && c.options().allow_tf32)) {
    return false;
  }
  const int64_t bytes = row * static_cast<int64_t>(DataTypeSize(dtype));
  return bytes > 0 && bytes % kTensorCoreStep == 0 && bytes <= kMaxTensorCoreBytes;
}

absl::StatusOr<Attention> Attention::Create(const KernelContext& c, int first,
                                            int64_t (*shared)(const Attention& a)) {
  const DataType u = c.attr<DataType>("U");
  if (CudaValueType(c.attr<DataType>("T")) != CudaType(u)) return UnsupportedDataType(u);
  const Shape &q = c.input_shape(first), &v = c.input_shape(first + 2);
  const bool inside = c.attr<bool>("heads_inside");
  const int64_t heads = q.dim(inside ? 2 : 1);
  Attention a{.heads = q.dim(0) * heads,
              .queries = q.dim(inside ? 1 : 2),
              .keys = v.dim(inside ? 1 : 2),
              .depth = q.dim(3),
              .value_depth = v.dim(3),
              .causal = c.attr<bool>("causal"),
              .spread = inside ? std::max<int64_t>(heads, 1) : 1};
  if (TensorCoresTake(c, a.depth) && TensorCoresTake(c, a.value_depth)) {
    a.tile = kTensorCoreTile;
    a.threads_of_row = kTensorCoreThreads;
    a.where = "OnTensorCores";
  } else {
    const int64_t number = static_cast<int64_t>(DataTypeSize(u));
    const auto bytes = [&] { return a.tile * shared(a) * number; };
    while (bytes() > kSharedBytes && a.tile > kMinTile) a.tile /= 2;
    if (bytes() > kSharedBytes) {
      return absl::UnimplementedError(absl::StrCat("rows of ", a.depth, " and ", a.value_depth,
                                                   " elements are too long for shared memory"));
    }
  }
  a.type = CudaType(u);
  a.problem = absl::StrCat("attention::Problem<", a.queries, ", ", a.keys, ", ", a.depth, ", ",
                           a.value_depth, ", ", a.causal ? "true" : "false", ", ", a.tile, ", ",
                           a.spread, ">");
  a.scale = absl::StrCat("static_cast<", a.type, ">(",
                         CudaLiteral(static_cast<double>(c.attr<float>("scale"))), ")");
  a.mask = MaskText(c, a, q);
  return a;
}

absl::StatusOr<KernelPlan> CreateOwnAttention(const KernelContext& c) {
  const auto shared = [](const Attention& a) {
    return (a.depth + 1) + std::max(a.depth + 1, a.value_depth + 1) + (a.tile + 1);
  };
  MF_ASSIGN_OR_RETURN(const Attention a, Attention::Create(c, 0, shared));
  return MakeCudaKernel(
      c,
      {{.body = absl::StrCat("  attention::Forward", a.where, "<", a.problem,
                             ">(a0, a1, a2, z0, z1, ", a.scale, ",\n      ", a.mask, ");"),
        .grid = a.GridFor(a.queries)}},
      {.includes = {"attention_mma.cuh"}});
}

absl::StatusOr<KernelPlan> CreateAttention(const KernelContext& c) {
  absl::StatusOr<KernelPlan> plan =
      c.tuning() == nullptr
          ? CreateOwnAttention(c)
          : MakeFastestKernel(c, CreateOwnAttention,
                              absl::StrCat("ours or cuDNN ", cudnnGetVersion()),
                              kMaxCudnnAttentions, [&] { return CudnnAttentionKernels(c); });
  if (plan.ok()) plan->flops = FlopsOf(c, 0, c.input_shape(0).dim(3) + c.input_shape(2).dim(3));
  return plan;
}

// Returns the stages that write an attention::Query for each query to scratch memory.
std::vector<CudaStage> QueryStages(const KernelContext& c, const Attention& a,
                                   CudaKernelOptions* options) {
  const int64_t rows = a.heads * a.queries;
  const int64_t number = static_cast<int64_t>(DataTypeSize(c.attr<DataType>("U")));
  options->scratch_bytes = (rows * 2 * number + 63) / 64 * 64;
  const std::string query = absl::StrCat("attention::Query<", a.type, ">");
  // Row `o` of dy and y belongs to query `at`, in the order of log_sums.
  const int64_t of_example = a.spread * a.queries;
  const std::string at =
      a.spread == 1 || of_example == 0
          ? "o"
          : absl::StrCat("o / ", of_example, " * ", of_example, " + o % ", a.spread, " * ",
                         a.queries, " + o / ", a.spread, " % ", a.queries);
  return ReductionStages(
      ReduceDims(Shape({rows, a.value_depth}), {false, true}),
      {.op = absl::StrCat("Sum<", a.type, ">"),
       .op_bytes = number,
       .value = "Load(a0[i]) * Load(a4[i])",
       .finish = absl::StrCat("const auto at = ", at, ";\n reinterpret_cast<", query,
                              "*>(scratch)[at] = ", query, "::Of(a5[at], result, ", a.scale, ");")},
      &options->scratch_bytes);
}

absl::StatusOr<KernelPlan> CreateAttentionGrad(const KernelContext& c) {
  const auto shared = [](const Attention& a) {
    return 2 * ((a.depth + 1) + (a.value_depth + 1) + (a.tile + 1));
  };
  MF_ASSIGN_OR_RETURN(const Attention a, Attention::Create(c, 1, shared));
  CudaKernelOptions options{.includes = {"attention_mma.cuh"}};
  std::vector<CudaStage> stages = QueryStages(c, a, &options);
  const std::string rest =
      absl::StrCat("\n      reinterpret_cast<const attention::Query<", a.type, ">*>(scratch), ");
  const auto add = [&](int64_t rows, absl::string_view of_keys, absl::string_view operands,
                       absl::string_view results) {
    stages.push_back(
        {.body = absl::StrCat("  attention::Backward", a.where, "<", a.problem, ", ", of_keys, ", ",
                              a.depth, ", ", a.value_depth, ">(", operands, ", ", rest, results,
                              ", ", a.scale, ",\n      ", a.mask, ");"),
         .grid = a.GridFor(rows)});
  };
  add(a.queries, "false", "a1, a0, a2, a3", "z0, z0");
  add(a.keys, "true", "a2, a3, a1, a0", "z1, z2");
  absl::StatusOr<KernelPlan> plan = MakeCudaKernel(c, std::move(stages), std::move(options));
  if (plan.ok()) plan->flops = FlopsOf(c, 1, 3 * a.depth + 2 * a.value_depth);
  return plan;
}

}  // namespace

void RegisterAttentionCuda(KernelRegistry& kernels) {
  kernels.Register("ScaledDotProductAttention", kGpu, CreateAttention);
  kernels.Register("ScaledDotProductAttentionGrad", kGpu, CreateAttentionGrad);
}

}  // namespace mirrorflow
