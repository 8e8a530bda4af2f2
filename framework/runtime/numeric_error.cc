// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/numeric_error.h"

#include <utility>

#include "absl/strings/cord.h"

namespace mirrorflow {
namespace {

constexpr char kPayloadType[] = "mirrorflow/numeric";

}  // namespace

absl::Status NumericError(absl::Status status) {
  if (!status.ok()) status.SetPayload(kPayloadType, absl::Cord("1"));
  return status;
}

bool IsNumericError(const absl::Status& status) {
  return status.GetPayload(kPayloadType).has_value();
}

}  // namespace mirrorflow
