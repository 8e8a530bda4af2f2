// SPDX-License-Identifier: Apache-2.0
//
// A WorkerGroup that forwards all calls to another WorkerGroup. Tests override the methods that
// they change.
#ifndef MIRRORFLOW_TESTS_SUPPORT_FORWARDING_WORKER_GROUP_H_
#define MIRRORFLOW_TESTS_SUPPORT_FORWARDING_WORKER_GROUP_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "framework/core/monotonic_time.h"
#include "framework/workers/worker_group.h"

namespace mirrorflow {

class ForwardingWorkerGroup : public WorkerGroup {
 public:
  explicit ForwardingWorkerGroup(WorkerGroup& group) : group_(group) {}

  int worker() const override { return group_.worker(); }
  int num_workers() const override { return group_.num_workers(); }
  absl::StatusOr<uint64_t> Join(MonotonicTime deadline) override { return group_.Join(deadline); }
  absl::Status Put(absl::string_view key, std::string value, MonotonicTime deadline) override {
    return group_.Put(key, std::move(value), deadline);
  }
  absl::Status PutForReaders(absl::string_view key, int readers, std::string value,
                             MonotonicTime deadline) override {
    return group_.PutForReaders(key, readers, std::move(value), deadline);
  }
  absl::StatusOr<std::string> Get(absl::string_view key, MonotonicTime deadline) override {
    return group_.Get(key, deadline);
  }
  absl::StatusOr<std::string> Watch(absl::string_view key) override { return group_.Watch(key); }
  absl::StatusOr<std::vector<std::string>> AllGather(absl::string_view name, std::string value,
                                                     MonotonicTime deadline) override {
    return group_.AllGather(name, std::move(value), deadline);
  }
  absl::Status ReportFailure(const absl::Status& cause, MonotonicTime deadline) override {
    return group_.ReportFailure(cause, deadline);
  }
  void OnFailure(std::function<void(const absl::Status&)> call) override {
    group_.OnFailure(std::move(call));
  }

 private:
  WorkerGroup& group_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_FORWARDING_WORKER_GROUP_H_
