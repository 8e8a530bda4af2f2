// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/attr_value.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <type_traits>

#include "absl/base/casts.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/overloaded.h"
#include "framework/graph/tensor_elements.h"

namespace mirrorflow {
namespace {

// NaNs differ in sign and payload; only the two common ones have short names.
template <typename T>
std::string NanToString(T v) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  const auto bits = absl::bit_cast<Bits>(v);
  const auto quiet = absl::bit_cast<Bits>(std::numeric_limits<T>::quiet_NaN());
  if (bits == quiet) return "nan";
  if (bits == (quiet | Bits{1} << (8 * sizeof(T) - 1))) return "-nan";
  return absl::StrCat("nan(0x", absl::Hex(bits), ")");
}

template <typename T>
std::string FloatingToString(T v) {
  if (std::isnan(v)) return NanToString(v);
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
    return absl::StrCat(+v);  // promotes 8-bit types, which must print as numbers
  }
}

// Returns the name, quoted unless it parses as one word of the text form.
std::string NameToText(absl::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), IsWordChar)
             ? std::string(name)
             : absl::StrCat("\"", absl::CHexEscape(name), "\"");
}

}  // namespace

bool IsWordChar(char c) {
  return absl::ascii_isalnum(c) || c == '_' || c == '.' || c == '/' || c == '>' || c == '-';
}

std::string FloatToString(float v) { return FloatingToString(v); }
std::string FloatToString(double v) { return FloatingToString(v); }

AttrValue::AttrValue() = default;
AttrValue::AttrValue(const AttrValue& other) = default;
AttrValue::AttrValue(AttrValue&& other) noexcept = default;
AttrValue& AttrValue::operator=(const AttrValue& other) = default;
AttrValue& AttrValue::operator=(AttrValue&& other) noexcept = default;
AttrValue::~AttrValue() = default;

std::string AttrValue::TypeName() const {
  constexpr const char* kNames[] = {"string", "int",    "float", "bool", "type",
                                    "shape",  "tensor", "func",  "list"};
  static_assert(std::size(kNames) == std::variant_size_v<Variant>);
  const AttrList* const list = get_if<AttrList>();
  if (list == nullptr || list->empty()) return kNames[value_.index()];
  return absl::StrCat("list(", (*list)[0].TypeName(), ")");
}

std::string AttrValue::ToString(int64_t max_elements) const {
  return std::visit(
      Overloaded{
          [](const std::string& v) { return absl::StrCat("\"", absl::CHexEscape(v), "\""); },
          [](int64_t v) { return absl::StrCat(v); },
          [](float v) { return FloatingToString(v); },
          [](bool v) -> std::string { return v ? "true" : "false"; },
          [](DataType v) { return std::string(DataTypeName(v)); },
          [](const Shape& v) { return ShapeToText(v); },
          [&](const Tensor& v) { return TensorToString(v, max_elements); },
          [&](const FunctionRef& v) {
            return absl::StrCat("@", NameToText(v.name), AttrMapToString(v.attrs, max_elements));
          },
          [&](const AttrList& v) {
            return absl::StrCat("[",
                                absl::StrJoin(v, ", ",
                                              [&](std::string* out, const AttrValue& item) {
                                                out->append(item.ToString(max_elements));
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
                        [&](float v) {  // compares bits: a NaN equals itself, and -0 differs from 0
                          return std::bit_cast<uint32_t>(v) ==
                                 std::bit_cast<uint32_t>(b.get<float>());
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
  DispatchStoredType(
      tensor.dtype(),
      [&]<typename T>(TypeTag<T>) {
        const absl::Span<const T> numbers = StoredNumbers<T>(tensor);
        const size_t shown =
            max_elements < 0 ? numbers.size()
                             : std::min<size_t>(numbers.size(),
                                                max_elements * NumbersPerElement(tensor.dtype()));
        for (size_t i = 0; i < shown; ++i) {
          if (i > 0) out += ", ";
          out += ElementToString(numbers[i]);
        }
        if (shown < numbers.size()) out += shown > 0 ? ", …" : "…";
        return true;
      },
      false);
  return out + "}";
}

std::string AttrMapToString(const AttrMap& attrs, int64_t max_elements) {
  if (attrs.empty()) return "";
  return absl::StrCat("{",
                      absl::StrJoin(attrs, ", ",
                                    [&](std::string* out, const auto& entry) {
                                      absl::StrAppend(out, NameToText(entry.first), "=",
                                                      entry.second.ToString(max_elements));
                                    }),
                      "}");
}

}  // namespace mirrorflow
