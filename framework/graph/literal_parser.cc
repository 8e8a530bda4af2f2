// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/literal_parser.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "absl/base/casts.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "framework/core/names.h"
#include "framework/core/status.h"
#include "framework/graph/tensor_elements.h"

namespace mirrorflow {
namespace {

constexpr int kMaxDepth = 50;

bool IsNumberChar(char c) {
  return absl::ascii_isalnum(c) || c == '.' || c == '+' || c == '-' || c == '_';
}

bool IsDigits(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

// Parses nan, -nan, or nan(0x…) with all bits.
template <typename T>
bool ParseNan(absl::string_view text, T* value) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  Bits bits = absl::bit_cast<Bits>(std::numeric_limits<T>::quiet_NaN());
  if (text == "-nan") {
    bits |= Bits{1} << (8 * sizeof(T) - 1);
  } else if (absl::ConsumePrefix(&text, "nan(0x") && absl::ConsumeSuffix(&text, ")")) {
    if (!absl::SimpleHexAtoi(text, &bits)) return false;
  } else if (text != "nan") {
    return false;
  }
  *value = absl::bit_cast<T>(bits);
  return std::isnan(*value);
}

// Parses one element of a tensor or one number, only in the notation that the text form writes: no
// spaces, no `+`, no hexadecimal digits, no value out of range.
template <typename T>
bool ParseNumber(absl::string_view text, T* value) {
  absl::string_view magnitude = text;
  const bool negative = absl::ConsumePrefix(&magnitude, "-");
  if constexpr (std::is_same_v<T, bool>) {
    *value = text == "true";
    return text == "true" || text == "false";
  } else if constexpr (std::is_floating_point_v<T>) {
    if (magnitude == "inf") {
      *value = negative ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::infinity();
      return true;
    }
    if (absl::StartsWith(magnitude, "nan")) return ParseNan(text, value);
    // SimpleAtof alone would accept `+1`, `infinity` and hexadecimal digits.
    if (magnitude.empty() || !absl::ascii_isdigit(magnitude[0])) return false;
    if (magnitude.find_first_of("xX") != absl::string_view::npos) return false;
    if constexpr (sizeof(T) == 4) {
      return absl::SimpleAtof(text, value) && std::isfinite(*value);
    } else {
      return absl::SimpleAtod(text, value) && std::isfinite(*value);
    }
  } else {
    using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
    Wide wide;
    if (!IsDigits(magnitude) || !absl::SimpleAtoi(text, &wide)) return false;
    *value = static_cast<T>(wide);
    return *value == wide;
  }
}

// Returns the name that errors use for the numbers in a tensor.
absl::string_view NumberName(DataType dtype) {
  return dtype == DT_HALF || dtype == DT_BFLOAT16 ? "the bits as an integer" : DataTypeName(dtype);
}

}  // namespace

absl::Status LiteralParser::ErrorAt(size_t position, absl::string_view what) const {
  const absl::string_view before = text_.substr(0, position);
  const size_t newline = before.rfind('\n');
  const size_t column = newline == absl::string_view::npos ? position : position - newline - 1;
  return absl::InvalidArgumentError(
      absl::StrCat("line ", line_ + std::count(before.begin(), before.end(), '\n'), ", column ",
                   column + 1, ": ", what));
}

absl::Status LiteralParser::Expected(absl::string_view what) {
  std::string found = "the end";
  if (!AtEnd()) {
    const size_t start = position_;
    size_t end = start;
    while (end < text_.size() && IsNumberChar(text_[end])) ++end;
    found =
        absl::StrCat("'", Printable(text_.substr(start, std::max<size_t>(end - start, 1))), "'");
  }
  return ErrorAt(position_, absl::StrCat("expected ", what, ", got ", found));
}

bool LiteralParser::AtEnd() {
  while (position_ < text_.size() && absl::ascii_isspace(text_[position_])) ++position_;
  return position_ == text_.size();
}

bool LiteralParser::NextIs(char c) { return !AtEnd() && text_[position_] == c; }

bool LiteralParser::Consume(char c) {
  if (!NextIs(c)) return false;
  ++position_;
  return true;
}

absl::Status LiteralParser::Expect(char c) {
  if (Consume(c)) return absl::OkStatus();
  return Expected(absl::StrCat("'", absl::string_view(&c, 1), "'"));
}

absl::string_view LiteralParser::Take(bool (*accept)(char)) {
  const size_t start = position_;
  while (position_ < text_.size() && accept(text_[position_])) ++position_;
  return text_.substr(start, position_ - start);
}

absl::StatusOr<std::string> LiteralParser::Word(absl::string_view what) {
  if (AtEnd() || !IsWordChar(text_[position_])) return Expected(what);
  return std::string(Take(IsWordChar));
}

absl::StatusOr<std::string> LiteralParser::Input() {
  const auto accept = [](char c) { return IsWordChar(c) || c == ':' || c == '^'; };
  if (AtEnd() || !accept(text_[position_])) return Expected("an input");
  return std::string(Take(accept));
}

absl::StatusOr<std::string> LiteralParser::QuotedString() {
  MF_RETURN_IF_ERROR(Expect('"'));
  const size_t start = position_;
  while (position_ < text_.size() && text_[position_] != '"') {
    position_ += text_[position_] == '\\' ? 2 : 1;
  }
  if (position_ >= text_.size())
    return ErrorAt(start - 1, "expected '\"' at the end of the string");
  std::string value, error;
  if (!absl::CUnescape(text_.substr(start, position_ - start), &value, &error)) {
    return ErrorAt(start, absl::StrCat("expected C escapes in the string; ", Printable(error)));
  }
  ++position_;
  return value;
}

absl::StatusOr<AttrValue> LiteralParser::Value() {
  if (AtEnd()) return Expected("a value");
  if (depth_ == kMaxDepth) {
    return ErrorAt(position_, absl::StrCat("nesting deeper than ", kMaxDepth));
  }
  ++depth_;
  const char c = text_[position_];
  const auto parse = [&]() -> absl::StatusOr<AttrValue> {
    if (c == '"') return QuotedString();
    if (c == '[') return List();
    if (c == '<') return ShapeLiteral();
    if (c == '@') return Function();
    if (c == '-' || absl::ascii_isdigit(c)) return Number();
    if (absl::ascii_isalpha(c)) return WordValue();
    return Expected("a value");
  };
  absl::StatusOr<AttrValue> value = parse();
  --depth_;
  return value;
}

absl::string_view LiteralParser::NumberToken() {
  const size_t start = position_;
  if (Take(IsNumberChar) == "nan" && position_ < text_.size() && text_[position_] == '(') {
    position_ = std::min(text_.find(')', position_), text_.size() - 1) + 1;
  }
  return text_.substr(start, position_ - start);
}

absl::StatusOr<AttrValue> LiteralParser::Number() {
  const size_t start = position_;
  const absl::string_view token = NumberToken();
  int64_t integer;
  if (ParseNumber(token, &integer)) return AttrValue(integer);
  float number;
  // An out-of-range integer must not become a float.
  if (!IsDigits(absl::StripPrefix(token, "-")) && ParseNumber(token, &number)) {
    return AttrValue(number);
  }
  return ErrorAt(start, absl::StrCat("expected an int or a float, got '", Printable(token), "'"));
}

// Parses true, false, nan, inf, a dtype, or a tensor, which begins with its dtype.
absl::StatusOr<AttrValue> LiteralParser::WordValue() {
  const size_t start = position_;
  const absl::string_view word = Take(IsWordChar);
  if (word == "true" || word == "false") return AttrValue(word == "true");
  if (word == "nan" || word == "inf") {
    position_ = start;
    return Number();
  }
  if (word != DataTypeName(DT_INVALID) && !ParseDataType(word).ok()) {
    position_ = start;
    return Expected("a value");
  }
  if (NextIs('<')) {
    position_ = start;
    return TensorLiteral();
  }
  return AttrValue(ParseDataType(word).value_or(DT_INVALID));
}

absl::StatusOr<AttrList> LiteralParser::List() {
  MF_RETURN_IF_ERROR(Expect('['));
  AttrList list;
  if (Consume(']')) return list;
  do {
    MF_ASSIGN_OR_RETURN(list.emplace_back(), Value());
  } while (Consume(','));
  if (!Consume(']')) return Expected("',' or ']'");
  return list;
}

absl::StatusOr<std::string> LiteralParser::FunctionName() {
  if (position_ < text_.size() && text_[position_] == '"') return QuotedString();
  return std::string(Take(IsWordChar));
}

absl::StatusOr<FunctionRef> LiteralParser::Function() {
  MF_RETURN_IF_ERROR(Expect('@'));
  FunctionRef function;
  MF_ASSIGN_OR_RETURN(function.name, FunctionName());
  if (NextIs('{')) {
    MF_ASSIGN_OR_RETURN(function.attrs, Attrs());
  }
  return function;
}

absl::StatusOr<AttrMap> LiteralParser::Attrs() {
  MF_RETURN_IF_ERROR(Expect('{'));
  AttrMap attrs;
  if (Consume('}')) return attrs;
  do {
    const bool quoted = NextIs('"');
    const size_t start = position_;
    MF_ASSIGN_OR_RETURN(std::string name, quoted ? QuotedString() : Word("an attribute name"));
    MF_RETURN_IF_ERROR(Expect('='));
    MF_ASSIGN_OR_RETURN(AttrValue value, Value());
    if (!attrs.emplace(name, std::move(value)).second) {
      return ErrorAt(start, absl::StrCat("attribute '", Printable(name), "' is given twice"));
    }
  } while (Consume(','));
  if (!Consume('}')) return Expected("',' or '}'");
  return attrs;
}

absl::StatusOr<Shape> LiteralParser::ShapeLiteral() {
  AtEnd();
  const size_t start = position_;
  MF_RETURN_IF_ERROR(Expect('<'));
  if (Consume('>')) return Shape();
  if (Consume('*')) {
    MF_RETURN_IF_ERROR(Expect('>'));
    return Shape::UnknownRank();
  }
  Shape shape;
  do {
    AtEnd();
    int64_t dim = kUnknownDim;
    const absl::string_view token = Take([](char c) { return absl::ascii_isdigit(c); });
    if (!ParseNumber(token, &dim) && !(token.empty() && Consume('?'))) {
      position_ -= token.size();
      return Expected("a dimension or '?'");
    }
    shape.AddDim(dim);
  } while (Consume(','));
  if (!Consume('>')) return Expected("',' or '>'");
  const absl::Status status = shape.Validate(DT_UINT8);
  if (!status.ok()) return ErrorAt(start, status.message());
  return shape;
}

absl::StatusOr<Tensor> LiteralParser::TensorLiteral() {
  AtEnd();
  const size_t start = position_;
  MF_ASSIGN_OR_RETURN(const std::string word, Word("a dtype"));
  const bool no_value = word == DataTypeName(DT_INVALID);
  const absl::StatusOr<DataType> dtype = ParseDataType(word);
  if (!dtype.ok() && !no_value) {
    return ErrorAt(start, absl::StrCat("expected a dtype, got '", Printable(word), "'"));
  }
  MF_ASSIGN_OR_RETURN(const Shape shape, ShapeLiteral());
  if (no_value) {
    MF_RETURN_IF_ERROR(Expect('{'));
    MF_RETURN_IF_ERROR(Expect('}'));
    return Tensor();
  }
  // The shape may be arbitrarily large, because memory is allocated only for the elements that are
  // present.
  const absl::Status status = shape.Validate(*dtype);
  if (!status.ok()) return ErrorAt(start, status.message());
  if (!shape.IsFullyDefined()) return ErrorAt(start, "the shape of a tensor must be known");
  return Elements(*dtype, shape);
}

absl::StatusOr<Tensor> LiteralParser::Elements(DataType dtype, const Shape& shape) {
  return DispatchStoredType(
      dtype, [&]<typename T>(TypeTag<T>) { return ElementsAs<T>(dtype, shape); },
      absl::StatusOr<Tensor>(
          ErrorAt(position_,
                  absl::StrCat("a tensor cannot hold elements of dtype ", DataTypeName(dtype)))));
}

template <typename T>
absl::StatusOr<Tensor> LiteralParser::ElementsAs(DataType dtype, const Shape& shape) {
  AtEnd();
  const size_t start = position_;
  MF_RETURN_IF_ERROR(Expect('{'));
  std::vector<T> numbers;
  if (!NextIs('}')) {
    do {
      AtEnd();
      const size_t at = position_;
      T number;
      if (!ParseNumber(NumberToken(), &number)) {
        position_ = at;
        return Expected(NumberName(dtype));
      }
      numbers.push_back(number);
    } while (Consume(','));
  }
  if (!Consume('}')) return Expected("',' or '}'");
  const size_t expected = shape.num_elements() * NumbersPerElement(dtype);
  if (numbers.size() != expected) {
    return ErrorAt(start, absl::StrCat("wrong number of elements; expected ", expected,
                                       " for shape ", shape.ToString(), ", got ", numbers.size()));
  }
  MF_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(dtype, shape));
  std::copy(numbers.begin(), numbers.end(), StoredNumbers<T>(tensor).begin());
  return tensor;
}

}  // namespace mirrorflow
