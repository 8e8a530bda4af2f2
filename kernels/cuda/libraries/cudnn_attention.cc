// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/libraries/cudnn_attention.h"

#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "framework/core/status.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/libraries/cudnn_backend.h"

namespace mirrorflow {
namespace {

// The ids of the tensors in memory. Ids of at least kFirstVirtual belong to virtual tensors, which
// exist only within an engine.
enum Id : int64_t { kQ = 1, kK, kV, kY, kLogSum, kScale, kNoWeight, kFirstVirtual };

// cudnn-frontend rejects 9.10.0 and 9.10.1 because of bugs, and earlier versions expect a finite
// kNoWeight.
constexpr size_t kFirstVersion = 91002;

// The longest row that all of the library's engines accept. The length must be a multiple of
// kDepthStep.
constexpr int64_t kMaxDepth = 128, kDepthStep = 8;

// Builds the graph of attention. Dimensions are batch, heads, rows and columns.
class GraphBuilder : public CudnnGraphBuilder {
 public:
  explicit GraphBuilder(const CudnnAttention& attention)
      : a_(attention),
        scores_({a_.batch, a_.heads, a_.queries, a_.keys}),
        rows_({a_.batch, a_.heads, a_.queries, 1}) {}

  absl::StatusOr<std::vector<CudnnDescriptor>> Build() {
    const Index q = Rows(kQ, a_.queries, a_.depth);
    Dims k_strides = RowStrides(a_.keys, a_.depth);
    std::swap(k_strides[2], k_strides[3]);
    const Index k_transposed =
        Tensor(kK, a_.type, {a_.batch, a_.heads, a_.depth, a_.keys}, k_strides, Kind::kStored);
    const Index v = Rows(kV, a_.keys, a_.value_depth);
    const Index y = Rows(kY, a_.queries, a_.value_depth);
    const Index products = Virtual(CUDNN_DATA_FLOAT, scores_);
    MatMul(q, k_transposed, products);
    Index x = Virtual(CUDNN_DATA_FLOAT, scores_);
    Pointwise(CUDNN_POINTWISE_MUL, {.x = products, .b = Scalar(kScale), .y = x});
    if (a_.causal) x = MaskOfLaterKeys(x);
    const Index row_max = Virtual(CUDNN_DATA_FLOAT, rows_);
    Reduce(CUDNN_REDUCE_TENSOR_MAX, x, row_max);
    const Index reduced = Virtual(CUDNN_DATA_FLOAT, scores_);
    Pointwise(CUDNN_POINTWISE_SUB, {.x = x, .b = row_max, .y = reduced});
    const Index weights = Virtual(CUDNN_DATA_FLOAT, scores_);
    Pointwise(CUDNN_POINTWISE_EXP, {.x = reduced, .y = weights});
    const Index sum = Virtual(CUDNN_DATA_FLOAT, rows_);
    Reduce(CUDNN_REDUCE_TENSOR_ADD, weights, sum);
    const Index log = Virtual(CUDNN_DATA_FLOAT, rows_);
    Pointwise(CUDNN_POINTWISE_LOG, {.x = sum, .y = log});
    Pointwise(CUDNN_POINTWISE_ADD,
              {.x = row_max, .b = log, .y = Stored(kLogSum, CUDNN_DATA_FLOAT, rows_)});
    // The product requires operands of the same type.
    const Index softmax = Virtual(a_.type, scores_);
    Pointwise(CUDNN_POINTWISE_DIV, {.x = weights, .b = sum, .y = softmax});
    MatMul(softmax, v, y);
    return Finish();
  }

 private:
  static Dims PackedStrides(const Dims& d) { return {d[1] * d[2] * d[3], d[2] * d[3], d[3], 1}; }

  Index Stored(Id id, cudnnDataType_t type, const Dims& dims) {
    return Tensor(id, type, dims, PackedStrides(dims), Kind::kStored);
  }
  // Returns the strides of an operand or result with `rows` rows per head.
  Dims RowStrides(int64_t rows, int64_t columns) const {
    const int64_t of_example = a_.heads * rows * columns;
    return a_.heads_inside ? Dims{of_example, columns, a_.heads * columns, 1}
                           : Dims{of_example, rows * columns, columns, 1};
  }
  Index Rows(Id id, int64_t rows, int64_t columns) {
    return Tensor(id, a_.type, {a_.batch, a_.heads, rows, columns}, RowStrides(rows, columns),
                  Kind::kStored);
  }
  Index Virtual(cudnnDataType_t type, const Dims& dims) {
    return Tensor(next_virtual_++, type, dims, PackedStrides(dims), Kind::kVirtual);
  }
  Index Scalar(Id id) {
    return Tensor(id, CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1}, Kind::kByValue);
  }

  void MatMul(Index a, Index b, Index c) {
    const Index product = AddDescriptor(CudnnBuilder(CUDNN_BACKEND_MATMUL_DESCRIPTOR)
                                            .Set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT));
    if (!ok()) return;
    AddOperation(CudnnBuilder(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)
                     .Set(CUDNN_ATTR_OPERATION_MATMUL_DESC, at(product))
                     .Set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, at(a))
                     .Set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, at(b))
                     .Set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, at(c)));
  }

  void Reduce(cudnnReduceTensorOp_t op, Index x, Index y) {
    const Index reduction =
        AddDescriptor(CudnnBuilder(CUDNN_BACKEND_REDUCTION_DESCRIPTOR)
                          .Set(CUDNN_ATTR_REDUCTION_OPERATOR, op)
                          .Set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT));
    if (!ok()) return;
    AddOperation(CudnnBuilder(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)
                     .Set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, at(reduction))
                     .Set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, at(x))
                     .Set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, at(y)));
  }

  // Returns the coordinate of each score along `axis`.
  Index Coordinate(Index scores, int64_t axis) {
    const Index y = Virtual(CUDNN_DATA_INT32, scores_);
    Pointwise(CudnnBuilder(CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
                  .Set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_GEN_INDEX)
                  .Set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT)
                  .Set(CUDNN_ATTR_POINTWISE_AXIS, axis),
              {.x = scores, .y = y});
    return y;
  }

  // Returns the scores of the keys that each query sees (those whose index is at most the query's),
  // and kNoWeight elsewhere.
  Index MaskOfLaterKeys(Index scores) {
    const Index query = Coordinate(scores, 2), key = Coordinate(scores, 3);
    const Index sees = Virtual(CUDNN_DATA_BOOLEAN, scores_);
    Pointwise(CudnnBuilder(CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
                  .Set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_CMP_GE)
                  .Set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_BOOLEAN),
              {.x = query, .b = key, .y = sees});
    const Index masked = Virtual(CUDNN_DATA_FLOAT, scores_);
    Pointwise(CUDNN_POINTWISE_BINARY_SELECT,
              {.x = scores, .b = Scalar(kNoWeight), .t = sees, .y = masked});
    return masked;
  }

  const CudnnAttention& a_;
  const Dims scores_, rows_;
  int64_t next_virtual_ = kFirstVirtual;
};

KernelPlan KernelOf(const std::shared_ptr<const CudnnEngine>& engine, float scale, bool causal) {
  return {.kernel = MakeKernel([=](const KernelArgs& args, Lane& lane) {
            float scale_value = scale, no_weight = -std::numeric_limits<float>::infinity();
            // The library takes mutable addresses even for data that it only reads.
            const auto input = [&](int i) { return const_cast<char*>(args.input<char>(i)); };
            CudnnBindings bindings = {
                .ids = {kQ, kK, kV, kY, kLogSum, kScale},
                .addresses = {input(0), input(1), input(2), args.output<char>(0),
                              args.output<char>(1), &scale_value},
                .workspace = engine->workspace_bytes > 0 ? args.scratch<char>() : nullptr};
            if (causal) {
              bindings.ids.push_back(kNoWeight);
              bindings.addresses.push_back(&no_weight);
            }
            return lane.Library<CudnnLane>().Execute(StreamOf(lane), engine, bindings);
          }),
          .scratch_bytes = static_cast<int64_t>(engine->workspace_bytes)};
}

bool TakesDepth(int64_t depth) { return depth <= kMaxDepth && depth % kDepthStep == 0; }

// Returns the node's parameters, or nullopt if the library cannot have an engine for the node.
std::optional<CudnnAttention> AttentionOf(const KernelContext& c) {
  const DataType dtype = c.attr<DataType>("T");
  const Shape &q = c.input_shape(0), &v = c.input_shape(2);
  if (cudnnGetVersion() < kFirstVersion) return std::nullopt;
  const bool is_empty = q.num_elements() == 0 || v.num_elements() == 0;
  if ((dtype != DT_HALF && dtype != DT_BFLOAT16) || c.attr<int64_t>("num_masks") > 0 || is_empty ||
      !TakesDepth(q.dim(3)) || !TakesDepth(v.dim(3))) {
    return std::nullopt;
  }
  const bool inside = c.attr<bool>("heads_inside");
  return CudnnAttention{.type = dtype == DT_HALF ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16,
                        .batch = q.dim(0),
                        .heads = q.dim(inside ? 2 : 1),
                        .queries = q.dim(inside ? 1 : 2),
                        .keys = v.dim(inside ? 1 : 2),
                        .depth = q.dim(3),
                        .value_depth = v.dim(3),
                        .causal = c.attr<bool>("causal"),
                        .heads_inside = inside};
}

}  // namespace

absl::StatusOr<CudnnProposals> ProposeEngines(const CudnnAttention& attention,
                                              const CudnnDescriptor& gpu, int max_count) {
  MF_ASSIGN_OR_RETURN(std::vector<CudnnDescriptor> graph, GraphBuilder(attention).Build());
  return ProposeEngines(std::move(graph), gpu, /*allow_tensor_cores=*/true, max_count);
}

std::vector<KernelPlan> CudnnAttentionKernels(const KernelContext& c) {
  std::vector<KernelPlan> kernels;
  const std::optional<CudnnAttention> attention = AttentionOf(c);
  const absl::StatusOr<CudnnDescriptor> gpu = PropertiesOfGpu();
  if (!attention.has_value() || !gpu.ok()) return kernels;
  const absl::StatusOr<CudnnProposals> proposed =
      ProposeEngines(*attention, *gpu, kMaxCudnnAttentions);
  if (!proposed.ok()) return kernels;
  for (const auto& engine : *proposed) {
    kernels.push_back(KernelOf(engine, c.attr<float>("scale"), attention->causal));
  }
  return kernels;
}

}  // namespace mirrorflow
