// SPDX-License-Identifier: Apache-2.0
//
// EventLog: the history of a training, in `events.jsonl` in its checkpoint directory. The file
// outlives the processes: each appends to it, one JSON object per line.
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

// Thread-safe. Training does not depend on the file: events that cannot be written are dropped,
// with one warning.
class EventLog {
 public:
  explicit EventLog(const std::string& directory) : path_(directory + "/events.jsonl") {}

  // The launcher has restarted the job for the `count`-th time, because of `reason`, which may be
  // empty.
  void Restarted(int64_t count, absl::string_view reason) const;
  void Joined(int worker, absl::string_view host, int64_t process) const;
  // Training starts, or resumes, after `step`.
  void Started(int64_t step, int num_workers, int num_replicas) const;
  void Saved(int64_t step) const;
  // A cluster failure has ended training.
  void Lost(const absl::Status& failure) const;

 private:
  // Adds the time to `event`, an object.
  void Append(const nlohmann::ordered_json& event) const;

  const std::string path_;
  mutable std::atomic<bool> has_warned_{false};
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_CHECKPOINT_EVENT_LOG_H_
