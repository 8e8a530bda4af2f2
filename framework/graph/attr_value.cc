// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/attr_value.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mirrorflow {
namespace {

template <typename... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <typename... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

template <typename T>
std::string FloatingToString(T v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
  char buffer[64];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, v);
  std::string text(buffer, result.ptr);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string ShapeToText(const Shape& shape) {
  std::string text = shape.ToString();  // [2,?] -> <2,?>
  text.front() = '<';
  text.back() = '>';
  return text;
}

template <typename T>
std::string ElementToString(T v) {
  if constexpr (std::is_same_v<T, bool>) {
    return v ? "true" : "false";
  } else if constexpr (std::is_floating_point_v<T>) {
    return FloatingToString(v);
  } else {
    return absl::StrCat(v);
  }
}

}  // namespace

std::string FloatToString(float v) { return FloatingToString(v); }
std::string FloatToString(double v) { return FloatingToString(v); }

std::string AttrValue::TypeName() const {
  return std::visit(Overloaded{
                        [](const std::string&) -> std::string { return "string"; },
                        [](int64_t) -> std::string { return "int"; },
                        [](float) -> std::string { return "float"; },
                        [](bool) -> std::string { return "bool"; },
                        [](DataType) -> std::string { return "type"; },
                        [](const Shape&) -> std::string { return "shape"; },
                        [](const Tensor&) -> std::string { return "tensor"; },
                        [](const FunctionRef&) -> std::string { return "func"; },
                        [](const AttrList& list) -> std::string {
                          return list.empty() ? "list"
                                              : absl::StrCat("list(", list[0].TypeName(), ")");
                        },
                    },
                    value_);
}

std::string AttrValue::ToString() const {
  return std::visit(
      Overloaded{
          [](const std::string& v) { return absl::StrCat("\"", absl::CHexEscape(v), "\""); },
          [](int64_t v) { return absl::StrCat(v); },
          [](float v) { return FloatingToString(v); },
          [](bool v) -> std::string { return v ? "true" : "false"; },
          [](DataType v) { return std::string(DataTypeName(v)); },
          [](const Shape& v) { return ShapeToText(v); },
          [](const Tensor& v) { return TensorToString(v); },
          [](const FunctionRef& v) { return absl::StrCat("@", v.name, AttrMapToString(v.attrs)); },
          [](const AttrList& v) {
            return absl::StrCat("[",
                                absl::StrJoin(v, ", ",
                                              [](std::string* out, const AttrValue& item) {
                                                out->append(item.ToString());
                                              }),
                                "]");
          },
      },
      value_);
}

bool operator==(const AttrValue& a, const AttrValue& b) {
  if (a.value_.index() != b.value_.index()) return false;
  return std::visit(Overloaded{
                        [&](const Tensor& v) { return Tensor::Identical(v, b.get<Tensor>()); },
                        [&](float v) {
                          const float w = b.get<float>();
                          return std::memcmp(&v, &w, sizeof v) == 0;
                        },
                        [&](const FunctionRef& v) {
                          const FunctionRef& w = b.get<FunctionRef>();
                          return v.name == w.name && v.attrs == w.attrs;
                        },
                        [&](const auto& v) { return v == b.get<std::decay_t<decltype(v)>>(); },
                    },
                    a.value_);
}

std::string TensorToString(const Tensor& tensor, int64_t max_elements) {
  std::string out = absl::StrCat(DataTypeName(tensor.dtype()), ShapeToText(tensor.shape()), "{");
  DispatchDataType(
      tensor.dtype(),
      [&](auto tag) {
        using T = typename decltype(tag)::type;
        const int64_t n = tensor.num_elements();
        const int64_t shown = max_elements < 0 ? n : std::min(n, max_elements);
        for (int64_t i = 0; i < shown; ++i) {
          if (i > 0) out += ", ";
          out += ElementToString(tensor.data<T>()[i]);
        }
        if (shown < n) out += ", …";
        return true;
      },
      false);
  return out + "}";
}

std::string AttrMapToString(const AttrMap& attrs) {
  if (attrs.empty()) return "";
  return absl::StrCat("{",
                      absl::StrJoin(attrs, ", ",
                                    [](std::string* out, const auto& entry) {
                                      absl::StrAppend(out, entry.first, "=",
                                                      entry.second.ToString());
                                    }),
                      "}");
}

}  // namespace mirrorflow
