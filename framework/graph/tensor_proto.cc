// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/tensor_proto.h"

#include <google/protobuf/reflection.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/core/names.h"
#include "framework/core/overloaded.h"
#include "framework/core/status.h"
#include "framework/graph/tensor_elements.h"

namespace mirrorflow {
namespace {

using proto::TensorProto;

// The repeated field of a TensorProto that holds the elements of a dtype.
struct ListRow {
  DataType dtype;
  int field;
};

constexpr ListRow kLists[] = {
    {DT_FLOAT, TensorProto::kFloatValFieldNumber},
    {DT_DOUBLE, TensorProto::kDoubleValFieldNumber},
    {DT_INT32, TensorProto::kIntValFieldNumber},
    {DT_UINT8, TensorProto::kIntValFieldNumber},
    {DT_INT16, TensorProto::kIntValFieldNumber},
    {DT_INT8, TensorProto::kIntValFieldNumber},
    {DT_COMPLEX64, TensorProto::kScomplexValFieldNumber},
    {DT_INT64, TensorProto::kInt64ValFieldNumber},
    {DT_BOOL, TensorProto::kBoolValFieldNumber},
    {DT_BFLOAT16, TensorProto::kHalfValFieldNumber},
    {DT_UINT16, TensorProto::kIntValFieldNumber},
    {DT_COMPLEX128, TensorProto::kDcomplexValFieldNumber},
    {DT_HALF, TensorProto::kHalfValFieldNumber},
    {DT_UINT32, TensorProto::kUint32ValFieldNumber},
    {DT_UINT64, TensorProto::kUint64ValFieldNumber},
};

const google::protobuf::FieldDescriptor* ListField(DataType dtype) {
  for (const ListRow& row : kLists) {
    if (row.dtype == dtype) return TensorProto::descriptor()->FindFieldByNumber(row.field);
  }
  return nullptr;
}

// The element type of the repeated field that holds numbers of type T. Small integers are stored as
// int32.
template <typename T>
using ListNumber =
    std::conditional_t<std::is_integral_v<T> && !std::is_same_v<T, bool> && sizeof(T) < 4, int32_t,
                       T>;

absl::StatusOr<Tensor> TensorFromContent(DataType dtype, const Shape& shape,
                                         const std::string& content) {
  const size_t expected = shape.num_elements() * DataTypeSize(dtype);
  if (content.size() != expected) {
    return absl::InvalidArgumentError(absl::StrCat("tensor_content has the wrong size; expected ",
                                                   expected, " bytes for ", DataTypeName(dtype),
                                                   shape.ToString(), ", got ", content.size()));
  }
  if (dtype == DT_BOOL &&
      std::any_of(content.begin(), content.end(), [](char c) { return c != 0 && c != 1; })) {
    return absl::InvalidArgumentError("tensor_content of bools has a byte that is not 0 or 1");
  }
  MF_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(dtype, shape));
  std::memcpy(tensor.raw(), content.data(), content.size());
  return tensor;
}

template <typename T>
absl::StatusOr<Tensor> TensorFromList(DataType dtype, const Shape& shape, const TensorProto& proto,
                                      int64_t* repeated_bytes) {
  const auto list =
      proto.GetReflection()->GetRepeatedFieldRef<ListNumber<T>>(proto, ListField(dtype));
  const int per_element = NumbersPerElement(dtype);
  if (list.size() % per_element != 0) {
    return absl::InvalidArgumentError("a complex number lacks its imaginary part");
  }
  if (list.size() < shape.num_elements() * per_element) {
    const int64_t bytes = shape.num_elements() * DataTypeSize(dtype);
    if (bytes > *repeated_bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("a repeated value would take too much memory; expected at most ",
                       *repeated_bytes, " bytes for the rest of this graph, got ", bytes));
    }
    *repeated_bytes -= bytes;
  }
  MF_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(dtype, shape));
  const absl::Span<T> numbers = StoredNumbers<T>(tensor);
  const size_t given = std::min<size_t>(list.size(), numbers.size());
  for (size_t i = 0; i < given; ++i) {
    const ListNumber<T> number = list.Get(i);
    numbers[i] = static_cast<T>(number);
    if constexpr (std::is_integral_v<T>) {
      if (numbers[i] != number) {
        return absl::InvalidArgumentError(absl::StrCat("element ", i, " is out of range for ",
                                                       DataTypeName(dtype), ": ", number));
      }
    }
  }
  if (given > 0) {
    for (size_t i = given; i < numbers.size(); ++i) numbers[i] = numbers[i - per_element];
  }
  return tensor;
}

// Returns true if the tensor has elements and all have the same bits.
bool IsOneValue(const Tensor& tensor) {
  const size_t size = DataTypeSize(tensor.dtype());
  return tensor.num_elements() > 0 &&
         std::memcmp(tensor.raw(), tensor.raw() + size, tensor.bytes() - size) == 0;
}

constexpr int kMaxDepth = 50;

absl::Status FunctionToProto(const FunctionRef& function, proto::NameAttrList* proto) {
  proto->set_name(function.name);
  for (const auto& [name, value] : function.attrs) {
    MF_RETURN_IF_ERROR(AttrValueToProto(value, &(*proto->mutable_attr())[name]));
  }
  return absl::OkStatus();
}

absl::Status ListToProto(const AttrList& list, proto::AttrValue::ListValue* proto) {
  for (const AttrValue& item : list) {
    if (item.variant().index() != list[0].variant().index()) {
      return absl::InvalidArgumentError("a list of mixed types cannot be exported");
    }
    MF_RETURN_IF_ERROR(std::visit(
        Overloaded{
            [&](const std::string& v) { return proto->add_s(v), absl::OkStatus(); },
            [&](int64_t v) { return proto->add_i(v), absl::OkStatus(); },
            [&](float v) { return proto->add_f(v), absl::OkStatus(); },
            [&](bool v) { return proto->add_b(v), absl::OkStatus(); },
            [&](DataType v) {
              return proto->add_type(static_cast<proto::DataType>(v)), absl::OkStatus();
            },
            [&](const Shape& v) { return ShapeToProto(v, proto->add_shape()), absl::OkStatus(); },
            [&](const Tensor& v) {
              return *proto->add_tensor() = TensorToProto(v), absl::OkStatus();
            },
            [&](const FunctionRef& v) { return FunctionToProto(v, proto->add_func()); },
            [&](const AttrList&) {
              return absl::InvalidArgumentError("a list of lists cannot be exported");
            },
        },
        item.variant()));
  }
  return absl::OkStatus();
}

absl::StatusOr<FunctionRef> FunctionFromProto(const proto::NameAttrList& proto,
                                              int64_t* repeated_bytes, int depth) {
  FunctionRef function{proto.name(), {}};
  for (const auto& [name, value] : proto.attr()) {
    absl::StatusOr<AttrValue> converted = AttrValueFromProto(value, repeated_bytes, depth);
    if (!converted.ok()) {
      return Annotate(converted.status(), absl::StrCat("attribute '", Printable(name), "'"));
    }
    function.attrs.emplace(name, *std::move(converted));
  }
  return function;
}

// Reads the fields of a list in turn; a sane list sets only one.
absl::StatusOr<AttrList> ListFromProto(const proto::AttrValue::ListValue& proto,
                                       int64_t* repeated_bytes, int depth) {
  AttrList list;
  list.insert(list.end(), proto.s().begin(), proto.s().end());
  for (int64_t v : proto.i()) list.emplace_back(v);
  list.insert(list.end(), proto.f().begin(), proto.f().end());
  list.insert(list.end(), proto.b().begin(), proto.b().end());
  for (int v : proto.type()) {
    MF_ASSIGN_OR_RETURN(list.emplace_back(), DataTypeFromProto(static_cast<proto::DataType>(v)));
  }
  for (const auto& v : proto.shape()) {
    MF_ASSIGN_OR_RETURN(list.emplace_back(), ShapeFromProto(v));
  }
  for (const auto& v : proto.tensor()) {
    MF_ASSIGN_OR_RETURN(list.emplace_back(), TensorFromProto(v, repeated_bytes));
  }
  for (const auto& v : proto.func()) {
    MF_ASSIGN_OR_RETURN(list.emplace_back(), FunctionFromProto(v, repeated_bytes, depth));
  }
  return list;
}

}  // namespace

absl::StatusOr<DataType> DataTypeFromProto(proto::DataType dtype) {
  if (dtype == proto::DT_INVALID || IsKnownDataType(dtype)) return static_cast<DataType>(dtype);
  const std::string& name = proto::DataType_Name(dtype);
  return absl::InvalidArgumentError(absl::StrCat(
      "dtype ", name.empty() ? absl::StrCat(static_cast<int>(dtype)) : name, " is not supported"));
}

void ShapeToProto(const Shape& shape, proto::TensorShapeProto* proto) {
  proto->set_unknown_rank(shape.unknown_rank());
  for (int64_t dim : shape.dims()) proto->add_dim()->set_size(dim);
}

absl::StatusOr<Shape> ShapeFromProto(const proto::TensorShapeProto& proto) {
  if (proto.unknown_rank()) {
    if (proto.dim_size() == 0) return Shape::UnknownRank();
    return absl::InvalidArgumentError(absl::StrCat(
        "a shape of unknown rank lists dimensions; expected none, got ", proto.dim_size()));
  }
  Shape shape;
  // Reads at most one dimension too many, which is enough for Validate to reject the shape.
  for (int i = 0; i < std::min(proto.dim_size(), kMaxRank + 1); ++i) {
    shape.AddDim(proto.dim(i).size());
  }
  MF_RETURN_IF_ERROR(shape.Validate(DT_UINT8));
  return shape;
}

TensorProto TensorToProto(const Tensor& tensor) {
  TensorProto proto;
  proto.set_dtype(static_cast<proto::DataType>(tensor.dtype()));
  ShapeToProto(tensor.shape(), proto.mutable_tensor_shape());
  if (!tensor.has_value() || tensor.num_elements() == 0) return proto;
  if (!IsOneValue(tensor)) {
    proto.set_tensor_content(tensor.raw(), tensor.bytes());
    return proto;
  }
  DispatchStoredType(
      tensor.dtype(),
      [&]<typename T>(TypeTag<T>) {
        const auto list = proto.GetReflection()->GetMutableRepeatedFieldRef<ListNumber<T>>(
            &proto, ListField(tensor.dtype()));
        for (int i = 0; i < NumbersPerElement(tensor.dtype()); ++i) {
          list.Add(StoredNumbers<T>(tensor)[i]);
        }
        return true;
      },
      false);
  return proto;
}

absl::StatusOr<Tensor> TensorFromProto(const TensorProto& proto, int64_t* repeated_bytes) {
  MF_ASSIGN_OR_RETURN(const DataType dtype, DataTypeFromProto(proto.dtype()));
  MF_ASSIGN_OR_RETURN(const Shape shape, ShapeFromProto(proto.tensor_shape()));
  MF_RETURN_IF_ERROR(Tensor::CheckType(dtype, shape));
  if (!proto.tensor_content().empty()) {
    return TensorFromContent(dtype, shape, proto.tensor_content());
  }
  return DispatchStoredType(
      dtype,
      [&]<typename T>(TypeTag<T>) {
        return TensorFromList<T>(dtype, shape, proto, repeated_bytes);
      },
      absl::StatusOr<Tensor>(absl::InternalError("no list holds elements of this dtype")));
}

absl::Status AttrValueToProto(const AttrValue& value, proto::AttrValue* proto) {
  return std::visit(
      Overloaded{
          [&](const std::string& v) { return proto->set_s(v), absl::OkStatus(); },
          [&](int64_t v) { return proto->set_i(v), absl::OkStatus(); },
          [&](float v) { return proto->set_f(v), absl::OkStatus(); },
          [&](bool v) { return proto->set_b(v), absl::OkStatus(); },
          [&](DataType v) {
            return proto->set_type(static_cast<proto::DataType>(v)), absl::OkStatus();
          },
          [&](const Shape& v) { return ShapeToProto(v, proto->mutable_shape()), absl::OkStatus(); },
          [&](const Tensor& v) {
            return *proto->mutable_tensor() = TensorToProto(v), absl::OkStatus();
          },
          [&](const FunctionRef& v) { return FunctionToProto(v, proto->mutable_func()); },
          [&](const AttrList& v) { return ListToProto(v, proto->mutable_list()); },
      },
      value.variant());
}

absl::StatusOr<AttrValue> AttrValueFromProto(const proto::AttrValue& proto, int64_t* repeated_bytes,
                                             int depth) {
  if (depth > kMaxDepth) {
    return absl::InvalidArgumentError(absl::StrCat("nesting deeper than ", kMaxDepth));
  }
  switch (proto.value_case()) {
    case proto::AttrValue::kS:
      return AttrValue(proto.s());
    case proto::AttrValue::kI:
      return AttrValue(int64_t{proto.i()});
    case proto::AttrValue::kF:
      return AttrValue(proto.f());
    case proto::AttrValue::kB:
      return AttrValue(proto.b());
    case proto::AttrValue::kType:
      return DataTypeFromProto(proto.type());
    case proto::AttrValue::kShape:
      return ShapeFromProto(proto.shape());
    case proto::AttrValue::kTensor:
      return TensorFromProto(proto.tensor(), repeated_bytes);
    case proto::AttrValue::kList:
      return ListFromProto(proto.list(), repeated_bytes, depth + 1);
    case proto::AttrValue::kFunc:
      return FunctionFromProto(proto.func(), repeated_bytes, depth + 1);
    case proto::AttrValue::kPlaceholder:
      return absl::InvalidArgumentError(absl::StrCat(
          "placeholder '", Printable(proto.placeholder()), "' is used outside a function"));
    case proto::AttrValue::VALUE_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("the value is missing");
}

}  // namespace mirrorflow
