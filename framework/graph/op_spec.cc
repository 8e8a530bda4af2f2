// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/op_spec.h"

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

absl::Status Malformed(absl::string_view spec, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("schema '", spec, "': ", what));
}

absl::StatusOr<AttrValue> ParseScalar(absl::string_view type, absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  if (type == "int") {
    int64_t v;
    if (absl::SimpleAtoi(text, &v)) return AttrValue(v);
  } else if (type == "float") {
    float v;
    if (absl::SimpleAtof(text, &v)) return AttrValue(v);
  } else if (type == "bool") {
    if (text == "true" || text == "false") return AttrValue(text == "true");
  } else if (type == "string") {
    if (text.size() >= 2 && text.front() == '\'' && text.back() == '\'') {
      return AttrValue(text.substr(1, text.size() - 2));
    }
  } else if (type == "type") {
    MF_ASSIGN_OR_RETURN(const DataType dtype, ParseDataType(text));
    return AttrValue(dtype);
  } else if (type == "shape") {
    if (text == "unknown") return AttrValue(Shape::UnknownRank());
    if (text == "[]") return AttrValue(Shape());
  }
  return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not a value of type ", type));
}

// Returns the parts of a list such as "a, b, c". The empty string has no parts.
std::vector<absl::string_view> SplitList(absl::string_view text) {
  if (absl::StripAsciiWhitespace(text).empty()) return {};
  return absl::StrSplit(text, ',');
}

// Reads `type`, `list(type)` or a set `{…}` / `list({…})` from the front of `rest`.
absl::Status ParseType(absl::string_view* rest, AttrDef* def) {
  const bool is_list = absl::ConsumePrefix(rest, "list(");
  std::string type;
  if (absl::ConsumePrefix(rest, "{")) {
    const size_t end = rest->find('}');
    if (end == absl::string_view::npos) return absl::InvalidArgumentError("'}' is missing");
    const absl::string_view members = rest->substr(0, end);
    type = absl::StrContains(members, '\'') ? "string" : "type";
    for (absl::string_view member : SplitList(members)) {
      MF_ASSIGN_OR_RETURN(def->allowed.emplace_back(), ParseScalar(type, member));
    }
    rest->remove_prefix(end + 1);
  } else {
    size_t end = 0;
    while (end < rest->size() && absl::ascii_isalpha((*rest)[end])) ++end;
    type = std::string(rest->substr(0, end));
    rest->remove_prefix(end);
    static constexpr absl::string_view kTypes[] = {"string", "int",   "float",  "bool",
                                                   "type",   "shape", "tensor", "func"};
    if (!absl::c_linear_search(kTypes, type)) {
      return absl::InvalidArgumentError(absl::StrCat("unknown type '", type, "'"));
    }
  }
  if (is_list && !absl::ConsumePrefix(rest, ")")) {
    return absl::InvalidArgumentError("')' is missing");
  }
  def->type = is_list ? absl::StrCat("list(", type, ")") : type;
  return absl::OkStatus();
}

absl::Status ParseDefault(absl::string_view text, AttrDef* def) {
  text = absl::StripAsciiWhitespace(text);
  absl::string_view element = def->type;
  if (!absl::ConsumePrefix(&element, "list(")) {
    MF_ASSIGN_OR_RETURN(def->default_value, ParseScalar(def->type, text));
    return absl::OkStatus();
  }
  absl::ConsumeSuffix(&element, ")");
  if (!absl::ConsumePrefix(&text, "[") || !absl::ConsumeSuffix(&text, "]")) {
    return absl::InvalidArgumentError("the default of a list must be in [ ]");
  }
  AttrList list;
  for (absl::string_view item : SplitList(text)) {
    MF_ASSIGN_OR_RETURN(list.emplace_back(), ParseScalar(element, item));
  }
  def->default_value = AttrValue(std::move(list));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ArgDef> ParseArgSpec(absl::string_view spec) {
  const std::vector<absl::string_view> sides = absl::StrSplit(spec, absl::MaxSplits(':', 1));
  if (sides.size() != 2) return Malformed(spec, "expected 'name: type'");
  ArgDef arg;
  arg.name = std::string(absl::StripAsciiWhitespace(sides[0]));
  absl::string_view type = absl::StripAsciiWhitespace(sides[1]);
  const size_t star = type.find('*');
  if (star != absl::string_view::npos) {
    arg.number_attr = std::string(absl::StripAsciiWhitespace(type.substr(0, star)));
    type = absl::StripAsciiWhitespace(type.substr(star + 1));
  }
  if (arg.name.empty() || type.empty()) return Malformed(spec, "expected 'name: type'");
  // Dtypes are lower case; attribute names start with a capital letter.
  const absl::StatusOr<DataType> dtype = ParseDataType(type);
  if (dtype.ok()) {
    arg.dtype = *dtype;
  } else {
    arg.type_attr = std::string(type);  // OpBuilder determines whether it is a list(type)
  }
  return arg;
}

absl::StatusOr<AttrDef> ParseAttrSpec(absl::string_view spec) {
  const std::vector<absl::string_view> sides = absl::StrSplit(spec, absl::MaxSplits(':', 1));
  if (sides.size() != 2) return Malformed(spec, "expected 'name: type'");
  AttrDef def;
  def.name = std::string(absl::StripAsciiWhitespace(sides[0]));
  absl::string_view rest = absl::StripAsciiWhitespace(sides[1]);
  absl::Status status = ParseType(&rest, &def);
  if (!status.ok()) return Malformed(spec, status.message());
  rest = absl::StripAsciiWhitespace(rest);
  if (absl::ConsumePrefix(&rest, ">=")) {
    const size_t equals = rest.find('=');
    int64_t minimum;
    if (!absl::SimpleAtoi(absl::StripAsciiWhitespace(rest.substr(0, equals)), &minimum)) {
      return Malformed(spec, "expected an integer after '>='");
    }
    def.minimum = minimum;
    rest = equals == absl::string_view::npos ? "" : rest.substr(equals);
  }
  if (absl::ConsumePrefix(&rest, "=")) {
    status = ParseDefault(rest, &def);
    if (!status.ok()) return Malformed(spec, status.message());
    rest = "";
  }
  if (!rest.empty()) return Malformed(spec, absl::StrCat("unexpected '", rest, "'"));
  return def;
}

}  // namespace mirrorflow
