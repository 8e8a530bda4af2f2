// SPDX-License-Identifier: Apache-2.0
//
// AttrValue: the value of one node attribute. Comparison and printing are generic, so an op cannot
// omit an attribute from either.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_ATTR_VALUE_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_ATTR_VALUE_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/core/dtype.h"
#include "framework/core/shape.h"
#include "framework/core/tensor.h"

namespace mirrorflow {

class AttrValue;
using AttrList = std::vector<AttrValue>;
// Sorted by name, so that iteration and printing are deterministic.
using AttrMap = std::map<std::string, AttrValue, std::less<>>;

// A reference to a function in the graph's library, with the call's attributes.
struct FunctionRef {
  std::string name;
  AttrMap attrs;
};

class AttrValue {
 public:
  using Variant = std::variant<std::string, int64_t, float, bool, DataType, Shape, Tensor,
                               FunctionRef, AttrList>;

  // Defined in the .cc, so that other files need not instantiate Variant's.
  AttrValue();  // ""
  AttrValue(const AttrValue& other);
  AttrValue(AttrValue&& other) noexcept;
  AttrValue& operator=(const AttrValue& other);
  AttrValue& operator=(AttrValue&& other) noexcept;
  ~AttrValue();
  AttrValue(std::string v) : value_(std::move(v)) {}
  AttrValue(const char* v) : value_(std::string(v)) {}
  AttrValue(absl::string_view v) : value_(std::string(v)) {}
  AttrValue(int v) : value_(int64_t{v}) {}
  AttrValue(int64_t v) : value_(v) {}
  AttrValue(float v) : value_(v) {}
  AttrValue(bool v) : value_(v) {}
  AttrValue(DataType v) : value_(v) {}
  AttrValue(Shape v) : value_(std::move(v)) {}
  AttrValue(Tensor v) : value_(std::move(v)) {}
  AttrValue(FunctionRef v) : value_(std::move(v)) {}
  AttrValue(AttrList v) : value_(std::move(v)) {}
  // Returns a list(int), list(type), list(shape), … from C++ values.
  template <typename T>
  static AttrValue List(absl::Span<const T> values) {
    return AttrValue(AttrList(values.begin(), values.end()));
  }

  template <typename T>
  const T* get_if() const {
    return std::get_if<T>(&value_);
  }
  // Returns the value, which must have this type. The schema guarantees the type for a node in a
  // graph.
  template <typename T>
  const T& get() const {
    return std::get<T>(value_);
  }
  const Variant& variant() const { return value_; }

  // Returns the schema's name for this value's type, such as "int" or "list(type)", or "list" for
  // an empty list.
  std::string TypeName() const;

  // Returns the text form: `3`, `0.5`, `true`, `"SAME"`, `float`, `<2,?>`, `int32<2>{1, 2}`, `@fn`,
  // `[1, 2]`. Distinct values print differently and the text parses back to the same bits, unless
  // `max_elements` >= 0 truncates a longer tensor.
  std::string ToString(int64_t max_elements = -1) const;

  // Compares floats and tensors by their bits.
  friend bool operator==(const AttrValue& a, const AttrValue& b);

 private:
  Variant value_;
};

// Returns a tensor in the text form, `float<2,2>{1.0, 2.0, 3.0, 4.0}`. A complex element prints as
// two numbers; half and bfloat16 elements print as their bits. `max_elements` >= 0 truncates a
// longer tensor, and truncated text cannot be parsed.
std::string TensorToString(const Tensor& tensor, int64_t max_elements = -1);
// Returns text such as `{T=float, transpose_a=true}`, or an empty string for an empty map.
std::string AttrMapToString(const AttrMap& attrs, int64_t max_elements = -1);
// Returns true for the characters of node names and of unquoted names in the text form.
bool IsWordChar(char c);
// Returns the shortest text that parses back to the same number and cannot be mistaken for an
// integer.
std::string FloatToString(float v);
std::string FloatToString(double v);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_ATTR_VALUE_H_
