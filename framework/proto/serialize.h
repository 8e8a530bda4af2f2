// SPDX-License-Identifier: Apache-2.0
//
// Deterministic serialization: equal messages, even with maps, give equal bytes.
#ifndef MIRRORFLOW_FRAMEWORK_PROTO_SERIALIZE_H_
#define MIRRORFLOW_FRAMEWORK_PROTO_SERIALIZE_H_

#include <google/protobuf/message_lite.h>

#include <string>

#include "absl/status/statusor.h"

namespace mirrorflow {

// Returns the serialised message, or ResourceExhausted if it exceeds 2 GiB, protobuf's limit.
absl::StatusOr<std::string> SerializeDeterministically(
    const google::protobuf::MessageLite& message);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_PROTO_SERIALIZE_H_
