// SPDX-License-Identifier: Apache-2.0
//
// EventLog: the history of a training job, in `events.jsonl` in its checkpoint directory. Each
// process of the job appends to the file, one JSON object per line.
//
//   {"time":"2026-11-25T04:55:00.123Z","event":"saved","step":400}
#ifndef MIRRORFLOW_TRAIN_CHECKPOINT_EVENT_LOG_H_
#define MIRRORFLOW_TRAIN_CHECKPOINT_EVENT_LOG_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

namespace mirrorflow {

// Thread-safe. Training does not depend on the file: an event that cannot be written is dropped,
// and the first such event causes a warning.
class EventLog {
 public:
  explicit EventLog(const std::string& directory) : path_(directory + "/events.jsonl") {}

  // Records that the launcher has restarted the job for the `count`-th time. `reason` can be empty.
  void Restarted(int64_t count, absl::string_view reason) const;
  void Joined(int worker, absl::string_view host, int64_t process) const;
  // Records that training starts, or resumes, after `step`.
  void Started(int64_t step, int num_workers, int num_replicas) const;
  void Saved(int64_t step) const;
  // Records that a cluster failure has ended training.
  void Lost(const absl::Status& failure) const;

 private:
  // Appends `event`, a JSON object, with the current time.
  void Append(const nlohmann::ordered_json& event) const;

  const std::string path_;
  mutable std::atomic<bool> has_warned_{false};
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_CHECKPOINT_EVENT_LOG_H_
