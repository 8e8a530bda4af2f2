// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/coordination/answer.h"

#include <mutex>
#include <utility>

#include "distribute/cluster/coordination/coordination.pb.h"
#include "framework/runtime/status_proto.h"

namespace mirrorflow {

struct Answer::Shared {
  explicit Shared(absl::StatusOr<std::string> result) : result(std::move(result)) {}

  const absl::StatusOr<std::string> result;
  std::once_flag is_serialized;
  std::shared_ptr<const Body> reply;
};

Answer::Answer(absl::StatusOr<std::string> result)
    : shared_(std::make_shared<Shared>(std::move(result))) {}

const absl::StatusOr<std::string>& Answer::result() const { return shared_->result; }

std::shared_ptr<const Body> Answer::reply() const {
  std::call_once(shared_->is_serialized, [this] {
    coordination::Reply reply;
    *reply.mutable_status() = StatusToProto(status());
    if (result().ok()) reply.set_value(*result());
    shared_->reply = std::make_shared<const Body>(reply.SerializeAsString());
  });
  return shared_->reply;
}

}  // namespace mirrorflow
