// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/communicator.h"

namespace mirrorflow {

absl::string_view CollectiveKindName(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return "all-reduce";
    case CollectiveKind::kReduceScatter:
      return "reduce-scatter";
    case CollectiveKind::kAllGather:
      return "all-gather";
    case CollectiveKind::kBroadcast:
      return "broadcast";
    case CollectiveKind::kUpdate:
      return "update";
    case CollectiveKind::kUpdateByProduct:
      return "update by product";
    case CollectiveKind::kBarrier:
      return "barrier";
  }
  return "unknown";
}

}  // namespace mirrorflow
