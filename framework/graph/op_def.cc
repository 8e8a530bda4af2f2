// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/op_def.h"

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

// The limit for counts in files; no sane graph has an argument list this long.
constexpr int64_t kMaxArgCount = 1 << 20;

absl::Status CheckAllowed(const AttrDef& def, const AttrValue& value) {
  if (def.allowed.empty()) return absl::OkStatus();
  if (const AttrList* list = value.get_if<AttrList>()) {
    for (const AttrValue& item : *list) MF_RETURN_IF_ERROR(CheckAllowed(def, item));
    return absl::OkStatus();
  }
  if (absl::c_linear_search(def.allowed, value)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("attribute '", def.name, "' must be one of ",
                                                 AttrValue(def.allowed).ToString(), ", got ",
                                                 value.ToString()));
}

absl::Status CheckAttr(const AttrDef& def, const AttrValue& value) {
  const std::string type = value.TypeName();
  const bool empty_list = type == "list" && absl::StartsWith(def.type, "list(");
  if (type != def.type && !empty_list) {
    return absl::InvalidArgumentError(
        absl::StrCat("attribute '", def.name, "' must be of type ", def.type, ", got ", type));
  }
  if (const AttrList* list = value.get_if<AttrList>()) {
    for (const AttrValue& item : *list) {
      if (item.TypeName() != (*list)[0].TypeName()) {
        return absl::InvalidArgumentError(
            absl::StrCat("attribute '", def.name, "' must be ", def.type, ", got mixed types"));
      }
    }
  }
  if (def.minimum.has_value()) {
    const AttrList* list = value.get_if<AttrList>();
    const int64_t measured =
        list != nullptr ? static_cast<int64_t>(list->size()) : value.get<int64_t>();
    if (measured < *def.minimum) {
      return absl::InvalidArgumentError(
          absl::StrCat(list != nullptr ? "length of attribute '" : "attribute '", def.name,
                       "' must be at least ", *def.minimum, ", got ", measured));
    }
  }
  return CheckAllowed(def, value);
}

}  // namespace

const AttrDef* OpDef::FindAttr(absl::string_view attr_name) const {
  for (const AttrDef& attr : attrs) {
    if (attr.name == attr_name) return &attr;
  }
  return nullptr;
}

absl::Status CompleteAttrs(const OpDef& op, AttrMap* attrs) {
  size_t declared = 0;
  for (const AttrDef& def : op.attrs) {
    auto it = attrs->find(def.name);
    ++declared;
    if (it != attrs->end()) {
      MF_RETURN_IF_ERROR(CheckAttr(def, it->second));
    } else if (def.default_value.has_value()) {
      attrs->emplace(def.name, *def.default_value);
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("attribute '", def.name, "' (", def.type, ") is missing"));
    }
  }
  if (attrs->size() == declared) return absl::OkStatus();
  if (op.role == OpRole::kUnknown) return absl::OkStatus();  // an unknown op may have any attribute
  for (const auto& [name, value] : *attrs) {
    if (!absl::StartsWith(name, "_") && op.FindAttr(name) == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("op ", op.name, " has no attribute '", name, "'"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> ArgCount(const ArgDef& arg, const AttrMap& attrs) {
  if (!arg.number_attr.empty()) {
    const auto it = attrs.find(arg.number_attr);
    const int64_t* n = it != attrs.end() ? it->second.get_if<int64_t>() : nullptr;
    if (n == nullptr || *n < 0 || *n > kMaxArgCount) {
      return absl::InvalidArgumentError(absl::StrCat("attribute '", arg.number_attr,
                                                     "' must be a count of at most ", kMaxArgCount,
                                                     " tensors"));
    }
    return *n;
  }
  if (!arg.type_list_attr.empty()) {
    const auto it = attrs.find(arg.type_list_attr);
    const AttrList* list = it != attrs.end() ? it->second.get_if<AttrList>() : nullptr;
    if (list == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("attribute '", arg.type_list_attr, "' (list(type)) is missing"));
    }
    return static_cast<int64_t>(list->size());
  }
  return 1;
}

absl::StatusOr<DataTypes> ArgDataTypes(absl::Span<const ArgDef> args, const AttrMap& attrs) {
  DataTypes dtypes;
  for (const ArgDef& arg : args) {
    MF_ASSIGN_OR_RETURN(const int64_t count, ArgCount(arg, attrs));
    if (!arg.type_list_attr.empty()) {
      for (const AttrValue& item : attrs.find(arg.type_list_attr)->second.get<AttrList>()) {
        dtypes.push_back(item.get<DataType>());
      }
      continue;
    }
    DataType dtype = arg.dtype;
    if (!arg.type_attr.empty()) {
      const auto it = attrs.find(arg.type_attr);
      const DataType* value = it != attrs.end() ? it->second.get_if<DataType>() : nullptr;
      if (value == nullptr) {
        return absl::InvalidArgumentError(
            absl::StrCat("attribute '", arg.type_attr, "' (type) is missing"));
      }
      dtype = *value;
    }
    dtypes.insert(dtypes.end(), count, dtype);
  }
  return dtypes;
}

absl::StatusOr<ArgRange> FindArg(absl::Span<const ArgDef> args, const AttrMap& attrs,
                                 absl::string_view name) {
  int64_t first = 0;
  for (const ArgDef& arg : args) {
    MF_ASSIGN_OR_RETURN(const int64_t count, ArgCount(arg, attrs));
    if (arg.name == name) return ArgRange{static_cast<int>(first), static_cast<int>(first + count)};
    first += count;
  }
  return absl::NotFoundError(absl::StrCat("no argument '", name, "'"));
}

}  // namespace mirrorflow
