// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/function_library.h"

#include "absl/strings/str_cat.h"

namespace mirrorflow {

absl::Status FunctionLibrary::Add(absl::string_view name, std::string function_def) {
  const auto it = functions_.find(name);
  if (it == functions_.end()) {
    functions_.emplace(std::string(name), std::move(function_def));
  } else if (it->second != function_def) {
    return absl::InvalidArgumentError(
        absl::StrCat("function '", name, "' is defined twice, with different bodies"));
  }
  return absl::OkStatus();
}

const std::string* FunctionLibrary::Find(absl::string_view name) const {
  const auto it = functions_.find(name);
  return it != functions_.end() ? &it->second : nullptr;
}

}  // namespace mirrorflow
