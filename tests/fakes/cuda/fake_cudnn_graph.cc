// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/cuda/fake_cudnn_graph.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "framework/core/reduced_float.h"

namespace mirrorflow {
namespace {

using Descriptor = FakeCudnnDescriptor;
using Tensor = FakeCudnnTensor;
// The elements of a tensor in the order of its dimensions, regardless of strides.
using Values = std::vector<double>;

constexpr int64_t kSpatial = 2;

// The names of a convolution's attributes.
struct Names {
  cudnnBackendAttributeName_t convolution, x, w, y, alpha, beta;
};
Names NamesOf(const Descriptor& operation) {
  if (operation.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR) {
    return {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
  }
  if (operation.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR) {
    return {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
  }
  return {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
}

bool IsPointwise(const Descriptor& operation) {
  return operation.type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR;
}
bool IsProduct(const Descriptor& operation) {
  return operation.type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR;
}
bool IsReduction(const Descriptor& operation) {
  return operation.type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR;
}

struct Convolution {
  explicit Convolution(const Descriptor& operation)
      : x(operation.Child(NamesOf(operation).x)),
        w(operation.Child(NamesOf(operation).w)),
        y(operation.Child(NamesOf(operation).y)) {
    const Descriptor& convolution = operation.Child(NamesOf(operation).convolution);
    before = convolution.All<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
    after = convolution.All<int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
    stride = convolution.All<int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
    dilation = convolution.All<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS);
  }

  bool Fits() const {
    if (x.dims[0] != y.dims[0] || x.dims[1] % w.dims[1] != 0 || y.dims[1] != w.dims[0] ||
        w.dims[0] % groups() != 0) {
      return false;
    }
    for (int i = 0; i < kSpatial; ++i) {
      const int64_t extent = (w.dims[2 + i] - 1) * dilation[i] + 1;
      const int64_t room = x.dims[2 + i] + before[i] + after[i] - extent;
      if (room < 0 || y.dims[2 + i] != 1 + room / stride[i]) return false;
    }
    return true;
  }

  int64_t groups() const { return x.dims[1] / w.dims[1]; }

  // Calls fn(index in x, index in w, index in y) for all products.
  template <typename Fn>
  void ForEach(Fn fn) const {
    const auto at = [](const Tensor& t, int64_t n, int64_t c, int64_t i, int64_t j) {
      return ((n * t.dims[1] + c) * t.dims[2] + i) * t.dims[3] + j;
    };
    for (int64_t n = 0; n < y.dims[0]; ++n) {
      for (int64_t k = 0; k < y.dims[1]; ++k) {
        const int64_t first = k / (y.dims[1] / groups()) * w.dims[1];
        for (int64_t oh = 0; oh < y.dims[2]; ++oh) {
          for (int64_t ow = 0; ow < y.dims[3]; ++ow) {
            for (int64_t i = 0; i < w.dims[2]; ++i) {
              for (int64_t j = 0; j < w.dims[3]; ++j) {
                const int64_t ih = oh * stride[0] - before[0] + i * dilation[0];
                const int64_t iw = ow * stride[1] - before[1] + j * dilation[1];
                if (ih < 0 || ih >= x.dims[2] || iw < 0 || iw >= x.dims[3]) continue;
                for (int64_t c = 0; c < w.dims[1]; ++c) {
                  fn(at(x, n, first + c, ih, iw), at(w, k, c, i, j), at(y, n, k, oh, ow));
                }
              }
            }
          }
        }
      }
    }
  }

  Tensor x, w, y;
  std::vector<int64_t> before, after, stride, dilation;
};

DataType DTypeOf(cudnnDataType_t type) {
  return type == CUDNN_DATA_FLOAT ? DT_FLOAT : type == CUDNN_DATA_HALF ? DT_HALF : DT_BFLOAT16;
}

// Calls fn(index, offset) for each element, where `offset` is that of the element in memory.
template <typename Fn>
void ForEachElement(const Tensor& t, Fn fn) {
  for (int64_t i = 0; i < t.size(); ++i) {
    int64_t offset = 0, rest = i;
    for (int d = 3; d >= 0; --d) {
      offset += rest % t.dims[d] * t.strides[d];
      rest /= t.dims[d];
    }
    fn(i, offset);
  }
}

Values Load(const Tensor& t, const void* from) {
  Values values(t.size());
  ForEachElement(t, [&](int64_t i, int64_t offset) {
    values[i] = t.type == CUDNN_DATA_FLOAT
                    ? static_cast<const float*>(from)[offset]
                    : ReducedToFloat(DTypeOf(t.type), static_cast<const uint16_t*>(from)[offset]);
  });
  return values;
}

void Store(const Tensor& t, const Values& values, void* to) {
  ForEachElement(t, [&](int64_t i, int64_t offset) {
    if (t.type == CUDNN_DATA_FLOAT) {
      static_cast<float*>(to)[offset] = static_cast<float>(values[i]);
    } else {
      static_cast<uint16_t*>(to)[offset] = ReducedFrom(DTypeOf(t.type), values[i]);
    }
  });
}

// Truncates to TensorFloat-32, which has 10 fraction bits.
void RoundToTf32(Values* values) {
  for (double& value : *values) {
    const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
    value = std::bit_cast<float>(bits & ~uint32_t{0x1fff});
  }
}

// Returns the offset of element `i` of `to` in a tensor with dimensions `from` that broadcasts to
// `to`.
int64_t BroadcastOffset(const std::vector<int64_t>& from, const std::vector<int64_t>& to,
                        int64_t i) {
  int64_t offset = 0, stride = 1;
  for (int d = 3; d >= 0; --d) {
    if (from[d] > 1) offset += i % to[d] * stride;
    stride *= from[d];
    i /= to[d];
  }
  return offset;
}

cudnnPointwiseMode_t ModeOf(const Descriptor& operation) {
  return operation.Child(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)
      .One<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
}

// Returns the number of operands of a mode; 0 if the fake does not support the mode.
int OperandsOf(cudnnPointwiseMode_t mode) {
  switch (mode) {
    case CUDNN_POINTWISE_RELU_FWD:
    case CUDNN_POINTWISE_EXP:
    case CUDNN_POINTWISE_LOG:
    case CUDNN_POINTWISE_GEN_INDEX:
      return 1;
    case CUDNN_POINTWISE_ADD:
    case CUDNN_POINTWISE_SUB:
    case CUDNN_POINTWISE_MUL:
    case CUDNN_POINTWISE_DIV:
    case CUDNN_POINTWISE_CMP_GE:
      return 2;
    case CUDNN_POINTWISE_BINARY_SELECT:
      return 3;
    default:
      return 0;
  }
}

// Returns the tensors of an operation; the last one is its result.
std::vector<Tensor> TensorsOf(const Descriptor& operation) {
  std::vector<Tensor> tensors;
  const auto add = [&](std::vector<cudnnBackendAttributeName_t> names) {
    for (const auto name : names) {
      if (operation.Has(name)) tensors.emplace_back(operation.Child(name));
    }
    return tensors;
  };
  if (IsPointwise(operation)) {
    return add({CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                CUDNN_ATTR_OPERATION_POINTWISE_TDESC, CUDNN_ATTR_OPERATION_POINTWISE_YDESC});
  }
  if (IsProduct(operation)) {
    return add({CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC,
                CUDNN_ATTR_OPERATION_MATMUL_CDESC});
  }
  if (IsReduction(operation)) {
    return add({CUDNN_ATTR_OPERATION_REDUCTION_XDESC, CUDNN_ATTR_OPERATION_REDUCTION_YDESC});
  }
  const Convolution convolution(operation);
  switch (operation.type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return {convolution.w, convolution.y, convolution.x};
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return {convolution.x, convolution.y, convolution.w};
    default:
      return {convolution.x, convolution.w, convolution.y};
  }
}

std::string ErrorOfPointwise(const Descriptor& operation) {
  const std::vector<Tensor> tensors = TensorsOf(operation);
  const Tensor &x = tensors.front(), &y = tensors.back();
  if (x.dims != y.dims) return "x and y differ in shape";
  const cudnnPointwiseMode_t mode = ModeOf(operation);
  if (OperandsOf(mode) == 0) return "the fake does not support this mode";
  if (static_cast<int>(tensors.size()) != OperandsOf(mode) + 1)
    return "the number of operands is wrong";
  for (const Tensor& each : tensors) {
    for (int d = 0; d < 4; ++d) {
      if (each.dims[d] != 1 && each.dims[d] != y.dims[d]) return "an operand does not broadcast";
    }
  }
  const bool has_axis =
      operation.Child(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR).Has(CUDNN_ATTR_POINTWISE_AXIS);
  if (has_axis != (mode == CUDNN_POINTWISE_GEN_INDEX))
    return "GEN_INDEX, and no other mode, takes an axis";
  if ((mode == CUDNN_POINTWISE_GEN_INDEX) != (y.type == CUDNN_DATA_INT32)) {
    return "the result of GEN_INDEX, and of no other mode, is int32";
  }
  if ((mode == CUDNN_POINTWISE_CMP_GE) != (y.type == CUDNN_DATA_BOOLEAN)) {
    return "the result of a comparison, and of no other mode, is boolean";
  }
  if (mode == CUDNN_POINTWISE_BINARY_SELECT && tensors[2].type != CUDNN_DATA_BOOLEAN) {
    return "the predicate of a select is not boolean";
  }
  return "";
}

std::string ErrorOfProduct(const Descriptor& operation) {
  const std::vector<Tensor> t = TensorsOf(operation);
  const auto &a = t[0].dims, &b = t[1].dims, &c = t[2].dims;
  if (t[0].type != t[1].type) return "the operands of a product differ in type";
  return a == std::vector<int64_t>{c[0], c[1], c[2], b[2]} &&
                 b == std::vector<int64_t>{c[0], c[1], a[3], c[3]}
             ? ""
             : "the shapes of the product do not match";
}

std::string ErrorOfReduction(const Descriptor& operation) {
  const std::vector<Tensor> t = TensorsOf(operation);
  return t[1].dims == std::vector<int64_t>{t[0].dims[0], t[0].dims[1], t[0].dims[2], 1}
             ? ""
             : "the fake reduces only rows";
}

Values Apply(const Descriptor& operation, const std::vector<Values>& in) {
  const std::vector<Tensor> tensors = TensorsOf(operation);
  const Descriptor& function = operation.Child(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  const std::vector<int64_t>& dims = tensors.back().dims;
  const bool keeps_nan = function.Has(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION) &&
                         function.One<cudnnNanPropagation_t>(
                             CUDNN_ATTR_POINTWISE_NAN_PROPAGATION) == CUDNN_PROPAGATE_NAN;
  Values y(tensors.back().size());
  for (int64_t i = 0; i < tensors.back().size(); ++i) {
    const auto operand = [&](int k) { return in[k][BroadcastOffset(tensors[k].dims, dims, i)]; };
    const double x = operand(0);
    switch (ModeOf(operation)) {
      case CUDNN_POINTWISE_RELU_FWD:
        y[i] = x <= 0 || (std::isnan(x) && !keeps_nan) ? 0 : x;
        break;
      case CUDNN_POINTWISE_EXP:
        y[i] = std::exp(x);
        break;
      case CUDNN_POINTWISE_LOG:
        y[i] = std::log(x);
        break;
      case CUDNN_POINTWISE_GEN_INDEX: {
        int64_t rest = i;
        for (int64_t d = 3; d > function.One<int64_t>(CUDNN_ATTR_POINTWISE_AXIS); --d) {
          rest /= dims[d];
        }
        y[i] = static_cast<double>(rest % dims[function.One<int64_t>(CUDNN_ATTR_POINTWISE_AXIS)]);
        break;
      }
      case CUDNN_POINTWISE_ADD:
        y[i] = x + operand(1);
        break;
      case CUDNN_POINTWISE_SUB:
        y[i] = x - operand(1);
        break;
      case CUDNN_POINTWISE_MUL:
        y[i] = x * operand(1);
        break;
      case CUDNN_POINTWISE_DIV:
        y[i] = x / operand(1);
        break;
      case CUDNN_POINTWISE_CMP_GE:
        y[i] = x >= operand(1);
        break;
      default:  // CUDNN_POINTWISE_BINARY_SELECT
        y[i] = operand(2) != 0 ? x : operand(1);
    }
  }
  return y;
}

Values Multiply(const Descriptor& operation, const std::vector<Values>& in) {
  const std::vector<Tensor> t = TensorsOf(operation);
  const int64_t rows = t[2].dims[2], columns = t[2].dims[3], inner = t[0].dims[3];
  Values c(t[2].size(), 0);
  for (int64_t i = 0; i < t[2].size(); ++i) {
    const int64_t column = i % columns, row = i / columns, matrix = row / rows;
    for (int64_t k = 0; k < inner; ++k) {
      c[i] += in[0][row * inner + k] * in[1][(matrix * inner + k) * columns + column];
    }
  }
  return c;
}

Values Reduce(const Descriptor& operation, const Values& x) {
  const std::vector<Tensor> t = TensorsOf(operation);
  const bool adds =
      operation.Child(CUDNN_ATTR_OPERATION_REDUCTION_DESC)
          .One<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR) == CUDNN_REDUCE_TENSOR_ADD;
  Values y;
  for (auto row = x.begin(); row != x.end(); row += t[0].dims[3]) {
    const auto end = row + t[0].dims[3];
    y.push_back(adds ? std::accumulate(row, end, 0.0) : *std::max_element(row, end));
  }
  return y;
}

Values Convolve(const Descriptor& operation, std::vector<Values> in, bool tf32) {
  Values &left = in[0], &right = in[1];
  if (tf32) {
    RoundToTf32(&left);
    RoundToTf32(&right);
  }
  Values sums(TensorsOf(operation).back().size(), 0);
  Convolution(operation).ForEach([&](int64_t x, int64_t w, int64_t y) {
    if (operation.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR) {
      sums[x] += left[w] * right[y];
    } else if (operation.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR) {
      sums[w] += left[x] * right[y];
    } else {
      sums[y] += left[x] * right[w];
    }
  });
  return sums;
}

}  // namespace

FakeCudnnTensor::FakeCudnnTensor(const Descriptor& tensor)
    : id(tensor.One<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID)),
      alignment(tensor.One<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)),
      type(tensor.One<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE)),
      dims(tensor.All<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS)),
      strides(tensor.All<int64_t>(CUDNN_ATTR_TENSOR_STRIDES)),
      is_virtual(tensor.Has(CUDNN_ATTR_TENSOR_IS_VIRTUAL) &&
                 tensor.One<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL)),
      is_by_value(tensor.Has(CUDNN_ATTR_TENSOR_IS_BY_VALUE) &&
                  tensor.One<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE)) {}

std::string FakeCudnnGraph::ErrorOfOperation(const Descriptor& operation) {
  if (IsPointwise(operation)) return ErrorOfPointwise(operation);
  if (IsProduct(operation)) return ErrorOfProduct(operation);
  if (IsReduction(operation)) return ErrorOfReduction(operation);
  const Names names = NamesOf(operation);
  if (operation.One<float>(names.alpha) != 1 || operation.One<float>(names.beta) != 0) {
    return "the fake supports only alpha 1 and beta 0";
  }
  return Convolution(operation).Fits() ? "" : "the shapes do not match the convolution";
}

std::string FakeCudnnGraph::ErrorOfGraph(const Descriptor& graph) {
  const auto& operations = graph.values.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).descriptors;
  const bool is_attention = IsProduct(*operations.front());
  if (is_attention && !IsProduct(*operations.back())) return "the last operation is not a product";
  std::map<int64_t, Tensor> by_id;
  std::set<int64_t> results, used;
  for (size_t i = 0; i < operations.size(); ++i) {
    const Descriptor& operation = *operations[i];
    const bool is_inner = IsPointwise(operation) ||
                          (is_attention && (IsReduction(operation) || IsProduct(operation)));
    if (!is_inner && i > 0) return "only the first operation can be a convolution";
    if (is_inner && i == 0 && !is_attention)
      return "the first operation is neither a convolution nor a product";
    const std::vector<Tensor> tensors = TensorsOf(operation);
    bool is_linked = i == 0;
    for (size_t t = 0; t < tensors.size(); ++t) {
      const Tensor& tensor = tensors[t];
      const bool is_result = t + 1 == tensors.size();
      const auto [known, is_new] = by_id.emplace(tensor.id, tensor);
      if (!is_new && (is_result || !tensor.is_virtual)) return "two tensors have the same id";
      if (!(known->second == tensor)) return "a tensor has two descriptions";
      if (is_result) {
        results.insert(tensor.id);
        continue;
      }
      if (tensor.is_virtual && !results.contains(tensor.id))
        return "no operation computes a virtual operand";
      is_linked |= tensor.is_virtual;
      used.insert(tensor.id);
    }
    if (!is_linked) return "operations are not linked";
  }
  for (const int64_t result : results) {
    if (by_id.at(result).is_virtual != used.contains(result)) {
      return "a used result is not virtual, or an unused one is";
    }
  }
  return "";
}

FakeCudnnGraph::FakeCudnnGraph(const Descriptor& graph) {
  for (const auto& each : graph.values.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).descriptors) {
    operations_.push_back(*each);
  }
}

std::vector<Tensor> FakeCudnnGraph::Operands() const {
  std::vector<Tensor> operands;
  for (const Descriptor& operation : operations_) {
    for (const Tensor& tensor : TensorsOf(operation)) {
      if (!tensor.is_virtual) operands.push_back(tensor);
    }
  }
  return operands;
}

bool FakeCudnnGraph::is_attention() const { return IsProduct(operations_.front()); }

cudnnDataType_t FakeCudnnGraph::type() const { return TensorsOf(operations_.front())[0].type; }

void FakeCudnnGraph::Compute(const std::map<int64_t, void*>& addresses,
                             const std::map<int64_t, float>& scalars, bool tf32) const {
  std::map<int64_t, Values> inner;
  for (const Descriptor& operation : operations_) {
    std::vector<Tensor> tensors = TensorsOf(operation);
    const Tensor result = tensors.back();
    tensors.pop_back();
    std::vector<Values> in;
    for (const Tensor& tensor : tensors) {
      in.push_back(tensor.is_virtual    ? inner.at(tensor.id)
                   : tensor.is_by_value ? Values{scalars.at(tensor.id)}
                                        : Load(tensor, addresses.at(tensor.id)));
    }
    Values values = IsPointwise(operation)   ? Apply(operation, in)
                    : IsProduct(operation)   ? Multiply(operation, in)
                    : IsReduction(operation) ? Reduce(operation, in[0])
                                             : Convolve(operation, std::move(in), tf32);
    if (!result.is_virtual) {
      Store(result, values, addresses.at(result.id));
      continue;
    }
    if (result.type == CUDNN_DATA_HALF || result.type == CUDNN_DATA_BFLOAT16) {
      const DataType dtype = DTypeOf(result.type);
      for (double& value : values) value = ReducedToFloat(dtype, ReducedFrom(dtype, value));
    }
    inner[result.id] = std::move(values);
  }
}

}  // namespace mirrorflow
