// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/attr_proto.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/core/names.h"
#include "framework/core/overloaded.h"
#include "framework/core/status.h"
#include "framework/graph/tensor_proto.h"

namespace mirrorflow {
namespace {

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

// Reads the fields of a list one after the other; a sane list has only one.
absl::StatusOr<AttrList> ListFromProto(const proto::AttrValue::ListValue& proto,
                                       int64_t* repeated_bytes, int depth) {
  AttrList list;
  list.insert(list.end(), proto.s().begin(), proto.s().end());
  for (int64_t v : proto.i()) list.emplace_back(v);
  list.insert(list.end(), proto.f().begin(), proto.f().end());
  list.insert(list.end(), proto.b().begin(), proto.b().end());
  for (int v : proto.type()) {
    MF_ASSIGN_OR_RETURN(const DataType dtype, DataTypeFromProto(static_cast<proto::DataType>(v)));
    list.emplace_back(dtype);
  }
  for (const auto& v : proto.shape()) {
    MF_ASSIGN_OR_RETURN(Shape shape, ShapeFromProto(v));
    list.emplace_back(std::move(shape));
  }
  for (const auto& v : proto.tensor()) {
    MF_ASSIGN_OR_RETURN(Tensor tensor, TensorFromProto(v, repeated_bytes));
    list.emplace_back(std::move(tensor));
  }
  for (const auto& v : proto.func()) {
    MF_ASSIGN_OR_RETURN(FunctionRef function, FunctionFromProto(v, repeated_bytes, depth));
    list.emplace_back(std::move(function));
  }
  return list;
}

}  // namespace

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
      return absl::InvalidArgumentError(
          absl::StrCat("placeholder '", Printable(proto.placeholder()), "' outside a function"));
    case proto::AttrValue::VALUE_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("the value is missing");
}

}  // namespace mirrorflow
