// SPDX-License-Identifier: Apache-2.0
//
// Carries an absl::Status, with its payloads, from one process to another.
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_STATUS_PROTO_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_STATUS_PROTO_H_

#include "absl/status/status.h"
#include "framework/proto/status.pb.h"

namespace mirrorflow {

proto::Status StatusToProto(const absl::Status& status);
absl::Status StatusFromProto(const proto::Status& proto);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_STATUS_PROTO_H_
