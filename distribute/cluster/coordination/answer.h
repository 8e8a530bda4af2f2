// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_ANSWER_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_ANSWER_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "distribute/cluster/coordination/messages.h"

namespace mirrorflow {

// The answer to a call of the coordination service. Copies share one value. All workers of a
// cluster receive the same membership and gathered values, so these are serialized and hashed only
// once. Thread-safe.
class Answer {
 public:
  // Implicit, like the constructors of absl::StatusOr.
  Answer(absl::StatusOr<std::string> result);
  // If the status is OK, the value is empty.
  Answer(const absl::Status& status)
      : Answer(status.ok() ? absl::StatusOr<std::string>("") : status) {}
  Answer(std::string value) : Answer(absl::StatusOr<std::string>(std::move(value))) {}
  Answer(const char* value) : Answer(std::string(value)) {}

  const absl::StatusOr<std::string>& result() const;
  const absl::Status& status() const { return result().status(); }
  // Returns the answer as a serialized coordination::Reply.
  std::shared_ptr<const Body> reply() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_ANSWER_H_
