// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/join_options.h"

#include <cstddef>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/names.h"

namespace mirrorflow {
namespace {

constexpr const char* kNames[] = {"auto", "shared_memory", "ucx", "tcp"};  // by value

}  // namespace

absl::StatusOr<CollectiveKind> ParseCollectiveKind(absl::string_view name) {
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (name == kNames[i]) return static_cast<CollectiveKind>(i);
  }
  return absl::InvalidArgumentError(absl::StrCat("expected one of ", absl::StrJoin(kNames, ", "),
                                                 "; got '", Printable(name), "'"));
}

std::string CollectiveKindName(CollectiveKind kind) { return kNames[static_cast<int>(kind)]; }

}  // namespace mirrorflow
