// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/fake_cudnn_graph.h"

#include <bit>
#include <cmath>

#include "framework/core/reduced_float.h"

namespace mirrorflow {
namespace {

using Descriptor = FakeCudnnDescriptor;
using Tensor = FakeCudnnTensor;
// The elements of a tensor in the order of its dimensions, without regard to strides.
using Values = std::vector<double>;

constexpr int64_t kSpatial = 2;

// The names of the attributes of a convolution.
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

// Calls fn(index of the element, its offset in memory).
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

// TensorFloat-32 keeps 10 bits of fraction.
void RoundToTf32(Values* values) {
  for (double& value : *values) {
    const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
    value = std::bit_cast<float>(bits & ~uint32_t{0x1fff});
  }
}

Values Apply(const Descriptor& operation, Values x, const Values& b) {
  const Descriptor& mode = operation.Child(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  if (mode.One<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE) == CUDNN_POINTWISE_RELU_FWD) {
    const bool keeps_nan = mode.Has(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION) &&
                           mode.One<cudnnNanPropagation_t>(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION) ==
                               CUDNN_PROPAGATE_NAN;
    for (double& value : x) {
      if (value <= 0 || (std::isnan(value) && !keeps_nan)) value = 0;
    }
    return x;
  }
  const Tensor out(operation.Child(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
  const int64_t pixels = out.dims[2] * out.dims[3];
  for (int64_t i = 0; i < out.size(); ++i) x[i] += b[i / pixels % out.dims[1]];
  return x;
}

std::string ErrorOfPointwise(const Descriptor& operation) {
  const Tensor x(operation.Child(CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
  const Tensor y(operation.Child(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
  if (x.dims != y.dims) return "x and y differ in shape";
  const auto mode = operation.Child(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)
                        .One<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
  const bool has_b = operation.Has(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
  if (mode == CUDNN_POINTWISE_RELU_FWD) return has_b ? "Relu has one operand" : "";
  if (mode != CUDNN_POINTWISE_ADD) return "a mode that the fake does not have";
  if (!has_b) return "Add has two operands";
  const Tensor b(operation.Child(CUDNN_ATTR_OPERATION_POINTWISE_BDESC));
  return b.dims == std::vector<int64_t>{1, y.dims[1], 1, 1} ? "" : "b is not a bias";
}

// The tensors of an operation; the last one is its result.
std::vector<Tensor> TensorsOf(const Descriptor& operation) {
  std::vector<Tensor> tensors;
  if (IsPointwise(operation)) {
    tensors.emplace_back(operation.Child(CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
    if (operation.Has(CUDNN_ATTR_OPERATION_POINTWISE_BDESC)) {
      tensors.emplace_back(operation.Child(CUDNN_ATTR_OPERATION_POINTWISE_BDESC));
    }
    tensors.emplace_back(operation.Child(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
    return tensors;
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

}  // namespace

FakeCudnnTensor::FakeCudnnTensor(const Descriptor& tensor)
    : id(tensor.One<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID)),
      alignment(tensor.One<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)),
      type(tensor.One<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE)),
      dims(tensor.All<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS)),
      strides(tensor.All<int64_t>(CUDNN_ATTR_TENSOR_STRIDES)),
      is_virtual(tensor.Has(CUDNN_ATTR_TENSOR_IS_VIRTUAL) &&
                 tensor.One<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL)) {}

std::string FakeCudnnGraph::ErrorOfOperation(const Descriptor& operation) {
  if (IsPointwise(operation)) return ErrorOfPointwise(operation);
  const Names names = NamesOf(operation);
  if (operation.One<float>(names.alpha) != 1 || operation.One<float>(names.beta) != 0) {
    return "a scale that the fake does not have";
  }
  return Convolution(operation).Fits() ? "" : "the shapes do not fit";
}

std::string FakeCudnnGraph::ErrorOfGraph(const Descriptor& graph) {
  const auto& operations = graph.values.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).descriptors;
  std::map<int64_t, Tensor> by_id;
  int64_t previous = -1;
  for (size_t i = 0; i < operations.size(); ++i) {
    if (IsPointwise(*operations[i]) != (i > 0))
      return "expected one convolution, which comes first";
    const std::vector<Tensor> tensors = TensorsOf(*operations[i]);
    if (i > 0 && tensors[0].id != previous) return "operations are not linked";
    for (size_t t = 0; t < tensors.size(); ++t) {
      const bool is_result = t + 1 == tensors.size(), is_linked = i > 0 && t == 0;
      const auto [known, is_new] = by_id.emplace(tensors[t].id, tensors[t]);
      if (is_new == is_linked) return "an id stands for two tensors";
      if (!(known->second == tensors[t])) return "a tensor has two descriptions";
      const bool inner = is_linked || (is_result && i + 1 < operations.size());
      if (tensors[t].is_virtual != inner) return "a tensor is virtual that should not be, or not";
    }
    previous = tensors.back().id;
  }
  return "";
}

FakeCudnnGraph::FakeCudnnGraph(const Descriptor& graph)
    : convolution_(graph.Child(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
  const auto& operations = graph.values.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).descriptors;
  for (size_t i = 1; i < operations.size(); ++i) epilogue_.push_back(*operations[i]);
}

std::vector<Tensor> FakeCudnnGraph::Operands() const {
  std::vector<Tensor> operands;
  const auto add = [&](const Descriptor& operation) {
    for (const Tensor& tensor : TensorsOf(operation)) {
      if (!tensor.is_virtual) operands.push_back(tensor);
    }
  };
  add(convolution_);
  for (const Descriptor& operation : epilogue_) add(operation);
  return operands;
}

cudnnDataType_t FakeCudnnGraph::type() const { return TensorsOf(convolution_)[0].type; }

void FakeCudnnGraph::Compute(const std::map<int64_t, void*>& addresses, bool tf32) const {
  const std::vector<Tensor> tensors = TensorsOf(convolution_);
  Values left = Load(tensors[0], addresses.at(tensors[0].id));
  Values right = Load(tensors[1], addresses.at(tensors[1].id));
  if (tf32) {
    RoundToTf32(&left);
    RoundToTf32(&right);
  }
  Tensor result = tensors[2];
  Values sums(result.size(), 0);
  Convolution(convolution_).ForEach([&](int64_t x, int64_t w, int64_t y) {
    if (convolution_.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR) {
      sums[x] += left[w] * right[y];
    } else if (convolution_.type ==
               CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR) {
      sums[w] += left[x] * right[y];
    } else {
      sums[y] += left[x] * right[w];
    }
  });
  for (const Descriptor& operation : epilogue_) {
    const std::vector<Tensor> of = TensorsOf(operation);
    sums = Apply(operation, std::move(sums),
                 of.size() > 2 ? Load(of[1], addresses.at(of[1].id)) : Values());
    result = of.back();
  }
  Store(result, sums, addresses.at(result.id));
}

}  // namespace mirrorflow
