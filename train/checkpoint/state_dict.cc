// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint/state_dict.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/core/names.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

absl::Status WrongType(absl::string_view name, absl::string_view expected, absl::string_view got) {
  return absl::InvalidArgumentError(absl::StrCat("state '", Printable(name), "': expected ",
                                                 expected, ", got '", Printable(got), "'"));
}

absl::Status Missing(absl::string_view name) {
  return absl::NotFoundError(absl::StrCat("state '", Printable(name), "': missing"));
}

template <typename Map>
void CopyWithPrefix(const Map& from, absl::string_view prefix, Map* to) {
  for (auto it = from.lower_bound(std::string(prefix));
       it != from.end() && absl::StartsWith(it->first, prefix); ++it) {
    to->emplace(it->first.substr(prefix.size()), it->second);
  }
}

}  // namespace

// Writes 17 digits, which identify every double uniquely.
void StateDict::SetNumber(absl::string_view name, double value) {
  values_[std::string(name)] = absl::StrFormat("%.17g", value);
}

void StateDict::SetInteger(absl::string_view name, int64_t value) {
  values_[std::string(name)] = absl::StrCat(value);
}

void StateDict::Set(absl::string_view name, absl::string_view text) {
  values_[std::string(name)] = absl::CEscape(text);
}

void StateDict::Set(absl::string_view name, Tensor value) {
  tensors_[std::string(name)] = std::move(value);
}

bool StateDict::Has(absl::string_view name) const {
  return values_.contains(std::string(name)) || tensors_.contains(std::string(name));
}

absl::StatusOr<std::string> StateDict::Find(absl::string_view name) const {
  const auto it = values_.find(std::string(name));
  if (it == values_.end()) return Missing(name);
  return it->second;
}

absl::Status StateDict::Get(absl::string_view name, double* value) const {
  MF_ASSIGN_OR_RETURN(const std::string text, Find(name));
  double parsed;
  if (!absl::SimpleAtod(text, &parsed)) return WrongType(name, "a number", text);
  *value = parsed;
  return absl::OkStatus();
}

absl::Status StateDict::Get(absl::string_view name, int64_t* value) const {
  MF_ASSIGN_OR_RETURN(const std::string text, Find(name));
  int64_t parsed;
  if (!absl::SimpleAtoi(text, &parsed)) return WrongType(name, "an integer", text);
  *value = parsed;
  return absl::OkStatus();
}

absl::Status StateDict::Get(absl::string_view name, bool* value) const {
  int64_t number = 0;
  MF_RETURN_IF_ERROR(Get(name, &number));
  *value = number != 0;
  return absl::OkStatus();
}

absl::Status StateDict::Get(absl::string_view name, std::string* text) const {
  MF_ASSIGN_OR_RETURN(const std::string escaped, Find(name));
  std::string parsed;
  if (!absl::CUnescape(escaped, &parsed)) return WrongType(name, "a text", escaped);
  *text = std::move(parsed);
  return absl::OkStatus();
}

absl::Status StateDict::Get(absl::string_view name, Tensor* value) const {
  const auto it = tensors_.find(std::string(name));
  if (it == tensors_.end()) return Missing(name);
  *value = it->second;
  return absl::OkStatus();
}

void StateDict::Merge(absl::string_view prefix, const StateDict& other) {
  for (const auto& [name, value] : other.values_) values_[absl::StrCat(prefix, name)] = value;
  for (const auto& [name, value] : other.tensors_) tensors_[absl::StrCat(prefix, name)] = value;
}

StateDict StateDict::WithPrefix(absl::string_view prefix) const {
  StateDict result;
  CopyWithPrefix(values_, prefix, &result.values_);
  CopyWithPrefix(tensors_, prefix, &result.tensors_);
  return result;
}

}  // namespace mirrorflow
