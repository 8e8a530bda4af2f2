// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint/lost_directory.h"

#include "absl/strings/cord.h"

namespace mirrorflow {
namespace {

constexpr char kPayloadType[] = "mirrorflow/lost_directory";

}  // namespace

absl::Status LostDirectoryError(absl::string_view message) {
  absl::Status status = absl::AbortedError(message);
  status.SetPayload(kPayloadType, absl::Cord("1"));
  return status;
}

bool IsLostDirectory(const absl::Status& status) {
  return status.GetPayload(kPayloadType).has_value();
}

}  // namespace mirrorflow
