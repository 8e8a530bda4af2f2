// SPDX-License-Identifier: Apache-2.0
#include "tests/support/tensors.h"

#include <cmath>
#include <cstring>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "framework/core/reduced_float.h"
#include "framework/graph/attr_value.h"

namespace mirrorflow {
namespace {

Tensor AllocateOrDie(DataType dtype, const Shape& shape) {
  absl::StatusOr<Tensor> tensor = Tensor::Allocate(dtype, shape);
  MF_CHECK(tensor.ok());
  return *std::move(tensor);
}

uint16_t* BitsOf(const Tensor& tensor) { return reinterpret_cast<uint16_t*>(tensor.raw()); }

// Returns half and bfloat16 tensors as float, and other tensors unchanged.
Tensor Widened(const Tensor& tensor) {
  if (!IsReducedFloat(tensor.dtype())) return tensor;
  Tensor wide = AllocateOrDie(DT_FLOAT, tensor.shape());
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    wide.flat<float>()[i] = ReducedToFloat(tensor.dtype(), BitsOf(tensor)[i]);
  }
  return wide;
}

// Returns a float tensor, rounded to `dtype` if `dtype` is half or bfloat16, otherwise unchanged.
Tensor Rounded(const Tensor& tensor, DataType dtype) {
  if (!IsReducedFloat(dtype)) return tensor;
  Tensor narrow = AllocateOrDie(dtype, tensor.shape());
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    BitsOf(narrow)[i] = ReducedFrom(dtype, tensor.flat<float>()[i]);
  }
  return narrow;
}

// Calls fn(TypeTag<T>()) for the dtype of `tensor`. Aborts for a dtype that no kernel computes in.
template <typename Fn>
void Dispatch(const Tensor& tensor, Fn&& fn) {
  const auto call = [&](auto tag) {
    fn(tag);
    return true;
  };
  if (tensor.dtype() == DT_UINT32) return void(call(TypeTag<uint32_t>()));
  if (tensor.dtype() == DT_UINT64) return void(call(TypeTag<uint64_t>()));
  MF_CHECK(DispatchDataType(tensor.dtype(), call, false));
}

template <typename T>
bool IsClose(T want, T got, const Tolerance& tolerance) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got);
    if (std::isinf(want) || std::isinf(got)) return want == got;
    const double difference = std::abs(static_cast<double>(got) - static_cast<double>(want));
    return difference <=
           tolerance.relative * std::abs(static_cast<double>(want)) + tolerance.absolute;
  } else {
    return want == got;
  }
}

template <typename T>
bool IsFiniteNumber(T value) {
  return !std::is_floating_point_v<T> || std::isfinite(static_cast<double>(value));
}

template <typename T>
T AddWrapping(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return a + b;
  } else {
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }
}

template <typename T>
T CombineTwo(T a, T b, Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
    case Reduction::kMean:  // of weighted parts
      return AddWrapping(a, b);
    case Reduction::kMax:
      return a > b || a != a ? a : b;
    case Reduction::kMin:
      return a < b || a != a ? a : b;
    case Reduction::kAll:
      return static_cast<T>(a && b);
    case Reduction::kAny:
      return static_cast<T>(a || b);
  }
  return a;
}

// The element counts of the dimensions before `dim`, of `dim` itself, and of those after it.
struct Blocks {
  Blocks(const Shape& shape, int dim) : size(shape.dim(dim)) {
    for (int d = 0; d < dim; ++d) outer *= shape.dim(d);
    for (int d = dim + 1; d < shape.rank(); ++d) inner *= shape.dim(d);
  }
  int64_t outer = 1, size, inner = 1;
};

}  // namespace

std::string Difference(const Tensor& want, const Tensor& got, const Tolerance& tolerance) {
  if (want.dtype() != got.dtype() || want.shape() != got.shape()) {
    return absl::StrCat("expected ", DataTypeName(want.dtype()), want.shape().ToString(), ", got ",
                        DataTypeName(got.dtype()), got.shape().ToString());
  }
  if (IsReducedFloat(want.dtype())) return Difference(Widened(want), Widened(got), tolerance);
  std::string difference;
  Dispatch(want, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t i = 0; i < want.num_elements(); ++i) {
      const T a = want.flat<T>()[i], b = got.flat<T>()[i];
      if (IsClose(a, b, tolerance)) continue;
      difference =
          absl::StrCat("element ", i, ": expected ", TensorToString(Tensor::Scalar<T>(a)), ", got ",
                       TensorToString(Tensor::Scalar<T>(b)), " in ", TensorToString(got, 20));
      return;
    }
  });
  return difference;
}

double LargestFinite(const Tensor& stored) {
  const Tensor tensor = Widened(stored);
  double largest = 0;
  Dispatch(tensor, [&](auto tag) {
    for (const auto value : tensor.flat<typename decltype(tag)::type>()) {
      if (IsFiniteNumber(value)) largest = std::max(largest, std::abs(static_cast<double>(value)));
    }
  });
  return largest;
}

bool AllFinite(const Tensor& stored) {
  const Tensor tensor = Widened(stored);
  bool finite = true;
  Dispatch(tensor, [&](auto tag) {
    for (const auto value : tensor.flat<typename decltype(tag)::type>()) {
      finite = finite && IsFiniteNumber(value);
    }
  });
  return finite;
}

Tensor SliceAlong(const Tensor& tensor, int dim, int64_t begin, int64_t end) {
  const Blocks blocks(tensor.shape(), dim);
  Shape shape = tensor.shape();
  shape.set_dim(dim, end - begin);
  Tensor slice = AllocateOrDie(tensor.dtype(), shape);
  const size_t step = blocks.inner * DataTypeSize(tensor.dtype());
  for (int64_t i = 0; i < blocks.outer && slice.bytes() > 0; ++i) {
    std::memcpy(slice.raw() + i * (end - begin) * step,
                tensor.raw() + (i * blocks.size + begin) * step, (end - begin) * step);
  }
  return slice;
}

Tensor ConcatenateAlong(absl::Span<const Tensor> parts, int dim) {
  Shape shape = parts[0].shape();
  int64_t size = 0;
  for (const Tensor& part : parts) size += part.shape().dim(dim);
  shape.set_dim(dim, size);
  Tensor whole = AllocateOrDie(parts[0].dtype(), shape);
  const Blocks blocks(shape, dim);
  const size_t step = blocks.inner * DataTypeSize(whole.dtype());
  int64_t begin = 0;
  for (const Tensor& part : parts) {
    const int64_t rows = part.shape().dim(dim);
    for (int64_t i = 0; i < blocks.outer && part.bytes() > 0; ++i) {
      std::memcpy(whole.raw() + (i * size + begin) * step, part.raw() + i * rows * step,
                  rows * step);
    }
    begin += rows;
  }
  return whole;
}

Tensor Combine(absl::Span<const Tensor> parts, Reduction reduction,
               absl::Span<const double> weights) {
  if (IsReducedFloat(parts[0].dtype())) {
    std::vector<Tensor> wide;
    for (const Tensor& part : parts) wide.push_back(Widened(part));
    return Rounded(Combine(wide, reduction, weights), parts[0].dtype());
  }
  Tensor whole = AllocateOrDie(parts[0].dtype(), parts[0].shape());
  Dispatch(whole, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t i = 0; i < whole.num_elements(); ++i) {
      T sum = T();
      for (size_t r = 0; r < parts.size(); ++r) {
        T value = parts[r].flat<T>()[i];
        if (reduction == Reduction::kMean) value = static_cast<T>(value * weights[r]);
        sum = r == 0 ? value : CombineTwo(sum, value, reduction);
      }
      whole.flat<T>()[i] = sum;
    }
  });
  return whole;
}

uint64_t Random::Next() {
  uint64_t z = (state_ += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

double Random::Uniform(double low, double high) {
  return low + (high - low) * static_cast<double>(Next() >> 11) / 9007199254740992.0;  // 2^53
}

Tensor RandomTensor(DataType dtype, const Shape& shape, Random* random, int64_t limit) {
  if (IsReducedFloat(dtype)) return Rounded(RandomTensor(DT_FLOAT, shape, random, limit), dtype);
  Tensor tensor = AllocateOrDie(dtype, shape);
  Dispatch(tensor, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (T& value : tensor.flat<T>()) {
      value = static_cast<T>(std::is_floating_point_v<T> ? random->Uniform(-1, 1)
                                                         : random->Below(limit));
    }
  });
  return tensor;
}

std::vector<Tensor> RandomParts(const Tensor& tensor, int count, Random* random) {
  std::vector<Tensor> parts;
  if (IsReducedFloat(tensor.dtype())) {
    parts = RandomParts(Widened(tensor), count, random);
    for (Tensor& part : parts) part = Rounded(part, tensor.dtype());
    return parts;
  }
  for (int r = 0; r < count; ++r) parts.push_back(AllocateOrDie(tensor.dtype(), tensor.shape()));
  Dispatch(tensor, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      T rest = tensor.flat<T>()[i];
      for (int r = count - 1; r > 0 && IsFiniteNumber(rest); --r) {
        T part;
        if constexpr (std::is_floating_point_v<T>) {
          part = static_cast<T>(random->Uniform(-1, 1) * std::max<T>(1, std::abs(rest)));
        } else {
          part = static_cast<T>(rest / static_cast<T>(1 + random->Below(4)));
        }
        parts[r].flat<T>()[i] = part;
        rest = static_cast<T>(rest - part);
      }
      parts[0].flat<T>()[i] = rest;
    }
  });
  return parts;
}

}  // namespace mirrorflow
