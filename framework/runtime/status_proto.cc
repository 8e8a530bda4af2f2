// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/status_proto.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"

namespace mirrorflow {

proto::Status StatusToProto(const absl::Status& status) {
  proto::Status proto;
  proto.set_code(static_cast<int>(status.code()));
  proto.set_message(std::string(status.message()));
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) {
    (*proto.mutable_payloads())[std::string(type)] = std::string(payload);
  });
  return proto;
}

absl::Status StatusFromProto(const proto::Status& proto) {
  absl::Status status(static_cast<absl::StatusCode>(proto.code()), proto.message());
  for (const auto& [type, payload] : proto.payloads()) {
    status.SetPayload(type, absl::Cord(payload));
  }
  return status;
}

}  // namespace mirrorflow
